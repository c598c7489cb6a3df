//! `action`: the command that `action.yml` runs.
//!
//! `args/inputs` turns the inputs of a step into the command line of another command. So this one
//! is reached only without inputs, and then lists which inputs there are.

use std::collections::BTreeMap;

use clap::{Arg, Command};
use serde::Serialize;

use super::{
    World,
    args::inputs::{InputKind, arguments, name, verbs},
};
use crate::error::{Context, Result};

/// Run the command that `ROCWHEEL_INPUTS` holds as JSON; without it, list the inputs there are
#[derive(Debug, clap::Args)]
pub struct ActionArgs {}

pub fn run(_args: &ActionArgs, world: &World) -> Result<()> {
    let mut root = super::command();
    root.build();
    let inputs =
        serde_json::to_string_pretty(&inputs(&root)).context("failed to render the inputs")?;
    world.console.data(inputs)
}

/// An input, and what it means for each command that has it.
#[derive(Debug, Serialize)]
struct Input {
    kind: InputKind,
    verbs: BTreeMap<String, Meaning>,
}

#[derive(Debug, Serialize)]
struct Meaning {
    help: String,
    default: Option<String>,
    choices: Vec<String>,
}

fn inputs(root: &Command) -> BTreeMap<String, Input> {
    let mut inputs: BTreeMap<String, Input> = BTreeMap::new();
    for verb in verbs(root) {
        for argument in arguments(verb) {
            let input = inputs.entry(name(argument)).or_insert_with(|| Input {
                kind: InputKind::of(argument),
                verbs: BTreeMap::new(),
            });
            let meaning = Meaning::of(argument);
            input.verbs.insert(verb.get_name().to_owned(), meaning);
        }
    }
    inputs
}

impl Meaning {
    fn of(argument: &Arg) -> Self {
        let defaults = argument.get_default_values().iter();
        let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
        let choices = argument.get_possible_values().into_iter();
        let says = |kind| matches!(kind, InputKind::One | InputKind::Many);
        Self {
            help: argument
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default(),
            default: (says(InputKind::of(argument)) && !defaults.is_empty())
                .then(|| defaults.join(",")),
            choices: choices
                .filter(|_| says(InputKind::of(argument)))
                .map(|choice| choice.get_name().to_owned())
                .collect(),
        }
    }
}
