//! [`PruneRecord`]: which files of a release place are off the pages and about to be deleted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use time::{Date, macros::format_description};

use super::place::SetPlace;
use crate::error::{Context as _, Result};

/// Which files the pages no longer name, and since when.
pub(super) const RECORD: &str = "prune.json";
const SCHEMA: &str = "rocwheel-pruned-v1";

/// The document [`RECORD`].
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PruneRecord {
    schema: String,
    /// The day by the path of a file: `2026-11-23`.
    unlisted: BTreeMap<String, String>,
}

impl PruneRecord {
    pub(super) fn new(unlisted: BTreeMap<String, String>) -> Self {
        let schema = SCHEMA.to_owned();
        Self { schema, unlisted }
    }

    /// An empty record if the place has none.
    pub(super) fn read(place: &SetPlace) -> Result<Self> {
        let text = place.text(place.key(RECORD)?.as_str())?;
        let record = text.map(|it| serde_json::from_str(&it)).transpose();
        let record =
            record.with_context(|| format!("failed to read `{}`", place.shown_in_full(RECORD)));
        Ok(record?.unwrap_or_default())
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.unlisted.contains_key(path)
    }

    pub(super) fn day(&self, path: &str) -> Option<Date> {
        let form = format_description!("[year]-[month]-[day]");
        Date::parse(self.unlisted.get(path)?, form).ok()
    }
}
