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
};
use rocwheel_wheel::{Headers, PackageFilename};

/// What differs between two sets. Every list begins with what matters most.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    schema: &'static str,
    pub before: ComparedSet,
    pub after: ComparedSet,
    pub packages: Vec<PackageChange>,
    /// The files that differ in packages that both sets have, without the files in `metadata`.
    pub files: Vec<FileChange>,
    pub metadata: Vec<LineChange>,
}

/// What the answer says about one of the two sets.
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
    /// What the package is called in both sets.
    pub package: String,
    /// The name of its file in the later set, or in the earlier set if the later one lacks the package.
    #[serde(skip)]
    pub name: String,
    /// The name of its file in the later set.
    pub file: Option<String>,
    /// The name of its file in the earlier set, if the names differ in more than the version.
    #[serde(rename = "renamed-from", skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// Its size in each set; `None` if the set lacks the package.
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
    pub(super) fn of(exists_before: bool, exists_after: bool) -> Self {
        match (exists_before, exists_after) {
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
    /// The path in the package, with `{version}` where it names a version of the set.
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
        ObservedSet::share_keys(&mut before, &mut after);
        let sets = ComparedSets { before: &before, after: &after };
        let files = sets.changed_files();
        Self {
            schema: "rocwheel-diff-v1",
            before: ComparedSet::of(sets.before),
            after: ComparedSet::of(sets.after),
            packages: sets.package_changes(&files),
            files: sets.file_changes(&files),
            metadata: sets.metadata_changes(&files),
        }
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }

    /// Which packages and files of the earlier set, the baseline, the later set lacks, and which packages
    /// have grown.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for change in &self.packages {
            // Packages of other projects, such as dependencies, come and go by themselves.
            if our_project(&change.name).is_none() {
                continue;
            }
            let name = &change.package;
            let (old, new) = change.sizes();
            let growth = new.saturating_sub(old);
            let percent = u128::from(growth) * 100 / u128::from(old.max(1));
            if change.after.is_none() {
                // A package for another platform is not missed.
                if self.has_platform_of(&change.name) {
                    let fact = format!("the baseline has `{name}`");
                    findings.push(Finding::new(rule::PACKAGE_GONE, fact));
                }
            } else if change.before.is_some() && growth > NOISE && percent > MOST_GROWTH {
                let fact =
                    format!("`{name}` has {new} bytes, {percent} % more than the baseline's {old}");
                findings.push(Finding::new(rule::PACKAGE_GROWN, fact));
            }
        }
        let gone_files = self.files.iter().filter(|file| file.fate == FileFate::Gone);
        let gone_by_package = gone_files.map(|file| (&file.package, &file.path)).into_group_map();
        for (package, paths) in gone_by_package {
            let named = some(paths.iter().sorted(), MOST_NAMED);
            let fact = format!("`{package}` lacks files of the baseline: {named}");
            findings.push(Finding::new(rule::FILES_GONE, fact));
        }
        findings
    }

    /// Whether the later set has a wheel for the platform of this wheel. A job that builds the set for Linux
    /// compares it with a published set, which also has the wheels for Windows.
    fn has_platform_of(&self, name: &str) -> bool {
        let is_for_windows = |path: &str| {
            let name: PackageFilename = path.rsplit('/').next()?.parse().ok()?;
            Some(name.tag?.platform().starts_with("win"))
        };
        let Some(platform) = is_for_windows(name) else {
            // An sdist is for every platform.
            return true;
        };
        self.after.files.iter().any(|file| is_for_windows(file) == Some(platform))
    }

    /// The path on GitHub that compares the commits of both sets: `ROCm/TheRock/compare/5a6d…...91ec…`.
    pub fn source(&self) -> Option<String> {
        let before = &self.before.identity;
        let after = &self.after.identity;
        let old = before.commit.as_ref()?;
        let new = after.commit.as_ref()?;
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

impl ObservedPackage {
    /// The name of its file, if the name in the later set differs in more than the version.
    fn renamed_to(&self, after: &Self) -> Option<&str> {
        let parse =
            |package: &Self| package.name.rsplit('/').next()?.parse::<PackageFilename>().ok();
        let is_renamed = match parse(self).zip(parse(after)) {
            // A tag says where a package can be installed, and does not depend on the version.
            Some((old, new)) if old.version != new.version => {
                (old.tag, old.label) != (new.tag, new.label)
            }
            _ => self.name != after.name,
        };
        is_renamed.then_some(&self.name)
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

/// A file that is not the same in both sets.
#[derive(Clone, Debug)]
struct MatchedFile<'a> {
    /// The key of its package, and its path without versions: both are the same in both sets.
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

    /// The files that differ, in packages whose files are known from both sets.
    fn changed_files(&self) -> Vec<MatchedFile<'a>> {
        let before = files_by_path(self.before);
        let after = files_by_path(self.after);
        let has_files = |set: &ObservedSet, package: &str| {
            set.packages.get(package).is_some_and(|package| !package.files.is_empty())
        };
        let mut changed = Vec::new();
        for key in before.keys().chain(after.keys()).unique() {
            let (package, path) = key;
            // A package that one set lacks, or that only its `set.json` describes, is a change as a whole.
            if !has_files(self.before, package) || !has_files(self.after, package) {
                continue;
            }
            let old = before.get(key).copied();
            let new = after.get(key).copied();
            if let (Some(old), Some(new)) = (old, new) {
                // RECORD has the digests of the other files. It differs if one of them does.
                if path.ends_with(".dist-info/RECORD") || self.is_same(old, new) {
                    continue;
                }
            }
            changed.push(MatchedFile { package, path: path.clone(), before: old, after: new });
        }
        changed
    }

    fn is_same(&self, before: &ObservedFile, after: &ObservedFile) -> bool {
        if before.mode != after.mode {
            return false;
        }
        match (&before.text, &after.text) {
            // Texts of two versions may differ where they name the version.
            (Some(before), Some(after)) if !self.have_one_version() => {
                self.have_same_lines(before, after)
            }
            _ => before.len == after.len && before.checksum == after.checksum,
        }
    }

    /// Whether each line is the same, or is the same without versions. A text may name the version
    /// of the other set for another reason, such as an example in a comment.
    fn have_same_lines(&self, before: &str, after: &str) -> bool {
        let is_same = |old: &str, new: &str| {
            old == new
                || self.before.fold.replace_versions(old) == self.after.fold.replace_versions(new)
        };
        let mut pairs = before.lines().zip_longest(after.lines());
        // A line that only one of them has is no version.
        pairs.all(|pair| pair.both().is_some_and(|(old, new)| is_same(old, new)))
    }

    /// The packages that differ: gone and new ones first, then by size.
    fn package_changes(&self, files: &[MatchedFile<'_>]) -> Vec<PackageChange> {
        let with_changed_files: BTreeSet<&str> = files.iter().map(|file| file.package).collect();
        let names: BTreeSet<&String> =
            self.before.packages.keys().chain(self.after.packages.keys()).collect();
        let mut changes = Vec::new();
        for name in names {
            let before = self.before.packages.get(name);
            let after = self.after.packages.get(name);
            let renamed_from =
                before.zip(after).and_then(|(before, after)| before.renamed_to(after));
            if let (Some(before), Some(after)) = (before, after)
                && renamed_from.is_none()
                && !self.is_changed(before, after, with_changed_files.contains(name.as_str()))
            {
                continue;
            }
            changes.push(PackageChange {
                package: name.clone(),
                name: after.or(before).map_or(String::new(), |package| package.name.clone()),
                file: after.map(|package| package.name.clone()),
                renamed_from: renamed_from.map(str::to_owned),
                before: before.map(|package| package.size),
                after: after.map(|package| package.size),
            });
        }
        changes.sort_by_key(|change| {
            let (before, after) = change.sizes();
            let is_in_both = change.before.is_some() && change.after.is_some();
            (is_in_both, Reverse(before.abs_diff(after)))
        });
        changes
    }

    /// Whether a package of both sets is another one in the later set.
    fn is_changed(
        &self,
        before: &ObservedPackage,
        after: &ObservedPackage,
        has_changed_files: bool,
    ) -> bool {
        if let (Some(before), Some(after)) = (before.sha256, after.sha256)
            && before != after
        {
            return true;
        }
        if before.files.is_empty() || after.files.is_empty() {
            // Only the `set.json` describes one of the two.
            return before.size != after.size;
        }
        if self.have_one_version() {
            return before.files != after.files;
        }
        // The version has another length in texts, and is compressed with them: only the sizes of other
        // files tell whether they are compressed in another way.
        let packed_size = |package: &ObservedPackage| -> u64 {
            package.files.values().filter(|it| it.text.is_none()).map(|it| it.packed).sum()
        };
        has_changed_files || packed_size(before) != packed_size(after)
    }

    /// The files that differ, without the files whose lines are shown as metadata.
    fn file_changes(&self, files: &[MatchedFile<'_>]) -> Vec<FileChange> {
        let is_shown = |file: &MatchedFile<'_>| self.line_change(file).is_some();
        // setuptools derives these files from PKG-INFO, which is shown.
        let is_derived = |file: &MatchedFile<'_>| {
            file.path.contains(".egg-info/") && file.fate() == FileFate::Changed
        };
        let unexplained = files.iter().filter(|file| !is_shown(file) && !is_derived(file));
        let changes = unexplained.map(|file| FileChange {
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
        let by_fate_and_growth = |change: &FileChange| {
            let growth = change.before.unwrap_or(0).abs_diff(change.after.unwrap_or(0));
            (change.fate, Reverse(growth), change.package.clone(), change.path.clone())
        };
        changes.sorted_by_cached_key(by_fate_and_growth).collect()
    }

    /// The lines of metadata that differ. A change that several packages have is in the list once.
    fn metadata_changes(&self, files: &[MatchedFile<'_>]) -> Vec<LineChange> {
        let mut changes: Vec<LineChange> = Vec::new();
        for change in files.iter().filter_map(|file| self.line_change(file)) {
            let same = changes.iter_mut().find(|known| {
                (&known.file, &known.gone, &known.new) == (&change.file, &change.gone, &change.new)
            });
            match same {
                Some(known) => known.packages.extend(change.packages),
                None => changes.push(change),
            }
        }
        changes
    }

    /// The lines that differ in a file with metadata. `None` if the lines are the same, or if the file has
    /// no metadata.
    fn line_change(&self, file: &MatchedFile<'_>) -> Option<LineChange> {
        let lines = |side: &ObservedFile| metadata_lines(&file.path, side.text.as_ref()?);
        let old = lines(file.before?)?;
        let new = lines(file.after?)?;
        // Versions are replaced only in lines that differ: a line that is in both may name the version of
        // one set.
        let gone: BTreeSet<String> =
            old.difference(&new).map(|line| self.before.fold.replace_versions(line)).collect();
        let added: BTreeSet<String> =
            new.difference(&old).map(|line| self.after.fold.replace_versions(line)).collect();
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let change = LineChange {
            packages: vec![file.package.to_owned()],
            file: name.to_owned(),
            gone: gone.difference(&added).cloned().collect(),
            new: added.difference(&gone).cloned().collect(),
        };
        let is_empty = change.gone.is_empty() && change.new.is_empty();
        (!is_empty).then_some(change)
    }
}

/// The files of a set by package and path, both without versions.
fn files_by_path(set: &ObservedSet) -> BTreeMap<(&str, String), &ObservedFile> {
    let mut files = BTreeMap::new();
    for (package, observed) in &set.packages {
        for (path, file) in &observed.files {
            files.insert((package.as_str(), set.fold.replace_versions(path)), file);
        }
    }
    files
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
    let mut entries = BTreeSet::new();
    let mut group = "";
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            Some(name) => group = name,
            None => _ = entries.insert(format!("{group}: {line}")),
        }
    }
    entries
}
