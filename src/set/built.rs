//! Writes the `set.json` of a set that `build` has just made.

use std::path::Path;

use crate::{
    artifact::TherockManifest,
    atomic,
    console::World,
    error::{Context as _, Result},
    index::{Identity, Layout, SetJson},
    package::{BuildPlan, assemble::MadePackage},
    set::LocalSet,
};

impl LocalSet {
    /// Describes the packages in `{dest}/dist`, and the run that they were made from, in
    /// `{dest}/set.json`. The digests come from packing; nothing is hashed a second time.
    pub fn built(
        dest: &Path,
        plan: &BuildPlan,
        manifest: &TherockManifest,
        made: &[MadePackage],
        world: &World,
    ) -> Result<Self> {
        let page = dest.join("set.json");
        // Remove the `set.json` of an earlier build first: it must not stay beside the new packages
        // if anything below fails.
        atomic::clear(&page)?;
        let commit = manifest.commit.as_deref();
        let run_id = manifest.run_id.as_deref();
        let identity = Identity {
            platform: Some(plan.platform),
            commit: commit.and_then(|commit| commit.parse().ok()),
            run_id: run_id.and_then(|run| run.parse().ok()),
            version: Some(plan.version.clone()),
            targets: plan.targets.clone(),
            repository: None,
            without: plan.without.clone(),
        };
        let made = made.iter().map(|made| {
            let path = format!("{}{}", Layout::Dist.files(), made.path);
            (path, (made.size, made.sha256))
        });
        let mut set =
            Self::made(dest, made.collect(), world).context("failed to read the finished set")?;
        set.document = SetJson::new(identity, &set.set, Layout::Dist);
        // No times in it, so that the same set gives the same bytes.
        atomic::write(&page, set.document.page().body)?;
        Ok(set)
    }
}
