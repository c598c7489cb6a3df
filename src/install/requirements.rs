//! [`Requirements`]: the version and the digests of everything that an install consists of, as a
//! requirements file that pip and uv read.

use std::fmt::{self, Write as _};

use itertools::Itertools as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::select::no;
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, ensure},
    version::Version,
};
use rocwheel_wheel::DistName;

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
    /// The digests of all files that may be installed. Empty if the source does not say them.
    pub(super) digests: Vec<Sha256>,
}

impl Requirements {
    /// Reads a file that `uv pip compile --generate-hashes` has written.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut packages = Vec::new();
        // A backslash joins a line and the next line.
        let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
        for line in joined.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let pin = words.next().unwrap_or_default();
            let (name, version) = pin.split_once("==").with_context(|| {
                format!("expected `project==version --hash=sha256:…`: {line:?}")
            })?;
            let (project, extras) = name.split_once('[').unwrap_or((name, ""));
            packages.push(Pinned {
                project: project.parse()?,
                extras: extras.trim_end_matches(']').to_owned(),
                version: version.trim_end_matches(';').parse()?,
                digests: words
                    .filter_map(|word| word.strip_prefix("--hash=sha256:"))
                    .map(str::parse)
                    .try_collect()?,
            });
        }
        ensure!(!packages.is_empty(), "no package in it");
        packages.sort();
        Ok(Self { sources: Vec::new(), packages })
    }

    /// Reads what `pip install --report` has written.
    pub(super) fn of_report(text: &str) -> Result<Self> {
        let report: Value = serde_json::from_str(text)?;
        let mut packages = Vec::new();
        for item in report["install"].as_array().into_iter().flatten() {
            let field = |path: &str| {
                item.pointer(path)
                    .and_then(Value::as_str)
                    .with_context(|| format!("no `{path}` in {item}"))
            };
            packages.push(Pinned {
                project: field("/metadata/name")?.parse()?,
                extras: String::new(),
                version: field("/metadata/version")?.parse()?,
                digests: vec![field("/download_info/archive_info/hashes/sha256")?.parse()?],
            });
        }
        packages.sort();
        Ok(Self { sources: Vec::new(), packages })
    }

    /// Fails if a file is not one of the files that the source has under this name and version. Takes the digests
    /// of the source for a package without digests: uv tells none for a package of a find-links page whose
    /// version has a local part.
    pub(super) fn compare_with_source(&mut self, offered: &[Pinned]) -> Result<()> {
        for package in &mut self.packages {
            let project = &package.project;
            let version = &package.version;
            let promised: Vec<Sha256> = offered
                .iter()
                .filter(|pinned| pinned.project == *project && pinned.version == *version)
                .flat_map(|pinned| pinned.digests.iter().copied())
                .collect();
            if package.digests.is_empty() {
                ensure!(!promised.is_empty(), "no digest for `{project}` {version}");
                package.digests.clone_from(&promised);
            }
            // A package of another index has no promised digest. Its digest is what the installer read now.
            if promised.is_empty() {
                continue;
            }
            if let Some(other) = package.digests.iter().find(|digest| !promised.contains(digest)) {
                return Err(no(
                    format!(
                        "`{project}` {version} has the SHA-256 {other}, and the source says {}: this is \
                         not the file that was built",
                        promised.iter().join(" or ")
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
        self.packages.iter().all(|package| !package.digests.is_empty())
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
        // Each flag begins a line, and its value is on the same line.
        let mut source_lines = String::new();
        for word in &self.sources {
            let space = if word.starts_with("--") { "\n" } else { " " };
            write!(source_lines, "{space}{word}")?;
        }
        writeln!(f, "{}", source_lines.trim_start())?;
        // One digest in the file makes pip demand a digest of every package.
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
