//! [`PackageSet`]: the files of a set, with the facts that an index shows about each; and the rules
//! for names of packages.

use std::{
    collections::{BTreeSet, HashSet},
    iter,
};

use crate::{
    digest::Sha256,
    error::{Result, ensure},
    run::ArtifactGroup,
    version::Version,
    wheel::{DistName, SdistFilename, WheelFilename},
};

/// Where the packages are stored, relative to the directory of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A plain directory of packages: `name.whl` beside `simple/`.
    Flat,
    /// A published set: `dist/name.whl` beside `simple/`.
    Dist,
}

impl Layout {
    /// The directory of the files, empty or ending in `/`.
    pub fn files(self) -> &'static str {
        match self {
            Self::Flat => "",
            Self::Dist => "dist/",
        }
    }
}

/// One wheel or sdist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFile {
    /// The family whose directory contains the file. `None` for files for all families.
    pub family: Option<ArtifactGroup>,
    /// One component of a key, so that it has no control character. Quotes, angle brackets, `%`,
    /// `+`, spaces and any other Unicode are allowed, and pages escape them.
    pub name: String,
    pub project: DistName,
    pub version: Version,
    pub size: u64,
    pub sha256: Sha256,
    /// When it was uploaded, if the store says so, in the format of
    /// [PEP 700](https://peps.python.org/pep-0700/).
    pub upload_time: Option<String>,
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
        layout.files().to_owned() + &self.below()
    }

    /// The path of its sidecar, which need not exist.
    pub fn sidecar_path(&self, layout: Layout) -> String {
        self.path(layout) + SIDECAR
    }

    /// The path relative to the directory of all files.
    pub(super) fn below(&self) -> String {
        directory(self.family.as_ref()) + &self.name
    }

    fn order(&self) -> (&DistName, &Version, &str, Option<&ArtifactGroup>) {
        (
            &self.project,
            &self.version,
            &self.name,
            self.family.as_ref(),
        )
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

/// A package set: every file once, sorted by project, version and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSet(Vec<SetFile>);

impl PackageSet {
    /// Fails if two files of one name would be on the same page.
    pub fn new(mut files: Vec<SetFile>) -> Result<Self> {
        files.sort_by(|a, b| a.order().cmp(&b.order()));
        let (mut seen, mut of_all) = (HashSet::new(), HashSet::new());
        for file in &files {
            // Files for all families are sorted first, and are on the page of every family.
            ensure!(
                seen.insert((&file.family, &file.name)) && !of_all.contains(&file.name),
                "two files of one name in a package set: `{}`",
                file.name
            );
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

    /// The families that have a directory, sorted.
    pub fn families(&self) -> BTreeSet<&ArtifactGroup> {
        let families = self.0.iter().filter_map(|file| file.family.as_ref());
        families.collect()
    }

    /// The indexes of the set: one with the files for all families, and for each family one with
    /// those and its own files.
    pub fn views(&self) -> Vec<IndexView<'_>> {
        let is_in = |file: &SetFile, wanted: Option<&ArtifactGroup>| {
            file.family.is_none() || file.family.as_ref() == wanted
        };
        let families = self.families().into_iter().map(Some);
        let views = iter::once(None).chain(families).map(|family| IndexView {
            family,
            files: self.0.iter().filter(|it| is_in(it, family)).collect(),
        });
        views.collect()
    }
}

/// The files of one index.
#[derive(Clone, Debug)]
pub struct IndexView<'a> {
    pub family: Option<&'a ArtifactGroup>,
    pub files: Vec<&'a SetFile>,
}

impl IndexView<'_> {
    /// Every project by its normalized name, with its files, in order.
    pub fn projects(&self) -> impl Iterator<Item = (&str, &[&SetFile])> {
        let projects = self.files.chunk_by(|a, b| a.project == b.project);
        projects.filter_map(|files| Some((files.first()?.project.normalized(), files)))
    }

    /// The directory of its pages: empty, or ending in `/`.
    pub(super) fn top(&self) -> String {
        directory(self.family)
    }

    /// The relative path to the directory of all files, from a page `depth` directories below the
    /// directory of this index.
    pub(super) fn files_from(&self, depth: usize, layout: Layout) -> String {
        let up = depth + usize::from(self.family.is_some());
        "../".repeat(up) + layout.files()
    }
}

/// The directory of a family: empty, or ending in `/`.
pub(super) fn directory(family: Option<&ArtifactGroup>) -> String {
    family.map_or_else(String::new, |family| format!("{family}/"))
}

/// Whether a project is one of the ROCm packages. A set may also hold other packages, such as
/// torch, and an index their dependencies.
pub fn is_ours(project: &DistName) -> bool {
    let name = project.normalized();
    name == "rocm" || name.starts_with("rocm-")
}

const WHEEL: &str = ".whl";
const SDIST: &str = ".tar.gz";

pub(super) fn is_wheel(name: &str) -> bool {
    name.ends_with(WHEEL)
}

/// Whether a file is a wheel or an sdist by its name. Other files in the directory are ignored.
pub(super) fn is_package(name: &str) -> bool {
    let ends = |end: &str| name.len() > end.len() && name.ends_with(end);
    !name.starts_with('.') && (ends(WHEEL) || ends(SDIST))
}

/// Project and version of a package, from its file name. `None` if the name is invalid.
pub fn identity(file: &str) -> Option<(DistName, Version)> {
    let file = file.rsplit('/').next()?;
    if is_wheel(file) {
        let name: WheelFilename = file.parse().ok()?;
        Some((name.name, name.version))
    } else {
        let name: SdistFilename = file.parse().ok()?;
        Some((name.name, name.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::tests as samples;

    #[test]
    fn a_set_is_in_the_order_of_projects_then_versions() {
        let set = samples::set();
        let files = set.files().iter();
        let names = files.map(|file| format!("{} {}", file.project.normalized(), file.version));
        let expected = [
            "rocm 7.13.0.dev0+ab",
            "rocm-sdk-core 7.9.0",
            "rocm-sdk-core 7.13.0.dev0+ab",
        ];
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_name_twice_is_refused() {
        let file = samples::file("a-1.tar.gz", "a", "1");
        let refused = PackageSet::new(vec![file.clone(), file]).unwrap_err();
        insta::assert_snapshot!(refused, @"two files of one name in a package set: `a-1.tar.gz`");
    }
}
