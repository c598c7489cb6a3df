//! Rules about sdists ([PEP 625](https://peps.python.org/pep-0625/)): all files exist, the Python
//! parses, and the build backend exists.

use serde::Deserialize;

use super::{
    Observed,
    python::{broken_calls, imports, modules, versions},
};
use crate::check::{
    facts::SdistFile,
    finding::Findings,
    python::{PythonModules, unresolved},
    rule,
};

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    for sdist in &seen.set.sdists {
        let Ok(metadata) = &sdist.metadata else {
            continue;
        };
        let file = &sdist.file;
        let sources = sdist.files.iter();
        let sources = sources.filter_map(|(path, it)| Some((&**path, it.kept.as_deref()?)));
        let modules = modules(file, sources, findings);
        let is_whole = listed(sdist, findings);
        // With a missing or damaged module, names are unknown. Other findings would follow from
        // that.
        let Some(modules) = modules else { continue };
        if is_whole {
            imports(file, &modules, findings);
            scripts(sdist, &modules, findings);
            if let Some(why) = backend(sdist, &modules) {
                findings.at(rule::BROKEN_SDIST, (file.as_str(), "pyproject.toml"), why);
            }
        }
        versions(file, &modules, metadata, findings);
    }
}

/// The files of an sdist with this name in an `*.egg-info` directory.
fn egg_info<'a>(
    sdist: &'a SdistFile,
    name: &'static str,
) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    let end = format!(".egg-info/{name}");
    let files = sdist.files.iter();
    let files = files.filter(move |(path, _)| path.ends_with(&end));
    files.map(|(path, file)| (path.as_str(), file.kept.as_deref().unwrap_or_default()))
}

/// The files in SOURCES.txt exist.
fn listed(sdist: &SdistFile, findings: &mut Findings) -> bool {
    let mut is_whole = true;
    for (list, text) in egg_info(sdist, "SOURCES.txt") {
        let text = String::from_utf8_lossy(text);
        let paths = text.lines().filter(|path| !path.trim().is_empty());
        for path in paths.filter(|path| !sdist.files.contains_key(*path)) {
            is_whole = false;
            let fact = format!("listed in `{list}`, and not in the sdist");
            findings.at(rule::BROKEN_SDIST, (&*sdist.file, path), fact);
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
        for fact in broken_calls(text, modules, &top) {
            findings.at(rule::BROKEN_IMPORT, (&*sdist.file, list), fact);
        }
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
    let Some(file) = sdist.files.get("pyproject.toml") else {
        let is_old = sdist.files.contains_key("setup.py");
        return (!is_old).then(|| "neither it nor `setup.py` is there".to_owned());
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
