//! Whether programs start and libraries load on a host that has nothing but what every host has.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    archive::TarKind,
    check::{
        demands::Demands,
        facts::{Elf, ElfFile, SetFacts},
        finding::Finding,
        mention::has_extension,
        rule,
    },
    elf::{self, Kind, Machine},
    loader::{Dotted, InstalledTree, LibrarySearches, SystemLibraries, is_loadable, join},
};

pub(super) fn find(set: &SetFacts, tree: &InstalledTree<'_>, demands: &Demands) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (wheel, path, elf) in elf_files(set) {
        let found = match elf {
            Elf::Damaged(why) => vec![Finding::new(rule::BROKEN_ELF, why)],
            Elf::TooLarge => {
                let fact = "its headers or tables are too large to check";
                vec![Finding::new(rule::UNEXAMINED_ELF, fact)]
            }
            Elf::Read(elf) => one_file(path, elf, tree, demands),
        };
        findings.extend(found.into_iter().map(|it| it.in_file(wheel).at(path)));
    }
    findings.extend(libraries(tree));
    findings.extend(empty(set));
    findings
}

/// A library without a byte in it is what a disk that was full leaves.
fn empty(set: &SetFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    for wheel in &set.wheels {
        let members = wheel
            .members
            .iter()
            .filter_map(|it| Some((&*it.path, it.content.as_ref().ok()?.len)));
        let devel = wheel.devel.iter().flat_map(|tree| &tree.entries);
        let devel = devel.filter_map(|it| match it.entry.kind {
            TarKind::File { len, .. } => Some((it.entry.path.as_str(), len)),
            _ => None,
        });
        for (path, _) in members
            .chain(devel)
            .filter(|(path, len)| *len == 0 && is_library(path))
        {
            let finding = Finding::new(rule::BROKEN_ELF, "it is empty");
            found.push(finding.in_file(&wheel.file).at(path));
        }
    }
    found
}

/// `libx.so`, `libx.so.1.2`, `x.dll`
fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let version = name.rsplit_once(".so").map(|(_, version)| version);
    let is_version = |it: &str| {
        it.is_empty()
            || it.starts_with('.') && it.bytes().all(|it| it == b'.' || it.is_ascii_digit())
    };
    version.is_some_and(is_version) || has_extension(name, "dll")
}

/// Every ELF file with its wheel and its path, those of the development files included.
fn elf_files(set: &SetFacts) -> Vec<(&str, &str, &Elf)> {
    let mut found = Vec::new();
    for wheel in &set.wheels {
        for member in &wheel.members {
            let content = member.content.as_ref().ok();
            if let Some(elf) = content.and_then(|content| content.elf.as_ref()) {
                found.push((wheel.file.as_str(), member.path.as_str(), elf));
            }
        }
        for entry in wheel.devel.iter().flat_map(|tree| &tree.entries) {
            if let Some(elf) = &entry.elf {
                found.push((&wheel.file, entry.entry.path.as_str(), elf));
            }
        }
    }
    found
}

fn one_file(
    path: &str,
    elf: &ElfFile,
    tree: &InstalledTree<'_>,
    demands: &Demands,
) -> Vec<Finding> {
    // What was split off for debuggers has the headers of a file, and not its content.
    if has_extension(path, "debug") {
        return Vec::new();
    }
    let mut found: Vec<Finding> = Vec::new();
    let faults = elf.faults.iter();
    found.extend(faults.map(|fault| Finding::new(rule::BROKEN_ELF, fault)));
    found.extend(runpath(elf));
    found.extend(soname(path, elf, tree));
    found.extend(newer_than(elf, demands));
    found.extend(launcher(path, elf, tree));
    if let Machine::Other(number) = elf.facts.machine
        && elf.facts.kind != Kind::Other
    {
        let fact = format!("a program or library for ELF machine {number}");
        found.push(Finding::new(rule::FOREIGN_MACHINE, fact));
    }
    found
}

fn runpath(elf: &ElfFile) -> Option<Finding> {
    let runpath = elf.facts.runpath.as_ref()?;
    let fact = format!("DT_RUNPATH is `{runpath}`");
    is_loadable(&elf.facts).then(|| Finding::new(rule::RUNPATH, fact))
}

/// A library stands under the name that files ask for which were linked with it.
fn soname(path: &str, elf: &ElfFile, tree: &InstalledTree<'_>) -> Option<Finding> {
    let soname = elf
        .facts
        .soname
        .as_deref()
        .filter(|soname| !soname.is_empty())?;
    let name = path.rsplit('/').next().unwrap_or(path);
    if !is_loadable(&elf.facts) || elf.facts.kind != Kind::SharedObject || name == soname {
        return None;
    }
    let is_there = join(path, soname).is_some_and(|place| tree.has(&place));
    let fact = format!("its SONAME is `{soname}`, and there is no such file beside it");
    (!is_there).then(|| Finding::new(rule::SONAME_WITHOUT_FILE, fact))
}

/// The newest symbol version of each kind, where a host need not have it.
fn newer_than(elf: &ElfFile, demands: &Demands) -> Vec<Finding> {
    let mut newest: BTreeMap<&str, Dotted> = BTreeMap::new();
    if !is_loadable(&elf.facts) {
        return Vec::new();
    }
    let host = elf
        .facts
        .versions
        .iter()
        .filter(|needs| SystemLibraries::builtin().has(&needs.library));
    for version in host.flat_map(|needs| &needs.versions) {
        let Some((kind, number)) = version.split_once('_') else {
            continue;
        };
        let Ok(number) = number.parse::<Dotted>() else {
            continue;
        };
        let known = newest.entry(kind).or_insert_with(|| number.clone());
        *known = number.max(known.clone());
    }
    newest
        .into_iter()
        .filter_map(|(kind, number)| {
            let most = SystemLibraries::builtin().newest(kind, &demands.glibc)?;
            let glibc = &demands.glibc;
            let fact = if kind == "GLIBC" {
                format!("it needs glibc {number}, but hosts have {glibc}")
            } else {
                format!("it needs {kind}_{number}, but hosts with glibc {glibc} have {most}")
            };
            (number > most).then(|| Finding::new(rule::TOO_NEW_A_HOST, fact))
        })
        .collect()
}

fn launcher(path: &str, elf: &ElfFile, tree: &InstalledTree<'_>) -> Option<Finding> {
    let target = elf.launches.as_deref()?;
    let is_there = join(path, target).is_some_and(|place| tree.file(&place).is_some());
    let fact = format!("it runs `{target}`, which no package of the set has");
    (!is_there).then(|| Finding::new(rule::DANGLING_LAUNCHER, fact))
}

/// What a file needs is found through its own run path, or is on every host.
fn libraries(tree: &InstalledTree<'_>) -> Vec<Finding> {
    let searches = LibrarySearches::of(tree);
    let mut first_names: BTreeSet<(*const elf::Facts, &str)> = BTreeSet::new();
    let mut second_names = Vec::new();
    let mut found = Vec::new();
    for (path, name, outcome) in searches.failures() {
        let Some(file) = tree.file(path) else {
            continue;
        };
        let Some(elf) = file.elf().filter(|_| !has_extension(path, "debug")) else {
            continue;
        };
        let (rule, fact) = if outcome.is_found_with_others {
            let fact = format!("`{name}` is found only when another library loads this one");
            (rule::LUCKY_LIBRARY, fact)
        } else {
            let run_path = elf.run_path().unwrap_or("(none)");
            let fact = format!("needs `{name}`, which is not on its run path: {run_path}");
            (rule::MISSING_LIBRARY, fact)
        };
        let finding = Finding::new(rule, fact).in_file(file.package).at(path);
        let key = (std::ptr::from_ref(elf), name);
        if file.is_second_name {
            second_names.push((key, finding));
        } else {
            first_names.insert(key);
            found.push(finding);
        }
    }
    // A file that fails where it lies need not be named again where it is unpacked to.
    second_names.retain(|(key, _)| !first_names.contains(key));
    found.extend(second_names.into_iter().map(|(_, finding)| finding));
    found
}
