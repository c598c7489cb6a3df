//! Rules about the Python in a wheel: it parses, its imports and entry points exist, and nothing is
//! installed outside of our directories.

use std::collections::BTreeMap;

use super::Observed;
use crate::{
    check::{
        facts::{Elf, MemberFacts, MemberKind, WheelFile},
        finding::Findings,
        options::CheckOptions,
        path_facts::has_extension,
        python::{PythonModule, PythonModules, broken_imports, unresolved},
        rule,
    },
    elf::ElfKind,
};

/// The prefixes of the top-level directories of our packages.
const OURS: [&str; 2] = ["rocm", "_rocm"];
/// Files that every Python runs when it starts.
const AT_START: [&str; 2] = ["sitecustomize.py", "usercustomize.py"];

pub(super) fn find(seen: &Observed<'_>, _: &CheckOptions, findings: &mut Findings) {
    for wheel in seen.set.wheels.iter().filter(|it| it.is_readable()) {
        for member in &wheel.members {
            foreign(wheel, member, findings);
            not_executable(wheel, member, findings);
        }
        let sources = wheel.contents();
        let sources = sources.filter_map(|(member, it)| Some((&*member.path, it.kept.as_deref()?)));
        // If a module does not parse, its names are unknown. Other findings would follow from that.
        if let Some(modules) = modules(&wheel.file, sources, findings) {
            names(wheel, &modules, findings);
        }
    }
}

/// Parses Python files. `None` if one of them does not parse, which is reported.
pub(super) fn modules<'a>(
    file: &str,
    sources: impl Iterator<Item = (&'a str, &'a [u8])>,
    findings: &mut Findings,
) -> Option<PythonModules<'a>> {
    let mut modules = PythonModules::new();
    let mut is_whole = true;
    for (path, source) in sources.filter(|(path, _)| has_extension(path, "py")) {
        match PythonModule::parse(source) {
            Ok(module) => _ = modules.insert(path, module),
            Err(why) => {
                is_whole = false;
                findings.add(rule::BROKEN_PYTHON, (file, path), why);
            }
        }
    }
    is_whole.then_some(modules)
}

/// Entry points and imports exist, and the version is that of the package.
fn names(wheel: &WheelFile, modules: &PythonModules<'_>, findings: &mut Findings) {
    if let Some((path, text)) = wheel.dist_info("entry_points.txt") {
        for fact in broken_calls(text, modules, "") {
            findings.add(rule::BROKEN_IMPORT, (&*wheel.file, path), fact);
        }
    }
    imports(&wheel.file, modules, findings);
    if let Some(metadata) = wheel.metadata() {
        versions(
            &wheel.file,
            modules,
            &metadata.version.to_string(),
            findings,
        );
    }
}

/// Relative imports name existing modules, and names that these define.
pub(super) fn imports(file: &str, modules: &PythonModules<'_>, findings: &mut Findings) {
    for (path, fact) in broken_imports(modules) {
        findings.add(rule::BROKEN_IMPORT, (file, path), fact);
    }
}

/// The version in `_dist_info.py` is that of the package.
pub(super) fn versions(
    file: &str,
    modules: &PythonModules<'_>,
    version: &str,
    findings: &mut Findings,
) {
    for (path, module) in modules {
        let said = module.text("__version__").filter(|said| *said != version);
        if let Some(said) = said.filter(|_| path.ends_with("/_dist_info.py")) {
            let fact = format!("its version is {said}, but the metadata says {version}");
            findings.add(rule::METADATA_DISAGREES, (file, *path), fact);
        }
    }
}

/// The missing functions that console scripts in `entry_points.txt` call, each with the first
/// script that calls it.
pub(super) fn broken_calls(text: &[u8], modules: &PythonModules<'_>, top: &str) -> Vec<String> {
    let mut callers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, call) in entry_points(text) {
        if let Some(why) = unresolved(modules, top, &call) {
            callers.entry(why).or_default().push(name);
        }
    }
    let fact = |(why, names): (String, Vec<String>)| match names.as_slice() {
        [first, _, ..] => {
            let rest = names.len().saturating_sub(1);
            format!("{why}, which `{first}` and {rest} more call")
        }
        names => format!("{why}, which `{}` calls", names.concat()),
    };
    callers.into_iter().map(fact).collect()
}

/// The console scripts: name and call.
fn entry_points(text: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(text);
    let mut is_script = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            is_script = matches!(
                section.trim_end_matches(']').trim(),
                "console_scripts" | "gui_scripts"
            );
        } else if let Some((name, call)) = line.split_once('=').filter(|_| is_script) {
            found.push((name.trim().to_owned(), call.trim().to_owned()));
        }
    }
    found
}

/// No file is installed outside of our own directories.
fn foreign(wheel: &WheelFile, member: &MemberFacts, findings: &mut Findings) {
    let (top, inside) = member.path.split_once('/').unwrap_or((&member.path, ""));
    let is_ours = OURS.iter().any(|ours| top.starts_with(ours));
    let fact = if inside.is_empty() && (has_extension(top, "pth") || AT_START.contains(&top)) {
        "Python runs it whenever it starts".to_owned()
    } else if is_ours && !has_extension(top, "data") && !inside.is_empty() {
        return;
    } else {
        format!("it is installed as `{top}`, which is not a directory of ours")
    };
    findings.add(rule::FOREIGN_FILE, (&wheel.file, &member.path), fact);
}

/// Programs are executable.
fn not_executable(wheel: &WheelFile, member: &MemberFacts, findings: &mut Findings) {
    let elf = member.content.as_ref().map(|content| &content.elf);
    let Ok(Some(Elf::Read(elf))) = elf else {
        return;
    };
    let is_called = elf.launches.is_some() || member.path.contains("/bin/");
    let is_program = elf.facts.kind == ElfKind::Executable && is_called;
    if is_program && member.kind == MemberKind::File && member.mode & 0o111 == 0 {
        let fact = format!("a program, and its mode is {:o}", member.mode & 0o7777);
        findings.add(rule::NOT_EXECUTABLE, (&wheel.file, &member.path), fact);
    }
}
