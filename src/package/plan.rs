//! [`BuildPlan`]: what a build will write. For each wheel it maps the path of every member to the
//! source of its bytes. [`SdkTree`] has the development files, which one member packs.
//!
//! A plan is a value. `build --dry-run` prints it, and tests compare it with snapshots. Nothing in this
//! file reads files.

use std::{
    collections::{
        BTreeMap, BTreeSet,
        btree_map::{self, Entry},
    },
    path::PathBuf,
    sync::Arc,
};

use derive_more::IntoIterator;
use itertools::Itertools as _;

use crate::{
    artifact::{ArtifactName, TreeForm},
    policy::{
        naming::DistributionMode,
        subset::{Label, Subset, wanted},
    },
    run::Platform,
};
use rocwheel_base::{
    error::{Result, bail, ensure},
    io::FileIdentity,
    relpath::{self, RelPath, links},
    target::Scope,
    version::Version,
};
use rocwheel_elf::Rpath;
use rocwheel_wheel::pack::sort_key;

#[derive(Debug)]
pub struct BuildPlan {
    pub version: Version,
    pub mode: DistributionMode,
    pub platform: Platform,
    /// The targets or families that the set has device code for.
    pub targets: Vec<Scope>,
    /// The packages in the order in which they are written: wheels, then sdists.
    pub packages: Vec<PackagePlan>,
    /// The names that `--without` or `without` in `packages.toml` leave out of the set.
    pub without: Vec<String>,
    /// Artifacts with libraries or programs that no package takes: `brandnew_lib`.
    pub unshipped: Vec<String>,
    /// Artifacts that packages take and the run does not have: `core-ocl`, `fft_dev`, `rccl_lib_gfx942`.
    pub not_in_run: Vec<String>,
    /// What a user should know, such as files that were left out.
    pub notes: Vec<String>,
}

#[derive(Debug)]
pub struct PackagePlan {
    pub label: Label,
    pub file_name: String,
    pub form: PackageForm,
    /// The members of a wheel without its `.dist-info` directory. A sdist has none.
    pub members: Members,
    /// The texts of the `.dist-info` directory, or all files of a sdist, in the order of the archive.
    pub texts: Vec<(RelPath, String)>,
}

#[derive(Debug)]
pub enum PackageForm {
    /// A wheel with the path of its RECORD, which is added when the wheel is written.
    Wheel(RelPath),
    /// A sdist with its top directory.
    Sdist(RelPath),
}

/// A sorted map from path to member, in which no path can be inserted twice.
#[derive(Debug, Default, IntoIterator)]
pub struct Members(#[into_iterator(owned, ref)] pub(super) BTreeMap<RelPath, MemberSource>);

/// Where a member's bytes come from.
#[derive(Clone, Debug)]
pub enum MemberSource {
    /// A file of an artifact. If there is a run path, it replaces the one of the file.
    File(BuildOrigin, Option<Rpath>),
    /// A launcher, in place of a symlink with this text. Wheels cannot have symlinks.
    Launcher(String),
    /// A text that rocwheel generates.
    Text(String),
    /// The archive of the SDK tree.
    Sdk(Arc<SdkTree>, SdkTreePacking),
    /// The manifest of the SDK tree. It needs the sizes of all files, so it is rendered only after
    /// the run paths are planned.
    SdkManifest(Arc<SdkTree>),
}

/// How the SDK tree is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SdkTreePacking {
    /// `_devel.tar`
    #[default]
    #[value(name = "none")]
    Tar,
    /// `_devel.tar.xz`
    #[value(name = "xz")]
    TarXz,
}

impl MemberSource {
    pub fn is_executable(&self) -> bool {
        match self {
            Self::File(origin, _) => origin.executable,
            Self::Launcher(_) => true,
            Self::Text(_) | Self::Sdk(..) | Self::SdkManifest(_) => false,
        }
    }
}

impl Members {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, path: impl AsRef<str>) -> bool {
        self.0.contains_key(path.as_ref())
    }

    /// The members in the order of their paths.
    pub fn iter(&self) -> btree_map::Iter<'_, RelPath, MemberSource> {
        self.0.iter()
    }

    pub fn paths(&self) -> impl Iterator<Item = &RelPath> {
        self.0.keys()
    }

    /// The members in the order of the wheel.
    pub fn ordered(&self) -> Vec<(&RelPath, &MemberSource)> {
        self.0.iter().sorted_by_cached_key(|(path, _)| sort_key(path)).collect()
    }

    /// The artifacts whose files are among the members.
    pub fn artifacts(&self) -> BTreeSet<&ArtifactName> {
        let mut names = BTreeSet::new();
        for member in self.0.values() {
            match member {
                MemberSource::File(origin, _) => {
                    names.insert(&origin.artifact);
                }
                MemberSource::Sdk(tree, _) => {
                    names.extend(tree.entries.values().filter_map(|entry| match entry {
                        SdkEntry::File(origin, _) => Some(&origin.artifact),
                        _ => None,
                    }));
                }
                _ => {}
            }
        }
        names
    }

    /// Adds a member. Fails if the path has one already, because two sources for one path are a
    /// mistake of the plan.
    pub fn insert(&mut self, path: RelPath, member: MemberSource) -> Result<()> {
        match self.0.entry(path) {
            Entry::Vacant(entry) => {
                entry.insert(member);
                Ok(())
            }
            Entry::Occupied(entry) => bail!("two sources for one member `{}`", entry.key()),
        }
    }
}

impl BuildPlan {
    /// Removes every package that is not named. The contents of the others do not change.
    ///
    /// A name is the name of a package (`core`; `device` stands for all device packages), of the
    /// package for one target (`device-gfx942`), or of a distribution (`rocm-sdk-device-gfx942`).
    pub fn keep(&mut self, names: &[String]) -> Result<()> {
        let labels: Vec<&Label> = self.packages.iter().map(|package| &package.label).collect();
        let is_wanted = wanted(&labels, names)?;
        self.packages.retain(|package| is_wanted(&package.label));
        Ok(())
    }

    /// Removes all packages that are not in a subset. Fails if none is left. Packages of the subset for which
    /// the artifacts have no files may be missing; the plan has a note about each.
    pub fn keep_subset(&mut self, subset: &Subset) -> Result<()> {
        self.packages.retain(|package| subset.makes(&package.label));
        ensure!(
            !self.packages.is_empty(),
            "none of these packages is in this set: {}",
            subset.labels.iter().map(|label| format!("`{}`", label.dist)).join(", ")
        );
        Ok(())
    }

    /// The members of all wheels.
    pub(super) fn members(&self) -> impl Iterator<Item = (&RelPath, &MemberSource)> {
        self.packages.iter().flat_map(|it| it.members.iter())
    }
}

impl PackagePlan {
    /// Its path below `dist/`.
    pub fn path(&self) -> String {
        self.label.directory.iter().chain([&self.file_name]).join("/")
    }
}

/// A file of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildOrigin {
    pub artifact: ArtifactName,
    pub path: PathBuf,
    /// The length; 0 for a file that is not written yet.
    pub len: u64,
    pub is_library: bool,
    /// Installers keep nothing else of the mode.
    pub executable: bool,
    pub form: TreeForm,
    /// The file as it was when the artifacts were scanned.
    pub scanned: Option<Box<FileIdentity>>,
}

/// The SDK tree: the development files, as one member packs them. Paths are relative to its top
/// directory.
#[derive(Clone, Debug)]
pub struct SdkTree {
    /// `_rocm_sdk_devel`.
    pub top: RelPath,
    entries: BTreeMap<RelPath, SdkEntry>,
}

/// A path of a tree that is no directory, and a path below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction<'a> {
    pub file: RelPath,
    pub below: &'a RelPath,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SdkEntry {
    Directory,
    /// A file that no other package ships. A run path here replaces the one of the file.
    File(BuildOrigin, Option<Rpath>),
    /// A symlink to a file that another package ships, with its text.
    Shipped(String),
    /// A symlink within the tree, with its text.
    Link(String),
    /// An empty file.
    Empty,
}

impl SdkTree {
    /// An empty tree. `top` is its top directory.
    pub fn new(top: RelPath) -> Self {
        Self { top, entries: BTreeMap::new() }
    }

    /// Adds an entry, and its parent directories.
    pub fn add(&mut self, path: RelPath, entry: SdkEntry) {
        for directory in path.ancestors() {
            self.entries.entry(directory).or_insert(SdkEntry::Directory);
        }
        self.entries.insert(path, entry);
    }

    /// Finds a path that is no directory but has another path below it.
    pub fn find_contradiction(&self) -> Option<Contradiction<'_>> {
        let is_directory = |path: &RelPath| self.entries.get(path) == Some(&SdkEntry::Directory);
        self.entries.keys().find_map(|below| {
            let file = below.ancestors().find(|above| !is_directory(above))?;
            Some(Contradiction { file, below })
        })
    }

    /// All symlinks to files of this tree or of another package: the path of each symlink, and the
    /// path of the file.
    pub(super) fn symlinks_to_files(&self) -> impl Iterator<Item = (RelPath, RelPath)> + '_ {
        self.entries.iter().filter_map(|(path, entry)| {
            let SdkEntry::Link(_) = entry else {
                return None;
            };
            let end = self.resolve(path)?;
            let is_file =
                matches!(self.entries.get(&end), Some(SdkEntry::File(..) | SdkEntry::Shipped(_)));
            is_file.then(|| (path.clone(), end))
        })
    }

    /// The origin and the run path of a file that only the tree ships.
    pub(super) fn run_path_mut(&mut self, path: &RelPath) -> Option<(&BuildOrigin, &mut Rpath)> {
        match self.entries.get_mut(path)? {
            SdkEntry::File(origin, Some(rpath)) => Some((origin, rpath)),
            _ => None,
        }
    }

    /// Resolves all symlinks in a path; `None` if it leads out of the tree, or into a loop.
    fn resolve(&self, path: &RelPath) -> Option<RelPath> {
        let link = |path: &str| match self.entries.get(path)? {
            SdkEntry::Link(text) => Some(text.as_str()),
            _ => None,
        };
        links::real(path.as_str(), link)?.parse().ok()
    }

    /// The entries, in the order of the archive.
    ///
    /// The program that unpacks the archive empties each directory when it first meets it. So a
    /// directory comes before its contents, and its files before its subdirectories. Symlinks
    /// within the tree come after the files and the symlinks to other packages that they may lead
    /// to, so that they can become hard links.
    pub fn ordered(&self) -> Vec<(&RelPath, &SdkEntry)> {
        let mut ordered = self.entries.iter().collect_vec();
        ordered.sort_by_cached_key(|&(path, entry)| {
            // The entries of a directory sort before the entries of its subdirectories.
            let last = path.depth() - 1;
            let steps = path.components().enumerate().map(|(depth, name)| {
                let turn = (depth == last).then(|| entry.turn());
                (depth < last, turn, name)
            });
            steps.collect_vec()
        });
        ordered
    }
}

/// The text of a symlink at `from` that leads to `to`: `../lib/libx.so`.
pub(super) fn relative_path(from: &RelPath, to: &RelPath) -> String {
    let (from_directory, _) = relpath::split(from.as_str());
    let (to_directory, name) = relpath::split(to.as_str());
    match &*relpath::between(from_directory, to_directory) {
        "" => name.to_owned(),
        directory => format!("{directory}/{name}"),
    }
}

impl SdkEntry {
    /// Its place among the entries of one directory, see [`SdkTree::ordered`].
    fn turn(&self) -> u8 {
        match self {
            Self::Empty => 0,
            Self::File(..) | Self::Shipped(_) => 1,
            Self::Link(_) => 2,
            Self::Directory => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_way_goes_up_as_far_as_it_must_and_no_further() {
        let relative =
            |from: &str, to: &str| relative_path(&from.parse().unwrap(), &to.parse().unwrap());
        assert_eq!(relative("lib/libx.so", "lib/libx.so.1"), "libx.so.1");
        assert_eq!(relative("lib/libx.so", "lib/sub/libx.so.1"), "sub/libx.so.1");
        assert_eq!(relative("lib/sub/libx.so", "lib/libx.so.1"), "../libx.so.1");
        assert_eq!(relative("bin/x", "libexec/x/bin/x"), "../libexec/x/bin/x");
        assert_eq!(relative("x", "y"), "y");
        assert_eq!(relative("a", "a/b"), "a/b");
        assert_eq!(relative("a/b", "a"), "../a");
    }

    fn path() -> impl Strategy<Value = RelPath> {
        "[ab](/[ab]){0,4}".prop_map(|text| text.parse().unwrap())
    }

    proptest! {
        #[test]
        fn the_way_always_arrives(from in path(), to in path()) {
            prop_assert_eq!(from.resolve_link(&relative_path(&from, &to)), Some(to));
        }

        #[test]
        fn a_directory_comes_before_what_is_in_it_and_files_before_links(
            paths in proptest::collection::btree_map(path(), 0..3_u8, 1..20)
        ) {
            let mut tree = SdkTree::new("_top".parse().unwrap());
            tree.add("__init__.py".parse().unwrap(), SdkEntry::Empty);
            for (path, kind) in paths {
                let (name, entry) = match kind {
                    0 => ("d", SdkEntry::Directory),
                    1 => ("l", SdkEntry::Link("x".to_owned())),
                    _ => ("s", SdkEntry::Shipped("../x".to_owned())),
                };
                tree.add(path.join(&name.parse().unwrap()), entry);
            }
            let ordered = tree.ordered();
            prop_assert_eq!(ordered[0].0.as_str(), "__init__.py");
            prop_assert_eq!(ordered.len(), tree.entries.len());
            let place = |path: &RelPath| ordered.iter().position(|(other, _)| *other == path);
            for (at, (path, entry)) in ordered.iter().enumerate() {
                for above in path.ancestors() {
                    prop_assert!(place(&above).unwrap() < at, "{} before {}", path, above);
                }
                if let SdkEntry::Link(_) = entry {
                    let later = &ordered[at..];
                    let beside = later.iter().find(|(other, entry)| {
                        other.parent() == path.parent() && matches!(entry, SdkEntry::Shipped(_))
                    });
                    prop_assert!(beside.is_none(), "{} after the link {}", beside.unwrap().0, path);
                }
            }
        }
    }
}
