//! Rules about host binaries: programs start and libraries load on any supported Linux host.

use std::collections::{BTreeMap, BTreeSet};

use super::Observed;
use crate::{
    archive::TarKind,
    check::{
        facts::{Elf, ElfFile, SetFacts},
        finding::Findings,
        options::CheckOptions,
        path_facts::has_extension,
        rule,
    },
    elf::{self, ElfKind, Machine},
    loader::{Dotted, InstalledTree, LibrarySearches, SystemLibraries, is_loadable, join},
};

pub(super) fn find(seen: &Observed<'_>, options: &CheckOptions, findings: &mut Findings) {
    for (wheel, path, elf) in seen.set.elf_files() {
        let place = (wheel, path);
        match elf {
            Elf::Damaged(why) => findings.add(rule::BROKEN_ELF, place, why),
            Elf::TooLarge => {
                let fact = "its headers or tables are too large to check";
                findings.add(rule::UNEXAMINED_ELF, place, fact);
            }
            // A `.debug` file has the section headers of a binary, but not its contents.
            Elf::Read(_) if has_extension(path, "debug") => {}
            Elf::Read(elf) => one_file(place, elf, &seen.tree, options, findings),
        }
    }
    libraries(&seen.tree, findings);
    empty(seen.set, findings);
}

/// Reports empty libraries, which a full disk leaves behind.
fn empty(set: &SetFacts, findings: &mut Findings) {
    for wheel in &set.wheels {
        let members = wheel.contents();
        let members = members.map(|(member, content)| (&*member.path, content.len));
        let unpacked = wheel.unpacked().filter_map(|it| match it.entry.kind {
            TarKind::File { len, .. } => Some((it.entry.path.as_str(), len)),
            _ => None,
        });
        for (path, len) in members.chain(unpacked) {
            if len == 0 && is_library(path) {
                findings.add(rule::BROKEN_ELF, (&*wheel.file, path), "it is empty");
            }
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

fn one_file(
    place: (&str, &str),
    elf: &ElfFile,
    tree: &InstalledTree<'_>,
    options: &CheckOptions,
    findings: &mut Findings,
) {
    for fault in &elf.faults {
        findings.add(rule::BROKEN_ELF, place, fault);
    }
    if is_loadable(&elf.facts) {
        if let Some(runpath) = &elf.facts.runpath {
            findings.add(rule::RUNPATH, place, format!("DT_RUNPATH is `{runpath}`"));
        }
        soname(place, &elf.facts, tree, findings);
        newer_than(place, &elf.facts, options, findings);
    }
    if let Some(target) = &elf.launches {
        let target_at = join(place.1, target);
        if target_at.is_none_or(|target| tree.file(&target).is_none()) {
            let fact = format!("it runs `{target}`, which no package of the set has");
            findings.add(rule::DANGLING_LAUNCHER, place, fact);
        }
    }
    if let (Machine::Other(number), true) = (elf.facts.machine, elf.facts.kind != ElfKind::Other) {
        let fact = format!("a program or library for ELF machine {number}");
        findings.add(rule::FOREIGN_MACHINE, place, fact);
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
        findings.add(rule::SONAME_WITHOUT_FILE, (wheel, path), fact);
    }
}

/// Reports the newest symbol version of each kind, if hosts need not have it.
fn newer_than(
    place: (&str, &str),
    elf: &elf::ElfFacts,
    options: &CheckOptions,
    findings: &mut Findings,
) {
    let host = SystemLibraries::builtin();
    let mut newest: BTreeMap<&str, Dotted> = BTreeMap::new();
    let needs = elf.versions.iter().filter(|it| host.has(&it.library));
    for version in needs.flat_map(|needs| &needs.versions) {
        let Some((kind, number)) = version.split_once('_') else {
            continue;
        };
        let Ok(number) = number.parse::<Dotted>() else {
            continue;
        };
        let known = newest.entry(kind).or_insert_with(|| number.clone());
        *known = number.max(known.clone());
    }
    let glibc = &options.glibc;
    for (kind, number) in newest {
        let Some(most) = host.newest(kind, glibc).filter(|most| number > *most) else {
            continue;
        };
        let fact = if kind == "GLIBC" {
            format!("it needs glibc {number}, but hosts have {glibc}")
        } else {
            format!("it needs {kind}_{number}, but hosts with glibc {glibc} have {most}")
        };
        findings.add(rule::TOO_NEW_A_HOST, place, fact);
    }
}

/// Each library that a file needs is found through its own run path, or is on every host.
fn libraries(tree: &InstalledTree<'_>, findings: &mut Findings) {
    let searches = LibrarySearches::of(tree);
    let failures = searches.failures().filter_map(|(path, name, outcome)| {
        let file = tree.file(path)?;
        let elf = file.elf().filter(|_| !has_extension(path, "debug"))?;
        Some((path, name, outcome, file, elf))
    });
    let failures: Vec<_> = failures.collect();
    let first_names = failures.iter().filter(|failure| !failure.3.is_second_name);
    let first_names: BTreeSet<(*const elf::ElfFacts, &str)> = first_names
        .map(|(_, name, _, _, elf)| (std::ptr::from_ref(*elf), *name))
        .collect();
    for (path, name, outcome, file, elf) in failures {
        // A file that fails at its own path is not reported again under its second path.
        if file.is_second_name && first_names.contains(&(std::ptr::from_ref(elf), name)) {
            continue;
        }
        let place = (file.package, path);
        if outcome.is_found_with_others {
            let fact = format!("`{name}` is found only when another library loads this one");
            findings.add(rule::LUCKY_LIBRARY, place, fact);
        } else {
            let run_path = elf.run_path().unwrap_or("(none)");
            let fact = format!("needs `{name}`, which is not on its run path: {run_path}");
            findings.add(rule::MISSING_LIBRARY, place, fact);
        }
    }
}
