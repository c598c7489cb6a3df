//! [`Coverage`]: a table of the device code of each library for each target. And the targets of a
//! set, from its device wheels or from the device code inside fat libraries.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use crate::check::facts::Cell;
use crate::{
    check::{
        facts::{ContentFacts, DeviceCodeFacts, MemberFacts, SetFacts, WheelFile},
        path_facts::{self, file_name, has_extension},
        rule::one_line,
    },
    kpack::{CodeTarget, databases, loader::wanted},
    target::{Target, TargetTable},
};

/// Libraries by name, each with the targets for which it has code.
///
/// Code inside a library or in `.kpack` archives is in the row of the library, `librocblas.so.5.1`.
/// Separate files of device code are in the row of their directory, `rocblas`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The columns of the table.
    pub targets: Vec<String>,
    pub libraries: BTreeMap<String, LibraryRow>,
}

/// The code of one library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LibraryRow {
    /// By target. There is no code for a target without a cell.
    pub cells: BTreeMap<String, Cell>,
    /// The first package in which the library was found.
    #[serde(skip)]
    pub(super) file: String,
    /// Whether the library does not work without it, as it does without the databases of `MIOpen`.
    #[serde(skip)]
    pub(super) is_needed: bool,
    /// The targets for which it only has code for XNACK, each with the package.
    #[serde(skip)]
    pub(super) only_with_xnack: BTreeMap<String, String>,
}

/// The code of a library in one file, and whether devices need XNACK to run it.
struct LibraryCode {
    library: String,
    needs_xnack: bool,
    is_optional: bool,
    cell: Cell,
}

impl Coverage {
    /// The coverage of a set: the files of device wheels, without their metadata, and the code in
    /// fat libraries.
    pub fn of(set: &SetFacts) -> Self {
        let targets = targets(set);
        let devices = set.device_targets();
        let mut found: Vec<(LibraryCode, &Target, &WheelFile)> = Vec::new();
        for (target, wheel) in &devices {
            let is_its =
                |it: &&MemberFacts| is_device_file(&it.path) && names_no_other(&it.path, target);
            for member in wheel.members.iter().filter(is_its) {
                let content = member.content.as_ref().ok();
                let codes = in_member(&member.path, content, target).into_iter();
                found.extend(codes.map(|code| (code, target, *wheel)));
            }
        }
        for (wheel, member, carried) in fat(set) {
            for target in &targets {
                let accepted = accepted(target);
                let own = carried.iter().filter(|it| accepted.contains(&it.0.base()));
                let codes = own.map(|(code, cell)| inside(&member.path, code, *cell));
                found.extend(codes.map(|code| (code, target, wheel)));
            }
        }
        if devices.is_empty() {
            found.extend(beside(set, &targets));
        }
        // Code that needs XNACK is added to the cell of the plain target. Without code for the
        // plain target it does not cover the target, because devices run with XNACK off by default.
        found.sort_by_key(|(code, ..)| code.needs_xnack);
        let mut coverage = Self {
            targets: targets.iter().map(ToString::to_string).collect(),
            libraries: BTreeMap::new(),
        };
        for (code, target, wheel) in found {
            let target = target.to_string();
            let file = &wheel.package.file;
            let row = coverage.libraries.entry(code.library).or_default();
            row.is_needed |= !code.is_optional;
            if code.needs_xnack && !row.cells.contains_key(&target) {
                row.only_with_xnack.insert(target, file.clone());
                continue;
            }
            row.cells.entry(target).or_default().add(code.cell);
            if row.file.is_empty() {
                row.file.clone_from(file);
            }
        }
        coverage
    }

    /// Adds the rows of another part of the set, with a suffix after their names.
    pub fn extend(&mut self, other: Self, suffix: &str) {
        self.targets.extend(other.targets);
        self.targets.sort();
        self.targets.dedup();
        for (library, row) in other.libraries {
            let own = self.libraries.entry(library + suffix).or_default();
            // Count what several parts share only once.
            for (target, cell) in row.cells {
                let known = own.cells.entry(target).or_default();
                if cell.bytes > known.bytes {
                    *known = cell;
                }
            }
        }
    }

    /// The number of libraries that have code for a target.
    pub fn count(&self, target: &Target) -> usize {
        let rows = self.libraries.values();
        rows.filter(|row| row.cells.contains_key(target.as_str())).count()
    }

    /// The libraries without code for this target, each with the targets for which it has code. Not
    /// those that ROCm does not build for it (`not-built` in `target.toml`).
    pub fn gaps(&self, target: &Target) -> Vec<(&str, Vec<&str>)> {
        let name = target.as_str();
        let rows = self.libraries.iter();
        rows.filter(|(_, row)| row.is_needed)
            .filter(|(_, row)| {
                !row.cells.contains_key(name) && !row.only_with_xnack.contains_key(name)
            })
            .filter(|(library, _)| TargetTable::builtin().has_library(library, target))
            .map(|(library, row)| {
                let others = row.cells.keys().map(String::as_str);
                (library.as_str(), others.collect())
            })
            .collect()
    }
}

/// The longest name in the table. Keys are arbitrary text, and may be much longer.
const LONGEST_NAME: usize = 80;

/// The code in a file for a target, by library. Empty for a damaged archive.
fn in_member(path: &str, content: Option<&ContentFacts>, target: &Target) -> Vec<LibraryCode> {
    if let Some(archive) = content.and_then(ContentFacts::archive) {
        let found = found_for(target);
        let codes = archive.codes().iter();
        let codes = codes.filter(|code| found.contains(&code.target.base()));
        let codes = codes.map(|code| {
            let key = code.key.rsplit_once('#').map_or(&*code.key, |it| it.0);
            inside(key, &code.target, Cell::of_code(code.packed))
        });
        codes.collect()
    } else if has_extension(path, "kpack") {
        Vec::new()
    } else {
        vec![as_file(path, content)]
    }
}

/// Code for a target inside a file: of the library at a path, or with a key in an archive.
fn inside(path: &str, target: &CodeTarget, cell: Cell) -> LibraryCode {
    let name: String = file_name(path).chars().take(LONGEST_NAME).collect();
    let name = if name.is_empty() { "(unnamed)" } else { &name };
    LibraryCode {
        library: one_line(name),
        needs_xnack: !target.runs_with_xnack_off(),
        is_optional: false,
        cell,
    }
}

/// A separate file of device code.
fn as_file(path: &str, content: Option<&ContentFacts>) -> LibraryCode {
    LibraryCode {
        library: path_facts::library(path),
        needs_xnack: match content.map(|content| &content.code) {
            Some(DeviceCodeFacts::Objects(targets)) if !targets.is_empty() => {
                targets.iter().all(|it| !it.runs_with_xnack_off())
            }
            _ => path.contains("xnack+"),
        },
        is_optional: path.parse().is_ok_and(|it| databases::is_optional(&it)),
        cell: Cell { files: 1, code_objects: 0, bytes: content.map_or(0, |content| content.len) },
    }
}

/// Separate files of device code in host wheels, whose paths name one of the targets.
fn beside<'a>(
    set: &'a SetFacts,
    targets: &'a BTreeSet<Target>,
) -> Vec<(LibraryCode, &'a Target, &'a WheelFile)> {
    let mut found = Vec::new();
    for (wheel, member) in set.members().filter(|(_, it)| is_device_file(&it.path)) {
        let content = member.content.as_ref().ok();
        let is_host = content.is_some_and(|it| it.elf().is_some() || it.imports.is_some());
        if is_host || has_extension(&member.path, "py") {
            continue;
        }
        let named = named(&member.path);
        let own = targets.iter().filter(|it| named.contains(*it));
        found.extend(own.map(|it| (as_file(&member.path, content), it, wheel)));
    }
    found
}

/// The targets that the path of a file names. The top-level directory does not count: it may have the
/// name of the family.
fn named(path: &str) -> BTreeSet<Target> {
    path_facts::covered(path.split_once('/').map_or("", |(_, inside)| inside))
}

/// Whether a file of a device wheel belongs to a library. `.dist-info`, the list of links, and the
/// `__init__.py` at the top, which device wheels of other builders share, belong to none.
pub(super) fn is_device_file(path: &str) -> bool {
    let (top, inside) = path.split_once('/').unwrap_or((path, ""));
    let is_list = inside.starts_with(".devel_links/");
    !top.ends_with(".dist-info") && !is_list && inside != "__init__.py"
}

/// Whether a file of a device wheel is not for another target that shares the wheel: a file whose path
/// names `gfx1250-strict` is not for `gfx1250`, and the other way round.
fn names_no_other(path: &str, target: &Target) -> bool {
    let named = path_facts::targets(path);
    let shares_wheel = |other: &Target| other.packaged() == target.packaged();
    named.contains(target) || !named.iter().any(shares_wheel)
}

/// SPIR-V, which is compiled for a device when it is loaded.
const LATER: &str = "amdgcnspirv";

/// A host wheel, a library in it that contains its device code, and that code.
type FatLibrary<'a> = (&'a WheelFile, &'a MemberFacts, &'a BTreeMap<CodeTarget, Cell>);

pub(super) fn fat(set: &SetFacts) -> impl Iterator<Item = FatLibrary<'_>> {
    set.contents().filter_map(|(wheel, member, content)| match &content.code {
        DeviceCodeFacts::Fat(carried) if wheel.device_target().is_none() => {
            Some((wheel, member, carried))
        }
        _ => None,
    })
}

/// The targets of the device wheels. Without device wheels, the targets of the families in the
/// names of packages, and of the code in fat libraries.
pub(super) fn targets(set: &SetFacts) -> BTreeSet<Target> {
    let devices = set.device_targets();
    if !devices.is_empty() {
        return devices.into_keys().collect();
    }
    let promised = set.wheels.iter().flat_map(|wheel| promised(wheel));
    let carried = fat(set)
        .flat_map(|(.., carried)| carried.keys())
        .filter_map(|code_target| code_target.base().target());
    promised.chain(carried).collect()
}

/// Whether it is a legacy set: no device wheels, and libraries for families.
pub(super) fn is_legacy(set: &SetFacts) -> bool {
    let mut wheels = set.wheels.iter();
    set.device_wheels().is_empty() && wheels.any(|wheel| wheel.package.libraries_family().is_some())
}

/// The targets of the family in the name of a package.
pub(super) fn promised(wheel: &WheelFile) -> Vec<Target> {
    let table = TargetTable::builtin();
    let Some(name) = wheel.package.libraries_family() else {
        return Vec::new();
    };
    let family = table.families().find(|family| family.as_str().eq_ignore_ascii_case(name));
    family.into_iter().flat_map(|family| table.targets(family)).cloned().collect()
}

/// Whether some of the code runs on a target with XNACK off.
pub(super) fn serves(carried: &BTreeMap<CodeTarget, Cell>, target: &Target) -> bool {
    let accepted = accepted(target);
    carried.keys().any(|code| code.runs_with_xnack_off() && accepted.contains(&code.base()))
}

/// The targets whose code in a library runs on `target` without features.
fn accepted(target: &Target) -> BTreeSet<CodeTarget> {
    found_for(target).into_iter().chain(LATER.parse()).collect()
}

/// The targets whose code in an archive the runtime uses for `target`.
pub(super) fn found_for(target: &Target) -> BTreeSet<CodeTarget> {
    wanted(&CodeTarget::from(&target.base())).into_iter().collect()
}

/// Whether a set has any code for a target.
pub(super) fn covers(set: &SetFacts, target: &Target) -> bool {
    let has_code = |wheel: &&WheelFile| {
        let mut files = wheel.members.iter().filter(|member| is_device_file(&member.path));
        files.any(|member| names_no_other(&member.path, target))
    };
    set.device_targets().get(target).is_some_and(has_code)
        || fat(set).any(|(.., carried)| serves(carried, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_known_for_each_target() {
        let cell = |bytes| Cell { files: 1, code_objects: 0, bytes };
        let row = |cells: &[(&str, u64)]| LibraryRow {
            cells: cells.iter().map(|(name, bytes)| ((*name).to_owned(), cell(*bytes))).collect(),
            is_needed: true,
            ..LibraryRow::default()
        };
        let coverage = Coverage {
            targets: vec!["gfx1100".to_owned(), "gfx942".to_owned()],
            libraries: BTreeMap::from([
                ("blas".to_owned(), row(&[("gfx1100", 4096), ("gfx942", 5 << 20)])),
                ("hipblaslt".to_owned(), row(&[("gfx942", 3 << 30)])),
            ]),
        };
        let target: Target = "gfx1100".parse().unwrap();
        assert_eq!(coverage.gaps(&target), [("hipblaslt", vec!["gfx942"])]);
        assert_eq!(coverage.count(&target), 1);
        // hipBLASLt is not built for it.
        let older = "gfx1030".parse().unwrap();
        let all = vec!["gfx1100", "gfx942"];
        assert_eq!(coverage.gaps(&older), [("blas", all)]);
    }
}
