//! Whether anything of the build machine was left behind, or a right given away.

use crate::{
    check::{
        facts::{Elf, Member, MemberKind, SetFacts},
        finding::Finding,
        rule,
    },
    loader::is_loadable,
};

const SETUID_OR_SETGID: u32 = 0o6000;
const WORLD_WRITABLE: u32 = 0o002;
/// How the names of files end that only debuggers and compilers read.
const LEFTOVERS: &[&str] = &[
    ".debug", ".dwo", ".dwp", ".pdb", ".gch", ".pch", ".orig", ".rej",
];

pub(super) fn find(set: &SetFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for wheel in &set.wheels {
        for member in &wheel.members {
            let found = one_member(member);
            let found = found.into_iter().map(|it| it.at(&member.path));
            findings.extend(found.map(|it| it.in_file(&wheel.file)));
        }
        for devel in wheel.devel.iter().flat_map(|tree| &tree.entries) {
            let found = run_paths(devel.elf.as_ref());
            let found = found.into_iter().map(|it| it.at(devel.entry.path.as_str()));
            findings.extend(found.map(|it| it.in_file(&wheel.file)));
        }
    }
    findings
}

fn one_member(member: &Member) -> Vec<Finding> {
    let mut found = Vec::new();
    let content = member.content.as_ref().ok();
    found.extend(run_paths(content.and_then(|content| content.elf.as_ref())));
    if member.mode & SETUID_OR_SETGID != 0 {
        let fact = format!("its mode is {:o}", member.mode);
        found.push(Finding::new(rule::SETUID_MEMBER, fact));
    }
    // The mode of a link means nothing, and links are another rule's.
    if member.mode & WORLD_WRITABLE != 0 && member.kind == MemberKind::File {
        let fact = format!("its mode is {:o}", member.mode);
        found.push(Finding::new(rule::WORLD_WRITABLE, fact));
    }
    let is_cache = member.path.contains("/__pycache__/");
    if is_cache || LEFTOVERS.iter().any(|end| member.path.ends_with(end)) {
        let fact = "a leftover of building or debugging";
        found.push(Finding::new(rule::DEBUG_LEFTOVER, fact));
    }
    found
}

fn run_paths(elf: Option<&Elf>) -> Vec<Finding> {
    let Some(Elf::Read(elf)) = elf else {
        return Vec::new();
    };
    let Some(run_path) = elf.facts.run_path().filter(|_| is_loadable(&elf.facts)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in run_path.split(':') {
        let is_relative = entry.starts_with("$ORIGIN") || entry.starts_with("${ORIGIN}");
        if entry.is_empty() || !(entry.starts_with('/') || is_relative) {
            let fact = format!("an entry for the current directory: `{run_path}`");
            found.push(Finding::new(rule::OPEN_RUN_PATH, fact));
        } else if !is_relative {
            let fact = format!("`{entry}` is on its run path");
            found.push(Finding::new(rule::ABSOLUTE_RUN_PATH, fact));
        }
    }
    found
}
