//! The command line of this process, with the environment standing in for absent flags.

use std::{env, ffi::OsString};

use clap::{
    Arg, Command, CommandFactory, FromArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::{GlobalArgs, inputs};
use crate::error::Result;

/// The command line of this process; `action` stands for the one that a step's inputs make.
pub(crate) fn line<C: CommandFactory>() -> Result<Vec<OsString>> {
    let arguments: Vec<OsString> = env::args_os().collect();
    let inputs = env::var(inputs::VARIABLE).unwrap_or_default();
    if inputs.is_empty() || arguments.get(1..) != Some(&["action".into()]) {
        return Ok(arguments);
    }
    inputs::line(C::command(), &inputs)
}

/// What a command line says, or what clap has to say instead.
pub(crate) fn parse<C: CommandFactory + FromArgMatches>(
    arguments: &[OsString],
) -> Result<C, clap::Error> {
    let mut command = without_empty_variables(C::command());
    let matches = command
        .try_get_matches_from_mut(arguments)
        .map_err(|error| match error.kind() {
            // Help names every variable, whatever its value.
            ErrorKind::DisplayHelp => tidy(C::command())
                .try_get_matches_from(arguments)
                .err()
                .unwrap_or(error),
            _ => with_origin::<C>(error, arguments),
        })?;
    C::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The error, and where the value came from if no flag gave it.
fn with_origin<C: CommandFactory>(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let without_variables = each_argument(C::command(), &|argument| argument.env(None));
    let same_without = without_variables
        .try_get_matches_from(arguments)
        .is_err_and(|other| other.to_string() == error.to_string());
    let Some(ContextValue::String(culprit)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let mut command = C::command();
    command.build();
    if let Some(variable) = variable_of(&command, culprit)
        && !same_without
    {
        let tip = format!("the value comes from the environment variable `{variable}`");
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// The variable of an argument as clap writes it: `--format <FORMAT>`.
fn variable_of(command: &Command, argument: &str) -> Option<String> {
    command
        .get_arguments()
        .find(|own| own.to_string() == argument)
        .and_then(|own| own.get_env()?.to_str().map(str::to_owned))
        .or_else(|| {
            let mut below = command.get_subcommands();
            below.find_map(|command| variable_of(command, argument))
        })
}

/// The global options of a command line that is otherwise refused.
pub(crate) fn globals<C: CommandFactory>(arguments: &[OsString]) -> GlobalArgs {
    without_empty_variables(C::command())
        .ignore_errors(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .try_get_matches_from(arguments)
        .ok()
        .and_then(|matches| GlobalArgs::from_arg_matches(&matches).ok())
        .unwrap_or_default()
}

/// A variable that is set and empty is as good as unset: that is how workflows pass nothing.
fn without_empty_variables(command: Command) -> Command {
    each_argument(tidy(command), &|argument| {
        let empty = argument
            .get_env()
            .is_some_and(|name| env::var_os(name).is_some_and(|value| value.is_empty()));
        if empty { argument.env(None) } else { argument }
    })
}

/// Help shows the names of variables but not their values, some of which are secrets.
pub(crate) fn tidy(command: Command) -> Command {
    each_argument(command, &|argument| argument.hide_env_values(true))
}

fn each_argument(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    command
        .mut_args(change)
        .mut_subcommands(|command| each_argument(command, change))
}
