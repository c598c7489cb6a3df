//! [`Coverage`]: a table of the device code of each library for each target.

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

/// Libraries by name, each with the targets for which it has code.
///
/// Code inside a library or in `.kpack` archives is in the row of the library, `librocblas.so.5.1`.
/// Separate files of device code are in the row of their directory, `rocblas`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    targets: Vec<String>,
    libraries: BTreeMap<String, BTreeMap<String, Cell>>,
    /// The first package in which each library was found.
    #[serde(skip)]
    places: BTreeMap<String, String>,
    /// Libraries and targets that only have code for XNACK, each with its package.
    #[serde(skip)]
    only_with_xnack: BTreeMap<(String, String), String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cell {
    pub files: u64,
    /// The number of code objects in archives and in the library itself.
    pub code_objects: u64,
    /// The size of the files as installed; for code inside a library, its size when loaded.
    pub bytes: u64,
}

impl Coverage {
    /// The coverage of a set: the files of device wheels, without their metadata, and the code in
    /// fat libraries.
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

    /// Adds code that needs XNACK to the cell of the plain target. Without code for the plain
    /// target it does not cover the target, because devices run with XNACK off by default.
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

    /// The package in which a library was found.
    pub fn place(&self, library: &str) -> Option<&str> {
        self.places.get(library).map(String::as_str)
    }

    /// Adds the rows of another part of the set. `label` makes the names of the rows.
    pub fn extend(&mut self, other: Self, label: impl Fn(&str) -> String) {
        self.targets.extend(other.targets);
        self.targets.sort();
        self.targets.dedup();
        for (library, row) in other.libraries {
            let own = self.libraries.entry(label(&library)).or_default();
            // Count what several parts share only once.
            for (target, cell) in row {
                let known = own.entry(target).or_default();
                if cell.bytes > known.bytes {
                    *known = cell;
                }
            }
        }
    }

    /// The columns of the table.
    pub fn targets(&self) -> &[String] {
        &self.targets
    }

    /// The rows by library. A library has no code for targets without a cell.
    pub fn libraries(&self) -> &BTreeMap<String, BTreeMap<String, Cell>> {
        &self.libraries
    }

    pub fn is_empty(&self) -> bool {
        self.libraries.is_empty()
    }

    /// The number of libraries that have code for a target.
    pub fn count(&self, target: &Target) -> usize {
        let rows = self.libraries.values();
        rows.filter(|row| row.contains_key(target.as_str())).count()
    }

    /// The libraries without code for this target, each with the targets for which it has code.
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

    /// Libraries that only have code for XNACK: library, target and package.
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

/// The longest name in the table. Keys are arbitrary text, and may be much longer.
const LONGEST_NAME: usize = 80;
const UNNAMED: &str = "(unnamed)";

/// The code of a library for a target in one file.
struct LibraryCode {
    library: String,
    cell: Cell,
    needs_xnack: bool,
}

/// The code in a file for a target, by library. Empty for a damaged archive.
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

/// A separate file of device code.
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

/// Separate files of device code in host wheels, whose paths name one of the targets.
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
                // Ignore the top-level directory: it may have the name of the family.
                let inside = member.path.split_once('/').map_or("", |(_, inside)| inside);
                let named = path_facts::covered(inside);
                let own = targets.iter().filter(|it| named.contains(*it));
                found.extend(own.map(|it| (wheel.as_ref(), member, it)));
            }
        }
    }
    found
}

/// The code in a fat library that runs on a target.
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

/// Shortens and escapes a name from a package, so that it can be printed.
fn printable(name: &str) -> String {
    one_line(name.chars().take(LONGEST_NAME).collect())
}

/// The code in an archive that runs on a target, by library.
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

/// Whether a file of a device wheel belongs to a library. Not `.dist-info`, the list of links, or
/// the `__init__.py` at the top, which device wheels of other builders share.
pub(super) fn is_device_file(path: &str) -> bool {
    let (top, inside) = path.split_once('/').unwrap_or((path, ""));
    let is_list = inside.starts_with(".devel_links/");
    !top.ends_with(".dist-info") && !is_list && inside != "__init__.py"
}

/// Shows a table with a row for each library.
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

/// A size without fraction, for a table: `96 KiB`.
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
