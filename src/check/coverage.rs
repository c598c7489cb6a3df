//! `Coverage`: which library has device code for which target, and how much.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use crate::{
    check::{
        device_targets,
        facts::{ContentFacts, DeviceCodeFacts, MemberFacts, SetFacts, WheelFile},
        finding::one_line,
        path_facts,
        sparse::SparseFile,
    },
    kpack::archive::KpackArchive,
    target::Target,
};

/// Libraries by name, each with the targets that it has code for.
///
/// A library whose code is in it or in archives has a row of its own, `librocblas.so.5.1`; the files
/// beside it are under the directory that they lie in, `rocblas`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    targets: Vec<String>,
    libraries: BTreeMap<String, BTreeMap<String, Cell>>,
    /// The package that each library was found in first.
    #[serde(skip)]
    places: BTreeMap<String, String>,
    /// Libraries and targets with code that needs XNACK only, each with its package.
    #[serde(skip)]
    only_with_xnack: BTreeMap<(String, String), String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cell {
    pub files: u64,
    /// What of it lies in archives, each under a key of its own, or in the library itself.
    pub code_objects: u64,
    /// As they lie in the package once unpacked; of what is in a library, as it is loaded.
    pub bytes: u64,
}

impl Coverage {
    /// Of the device wheels, and of libraries that have their code in them; what device wheels say
    /// about themselves does not count.
    pub fn of(set: &SetFacts) -> Self {
        let mut coverage = Self::default();
        let targets = device_targets::targets(set);
        coverage.targets = targets.iter().map(ToString::to_string).collect();
        let devices = set.device_wheels();
        let mut with_xnack = Vec::new();
        let mut take = |part: LibraryCode, target: &Target, wheel: &WheelFile| {
            if part.needs_xnack {
                with_xnack.push((part, target.to_string(), wheel.file.clone()));
            } else {
                coverage.add(&part, target.as_str(), &wheel.file);
            }
        };
        for (target, wheel) in &devices {
            for member in wheel.members.iter().filter(|it| is_device_file(&it.path)) {
                for part in parts(member, target) {
                    take(part, target, wheel);
                }
            }
        }
        for fat in device_targets::fat(set) {
            for target in &targets {
                for part in carried(&fat, target) {
                    take(part, target, fat.wheel);
                }
            }
        }
        if devices.is_empty() {
            for (wheel, member, target) in beside(set, &targets) {
                take(as_file(member), target, wheel);
            }
        }
        coverage.add_variants(with_xnack);
        coverage
    }

    fn add(&mut self, part: &LibraryCode, target: &str, file: &str) {
        let row = self.libraries.entry(part.library.clone()).or_default();
        row.entry(target.to_owned()).or_default().add(part.cell);
        let place = self.places.entry(part.library.clone());
        place.or_insert_with(|| file.to_owned());
    }

    /// Code that needs XNACK adds to what a library has for a target, and is nothing by itself.
    fn add_variants(&mut self, parts: Vec<(LibraryCode, String, String)>) {
        for (part, target, file) in parts {
            let row = self.libraries.entry(part.library.clone()).or_default();
            match row.get_mut(&target) {
                Some(cell) => cell.add(part.cell),
                None => {
                    self.only_with_xnack.insert((part.library, target), file);
                }
            }
        }
    }

    /// The package that a library was found in.
    pub fn place(&self, library: &str) -> Option<&str> {
        self.places.get(library).map(String::as_str)
    }

    /// Puts the rows of another part of the set beside these, each under the name that `label` makes.
    pub fn extend(&mut self, other: Self, label: impl Fn(&str) -> String) {
        self.targets.extend(other.targets);
        self.targets.sort();
        self.targets.dedup();
        for (library, row) in other.libraries {
            let own = self.libraries.entry(label(&library)).or_default();
            // What parts share is there once.
            for (target, cell) in row {
                let known = own.entry(target).or_default();
                if cell.bytes > known.bytes {
                    *known = cell;
                }
            }
        }
    }

    /// The columns.
    pub fn targets(&self) -> &[String] {
        &self.targets
    }

    /// The rows, by the name of the library; a target without a cell has no code.
    pub fn libraries(&self) -> &BTreeMap<String, BTreeMap<String, Cell>> {
        &self.libraries
    }

    pub fn is_empty(&self) -> bool {
        self.libraries.is_empty()
    }

    /// The libraries that have code for a target.
    pub fn count(&self, target: &Target) -> usize {
        let rows = self.libraries.values();
        rows.filter(|row| row.contains_key(target.as_str())).count()
    }

    /// The libraries that have code for other targets, but none for this one; with those others.
    pub fn gaps(&self, target: &Target) -> Vec<(&str, Vec<&str>)> {
        let has_some = |library: &str| {
            let key = (library.to_owned(), target.to_string());
            self.only_with_xnack.contains_key(&key)
        };
        let rows = self.libraries.iter();
        rows.filter(|(_, row)| !row.contains_key(target.as_str()))
            .filter(|(library, _)| !has_some(library))
            .map(|(library, row)| (library.as_str(), row.keys().map(String::as_str).collect()))
            .collect()
    }

    /// Libraries, each with a target that it has code for with XNACK on only, and the package.
    pub fn only_with_xnack(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let rows = self.only_with_xnack.iter();
        rows.map(|((library, target), file)| (&**library, &**target, &**file))
    }
}

impl Cell {
    fn add(&mut self, part: Self) {
        self.files = self.files.saturating_add(part.files);
        self.code_objects = self.code_objects.saturating_add(part.code_objects);
        self.bytes = self.bytes.saturating_add(part.bytes);
    }
}

/// Keys are free text; what is longer is not for a table.
const LONGEST_NAME: usize = 80;
const UNNAMED: &str = "(unnamed)";

/// What a library has for a target in one place.
struct LibraryCode {
    library: String,
    cell: Cell,
    needs_xnack: bool,
}

/// What a file has for a target, by library; an archive that cannot be read has nothing.
fn parts(member: &MemberFacts, target: &Target) -> Vec<LibraryCode> {
    let content = member.content.as_ref().ok();
    if let Some(DeviceCodeFacts::Archive(sparse)) =
        content.and_then(|content| content.code.as_ref())
        && let Ok(archive) = KpackArchive::open(sparse.as_ref())
    {
        return in_archive(&archive, target);
    }
    if path_facts::has_extension(&member.path, "kpack") {
        return Vec::new();
    }
    vec![as_file(member)]
}

/// A file beside a library.
fn as_file(member: &MemberFacts) -> LibraryCode {
    let content = member.content.as_ref().ok();
    LibraryCode {
        library: path_facts::library(&member.path),
        cell: Cell {
            files: 1,
            code_objects: 0,
            bytes: content.map_or(0, |content| content.len),
        },
        needs_xnack: match content.and_then(|content| content.code.as_ref()) {
            Some(DeviceCodeFacts::Objects(targets)) if !targets.is_empty() => {
                targets.iter().all(|it| !it.runs_with_xnack_off())
            }
            _ => member.path.contains("xnack+"),
        },
    }
}

/// The files of packages that everybody installs which are for one of the targets by their names.
fn beside<'a>(
    set: &'a SetFacts,
    targets: &'a BTreeSet<Target>,
) -> Vec<(&'a WheelFile, &'a MemberFacts, &'a Target)> {
    let mut found = Vec::new();
    for wheel in &set.wheels {
        let members = wheel.members.iter().filter(|it| is_device_file(&it.path));
        for member in members.filter(|it| !path_facts::has_extension(&it.path, "py")) {
            let is_host = member
                .content
                .as_ref()
                .ok()
                .and_then(ContentFacts::host_code);
            if is_host.is_none() {
                // The directory of all of them may be called for the family.
                let inside = member.path.split_once('/').map_or("", |(_, inside)| inside);
                let named = path_facts::covered(inside);
                let own = targets.iter().filter(|it| named.contains(*it));
                found.extend(own.map(|it| (wheel.as_ref(), member, it)));
            }
        }
    }
    found
}

/// What of the code in a library runs on a target.
fn carried(fat: &device_targets::FatLibrary<'_>, target: &Target) -> Vec<LibraryCode> {
    let accepted = device_targets::accepted(target);
    let path = &fat.member.path;
    let amounts = fat.carried.amounts();
    let own = amounts.filter(|it| accepted.contains(&it.0.base()));
    own.map(|(code, code_objects, bytes)| LibraryCode {
        library: printable(path.rsplit('/').next().unwrap_or(path)),
        cell: Cell {
            files: 0,
            code_objects,
            bytes,
        },
        needs_xnack: !code.runs_with_xnack_off(),
    })
    .collect()
}

/// A name that comes from a package, as it can be shown.
fn printable(name: &str) -> String {
    one_line(name.chars().take(LONGEST_NAME).collect())
}

/// Only code that runs there counts.
fn in_archive(archive: &KpackArchive<&SparseFile>, target: &Target) -> Vec<LibraryCode> {
    let accepted = device_targets::found_for(target);
    let codes = archive.codes().iter();
    let codes = codes.filter(|code| accepted.contains(&code.target.base()));
    codes
        .map(|code| {
            let name = code.key.rsplit_once('#').map_or(&*code.key, |it| it.0);
            let name = name.rsplit('/').next().unwrap_or(name);
            let name = printable(name);
            let cell = Cell {
                files: 0,
                code_objects: 1,
                bytes: archive.packed(code),
            };
            let name = if name.is_empty() { UNNAMED } else { &name };
            LibraryCode {
                library: name.to_owned(),
                cell,
                needs_xnack: !code.target.runs_with_xnack_off(),
            }
        })
        .collect()
}

/// Whether a device wheel brings this file for the libraries: not its `.dist-info`, nor the list of
/// links, nor the `__init__.py` at the top that device wheels of other builders share.
pub(super) fn is_device_file(path: &str) -> bool {
    let (top, inside) = path.split_once('/').unwrap_or((path, ""));
    let is_list = inside.starts_with(".devel_links/");
    !top.ends_with(".dist-info") && !is_list && inside != "__init__.py"
}

/// A table with a row for each library.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.libraries.keys().map(|name| name.chars().count()).max();
        let first = longest.unwrap_or(0).max("library".len());
        write!(f, "{:<first$}", "library")?;
        for target in &self.targets {
            write!(f, "  {target:>10}")?;
        }
        writeln!(f)?;
        for (library, row) in &self.libraries {
            write!(f, "{library:<first$}")?;
            for target in &self.targets {
                let cell = row.get(target);
                let cell = cell.map_or("-".to_owned(), |cell| short_size(cell.bytes));
                let width = target.len().max(10);
                write!(f, "  {cell:>width$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// `96 KiB`: as much as a table needs.
pub fn short_size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_gaps() {
        let cell = |bytes| Cell {
            files: 1,
            code_objects: 0,
            bytes,
        };
        let row = |cells: &[(&str, u64)]| {
            let cells = cells.iter();
            cells
                .map(|(name, bytes)| ((*name).to_owned(), cell(*bytes)))
                .collect()
        };
        let coverage = Coverage {
            targets: vec!["gfx1100".to_owned(), "gfx942".to_owned()],
            places: BTreeMap::new(),
            only_with_xnack: BTreeMap::new(),
            libraries: BTreeMap::from([
                (
                    "blas".to_owned(),
                    row(&[("gfx1100", 4096), ("gfx942", 5 << 20)]),
                ),
                ("hipblaslt".to_owned(), row(&[("gfx942", 3 << 30)])),
            ]),
        };
        insta::assert_snapshot!(coverage, @"
        library       gfx1100      gfx942
        blas            4 KiB       5 MiB
        hipblaslt           -       3 GiB
        ");
        let target: Target = "gfx1100".parse().unwrap();
        assert_eq!(coverage.gaps(&target), [("hipblaslt", vec!["gfx942"])]);
        assert_eq!(coverage.count(&target), 1);
    }
}
