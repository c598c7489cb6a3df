//! `completions` and `man`: the command line in a form for shells and for `man`.

use clap_complete::Shell;

use clap::CommandFactory as _;

use super::{Cli, World};
use rocwheel_base::error::{Context as _, Hint as _, Result};

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

pub fn completions(args: &CompletionsArgs, world: &World) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rocwheel", &mut script);
    world.console.verbatim(&script)
}

/// Print a manual page in roff format
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel man
  rocwheel man build")]
pub struct ManArgs {
    /// Command to describe [default: rocwheel itself]
    verb: Option<String>,
}

pub fn man(args: &ManArgs, world: &World) -> Result<()> {
    let mut root = Cli::command();
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
