//! Rules about the Python in wheels and sdists: its entry points exist, nothing is installed outside of our
//! directories, and the files are there that it looks up by name in `_dist_info.json`.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde::Deserialize;

use super::Observed;
use crate::{
    check::{
        facts::{ContentFacts, MemberFacts, MemberKind, SdistFile, WheelFile},
        path_facts::has_extension,
        python::{PythonModules, unresolved},
        rule::{self, Findings, PackagePath},
    },
    elf::ElfKind,
    policy::{
        catalog::{CATALOG, PackageKind},
        dist_info::{self, Tables, assigned_version},
        required_file::{RequiredFile, RequiredFileKind},
    },
    run::Platform,
    wheel::Metadata,
};

/// The prefixes of the top-level directories of our packages.
const OURS: [&str; 2] = ["rocm", "_rocm"];
/// Files that every Python runs when it starts.
const AT_START: [&str; 2] = ["sitecustomize.py", "usercustomize.py"];

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let platform = match seen.set.platforms().as_slice() {
        ["linux"] => Some(Platform::Linux),
        ["win32"] => Some(Platform::Windows),
        _ => None,
    };
    for wheel in seen.set.wheels.iter().filter(|it| it.unreadable.is_none()) {
        if let Some(platform) = platform {
            required_files(wheel, platform, findings);
        }
        for member in &wheel.members {
            foreign(wheel, member, findings);
            not_executable(wheel, member, findings);
        }
        let file = &wheel.package.file;
        let modules = modules_of(wheel);
        if let Some((path, text)) = wheel.dist_info("entry_points.txt") {
            let facts = broken_calls(text, &modules, "");
            // TheRock's core package has such scripts, and is published with them.
            let rule =
                if wheel.is_made_by_others() { rule::DEAD_SCRIPT } else { rule::UNKEPT_PROMISE };
            findings.at_each(rule, PackagePath::new(file, path), facts);
        }
        if let Some(metadata) = wheel.metadata() {
            versions(file, &modules, &metadata, findings);
        }
    }
    for it in &seen.set.sdists {
        if let Ok(metadata) = &it.metadata {
            sdist(it, metadata, findings);
        }
    }
}

/// The Python files of a wheel.
fn modules_of(wheel: &WheelFile) -> PythonModules<'_> {
    let sources = wheel.contents().map(|(member, it)| (&*member.path, it.kept.as_deref()));
    sources.filter(|(path, _)| has_extension(path, "py")).collect()
}

/// The version in `_dist_info.py` is that of the package. The last line that assigns one counts: TheRock's
/// builder appends it.
fn versions(file: &str, modules: &PythonModules<'_>, metadata: &Metadata, findings: &mut Findings) {
    let version = metadata.version.to_string();
    for (path, source) in modules.iter().filter(|(path, _)| path.ends_with("/_dist_info.py")) {
        let Some(source) = source else { continue };
        let text = String::from_utf8_lossy(source);
        let fact = match text.lines().filter_map(assigned_version).next_back() {
            Some(said) if said == version => continue,
            Some(said) => format!("its version is {said}, but the metadata says {version}"),
            None => "it has no line `__version__ = …`".to_owned(),
        };
        findings.at(rule::METADATA_DISAGREES, PackagePath::new(file, *path), fact);
    }
}

/// The scripts in `entry_points.txt`: the section, the name, and the function that it calls.
fn scripts_of(text: &str) -> Vec<(&str, &str, &str)> {
    let (mut scripts, mut section) = (Vec::new(), "");
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').trim();
        } else if matches!(section, "console_scripts" | "gui_scripts")
            && let Some((name, call)) = line.split_once('=')
        {
            scripts.push((section, name.trim(), call.trim()));
        }
    }
    scripts
}

/// The names of all scripts in `entry_points.txt`.
pub(super) fn script_names(text: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(text);
    let names = scripts_of(&text).into_iter().map(|(_, name, _)| name.to_owned());
    names.collect()
}

/// The names of the console scripts in `entry_points.txt`.
fn console_scripts(text: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(text);
    let scripts = scripts_of(&text).into_iter();
    let consoles = scripts.filter(|it| it.0 == "console_scripts");
    consoles.map(|(_, name, _)| name.to_owned()).collect()
}

/// The missing functions that scripts in `entry_points.txt` call, each with the first script that calls
/// it.
fn broken_calls(text: &[u8], modules: &PythonModules<'_>, top: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut callers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (_, name, call) in scripts_of(&text) {
        if let Some(why) = unresolved(modules, top, call) {
            callers.entry(why).or_default().push(name);
        }
    }
    let fact = |(why, names): (String, Vec<&str>)| match names.as_slice() {
        [first, rest @ ..] if !rest.is_empty() => {
            format!("{why}, which `{first}` and {} more call", rest.len())
        }
        names => format!("{why}, which `{}` calls", names.concat()),
    };
    callers.into_iter().map(fact).collect()
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
    findings.at(rule::FOREIGN_FILE, PackagePath::new(wheel, member), fact);
}

/// Programs are executable.
fn not_executable(wheel: &WheelFile, member: &MemberFacts, findings: &mut Findings) {
    let content = member.content.as_ref().ok();
    let Some(elf) = content.and_then(ContentFacts::elf) else {
        return;
    };
    let is_called = elf.launches.is_some() || member.path.contains("/bin/");
    let is_program = elf.facts.kind == ElfKind::Executable && is_called;
    if is_program && member.kind == MemberKind::File && member.mode & 0o111 == 0 {
        let fact = format!("a program, and its mode is {:o}", member.mode & 0o7777);
        findings.at(rule::NOT_EXECUTABLE, PackagePath::new(wheel, member), fact);
    }
}

/// The package has the files that its `_dist_info.json` names, and its commands are executable. Each
/// `_dist_info.json` has the required files of all packages.
fn required_files(wheel: &WheelFile, platform: Platform, findings: &mut Findings) {
    const OWN: &str = "THIS_PACKAGE_ENTRY = ALL_PACKAGES['";
    // Skip packages that could not be read to the end: their files only seem to be missing.
    let is_tree_whole = wheel.devel.as_ref().is_none_or(|it| it.fault.is_none());
    if !is_tree_whole || wheel.members.iter().any(|it| it.content.is_err()) {
        return;
    }
    let is_judged = wheel.is_built_by_us() || !wheel.is_made_by_others();
    // Device wheels have no Python.
    if !is_judged || wheel.device_target().is_some() {
        return;
    }
    let file = &wheel.package.file;
    let Some(texts) = wheel.dist_info_texts() else {
        let fact = "its `_dist_info.py` is missing, or is not UTF-8";
        return findings.of(rule::UNKEPT_PROMISE, file, fact);
    };
    let Some((_, package)) = texts.module.rsplit_once(OWN) else {
        let fact = "its `_dist_info.py` does not say which package it is of";
        return findings.of(rule::UNKEPT_PROMISE, file, fact);
    };
    let package = package.split('\'').next().unwrap_or_default();
    let members = wheel.members.iter();
    let members = members.map(|it| (it.path.as_str(), it.mode & 0o111 != 0));
    // Programs in the tree are mostly symlinks to other packages, which have no mode.
    let devel = wheel.unpacked().map(|it| (it.entry.path.as_str(), true));
    // The files of ROCm, relative to their top directory.
    let rocm = members.chain(devel).filter(|it| it.0.starts_with('_'));
    let rocm = rocm.filter_map(|(path, runs)| Some((path.split_once('/')?.1, runs)));
    let files: Vec<(&str, bool)> = rocm.collect();
    let names = missing_short_names(package, &files);
    let scripts = wheel.dist_info("entry_points.txt").map(|it| it.1);
    let scripts = console_scripts(scripts.unwrap_or_default());
    for fact in modules_without_init(wheel).into_iter().chain(names) {
        findings.of(rule::UNKEPT_PROMISE, file, fact);
    }
    let Some(json) = texts.tables else {
        let fact = format!("its `{}` is missing, or is not UTF-8", dist_info::TABLES);
        return findings.of(rule::UNKEPT_PROMISE, file, fact);
    };
    let tables = match Tables::parse(json) {
        Ok(tables) => tables,
        Err(error) => {
            let fact = format!("failed to read its `{}`: {error:#}", dist_info::TABLES);
            return findings.of(rule::UNKEPT_PROMISE, file, fact);
        }
    };
    let required_files = tables.required_files(platform);
    for required in required_files.iter().filter(|it| it.package == package) {
        let there = files.iter();
        let there = there.filter(|(path, _)| required.pattern.matches(path));
        let mut there = there.peekable();
        if there.peek().is_none() {
            let artifact = artifact(required, platform);
            let artifact = artifact.map_or(String::new(), |it| format!("; artifact `{it}` has it"));
            let fact = format!("its Python needs {required}, which is missing{artifact}");
            findings.of(rule::UNKEPT_PROMISE, file, fact);
        }
        let is_program = matches!(required.kind, RequiredFileKind::Command(_));
        if is_program && there.peek().is_some() && !scripts.contains(required.name()) {
            let fact = format!("`entry_points.txt` lacks its command `{}`", required.name());
            findings.of(rule::UNKEPT_PROMISE, file, fact);
        }
        let must_run = is_program && platform == Platform::Linux;
        if let Some((path, _)) = there.find(|(_, runs)| must_run && !runs) {
            let name = required.name();
            let fact = format!("the command `{name}` runs `{path}`, which has no execute bits");
            findings.of(rule::NOT_EXECUTABLE, file, fact);
        }
    }
}

/// Its two directories have an `__init__.py`. Python imports one without it too, but as a namespace
/// package, which has no file by which the others find it.
fn modules_without_init(wheel: &WheelFile) -> Vec<String> {
    let paths = wheel.members.iter().map(|it| it.path.as_str());
    let paths: BTreeSet<&str> = paths.collect();
    let modules = paths.iter();
    let mut modules = modules.filter_map(|path| path.strip_suffix("/_dist_info.py"));
    let module = modules.next().unwrap_or_default();
    let tops = paths.iter();
    let tops = tops.filter_map(|path| Some(path.split_once('/')?.0));
    // The files are in `_rocm_sdk_core`, with a suffix if the set has one.
    let is_own = |top: &&str| {
        let files = top.strip_prefix('_').unwrap_or_default();
        *top == module || files.starts_with(module)
    };
    let inits = tops.filter(is_own).dedup();
    let inits = inits.map(|top| format!("{top}/__init__.py"));
    let missing = inits.filter(|init| !paths.contains(init.as_str()));
    missing.map(|init| format!("its Python needs `{init}`, which is missing")).collect()
}

/// Some tools load a library by its name without a version (`also-without-version`).
fn missing_short_names(package: &str, files: &[(&str, bool)]) -> Vec<String> {
    let Some(spec) = CATALOG.get(package) else {
        return Vec::new();
    };
    let is_it = |path: &str| {
        let mut patterns = spec.also_without_version.iter();
        patterns.any(|pattern| pattern.matches(path))
    };
    let names = files.iter().filter(|(path, _)| is_it(path));
    let shorter = names.filter_map(|(path, _)| Some((path, path.rsplit_once('.')?.0)));
    let missing = shorter.filter(|(_, name)| files.iter().all(|(path, _)| path != name));
    missing
        .map(|(path, name)| format!("tools load `{path}` as `{name}`, which is missing"))
        .collect()
}

/// The artifact that should contain the file, according to the policy.
fn artifact(required: &RequiredFile, platform: Platform) -> Option<String> {
    let known = CATALOG.get(&required.package)?.required_files(platform).into_iter();
    let mut known = known.filter(|it| it.kind == required.kind && it.name() == required.name());
    Some(known.next()?.artifact?.to_string())
}

/// The Python in an sdist ([PEP 625](https://peps.python.org/pep-0625/)): all files exist, and so do the
/// build backend and what scripts call.
fn sdist(sdist: &SdistFile, metadata: &Metadata, findings: &mut Findings) {
    let file = &sdist.package.file;
    let sources = sdist.contents.files.iter();
    let modules = sources.map(|(path, it)| (&**path, it.kept.as_deref()));
    let modules: PythonModules<'_> = modules.filter(|it| has_extension(it.0, "py")).collect();
    // Without a listed file, other findings would follow from that.
    if listed(sdist, findings) {
        scripts(sdist, &modules, findings);
        if sdist.is_built_by_us() {
            own_scripts(sdist, findings);
        }
        if let Some(why) = backend(sdist, &modules) {
            findings.at(rule::BROKEN_SDIST, PackagePath::new(file, "pyproject.toml"), why);
        }
    }
    versions(file, &modules, metadata, findings);
}

/// The files of an sdist with this name in an `*.egg-info` directory.
fn egg_info<'a>(
    sdist: &'a SdistFile,
    name: &'static str,
) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    let end = format!(".egg-info/{name}");
    let files = sdist.contents.files.iter();
    let files = files.filter(move |(path, _)| path.ends_with(&end));
    files.map(|(path, file)| (path.as_str(), file.kept.as_deref().unwrap_or_default()))
}

/// The files in SOURCES.txt exist.
fn listed(sdist: &SdistFile, findings: &mut Findings) -> bool {
    let mut is_whole = true;
    for (list, text) in egg_info(sdist, "SOURCES.txt") {
        let text = String::from_utf8_lossy(text);
        let paths = text.lines().filter(|path| !path.trim().is_empty());
        for path in paths.filter(|path| !sdist.contents.files.contains_key(*path)) {
            is_whole = false;
            let fact = format!("listed in `{list}`, and not in the sdist");
            findings.at(rule::BROKEN_SDIST, PackagePath::new(sdist, path), fact);
        }
    }
    is_whole
}

/// The functions that the console scripts call exist.
fn scripts(sdist: &SdistFile, modules: &PythonModules<'_>, findings: &mut Findings) {
    for (list, text) in egg_info(sdist, "entry_points.txt") {
        // If the list is in `src/rocm.egg-info`, the packages are in `src`.
        let top = list.rsplitn(3, '/').nth(2);
        let top = top.map_or(String::new(), |top| format!("{top}/"));
        let facts = broken_calls(text, modules, &top);
        findings.at_each(rule::BROKEN_SDIST, PackagePath::new(sdist, list), facts);
    }
}

/// The sdist that rocwheel builds has the console scripts of `packages.toml`.
fn own_scripts(sdist: &SdistFile, findings: &mut Findings) {
    let lists = egg_info(sdist, "entry_points.txt");
    let there: BTreeSet<String> = lists.flat_map(|it| console_scripts(it.1)).collect();
    let metas = CATALOG.packages().iter();
    let metas = metas.filter(|it| it.kind == PackageKind::Selector);
    let names = metas.flat_map(|it| &it.scripts).map(|it| it.name.as_str());
    for name in names.filter(|name| !there.contains(*name)) {
        let fact = format!("no `*.egg-info/entry_points.txt` has its command `{name}`");
        findings.of(rule::BROKEN_SDIST, &sdist.package.file, fact);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PyprojectFile {
    build_system: Option<BuildSystem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BuildSystem {
    #[serde(default)]
    requires: Vec<String>,
    build_backend: Option<String>,
    #[serde(default)]
    backend_path: Vec<String>,
}

/// Why pip cannot build a wheel from it. `None` if it can.
fn backend(sdist: &SdistFile, modules: &PythonModules<'_>) -> Option<String> {
    let is_ours = sdist.is_built_by_us();
    let Some(file) = sdist.contents.files.get("pyproject.toml") else {
        let is_old = sdist.contents.files.contains_key("setup.py");
        return if is_old {
            is_ours.then(|| "it is missing, so installers need setuptools".to_owned())
        } else {
            Some("neither it nor `setup.py` is there".to_owned())
        };
    };
    let text = String::from_utf8_lossy(file.kept.as_deref().unwrap_or_default());
    let project: PyprojectFile = match toml::from_str(&text) {
        Ok(project) => project,
        Err(error) => return Some(error.message().to_owned()),
    };
    let Some(system) = project.build_system else {
        return Some("no `[build-system]`: installers look for setuptools in the index".to_owned());
    };
    let backend = system.build_backend.as_deref();
    let backend = backend.unwrap_or("setuptools.build_meta");
    if system.backend_path.is_empty() {
        if is_ours {
            return Some(format!("its build backend is `{backend}`, which is not in the sdist"));
        }
        let is_lacking = system.requires.is_empty();
        return is_lacking.then(|| {
            format!("`{backend}` is the build backend, but none of its requirements has it")
        });
    }
    let call = format!("{backend}:build_wheel");
    let whys = system.backend_path.iter().map(|place| {
        let top = match place.trim_end_matches('/') {
            "." => String::new(),
            place => format!("{place}/"),
        };
        unresolved(modules, &top, &call)
    });
    // It is enough that one of the directories has it.
    let whys: Option<Vec<String>> = whys.collect();
    whys.and_then(|whys| whys.into_iter().next())
}
