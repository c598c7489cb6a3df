//! Turns the inputs of a step of GitHub Actions, which `action.yml` passes as JSON, into a command
//! line.

use std::ffi::OsString;

use serde_json::{Map, Value};

use rocwheel_base::error::{Context as _, Hint as _, Result, ensure};

/// The environment variable with the inputs, as a JSON object.
pub(super) const VARIABLE: &str = "ROCWHEEL_INPUTS";

/// Inputs that are no flags. The token is passed in its environment variable.
const NO_FLAGS: [&str; 7] =
    ["command", "set", "args", "binary", "build-from-source", "working-directory", "github-token"];

/// The command line for a set of inputs. An input is the flag of its name; an empty one is not passed, and
/// `true` and `false` are a switch. `args` has one argument in each line, as it would be in a shell
/// without quotes: `--flag value with spaces`, `--flag=value`, or a positional argument.
pub(in crate::commands) fn line(json: &str) -> Result<Vec<OsString>> {
    let inputs: Map<String, Value> =
        serde_json::from_str(json).with_context(|| format!("failed to read `{VARIABLE}`"))?;
    let text_of = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    let input = |name: &str| inputs.get(name).map(text_of).unwrap_or_default();
    let command = input("command");
    ensure!(!command.is_empty(), "the input `command` is empty");
    let mut line = vec!["rocwheel".to_owned()];
    line.extend(command.split_whitespace().map(str::to_owned));
    for (name, value) in &inputs {
        let value = text_of(value);
        if NO_FLAGS.contains(&name.as_str()) || value == "false" {
            continue;
        }
        ensure!(value.lines().count() < 2, "the input `{name}` has more than one line");
        match value.as_str() {
            "" => {}
            "true" => line.push(format!("--{name}")),
            value => line.push(format!("--{name}={value}")),
        }
    }
    let set = input("set");
    (!set.starts_with('-'))
        .then_some(())
        .with_context(|| format!("the input `set` is a flag: `{set}`"))
        .hint("flags are lines of the input `args`")?;
    line.extend(Some(set).filter(|set| !set.is_empty()));
    for argument in input("args").lines().map(str::trim) {
        match argument.split_once(char::is_whitespace) {
            // A space in `--flag=one two` belongs to the value.
            Some((flag, value)) if flag.starts_with('-') && !flag.contains('=') => {
                line.extend([flag.to_owned(), value.trim().to_owned()]);
            }
            _ if argument.is_empty() => {}
            _ => line.push(argument.to_owned()),
        }
    }
    Ok(line.into_iter().map(OsString::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::error::render;

    fn told(json: &str) -> String {
        match line(json) {
            Ok(line) => format!("{line:?}"),
            Err(error) => render(&error),
        }
    }

    #[test]
    fn every_kind_of_input_becomes_arguments() {
        let json = r#"{"command": "framework tie", "binary": "x", "github-token": "t", "working-directory": ".",
            "set": "p q", "output-dir": "a=b\n", "multi-target": "true", "part": "false", "check": true, "version": "", "layout": null,
            "args": "x.whl\n\n --exclude _lib_ _run_ \n--only=core, meta\n-o out dir\n--overwrite\n--platform=\n"}"#;
        insta::assert_snapshot!(told(json), @r#"["rocwheel", "framework", "tie", "--output-dir=a=b", "--multi-target", "--check", "p q", "x.whl", "--exclude", "_lib_ _run_", "--only=core, meta", "-o", "out dir", "--overwrite", "--platform="]"#);
    }

    #[test]
    fn no_value_of_an_input_can_be_taken_for_a_flag() {
        insta::assert_snapshot!(told(r#"{"command": "build", "output-dir": "--plan"}"#), @r#"["rocwheel", "build", "--output-dir=--plan"]"#);
        insta::assert_snapshot!(told(r#"{"command": "build", "set": "--plan"}"#), @"
        error: the input `set` is a flag: `--plan`

        hint: flags are lines of the input `args`
        ");
    }

    #[test]
    fn inputs_that_cannot_be_obeyed_are_refused_in_words() {
        let refused =
            [r#"{"command": ""}"#, r#"{"command": "build", "output-dir": "a\nb"}"#, "[1]"]
                .map(told);
        insta::assert_snapshot!(refused.join("\n"), @"
        error: the input `command` is empty

        error: the input `output-dir` has more than one line

        error: failed to read `ROCWHEEL_INPUTS`
          caused by: invalid type: sequence, expected a map at line 1 column 0
        ");
    }
}
