//! The command line of this process. Environment variables replace flags that were not given.

use std::{collections::BTreeSet, env, ffi::OsString};

use clap::{
    Arg, ArgAction, Command, CommandFactory, FromArgMatches,
    builder::{BoolishValueParser, OsStringValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};

use super::{empty::without_empty, inputs};
use crate::{console::Options, error::Result};

/// The command line of this process. `action` is replaced with the command line that the inputs of
/// the step stand for.
pub(crate) fn line<C: CommandFactory>() -> Result<Vec<OsString>> {
    let arguments: Vec<OsString> = env::args_os().collect();
    let inputs = env::var(inputs::VARIABLE).unwrap_or_default();
    if inputs.is_empty() || arguments.get(1..) != Some(&["action".into()]) {
        let is_empty = |it: &OsString| it.is_empty() || it.as_encoded_bytes().ends_with(b"=");
        if !arguments.iter().any(is_empty) {
            return Ok(arguments);
        }
        let mut root = C::command();
        root.build();
        return Ok(without_empty(&root, arguments));
    }
    inputs::line(C::command(), &inputs)
}

/// Parses a command line, or returns clap's error (which may be help or the version).
pub(crate) fn parse<C: CommandFactory + FromArgMatches>(
    arguments: &[OsString],
) -> Result<C, clap::Error> {
    // To clap, an environment variable conflicts with a flag just as another flag would. Here the
    // flag wins: the line is parsed again without the variable. Each turn ignores one more
    // variable, so the loop ends.
    let mut silent = BTreeSet::new();
    loop {
        let mut command = each_argument_of(C::command(), Some(arguments), &|argument| {
            let argument = with_variable(argument);
            let is_silent = |it| silent.contains(it);
            if is_idle(&argument) || variable(&argument).is_some_and(is_silent) {
                return argument.env(None);
            }
            argument
        });
        let error = match command.try_get_matches_from_mut(arguments) {
            Ok(matches) => {
                return C::from_arg_matches(&matches).map_err(|error| error.format(&mut command));
            }
            Err(error) => error,
        };
        match error.kind() {
            // Help names every variable, also those that are ignored here.
            ErrorKind::DisplayHelp => {
                let help = tree::<C>().try_get_matches_from(arguments);
                return Err(help.err().unwrap_or(error));
            }
            ErrorKind::ArgumentConflict
                if yielding::<C>(&error, arguments).is_some_and(|it| silent.insert(it)) => {}
            _ => return Err(with_origin::<C>(error, arguments)),
        }
    }
}

/// If a flag and an environment variable contradict each other, the name of the variable, which
/// gives way to the flag. `None` if both are flags, or both are variables.
fn yielding<C: CommandFactory>(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let matches = without_variables(tree::<C>(), |_| true)
        .ignore_errors(true)
        .try_get_matches_from(arguments)
        .ok()?;
    let (verb, matches) = matches.subcommand()?;
    let mut root = tree::<C>();
    root.build();
    let verb = root.find_subcommand(verb)?;
    let kinds = [ContextKind::InvalidArg, ContextKind::PriorArg];
    let shown = kinds.iter().filter_map(|kind| error.get(*kind));
    let shown = shown.flat_map(|value| match value {
        ContextValue::String(one) => std::slice::from_ref(one),
        ContextValue::Strings(several) => several,
        _ => &[],
    });
    let named = shown.filter_map(|shown| argument(verb, shown));
    let (given, others): (Vec<&Arg>, Vec<&Arg>) = named.partition(|argument| {
        let source = matches.value_source(argument.get_id().as_str());
        source == Some(ValueSource::CommandLine)
    });
    let other = others.first().filter(|_| !given.is_empty())?;
    variable(other).map(str::to_owned)
}

/// Adds to an error which environment variable the bad value came from, if no flag gave it.
fn with_origin<C: CommandFactory>(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let mut root = tree::<C>();
    root.build();
    if let Some(ContextValue::String(culprit)) = error.get(ContextKind::InvalidArg)
        && let Some(argument) = argument(&root, culprit)
        && let Some(variable) = variable(argument)
        && env::var_os(variable).is_some()
        && !is_given::<C>(argument, arguments)
    {
        let tip = format!("the value comes from the environment variable `{variable}`");
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// Whether an argument is on the command line, with any value.
fn is_given<C: CommandFactory>(argument: &Arg, arguments: &[OsString]) -> bool {
    // Any text is a value here: a bad value must not hide its flag.
    let lenient = each_argument(without_variables(tree::<C>(), |_| true), &|argument| {
        if argument.get_action().takes_values() {
            argument.value_parser(OsStringValueParser::new())
        } else {
            argument
        }
    });
    let matches = lenient.ignore_errors(true).try_get_matches_from(arguments);
    let Ok(root) = matches else {
        return false;
    };
    let mut matches = &root;
    while let Some((_, below)) = matches.subcommand() {
        matches = below;
    }
    let id = argument.get_id().as_str();
    matches.try_contains_id(id).is_ok()
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The argument that clap prints like this, of a command or of those below it: `--format <FORMAT>`.
fn argument<'a>(command: &'a Command, shown: &str) -> Option<&'a Arg> {
    let mut own = command.get_arguments();
    let own = own.find(|argument| argument.to_string() == shown);
    own.or_else(|| command.get_subcommands().find_map(|it| argument(it, shown)))
}

fn variable(argument: &Arg) -> Option<&str> {
    argument.get_env()?.to_str()
}

/// The global options of a command line that clap has rejected.
pub(crate) fn globals<C: CommandFactory>(arguments: &[OsString]) -> Options {
    without_variables(tree::<C>(), is_idle)
        .ignore_errors(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .try_get_matches_from(arguments)
        .ok()
        .and_then(|matches| Options::from_arg_matches(&matches).ok())
        .unwrap_or_default()
}

/// Whether an environment variable is to be ignored because it is set but empty: workflows pass an
/// empty variable for a value that is not given. Also if it says no to a switch: otherwise clap
/// would report a conflict with flags that only contradict a switch that is on.
fn is_idle(argument: &Arg) -> bool {
    let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
    let is_no = |text: String| ["0", "false", "f", "no", "n", "off"].contains(&text.as_str());
    let value = argument.get_env().and_then(env::var_os);
    let text = value.map(|value| value.to_string_lossy().to_lowercase());
    text.is_some_and(|text| text.is_empty() || is_switch && is_no(text))
}

/// Ignores some environment variables.
fn without_variables(command: Command, is_ignored: impl Fn(&Arg) -> bool) -> Command {
    each_argument(command, &|argument| {
        if is_ignored(&argument) {
            argument.env(None)
        } else {
            argument
        }
    })
}

/// The options that only `--help` lists, and not `-h`: few people need them, and they are the same
/// in every command. Those of the check are in the `-h` of `check`.
const RARE: [&str; 3] = ["S3 options", "GitHub options", "Check options"];

/// The letter of a flag that many commands have.
fn letter(flag: &str) -> Option<char> {
    match flag {
        "output-dir" | "dest-dir" => Some('o'),
        "dry-run" => Some('n'),
        _ => None,
    }
}

/// The command tree. Every visible flag that names no variable of its own has `ROCWHEEL_{FLAG}`:
/// `--output-dir` has `ROCWHEEL_OUTPUT_DIR`. Help shows only the names of variables and hides their
/// values, because some are secrets.
pub(crate) fn tree<C: CommandFactory>() -> Command {
    each_argument(C::command(), &with_variable)
}

/// Gives an argument its variable, its letter and its default in help.
fn with_variable(mut argument: Arg) -> Arg {
    let has_own = argument.get_env().is_some() || argument.is_hide_set();
    if let Some(flag) = argument.get_long().filter(|_| !has_own) {
        let variable = format!("ROCWHEEL_{}", flag.to_uppercase());
        argument = argument.env(variable.replace('-', "_"));
    }
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        argument = argument.value_parser(BoolishValueParser::new());
    }
    if let Some(letter) = argument.get_long().and_then(letter) {
        argument = argument.short(letter);
    }
    // Not `to_string`, which looks for colors in every help text at each start.
    let help = argument.get_help().map(|it| it.ansi().to_string());
    if let Some(help) = help.as_deref().and_then(with_default) {
        argument = argument.help(help);
    }
    let heading = argument.get_help_heading().unwrap_or_default();
    let is_rare = RARE.contains(&heading);
    argument.hide_env_values(true).hide_short_help(is_rare)
}

/// A default that the help says in words, in the form in which clap shows the others: `(default: `ci`)`
/// becomes `[default: ci]`.
fn with_default(help: &str) -> Option<String> {
    let (before, rest) = help.split_once("(default: ")?;
    let (default, after) = rest.split_once(')')?;
    let shown = format!("{before}[default: {}]{after}", default.replace('`', ""));
    (!default.contains('(')).then_some(shown)
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
        if is_named {
            each_argument_of(below, line, change)
        } else {
            below
        }
    })
}
