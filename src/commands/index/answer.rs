//! The answers of `index`: where the index is, or, for `--dry-run`, what would change.

use std::fmt;

use serde::Serialize;

use crate::{
    console::many,
    index::{Addresses, Urls, size_text},
    set::{Act, IndexChange, Indexed, SetPlace},
};

/// The answer after the index was written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct IndexReport {
    schema: &'static str,
    #[serde(flatten)]
    addresses: Addresses,
    files: usize,
    /// The number of objects that were written or removed.
    changed: usize,
}

impl IndexReport {
    pub(super) fn new(urls: &Urls, indexed: &Indexed) -> Self {
        Self {
            schema: "rocwheel-index-v1",
            addresses: Addresses::new(urls, &indexed.families),
            files: indexed.files,
            changed: indexed.changes.len(),
        }
    }
}

impl fmt::Display for IndexReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses.fmt(f)
    }
}

/// The answer of `--dry-run`: what would be written and removed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Plan {
    schema: &'static str,
    place: String,
    actions: Vec<IndexStep>,
}

#[derive(Debug, Serialize)]
struct IndexStep {
    action: String,
    path: String,
    size: u64,
}

impl Plan {
    pub(super) fn new(site: &SetPlace, changes: Vec<IndexChange>) -> Self {
        let actions = changes.into_iter().map(|change| IndexStep {
            action: change.act.to_string(),
            // The page of the directory itself has an empty path.
            path: if change.path.is_empty() {
                "./".into()
            } else {
                change.path
            },
            size: change.size,
        });
        Self {
            schema: "rocwheel-index-plan-v1",
            place: site.to_string(),
            actions: actions.collect(),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "in {}", self.place)?;
        for IndexStep { action, path, size } in &self.actions {
            let size = if *action == Act::Remove.to_string() {
                String::new()
            } else {
                size_text(*size)
            };
            writeln!(f, "{action:<7} {size:>10}  {path}")?;
        }
        writeln!(f, "{}", many(self.actions.len(), "change"))
    }
}
