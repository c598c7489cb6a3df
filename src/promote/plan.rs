//! [`PromotionPlan`]: what a promotion does. It is what `--dry-run` prints.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Serialize;

use super::texts::VersionChange;
use crate::{framework::tie::TiePlan, index::SIDECAR, place::ProductDirectories};
use rocwheel_base::{
    quantity::{many, size},
    relpath::RelPath,
    version::Version,
};
use rocwheel_wheel::PackageFilename;

/// What happens to each package of a set.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PromotionPlan {
    pub schema: &'static str,
    pub from: Version,
    pub to: Version,
    pub packages: Vec<PlannedPromotion>,
    /// How the frameworks of the set are tied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frameworks: Vec<TiePlan>,
    /// Device packages that are left out.
    pub dropped: Vec<String>,
    /// Files that are copied whole.
    pub copied: Vec<String>,
    /// The keys of packages, sidecars and pages, at a release place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    #[serde(skip)]
    pub(super) change: VersionChange,
}

/// What happens to one package.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlannedPromotion {
    /// The path of the package in the set.
    pub file: String,
    /// Its new file name.
    #[serde(serialize_with = "serialize_as_display")]
    pub name: PackageFilename,
    /// Its new path.
    pub becomes: String,
    /// The files that change in it, by their new paths.
    pub edits: Vec<RelPath>,
    /// The size of the package before the promotion.
    pub size: u64,
    /// The new content of each file that changes.
    #[serde(skip)]
    pub(super) texts: BTreeMap<RelPath, String>,
}

fn serialize_as_display<T: fmt::Display, S: serde::Serializer>(
    value: &T,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

impl PromotionPlan {
    /// Adds the keys that the packages get at a release place, if there is one. Packages of products that are
    /// not published get none.
    #[must_use]
    pub fn placed(mut self, directories: Option<&ProductDirectories>) -> Self {
        let Some(directories) = directories else {
            return self;
        };
        let mut keys = BTreeSet::new();
        let mut pages = BTreeSet::new();
        for file in self.package_filenames() {
            let Some(product) = directories.get(&file.name) else {
                continue;
            };
            let directory = format!("{product}/{}", file.name);
            keys.insert(format!("{directory}/{file}"));
            if file.tag.is_some() {
                keys.insert(format!("{directory}/{file}{SIDECAR}"));
            }
            pages.insert(format!("{directory}/index.html"));
            pages.insert(format!("{product}/index.html"));
        }
        self.keys = keys.into_iter().chain(pages).collect();
        self
    }

    /// The names that all packages have after the promotion.
    fn package_filenames(&self) -> Vec<PackageFilename> {
        let mut names: Vec<PackageFilename> =
            self.packages.iter().map(|package| package.name.clone()).collect();
        for framework in &self.frameworks {
            names.push(framework.result.clone());
            names.extend(framework.selector.as_ref().and_then(|sdist| sdist.file.parse().ok()));
        }
        for path in &self.copied {
            let file_name = path.rsplit('/').next().unwrap_or_default();
            names.extend(file_name.parse::<PackageFilename>().ok());
        }
        names
    }
}

impl fmt::Display for PromotionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, .. } = self;
        if from == to && self.dropped.is_empty() {
            writeln!(f, "{from} stays {to}")?;
        } else {
            writeln!(f, "{from} becomes {to}")?;
        }
        for package in &self.packages {
            write!(f, "\n{package}")?;
        }
        for framework in &self.frameworks {
            write!(f, "\n{framework}")?;
        }
        for (title, files) in [
            ("left out", &self.dropped),
            ("copied whole", &self.copied),
            ("published as", &self.keys),
        ] {
            if !files.is_empty() {
                writeln!(f, "\n{title}")?;
            }
            for file in files {
                writeln!(f, "  {file}")?;
            }
        }
        let packages = many(self.packages.len(), "package");
        let bytes = size(self.packages.iter().map(|it| it.size).sum());
        let edits = many(self.packages.iter().map(|it| it.edits.len()).sum(), "file");
        writeln!(f, "\n{packages} ({bytes}): {edits} edited, all others copied as they are")
    }
}

impl fmt::Display for PlannedPromotion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.file)?;
        if self.becomes != self.file {
            writeln!(f, "  becomes   {}", self.becomes)?;
        }
        for path in &self.edits {
            writeln!(f, "  edits     {path}")?;
        }
        Ok(())
    }
}
