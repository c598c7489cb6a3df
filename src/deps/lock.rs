//! [`DepsLock`]: the files of a base index with their digests, as `deps.lock` has them; and how two
//! locks differ.

use std::{collections::BTreeSet, fmt};

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::{environment::PythonPlatform, publisher::Publisher, wishes::ensure_of_others};
use crate::{
    console::{many, size},
    digest::Sha256,
    error::{Context as _, Result, ensure},
    version::Version,
    wheel::{DistName, PackageFilename},
};

/// The version of the format.
const SCHEMA: u32 = 1;
const HEAD: &str = "# The files of a base index. `rocwheel deps update` writes this file.\n\n";

/// The files of a base index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DepsLock {
    schema: u32,
    /// Sorted by project, version and name.
    #[serde(default, rename = "file")]
    pub files: Vec<LockedFile>,
}

/// A wheel of a base index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockedFile {
    pub project: DistName,
    pub version: Version,
    pub name: String,
    pub size: u64,
    pub sha256: Sha256,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requires_python: Option<String>,
    /// When the registry got it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub upload_time: Option<String>,
    /// Who published it, if the registry attests it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) publisher: Option<Publisher>,
    /// What it needs, without the requirements of extras that nobody asks for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub requires: Vec<String>,
    /// The environments that it was picked for.
    #[serde(rename = "for")]
    pub environments: BTreeSet<PythonPlatform>,
    /// Who asks for it: `deps.toml`, or a project and its version.
    pub why: BTreeSet<String>,
}

impl DepsLock {
    pub fn new(mut files: Vec<LockedFile>) -> Self {
        files.sort_by_cached_key(|it| (it.project.clone(), it.version.clone(), it.name.clone()));
        Self {
            schema: SCHEMA,
            files,
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        let lock: Self = toml::from_str(text)?;
        ensure!(
            lock.schema == SCHEMA,
            "it has the schema {}, and this version reads {SCHEMA}",
            lock.schema
        );
        let mut names = BTreeSet::new();
        for file in &lock.files {
            let name = &file.name;
            let parsed: PackageFilename = name.parse()?;
            let fits = parsed.name == file.project && parsed.version == file.version;
            ensure!(
                fits,
                "`{name}` is not a file of `{}` {}",
                file.project,
                file.version
            );
            ensure!(parsed.tag.is_some(), "`{name}` is an sdist");
            ensure!(names.insert(name), "`{name}` is named twice");
            ensure_of_others(&file.project)?;
        }
        Ok(Self::new(lock.files))
    }

    pub fn render(&self) -> Result<String> {
        let text = toml::to_string(self).context("failed to write the lock")?;
        Ok(format!("{HEAD}{text}"))
    }

    pub fn size(&self) -> u64 {
        self.files.iter().map(|it| it.size).sum()
    }

    pub(super) fn environments(&self) -> BTreeSet<PythonPlatform> {
        let all = self.files.iter().flat_map(|it| &it.environments);
        all.copied().collect()
    }

    pub(super) fn ensure_some(&self) -> Result<()> {
        ensure!(!self.files.is_empty(), "the lock has no files");
        Ok(())
    }

    /// `52 files, 220.31 MiB`
    pub fn totals(&self) -> String {
        format!("{}, {}", many(self.files.len(), "file"), size(self.size()))
    }
}

/// What an update changes in a lock.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LockChanges {
    pub added: Vec<LockedFile>,
    pub removed: Vec<LockedFile>,
    /// Files that stay, and serve other environments or have other askers.
    pub changed: Vec<LockedFile>,
    unchanged: usize,
    totals: String,
}

impl LockChanges {
    pub fn between(before: &DepsLock, after: &DepsLock) -> Self {
        let is_in = |lock: &DepsLock, file: &LockedFile| {
            let mut files = lock.files.iter();
            files.any(|it| (&it.name, it.sha256) == (&file.name, file.sha256))
        };
        let missing = |from: &DepsLock, of: &DepsLock| {
            let files = of.files.iter().filter(|it| !is_in(from, it));
            files.cloned().collect()
        };
        let kept = after.files.iter().filter(|it| is_in(before, it));
        let (same, changed): (Vec<_>, Vec<_>) = kept.partition(|it| before.files.contains(it));
        Self {
            added: missing(before, after),
            removed: missing(after, before),
            changed: changed.into_iter().cloned().collect(),
            unchanged: same.len(),
            totals: after.totals(),
        }
    }
}

impl fmt::Display for LockChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("-", &self.removed),
            ("+", &self.added),
            ("~", &self.changed),
        ];
        for (sign, files) in kinds {
            for ((project, version), files) in
                &files.iter().chunk_by(|it| (&it.project, &it.version))
            {
                let files: Vec<&LockedFile> = files.collect();
                let bytes = size(files.iter().map(|it| it.size).sum());
                let why = files.iter().flat_map(|it| &it.why).unique().join(", ");
                let count = many(files.len(), "file");
                writeln!(f, "{sign} {project} {version}  ({count}, {bytes}; {why})")?;
            }
        }
        writeln!(
            f,
            "{} unchanged; {} in all",
            many(self.unchanged, "file"),
            self.totals
        )
    }
}
