//! [`Difference`]: what differs between two sets, decided from what was read of them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    choose::our_project,
    observe::{ObservedFile, ObservedPackage, ObservedSet},
};
use crate::{
    check::{
        Finding,
        rule::{self, some},
    },
    index::Identity,
    wheel::{Headers, PackageFilename},
};

/// What differs between two sets. Every list begins with what matters most.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    schema: &'static str,
    pub before: ComparedSet,
    pub after: ComparedSet,
    pub packages: Vec<PackageChange>,
    /// Of packages that both sets have. Without the files in `metadata`.
    pub files: Vec<FileChange>,
    pub metadata: Vec<LineChange>,
}

/// One of the sets.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ComparedSet {
    pub place: String,
    pub versions: Vec<String>,
    #[serde(flatten)]
    pub identity: Identity,
    /// The size of all packages.
    pub size: u64,
    pub packages: usize,
    /// The files of the packages that are compared, below the directories of their families.
    #[serde(skip)]
    pub files: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackageChange {
    pub package: String,
    /// The file of the later set, or of the earlier one if it is gone.
    #[serde(skip)]
    pub name: String,
    /// The file that the later set has of it.
    pub file: Option<String>,
    /// Its size; `None` if the set does not have the package.
    pub before: Option<u64>,
    pub after: Option<u64>,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum FileFate {
    Gone,
    New,
    Changed,
}

impl FileFate {
    pub(super) fn of(is_before: bool, is_after: bool) -> Self {
        match (is_before, is_after) {
            (true, false) => Self::Gone,
            (false, true) => Self::New,
            _ => Self::Changed,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileChange {
    pub fate: FileFate,
    pub package: String,
    /// With `{version}` instead of the versions in it.
    pub path: String,
    pub before: Option<u64>,
    pub after: Option<u64>,
    /// The permissions before and after, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<(u32, u32)>,
}

/// The lines that METADATA, PKG-INFO, WHEEL or `entry_points.txt` lost and got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineChange {
    /// Several packages may have the same change.
    pub packages: Vec<String>,
    pub file: String,
    pub gone: Vec<String>,
    pub new: Vec<String>,
}

/// The percentage by which a package may have grown since the baseline.
const MOST_GROWTH: u128 = 10;
/// Growth by fewer bytes is ignored, even if its percentage is large.
const NOISE: u64 = 1 << 20;
/// The number of paths named for a package that lost files.
const MOST_NAMED: usize = 3;

impl Difference {
    /// The versions of the sets do not count as differences.
    pub(super) fn between(mut before: ObservedSet, mut after: ObservedSet) -> Self {
        ObservedSet::name_alike(&mut before, &mut after);
        let sets = ComparedSets { before: &before, after: &after };
        let files = sets.files();
        Self {
            schema: "rocwheel-diff-v1",
            before: ComparedSet::of(sets.before),
            after: ComparedSet::of(sets.after),
            packages: sets.package_changes(&files),
            files: sets.file_changes(&files),
            metadata: sets.metadata(&files),
        }
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }

    /// What the later set lacks of the earlier one, its baseline, and what has grown. Packages of other
    /// projects come and go by themselves.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let ours = |it: &&PackageChange| our_project(&it.name).is_some();
        let is_compared =
            |it: &&PackageChange| self.has_platform_of(&it.name) || it.after.is_some();
        for change in self.packages.iter().filter(ours).filter(is_compared) {
            let name = &change.package;
            let (old, new) = change.sizes();
            let more = new.saturating_sub(old);
            let percent = u128::from(more) * 100 / u128::from(old.max(1));
            if change.after.is_none() {
                let fact = format!("the baseline has `{name}`");
                findings.push(Finding::new(rule::PACKAGE_GONE, fact));
            } else if change.before.is_some() && more > NOISE && percent > MOST_GROWTH {
                let fact =
                    format!("`{name}` has {new} bytes, {percent} % more than the baseline's {old}");
                findings.push(Finding::new(rule::PACKAGE_GROWN, fact));
            }
        }
        let is_gone = |it: &&FileChange| it.fate == FileFate::Gone;
        let gone = self.files.iter().filter(is_gone);
        for (name, gone) in gone.map(|it| (&it.package, &it.path)).into_group_map() {
            let named = some(gone.iter().sorted(), MOST_NAMED);
            let fact = format!("`{name}` lacks files of the baseline: {named}");
            findings.push(Finding::new(rule::FILES_GONE, fact));
        }
        findings
    }

    /// Whether the later set is for the platform of a wheel. A job that builds the set for Linux compares it
    /// with one that was published for Windows, too.
    fn has_platform_of(&self, name: &str) -> bool {
        let platform = |name: &str| {
            let name: PackageFilename = name.rsplit('/').next()?.parse().ok()?;
            Some(name.tag?.platform().starts_with("win"))
        };
        let mut own = self.after.files.iter().filter_map(|it| platform(it));
        platform(name).is_none_or(|it| own.any(|own| own == it))
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
        Self {
            place: set.place.clone(),
            versions: set.versions.iter().map(ToString::to_string).collect(),
            identity: set.identity.clone(),
            size: set.packages.values().map(|it| it.size).sum(),
            packages: set.packages.len(),
            files: set.packages.values().map(|it| it.name.clone()).collect(),
        }
    }
}

impl PackageChange {
    /// The sizes before and after.
    pub fn sizes(&self) -> (u64, u64) {
        (self.before.unwrap_or(0), self.after.unwrap_or(0))
    }
}

#[derive(Clone, Copy, Debug)]
struct ComparedSets<'a> {
    before: &'a ObservedSet,
    after: &'a ObservedSet,
}

/// A file that is not the same in both sets, by the key of its package and its path without versions.
#[derive(Clone, Debug)]
struct MatchedFile<'a> {
    package: &'a str,
    path: String,
    before: Option<&'a ObservedFile>,
    after: Option<&'a ObservedFile>,
}

impl MatchedFile<'_> {
    fn fate(&self) -> FileFate {
        FileFate::of(self.before.is_some(), self.after.is_some())
    }
}

impl<'a> ComparedSets<'a> {
    /// Whether both are of the same version. Then every byte counts.
    fn have_one_version(&self) -> bool {
        self.before.fold == self.after.fold
    }

    /// The files that differ, of packages whose files are known of both sets.
    fn files(&self) -> Vec<MatchedFile<'a>> {
        let (before, after) = (placed(self.before), placed(self.after));
        let has_files = |set: &ObservedSet, package: &str| {
            let package = set.packages.get(package);
            package.is_some_and(|it| !it.files.is_empty())
        };
        let mut found = Vec::new();
        for key in before.keys().chain(after.keys()).unique() {
            let (package, path) = key;
            if !has_files(self.before, package) || !has_files(self.after, package) {
                continue;
            }
            let (one, other) = (before.get(key).copied(), after.get(key).copied());
            if let (Some(one), Some(other)) = (one, other) {
                // RECORD has the digests of the other files. It differs if one of them does.
                if path.ends_with(".dist-info/RECORD") || self.is_same(one, other) {
                    continue;
                }
            }
            found.push(MatchedFile { package, path: path.clone(), before: one, after: other });
        }
        found
    }

    fn is_same(&self, one: &ObservedFile, other: &ObservedFile) -> bool {
        if one.mode != other.mode {
            return false;
        }
        match (&one.text, &other.text) {
            (Some(one), Some(other)) if !self.have_one_version() => self.are_same_lines(one, other),
            _ => one.len == other.len && one.checksum == other.checksum,
        }
    }

    /// Whether each line is the same, or is the same without versions. A text may name the version
    /// of the other set for another reason, such as an example in a comment.
    fn are_same_lines(&self, before: &str, after: &str) -> bool {
        let (mut before, mut after) = (before.lines(), after.lines());
        let is_same = |one: &str, other: &str| {
            one == other || self.before.fold.text(one) == self.after.fold.text(other)
        };
        let mut pairs = before.by_ref().zip(after.by_ref());
        pairs.all(|(one, other)| is_same(one, other)) && before.eq(after)
    }

    /// The packages that differ: gone and new ones first, then by size.
    fn package_changes(&self, files: &[MatchedFile<'_>]) -> Vec<PackageChange> {
        let touched: BTreeSet<&str> = files.iter().map(|it| it.package).collect();
        // The version has another length in texts, and is compressed with them.
        let packed = |package: &ObservedPackage| -> u64 {
            let files = package.files.values();
            files.filter(|it| it.text.is_none()).map(|it| it.packed).sum()
        };
        let is_changed = |name: &str, before: &ObservedPackage, after: &ObservedPackage| {
            let digests = before.sha256.zip(after.sha256);
            digests.is_some_and(|(before, after)| before != after)
                || if before.files.is_empty() || after.files.is_empty() {
                    before.size != after.size
                } else if self.have_one_version() {
                    before.files != after.files
                } else {
                    touched.contains(name) || packed(before) != packed(after)
                }
        };
        let (before, after) = (&self.before.packages, &self.after.packages);
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let mut changes = Vec::new();
        for name in names {
            let (before, after) = (before.get(name), after.get(name));
            if let (Some(before), Some(after)) = (before, after)
                && !is_changed(name, before, after)
            {
                continue;
            }
            changes.push(PackageChange {
                package: name.clone(),
                name: after.or(before).map_or(String::new(), |it| it.name.clone()),
                file: after.map(|it| it.name.clone()),
                before: before.map(|it| it.size),
                after: after.map(|it| it.size),
            });
        }
        changes.sort_by_key(|it| {
            let (before, after) = it.sizes();
            let is_in_both = it.before.is_some() && it.after.is_some();
            (is_in_both, Reverse(before.abs_diff(after)))
        });
        changes
    }

    /// The files that differ, without those whose lines are shown as metadata.
    fn file_changes(&self, files: &[MatchedFile<'_>]) -> Vec<FileChange> {
        let is_shown = |file: &MatchedFile<'_>| self.line_change(file).is_some();
        // What setuptools derives from PKG-INFO.
        let is_copy = |file: &MatchedFile<'_>| {
            file.path.contains(".egg-info/") && file.fate() == FileFate::Changed
        };
        let files = files.iter().filter(|it| !is_shown(it) && !is_copy(it));
        let changes = files.map(|file| FileChange {
            fate: file.fate(),
            package: file.package.to_owned(),
            path: file.path.clone(),
            before: file.before.map(|it| it.len),
            after: file.after.map(|it| it.len),
            modes: file
                .before
                .zip(file.after)
                .map(|(before, after)| (before.mode, after.mode))
                .filter(|(before, after)| before != after),
        });
        let weight = |it: &FileChange| {
            let by = it.before.unwrap_or(0).abs_diff(it.after.unwrap_or(0));
            (it.fate, Reverse(by), it.package.clone(), it.path.clone())
        };
        changes.sorted_by_cached_key(weight).collect()
    }

    /// What differs in the lines of metadata, each change once for all packages with it.
    fn metadata(&self, files: &[MatchedFile<'_>]) -> Vec<LineChange> {
        let mut found: Vec<LineChange> = Vec::new();
        for change in files.iter().filter_map(|file| self.line_change(file)) {
            let known = found.iter_mut().find(|it| {
                (&it.file, &it.gone, &it.new) == (&change.file, &change.gone, &change.new)
            });
            match known {
                Some(same) => same.packages.extend(change.packages),
                None => found.push(change),
            }
        }
        found
    }

    /// What differs in the lines of a file with metadata. `None` if they are the same lines, or if it
    /// is another file.
    fn line_change(&self, file: &MatchedFile<'_>) -> Option<LineChange> {
        let (before, after) = file.before.zip(file.after)?;
        let lines = |it: &ObservedFile| metadata_lines(&file.path, it.text.as_ref()?);
        let (old, new) = (lines(before)?, lines(after)?);
        // A line that is in both may name the version of one of them.
        let gone = old.difference(&new);
        let gone: BTreeSet<_> = gone.map(|it| self.before.fold.text(it)).collect();
        let added = new.difference(&old);
        let added: BTreeSet<_> = added.map(|it| self.after.fold.text(it)).collect();
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let change = LineChange {
            packages: vec![file.package.to_owned()],
            file: name.to_owned(),
            gone: gone.difference(&added).cloned().collect(),
            new: added.difference(&gone).cloned().collect(),
        };
        let is_same = change.gone.is_empty() && change.new.is_empty();
        (!is_same).then_some(change)
    }
}

/// The files of a set by package and path, both without versions.
fn placed(set: &ObservedSet) -> BTreeMap<(&str, String), &ObservedFile> {
    let packages = set.packages.iter();
    let files = packages.flat_map(|(package, it)| it.files.iter().map(move |it| (package, it)));
    files.map(|(package, (path, file))| ((package.as_str(), set.fold.text(path)), file)).collect()
}

/// The lines of a file with metadata, such as `Requires-Dist: numpy`. `None` for other files.
fn metadata_lines(path: &str, text: &str) -> Option<BTreeSet<String>> {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_info = directory.ends_with(".dist-info");
    match name {
        "entry_points.txt" if is_info => Some(entry_points(text)),
        "METADATA" | "WHEEL" if is_info => Some(field_lines(text)),
        "PKG-INFO" if directory.is_empty() => Some(field_lines(text)),
        _ => None,
    }
}

fn field_lines(text: &str) -> BTreeSet<String> {
    let headers = text.parse::<Headers>();
    headers
        .iter()
        .flat_map(Headers::iter)
        .filter(|(name, _)| *name != "Dynamic")
        .map(|(name, value)| format!("{name}: {value}"))
        .collect()
}

/// `console_scripts: hipcc = rocm_sdk_core._cli:hipcc`
fn entry_points(text: &str) -> BTreeSet<String> {
    let (mut found, mut group) = (BTreeSet::new(), "");
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            Some(name) => group = name,
            None => _ = found.insert(format!("{group}: {line}")),
        }
    }
    found
}
