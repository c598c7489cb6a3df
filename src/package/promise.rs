//! What the Python of a package finds by name: libraries, console scripts and other files.
//!
//! `packages.toml` lists them, `_dist_info.py` carries them into every package, and a set is
//! complete only if the files are there: `build` compares them with its plan, `check` reads them
//! back from a finished wheel with [`read`], and `rocm-sdk test` opens them.

use std::fmt;

use serde::Deserialize;

use crate::{
    artifact::{ArtifactName, Component, InvalidArtifactName},
    error::{Context as _, Result, bail},
    glob::Glob,
    package::python_literal::Call,
    relpath::RelPath,
    run::Platform,
};

/// A console script: `hipcc`, which becomes the program `bin/hipcc`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ScriptSpec {
    pub name: String,
    /// The program, without the `.exe` that it has on Windows.
    pub runs: Option<RelPath>,
    pub artifact: Option<ArtifactPart>,
    /// By default `_cli` of the package's Python part.
    module: Option<String>,
    /// By default the name of the script, as a Python identifier.
    function: Option<String>,
    /// By default both.
    pub platform: Option<Platform>,
    /// The script is there only when the program is.
    #[serde(default)]
    pub if_present: bool,
    /// The program needs no development files, which are otherwise unpacked before it runs.
    #[serde(default)]
    pub only_asks: bool,
}

/// A library that `rocm_sdk.find_libraries` finds by a short name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LibrarySpec {
    pub name: String,
    /// Its file name; without one, the platform does not have the library.
    #[serde(default)]
    pub linux: String,
    #[serde(default)]
    pub windows: String,
    /// Where it is on Linux.
    #[serde(default = "lib")]
    pub directory: String,
    pub artifact: Option<ArtifactPart>,
    /// A set may go without it.
    #[serde(default)]
    pub optional: bool,
}

/// Another file that the Python of a package opens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileSpec {
    pub path: String,
    pub artifact: Option<ArtifactPart>,
    pub platform: Option<Platform>,
}

/// A component of an artifact, for any target: `core-hip_lib`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ArtifactPart {
    pub name: String,
    pub component: Component,
}

/// Something that the Python of a package finds by name, on one platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// `core`, `libraries`, …
    pub package: String,
    pub kind: PromiseKind,
    /// The file, below the directory of the package's files; any that matches will do.
    pub pattern: Glob,
    /// Where the file comes from; packages do not say.
    pub artifact: Option<ArtifactPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromiseKind {
    Library(String),
    Command(String),
    File,
}

impl Promise {
    /// What `--without` calls it.
    pub fn name(&self) -> &str {
        match &self.kind {
            PromiseKind::Library(name) | PromiseKind::Command(name) => name,
            PromiseKind::File => self.pattern.as_str(),
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = self.pattern.as_str();
        match &self.kind {
            PromiseKind::Library(name) => write!(f, "`{pattern}` (library `{name}`)"),
            PromiseKind::Command(name) => write!(f, "`{pattern}` (command `{name}`)"),
            PromiseKind::File => write!(f, "`{pattern}`"),
        }
    }
}

impl ScriptSpec {
    /// `rocm_sdk_core._cli:amdclangpp`
    pub fn call(&self, python: &str) -> String {
        let module = self.module.clone();
        let module = module.unwrap_or_else(|| format!("{python}._cli"));
        format!("{module}:{}", self.function())
    }

    pub fn function(&self) -> String {
        let identifier = || {
            let letter = |c: char| match c {
                '+' => 'p',
                c if c.is_ascii_alphanumeric() => c,
                _ => '_',
            };
            self.name.chars().map(letter).collect()
        };
        self.function.clone().unwrap_or_else(identifier)
    }

    /// The program as it is called on a platform.
    pub fn program(&self, platform: Platform) -> Option<String> {
        self.runs
            .as_ref()
            .map(|runs| program(runs.as_str(), platform))
    }

    pub fn is_on(&self, platform: Platform) -> bool {
        self.platform.is_none_or(|only| only == platform)
    }
}

impl LibrarySpec {
    /// Where the library lies among the package's files, if the platform has it.
    pub fn pattern(&self, platform: Platform) -> Option<Glob> {
        library(
            platform,
            &self.directory,
            [&self.linux, &self.windows].map(String::as_str),
        )
    }
}

/// What a `_dist_info.py` promises on a platform, of all packages of its set.
pub fn read(dist_info: &str, platform: Platform) -> Result<Vec<Promise>> {
    let mut promises = Vec::new();
    for line in dist_info.lines() {
        let Some(call) = Call::parse(line) else {
            continue;
        };
        let found = match call.function {
            "LibraryEntry" => read_library(&call, platform),
            "FileEntry" => read_file(&call, platform),
            _ => continue,
        };
        promises.extend(found.with_context(|| format!("failed to read `{line}`"))?);
    }
    Ok(promises)
}

fn read_library(call: &Call<'_>, platform: Platform) -> Result<Option<Promise>> {
    let [name, package, linux, windows] = &call.arguments[..] else {
        bail!("expected four arguments");
    };
    let directory = call.text("posix_relpath").unwrap_or("lib");
    let pattern = library(platform, directory, [linux, windows]);
    let required = pattern.filter(|_| !call.is_set("optional"));
    Ok(required.map(|pattern| Promise {
        package: package.clone(),
        kind: PromiseKind::Library(name.clone()),
        pattern,
        artifact: None,
    }))
}

fn read_file(call: &Call<'_>, platform: Platform) -> Result<Option<Promise>> {
    let [package, path] = &call.arguments[..] else {
        bail!("expected two arguments");
    };
    let only = call.text("sys_platform");
    let elsewhere = only.is_some_and(|only| only != platform.sys_platform());
    if elsewhere || call.is_set("optional") {
        return Ok(None);
    }
    let (kind, pattern) = match call.text("command") {
        Some(name) => (
            PromiseKind::Command(name.to_owned()),
            program(path, platform),
        ),
        None => (PromiseKind::File, path.clone()),
    };
    Ok(Some(Promise {
        package: package.clone(),
        kind,
        pattern: Glob::new(pattern),
        artifact: None,
    }))
}

fn library(platform: Platform, directory: &str, [linux, windows]: [&str; 2]) -> Option<Glob> {
    let (directory, name) = match platform {
        Platform::Linux => (directory, linux),
        Platform::Windows => ("bin", windows),
    };
    (!name.is_empty()).then(|| Glob::new(format!("{directory}/{name}")))
}

fn program(path: &str, platform: Platform) -> String {
    match platform {
        Platform::Linux => path.to_owned(),
        Platform::Windows => format!("{path}.exe"),
    }
}

fn lib() -> String {
    "lib".to_owned()
}

impl TryFrom<String> for ArtifactPart {
    type Error = InvalidArtifactName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let artifact: ArtifactName = format!("{text}_generic").parse()?;
        Ok(Self {
            name: artifact.name,
            component: artifact.component,
        })
    }
}

impl fmt::Display for ArtifactPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.name, self.component)
    }
}
