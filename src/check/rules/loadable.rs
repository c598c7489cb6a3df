//! Rules about host binaries: programs start and libraries load on any supported Linux host. And
//! about traces of the build machine and unsafe permissions.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::Observed;
use crate::{
    check::{
        facts::{Elf, ElfFile, MemberFacts, MemberKind, WheelFile},
        finding::Findings,
        path_facts::has_extension,
        rule,
    },
    elf::{self, ElfKind, Machine},
    loader::{Dotted, InstalledTree, SystemLibraries, is_loadable, join, missing_libraries},
};

const SETUID_OR_SETGID: u32 = 0o6000;
const WORLD_WRITABLE: u32 = 0o002;
/// The extensions of files that only debuggers, compilers and patch tools use.
const LEFTOVERS: &[&str] = &[
    ".debug", ".dwo", ".dwp", ".pdb", ".gch", ".pch", ".orig", ".rej",
];

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    for (wheel, member) in seen.set.members() {
        clean(wheel, member, findings);
    }
    for (wheel, path, elf) in seen.set.elf_files() {
        let place = (wheel, path);
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
        // A full disk leaves empty libraries and programs behind.
        let programs = wheel.contents().filter(|(it, _)| is_program(it));
        let programs = programs.map(|(member, it)| (&*member.path, it));
        let files = wheel.files().filter(|(path, _)| is_library(path));
        for (path, _) in files.chain(programs).filter(|(_, it)| it.len == 0) {
            findings.at(rule::BROKEN_ELF, (&wheel.file, path), "it is empty");
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
    let place = (&*wheel.file, &*member.path);
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

fn run_paths(place: (&str, &str), elf: &elf::ElfFacts, findings: &mut Findings) {
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

/// Whether a path is a library by its name: `libx.so`, `libx.so.1.2`, `x.dll`.
fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let version = name.rsplit_once(".so").map(|(_, version)| version);
    let is_version = |it: &str| {
        it.is_empty()
            || it.starts_with('.') && it.bytes().all(|it| it == b'.' || it.is_ascii_digit())
    };
    version.is_some_and(is_version) || has_extension(name, "dll")
}

fn one_file(place: (&str, &str), elf: &ElfFile, seen: &Observed<'_>, findings: &mut Findings) {
    let tree = &seen.tree;
    for fault in &elf.faults {
        findings.at(rule::BROKEN_ELF, place, fault);
    }
    if is_loadable(&elf.facts) {
        if let Some(runpath) = &elf.facts.runpath {
            findings.at(rule::RUNPATH, place, format!("DT_RUNPATH is `{runpath}`"));
        }
        soname(place, &elf.facts, tree, findings);
        newer_than(place, &elf.facts, &seen.options.glibc, findings);
    }
    if let Some(target) = &elf.launches {
        let target_at = join(place.1, target);
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

/// The file name of a library is its SONAME, which files linked with it search for.
fn soname(
    (wheel, path): (&str, &str),
    elf: &elf::ElfFacts,
    tree: &InstalledTree<'_>,
    findings: &mut Findings,
) {
    let name = path.rsplit('/').next().unwrap_or(path);
    let soname = elf.soname.as_deref().unwrap_or_default();
    let is_library = elf.kind == ElfKind::SharedObject && !soname.is_empty();
    if is_library && name != soname && !join(path, soname).is_some_and(|it| tree.has(&it)) {
        let fact = format!("its SONAME is `{soname}`, and there is no such file beside it");
        findings.at(rule::SONAME_WITHOUT_FILE, (wheel, path), fact);
    }
}

/// Reports the newest symbol version of each kind, if hosts need not have it.
fn newer_than(place: (&str, &str), elf: &elf::ElfFacts, glibc: &Dotted, findings: &mut Findings) {
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
        let Some(most) = host.newest(kind, glibc).filter(|most| number > *most) else {
            continue;
        };
        let fact = if kind == "GLIBC" {
            format!("it needs glibc {number}, but hosts have {glibc}")
        } else {
            format!("it needs {kind}_{number}, but hosts with glibc {glibc} have {most}")
        };
        findings.at(rule::TOO_NEW_A_HOST, place, fact);
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
    let first_names: BTreeSet<(*const elf::ElfFacts, &str)> = first_names
        .map(|(library, _, elf)| (std::ptr::from_ref(*elf), &*library.name))
        .collect();
    for (library, file, elf) in missing {
        let name = &library.name;
        // A file that fails at its own path is not reported again under its second path.
        if file.is_second_name && first_names.contains(&(std::ptr::from_ref(elf), name)) {
            continue;
        }
        let place = (file.package, &*library.path);
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
