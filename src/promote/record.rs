//! [`PromotionRecord`]: `promotion.json`, which says what a promoted set was made of.

use serde::Serialize;

use super::{observe::CandidateSet, plan::PromotionPlan};
use crate::{
    digest::Sha256,
    error::{Context as _, Result},
    relpath::RelPath,
    set::Identity,
    target::Scope,
    version::Version,
};

/// What a set was made of, and every digest before and after. It has no time, so that the same
/// promotion writes the same bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PromotionRecord {
    schema: &'static str,
    rocwheel: &'static str,
    from: Version,
    to: Version,
    /// The run that built and tested the set, as far as its `set.json` says.
    source: Identity,
    /// The targets that were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<String>,
    pub files: Vec<PromotedFile>,
}

/// A file of the set, before and after.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PromotedFile {
    pub from: String,
    pub from_sha256: Sha256,
    /// Its path in the promoted set.
    pub path: String,
    pub size: u64,
    pub sha256: Sha256,
    /// The files in it that changed. All others have the same compressed bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edited: Vec<RelPath>,
}

impl PromotionRecord {
    /// The name of the document.
    pub const FILE: &str = "promotion.json";

    pub(super) fn new(
        set: &CandidateSet,
        plan: &PromotionPlan,
        mut files: Vec<PromotedFile>,
    ) -> Self {
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Self {
            schema: "rocwheel-promotion-v1",
            rocwheel: env!("CARGO_PKG_VERSION"),
            from: plan.from.clone(),
            to: plan.to.clone(),
            source: set.identity.clone(),
            dropped: plan.dropped.clone(),
            files,
        }
    }

    /// What the promoted set is: of the same run, under the new version.
    pub fn identity(&self, plan: &PromotionPlan) -> Identity {
        let is_kept = |scope: &Scope| match scope.base() {
            Scope::Target(target) => !plan.change.targets.dropped.contains(&target),
            _ => true,
        };
        Identity {
            version: Some(self.to.clone()),
            targets: self
                .source
                .targets
                .iter()
                .filter(|it| is_kept(it))
                .cloned()
                .collect(),
            promoted_from: (self.from != self.to).then(|| self.from.clone()),
            ..self.source.clone()
        }
    }

    pub fn render(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self).context("failed to write JSON")?;
        Ok(text + "\n")
    }
}
