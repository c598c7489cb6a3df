//! Files are short, say what they are for, and are named for what they know.

use super::{
    house::{House, Violation},
    source::module_of,
};

pub(super) const MAX_LINES: usize = 500;

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
