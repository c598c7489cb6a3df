//! Validates what the types of `packages.toml` cannot express.

use std::collections::BTreeMap;

use crate::{
    artifact::ArtifactName,
    error::{Context as _, Result, anyhow, bail, ensure},
    package::catalog::{Catalog, CommonMetadata, PackageKind, PackageSpec},
    wheel::{EntryPoint, HeaderLine},
};

impl Catalog {
    /// Validates the catalog. `lines` are the lines where the packages begin, for error messages.
    pub(super) fn check(&self, lines: &[usize]) -> Result<()> {
        self.metadata.check().context("`[metadata]`")?;
        let (mut names, mut dists) = (BTreeMap::new(), BTreeMap::new());
        for (package, line) in self.packages.iter().zip(lines) {
            if let Some(first) = names.insert(&package.name, line) {
                bail!(
                    "lines {first} and {line}: two packages are called `{}`",
                    package.name
                );
            }
            let at = || format!("line {line}: package `{}`", package.name);
            package.check(self).with_context(at)?;
            for dist in [Some(&package.dist), package.legacy_dist.as_ref()] {
                let Some(dist) = dist else { continue };
                let other = dists.insert(dist.python_template(), &package.name);
                if let Some(other) = other.filter(|other| **other != package.name) {
                    return Err(anyhow!("package `{other}` has the same `dist`")).with_context(at);
                }
            }
        }
        self.only(PackageKind::Selector)?;
        self.only(PackageKind::Device)?;
        self.only(PackageKind::Devel)?;
        self.core()?;
        Ok(())
    }
}

impl CommonMetadata {
    fn check(&self) -> Result<()> {
        self.license.parse::<HeaderLine>().context("`license`")?;
        self.requires_python
            .parse::<HeaderLine>()
            .context("`requires-python`")?;
        for (label, url) in &self.urls {
            format!("{label}, {url}")
                .parse::<HeaderLine>()
                .context("`urls`")?;
        }
        Ok(())
    }
}

impl PackageSpec {
    fn check(&self, catalog: &Catalog) -> Result<()> {
        for script in &self.scripts {
            let call = script.call(&self.python);
            format!("{} = {call}", script.name).parse::<EntryPoint>()?;
            ensure!(
                !script.only_asks || self.name == "core",
                "script `{}`: only those of `core` unpack anything, so `only-asks` says nothing here",
                script.name
            );
        }
        self.summary.parse::<HeaderLine>().context("`summary`")?;
        ensure!(
            self.kind == PackageKind::Runtime
                || self.take.iter().all(|take| take.include.is_empty()),
            "`include` in a `[[package.take]]` row is for runtime packages"
        );
        for artifact in self.artifacts() {
            format!("{artifact}_lib_generic")
                .parse::<ArtifactName>()
                .with_context(|| format!("`artifacts` names `{artifact}`"))?;
        }
        match self.kind {
            PackageKind::Selector => ensure!(self.take.is_empty(), "a selector takes no artifacts"),
            PackageKind::Device => {
                let overlay = self.overlay.as_deref().unwrap_or_default();
                ensure!(
                    catalog
                        .get(overlay)
                        .is_some_and(|below| below.kind == PackageKind::Runtime),
                    "`overlay` names no runtime package: `{overlay}`"
                );
                ensure!(
                    self.dist.is_for_one_scope(),
                    "`dist` has no place for the target: `{{target}}`"
                );
            }
            PackageKind::Runtime | PackageKind::Devel => {
                ensure!(
                    !self.take.is_empty(),
                    "it takes no artifacts: add a `[[package.take]]` row"
                );
            }
        }
        Ok(())
    }
}
