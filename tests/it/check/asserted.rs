//! The snapshots of these tests show every rule of `check` at work.
//!
//! A test passes only if `check` reports what its snapshot shows, so a rule in one is a rule that
//! was reported. Snapshots are texts behind an `@`; comments and other texts are ignored.

use std::{collections::BTreeSet, path::Path};

use regex::Regex;
use rocwheel::check::RULES;

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

#[test]
fn every_rule_has_a_broken_set() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/check");
    let mut found = BTreeSet::new();
    let mut directories = vec![place];
    while let Some(directory) = directories.pop() {
        for entry in fs_err::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.extend(asserted(&fs_err::read_to_string(path).unwrap()));
            }
        }
    }
    let rules = RULES.iter().map(|rule| format!("{} {rule}", rule.severity));
    assert_eq!(found, rules.collect());
}
