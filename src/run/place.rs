//! Where a run keeps its packages.

use super::{
    ArtifactGroup, Buckets, Platform, Run,
    resolve::{LOCAL, key},
};
use crate::{
    error::{Context as _, Hint as _, Result},
    location::Location,
};

impl Run {
    /// The same run on another platform.
    #[must_use]
    pub fn on(&self, platform: Platform) -> Self {
        let end = format!("-{}", self.platform);
        let prefix = self.prefix.as_str();
        let start = prefix.strip_suffix(&end).unwrap_or(prefix);
        Self {
            platform,
            prefix: key(&format!("{start}-{platform}")),
            ..self.clone()
        }
    }

    /// Fails for a local run for which the user named no bucket.
    pub fn ensure_bucket(&self) -> Result<()> {
        let has_one = !self.id.is_local() || self.bucket.as_str() != LOCAL;
        has_one
            .then_some(())
            .context("a local run has no bucket")
            .hint("pass `--bucket`, or the id of a run as `--run-id`")
    }

    /// Why no role may write the outputs of the run; `None` if one may.
    pub fn no_role(&self) -> Option<String> {
        if self.role.is_some() {
            return None;
        }
        let bucket = &self.bucket;
        Some(match Buckets::builtin().find(bucket) {
            None => format!("`{bucket}` is no bucket of TheRock"),
            Some(known) if known.role.is_none() => format!("no run may write to `{bucket}`"),
            Some(_) => "the run builds the code of a fork".to_owned(),
        })
    }

    /// The location of a set of Python packages: `{prefix}/python/{group}/`, or `{prefix}/python/`
    /// for a group that is for all families.
    pub fn python(&self, group: &ArtifactGroup) -> Location {
        let path = if group.is_for_all() {
            "python/".to_owned()
        } else {
            format!("python/{group}/")
        };
        Location::new(self.bucket.clone(), key(&format!("{}/{path}", self.prefix)))
    }
}
