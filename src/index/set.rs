//! [`PackageSet`]: the files of a set, with the facts that an index shows about each.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
    fmt, iter,
    str::FromStr,
};

use crate::{
    digest::Sha256,
    index::{Layout, UploadTime},
    run::ArtifactGroup,
    version::Version,
    wheel::DistName,
};

/// A package set: every file once, sorted by project, version and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSet(Vec<SetFile>);

/// One wheel or sdist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFile {
    /// The family whose directory contains the file. `None` for files for all families.
    pub family: Option<ArtifactGroup>,
    pub name: FileName,
    pub project: DistName,
    pub version: Version,
    pub size: u64,
    pub sha256: Sha256,
    /// When it was uploaded, if the store says so.
    pub upload_time: Option<UploadTime>,
    /// The wheel's METADATA, published beside it as `{name}.metadata`.
    pub metadata: Option<Sidecar>,
    /// `Requires-Python` in the metadata: `>=3.10`.
    pub requires_python: Option<String>,
    /// The reason why the file is yanked, which may be empty. `None` if it is not yanked.
    pub yanked: Option<String>,
}

impl SetFile {
    /// The path relative to the directory of the set: `dist/rocm-7.13.0.tar.gz`.
    pub fn path(&self, layout: Layout) -> String {
        let (files, family) = (layout.files(), self.directory());
        format!("{files}{family}{}", self.name)
    }

    /// The path of its sidecar, which need not exist.
    pub fn sidecar_path(&self, layout: Layout) -> String {
        self.path(layout) + SIDECAR
    }

    /// Its directory relative to that of all files: empty, or ending in `/`.
    pub(super) fn directory(&self) -> String {
        let family = self.family.as_ref();
        family.map_or_else(String::new, |family| format!("{family}/"))
    }
}

/// The suffix of a sidecar: `x.whl.metadata` belongs to `x.whl`.
pub const SIDECAR: &str = ".metadata";

/// The METADATA of a wheel as a file beside it, so that installers can resolve without downloading
/// the wheel ([PEP 658](https://peps.python.org/pep-0658/)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sidecar {
    pub size: u64,
    /// The digest of the sidecar, not of the wheel.
    pub sha256: Sha256,
}

impl Sidecar {
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            size: bytes.len() as u64,
            sha256: Sha256::of(bytes),
        }
    }
}

/// Two files with the same name that would be on the same page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two files of one name in a package set: `{0}`")]
pub struct Duplicate(FileName);

impl PackageSet {
    pub fn new(mut files: Vec<SetFile>) -> Result<Self, Duplicate> {
        files.sort_by(|a, b| {
            let project = a.project.cmp(&b.project);
            let version = a.version.cmp(&b.version);
            project
                .then(version)
                .then_with(|| a.name.cmp(&b.name))
                .then_with(|| a.family.cmp(&b.family))
        });
        let (mut seen, mut of_all) = (HashSet::new(), HashSet::new());
        for file in &files {
            // Files for all families are sorted first, and are on the page of every family.
            let is_twice = !seen.insert((&file.family, &file.name)) || of_all.contains(&file.name);
            if is_twice {
                return Err(Duplicate(file.name.clone()));
            }
            if file.family.is_none() {
                of_all.insert(&file.name);
            }
        }
        Ok(Self(files))
    }

    pub fn files(&self) -> &[SetFile] {
        &self.0
    }

    pub fn into_files(self) -> Vec<SetFile> {
        self.0
    }

    /// Every project by its normalized name, with its files, in order.
    pub fn projects(&self) -> impl Iterator<Item = (&str, &[SetFile])> {
        projects(&self.0)
    }

    /// The families that have a directory, sorted.
    pub fn families(&self) -> BTreeSet<&ArtifactGroup> {
        self.0
            .iter()
            .filter_map(|file| file.family.as_ref())
            .collect()
    }

    /// The indexes of the set: one with the files for all families, and for each family one with
    /// those and its own files.
    pub fn views(&self) -> Vec<IndexView<'_>> {
        let families = self.families();
        if families.is_empty() {
            let files = Cow::Borrowed(self.0.as_slice());
            return vec![IndexView {
                family: None,
                files,
            }];
        }
        let one = |wanted: Option<&ArtifactGroup>| IndexView {
            family: wanted.cloned(),
            files: self
                .0
                .iter()
                .filter(|file| file.family.is_none() || file.family.as_ref() == wanted)
                .cloned()
                .collect(),
        };
        let families = families.into_iter().map(|family| one(Some(family)));
        iter::once(one(None)).chain(families).collect()
    }

    /// The size of all files, without sidecars.
    pub fn size(&self) -> u64 {
        self.0.iter().map(|file| file.size).sum()
    }
}

/// The files of one index.
#[derive(Clone, Debug)]
pub struct IndexView<'a> {
    pub family: Option<ArtifactGroup>,
    pub files: Cow<'a, [SetFile]>,
}

impl IndexView<'_> {
    pub fn projects(&self) -> impl Iterator<Item = (&str, &[SetFile])> {
        projects(&self.files)
    }

    /// The size of all files, without sidecars.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The directory of its pages: empty, or ending in `/`.
    pub(super) fn top(&self) -> String {
        let family = self.family.as_ref();
        family.map_or_else(String::new, |family| format!("{family}/"))
    }

    /// The relative path to the directory of all files, from a page `depth` directories below the
    /// directory of this index.
    pub(super) fn files_from(&self, depth: usize, layout: Layout) -> String {
        let up = depth + usize::from(self.family.is_some());
        "../".repeat(up) + layout.files()
    }
}

fn projects(files: &[SetFile]) -> impl Iterator<Item = (&str, &[SetFile])> {
    let projects = files.chunk_by(|a, b| a.project == b.project);
    projects.filter_map(|files| Some((files.first()?.project.normalized(), files)))
}

/// The name of a published file: one component of a path, and one line of text.
///
/// Never empty, `.` or `..`; no `/`, `\` or control character. Quotes, angle brackets, `%`, `+`,
/// spaces and any other Unicode are allowed, and pages escape them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(Box<str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text:?}")]
pub struct InvalidFileName {
    text: String,
    reason: &'static str,
}

impl FileName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FileName {
    type Err = InvalidFileName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let reason = if text.is_empty() {
            "an empty file name"
        } else if matches!(text, "." | "..") {
            "a directory for a file name"
        } else if text.contains(['/', '\\']) {
            "a path for a file name"
        } else if text.contains(char::is_control) {
            "a control character in a file name"
        } else {
            return Ok(Self(text.into()));
        };
        let text = text.to_owned();
        Err(InvalidFileName { text, reason })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sample sets for the tests of this module and of its siblings.
#[cfg(test)]
pub(super) mod samples {
    use super::*;

    pub(in crate::index) fn file(name: &str, project: &str, version: &str) -> SetFile {
        SetFile {
            family: None,
            name: name.parse().unwrap(),
            project: project.parse().unwrap(),
            version: version.parse().unwrap(),
            size: 1_234_567,
            sha256: Sha256::of(name.as_bytes()),
            upload_time: None,
            metadata: None,
            requires_python: None,
            yanked: None,
        }
    }

    pub(in crate::index) fn files() -> Vec<SetFile> {
        let sdist = file("rocm-7.13.0.dev0+ab.tar.gz", "rocm", "7.13.0.dev0+ab");
        let core = SetFile {
            metadata: Some(Sidecar::of(b"Metadata-Version: 2.4\n")),
            ..file(
                "rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl",
                "rocm_sdk_core",
                "7.13.0.dev0+ab",
            )
        };
        let old = SetFile {
            requires_python: Some(">=3.8,<4".into()),
            yanked: Some("broken \"launcher\" & more".into()),
            upload_time: Some("2026-03-01T12:00:05.250000Z".parse().unwrap()),
            size: 12,
            ..file(
                "rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl",
                "rocm_sdk_core",
                "7.9.0",
            )
        };
        vec![core, sdist, old]
    }

    pub(in crate::index) fn set() -> PackageSet {
        PackageSet::new(files()).unwrap()
    }

    /// A file whose name and facts try to break out of wherever they are written.
    pub(in crate::index) fn hostile() -> PackageSet {
        let name = "a\" onload='x'><b>&amp;|`%2B+ é\u{202e}-1.0.tar.gz";
        let file = SetFile {
            requires_python: Some("\"><script>".into()),
            yanked: Some("\n\"'<&>".into()),
            ..file(name, "a", "1.0")
        };
        PackageSet::new(vec![file]).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_in_the_order_of_projects_then_versions() {
        let names: Vec<String> = samples::set()
            .projects()
            .flat_map(|(project, files)| {
                files
                    .iter()
                    .map(move |file| format!("{project} {}", file.version))
            })
            .collect();
        let expected = [
            "rocm 7.13.0.dev0+ab",
            "rocm-sdk-core 7.9.0",
            "rocm-sdk-core 7.13.0.dev0+ab",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_name_twice_is_refused() {
        let file = samples::file("a-1.tar.gz", "a", "1");
        let refused = PackageSet::new(vec![file.clone(), file]).unwrap_err();
        insta::assert_snapshot!(refused, @"two files of one name in a package set: `a-1.tar.gz`");
    }

    #[test]
    fn a_file_name_is_one_component_on_one_line() {
        let refused = ["", ".", "..", "a/b", "..\\b", "a\nb", "a\0b", "a\u{85}b"];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| text.parse::<FileName>().unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        an empty file name: ""
        a directory for a file name: "."
        a directory for a file name: ".."
        a path for a file name: "a/b"
        a path for a file name: "..\\b"
        a control character in a file name: "a\nb"
        a control character in a file name: "a\0b"
        a control character in a file name: "a\u{85}b"
        "#);
        assert!("..a b+%\"<é".parse::<FileName>().is_ok());
    }
}
