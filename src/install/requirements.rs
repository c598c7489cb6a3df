//! [`Requirements`]: the version and the digests of everything that an install consists of, as a
//! requirements file that pip and uv read.

use std::fmt::{self, Write as _};

use itertools::Itertools as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::select::no;
use crate::{
    digest::Sha256,
    error::{Context as _, Result, ensure},
    version::Version,
    wheel::DistName,
};

/// A requirements file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requirements {
    /// `--index-url …`, in pairs.
    pub(super) sources: Vec<String>,
    pub(super) packages: Vec<Pinned>,
}

/// The version of a project that is installed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pinned {
    pub project: DistName,
    /// `libraries,device-gfx942`. The packages that they ask for are listed too.
    pub(super) extras: String,
    pub version: Version,
    /// Those of all files that may be installed. Empty if the source does not say.
    pub(super) digests: Vec<Sha256>,
}

impl Requirements {
    /// Reads a file that `uv pip compile --generate-hashes` has written.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut found = Self::default();
        let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            let (project, version) = first.split_once("==").with_context(|| {
                format!("expected `project==version --hash=sha256:…`: {line:?}")
            })?;
            let (project, extras) = project.split_once('[').unwrap_or((project, ""));
            let digests = words.filter_map(|word| word.strip_prefix("--hash=sha256:"));
            let digests: Vec<Sha256> = digests.map(str::parse).try_collect()?;
            found.packages.push(Pinned {
                project: project.parse()?,
                extras: extras.trim_end_matches(']').to_owned(),
                version: version.trim_end_matches(';').parse()?,
                digests,
            });
        }
        ensure!(!found.packages.is_empty(), "no package in it");
        found.packages.sort();
        Ok(found)
    }

    /// Reads what `pip install --report` has written.
    pub(super) fn of_report(text: &str) -> Result<Self> {
        let report: Value = serde_json::from_str(text)?;
        let items = report["install"].as_array().into_iter().flatten();
        let package = |item: &Value| -> Result<Pinned> {
            let field = |path: &str| {
                let text = item.pointer(path).and_then(Value::as_str);
                text.with_context(|| format!("no `{path}` in {item}"))
            };
            Ok(Pinned {
                project: field("/metadata/name")?.parse()?,
                extras: String::new(),
                version: field("/metadata/version")?.parse()?,
                digests: vec![field("/download_info/archive_info/hashes/sha256")?.parse()?],
            })
        };
        let packages: Vec<Pinned> = items.map(package).try_collect()?;
        Ok(Self { sources: Vec::new(), packages: packages.into_iter().sorted().collect() })
    }

    /// Fails if a file is not one of those that the source has under this name and version. Takes the digests of
    /// the source where the installer told none: uv does so for a package of a find-links page whose version has
    /// a local part.
    pub(super) fn agree(&mut self, offered: &[Pinned]) -> Result<()> {
        for package in &mut self.packages {
            let (project, version) = (&package.project, &package.version);
            let told = offered.iter();
            let told = told.filter(|it| it.project == *project && it.version == *version);
            let told: Vec<Sha256> = told.flat_map(|it| it.digests.iter().copied()).collect();
            if package.digests.is_empty() {
                ensure!(!told.is_empty(), "no digest for `{project}` {version}");
                package.digests.clone_from(&told);
            }
            let other = package.digests.iter().find(|it| !told.contains(it));
            if let Some(other) = other.filter(|_| !told.is_empty()) {
                return Err(no(
                    format!(
                        "`{project}` {version} has the SHA-256 {other}, and the source says {}: this is \
                         not the file that was built",
                        told.iter().join(" or ")
                    ),
                    "`rocwheel check` names what else is wrong with the set; if `--deps` names an index, \
                     it may have another file of this name",
                ));
            }
        }
        Ok(())
    }

    /// Whether the file decides alone, because it has a digest of each package.
    pub(super) fn has_digests(&self) -> bool {
        self.packages.iter().all(|it| !it.digests.is_empty())
    }
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.project.fmt(f)?;
        if !self.extras.is_empty() {
            write!(f, "[{}]", self.extras)?;
        }
        write!(f, "=={}", self.version)
    }
}

impl Serialize for Pinned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        for word in &self.sources {
            let space = if word.starts_with("--") { "\n" } else { " " };
            write!(line, "{space}{word}")?;
        }
        writeln!(f, "{}", line.trim_start())?;
        let has_digests = self.has_digests();
        for package in &self.packages {
            write!(f, "{package}")?;
            for digest in package.digests.iter().filter(|_| has_digests) {
                write!(f, " \\\n    --hash=sha256:{digest}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
