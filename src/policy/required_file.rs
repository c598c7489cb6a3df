//! [`RequiredFile`]: a file that the Python code of a package finds by name. It is a library, the program
//! of a console script, or another file.
//!
//! `packages.toml` lists the required files, and `_dist_info.json` has them in every package. A set is
//! complete only if it has all these files: `build` compares the required files with its plan, `check`
//! reads them from a finished wheel (`dist_info::Tables`), and `rocm-sdk test` opens the files.

use derive_more::Display;
use serde::Deserialize;

use crate::{
    artifact::{ArtifactName, Component},
    run::Platform,
};
use rocwheel_base::{error::Invalid, glob::Glob, relpath::RelPath};

/// A console script: `hipcc`, which runs the program `bin/hipcc`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ScriptSpec {
    pub name: String,
    /// The path of the program, without the `.exe` of Windows.
    pub runs: Option<RelPath>,
    pub artifact: Option<ArtifactPart>,
    /// Module with the function; by default `_cli` in the Python module of the package.
    module: Option<String>,
    /// The function to call; by default the name of the script, as a Python identifier.
    function: Option<String>,
    /// The only platform with this script; by default both have it.
    pub platform: Option<Platform>,
    /// Install the script only if the package has the program.
    #[serde(default)]
    pub if_present: bool,
    /// The program does not need the development files. Otherwise they are unpacked before it runs.
    #[serde(default)]
    pub only_asks: bool,
}

/// A library that `rocm_sdk.find_libraries` finds by a short name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LibrarySpec {
    pub name: String,
    /// The file name on Linux; empty if Linux does not have the library.
    #[serde(default)]
    pub linux: String,
    #[serde(default)]
    pub windows: String,
    /// The directory of the library on Linux.
    #[serde(default = "lib")]
    pub directory: String,
    pub artifact: Option<ArtifactPart>,
    /// The library may be left out of a set.
    #[serde(default)]
    pub optional: bool,
}

/// Another file that the Python code of a package opens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileSpec {
    pub path: String,
    pub artifact: Option<ArtifactPart>,
    pub platform: Option<Platform>,
}

/// A component of an artifact, for any target: `core-hip_lib`.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[display("{name}_{component}")]
#[serde(try_from = "String")]
pub struct ArtifactPart {
    pub name: String,
    pub component: Component,
}

/// A file that the Python code of a package finds by name, on one platform.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
#[display("`{}`{kind}", pattern.as_str())]
pub struct RequiredFile {
    /// `core`, `libraries`, …
    pub package: String,
    pub kind: RequiredFileKind,
    /// A pattern for the file, relative to the directory of the package. One match is enough.
    pub pattern: Glob,
    /// The artifact that has the file; `None` if the file was read from a package, which does
    /// not say.
    pub artifact: Option<ArtifactPart>,
}

#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub enum RequiredFileKind {
    #[display(" (library `{_0}`)")]
    Library(String),
    #[display(" (command `{_0}`)")]
    Command(String),
    #[display("")]
    File,
}

impl RequiredFile {
    /// The name of the file for `--without`.
    pub fn name(&self) -> &str {
        match &self.kind {
            RequiredFileKind::Library(name) | RequiredFileKind::Command(name) => name,
            RequiredFileKind::File => self.pattern.as_str(),
        }
    }
}

impl ScriptSpec {
    /// The function in the form of entry points: `rocm_sdk_core._cli:amdclangpp`.
    pub fn call(&self, python: &str) -> String {
        let function = self.function();
        match &self.module {
            Some(module) => format!("{module}:{function}"),
            None => format!("{python}._cli:{function}"),
        }
    }

    pub fn function(&self) -> String {
        let letter = |c: char| match c {
            '+' => 'p',
            c if c.is_ascii_alphanumeric() => c,
            _ => '_',
        };
        let function = self.function.clone();
        function.unwrap_or_else(|| self.name.chars().map(letter).collect())
    }

    /// The path of the program on a platform, with the `.exe` of Windows.
    pub fn program(&self, platform: Platform) -> Option<String> {
        Some(program(self.runs.as_ref()?.as_str(), platform))
    }

    pub fn is_on(&self, platform: Platform) -> bool {
        self.platform.is_none_or(|only| only == platform)
    }
}

/// The path of a library on a platform, as a pattern; `None` if the platform does not have it.
pub(super) fn library(
    platform: Platform,
    directory: &str,
    [linux, windows]: [&str; 2],
) -> Option<Glob> {
    let (directory, name) = match platform {
        Platform::Linux => (directory, linux),
        Platform::Windows => ("bin", windows),
    };
    (!name.is_empty()).then(|| Glob::new(format!("{directory}/{name}")))
}

pub(super) fn program(path: &str, platform: Platform) -> String {
    match platform {
        Platform::Linux => path.to_owned(),
        Platform::Windows => format!("{path}.exe"),
    }
}

fn lib() -> String {
    "lib".to_owned()
}

impl TryFrom<String> for ArtifactPart {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let artifact: ArtifactName = format!("{text}_generic").parse()?;
        Ok(Self { name: artifact.name, component: artifact.component })
    }
}
