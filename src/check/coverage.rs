//! [`Coverage`]: a table of the device code of each library for each target. And [`targets`]: the targets
//! of a set, from its device wheels or from the device code inside fat libraries.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

pub use crate::check::facts::Cell;
use crate::check::{
    facts::{ContentFacts, DeviceCodeFacts, MemberFacts, SetFacts, WheelFile},
    path_facts::{self, file_name, has_extension},
    rule::one_line,
};
use rocwheel_base::target::{Target, TargetTable};
use rocwheel_kpack::{CodeTarget, databases, loader::wanted};

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

/// The device code of one library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LibraryRow {
    /// The amounts of code by target. A target without code has no cell.
    pub cells: BTreeMap<String, Cell>,
    /// The first package in which the library was found.
    #[serde(skip)]
    pub(super) file: String,
    /// Whether the library needs its device code. `MIOpen` works without its databases.
    #[serde(skip)]
    pub(super) is_needed: bool,
    /// The targets for which the library only has code that needs XNACK, each with the file name of the
    /// package.
    #[serde(skip)]
    pub(super) only_with_xnack: BTreeMap<String, String>,
}

/// The code of a library in one file.
struct LibraryCode {
    library: String,
    /// Whether only devices with XNACK on run it.
    needs_xnack: bool,
    /// Whether the library works without it.
    is_optional: bool,
    cell: Cell,
}

/// The code of a library in one file of a wheel, and the target in whose column it counts.
struct TargetCode<'a> {
    code: LibraryCode,
    target: &'a Target,
    wheel: &'a WheelFile,
}

/// A library that has code for some targets, but not for the one that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct CoverageGap<'a> {
    pub library: &'a str,
    /// The targets for which the library has code: `gfx942`, or `gfx942:xnack+` if that code needs XNACK.
    pub covered: Vec<String>,
}

impl Coverage {
    /// The coverage of a set: the files of device wheels, without their metadata, and the code in
    /// fat libraries.
    pub fn of(set: &SetFacts) -> Self {
        let targets = targets(set);
        let device_targets = set.device_targets();
        let mut target_codes: Vec<TargetCode<'_>> = Vec::new();
        for (target, wheel) in &device_targets {
            for member in &wheel.members {
                if is_device_file(&member.path) && may_be_for(&member.path, target) {
                    let codes = codes_in_member(member, target).into_iter();
                    target_codes.extend(codes.map(|code| TargetCode { code, target, wheel }));
                }
            }
        }
        for FatLibrary { wheel, member, code } in fat_libraries(set) {
            for target in &targets {
                let runnable = library_targets(target);
                for (code_target, cell) in code {
                    if runnable.contains(&code_target.base()) {
                        let code = code_inside(&member.path, code_target, *cell);
                        target_codes.push(TargetCode { code, target, wheel });
                    }
                }
            }
        }
        // A set with device wheels has all separate files of device code in them. Another rule reports such
        // a file in a host wheel.
        if device_targets.is_empty() {
            target_codes.extend(device_files_in_host_wheels(set, &targets));
        }
        // Code that needs XNACK is added to the cell of the plain target. Without code for the
        // plain target it does not cover the target, because devices run with XNACK off by default.
        // The loop below sees all plain code first, so that it knows which case it has.
        target_codes.sort_by_key(|target_code| target_code.code.needs_xnack);
        let mut coverage = Self {
            targets: targets.iter().map(ToString::to_string).collect(),
            libraries: BTreeMap::new(),
        };
        for TargetCode { code, target, wheel } in target_codes {
            let file = &wheel.package.file;
            let row = coverage.libraries.entry(code.library).or_default();
            row.is_needed |= !code.is_optional;
            if row.file.is_empty() {
                row.file.clone_from(file);
            }
            if code.needs_xnack && !row.cells.contains_key(target.as_str()) {
                row.only_with_xnack.insert(target.to_string(), file.clone());
            } else {
                row.cells.entry(target.to_string()).or_default().add(code.cell);
            }
        }
        coverage
    }

    /// Adds the rows of another group of the set, with `suffix` after their names.
    pub fn extend(&mut self, other: Self, suffix: &str) {
        self.targets.extend(other.targets);
        self.targets.sort();
        self.targets.dedup();
        for (library, row) in other.libraries {
            let merged = self.libraries.entry(library + suffix).or_default();
            // Several groups may share the files of a library, so their cells are not added up.
            for (target, cell) in row.cells {
                let known = merged.cells.entry(target).or_default();
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

    /// The libraries without code for this target. A library that ROCm does not build for the target
    /// (`not-built` in `target.toml`) is not among them.
    pub fn gaps(&self, target: &Target) -> Vec<CoverageGap<'_>> {
        let name = target.as_str();
        let table = TargetTable::builtin();
        self.libraries
            .iter()
            .filter(|(_, row)| row.is_needed)
            // Another rule reports a library that only has code for XNACK.
            .filter(|(_, row)| {
                !row.cells.contains_key(name) && !row.only_with_xnack.contains_key(name)
            })
            .filter(|(library, _)| table.has_library(library, target))
            .map(|(library, row)| {
                let with_xnack = row.only_with_xnack.keys().map(|it| format!("{it}:xnack+"));
                let covered = row.cells.keys().cloned().chain(with_xnack).sorted().collect();
                CoverageGap { library, covered }
            })
            .collect()
    }
}

/// The longest name in the table. The keys of an archive are arbitrary text, and may be much longer.
const LONGEST_NAME: usize = 80;

/// The code for a target in a member of a device wheel, by library. Empty for a damaged archive.
fn codes_in_member(member: &MemberFacts, target: &Target) -> Vec<LibraryCode> {
    let content = member.content.as_ref().ok();
    if let Some(archive) = content.and_then(ContentFacts::archive) {
        let usable = archived_targets(target);
        return archive
            .codes()
            .iter()
            .filter(|code| usable.contains(&code.target.base()))
            .map(|code| {
                // A key is the path of a library and the number of a bundle in it: `lib/a.so#1`.
                let path = code.key.rsplit_once('#').map_or(&*code.key, |(path, _)| path);
                code_inside(path, &code.target, Cell::of_code(code.packed))
            })
            .collect();
    }
    if has_extension(&member.path, "kpack") {
        return Vec::new();
    }
    vec![code_of_file(&member.path, content)]
}

/// Code for a target inside a library, or in an archive that has the path of the library in its keys.
fn code_inside(path: &str, target: &CodeTarget, cell: Cell) -> LibraryCode {
    let mut name: String = file_name(path).chars().take(LONGEST_NAME).collect();
    if name.is_empty() {
        "(unnamed)".clone_into(&mut name);
    }
    LibraryCode {
        library: one_line(&name),
        needs_xnack: !target.runs_with_xnack_off(),
        is_optional: false,
        cell,
    }
}

/// A separate file of device code.
fn code_of_file(path: &str, content: Option<&ContentFacts>) -> LibraryCode {
    LibraryCode {
        library: path_facts::library(path),
        needs_xnack: match content.map(|content| &content.code) {
            Some(DeviceCodeFacts::Objects(targets)) if !targets.is_empty() => {
                targets.iter().all(|it| !it.runs_with_xnack_off())
            }
            // The file does not say its targets, so its name has to.
            _ => path.contains("xnack+"),
        },
        is_optional: path.parse().is_ok_and(|path| databases::is_optional(&path)),
        cell: Cell { files: 1, code_objects: 0, bytes: content.map_or(0, |content| content.len) },
    }
}

/// Separate files of device code in host wheels, whose paths name one of the targets.
fn device_files_in_host_wheels<'a>(
    set: &'a SetFacts,
    targets: &'a BTreeSet<Target>,
) -> Vec<TargetCode<'a>> {
    let mut target_codes = Vec::new();
    for (wheel, member) in set.members().filter(|(_, member)| is_device_file(&member.path)) {
        let content = member.content.as_ref().ok();
        let is_host = content.is_some_and(|it| it.elf().is_some() || it.imports.is_some());
        if is_host || has_extension(&member.path, "py") {
            continue;
        }
        let named = targets_below_top(&member.path);
        for target in targets.iter().filter(|it| named.contains(*it)) {
            let code = code_of_file(&member.path, content);
            target_codes.push(TargetCode { code, target, wheel });
        }
    }
    target_codes
}

/// The targets that the path of a file names. The top-level directory does not count: it may have the
/// name of the family.
fn targets_below_top(path: &str) -> BTreeSet<Target> {
    path_facts::covered(path.split_once('/').map_or("", |(_, inside)| inside))
}

/// Whether a file of a device wheel belongs to a library. `.dist-info`, the list of links, and the
/// `__init__.py` at the top, which device wheels of other builders share, belong to none.
pub(super) fn is_device_file(path: &str) -> bool {
    let (top, inside) = path.split_once('/').unwrap_or((path, ""));
    let is_list = inside.starts_with(".devel_links/");
    !top.ends_with(".dist-info") && !is_list && inside != "__init__.py"
}

/// Whether a file of a device wheel may be for this target, by the targets in its path. A file whose path
/// names `gfx1250-strict` is not for `gfx1250`, which shares the wheel, and the other way round.
fn may_be_for(path: &str, target: &Target) -> bool {
    let named = path_facts::targets(path);
    let shares_wheel = |other: &Target| other.packaged() == target.packaged();
    named.contains(target) || !named.iter().any(shares_wheel)
}

/// A library in a host wheel that contains its device code.
pub(super) struct FatLibrary<'a> {
    pub(super) wheel: &'a WheelFile,
    pub(super) member: &'a MemberFacts,
    pub(super) code: &'a BTreeMap<CodeTarget, Cell>,
}

pub(super) fn fat_libraries(set: &SetFacts) -> impl Iterator<Item = FatLibrary<'_>> {
    set.contents().filter_map(|(wheel, member, content)| match &content.code {
        DeviceCodeFacts::Fat(code) if wheel.device_target().is_none() => {
            Some(FatLibrary { wheel, member, code })
        }
        _ => None,
    })
}

/// The targets of the device wheels. Without device wheels, the targets of the families in the
/// names of packages, and of the code in fat libraries.
pub(super) fn targets(set: &SetFacts) -> BTreeSet<Target> {
    let device_targets = set.device_targets();
    if !device_targets.is_empty() {
        return device_targets.into_keys().collect();
    }
    let in_families = set.wheels.iter().flat_map(|wheel| family_targets(wheel));
    let in_libraries = fat_libraries(set)
        .flat_map(|library| library.code.keys())
        .filter_map(|code_target| code_target.base().target());
    in_families.chain(in_libraries).collect()
}

/// Whether it is a legacy set: no device wheels, and libraries for families.
pub(super) fn is_legacy(set: &SetFacts) -> bool {
    let mut wheels = set.wheels.iter();
    set.device_wheels().is_empty() && wheels.any(|wheel| wheel.package.libraries_family().is_some())
}

/// The targets of the family in the name of a package. The package promises code for them.
pub(super) fn family_targets(wheel: &WheelFile) -> Vec<Target> {
    let table = TargetTable::builtin();
    let Some(name) = wheel.package.libraries_family() else {
        return Vec::new();
    };
    let family = table.families().find(|family| family.as_str().eq_ignore_ascii_case(name));
    family.into_iter().flat_map(|family| table.targets(family)).cloned().collect()
}

/// SPIR-V, which the runtime compiles for the device when it loads the code.
const SPIRV: &str = "amdgcnspirv";

/// The targets whose code in a library runs on `target`, which has no features.
fn library_targets(target: &Target) -> BTreeSet<CodeTarget> {
    archived_targets(target).into_iter().chain(SPIRV.parse()).collect()
}

/// The targets whose code in an archive the runtime uses for `target`.
pub(super) fn archived_targets(target: &Target) -> BTreeSet<CodeTarget> {
    wanted(&CodeTarget::from(&target.base())).into_iter().collect()
}

/// Whether a set has any code for a target.
pub(super) fn covers(set: &SetFacts, target: &Target) -> bool {
    let has_file = |wheel: &&WheelFile| {
        let mut files = wheel.members.iter().filter(|member| is_device_file(&member.path));
        files.any(|member| may_be_for(&member.path, target))
    };
    // What the contents of unread files would say is not judged, but the names of packages are known.
    let may_have_code = || {
        let device_wheels = set.device_wheels();
        if device_wheels.is_empty() {
            let mut wheels = set.wheels.iter();
            !is_legacy(set) || wheels.any(|wheel| family_targets(wheel).contains(target))
        } else {
            // Its wheel may have code for this target too. `has_file` has looked for the target of the wheel itself.
            target.packaged() != *target && device_wheels.contains_key(&target.packaged())
        }
    };
    let runnable = library_targets(target);
    let runs = |code: &CodeTarget| code.runs_with_xnack_off() && runnable.contains(&code.base());
    set.device_targets().get(target).is_some_and(has_file)
        || fat_libraries(set).any(|library| library.code.keys().any(runs))
        || (set.is_partly_read() && may_have_code())
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
        let gap = CoverageGap { library: "hipblaslt", covered: vec!["gfx942".to_owned()] };
        assert_eq!(coverage.gaps(&target), [gap]);
        assert_eq!(coverage.count(&target), 1);
        // hipBLASLt is not built for it.
        let older = "gfx1030".parse().unwrap();
        let gap = CoverageGap {
            library: "blas",
            covered: vec!["gfx1100".to_owned(), "gfx942".to_owned()],
        };
        assert_eq!(coverage.gaps(&older), [gap]);
    }
}
