//! `action`, `completions` and `man`: the hidden commands that print the command line in a form for
//! GitHub Actions, for shells and for `man`.
//!
//! A step of `action.yml` runs `action`, but `args/inputs` turns the inputs of the step into the
//! command line of another command. So `action` itself is reached only without inputs, and then
//! lists which inputs there are.

use std::collections::BTreeMap;

use clap::{Arg, Command, builder::PossibleValue};
use clap_complete::Shell;
use itertools::Itertools as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Cli, World,
    args::{
        inputs::{InputKind, arguments, name, verbs},
        tree,
    },
};
use crate::error::{Context as _, Hint as _, Result};

/// Run the command that `ROCWHEEL_INPUTS` holds as JSON; without it, list the inputs there are
#[derive(Debug, clap::Args)]
pub struct ActionArgs {}

pub fn action(world: &World) -> Result<()> {
    let mut root = tree::<Cli>();
    root.build();
    let inputs =
        serde_json::to_string_pretty(&inputs(&root)).context("failed to render the inputs")?;
    world.console.data(inputs)
}

/// An input, and what it means for each command that has it.
#[derive(Debug, Serialize)]
struct Input {
    kind: InputKind,
    verbs: BTreeMap<String, Value>,
}

fn inputs(root: &Command) -> BTreeMap<String, Input> {
    let mut inputs: BTreeMap<String, Input> = BTreeMap::new();
    for verb in verbs(root) {
        for argument in arguments(verb) {
            let input = inputs.entry(name(argument)).or_insert_with(|| Input {
                kind: InputKind::of(argument),
                verbs: BTreeMap::new(),
            });
            let meaning = meaning(argument);
            input.verbs.insert(verb.get_name().to_owned(), meaning);
        }
    }
    inputs
}

fn meaning(argument: &Arg) -> Value {
    let has_values = matches!(InputKind::of(argument), InputKind::One | InputKind::Many);
    let defaults = argument.get_default_values().iter();
    let defaults = defaults.map(|value| value.to_string_lossy()).join(",");
    let mut choices = argument.get_possible_values();
    choices.retain(|_| has_values);
    let choices: Vec<&str> = choices.iter().map(PossibleValue::get_name).collect();
    json!({
        "help": argument.get_help().map(ToString::to_string).unwrap_or_default(),
        "default": Some(defaults).filter(|it| has_values && !it.is_empty()),
        "choices": choices,
    })
}

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
    clap_complete::generate(args.shell, &mut tree::<Cli>(), "rocwheel", &mut script);
    world.console.verbatim(&script)
}

/// Print a manual page in roff format
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel man
  rocwheel man build")]
pub struct ManArgs {
    /// Command to describe (default: rocwheel itself)
    verb: Option<String>,
}

pub fn man(args: &ManArgs, world: &World) -> Result<()> {
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
