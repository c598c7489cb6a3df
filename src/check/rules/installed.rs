//! Rules about installed files. Programs start and libraries load on any supported Linux host, and
//! the development files, which `rocm-sdk init` unpacks beside the packages, make a complete tree.
//! No file has traces of the build machine or unsafe permissions.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use itertools::Itertools as _;
use serde_json::{Map, Value};

use super::Observed;
use crate::{
    archive::TarKind,
    check::{
        facts::{DevelTree, Elf, ElfFile, MemberFacts, MemberKind, WheelFile},
        path_facts::{file_name, has_extension, is_library},
        rule::{self, Findings, PackagePath},
    },
    elf::{self, ElfKind, Machine},
    loader::{Dotted, InstalledTree, SystemLibraries, is_loadable, missing_libraries},
    policy::devel_manifest,
    relpath::{RelPath, join},
};

const SETUID_OR_SETGID: u32 = 0o6000;
const WORLD_WRITABLE: u32 = 0o002;
/// The extensions of files that only debuggers, compilers and patch tools use.
const LEFTOVERS: &[&str] = &[".debug", ".dwo", ".dwp", ".pdb", ".gch", ".pch", ".orig", ".rej"];

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    for (wheel, member) in seen.set.members() {
        clean(wheel, member, findings);
    }
    for (wheel, path, elf) in seen.set.elf_files() {
        let place = PackagePath::new(wheel, path);
        match elf {
            Elf::Damaged(why) => findings.at(rule::BROKEN_ELF, place, why),
            Elf::TooLarge => {
                let fact = "its headers or tables are too large to check";
                findings.at(rule::UNEXAMINED_ELF, place, fact);
            }
            Elf::Read(elf) => {
                run_paths(place, &elf.facts, findings);
                // A `.debug` file has the section headers of a binary, but not its contents.
                if !has_extension(path, "debug") {
                    one_file(place, elf, seen, findings);
                }
            }
        }
    }
    libraries(&seen.tree, findings);
    for wheel in &seen.set.wheels {
        if let Some(tree) = &wheel.devel {
            if let Some(why) = &tree.fault {
                findings.at(
                    rule::BROKEN_DEVEL,
                    PackagePath::new(&wheel.package, &tree.member),
                    why,
                );
            } else {
                manifest(wheel, tree, findings);
                order(wheel, tree, findings);
                links(wheel, tree, seen, findings);
                cmake_packages(wheel, tree, seen, findings);
            }
        }
        // A full disk leaves empty libraries and programs behind.
        let programs = wheel.contents().filter(|(it, _)| is_program(it));
        let programs = programs.map(|(member, it)| (&*member.path, it));
        let files = wheel.files().filter(|(path, _)| is_library(path));
        for (path, _) in files.chain(programs).filter(|(_, it)| it.len == 0) {
            findings.at(rule::BROKEN_ELF, PackagePath::new(&wheel.package, path), "it is empty");
        }
    }
}

/// Whether a member is a program by its mode and its directory. An empty `__init__.py` is none,
/// though it may have execute bits.
fn is_program(member: &MemberFacts) -> bool {
    let is_executable = member.kind == MemberKind::File && member.mode & 0o111 != 0;
    is_executable && member.path.contains("/bin/") && !has_extension(&member.path, "py")
}

fn clean(wheel: &WheelFile, member: &MemberFacts, findings: &mut Findings) {
    let place = PackagePath::new(wheel, member);
    let mode = || format!("its mode is {:o}", member.mode);
    if member.mode & SETUID_OR_SETGID != 0 {
        findings.at(rule::SETUID_MEMBER, place, mode());
    }
    // The mode of a symlink is meaningless, and another rule reports symlinks.
    if member.mode & WORLD_WRITABLE != 0 && member.kind == MemberKind::File {
        findings.at(rule::WORLD_WRITABLE, place, mode());
    }
    let is_cache = member.path.contains("/__pycache__/");
    if is_cache || LEFTOVERS.iter().any(|end| member.path.ends_with(end)) {
        let fact = "a leftover of building or debugging";
        findings.at(rule::DEBUG_LEFTOVER, place, fact);
    }
}

fn run_paths(place: PackagePath<'_>, elf: &elf::ElfFacts, findings: &mut Findings) {
    let Some(run_path) = elf.run_path().filter(|_| is_loadable(elf)) else {
        return;
    };
    for entry in run_path.split(':') {
        let is_relative = entry.starts_with("$ORIGIN") || entry.starts_with("${ORIGIN}");
        if entry.is_empty() || !(entry.starts_with('/') || is_relative) {
            let fact = format!("an entry for the current directory: `{run_path}`");
            findings.at(rule::OPEN_RUN_PATH, place, fact);
        } else if !is_relative {
            let fact = format!("`{entry}` is on its run path");
            findings.at(rule::ABSOLUTE_RUN_PATH, place, fact);
        }
    }
}

fn one_file(place: PackagePath<'_>, elf: &ElfFile, seen: &Observed<'_>, findings: &mut Findings) {
    let tree = &seen.tree;
    findings.at_each(rule::BROKEN_ELF, place, &elf.faults);
    if is_loadable(&elf.facts) {
        if let Some(runpath) = &elf.facts.runpath {
            findings.at(rule::RUNPATH, place, format!("DT_RUNPATH is `{runpath}`"));
        }
        // The file name of a library is its SONAME, which files linked with it search for.
        let soname = elf.facts.soname.as_deref().unwrap_or_default();
        let is_library = elf.facts.kind == ElfKind::SharedObject && !soname.is_empty();
        let is_there = || join(place.path, soname).is_some_and(|it| tree.has(&it));
        if is_library && file_name(place.path) != soname && !is_there() {
            let fact = format!("its SONAME is `{soname}`, and there is no such file beside it");
            findings.at(rule::SONAME_WITHOUT_FILE, place, fact);
        }
        newer_than(place, &elf.facts, findings);
    }
    if let Some(target) = &elf.launches {
        let target_at = join(place.path, target);
        if target_at.is_none_or(|target| tree.file(&target).is_none()) {
            let fact = format!("it runs `{target}`, which no package of the set has");
            findings.at(rule::DANGLING_LAUNCHER, place, fact);
        }
    }
    if let (Machine::Other(number), true) = (elf.facts.machine, elf.facts.kind != ElfKind::Other) {
        let fact = format!("a program or library for ELF machine {number}");
        findings.at(rule::FOREIGN_MACHINE, place, fact);
    }
}

/// Reports the newest symbol version of each kind, if hosts need not have it.
fn newer_than(place: PackagePath<'_>, elf: &elf::ElfFacts, findings: &mut Findings) {
    let host = SystemLibraries::builtin();
    let needs = elf.versions.iter().filter(|it| host.has(&it.library));
    let versions = needs.flat_map(|needs| &needs.versions);
    let numbers = versions.filter_map(|version| {
        let (kind, number) = version.split_once('_')?;
        Some((kind, number.parse::<Dotted>().ok()?))
    });
    // Of several numbers the map keeps the last, which is the newest.
    let newest: BTreeMap<&str, Dotted> = numbers.sorted().collect();
    for (kind, number) in newest {
        let kind = kind.to_ascii_lowercase();
        if let Some(most) = host.newest.get(&kind).filter(|most| number > **most) {
            let fact = format!("it needs {kind} {number}, but hosts have {most}");
            findings.at(rule::TOO_NEW_A_HOST, place, fact);
        }
    }
}

/// Each library that a file needs is found through its own run path, or is on every host.
fn libraries(tree: &InstalledTree<'_>, findings: &mut Findings) {
    let missing = missing_libraries(tree);
    let missing = missing.iter().filter_map(|library| {
        let file = tree.file(&library.path)?;
        let elf = file.elf()?;
        (!has_extension(&library.path, "debug")).then_some((library, file, elf))
    });
    let missing: Vec<_> = missing.collect();
    let first_names = missing.iter().filter(|(_, file, _)| !file.is_second_name);
    let first_names: BTreeSet<(*const elf::ElfFacts, &str)> =
        first_names.map(|(library, _, elf)| (std::ptr::from_ref(*elf), &*library.name)).collect();
    for (library, file, elf) in missing {
        let name = &library.name;
        // A file that fails at its own path is not reported again under its second path.
        if file.is_second_name && first_names.contains(&(std::ptr::from_ref(elf), name)) {
            continue;
        }
        let place = PackagePath::new(file.package, &*library.path);
        if library.is_found_with_others {
            let fact = format!("`{name}` is found only when another library loads this one");
            findings.at(rule::LUCKY_LIBRARY, place, fact);
        } else {
            let run_path = elf.run_path().unwrap_or("(none)");
            let fact = format!("needs `{name}`, which is not on its run path: {run_path}");
            findings.at(rule::MISSING_LIBRARY, place, fact);
        }
    }
}

/// The top directory of the archive.
fn root(tree: &DevelTree) -> Option<RelPath> {
    let first = tree.entries.first()?;
    first.entry.path.components().next()?.parse().ok()
}

/// The manifest agrees with the contents of the archive.
fn manifest(wheel: &WheelFile, tree: &DevelTree, findings: &mut Findings) {
    let path = devel_manifest::PATH;
    let Some(bytes) = wheel.text(path) else {
        // Only our builds write it.
        if !wheel.is_made_by_others() {
            findings.of(rule::BROKEN_DEVEL, &wheel.package.file, format!("no `{path}`"));
        }
        return;
    };
    let place = PackagePath::new(wheel, path);
    let Ok(found) = serde_json::from_slice::<Value>(bytes) else {
        return findings.at(rule::BROKEN_DEVEL, place, "not JSON");
    };
    let wanted = expected_manifest(wheel, tree).unwrap_or_else(|| found.clone());
    let mut keys = wanted.as_object().into_iter().flat_map(Map::keys);
    if let Some(key) = keys.find(|key| found.get(key) != wanted.get(key)) {
        let value = |it: Option<&Value>| it.map_or("not there".to_owned(), Value::to_string);
        let (found, wanted) = (value(found.get(key)), value(wanted.get(key)));
        let fact = format!("`{key}` is {found}, and {wanted} in the archive");
        findings.at(rule::BROKEN_DEVEL, place, fact);
    }
}

fn expected_manifest(wheel: &WheelFile, tree: &DevelTree) -> Option<Value> {
    let root = root(tree)?;
    let members = tree.entries.iter().filter_map(|devel| {
        let path = devel.entry.path.strip_prefix(&root)?;
        Some((path, &devel.entry.kind))
    });
    let members: Vec<(RelPath, &TarKind)> = members.collect();
    let members = members.iter().map(|(path, kind)| (path, *kind));
    let version = wheel.package.identity()?.version.to_string();
    serde_json::from_str(&devel_manifest::render(&version, members)).ok()
}

/// The order of entries on which TheRock's `rocm-sdk` relies.
///
/// When it unpacks the first entry of a directory, it empties that directory. So a directory must
/// not come after entries of its subdirectories: they would be deleted. Hard links are not
/// unpacked.
fn order(wheel: &WheelFile, tree: &DevelTree, findings: &mut Findings) {
    let root = root(tree);
    let mut touched: BTreeSet<RelPath> = BTreeSet::new();
    let mut seen: BTreeSet<&RelPath> = BTreeSet::new();
    for devel in &tree.entries {
        let path = &devel.entry.path;
        let place = PackagePath::new(wheel, path.as_str());
        if path.components().next() != root.as_ref().map(RelPath::as_str) || path.depth() < 2 {
            let fact = "it does not lie below the first directory";
            findings.at(rule::BROKEN_DEVEL, place, fact);
        }
        if !seen.insert(path) {
            findings.at(rule::BROKEN_DEVEL, place, "it is in the archive twice");
        }
        if matches!(devel.entry.kind, TarKind::Hardlink(_)) {
            let fact = "a hard link, which is passed over";
            findings.at(rule::BROKEN_DEVEL, place, fact);
        }
        let emptied = match devel.entry.kind {
            TarKind::Directory => Some(path.clone()),
            _ => path.parent(),
        };
        let Some(emptied) = emptied.filter(|it| !touched.contains(it)) else {
            continue;
        };
        // All paths below a directory stand together, and a tree may have 100,000 directories.
        let below = format!("{emptied}/");
        let mut lost = touched.range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded));
        if let Some(lost) = lost.next().filter(|it| it.as_str().starts_with(&below)) {
            let fact = format!("it comes after `{lost}`, which `rocm-sdk` then deletes");
            findings.at(rule::BROKEN_DEVEL, place, fact);
        }
        touched.insert(emptied);
    }
}

/// No symlink is dangling: an error for symlinks to other packages, less severe within the tree.
fn links(wheel: &WheelFile, tree: &DevelTree, seen: &Observed<'_>, findings: &mut Findings) {
    let root = root(tree);
    for devel in &tree.entries {
        let path = devel.entry.path.as_str();
        let TarKind::Symlink(text) = &devel.entry.kind else {
            continue;
        };
        if seen.tree.has(path) {
            continue;
        }
        let place = join(path, text);
        let top = place.as_deref().and_then(|place| place.split('/').next());
        let is_inside = top.is_some() && top == root.as_ref().map(RelPath::as_str);
        let rule = if is_inside { rule::DANGLING_TREE_LINK } else { rule::DANGLING_DEVEL_LINK };
        let fact = format!("it leads to `{text}`, which does not exist");
        findings.at(rule, PackagePath::new(wheel, path), fact);
    }
}

/// The packages that the CMake files of the tree ask for, if they are of ROCm. An artifact with
/// libraries, whose `dev` artifact was not fetched, leaves a tree whose other packages cannot be
/// found: `find_package(rocsolver)` fails because `rocblas-config.cmake` is not there.
///
/// A package is known to be of ROCm if a library of that name is in the set. What is asked for under
/// a condition may be for another system.
fn cmake_packages(
    wheel: &WheelFile,
    tree: &DevelTree,
    seen: &Observed<'_>,
    findings: &mut Findings,
) {
    let plain = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let package = |path: &str| {
        let name = file_name(path);
        let name = name.strip_suffix("Config.cmake");
        let name = name.or_else(|| file_name(path).strip_suffix("-config.cmake"));
        let module = || file_name(path).strip_prefix("Find")?.strip_suffix(".cmake");
        let name = name.or_else(module);
        name.map(plain)
    };
    let entries = tree.entries.iter();
    let there: BTreeSet<String> =
        entries.filter_map(|it| package(it.entry.path.as_str())).collect();
    let members = seen.set.members().map(|(_, member)| member.path.as_str());
    let libraries: BTreeMap<String, &str> = members
        .filter(|path| is_library(path))
        .filter_map(|path| {
            let stem = file_name(path).split('.').next()?;
            Some((plain(stem.strip_prefix("lib").unwrap_or(stem)), path))
        })
        .collect();
    for devel in &tree.entries {
        let content = devel.content.as_ref();
        let Some(text) = content.and_then(|it| it.kept.as_deref()) else {
            continue;
        };
        let text = String::from_utf8_lossy(text);
        for name in asked_packages(&text).into_iter().unique() {
            let name_alone = plain(name);
            let library = libraries.get(&name_alone);
            if let Some(library) = library.filter(|_| !there.contains(&name_alone)) {
                let fact = format!(
                    "it asks for the CMake package `{name}`, which is missing; `{library}` is in the set"
                );
                let place = PackagePath::new(wheel, devel.entry.path.as_str());
                findings.at(rule::MISSING_CMAKE_PACKAGE, place, fact);
            }
        }
    }
}

/// The packages that a CMake file asks for in any case: `find_dependency(NAME …)` and
/// `find_package(NAME … REQUIRED …)` outside of conditions and definitions.
fn asked_packages(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let command = line.split('(').next().unwrap_or_default();
        match command.trim().to_ascii_lowercase().as_str() {
            "if" | "foreach" | "while" | "function" | "macro" => depth += 1,
            "endif" | "endforeach" | "endwhile" | "endfunction" | "endmacro" => {
                depth = depth.saturating_sub(1);
            }
            command @ ("find_dependency" | "find_package") if depth == 0 => {
                // The arguments may be on several lines.
                let all = rest.split_once('(').map_or("", |it| it.1);
                let mut words = all.split(')').next().unwrap_or_default().split_whitespace();
                let name = words.next();
                let words: Vec<&str> = words.collect();
                let is_optional = words.iter().any(|it| matches!(*it, "QUIET" | "OPTIONAL"));
                let is_required = command == "find_dependency" || words.contains(&"REQUIRED");
                names.extend(name.filter(|_| is_required && !is_optional));
            }
            _ => {}
        }
        rest = after;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_cmake_asks_for_in_any_case_are_known() {
        let text = "# find_dependency(no)\n\
            include(CMakeFindDependencyMacro)\n\
            find_dependency(rocblas 4.0)\n\
            Find_Package (hip REQUIRED)\n\
            find_package(Threads QUIET)\n\
            find_package(LLVM)\n\
            find_dependency(\n  zlib\n  QUIET)\n\
            if(WIN32)\n  find_dependency(other)\nendif()\n\
            find_dependency(rocprim)\n";
        assert_eq!(asked_packages(text), ["rocblas", "hip", "rocprim"]);
    }
}
