//! [`HashLock`]: the version and the digests of everything that an install consists of, as a
//! requirements file that pip and uv read too.

use std::fmt::{self, Write as _};

use itertools::Itertools as _;
use serde::Deserialize;

use super::select::no;
use crate::{
    digest::Sha256,
    error::{Context as _, Result, ensure},
    target::Target,
    version::Version,
    wheel::DistName,
};

/// A requirements file with digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashLock {
    /// `--index-url …`, in pairs.
    sources: Vec<String>,
    packages: Vec<LockedPackage>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LockedPackage {
    project: DistName,
    version: Version,
    /// Those of all files that may be installed.
    digests: Vec<Sha256>,
}

/// What `pip install --report` writes, as far as it is needed.
#[derive(Deserialize)]
struct PipReport {
    install: Vec<PipReportItem>,
}

#[derive(Deserialize)]
struct PipReportItem {
    metadata: PipReportMetadata,
    download_info: PipDownload,
}

#[derive(Deserialize)]
struct PipReportMetadata {
    name: DistName,
    version: Version,
}

#[derive(Deserialize)]
struct PipDownload {
    archive_info: Option<PipArchive>,
}

#[derive(Default, Deserialize)]
struct PipArchive {
    #[serde(default)]
    hashes: PipDigests,
}

#[derive(Default, Deserialize)]
struct PipDigests {
    sha256: Option<Sha256>,
}

impl HashLock {
    /// Reads a file that `--lock` or `uv pip compile --generate-hashes` has written.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lock = Self::default();
        let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            if first.starts_with('-') {
                lock.sources
                    .extend(line.split_whitespace().map(str::to_owned));
                continue;
            }
            let (project, version) = first.split_once("==").with_context(|| {
                format!("expected `project==version --hash=sha256:…`: {line:?}")
            })?;
            let project = project.split('[').next().unwrap_or_default();
            let digests = words.filter_map(|word| word.strip_prefix("--hash=sha256:"));
            let digests: Vec<Sha256> = digests.map(str::parse).try_collect()?;
            ensure!(!digests.is_empty(), "no digest for `{first}`");
            lock.packages.push(LockedPackage {
                project: project.parse()?,
                version: version.trim_end_matches(';').parse()?,
                digests,
            });
        }
        ensure!(!lock.packages.is_empty(), "no package in it");
        lock.packages.sort();
        Ok(lock)
    }

    /// Reads a report of pip.
    pub(super) fn of_report(text: &str) -> Result<Self> {
        let report: PipReport = serde_json::from_str(text)?;
        let package = |item: PipReportItem| {
            let PipReportMetadata { name, version } = item.metadata;
            let digest = item
                .download_info
                .archive_info
                .unwrap_or_default()
                .hashes
                .sha256;
            let digest = digest.with_context(|| format!("no digest for `{name}`"))?;
            Ok(LockedPackage {
                project: name,
                version,
                digests: vec![digest],
            })
        };
        let packages: Result<Vec<_>> = report.install.into_iter().map(package).collect();
        Ok(Self {
            sources: Vec::new(),
            packages: packages?.into_iter().sorted().collect(),
        })
    }

    /// The lock with the places of its packages.
    #[must_use]
    pub(super) fn with_sources(self, sources: Vec<String>) -> Self {
        Self { sources, ..self }
    }

    /// Fails if a file of the source has another digest than the source says.
    pub(super) fn ensure_agrees(&self, digests: &[(DistName, Version, Sha256)]) -> Result<()> {
        for package in &self.packages {
            let told = digests.iter();
            let told = told.filter(|it| it.0 == package.project && it.1 == package.version);
            let told: Vec<Sha256> = told.map(|it| it.2).collect();
            let other = package.digests.iter().find(|it| !told.contains(it));
            if let Some(other) = other.filter(|_| !told.is_empty()) {
                let (project, version) = (&package.project, &package.version);
                return Err(no(
                    format!(
                        "`{project}` {version} has the sha256 {other}, and the source says {}",
                        told.iter().join(" or ")
                    ),
                    "another index may supply it: check `--deps`".to_owned(),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn versions(&self) -> Vec<(DistName, Version)> {
        let packages = self.packages.iter();
        packages
            .map(|it| (it.project.clone(), it.version.clone()))
            .collect()
    }

    pub(super) fn pins(&self) -> Vec<String> {
        let packages = self.packages.iter();
        packages
            .map(|it| format!("{}=={}", it.project, it.version))
            .collect()
    }

    pub(super) fn version(&self, project: &str) -> Option<&Version> {
        let mut packages = self.packages.iter();
        let found = packages.find(|it| it.project.normalized() == project);
        found.map(|it| &it.version)
    }

    /// The targets whose device code is in it.
    pub(super) fn targets(&self) -> Vec<Target> {
        let names = self.packages.iter().map(|it| it.project.normalized());
        let targets = names.filter_map(|it| it.strip_prefix("rocm-sdk-device-"));
        targets.filter_map(|it| it.parse().ok()).collect()
    }
}

impl fmt::Display for HashLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# `rocwheel install --from-lock` installs exactly this; so does"
        )?;
        writeln!(
            f,
            "# `pip install --require-hashes --no-deps --requirement` with this file."
        )?;
        let mut line = String::new();
        for word in &self.sources {
            let space = if word.starts_with("--") { "\n" } else { " " };
            write!(line, "{space}{word}")?;
        }
        writeln!(f, "{}", line.trim_start())?;
        for package in &self.packages {
            write!(f, "{}=={}", package.project, package.version)?;
            for digest in &package.digests {
                write!(f, " \\\n    --hash=sha256:{digest}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
