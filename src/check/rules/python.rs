//! Rules about the Python in wheels and sdists: the functions of its entry points exist, no file is
//! installed outside of our directories, and each file exists that the Python finds by its name in
//! `_dist_info.json`.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde::Deserialize;

use super::Observed;
use crate::{
    check::{
        facts::{ContentFacts, MemberFacts, MemberKind, SdistFile, WheelFile},
        observe,
        path_facts::has_extension,
        python::{PythonModules, unresolved},
        rule::{self, Findings, PackagePath},
    },
    policy::{
        catalog::{CATALOG, PackageKind},
        dist_info::{self, Tables, assigned_version},
        required_file::{RequiredFile, RequiredFileKind},
    },
    run::Platform,
};
use rocwheel_elf::ElfKind;
use rocwheel_wheel::{Metadata, tar::TarKind};

/// The prefixes of the top-level directories of our packages.
const OURS: [&str; 2] = ["rocm", "_rocm"];
/// Modules that every Python runs when it starts.
const AT_START: [&str; 2] = ["sitecustomize.py", "usercustomize.py"];

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    // The required files differ by platform.
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
            foreign_file(wheel, member, findings);
        }
        program_modes(wheel, findings);
        let file = &wheel.package.file;
        let modules = modules_of(wheel);
        if let Some((path, entry_points)) = wheel.dist_info("entry_points.txt") {
            let facts = broken_calls(entry_points, &modules, "");
            // TheRock's core package has dead scripts, and is published with them.
            let rule =
                if wheel.names_other_builder() { rule::DEAD_SCRIPT } else { rule::UNKEPT_PROMISE };
            findings.at_each(rule, PackagePath::new(file, path), facts);
        }
        if let Some(metadata) = wheel.metadata() {
            versions(file, &modules, &metadata, findings);
        }
    }
    for sdist in &seen.set.sdists {
        if let Ok(metadata) = &sdist.metadata {
            self::sdist(sdist, metadata, findings);
        }
    }
}

/// The Python files of a wheel.
fn modules_of(wheel: &WheelFile) -> PythonModules<'_> {
    let sources = wheel.contents().map(|(member, it)| (&*member.path, it.kept.as_deref()));
    sources.filter(|(path, _)| has_extension(path, "py")).collect()
}

/// `_dist_info.py` has the version of the package. The last line that assigns a version counts: TheRock's
/// builder appends such a line.
fn versions(file: &str, modules: &PythonModules<'_>, metadata: &Metadata, findings: &mut Findings) {
    let version = metadata.version.to_string();
    for (path, source) in modules.iter().filter(|(path, _)| path.ends_with("/_dist_info.py")) {
        let Some(source) = source else { continue };
        let source = String::from_utf8_lossy(source);
        let fact = match source.lines().filter_map(assigned_version).next_back() {
            Some(assigned) if assigned == version => continue,
            Some(assigned) => {
                format!("its version is {assigned}, but the metadata says {version}")
            }
            None => "it has no line `__version__ = …`".to_owned(),
        };
        findings.at(rule::METADATA_DISAGREES, PackagePath::new(file, *path), fact);
    }
}

/// A line of `entry_points.txt` for which installers write a script.
struct EntryPoint<'a> {
    /// `console_scripts` or `gui_scripts`
    section: &'a str,
    /// `rocm-sdk`
    name: &'a str,
    /// `rocm_sdk.__main__:main`
    call: &'a str,
}

/// The scripts in `entry_points.txt`.
fn parse_entry_points(entry_points: &str) -> Vec<EntryPoint<'_>> {
    let mut scripts = Vec::new();
    let mut section = "";
    for line in entry_points.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').trim();
        } else if matches!(section, "console_scripts" | "gui_scripts")
            && let Some((name, call)) = line.split_once('=')
        {
            scripts.push(EntryPoint { section, name: name.trim(), call: call.trim() });
        }
    }
    scripts
}

/// The names of all scripts in `entry_points.txt`.
pub(super) fn script_names(entry_points: &[u8]) -> BTreeSet<String> {
    let entry_points = String::from_utf8_lossy(entry_points);
    parse_entry_points(&entry_points).into_iter().map(|it| it.name.to_owned()).collect()
}

/// The names of the console scripts in `entry_points.txt`.
fn console_scripts(entry_points: &[u8]) -> BTreeSet<String> {
    let entry_points = String::from_utf8_lossy(entry_points);
    parse_entry_points(&entry_points)
        .into_iter()
        .filter(|it| it.section == "console_scripts")
        .map(|it| it.name.to_owned())
        .collect()
}

/// The missing functions that scripts in `entry_points.txt` call, each with the first script that calls
/// it. The modules are below the directory `top`, which ends with a slash unless it is empty.
fn broken_calls(entry_points: &[u8], modules: &PythonModules<'_>, top: &str) -> Vec<String> {
    let entry_points = String::from_utf8_lossy(entry_points);
    let mut callers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for script in parse_entry_points(&entry_points) {
        if let Some(why) = unresolved(modules, top, script.call) {
            callers.entry(why).or_default().push(script.name);
        }
    }
    let fact = |(why, names): (String, Vec<&str>)| match names.as_slice() {
        [first, further @ ..] if !further.is_empty() => {
            format!("{why}, which `{first}` and {} more call", further.len())
        }
        names => format!("{why}, which `{}` calls", names.concat()),
    };
    callers.into_iter().map(fact).collect()
}

/// No file is installed outside of our directories.
fn foreign_file(wheel: &WheelFile, member: &MemberFacts, findings: &mut Findings) {
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

/// Every program of a wheel, and of its development files, has an execute bit.
fn program_modes(wheel: &WheelFile, findings: &mut Findings) {
    // Windows has no execute bits.
    if wheel.package.platform().is_some_and(|platform| platform.starts_with("win")) {
        return;
    }
    for member in wheel.members.iter().filter(|it| it.kind == MemberKind::File) {
        let content = member.content.as_ref().ok();
        let program = content.and_then(|content| program_kind(&member.path, content));
        if let Some(kind) = program.filter(|_| member.mode & 0o111 == 0) {
            let fact = format!("a {kind}, and its mode is {:o}", member.mode & 0o7777);
            findings.at(rule::NOT_EXECUTABLE, PackagePath::new(wheel, member), fact);
        }
    }
    for devel in wheel.unpacked() {
        let path = devel.entry.path.as_str();
        let program = devel.content.as_ref().and_then(|content| program_kind(path, content));
        let has_no_bits = matches!(devel.entry.kind, TarKind::File { executable: false, .. });
        if let Some(kind) = program.filter(|_| has_no_bits) {
            let fact = format!("a {kind} without execute bits");
            findings.at(rule::NOT_EXECUTABLE, PackagePath::new(wheel, path), fact);
        }
    }
}

/// What a user starts: `program` or `script`. `None` for other files, such as a module with `#!` in its first
/// line, which is a habit of many authors.
fn program_kind(path: &str, content: &ContentFacts) -> Option<&'static str> {
    let is_in = |directory: &str| path.contains(&format!("/{directory}/"));
    if let Some(elf) = content.elf() {
        let is_called = elf.launches.is_some() || is_in("bin");
        return (is_called && elf.facts.kind == ElfKind::Executable).then_some("program");
    }
    let (directory, name) = path.rsplit_once('/')?;
    let is_module = has_extension(name, "py") || has_extension(name, "pm");
    // Below `libexec` are modules and files that a shell reads, too. They have an extension, and programs have none.
    let is_called =
        (directory.ends_with("/bin") && !is_module) || (is_in("libexec") && !name.contains('.'));
    (is_called && content.is_script).then_some("script")
}

/// The package has the files that its `_dist_info.json` names, and its commands are executable. Each
/// `_dist_info.json` has the required files of all packages.
fn required_files(wheel: &WheelFile, platform: Platform, findings: &mut Findings) {
    const OWN_ENTRY: &str = "THIS_PACKAGE_ENTRY = ALL_PACKAGES['";
    // Skip a package that could not be read to its end: its files only seem to be missing.
    let is_tree_whole = match &wheel.devel {
        Some(tree) => tree.fault.is_none(),
        None => !wheel.unread_members().any(|member| observe::is_devel(&member.path)),
    };
    if !is_tree_whole || wheel.members.iter().any(|it| it.content.is_err()) {
        return;
    }
    // TheRock's builder writes no table of required files.
    // Device wheels have no Python.
    if !wheel.may_be_ours() || wheel.device_target().is_some() {
        return;
    }
    let file = &wheel.package.file;
    let Some(texts) = wheel.dist_info_texts() else {
        let fact = "its `_dist_info.py` is missing, or is not UTF-8";
        return findings.of(rule::UNKEPT_PROMISE, file, fact);
    };
    let Some((_, after)) = texts.module.rsplit_once(OWN_ENTRY) else {
        let fact = "its `_dist_info.py` does not say which package it is of";
        return findings.of(rule::UNKEPT_PROMISE, file, fact);
    };
    let package = after.split('\'').next().unwrap_or_default();
    let files = rocm_files(wheel);
    let entry_points = wheel.dist_info("entry_points.txt").map(|(_, bytes)| bytes);
    let scripts = console_scripts(entry_points.unwrap_or_default());
    let short_names = missing_short_names(package, &files);
    for fact in modules_without_init(wheel).into_iter().chain(short_names) {
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
        let matching: Vec<&RocmFile<'_>> =
            files.iter().filter(|file| required.pattern.matches(file.path)).collect();
        if matching.is_empty() {
            let hint = artifact_of(required, platform)
                .map_or(String::new(), |artifact| format!("; artifact `{artifact}` has it"));
            let fact = format!("its Python needs {required}, which is missing{hint}");
            findings.of(rule::UNKEPT_PROMISE, file, fact);
        }
        let is_program = matches!(required.kind, RequiredFileKind::Command(_));
        if is_program && !matching.is_empty() && !scripts.contains(required.name()) {
            let fact = format!("`entry_points.txt` lacks its command `{}`", required.name());
            findings.of(rule::UNKEPT_PROMISE, file, fact);
        }
        // Windows has no execute bits.
        let must_have_bits = is_program && platform == Platform::Linux;
        // `program_modes` reports programs and scripts.
        let lacks_bits = |file: &&&RocmFile<'_>| !file.is_executable && !file.is_program;
        if must_have_bits && let Some(program) = matching.iter().find(lacks_bits) {
            let name = required.name();
            let path = program.path;
            let fact = format!("the command `{name}` runs `{path}`, which has no execute bits");
            findings.of(rule::NOT_EXECUTABLE, file, fact);
        }
    }
}

/// A file of ROCm in a wheel, packed or unpacked later as a development file.
struct RocmFile<'a> {
    /// The path below the top directory: `lib/libamdhip64.so.7`.
    path: &'a str,
    is_executable: bool,
    /// Whether it is a program or a script by its content and place.
    is_program: bool,
}

/// The files in the directories of a wheel whose names begin with `_`, such as `_rocm_sdk_core`.
fn rocm_files(wheel: &WheelFile) -> Vec<RocmFile<'_>> {
    let members = wheel.members.iter().filter_map(|member| {
        let path = path_below_top(&member.path)?;
        let content = member.content.as_ref().ok();
        let is_program = content.is_some_and(|it| program_kind(&member.path, it).is_some());
        Some(RocmFile { path, is_executable: member.mode & 0o111 != 0, is_program })
    });
    // Most programs in the development tree are symlinks to other packages. A symlink has no mode.
    let devel = wheel.unpacked().filter_map(|devel| {
        let path = path_below_top(devel.entry.path.as_str())?;
        Some(RocmFile { path, is_executable: true, is_program: false })
    });
    members.chain(devel).collect()
}

/// The path below a top directory whose name begins with `_`.
fn path_below_top(path: &str) -> Option<&str> {
    path.strip_prefix('_')?.split_once('/').map(|(_, below)| below)
}

/// The missing `__init__.py` files of the two directories of a wheel. Python imports a directory without
/// this file too, but as a namespace package, which has no `__file__` by which other packages find it.
fn modules_without_init(wheel: &WheelFile) -> Vec<String> {
    let paths: BTreeSet<&str> = wheel.members.iter().map(|it| it.path.as_str()).collect();
    let module =
        paths.iter().find_map(|path| path.strip_suffix("/_dist_info.py")).unwrap_or_default();
    // The files are in `_rocm_sdk_core`, with a suffix if the set has one.
    let is_own = |top: &&str| {
        let without_underscore = top.strip_prefix('_').unwrap_or_default();
        *top == module || without_underscore.starts_with(module)
    };
    paths
        .iter()
        .filter_map(|path| Some(path.split_once('/')?.0))
        .filter(is_own)
        .dedup()
        .map(|top| format!("{top}/__init__.py"))
        .filter(|init| !paths.contains(init.as_str()))
        .map(|init| format!("its Python needs `{init}`, which is missing"))
        .collect()
}

/// The missing names without a version, by which some tools load a library (`also-without-version`).
fn missing_short_names(package: &str, files: &[RocmFile<'_>]) -> Vec<String> {
    let Some(spec) = CATALOG.get(package) else {
        return Vec::new();
    };
    let needs_short_name =
        |path: &str| spec.also_without_version.iter().any(|pattern| pattern.matches(path));
    files
        .iter()
        .filter(|file| needs_short_name(file.path))
        .filter_map(|file| Some((file.path, file.path.rsplit_once('.')?.0)))
        .filter(|(_, short)| files.iter().all(|file| file.path != *short))
        .map(|(path, short)| format!("tools load `{path}` as `{short}`, which is missing"))
        .collect()
}

/// The artifact that should contain a required file, according to the policy.
fn artifact_of(required: &RequiredFile, platform: Platform) -> Option<String> {
    let policy = CATALOG.get(&required.package)?.required_files(platform);
    let same =
        policy.into_iter().find(|it| it.kind == required.kind && it.name() == required.name())?;
    Some(same.artifact?.to_string())
}

/// The Python in an sdist ([PEP 625](https://peps.python.org/pep-0625/)): all files exist, and so do the
/// build backend and the functions that scripts call.
fn sdist(sdist: &SdistFile, metadata: &Metadata, findings: &mut Findings) {
    let file = &sdist.package.file;
    let modules: PythonModules<'_> = sdist
        .contents
        .files
        .iter()
        .map(|(path, source)| (&**path, source.kept.as_deref()))
        .filter(|(path, _)| has_extension(path, "py"))
        .collect();
    // If a listed file is missing, the other findings would follow from it.
    if has_listed_files(sdist, findings) {
        called_functions(sdist, &modules, findings);
        if sdist.has_our_dist_info() {
            own_scripts(sdist, findings);
        }
        if let Some(why) = backend_fault(sdist, &modules) {
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
    sdist
        .contents
        .files
        .iter()
        .filter(move |(path, _)| path.ends_with(&end))
        .map(|(path, file)| (path.as_str(), file.kept.as_deref().unwrap_or_default()))
}

/// Reports the files in SOURCES.txt that do not exist. Returns whether all exist.
fn has_listed_files(sdist: &SdistFile, findings: &mut Findings) -> bool {
    let mut has_all = true;
    for (list, sources) in egg_info(sdist, "SOURCES.txt") {
        let sources = String::from_utf8_lossy(sources);
        let paths = sources.lines().filter(|path| !path.trim().is_empty());
        for path in paths.filter(|path| !sdist.contents.files.contains_key(*path)) {
            has_all = false;
            let fact = format!("listed in `{list}`, and not in the sdist");
            findings.at(rule::BROKEN_SDIST, PackagePath::new(sdist, path), fact);
        }
    }
    has_all
}

/// The functions that the scripts of an sdist call exist.
fn called_functions(sdist: &SdistFile, modules: &PythonModules<'_>, findings: &mut Findings) {
    for (path, entry_points) in egg_info(sdist, "entry_points.txt") {
        // If the file is in `src/rocm.egg-info`, the packages are in `src`.
        let parent = path.rsplitn(3, '/').nth(2);
        let top = parent.map_or(String::new(), |parent| format!("{parent}/"));
        let facts = broken_calls(entry_points, modules, &top);
        findings.at_each(rule::BROKEN_SDIST, PackagePath::new(sdist, path), facts);
    }
}

/// The sdist that rocwheel builds has the console scripts of `packages.toml`.
fn own_scripts(sdist: &SdistFile, findings: &mut Findings) {
    let scripts: BTreeSet<String> = egg_info(sdist, "entry_points.txt")
        .flat_map(|(_, entry_points)| console_scripts(entry_points))
        .collect();
    let selectors = CATALOG.packages().iter().filter(|it| it.kind == PackageKind::Selector);
    let wanted = selectors.flat_map(|it| &it.scripts).map(|it| it.name.as_str());
    for name in wanted.filter(|name| !scripts.contains(*name)) {
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

/// Why pip cannot build a wheel from an sdist. `None` if it can.
fn backend_fault(sdist: &SdistFile, modules: &PythonModules<'_>) -> Option<String> {
    let is_ours = sdist.has_our_dist_info();
    let Some(file) = sdist.contents.files.get("pyproject.toml") else {
        let is_old = sdist.contents.files.contains_key("setup.py");
        return if is_old {
            is_ours.then(|| "it is missing, so installers need setuptools".to_owned())
        } else {
            Some("neither it nor `setup.py` is there".to_owned())
        };
    };
    let pyproject_text = String::from_utf8_lossy(file.kept.as_deref().unwrap_or_default());
    let pyproject: PyprojectFile = match toml::from_str(&pyproject_text) {
        Ok(pyproject) => pyproject,
        Err(error) => return Some(error.message().to_owned()),
    };
    let Some(system) = pyproject.build_system else {
        return Some("no `[build-system]`: installers look for setuptools in the index".to_owned());
    };
    // pip takes this backend if `[build-system]` names none.
    let backend = system.build_backend.as_deref().unwrap_or("setuptools.build_meta");
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
    let faults = system.backend_path.iter().map(|directory| {
        let top = match directory.trim_end_matches('/') {
            "." => String::new(),
            directory => format!("{directory}/"),
        };
        unresolved(modules, &top, &call)
    });
    // One directory with the backend is enough: its `None` makes the whole collection `None`.
    faults.collect::<Option<Vec<String>>>()?.into_iter().next()
}
