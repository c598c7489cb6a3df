//! [`Difference`]: what differs between two sets, decided from what was read of them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    DiffDepth,
    contents::{
        CodeChange, LibraryChange, LineChange, TextKind, code, libraries, line_change, line_counts,
        lines,
    },
    matching::{ComparedSets, FileFate, FilePlace, MatchedFile, differ, unread},
    observe::{ObservedPackage, ObservedSet},
};
use crate::set::Identity;

/// What differs between two sets. Every list begins with what matters most.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    schema: &'static str,
    pub before: ComparedSet,
    pub after: ComparedSet,
    pub depth: DiffDepth,
    pub packages: Vec<PackageChange>,
    /// The directories of packages whose files have another size in total.
    pub directories: Vec<SizeChange>,
    pub files: Vec<FileChange>,
    pub libraries: Vec<LibraryChange>,
    pub device_code: Vec<CodeChange>,
    pub metadata: Vec<LineChange>,
    pub tables: Vec<LineChange>,
    /// How many files differ that a greater depth would look into.
    pub unread_files: usize,
}

/// One of the sets.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ComparedSet {
    pub place: String,
    pub versions: Vec<String>,
    #[serde(flatten)]
    pub identity: Identity,
    #[serde(flatten)]
    pub weight: PackageWeight,
    pub packages: usize,
    /// The files of the packages that are compared, below the directories of their families.
    #[serde(skip)]
    pub files: BTreeSet<String>,
}

/// How large a package or a set is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PackageWeight {
    /// The size of the files that are downloaded.
    pub size: u64,
    /// The size of the files as installed.
    pub installed_size: u64,
    pub file_count: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackageChange {
    pub package: String,
    /// The file that the later set has of it.
    pub file: Option<String>,
    /// `None` if the set does not have the package.
    pub before: Option<PackageWeight>,
    pub after: Option<PackageWeight>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeChange {
    pub package: String,
    pub path: String,
    pub before: u64,
    pub after: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileChange {
    pub fate: FileFate,
    #[serde(flatten)]
    pub file: FilePlace,
    /// Where a file was that is at another place now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<FilePlace>,
    pub before: Option<u64>,
    pub after: Option<u64>,
    /// The permissions before and after, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<(u32, u32)>,
    /// Where a symlink leads, before and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<(String, String)>,
    /// How many lines a text lost and got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<(usize, usize)>,
}

impl Difference {
    pub(super) fn of(sets: &ComparedSets<'_>, depth: DiffDepth) -> Self {
        let files = sets.files();
        let is_table = |kind| kind == TextKind::Tables;
        Self {
            schema: "rocwheel-diff-v1",
            before: ComparedSet::of(sets.before),
            after: ComparedSet::of(sets.after),
            depth,
            packages: packages(sets, &files),
            directories: directories(sets),
            files: file_changes(sets, &files),
            libraries: libraries(sets, &files),
            device_code: code(sets),
            metadata: lines(sets, &files, |kind| !is_table(kind)),
            tables: lines(sets, &files, is_table),
            unread_files: unread(&files, depth),
        }
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }

    /// The path of the comparison of both commits on GitHub, if both are of one repository.
    pub fn source(&self) -> Option<String> {
        let (before, after) = (&self.before.identity, &self.after.identity);
        let (old, new) = (before.commit.as_ref()?, after.commit.as_ref()?);
        let repository = after.repository.as_ref().or(before.repository.as_ref())?;
        (old != new).then(|| format!("{repository}/compare/{old}...{new}"))
    }
}

impl ComparedSet {
    fn of(set: &ObservedSet) -> Self {
        let weights = set.packages.values().map(PackageWeight::of);
        let weight = weights.fold(PackageWeight::default(), |sum, it| PackageWeight {
            size: sum.size.saturating_add(it.size),
            installed_size: sum.installed_size.saturating_add(it.installed_size),
            file_count: sum.file_count.saturating_add(it.file_count),
        });
        Self {
            place: set.place.clone(),
            versions: set.versions.iter().map(ToString::to_string).collect(),
            identity: set.identity.clone(),
            weight,
            packages: set.packages.len(),
            files: set.packages.values().map(|it| it.name.clone()).collect(),
        }
    }
}

impl PackageWeight {
    fn of(package: &ObservedPackage) -> Self {
        let files = package.files.values();
        Self {
            size: package.size,
            installed_size: files.map(|it| it.content.len).sum(),
            file_count: package.files.len(),
        }
    }
}

impl PackageChange {
    /// The sizes before and after.
    pub fn sizes(&self) -> (u64, u64) {
        let size = |weight: Option<PackageWeight>| weight.map_or(0, |it| it.size);
        (size(self.before), size(self.after))
    }
}

/// The packages of both sets with the same name, either of which may be missing.
fn paired<'a>(
    sets: &ComparedSets<'a>,
) -> impl Iterator<
    Item = (
        &'a str,
        Option<&'a ObservedPackage>,
        Option<&'a ObservedPackage>,
    ),
> {
    let (before, after) = (&sets.before.packages, &sets.after.packages);
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let names = names.into_iter();
    names.map(|name| (name.as_str(), before.get(name), after.get(name)))
}

/// The packages that differ: gone and new ones first, then by size.
fn packages(sets: &ComparedSets<'_>, files: &[MatchedFile<'_>]) -> Vec<PackageChange> {
    let touched: BTreeSet<&str> = files
        .iter()
        .flat_map(|it| it.before.into_iter().chain(it.after))
        .map(|it| it.package)
        .collect();
    let packed = |package: &ObservedPackage| {
        let files = package.files.values();
        let plain = files.filter(|it| it.content.kept.is_none());
        plain.map(|it| it.packed).sum::<u64>()
    };
    let is_changed = |name: &str, before: &ObservedPackage, after: &ObservedPackage| {
        let is_resized = if sets.is_exact {
            before.size != after.size
        } else {
            // The version has another length in texts, and is compressed with them.
            packed(before) != packed(after)
        };
        touched.contains(name) || is_resized || differ(before.sha256, after.sha256)
    };
    let changes = paired(sets).filter(|(name, before, after)| match (before, after) {
        (Some(before), Some(after)) => is_changed(name, before, after),
        _ => true,
    });
    let changes = changes.map(|(name, before, after)| PackageChange {
        package: name.to_owned(),
        file: after.map(|it| it.name.clone()),
        before: before.map(PackageWeight::of),
        after: after.map(PackageWeight::of),
    });
    let weight = |it: &PackageChange| {
        let (before, after) = it.sizes();
        let is_in_both = it.before.is_some() && it.after.is_some();
        (is_in_both, Reverse(before.abs_diff(after)))
    };
    changes.sorted_by_key(weight).collect()
}

/// The directories whose sizes differ, of packages that both sets have.
fn directories(sets: &ComparedSets<'_>) -> Vec<SizeChange> {
    let mut sums: BTreeMap<(&str, String), (u64, u64)> = BTreeMap::new();
    let both = paired(sets).filter_map(|(name, before, after)| Some((name, before?, after?)));
    for (name, before, after) in both {
        for (package, set, is_after) in [(before, sets.before, false), (after, sets.after, true)] {
            for (path, file) in &package.files {
                let text = file.text().filter(|_| !sets.is_exact);
                let len = text.map_or(file.content.len, |it| set.fold.text(it).len() as u64);
                let sum = sums
                    .entry((name, directory(&set.fold.text(path))))
                    .or_default();
                let sum = if is_after { &mut sum.1 } else { &mut sum.0 };
                *sum = sum.saturating_add(len);
            }
        }
    }
    let changes = sums
        .into_iter()
        .filter(|(_, (before, after))| before != after);
    let changes = changes.filter(|((_, path), _)| sets.is_exact || !path.ends_with(".dist-info"));
    let changes = changes.map(|((package, path), (before, after))| SizeChange {
        package: package.to_owned(),
        path,
        before,
        after,
    });
    changes
        .sorted_by_key(|it| Reverse(it.before.abs_diff(it.after)))
        .collect()
}

/// The first two directories below the top one, which has the name of the package:
/// `_rocm_sdk_core/lib/llvm`.
fn directory(path: &str) -> String {
    let (directory, _) = path.rsplit_once('/').unwrap_or(("", path));
    let parts: Vec<&str> = directory.split('/').take(3).collect();
    if directory.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

/// The files that differ, without those whose lines are shown as metadata or tables.
fn file_changes(sets: &ComparedSets<'_>, files: &[MatchedFile<'_>]) -> Vec<FileChange> {
    let is_told = |file: &MatchedFile<'_>| line_change(sets, file).is_some();
    let told: BTreeSet<&str> = files
        .iter()
        .filter(|it| is_told(it))
        .map(MatchedFile::package)
        .collect();
    // What setuptools derives from PKG-INFO.
    let is_copy = |file: &MatchedFile<'_>| {
        let is_inside = file.after.is_some_and(|it| it.path.contains(".egg-info/"));
        is_inside && file.versions().is_some() && told.contains(file.package())
    };
    let shown = files
        .iter()
        .filter(|it| sets.is_exact || !(is_told(it) || is_copy(it)));
    let changes = shown.map(|file| {
        let (before, after) = (file.before.map(|it| it.file), file.after.map(|it| it.file));
        let earlier = FilePlace::earlier(sets, file);
        let is_elsewhere = matches!(file.fate, FileFate::Moved | FileFate::Renamed);
        let modes = before
            .zip(after)
            .map(|(before, after)| (before.mode, after.mode));
        let links = before.zip(after);
        let links = links.and_then(|(before, after)| before.link.clone().zip(after.link.clone()));
        FileChange {
            fate: file.fate,
            file: FilePlace::of(sets, file),
            from: earlier.filter(|_| is_elsewhere),
            before: before.map(|it| it.content.len),
            after: after.map(|it| it.content.len),
            modes: modes.filter(|(before, after)| before != after),
            links: links.filter(|(before, after)| before != after),
            lines: line_counts(sets, file),
        }
    });
    let weight = |it: &FileChange| {
        let by = it.before.unwrap_or(0).abs_diff(it.after.unwrap_or(0));
        (it.fate, Reverse(by), it.file.clone())
    };
    changes.sorted_by_cached_key(weight).collect()
}
