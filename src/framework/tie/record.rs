//! [`TieRecord`]: what a tie has done to a wheel, in `rocm_tie.json` of its metadata. It names no path
//! of a build machine, and nothing that depends on when the wheel was tied.

use serde::{Deserialize, Serialize};

use crate::{
    error::{Context as _, Result, ensure},
    version::Version,
};

const SCHEMA: &str = "rocwheel-tie-v1";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TieRecord {
    schema: String,
    /// The version of the set.
    pub rocm: String,
    /// What the wheel requires of it: `rocm[libraries]==7.14.*`.
    pub requirement: Option<String>,
    /// The requirements and extras that the tie has added, as they are in METADATA.
    pub requires: Vec<String>,
    pub extras: Vec<String>,
    /// The init module, and the libraries that it loads.
    pub init: Option<String>,
    pub preload: Vec<String>,
    /// The files that use ROCm, with their run paths.
    pub run_paths: Vec<(String, String)>,
    /// The part of the version that names ROCm: `rocm7.14.0`.
    pub version_suffix: Option<String>,
    /// The platform tag that the symbols prove.
    pub proved_tag: Option<String>,
    /// The files that use another ROCm or another vendor's libraries, and why they stay as they are.
    pub untied: Vec<(String, String)>,
}

impl TieRecord {
    /// The name of the file in `.dist-info`.
    pub const FILE: &str = "rocm_tie.json";

    pub fn new(rocm: &Version) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            rocm: rocm.to_string(),
            requirement: None,
            requires: Vec::new(),
            extras: Vec::new(),
            init: None,
            preload: Vec::new(),
            run_paths: Vec::new(),
            version_suffix: None,
            proved_tag: None,
            untied: Vec::new(),
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        let record: Self = serde_json::from_str(text)?;
        ensure!(record.schema == SCHEMA, "its schema is {:?}", record.schema);
        Ok(record)
    }

    pub fn render(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self).context("failed to write JSON")?;
        text.push('\n');
        Ok(text)
    }
}
