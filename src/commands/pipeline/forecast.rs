//! What a pipeline would do, as far as that is known before the artifacts are read.

use std::{fmt, path::Path};

use serde::Serialize;

use super::origin::Origin;
use crate::{commands::fetch::plan::FetchPlan, console::many, error::Result};

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Forecast<'a> {
    schema: &'static str,
    /// What would be fetched, if anything would.
    fetch: Option<&'a FetchPlan>,
    artifacts: Vec<String>,
    packages: String,
    published: String,
}

impl<'a> Forecast<'a> {
    pub(super) fn new(origin: &'a Origin<'_>, output_dir: &Path) -> Result<Self> {
        Ok(Self {
            schema: "rocwheel-pipeline-dry-run-v1",
            fetch: match origin {
                Origin::Run(errand) => Some(&errand.plan),
                Origin::Sample | Origin::Directory(_) => None,
            },
            artifacts: origin.names()?,
            packages: output_dir.join("packages").display().to_string(),
            published: output_dir.display().to_string(),
        })
    }
}

impl fmt::Display for Forecast<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fetch {
            Some(plan) => writeln!(f, "{plan}")?,
            None => {
                for name in &self.artifacts {
                    writeln!(f, "take  {name}")?;
                }
            }
        }
        let count = many(self.artifacts.len(), "artifact");
        writeln!(f, "build packages of {count} in {}", self.packages)?;
        writeln!(f, "check them, and go on only without errors")?;
        write!(f, "index and publish them below {}", self.published)
    }
}
