//! Removes empty values from a command line. Workflows pass an empty string for an input that was
//! not given, `--repository ""`, and mean that the flag is absent.
//!
//! This happens before clap, because a value parser cannot say that its flag is absent: the default would not
//! apply, and clap would see a conflict, or a requirement that is met. It asks the tree of commands which flags
//! take a value: in `upload --dry-run ""`, the empty argument is a set, and the switch must stay.

use std::{ffi::OsString, iter::Peekable};

use clap::{Arg, Command};

/// The flags of `upload` that say where it writes. An empty value is an error, because without the
/// flag `upload` would write to the bucket of the run.
const DESTINATIONS: [&str; 2] = ["to", "output-dir"];

/// The command line without empty arguments, and without flags whose only value is empty, except
/// where `upload` writes. `root` must be built.
pub(crate) fn without_empty(root: &Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let mut command = root;
    // Behind `--`, each argument is positional.
    let mut are_flags = true;
    let mut rest = arguments.into_iter().peekable();
    let mut line: Vec<OsString> = rest.next().into_iter().collect();
    while let Some(argument) = rest.next() {
        if argument.is_empty() {
            continue;
        }
        let word = argument.to_str().unwrap_or_default();
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let flag = flag(command, name).filter(|_| are_flags);
        let is_destination = command.get_name() == "upload"
            && flag.and_then(Arg::get_long).is_some_and(|it| DESTINATIONS.contains(&it));
        match (flag, value) {
            (Some(_), _) if is_destination => {
                // An empty value stays, so that clap refuses it.
                let is_value_next = value.is_none();
                line.push(argument);
                line.extend(rest.next_if(|_| is_value_next));
            }
            (Some(_), Some("")) => {}
            (Some(flag), None) => take_values(flag, argument, &mut rest, &mut line),
            _ => {
                are_flags &= word != "--";
                let below = command.find_subcommand(word).filter(|_| are_flags);
                command = below.unwrap_or(command);
                line.push(argument);
            }
        }
    }
    line
}

/// Moves a flag and its first value from `rest` to the line, without its empty values. A flag that has only empty
/// values is dropped. The caller moves the other values.
fn take_values(
    flag: &Arg,
    argument: OsString,
    rest: &mut Peekable<impl Iterator<Item = OsString>>,
    line: &mut Vec<OsString>,
) {
    let takes_many = flag.get_num_args().is_some_and(|count| count.max_values() > 1);
    let mut has_dropped = false;
    while (takes_many || !has_dropped) && rest.next_if(|value| value.is_empty()).is_some() {
        has_dropped = true;
    }
    let is_value = |next: &OsString| !next.to_str().unwrap_or_default().starts_with('-');
    let has_more = takes_many && rest.peek().is_some_and(is_value);
    if has_dropped && !has_more {
        return;
    }
    line.push(argument);
    // Moved here and not by the caller, which would take a value such as `build` for a command.
    line.extend(rest.next_if(is_value));
}

/// The flag of a command that takes a value and has this name: `--jobs`, `-j`.
fn flag<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let long = name.strip_prefix("--");
    let mut letters = name.strip_prefix('-').unwrap_or_default().chars();
    let short = letters.next().filter(|_| letters.next().is_none());
    command.get_arguments().find(|argument| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        let is_long =
            long.is_some_and(|it| argument.get_long() == Some(it) || aliases.contains(&it));
        let is_short = short.is_some() && argument.get_short() == short;
        argument.get_action().takes_values() && (is_long || is_short)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A verb with arguments of each kind, one of which has a value like a command's name.
    #[derive(Debug, clap::Parser)]
    #[command(name = "rocwheel")]
    struct Probe {
        #[arg(long, global = true)]
        color: Option<String>,
        #[command(subcommand)]
        verb: Verb,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Verb {
        Upload {
            #[arg(long)]
            output_dir: Option<String>,
            #[arg(long)]
            bucket: Option<String>,
        },
        Build {
            files: Vec<String>,
            #[arg(short, long, alias = "threads")]
            jobs: Option<String>,
            #[arg(long, num_args = 1..)]
            exclude: Vec<String>,
            #[arg(long)]
            plan: bool,
        },
        Look,
    }

    fn shown(line: &[&str]) -> String {
        let mut root = <Probe as clap::CommandFactory>::command();
        root.build();
        let line = ["rocwheel"].iter().chain(line).map(OsString::from);
        let line = without_empty(&root, line.collect());
        let words: Vec<_> = line.iter().map(|it| it.to_str().unwrap()).collect();
        words[1..].join(" ")
    }

    #[test]
    fn empty_values_are_not_given() {
        let table: [(&[&str], &str); 16] = [
            (&["upload", "--bucket", "", "--output-dir", ""], "upload --output-dir "),
            (&["upload", "--output-dir=", "--bucket="], "upload --output-dir="),
            (&["build", "--jobs", "", "x"], "build x"),
            (&["build", "--jobs=", "x"], "build x"),
            (&["build", "-j", ""], "build"),
            (&["build", "--threads", "", "--plan"], "build --plan"),
            (&["--color", "", "build", "x"], "build x"),
            (&["build", "--color="], "build"),
            (&["build", "", "x", ""], "build x"),
            (&["build", "--", "", "--jobs", ""], "build -- --jobs"),
            (&["build", "--exclude", "", "x"], "build --exclude x"),
            (&["build", "--exclude", "", "", "--plan"], "build --plan"),
            (&["build", "--exclude", "a", "", "b"], "build --exclude a b"),
            // A flag without a value is an error that clap reports.
            (&["build", "--jobs"], "build --jobs"),
            (&["build", "--plan=", "--no-such="], "build --plan= --no-such="),
            (&["--color", "build", "look", "--jobs="], "--color build look --jobs="),
        ];
        for (line, expected) in table {
            assert_eq!(shown(line), expected);
        }
    }
}
