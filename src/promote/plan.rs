//! [`PromotionPlan`]: what a promotion does. It is what `--dry-run` prints.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Serialize;

use super::texts::VersionChange;
use crate::{
    console::{many, size},
    framework::tie::TiePlan,
    index::SIDECAR,
    place::ProductDirectories,
    relpath::RelPath,
    version::Version,
    wheel::PackageFilename,
};

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
    /// Its path in the set.
    pub file: String,
    /// Its file name, and the path that it gets.
    #[serde(serialize_with = "as_display")]
    pub name: PackageFilename,
    pub becomes: String,
    /// The files that change, by their new paths.
    pub edits: Vec<RelPath>,
    /// How many bytes it has.
    pub size: u64,
    #[serde(skip)]
    pub(super) texts: BTreeMap<RelPath, String>,
}

fn as_display<T: fmt::Display, S: serde::Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

impl PromotionPlan {
    /// With the keys that the packages get at a release place. Those of other products are left out.
    #[must_use]
    pub fn placed(mut self, directories: Option<&ProductDirectories>) -> Self {
        let Some(directories) = directories else {
            return self;
        };
        let packages = self.packages.iter().map(|it| it.name.clone());
        let frameworks = self.frameworks.iter().map(|it| it.result.clone());
        let selectors = self.frameworks.iter().filter_map(|it| it.selector.as_ref());
        let selectors = selectors.filter_map(|it| it.file.parse::<PackageFilename>().ok());
        let copied = self.copied.iter().filter_map(|path| {
            let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
            name.parse::<PackageFilename>().ok()
        });
        let (mut keys, mut pages) = (BTreeSet::new(), BTreeSet::new());
        for file in packages.chain(frameworks).chain(selectors).chain(copied) {
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
        let bytes: u64 = self.packages.iter().map(|it| it.size).sum();
        let edits = self.packages.iter().map(|it| it.edits.len()).sum();
        let (packages, edits) = (many(self.packages.len(), "package"), many(edits, "file"));
        let bytes = size(bytes);
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
