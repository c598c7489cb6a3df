//! Finds the files that differ: gone, new, moved, renamed or changed.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    DiffDepth,
    observe::{ObservedFile, ObservedSet, WantedMembers},
};
use crate::{check::observe::is_devel, digest::Sha256};

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum FileFate {
    Gone,
    New,
    /// The same bytes at another path.
    Moved,
    /// Other bytes at a path that differs in its numbers: `librocblas.so.5` and `librocblas.so.6`.
    Renamed,
    Changed,
}

/// A file that is not the same in both sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchedFile<'a> {
    pub(super) fate: FileFate,
    pub(super) before: Option<PlacedFile<'a>>,
    pub(super) after: Option<PlacedFile<'a>>,
}

/// A file with the key of its package.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedFile<'a> {
    pub(super) package: &'a str,
    pub(super) path: &'a str,
    pub(super) file: &'a ObservedFile,
}

/// A file, with the versions in its path replaced by `{version}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FilePlace {
    pub package: String,
    pub path: String,
}

/// Two sets, and how their files are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComparedSets<'a> {
    pub(super) before: &'a ObservedSet,
    pub(super) after: &'a ObservedSet,
    /// Whether versions count as differences.
    pub(super) is_exact: bool,
}

impl<'a> ComparedSets<'a> {
    /// A text of the set before, with the versions folded unless they count.
    pub(super) fn before_text(&self, text: &str) -> String {
        self.folded(self.before, text)
    }

    pub(super) fn after_text(&self, text: &str) -> String {
        self.folded(self.after, text)
    }

    fn folded(&self, set: &ObservedSet, text: &str) -> String {
        if self.is_exact {
            text.to_owned()
        } else {
            set.fold.text(text)
        }
    }

    /// Whether both sets have a package.
    pub(super) fn have(&self, package: &str) -> bool {
        self.before.packages.contains_key(package) && self.after.packages.contains_key(package)
    }

    /// The files that differ. Those of a package that only one set has are not among them, except
    /// for those that moved.
    pub(super) fn files(&self) -> Vec<MatchedFile<'a>> {
        let (before, after) = (placed(self.before), placed(self.after));
        let mut found = Vec::new();
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for (key, one) in &before {
            match after.get(key) {
                None => gone.push(*one),
                Some(other) if self.is_same(one.file, other.file) => {}
                Some(other) if self.is_derived(one.path) && self.is_derived(other.path) => {}
                Some(other) => found.push(pair(FileFate::Changed, *one, *other)),
            }
        }
        let added = after.iter().filter(|(key, _)| !before.contains_key(*key));
        new.extend(added.map(|(_, file)| *file));
        let kept = after.keys().filter(|key| before.contains_key(*key));
        let kept = kept
            .filter_map(|key| after[key].file.content.sha256)
            .collect();
        found.extend(moved(&mut gone, &mut new, &kept));
        found.extend(renamed(&mut gone, &mut new));
        let gone = gone.into_iter().map(|file| MatchedFile {
            fate: FileFate::Gone,
            before: Some(file),
            after: None,
        });
        let new = new.into_iter().map(|file| MatchedFile {
            fate: FileFate::New,
            before: None,
            after: Some(file),
        });
        let alone = gone.chain(new).filter(|it| self.have(it.package()));
        found.extend(alone);
        found
    }

    /// RECORD has the digests of the other files. It differs if one of them does.
    fn is_derived(&self, path: &str) -> bool {
        !self.is_exact && path.ends_with(".dist-info/RECORD")
    }

    /// Whether each line is the same, or is the same without versions. A text may name the version
    /// of the other set for another reason, such as an example in a comment.
    fn are_same_lines(&self, before: &str, after: &str) -> bool {
        let (mut before, mut after) = (before.lines(), after.lines());
        let is_same = |one: &str, other: &str| {
            one == other || self.before_text(one) == self.after_text(other)
        };
        let mut pairs = before.by_ref().zip(after.by_ref());
        pairs.all(|(one, other)| is_same(one, other)) && before.eq(after)
    }

    fn is_same(&self, one: &ObservedFile, other: &ObservedFile) -> bool {
        if (one.mode, &one.link) != (other.mode, &other.link) {
            return false;
        }
        if let (false, Some(one), Some(other)) = (self.is_exact, one.text(), other.text()) {
            return self.are_same_lines(one, other);
        }
        let (own, theirs) = (&one.content, &other.content);
        own.len == theirs.len && !differ(own.sha256, theirs.sha256) && !differ(one.crc, other.crc)
    }
}

/// Whether both are known, and differ.
pub(super) fn differ<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

impl MatchedFile<'_> {
    /// The package that has it now, or had it.
    pub(super) fn package(&self) -> &str {
        let file = self.after.or(self.before);
        file.map_or("", |it| it.package)
    }

    /// Both files, if it was changed on the way.
    pub(super) fn versions(&self) -> Option<(PlacedFile<'_>, PlacedFile<'_>)> {
        let is_changed = matches!(self.fate, FileFate::Changed | FileFate::Renamed);
        Some((self.before?, self.after?)).filter(|_| is_changed)
    }

    fn is_wanted(&self, depth: DiffDepth) -> bool {
        let files = || self.before.iter().chain(&self.after);
        let is_archive = files().any(|it| is_devel(it.path));
        let is_binary = files().any(PlacedFile::is_binary);
        let has_code = || files().any(PlacedFile::may_have_code);
        match (depth, self.fate) {
            (DiffDepth::Packages | DiffDepth::Files, _) | (_, FileFate::Moved) => false,
            _ if is_archive => true,
            (DiffDepth::Elf, FileFate::Changed | FileFate::Renamed) => is_binary,
            (DiffDepth::Elf, _) => false,
            (DiffDepth::Code, _) => is_binary || has_code(),
        }
    }
}

impl PlacedFile<'_> {
    /// Whether it may be a library or a program, by its name and its mode.
    fn is_binary(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let is_script = self.file.text().is_some() || is_python(name);
        name.contains(".so") || (self.file.mode & 0o111 != 0 && !is_script)
    }

    fn may_have_code(&self) -> bool {
        let ends = [".kpack", ".co", ".hsaco", ".dll", ".exe", ".pyd"];
        ends.iter().any(|end| self.path.ends_with(end))
    }
}

impl FilePlace {
    /// The place of a file in the set that has it now, or else in the one that had it.
    pub(super) fn of(sets: &ComparedSets<'_>, file: &MatchedFile<'_>) -> Self {
        let now = file
            .after
            .map(|it| Self::folded(it, |path| sets.after.fold.text(path)));
        now.or(Self::earlier(sets, file)).unwrap_or_default()
    }

    pub(super) fn earlier(sets: &ComparedSets<'_>, file: &MatchedFile<'_>) -> Option<Self> {
        Some(Self::folded(file.before?, |path| {
            sets.before.fold.text(path)
        }))
    }

    fn folded(file: PlacedFile<'_>, fold: impl Fn(&str) -> String) -> Self {
        Self {
            package: file.package.to_owned(),
            path: fold(file.path),
        }
    }
}

pub(super) fn is_python(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, end)| end == "py")
}

/// The members of both sets that a comparison of this depth reads, and how many binaries it does
/// not read.
pub(super) fn wanted(
    files: &[MatchedFile<'_>],
    depth: DiffDepth,
) -> (WantedMembers, WantedMembers) {
    let (mut before, mut after) = (WantedMembers::new(), WantedMembers::new());
    for file in files.iter().filter(|it| it.is_wanted(depth)) {
        for (wanted, placed) in [(&mut before, file.before), (&mut after, file.after)] {
            if let Some(placed) = placed {
                let paths = wanted.entry(placed.package.to_owned()).or_default();
                paths.insert(placed.path.to_owned());
            }
        }
    }
    (before, after)
}

/// How many files would be read at the greatest depth and are not read at this one.
pub(super) fn unread(files: &[MatchedFile<'_>], depth: DiffDepth) -> usize {
    let all = files.iter().filter(|it| it.is_wanted(DiffDepth::Code));
    all.filter(|it| !it.is_wanted(depth)).count()
}

/// The files of a set by package and path, both without versions.
fn placed(set: &ObservedSet) -> BTreeMap<(&str, String), PlacedFile<'_>> {
    let packages = set.packages.iter();
    let files = packages.flat_map(|(package, it)| {
        it.files.iter().map(move |(path, file)| {
            let placed = PlacedFile {
                package,
                path,
                file,
            };
            ((package.as_str(), set.fold.text(path)), placed)
        })
    });
    files.collect()
}

fn pair<'a>(fate: FileFate, before: PlacedFile<'a>, after: PlacedFile<'a>) -> MatchedFile<'a> {
    MatchedFile {
        fate,
        before: Some(before),
        after: Some(after),
    }
}

/// Takes the files out of both lists that have the same bytes at another path. Bytes that the set
/// has several times, such as empty files, prove nothing.
fn moved<'a>(
    gone: &mut Vec<PlacedFile<'a>>,
    new: &mut Vec<PlacedFile<'a>>,
    kept: &BTreeSet<Sha256>,
) -> Vec<MatchedFile<'a>> {
    let key = |file: &PlacedFile<'a>| {
        let digest = file.file.content.sha256.filter(|it| !kept.contains(it));
        digest.filter(|_| file.file.link.is_none())
    };
    pairs(FileFate::Moved, gone, new, key)
}

/// Takes the files out of both lists whose paths differ only in their numbers.
fn renamed<'a>(
    gone: &mut Vec<PlacedFile<'a>>,
    new: &mut Vec<PlacedFile<'a>>,
) -> Vec<MatchedFile<'a>> {
    let is_digit = |c: char| c.is_ascii_digit();
    let key = |file: &PlacedFile<'a>| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let plain = file
            .path
            .split(is_digit)
            .filter(|it| !matches!(*it, "" | "."))
            .join("#");
        // The number of a target is no version.
        let is_numbered = name.contains(is_digit) && !file.path.contains("gfx");
        is_numbered.then_some((file.package, plain))
    };
    pairs(FileFate::Renamed, gone, new, key)
}

/// Pairs the files of both lists that have one key, which no other file has.
fn pairs<'a, K: Ord + Eq + std::hash::Hash>(
    fate: FileFate,
    gone: &mut Vec<PlacedFile<'a>>,
    new: &mut Vec<PlacedFile<'a>>,
    key: impl Fn(&PlacedFile<'a>) -> Option<K>,
) -> Vec<MatchedFile<'a>> {
    let of = |files: &[PlacedFile<'a>]| {
        let keyed = files.iter().filter_map(|file| Some((key(file)?, *file)));
        let mut groups = keyed.into_group_map();
        groups.retain(|_, group| group.len() == 1);
        groups
    };
    let (before, after) = (of(gone), of(new));
    let is_alone = |file: &PlacedFile<'a>| {
        key(file).is_none_or(|it| !before.contains_key(&it) || !after.contains_key(&it))
    };
    gone.retain(is_alone);
    new.retain(is_alone);
    let found = before.iter().filter_map(|(key, one)| {
        let (one, other) = (one.first()?, after.get(key)?.first()?);
        Some(pair(fate, *one, *other))
    });
    found.collect()
}
