//! Rules about traces of the build machine and unsafe permissions in a package.

use super::Observed;
use crate::{
    check::{
        facts::{Elf, MemberKind},
        finding::Findings,
        options::CheckOptions,
        rule,
    },
    loader::is_loadable,
};

const SETUID_OR_SETGID: u32 = 0o6000;
const WORLD_WRITABLE: u32 = 0o002;
/// The extensions of files that only debuggers, compilers and patch tools use.
const LEFTOVERS: &[&str] = &[
    ".debug", ".dwo", ".dwp", ".pdb", ".gch", ".pch", ".orig", ".rej",
];

pub(super) fn find(seen: &Observed<'_>, _: &CheckOptions, findings: &mut Findings) {
    for (wheel, member) in seen.set.members() {
        let place = (&wheel.file, &member.path);
        let mode = || format!("its mode is {:o}", member.mode);
        if member.mode & SETUID_OR_SETGID != 0 {
            findings.add(rule::SETUID_MEMBER, place, mode());
        }
        // The mode of a symlink is meaningless, and another rule reports symlinks.
        if member.mode & WORLD_WRITABLE != 0 && member.kind == MemberKind::File {
            findings.add(rule::WORLD_WRITABLE, place, mode());
        }
        let is_cache = member.path.contains("/__pycache__/");
        if is_cache || LEFTOVERS.iter().any(|end| member.path.ends_with(end)) {
            let fact = "a leftover of building or debugging";
            findings.add(rule::DEBUG_LEFTOVER, place, fact);
        }
    }
    for (wheel, path, elf) in seen.set.elf_files() {
        run_paths((wheel, path), elf, findings);
    }
}

fn run_paths(place: (&str, &str), elf: &Elf, findings: &mut Findings) {
    let Elf::Read(elf) = elf else { return };
    let run_path = elf.facts.run_path().filter(|_| is_loadable(&elf.facts));
    let Some(run_path) = run_path else { return };
    for entry in run_path.split(':') {
        let is_relative = entry.starts_with("$ORIGIN") || entry.starts_with("${ORIGIN}");
        if entry.is_empty() || !(entry.starts_with('/') || is_relative) {
            let fact = format!("an entry for the current directory: `{run_path}`");
            findings.add(rule::OPEN_RUN_PATH, place, fact);
        } else if !is_relative {
            let fact = format!("`{entry}` is on its run path");
            findings.add(rule::ABSOLUTE_RUN_PATH, place, fact);
        }
    }
}
