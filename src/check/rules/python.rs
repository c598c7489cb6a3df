//! Whether the Python of a wheel runs: it parses, it finds its own modules, and nothing else comes with it.

use std::collections::BTreeMap;

use crate::{
    check::{
        facts::{Elf, Member, MemberKind, SetFacts, WheelFile},
        finding::Finding,
        mention::has_extension,
        python::{PythonModule, PythonModules, broken_imports, unresolved},
        rule,
    },
    elf::Kind,
};

/// How the directories begin that packages of ours have at their top.
const OURS: [&str; 2] = ["rocm", "_rocm"];
/// What Python runs whenever it starts.
const AT_START: [&str; 2] = ["sitecustomize.py", "usercustomize.py"];

pub(super) fn find(set: &SetFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for wheel in set.wheels.iter().filter(|it| it.is_readable()) {
        let mut found = Vec::new();
        let mut modules = PythonModules::new();
        for member in &wheel.members {
            let content = member.content.as_ref().ok();
            let source = content.and_then(|it| it.kept.as_deref());
            if let Some(source) = source.filter(|_| has_extension(&member.path, "py")) {
                match PythonModule::parse(source) {
                    Ok(module) => {
                        modules.insert(&member.path, module);
                    }
                    Err(why) => found.push(Finding::new(rule::BROKEN_PYTHON, why).at(&member.path)),
                }
            }
            found.extend(foreign(member).map(|it| it.at(&member.path)));
            found.extend(not_executable(member).map(|it| it.at(&member.path)));
        }
        // One that does not parse is missing among the others.
        if found.iter().all(|it| it.rule != rule::BROKEN_PYTHON) {
            found.extend(names(wheel, &modules));
        }
        findings.extend(found.into_iter().map(|it| it.in_file(&wheel.file)));
    }
    findings
}

/// Entry points and imports lead somewhere, and the version is that of the package.
fn names(wheel: &WheelFile, modules: &PythonModules<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some((path, text)) = wheel.dist_info("entry_points.txt") {
        let facts = broken_calls(&entry_points(text), modules, "");
        found.extend(
            facts
                .into_iter()
                .map(|it| Finding::new(rule::BROKEN_IMPORT, it).at(path)),
        );
    }
    let broken = broken_imports(modules).into_iter();
    found.extend(broken.map(|(path, fact)| Finding::new(rule::BROKEN_IMPORT, fact).at(path)));
    if let Some(metadata) = wheel.metadata() {
        found.extend(versions(modules, &metadata.version.to_string()));
    }
    found
}

/// What `_dist_info.py` calls the version is the version.
pub(super) fn versions(modules: &PythonModules<'_>, version: &str) -> Vec<Finding> {
    let own = modules
        .iter()
        .filter(|(path, _)| path.ends_with("/_dist_info.py"));
    own.filter_map(|(path, module)| {
        let said = module.text("__version__").filter(|said| *said != version)?;
        let fact = format!("its version is {said}, but the metadata says {version}");
        Some(Finding::new(rule::METADATA_DISAGREES, fact).at(*path))
    })
    .collect()
}

/// What console scripts call that is not there, each with the first script that calls it.
pub(super) fn broken_calls(
    scripts: &[(String, String)],
    modules: &PythonModules<'_>,
    top: &str,
) -> Vec<String> {
    let mut callers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, call) in scripts {
        if let Some(why) = unresolved(modules, top, call) {
            callers.entry(why).or_default().push(name);
        }
    }
    let fact = |(why, names): (String, Vec<&str>)| match names.as_slice() {
        [name] => format!("{why}, which `{name}` calls"),
        names => {
            let (first, rest) = (names.first().unwrap_or(&""), names.len().saturating_sub(1));
            format!("{why}, which `{first}` and {rest} more call")
        }
    };
    callers.into_iter().map(fact).collect()
}

/// The names and calls of the console scripts.
pub(super) fn entry_points(text: &[u8]) -> Vec<(String, String)> {
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

/// Nothing lands outside of our own directories.
fn foreign(member: &Member) -> Option<Finding> {
    let (top, inside) = member.path.split_once('/').unwrap_or((&member.path, ""));
    let is_ours = OURS.iter().any(|ours| top.starts_with(ours));
    let fact = if inside.is_empty() && (has_extension(top, "pth") || AT_START.contains(&top)) {
        "Python runs it whenever it starts".to_owned()
    } else if is_ours && !has_extension(top, "data") && !inside.is_empty() {
        return None;
    } else {
        format!("it is installed as `{top}`, which is not a directory of ours")
    };
    Some(Finding::new(rule::FOREIGN_FILE, fact))
}

/// A program that users call can be run.
fn not_executable(member: &Member) -> Option<Finding> {
    let content = member.content.as_ref().ok()?;
    let Some(Elf::Read(elf)) = &content.elf else {
        return None;
    };
    let is_called = elf.launches.is_some() || member.path.contains("/bin/");
    let is_program = elf.facts.kind == Kind::Executable && is_called;
    let is_refused = is_program && member.kind == MemberKind::File && member.mode & 0o111 == 0;
    let fact = format!("a program, and its mode is {:o}", member.mode & 0o7777);
    is_refused.then(|| Finding::new(rule::NOT_EXECUTABLE, fact))
}
