//! The command line of this process, and the tree of commands that reads it.

use std::{env, ffi::OsString};

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches,
    builder::BoolishValueParser,
    error::{ContextKind, ContextValue},
};

use super::{empty::without_empty, inputs};
use crate::{
    console::{Options, OutputFormat},
    error::Result,
};

/// The command line of this process, without arguments that are empty. `rocwheel action` is replaced
/// with the command line that the inputs of the step stand for.
pub(crate) fn line<C: CommandFactory>() -> Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = env::args_os().collect();
    let inputs = env::var(inputs::VARIABLE).unwrap_or_default();
    if !inputs.is_empty() && arguments.get(1..) == Some(&["action".into()]) {
        arguments = inputs::line(&inputs)?;
    }
    let is_empty = |it: &OsString| it.is_empty() || it.as_encoded_bytes().ends_with(b"=");
    if !arguments.iter().any(is_empty) {
        return Ok(arguments);
    }
    let mut root = C::command();
    root.build();
    Ok(without_empty(&root, arguments))
}

/// Parses a command line, or returns clap's error (which may be help or the version).
pub(crate) fn parse<C: CommandFactory + FromArgMatches>(
    arguments: &[OsString],
) -> Result<C, clap::Error> {
    let mut command = each_argument_of(C::command(), Some(arguments), &|argument| {
        without_idle_variable(shaped(argument))
    });
    let matches = command.try_get_matches_from_mut(arguments).map_err(|error| {
        // An argument of a command that was not built cannot be shown.
        command.build();
        without_escapes(with_origin(&command, error, arguments))
    })?;
    C::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Removes the tips of clap to pass a mistyped flag as a value, `-- --flag`: none of our arguments begins with `-`.
fn without_escapes(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.ansi().to_string().contains("as a value, use '"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Adds to an error which environment variable the bad value came from, if no flag gave it.
fn with_origin(root: &Command, mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let (Some(ContextValue::String(shown)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return error;
    };
    let is_of_the_line = |it: &OsString| it.to_string_lossy().contains(value.as_str());
    // clap builds only the commands that the line names, and prints no argument of the others.
    let mut root = root.clone();
    root.build();
    let variable = argument(&root, shown).and_then(Arg::get_env);
    let variable =
        variable.filter(|it| env::var(it).is_ok_and(|text| text.contains(value.as_str())));
    if let Some(variable) = variable.filter(|_| !arguments.iter().any(is_of_the_line)) {
        let tip = format!("the value comes from the environment variable `{}`", variable.display());
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// The argument that clap prints like this, of a command or of those below it: `--format <FORMAT>`.
fn argument<'a>(command: &'a Command, shown: &str) -> Option<&'a Arg> {
    let mut own = command.get_arguments();
    let own = own.find(|argument| argument.to_string() == shown);
    own.or_else(|| command.get_subcommands().find_map(|it| argument(it, shown)))
}

/// The global options of a command line that clap has rejected.
pub(crate) fn globals<C: CommandFactory>(arguments: &[OsString]) -> Options {
    let options = each_argument(C::command(), &|it| without_idle_variable(shaped(it)))
        .ignore_errors(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .try_get_matches_from(arguments)
        .ok()
        .and_then(|matches| Options::from_arg_matches(&matches).ok());
    let mut options = options.unwrap_or_default();
    // clap reads nothing behind the mistake, and a program that reads JSON needs the error too.
    let words = arguments.iter().map(|it| it.to_str().unwrap_or_default());
    let mut pairs = words.clone().zip(words.skip(1));
    let is_json = |(flag, value)| (flag, value) == ("--format", "json");
    if pairs.any(is_json) || arguments.iter().any(|it| it == "--format=json") {
        options.format = Some(OutputFormat::Json);
    }
    options
}

/// Ignores an environment variable that is set but empty: workflows pass an empty variable for a value
/// that is not given. Also one that says no to a switch: to clap it would contradict other flags.
fn without_idle_variable(argument: Arg) -> Arg {
    let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
    let is_no = |text: &str| ["0", "false", "f", "no", "n", "off"].contains(&text);
    let value = argument.get_env().and_then(env::var_os);
    let text = value.map(|value| value.to_string_lossy().to_lowercase());
    if text.is_some_and(|text| text.is_empty() || is_switch && is_no(&text)) {
        argument.env(None)
    } else {
        argument
    }
}

/// The command tree.
pub(crate) fn tree<C: CommandFactory>() -> Command {
    each_argument(C::command(), &shaped)
}

/// Arguments for which a command has no flags: they are what the variables say, or the defaults.
#[derive(Clone, Debug, derive_more::Deref)]
pub(crate) struct FromVariables<T>(T);

impl<T: Args> FromArgMatches for FromVariables<T> {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        let arguments = T::augment_args(Command::new("rocwheel"));
        let mut command = each_argument(arguments, &|it| without_idle_variable(shaped(it)));
        let matches = command
            .try_get_matches_from_mut(["rocwheel"])
            .map_err(|error| with_origin(&command, error, &[]))?;
        T::from_arg_matches(&matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Args> Args for FromVariables<T> {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// Leaves arguments out of `-h`.
pub(crate) fn unusual(argument: Arg, ids: &[&str]) -> Arg {
    let is_unusual = ids.contains(&argument.get_id().as_str());
    let is_hidden = is_unusual || argument.is_hide_short_help_set();
    argument.hide_short_help(is_hidden)
}

/// Gives an argument its variable in help. `-h` names no variable, and
/// `--help` no value of one, because some are secrets.
fn shaped(mut argument: Arg) -> Arg {
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        argument = argument.value_parser(BoolishValueParser::new());
    }
    let variable = argument.get_env().map(|it| it.display().to_string());
    if let Some(variable) = variable.filter(|_| !argument.is_hide_set()) {
        let long = argument.get_long_help().or(argument.get_help());
        let long = long.map(|it| it.ansi().to_string()).unwrap_or_default();
        argument = argument.long_help(format!("{long}\n\n[env: {variable}]"));
    }
    argument.hide_env(true)
}

fn each_argument(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    each_argument_of(command, None, change)
}

/// With a command line, leaves the subcommands as they are that it does not name: there are many, and
/// this is done at each start.
fn each_argument_of(
    command: Command,
    line: Option<&[OsString]>,
    change: &dyn Fn(Arg) -> Arg,
) -> Command {
    command.mut_args(change).mut_subcommands(|below| {
        let is_named = line.is_none_or(|line| {
            let mut names = below.get_all_aliases().chain([below.get_name()]);
            names.any(|name| line.iter().any(|it| it == name))
        });
        if is_named { each_argument_of(below, line, change) } else { below }
    })
}
