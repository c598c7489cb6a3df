//! Files are short, say what they are for, and are named for what they know.

use super::{
    house::{House, Violation},
    source::module_of,
};

pub(super) const MAX_LINES: usize = 500;

/// A verb calls a noun: what takes more lines than this is a part of the noun.
const MAX_LINES_OF_A_VERB: usize = 25;

/// Names that say what a file is for others, not what it knows.
const ROLES: [&str; 12] = [
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "manager",
    "managers",
    "types",
    "misc",
    "handler",
    "handlers",
    "processor",
];

pub(super) fn short_and_purposeful(house: &House) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, text) in &house.0 {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            let what = format!("{lines} lines are more than {MAX_LINES}");
            found.push(Violation::new(file, lines, what, "split it by subject"));
        }
        if !text.starts_with("//! ") {
            let advice = "open with one `//!` line that says what the file is";
            found.push(Violation::new(
                file,
                1,
                "does not say what it is for",
                advice,
            ));
        }
    }
    found
}

/// A module named for a role collects all that has no home.
pub(super) fn no_roles(house: &House) -> Vec<Violation> {
    house
        .0
        .keys()
        .filter_map(|file| {
            let role = module_of(file)
                .into_iter()
                .find(|name| ROLES.contains(&name.as_str()))?;
            let what = format!("`{role}` is a role, not a subject");
            Some(Violation::new(file, 1, what, "name it for what it knows"))
        })
        .collect()
}

/// `run` of each command is short.
pub(super) fn thin_verbs(house: &House) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, text) in &house.0 {
        if !file.starts_with("src/commands/") {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        let begins = |line: &str| line.starts_with("pub") && line.contains(" fn run(");
        let Some(first) = lines.iter().position(|line| begins(line)) else {
            continue;
        };
        let of_run = &lines[first..];
        let signature = of_run.iter().position(|line| line.ends_with('{'));
        let end = of_run.iter().position(|line| *line == "}");
        let body = end.unwrap_or(of_run.len()) - signature.unwrap_or_default() - 1;
        if body > MAX_LINES_OF_A_VERB {
            let what = format!("`run` has {body} lines, more than {MAX_LINES_OF_A_VERB}");
            let advice = "move what it decides or does to the noun, and its steps to methods";
            found.push(Violation::new(file, first + 1, what, advice));
        }
    }
    found
}
