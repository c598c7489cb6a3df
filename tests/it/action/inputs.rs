//! The inputs of action.yml are the flags of the commands, and docs/action.md lists them.
//!
//! `ROCWHEEL_BLESS=1 cargo test --test it action::inputs` writes both again.

use std::{collections::BTreeMap, env, fmt::Write as _, path::Path, process::Command};

use serde_json::Value;

use super::runner::read;
use crate::support::program::ROCWHEEL;

/// Flags that are no inputs, and why.
const APART: [(&str, &str); 6] = [
    ("color", "the log of a workflow shows colors anyway"),
    (
        "no-progress",
        "there are no bars where there is no terminal",
    ),
    (
        "github-output",
        "the runner names the file of a step's outputs",
    ),
    (
        "step-summary",
        "the runner names the file of a step's summary",
    ),
    (
        "event-path",
        "the runner names the file that tells the event",
    ),
    (
        "github-token",
        "it comes in a variable, never on a command line",
    ),
];

/// Inputs of action.yml itself.
const OWN: [&str; 5] = [
    "command",
    "binary",
    "build-from-source",
    "working-directory",
    "github-token",
];

struct Input {
    name: String,
    kind: String,
    /// Verbs, help and default: those that say the same together.
    meanings: Vec<(Vec<String>, String, Option<String>)>,
}

#[test]
fn action_yml_has_an_input_for_every_flag() {
    holds(
        "action.yml",
        "  # begin of flags\n",
        "  # end of flags\n",
        &yaml(),
    );
}

#[test]
fn the_page_about_the_action_lists_every_input() {
    holds(
        "docs/action.md",
        "<!-- begin of flags -->\n",
        "<!-- end of flags -->\n",
        &table(),
    );
}

#[test]
fn the_page_lists_what_the_action_itself_takes_and_gives() {
    let (action, page) = (read("action.yml"), read("docs/action.md"));
    let (inputs, outputs) = action.split_once("\noutputs:\n").unwrap();
    let outputs = outputs.split("\nruns:\n").next().unwrap();
    let named = |text: &str| {
        let names = text
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
        names
            .filter(|name| !name.starts_with(' '))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(named(outputs).len() > 10);
    let fields = read("docs/fetch.md");
    for name in OWN
        .iter()
        .map(|name| (*name).to_owned())
        .chain(named(outputs))
    {
        match name.strip_prefix("run-") {
            // The fields of the run that `fetch` found, which its own page lists.
            Some(field) if field != "json" => {
                assert!(fields.contains(&format!("`{field}`")), "{name}");
            }
            _ => assert!(page.contains(&format!("`{name}` |")), "{name}"),
        }
    }
    assert!(
        OWN.iter()
            .all(|name| named(inputs).contains(&(*name).to_owned()))
    );
}

#[test]
fn what_is_no_input_is_a_flag_all_the_same() {
    let flags = flags();
    for (name, why) in APART {
        assert!(flags.contains_key(name), "there is no `{name}`: {why}");
    }
}

#[test]
fn the_program_leaves_the_actions_own_inputs_to_it() {
    let inputs = OWN.map(|name| format!("\"{name}\": \"man\"")).join(",");
    let inputs = format!("{{{inputs}}}").replace("\"command\": \"man\"", "\"command\": \"index\"");
    let output = Command::new(ROCWHEEL)
        .arg("action")
        .env("ROCWHEEL_INPUTS", inputs)
        .env_remove("GITHUB_ACTIONS")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("required arguments were not provided"),
        "{stderr}"
    );
}

/// The lines between two marks are these, or become these when that was asked for.
fn holds(file: &str, begin: &str, end: &str, expected: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs_err::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(begin).unwrap();
    let (found, after) = rest.split_once(end).unwrap();
    if found == expected {
        return;
    }
    if env::var_os("ROCWHEEL_BLESS").is_some() {
        let text = format!("{before}{begin}{expected}{end}{after}");
        return fs_err::write(&file, text).unwrap();
    }
    let lacks: Vec<&str> = expected
        .lines()
        .filter(|line| !found.contains(line))
        .collect();
    let has: Vec<&str> = found
        .lines()
        .filter(|line| !expected.contains(line))
        .collect();
    panic!(
        "{} lacks {lacks:#?}\nand has {has:#?}\nROCWHEEL_BLESS=1 cargo test --test it action::inputs",
        file.display()
    );
}

fn flags() -> BTreeMap<String, Value> {
    let output = Command::new(ROCWHEEL)
        .arg("action")
        .env_remove("ROCWHEEL_INPUTS")
        .env_remove("GITHUB_ACTIONS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn inputs() -> Vec<Input> {
    let flags = flags().into_iter();
    let shown = flags.filter(|(name, _)| APART.iter().all(|(apart, _)| apart != name));
    shown.map(|(name, flag)| Input::new(name, &flag)).collect()
}

impl Input {
    fn new(name: String, flag: &Value) -> Self {
        let mut meanings: Vec<(Vec<String>, String, Option<String>)> = Vec::new();
        for (verb, meaning) in flag["verbs"].as_object().unwrap() {
            let mut help = meaning["help"].as_str().unwrap().to_owned();
            let choices = meaning["choices"].as_array().unwrap();
            if !choices.is_empty() {
                let choices: Vec<String> = choices
                    .iter()
                    .map(|choice| format!("`{}`", choice.as_str().unwrap()))
                    .collect();
                let _ = write!(help, " ({})", choices.join(", "));
            }
            let default = meaning["default"].as_str().map(str::to_owned);
            match meanings
                .iter_mut()
                .find(|(_, other, standard)| *other == help && *standard == default)
            {
                Some((verbs, ..)) => verbs.push(verb.clone()),
                None => meanings.push((vec![verb.clone()], help, default)),
            }
        }
        let kind = flag["kind"].as_str().unwrap().to_owned();
        Self {
            name,
            kind,
            meanings,
        }
    }

    /// Whose it is and what it means, for each meaning.
    fn described(&self) -> String {
        let meanings = self.meanings.iter().map(|(verbs, help, default)| {
            let default = default
                .as_ref()
                .map(|text| format!("; by default `{text}`"));
            format!(
                "{}: {help}{}",
                verbs.join(", "),
                default.unwrap_or_default()
            )
        });
        meanings.collect::<Vec<_>>().join(". ")
    }
}

fn yaml() -> String {
    inputs().iter().fold(String::new(), |mut text, input| {
        let described = input.described().replace('\'', "''");
        let _ = writeln!(text, "  {}:\n    description: '{described}'", input.name);
        text
    })
}

fn table() -> String {
    let head = "| input | value | what it means |\n|---|---|---|\n".to_owned();
    inputs().iter().fold(head, |mut text, input| {
        let value = match input.kind.as_str() {
            "switch" => "`true` or `false`",
            "count" => "a number",
            "many" => "one in each line",
            _ => "one",
        };
        let described = input.described().replace('|', "\\|");
        let _ = writeln!(text, "| `{}` | {value} | {described} |", input.name);
        text
    })
}
