//! `completions`: prints the completion script for a shell.

use clap_complete::Shell;

use super::{Cli, World, args::tree};
use crate::error::Result;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel completions bash

Write the output to a file that the shell reads:
  bash  ~/.local/share/bash-completion/completions/rocwheel
  fish  ~/.config/fish/completions/rocwheel.fish
  zsh   _rocwheel, in a directory of $fpath")]
pub struct CompletionsArgs {
    /// Shell that reads the script
    shell: Shell,
}

pub fn run(args: &CompletionsArgs, world: &World) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut tree::<Cli>(), "rocwheel", &mut script);
    world.console.verbatim(&script)
}
