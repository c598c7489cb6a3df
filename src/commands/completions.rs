//! `completions`: a script for a shell.

use clap_complete::Shell;

use super::World;
use crate::error::Result;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell that will read it
    shell: Shell,
}

pub fn run(args: &Args, world: &World) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "rocwheel", &mut script);
    world.console.verbatim(&script)
}
