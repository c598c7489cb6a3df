//! `man`: prints a manual page.

use super::{Cli, World, args::tree};
use crate::error::{Context, Hint, Result};

/// Print a manual page in roff format
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel man
  rocwheel man build")]
pub struct ManArgs {
    /// Command to describe (default: rocwheel itself)
    verb: Option<String>,
}

pub fn run(args: &ManArgs, world: &World) -> Result<()> {
    let mut root = tree::<Cli>();
    root.build();
    let command = match &args.verb {
        None => &root,
        Some(verb) => root
            .find_subcommand(verb)
            .with_context(|| format!("no such verb: `{verb}`"))
            .hint("`rocwheel --help` lists the verbs")?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .source(format!("rocwheel {}", super::version()))
        .render(&mut page)
        .context("failed to render the manual page")?;
    world.console.verbatim(&page)
}
