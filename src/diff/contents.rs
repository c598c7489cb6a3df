//! What differs in files: the headers and symbols of libraries, the code of each library for each
//! target, the lines of metadata and of the tables of `rocm_sdk`.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    matching::{ComparedSets, FilePlace, MatchedFile, PlacedFile, is_python},
    observe::{ObservedFile, ObservedSet},
};
use crate::{
    check::{
        coverage::{Cell, code_in, named},
        facts::DeviceCodeFacts,
    },
    elf::ElfFacts,
    target::Target,
    wheel::dist_info::fields,
};

/// What a list lost and got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListChange {
    pub gone: Vec<String>,
    pub new: Vec<String>,
}

impl ListChange {
    fn of<T: Ord + Borrow<str>>(before: &BTreeSet<T>, after: &BTreeSet<T>) -> Self {
        let only = |one: &BTreeSet<T>, other: &BTreeSet<T>| {
            let only = one.difference(other);
            only.map(|it| it.borrow().to_owned()).collect()
        };
        Self {
            gone: only(before, after),
            new: only(after, before),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.new.is_empty()
    }
}

/// What differs in the headers and symbols of a library or program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LibraryChange {
    #[serde(flatten)]
    pub file: FilePlace,
    /// The SONAME, the run path and the dynamic loader: as a list, since a file may have none.
    pub soname: ListChange,
    pub run_path: ListChange,
    pub interpreter: ListChange,
    pub needed: ListChange,
    /// The versions of symbols that it needs of other libraries: `libc.so.6 GLIBC_2.34`.
    pub needed_versions: ListChange,
    /// The versions of symbols that it defines.
    pub versions: ListChange,
    pub symbols: ListChange,
}

impl LibraryChange {
    /// The changes by their names, in the order in which they are shown.
    pub fn facts(&self) -> [(&'static str, &ListChange); 7] {
        [
            ("SONAME", &self.soname),
            ("symbol", &self.symbols),
            ("symbol version", &self.versions),
            ("NEEDED", &self.needed),
            ("needed version", &self.needed_versions),
            ("run path", &self.run_path),
            ("loader", &self.interpreter),
        ]
    }
}

/// The libraries and programs that were read and whose headers or symbols differ.
pub(super) fn libraries(sets: &ComparedSets<'_>, files: &[MatchedFile<'_>]) -> Vec<LibraryChange> {
    let changes = files.iter().filter_map(|file| {
        let (before, after) = file.versions()?;
        let headers = |file: &ObservedFile| Some(file.content.elf()?.facts.clone());
        let (old, new) = (headers(before.file)?, headers(after.file)?);
        let list = |of: &dyn Fn(&ElfFacts) -> Vec<String>| {
            let (old, new) = (of(&old).into_iter(), of(&new).into_iter());
            let old = old.map(|it| sets.before_text(&it)).collect();
            let new = new.map(|it| sets.after_text(&it)).collect();
            ListChange::of::<String>(&old, &new)
        };
        let exports = before
            .file
            .exports
            .as_ref()
            .zip(after.file.exports.as_ref());
        let (symbols, versions) = exports.map_or_else(Default::default, |(old, new)| {
            let symbols = ListChange::of(&old.symbols, &new.symbols);
            (symbols, ListChange::of(&old.versions, &new.versions))
        });
        Some(LibraryChange {
            file: FilePlace::of(sets, file),
            soname: list(&|it| it.soname.iter().cloned().collect()),
            run_path: list(&|it| it.run_path().map(str::to_owned).into_iter().collect()),
            interpreter: list(&|it| it.interpreter.iter().cloned().collect()),
            needed: list(&|it| it.needed.clone()),
            needed_versions: list(&needed_versions),
            versions,
            symbols,
        })
    });
    let is_changed = |it: &LibraryChange| it.facts().iter().any(|(_, list)| !list.is_empty());
    changes
        .filter(is_changed)
        .sorted_by(|one, other| one.file.cmp(&other.file))
        .collect()
}

fn needed_versions(facts: &ElfFacts) -> Vec<String> {
    let libraries = facts.versions.iter();
    let versions = libraries.flat_map(|of| {
        let library = &of.library;
        of.versions.iter().map(move |it| format!("{library} {it}"))
    });
    versions.collect()
}

/// The device code of a library for a target, if it differs. Of what was not read, only files and
/// their sizes are counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodeChange {
    pub target: String,
    pub library: String,
    pub before: Option<Cell>,
    pub after: Option<Cell>,
}

/// The rows that differ: those that are gone first, then by how much they differ.
pub(super) fn code(sets: &ComparedSets<'_>) -> Vec<CodeChange> {
    let (before, after) = (code_of(sets.before), code_of(sets.after));
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changes = keys.into_iter().filter_map(|key| {
        let (before, after) = (before.get(key).copied(), after.get(key).copied());
        let (target, library) = key.clone();
        (before != after).then_some(CodeChange {
            target,
            library,
            before,
            after,
        })
    });
    let bytes = |cell: Option<Cell>| cell.map_or(0, |it| it.bytes);
    let weight = |it: &CodeChange| {
        let by = bytes(it.before).abs_diff(bytes(it.after));
        (it.after.is_some(), std::cmp::Reverse(by))
    };
    changes.sorted_by_key(weight).collect()
}

/// The device code of a set by target and library.
fn code_of(set: &ObservedSet) -> BTreeMap<(String, String), Cell> {
    let mut found: BTreeMap<(String, String), Cell> = BTreeMap::new();
    let mut add = |target: String, library: String, cell: Cell| {
        found.entry((target, library)).or_default().add(cell);
    };
    let is_split = set.packages.values().any(|it| it.target.is_some());
    for package in set.packages.values() {
        for (path, file) in &package.files {
            if let DeviceCodeFacts::Fat(carried) = &file.content.code {
                let name = path.rsplit('/').next().unwrap_or(path);
                for (target, cell) in carried {
                    add(target.to_string(), name.to_owned(), *cell);
                }
            }
            let targets: Vec<Target> = match &package.target {
                Some(target) => vec![target.clone()],
                // Separate files of device code in host packages.
                None if !is_split && may_be_code(path) => named(path).into_iter().collect(),
                None => continue,
            };
            for target in &targets {
                for (library, cell) in code_in(path, &file.content, target) {
                    add(target.to_string(), library, cell);
                }
            }
        }
    }
    found
}

fn may_be_code(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.contains("gfx") && !name.contains(".so") && !is_python(name)
}

/// What differs in the lines of a file about a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineChange {
    /// Several packages may have the same file.
    pub packages: Vec<String>,
    pub file: String,
    #[serde(flatten)]
    pub lines: ListChange,
}

/// What a text says, as lines that can be compared one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    /// METADATA, PKG-INFO or WHEEL.
    Fields,
    /// `entry_points.txt`.
    EntryPoints,
    /// `_dist_info.py`, with the tables of `rocm_sdk`.
    Tables,
}

impl TextKind {
    pub(super) fn of(path: &str) -> Option<Self> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_info = directory.ends_with(".dist-info");
        match name {
            "METADATA" | "WHEEL" if is_info => Some(Self::Fields),
            "PKG-INFO" if directory.is_empty() => Some(Self::Fields),
            "entry_points.txt" if is_info => Some(Self::EntryPoints),
            "_dist_info.py" => Some(Self::Tables),
            _ => None,
        }
    }

    fn lines(self, text: &str) -> BTreeSet<String> {
        match self {
            Self::Fields => {
                let fields = fields(text).unwrap_or_default().into_iter();
                let fields = fields.filter(|(name, _)| name != "Dynamic");
                fields
                    .map(|(name, value)| format!("{name}: {value}"))
                    .collect()
            }
            Self::EntryPoints => entry_points(text),
            Self::Tables => {
                let is_row = |line: &&str| {
                    let is_code = line.starts_with(|c: char| c.is_alphabetic() || c == '_');
                    is_code
                        && !["def ", "class ", "import ", "from "]
                            .iter()
                            .any(|it| line.starts_with(it))
                };
                text.lines().filter(is_row).map(str::to_owned).collect()
            }
        }
    }
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

/// What differs in the texts of one kind or another, each change once for all packages with it.
pub(super) fn lines(
    sets: &ComparedSets<'_>,
    files: &[MatchedFile<'_>],
    is_wanted: impl Fn(TextKind) -> bool,
) -> Vec<LineChange> {
    let mut found: Vec<LineChange> = Vec::new();
    for file in files {
        let kind = file.after.and_then(|it| TextKind::of(it.path));
        let Some(lines) = kind
            .filter(|it| is_wanted(*it))
            .and_then(|_| line_change(sets, file))
        else {
            continue;
        };
        let place = FilePlace::of(sets, file);
        let name = place.path.rsplit('/').next().unwrap_or_default();
        let mut known = found.iter_mut();
        match known.find(|it| it.lines == lines && it.file == name) {
            Some(same) => same.packages.push(place.package),
            None => found.push(LineChange {
                packages: vec![place.package],
                file: name.to_owned(),
                lines,
            }),
        }
    }
    found
}

/// What differs in the lines of a text. `None` if they are the same lines, or if it is another text.
pub(super) fn line_change(sets: &ComparedSets<'_>, file: &MatchedFile<'_>) -> Option<ListChange> {
    let (before, after) = file.versions()?;
    let kind = TextKind::of(after.path)?;
    let lines = |file: PlacedFile<'_>| Some(kind.lines(file.file.text()?));
    let (before, after) = (lines(before)?, lines(after)?);
    // A line that is in both may name the version of one of them.
    let own = before.difference(&after).map(|line| sets.before_text(line));
    let theirs = after.difference(&before).map(|line| sets.after_text(line));
    let change = ListChange::of::<String>(&own.collect(), &theirs.collect());
    Some(change).filter(|it| !it.is_empty())
}

/// How many lines are only in the text before, and only in the one after.
pub(super) fn line_counts(
    sets: &ComparedSets<'_>,
    file: &MatchedFile<'_>,
) -> Option<(usize, usize)> {
    let (before, after) = file.versions()?;
    let (before, after) = (before.file.text()?, after.file.text()?);
    let own = only(before, after, |line| sets.before_text(line));
    let theirs = only(after, before, |line| sets.after_text(line));
    let more = |one: &HashMap<String, usize>, other: &HashMap<String, usize>| {
        let known = |line| other.get(line).copied().unwrap_or(0);
        one.iter()
            .map(|(line, count)| count.saturating_sub(known(line)))
            .sum()
    };
    Some((more(&own, &theirs), more(&theirs, &own)))
}

/// The lines that another text does not have, folded, with how often each is there.
fn only(text: &str, other: &str, fold: impl Fn(&str) -> String) -> HashMap<String, usize> {
    let (own, known) = (text.lines().counts(), other.lines().counts());
    let mut found = HashMap::new();
    for (line, count) in own {
        let more = count.saturating_sub(known.get(line).copied().unwrap_or(0));
        if more > 0 {
            *found.entry(fold(line)).or_default() += more;
        }
    }
    found
}
