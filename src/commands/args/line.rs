//! The command line of this process, and what clap does not do with it.

use std::{env, ffi::OsString};

use clap::{
    Arg, CommandFactory, Parser, ValueEnum,
    error::{ContextKind, ContextValue},
};

use super::{Variables, empty::without_empty, inputs};
use crate::console::Options;
use rocwheel_base::error::Result;

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
pub(crate) fn parse<C: Parser>(line: &[OsString]) -> Result<C, clap::Error> {
    C::try_parse_from(line).map_err(without_escapes)
}

/// Removes the tips of clap to pass a mistyped flag as a value, `-- --flag`: none of our arguments begins with `-`.
fn without_escapes(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.ansi().to_string().contains("as a value, use '"));
        // Clap prints an empty line for a list without tips.
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

/// How a message about a command line that clap has rejected is printed.
///
/// clap gives no matches with an error. Parsing the line once more while ignoring errors reads no flag behind
/// the mistake, but a program that reads JSON needs the error as JSON, and a terminal without colors needs it
/// without colors, wherever the flag stands. So the flags that matter are looked for by name.
pub(crate) fn options_of_rejected(line: &[OsString], variables: &Variables<'_>) -> Options {
    let mut options = Options {
        format: last_value(line, "--format"),
        json: line.iter().any(|word| word == "--json"),
        color: last_value(line, "--color"),
        ..Options::default()
    };
    // An error in a variable is ignored here: the user corrects the command line first, and the next run reports
    // the variable.
    let _ = options.read_variables(variables);
    options
}

/// The last value of a flag in a line: `--color never`, `--color=never`.
fn last_value<T: ValueEnum>(line: &[OsString], flag: &str) -> Option<T> {
    let words: Vec<&str> = line.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let at = words.iter().rposition(|word| word.split('=').next() == Some(flag))?;
    let value = match words[at].split_once('=') {
        Some((_, value)) => value,
        None => words.get(at + 1)?,
    };
    T::from_str(value, false).ok()
}

/// Leaves arguments out of `-h`.
pub(crate) fn unusual(argument: Arg, ids: &[&str]) -> Arg {
    let is_unusual = ids.contains(&argument.get_id().as_str());
    let is_hidden = is_unusual || argument.is_hide_short_help_set();
    argument.hide_short_help(is_hidden)
}
