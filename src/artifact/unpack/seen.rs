//! The paths unpacked so far, and which of them clash on a file system that ignores case.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

use crate::{artifact::resolve::Node, relpath::RelPath};

/// Every path of an archive, including the directories above each.
#[derive(Default)]
pub(super) struct SeenPaths {
    kinds: HashMap<RelPath, Node>,
    /// The paths that differ from their folded form, by that form: `readme` for `README`.
    folded: HashMap<Box<str>, RelPath>,
}

impl SeenPaths {
    pub(super) fn get(&self, path: &str) -> Option<&Node> {
        self.kinds.get(path)
    }

    /// The lowest path for which `is_it` returns true.
    pub(super) fn first(&self, is_it: impl Fn(&RelPath, &Node) -> bool) -> Option<&RelPath> {
        let found = self.kinds.iter().filter(|(path, kind)| is_it(path, kind));
        found.map(|(path, _)| path).min()
    }

    pub(super) fn len(&self) -> u64 {
        self.kinds.len() as u64
    }

    /// Adds a new path. Returns an earlier path that differs only in case or normalization.
    pub(super) fn add(&mut self, path: &RelPath, kind: Node) -> Option<RelPath> {
        let folded = fold(path.as_str());
        let own = folded == path.as_str();
        let other = match self.folded.get(folded.as_str()) {
            Some(other) => Some(other.clone()),
            None if !own => self
                .kinds
                .get_key_value(folded.as_str())
                .map(|(path, _)| path.clone()),
            None => None,
        };
        if !own && other.is_none() {
            self.folded.insert(folded.into(), path.clone());
        }
        self.kinds.insert(path.clone(), kind);
        other
    }
}

/// A form that is the same for all names that Windows or macOS regard as one.
fn fold(path: &str) -> String {
    if path.is_ascii() {
        path.to_ascii_lowercase()
    } else {
        path.chars().flat_map(char::to_lowercase).nfc().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that clash with an earlier one, each with that one.
    fn clashes(paths: &[&str]) -> Vec<String> {
        let mut seen = SeenPaths::default();
        let mut clashes = Vec::new();
        for path in paths {
            let path: RelPath = path.parse().unwrap();
            if let Some(other) = seen.add(&path, Node::File) {
                clashes.push(format!("{path} = {other}"));
            }
        }
        clashes
    }

    #[test]
    fn names_that_differ_by_case_or_normal_form_are_one() {
        assert_eq!(clashes(&["a", "A"]), ["A = a"]);
        assert_eq!(clashes(&["A", "a"]), ["a = A"]);
        assert_eq!(
            clashes(&["a/Read", "b/Read", "a/READ"]),
            ["a/READ = a/Read"]
        );
        assert_eq!(clashes(&["xY", "Xy", "xy"]), ["Xy = xY", "xy = xY"]);
        assert_eq!(
            clashes(&["caf\u{e9}", "cafe\u{301}"]),
            ["cafe\u{301} = caf\u{e9}"]
        );
        assert_eq!(clashes(&["STRASSE", "É", "é"]), ["é = É"]);
        assert!(clashes(&["a", "b", "a.b", "a-b", "é", "e"]).is_empty());
    }
}
