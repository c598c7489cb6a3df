//! Turns the inputs of a step of GitHub Actions, which `action.yml` passes as JSON, into a command
//! line.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use itertools::Itertools as _;
use serde_json::{Map, Value};

use crate::error::{Context as _, Hint as _, Result, anyhow, bail, ensure, hinted};

/// The environment variable with the inputs, as a JSON object.
pub(crate) const VARIABLE: &str = "ROCWHEEL_INPUTS";

/// Inputs that do not become flags, because `action.yml` itself handles them. The token is passed
/// in its environment variable.
const APART: [&str; 5] = [
    "command",
    "binary",
    "build-from-source",
    "working-directory",
    "github-token",
];

/// The values that an input may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum InputKind {
    /// `true` or `false`.
    Switch,
    /// A number, or `true` for one.
    Count,
    One,
    /// One value per line.
    Many,
}

impl InputKind {
    pub(crate) fn of(argument: &Arg) -> Self {
        let several = argument
            .get_num_args()
            .is_some_and(|count| count.max_values() > 1);
        match argument.get_action() {
            ArgAction::SetTrue | ArgAction::SetFalse => Self::Switch,
            ArgAction::Count => Self::Count,
            ArgAction::Append => Self::Many,
            _ if several || argument.get_value_delimiter().is_some() => Self::Many,
            _ => Self::One,
        }
    }
}

/// The commands that print this program's own command line, of which no step has any use.
const ABOUT_ITSELF: [&str; 2] = ["completions", "man"];

/// The commands that a step can run.
pub(crate) fn verbs(root: &Command) -> impl Iterator<Item = &Command> {
    // `check` works without its subcommand `explain`; `kpack` does nothing without one.
    let is_verb = |it: &Command| !it.has_subcommands() || it.is_subcommand_negates_reqs_set();
    root.get_subcommands()
        .filter(move |command| !command.is_hide_set() && is_verb(command))
        .filter(|command| !ABOUT_ITSELF.contains(&command.get_name()))
}

/// The arguments of a command that can be inputs.
pub(crate) fn arguments(verb: &Command) -> impl Iterator<Item = &Arg> {
    verb.get_arguments().filter(|argument| {
        let says_what_it_is = matches!(
            argument.get_action(),
            ArgAction::Help | ArgAction::HelpLong | ArgAction::HelpShort | ArgAction::Version
        );
        !argument.is_hide_set() && !says_what_it_is
    })
}

/// The name of an argument as an input: that of its flag, or else of its environment variable.
pub(crate) fn name(argument: &Arg) -> String {
    let of_variable = || {
        let variable = argument.get_env()?.to_str()?;
        let name = variable.strip_prefix("ROCWHEEL_").unwrap_or(variable);
        Some(name.to_lowercase().replace('_', "-"))
    };
    let flag = argument.get_long().map(str::to_owned);
    flag.or_else(of_variable)
        .unwrap_or_else(|| argument.get_id().to_string())
}

/// The command line for a set of inputs. An empty input counts as not given.
pub(crate) fn line(mut root: Command, json: &str) -> Result<Vec<OsString>> {
    root.build();
    let inputs: Map<String, Value> =
        serde_json::from_str(json).with_context(|| format!("failed to read `{VARIABLE}`"))?;
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    let command = inputs.get("command").map(text).unwrap_or_default();
    let verb = verbs(&root).find(|verb| verb.get_name() == command);
    let verb = verb
        .with_context(|| format!("no such command for a step: `{command}`"))
        .hint(format!(
            "the commands are {}",
            verbs(&root).map(Command::get_name).join(", ")
        ))?;
    let mut line = vec![root.get_name().to_owned(), verb.get_name().to_owned()];
    let mut positional = Vec::new();
    for (input, value) in &inputs {
        let value = text(value);
        if value.is_empty() || APART.contains(&input.as_str()) {
            continue;
        }
        let has = |verb: &Command| arguments(verb).find(|it| name(it) == *input).cloned();
        let Some(argument) = has(verb) else {
            let error = anyhow!("`{}` has no input `{input}`", verb.get_name());
            let others = verbs(&root).filter(|other| has(other).is_some());
            let others = others.map(Command::get_name).join(", ");
            return Err(if others.is_empty() {
                error
            } else {
                hinted(error, format!("it is an input of {others}"))
            });
        };
        let values = values(&argument, &value)
            .with_context(|| format!("failed to read the input `{input}`"))?;
        match (argument.get_long(), InputKind::of(&argument)) {
            (Some(flag), InputKind::Switch | InputKind::Count) => {
                line.extend(values.iter().map(|_| format!("--{flag}")));
            }
            (Some(flag), _) => line.extend(values.iter().map(|it| format!("--{flag}={it}"))),
            (None, _) => positional.extend(values),
        }
    }
    line.push("--".to_owned());
    line.extend(positional);
    Ok(line.into_iter().map(OsString::from).collect())
}

/// The values of an argument. A switch or a count has an empty value for each time that its flag is
/// to be repeated.
fn values(argument: &Arg, text: &str) -> Result<Vec<String>> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let times = match (InputKind::of(argument), text) {
        (InputKind::Many, _) => return Ok(lines().map(str::to_owned).collect()),
        (InputKind::One, _) => {
            ensure!(lines().count() == 1, "more than one line");
            return Ok(vec![text.to_owned()]);
        }
        (_, "true") => 1,
        (_, "false") => 0,
        (InputKind::Count, _) => text
            .parse::<u8>()
            .ok()
            .with_context(|| format!("neither a number nor `true` or `false`: `{text}`"))?,
        (InputKind::Switch, _) => bail!("neither `true` nor `false`: `{text}`"),
    };
    Ok(vec![String::new(); usize::from(times)])
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::error::render;

    /// A verb with an argument of each kind.
    #[derive(Debug, clap::Parser)]
    #[command(name = "rocwheel")]
    struct Probe {
        #[arg(short, long, global = true, action = ArgAction::Count)]
        verbose: u8,
        #[command(subcommand)]
        verb: Verb,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Verb {
        Build {
            #[arg(env = "ROCWHEEL_PACKAGES_DIR")]
            directory: Option<PathBuf>,
            include: Vec<String>,
            #[arg(long)]
            dest_dir: Option<PathBuf>,
            #[arg(long, value_delimiter = ',')]
            only: Vec<String>,
            #[arg(long, num_args = 1..)]
            exclude: Vec<String>,
            #[arg(long)]
            plan: bool,
            #[arg(long, hide = true)]
            secret: bool,
        },
        Look {
            #[arg(long)]
            at: Option<String>,
        },
        #[command(hide = true)]
        Man,
    }

    fn told(json: &str) -> String {
        let root = <Probe as clap::CommandFactory>::command();
        match line(root, json) {
            Ok(line) => format!("{line:?}"),
            Err(error) => render(&error),
        }
    }

    #[test]
    fn every_kind_of_input_becomes_arguments() {
        let json = r#"{"command": "build", "binary": "x", "github-token": "t", "working-directory": ".",
            "packages-dir": "p q", "include": "_lib_\n\n  _run_ \n", "dest-dir": "a=b\n", "only": "core,meta\ndevel",
            "exclude": "x\ny", "plan": "true", "verbose": "2", "unknown": " \n"}"#;
        insta::assert_snapshot!(told(json), @r#"["rocwheel", "build", "--dest-dir=a=b", "--only=core,meta", "--only=devel", "--exclude=x", "--exclude=y", "--plan", "--verbose", "--verbose", "--", "p q", "_lib_", "_run_"]"#);
    }

    #[test]
    fn no_value_can_be_taken_for_a_flag() {
        let json = r#"{"command": "build", "dest-dir": "--plan", "packages-dir": "--secret"}"#;
        insta::assert_snapshot!(told(json), @r#"["rocwheel", "build", "--dest-dir=--plan", "--", "--secret"]"#);
    }

    #[test]
    fn what_is_empty_or_false_was_not_given() {
        let json = r#"{"command": "build", "plan": "false", "verbose": false, "only": "", "dest-dir": null}"#;
        insta::assert_snapshot!(told(json), @r#"["rocwheel", "build", "--"]"#);
    }

    #[test]
    fn inputs_that_cannot_be_obeyed_are_refused_in_words() {
        let refused = [
            r#"{"command": "biuld"}"#,
            r#"{"command": "man"}"#,
            r#"{"command": "build", "at": "x"}"#,
            r#"{"command": "build", "secret": "true"}"#,
            r#"{"command": "build", "plan": "yes"}"#,
            r#"{"command": "build", "verbose": "very"}"#,
            r#"{"command": "build", "dest-dir": "a\nb"}"#,
            "[1]",
        ]
        .map(told);
        insta::assert_snapshot!(refused.join("\n"), @"
        error: no such command for a step: `biuld`

        hint: the commands are build, look

        error: no such command for a step: `man`

        hint: the commands are build, look

        error: `build` has no input `at`

        hint: it is an input of look

        error: `build` has no input `secret`

        error: failed to read the input `plan`
          caused by: neither `true` nor `false`: `yes`

        error: failed to read the input `verbose`
          caused by: neither a number nor `true` or `false`: `very`

        error: failed to read the input `dest-dir`
          caused by: more than one line

        error: failed to read `ROCWHEEL_INPUTS`
          caused by: invalid type: sequence, expected a map at line 1 column 0
        ");
    }
}
