//! The snapshots of these tests show every rule of `check` at work.
//!
//! A test passes only if `check` reports what its snapshot shows, so a rule in one is a rule that
//! was reported. Snapshots are texts behind an `@`; comments and other texts are ignored.

use crate::support::prelude::*;

/// The findings in the inline snapshots of a file: `error RW101 unreadable-package`.
fn asserted(text: &str) -> BTreeSet<String> {
    let snapshot = Regex::new(r##"(?s)@(?:r?"([^"]*)"|r#"(.*?)"#)"##).unwrap();
    let finding = r"(?m)^\s*(error|warning|note)\s+(RW[\dF]\d\d [a-z-]+): ";
    let finding = Regex::new(finding).unwrap();
    let mut found = BTreeSet::new();
    for snapshot in snapshot.captures_iter(text) {
        let shown = snapshot.get(1).or(snapshot.get(2)).unwrap().as_str();
        for one in finding.captures_iter(shown) {
            found.insert(format!("{} {}", &one[1], &one[2]));
        }
    }
    found
}

/// Every rule, as the page has it: a test of `check::rule` compares the page with the rules.
fn rules() -> BTreeSet<String> {
    let page = fs_err::read_to_string("docs/checks.md").unwrap();
    let headings = page.lines().filter_map(|line| line.strip_prefix("### "));
    let rules = headings.map(|heading| {
        let (rule, severity) = heading.split_once(" (").unwrap();
        format!("{} {rule}", severity.trim_end_matches(')'))
    });
    rules.collect()
}

#[test]
fn every_rule_has_a_broken_set() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/check");
    let files = walkdir::WalkDir::new(place).into_iter().map(Result::unwrap);
    let mut found = BTreeSet::new();
    for file in files.filter(|file| file.file_type().is_file()) {
        found.extend(asserted(&fs_err::read_to_string(file.path()).unwrap()));
    }
    assert_eq!(found, rules());
}
