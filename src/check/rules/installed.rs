//! Rules about installed files. Programs start and libraries load on any supported Linux host, and
//! the development files, which `rocm-sdk init` unpacks beside the packages, make a complete tree.
//! No file has traces of the build machine, or unsafe permissions.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use itertools::Itertools as _;
use serde_json::{Map, Value};

use super::Observed;
use crate::{
    check::{
        facts::{DevelTree, Elf, ElfFile, MemberFacts, MemberKind, WheelFile},
        path_facts::{file_name, has_extension, is_library},
        rule::{self, Findings, PackagePath},
    },
    policy::devel_manifest,
};
use rocwheel_base::relpath::{RelPath, join};
use rocwheel_elf::{
    self, ElfKind, Machine,
    loader::{Dotted, InstalledTree, SystemLibraries, is_loadable, missing_libraries},
};
use rocwheel_wheel::tar::TarKind;

const SETUID_OR_SETGID: u32 = 0o6000;
const WORLD_WRITABLE: u32 = 0o002;
/// The extensions of files that only debuggers, compilers and patch tools use.
const LEFTOVERS: &[&str] = &[".debug", ".dwo", ".dwp", ".pdb", ".gch", ".pch", ".orig", ".rej"];

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    for (wheel, member) in seen.set.members() {
        traces_and_permissions(wheel, member, findings);
    }
    for (package, path, elf) in seen.set.elf_files() {
        let place = PackagePath::new(package, path);
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
                    binary(place, elf, seen, findings);
                }
            }
        }
    }
    libraries(&seen.tree, findings);
    for wheel in &seen.set.wheels {
        if let Some(tree) = &wheel.devel {
            if let Some(why) = &tree.fault {
                let place = PackagePath::new(&wheel.package, &tree.member);
                findings.at(rule::BROKEN_DEVEL, place, why);
            } else {
                manifest(wheel, tree, findings);
                order(wheel, tree, findings);
                links(wheel, tree, seen, findings);
                cmake_packages(wheel, tree, seen, findings);
            }
        }
        // A full disk leaves empty libraries and programs behind.
        let programs = wheel
            .contents()
            .filter(|(member, _)| is_program(member))
            .map(|(member, content)| (&*member.path, content));
        let libraries = wheel.files().filter(|(path, _)| is_library(path));
        for (path, _) in libraries.chain(programs).filter(|(_, content)| content.len == 0) {
            findings.at(rule::BROKEN_ELF, PackagePath::new(&wheel.package, path), "it is empty");
        }
    }
}

/// Whether a member is a program by its mode and its directory. An empty `__init__.py` is not a program,
/// though it may have execute bits.
fn is_program(member: &MemberFacts) -> bool {
    let is_executable = member.kind == MemberKind::File && member.mode & 0o111 != 0;
    is_executable && member.path.contains("/bin/") && !has_extension(&member.path, "py")
}

/// No member has unsafe permissions, or is a leftover of the build.
fn traces_and_permissions(wheel: &WheelFile, member: &MemberFacts, findings: &mut Findings) {
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

/// No entry of a run path is absolute, or stands for the directory from which a program is started.
fn run_paths(place: PackagePath<'_>, elf: &rocwheel_elf::ElfFacts, findings: &mut Findings) {
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

/// Faults of one program or library, apart from its run path and the libraries that it needs.
fn binary(place: PackagePath<'_>, elf: &ElfFile, seen: &Observed<'_>, findings: &mut Findings) {
    let tree = &seen.tree;
    findings.at_each(rule::BROKEN_ELF, place, &elf.faults);
    if is_loadable(&elf.facts) {
        if let Some(runpath) = &elf.facts.runpath {
            findings.at(rule::RUNPATH, place, format!("DT_RUNPATH is `{runpath}`"));
        }
        // The file name of a library is its SONAME, which files linked with it search for.
        let soname = elf.facts.soname.as_deref().unwrap_or_default();
        let is_library = elf.facts.kind == ElfKind::SharedObject && !soname.is_empty();
        let has_file = || join(place.path, soname).is_some_and(|path| tree.has(&path));
        if is_library && file_name(place.path) != soname && !has_file() {
            let fact = format!("its SONAME is `{soname}`, and there is no such file beside it");
            findings.at(rule::SONAME_WITHOUT_FILE, place, fact);
        }
        too_new_versions(place, &elf.facts, findings);
    }
    if let Some(target) = &elf.launches {
        let target_path = join(place.path, target);
        if target_path.is_none_or(|path| tree.file(&path).is_none()) {
            let fact = format!("it runs `{target}`, which no package of the set has");
            findings.at(rule::DANGLING_LAUNCHER, place, fact);
        }
    }
    // A host neither starts nor loads another kind of file, such as an object file.
    if let Machine::Other(number) = elf.facts.machine
        && elf.facts.kind != ElfKind::Other
    {
        let fact = format!("a program or library for ELF machine {number}");
        findings.at(rule::FOREIGN_MACHINE, place, fact);
    }
}

/// Reports the newest symbol version of each kind, if hosts need not have it.
fn too_new_versions(place: PackagePath<'_>, elf: &rocwheel_elf::ElfFacts, findings: &mut Findings) {
    let host = SystemLibraries::builtin();
    // `GLIBC_2.28` is the number 2.28 of the kind `GLIBC`. The map keeps the last number of a kind, which
    // is the newest because the numbers are sorted.
    let newest: BTreeMap<&str, Dotted> = elf
        .versions
        .iter()
        .filter(|needed| host.has(&needed.library))
        .flat_map(|needed| &needed.versions)
        .filter_map(|version| {
            let (kind, number) = version.split_once('_')?;
            Some((kind, number.parse::<Dotted>().ok()?))
        })
        .sorted()
        .collect();
    for (prefix, number) in newest {
        let kind = prefix.to_ascii_lowercase();
        if let Some(most) = host.newest.get(&kind).filter(|most| number > **most) {
            let fact = format!("it needs {kind} {number}, but hosts have {most}");
            findings.at(rule::TOO_NEW_A_HOST, place, fact);
        }
    }
}

/// The run path of each file leads to the libraries that the file needs, unless every host has them.
fn libraries(tree: &InstalledTree<'_>, findings: &mut Findings) {
    let missing = missing_libraries(tree);
    // All paths of one file share its facts: two paths are of one file if their facts have one address.
    let missing_in: Vec<_> = missing
        .iter()
        .filter(|library| !has_extension(&library.path, "debug"))
        .filter_map(|library| {
            let file = tree.file(&library.path)?;
            Some((library, file, file.elf()?))
        })
        .collect();
    let first_names: BTreeSet<(*const rocwheel_elf::ElfFacts, &str)> = missing_in
        .iter()
        .filter(|(_, file, _)| !file.is_second_name)
        .map(|(library, _, elf)| (std::ptr::from_ref(*elf), &*library.name))
        .collect();
    for (library, file, elf) in missing_in {
        let name = &library.name;
        // A file is not reported under its second path if it lacks the library at its first path too.
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

/// The top directory of the archive. All entries should be in it.
fn root(tree: &DevelTree) -> Option<RelPath> {
    let first = tree.entries.first()?;
    first.entry.path.components().next()?.parse().ok()
}

/// The manifest agrees with the contents of the archive.
fn manifest(wheel: &WheelFile, tree: &DevelTree, findings: &mut Findings) {
    let path = devel_manifest::PATH;
    let Some(bytes) = wheel.text(path) else {
        // Only rocwheel writes a manifest.
        if !wheel.names_other_builder() {
            findings.of(rule::BROKEN_DEVEL, &wheel.package.file, format!("no `{path}`"));
        }
        return;
    };
    let place = PackagePath::new(wheel, path);
    let Ok(written) = serde_json::from_slice::<Value>(bytes) else {
        return findings.at(rule::BROKEN_DEVEL, place, "not JSON");
    };
    // There is nothing to compare if the archive is empty, or the file name of the wheel is invalid.
    let Some(expected) = expected_manifest(wheel, tree) else {
        return;
    };
    let mut keys = expected.as_object().into_iter().flat_map(Map::keys);
    if let Some(key) = keys.find(|key| written.get(key) != expected.get(key)) {
        let shown = |value: Option<&Value>| value.map_or("not there".to_owned(), Value::to_string);
        let in_manifest = shown(written.get(key));
        let in_archive = shown(expected.get(key));
        let fact = format!("`{key}` is {in_manifest}, and {in_archive} in the archive");
        findings.at(rule::BROKEN_DEVEL, place, fact);
    }
}

/// The manifest that rocwheel writes for this archive.
fn expected_manifest(wheel: &WheelFile, tree: &DevelTree) -> Option<Value> {
    let root = root(tree)?;
    let members: Vec<(RelPath, &TarKind)> = tree
        .entries
        .iter()
        .filter_map(|devel| Some((devel.entry.path.strip_prefix(&root)?, &devel.entry.kind)))
        .collect();
    let version = wheel.package.filename()?.version.to_string();
    let manifest =
        devel_manifest::render(&version, members.iter().map(|(path, kind)| (path, *kind)));
    serde_json::from_str(&manifest).ok()
}

/// The order of entries on which TheRock's `rocm-sdk` relies.
///
/// When `rocm-sdk` unpacks the first entry of a directory, it empties the directory. So a directory must
/// not come after entries of its subdirectories, which it would delete. It does not unpack hard links.
fn order(wheel: &WheelFile, tree: &DevelTree, findings: &mut Findings) {
    let root = root(tree);
    let mut emptied_directories: BTreeSet<RelPath> = BTreeSet::new();
    let mut known_paths: BTreeSet<&RelPath> = BTreeSet::new();
    for devel in &tree.entries {
        let path = &devel.entry.path;
        let place = PackagePath::new(wheel, path);
        if path.components().next() != root.as_ref().map(RelPath::as_str) || path.depth() < 2 {
            let fact = "it does not lie below the first directory";
            findings.at(rule::BROKEN_DEVEL, place, fact);
        }
        if !known_paths.insert(path) {
            findings.at(rule::BROKEN_DEVEL, place, "it is in the archive twice");
        }
        if matches!(devel.entry.kind, TarKind::Hardlink(_)) {
            let fact = "a hard link, which is passed over";
            findings.at(rule::BROKEN_DEVEL, place, fact);
        }
        let directory = match devel.entry.kind {
            TarKind::Directory => Some(path.clone()),
            _ => path.parent(),
        };
        let Some(directory) = directory.filter(|it| !emptied_directories.contains(it)) else {
            continue;
        };
        // In the sorted set all paths below a directory stand together, so the first of them is enough. A
        // search of the whole set would take too long: a tree may have 100,000 directories.
        let prefix = format!("{directory}/");
        let from_prefix = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let next = emptied_directories.range::<str, _>(from_prefix).next();
        if let Some(deleted) = next.filter(|it| it.as_str().starts_with(&prefix)) {
            let fact = format!("it comes after `{deleted}`, which `rocm-sdk` then deletes");
            findings.at(rule::BROKEN_DEVEL, place, fact);
        }
        emptied_directories.insert(directory);
    }
}

/// No symlink is dangling. A dangling symlink to another package is an error; within the tree it is a warning.
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
        // A link may lead to another link. If the last one leads to another package, which may be in another
        // part of the set, nothing is wrong within the tree. A cycle has no end.
        let end = seen.tree.real(path).or_else(|| join(path, text));
        let top = end.as_deref().and_then(|end| end.split('/').next());
        let is_inside = top.is_some() && top == root.as_ref().map(RelPath::as_str);
        let rule = if is_inside { rule::DANGLING_TREE_LINK } else { rule::DANGLING_DEVEL_LINK };
        let fact = format!("it leads to `{text}`, which does not exist");
        findings.at(rule, PackagePath::new(wheel, path), fact);
    }
}

/// The set has the CMake packages of ROCm that the CMake files of the tree ask for. If the `dev` artifact of
/// a library was not fetched, its package is missing, and the packages that ask for it fail too:
/// `find_package(rocsolver)` fails because `rocblas-config.cmake` is missing.
///
/// A CMake package is of ROCm if a library of its name is in the set. A package that is asked for under a
/// condition may be for another system.
fn cmake_packages(
    wheel: &WheelFile,
    tree: &DevelTree,
    seen: &Observed<'_>,
    findings: &mut Findings,
) {
    let plain = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    // `rocblas-config.cmake`, `ROCBlasConfig.cmake` and `FindROCBlas.cmake` are of one package.
    let package_of = |path: &str| {
        let name = file_name(path);
        name.strip_suffix("Config.cmake")
            .or_else(|| name.strip_suffix("-config.cmake"))
            .or_else(|| name.strip_prefix("Find")?.strip_suffix(".cmake"))
            .map(plain)
    };
    let present: BTreeSet<String> =
        tree.entries.iter().filter_map(|devel| package_of(devel.entry.path.as_str())).collect();
    let libraries: BTreeMap<String, &str> = seen
        .set
        .members()
        .map(|(_, member)| member.path.as_str())
        .filter(|path| is_library(path))
        .filter_map(|path| {
            let stem = file_name(path).split('.').next()?;
            Some((plain(stem.strip_prefix("lib").unwrap_or(stem)), path))
        })
        .collect();
    for devel in &tree.entries {
        let content = devel.content.as_ref();
        let Some(bytes) = content.and_then(|content| content.kept.as_deref()) else {
            continue;
        };
        let cmake_file = String::from_utf8_lossy(bytes);
        for name in asked_packages(&cmake_file).into_iter().unique() {
            let plain_name = plain(name);
            let library = libraries.get(&plain_name);
            if let Some(library) = library.filter(|_| !present.contains(&plain_name)) {
                let fact = format!(
                    "it asks for the CMake package `{name}`, which is missing; `{library}` is in the set"
                );
                let place = PackagePath::new(wheel, &devel.entry.path);
                findings.at(rule::MISSING_CMAKE_PACKAGE, place, fact);
            }
        }
    }
}

/// The packages that a CMake file asks for under no condition: `find_dependency(NAME …)` and
/// `find_package(NAME … REQUIRED …)` outside of conditions and definitions.
fn asked_packages(cmake_file: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut remaining = cmake_file;
    while !remaining.is_empty() {
        let (line, after) = remaining.split_once('\n').unwrap_or((remaining, ""));
        let command = line.split('(').next().unwrap_or_default();
        match command.trim().to_ascii_lowercase().as_str() {
            "if" | "foreach" | "while" | "function" | "macro" => depth += 1,
            "endif" | "endforeach" | "endwhile" | "endfunction" | "endmacro" => {
                depth = depth.saturating_sub(1);
            }
            command @ ("find_dependency" | "find_package") if depth == 0 => {
                // The arguments may be on several lines.
                let after_bracket = remaining.split_once('(').map_or("", |(_, after)| after);
                let in_brackets = after_bracket.split(')').next().unwrap_or_default();
                let mut arguments = in_brackets.split_whitespace();
                let name = arguments.next();
                let options: Vec<&str> = arguments.collect();
                let is_optional = options.iter().any(|it| matches!(*it, "QUIET" | "OPTIONAL"));
                let is_required = command == "find_dependency" || options.contains(&"REQUIRED");
                names.extend(name.filter(|_| is_required && !is_optional));
            }
            _ => {}
        }
        remaining = after;
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
