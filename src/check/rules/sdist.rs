//! Whether an sdist can be installed: its files are there, its Python runs, and its backend exists.

use serde::Deserialize;

use super::python::{broken_calls, entry_points, versions};
use crate::check::{
    facts::{SdistFile, SetFacts},
    finding::Finding,
    mention::has_extension,
    python::{PythonModule, PythonModules, broken_imports, unresolved},
    rule,
};

pub(super) fn find(set: &SetFacts) -> Vec<Finding> {
    let readable = set.sdists.iter().filter(|it| it.metadata.is_ok());
    readable
        .flat_map(|sdist| one(sdist).into_iter().map(|it| it.in_file(&sdist.file)))
        .collect()
}

fn one(sdist: &SdistFile) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut modules = PythonModules::new();
    for (path, file) in &sdist.files {
        let Some(source) = file.text.as_deref().filter(|_| has_extension(path, "py")) else {
            continue;
        };
        match PythonModule::parse(source) {
            Ok(module) => {
                modules.insert(path, module);
            }
            Err(why) => found.push(Finding::new(rule::BROKEN_PYTHON, why).at(path)),
        }
    }
    found.extend(listed(sdist));
    // A module that does not parse is missing among the others.
    if found.is_empty() {
        let broken = broken_imports(&modules).into_iter();
        found.extend(broken.map(|(path, fact)| Finding::new(rule::BROKEN_IMPORT, fact).at(path)));
        found.extend(scripts(sdist, &modules));
        let why = backend(sdist, &modules);
        found.extend(why.map(|why| Finding::new(rule::BROKEN_SDIST, why).at("pyproject.toml")));
    }
    if let Ok(metadata) = &sdist.metadata {
        found.extend(versions(&modules, &metadata.version.to_string()));
    }
    found
}

/// What SOURCES.txt lists is there.
fn listed(sdist: &SdistFile) -> Vec<Finding> {
    let lists = sdist
        .files
        .iter()
        .filter(|(path, _)| path.ends_with(".egg-info/SOURCES.txt"));
    let mut found = Vec::new();
    for (list, file) in lists {
        let text = String::from_utf8_lossy(file.text.as_deref().unwrap_or_default());
        for path in text.lines().filter(|path| !path.trim().is_empty()) {
            if !sdist.files.contains_key(path) {
                let fact = format!("listed in `{list}`, and not in the sdist");
                found.push(Finding::new(rule::BROKEN_SDIST, fact).at(path));
            }
        }
    }
    found
}

/// The console scripts that the package will have call functions that are there.
fn scripts(sdist: &SdistFile, modules: &PythonModules<'_>) -> Vec<Finding> {
    let lists = sdist
        .files
        .iter()
        .filter(|(path, _)| path.ends_with(".egg-info/entry_points.txt"));
    let mut found = Vec::new();
    for (list, file) in lists {
        // `src/rocm.egg-info` says that packages lie in `src`.
        let top = list
            .rsplitn(3, '/')
            .nth(2)
            .map_or(String::new(), |top| format!("{top}/"));
        let scripts = entry_points(file.text.as_deref().unwrap_or_default());
        let facts = broken_calls(&scripts, modules, &top).into_iter();
        found.extend(facts.map(|fact| Finding::new(rule::BROKEN_IMPORT, fact).at(list)));
    }
    found
}

#[derive(Deserialize)]
struct Project {
    #[serde(rename = "build-system")]
    build: Option<BuildSystem>,
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

/// Why nothing builds a wheel of it.
fn backend(sdist: &SdistFile, modules: &PythonModules<'_>) -> Option<String> {
    let Some(file) = sdist.files.get("pyproject.toml") else {
        let is_old = sdist.files.contains_key("setup.py");
        return (!is_old).then(|| "neither it nor `setup.py` is there".to_owned());
    };
    let text = String::from_utf8_lossy(file.text.as_deref().unwrap_or_default());
    let project: Project = match toml::from_str(&text) {
        Ok(project) => project,
        Err(error) => return Some(error.message().to_owned()),
    };
    let Some(system) = project.build else {
        return Some("no `[build-system]`: installers look for setuptools in the index".to_owned());
    };
    let backend = system
        .build_backend
        .as_deref()
        .unwrap_or("setuptools.build_meta");
    if system.backend_path.is_empty() {
        let fact =
            || format!("`{backend}` is the build backend, but none of its requirements has it");
        return system.requires.is_empty().then(fact);
    }
    let call = format!("{backend}:build_wheel");
    let whys = system.backend_path.iter().map(|place| {
        let top = match place.trim_end_matches('/') {
            "." => String::new(),
            place => format!("{place}/"),
        };
        unresolved(modules, &top, &call)
    });
    // It has to be in one of them.
    let whys: Option<Vec<String>> = whys.collect();
    whys.and_then(|whys| whys.into_iter().next())
}
