//! `framework env`: the environment in which frameworks are built against a set.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;
use serde::Serialize;

use super::{World, chosen_targets};
use crate::{
    commands::summary,
    error::{Context as _, Hint as _, Result, anyhow},
    framework::{
        env::{BuildVariable, BuiltFramework, InstalledRocm, VariableForm, variables},
        version::suffix,
    },
    report::outputs,
    run::Platform,
    target::{Target, TargetList},
    version::Version,
};

/// The directory of the development files below `site-packages`.
const DEVEL: &str = "_rocm_sdk_devel";

/// Print the variables that the build of a framework needs
///
/// The packages are installed: `rocm[libraries,devel]`, and `rocm-sdk init` was run. Variables for parts
/// that they do not have are left out, with a note.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework env --site venv/lib/python3.12/site-packages --for torch --base-version 2.12.0
  rocwheel framework env --site venv/lib/python3.12/site-packages --for jax --style cmake")]
pub(super) struct EnvArgs {
    /// Directory in which the packages are installed: `site-packages`
    #[arg(long, value_name = "DIR")]
    site: PathBuf,
    /// What is built
    #[arg(long = "for", value_name = "FRAMEWORK", default_value = "cmake")]
    built: BuiltFramework,
    /// Version of the framework itself, for the variables that name it
    #[arg(long, value_name = "VERSION")]
    base_version: Option<Version>,
    /// Families or targets to build for, comma-separated (default: those with device code there)
    #[arg(long = "target", alias = "targets", value_name = "LIST")]
    targets: Option<TargetList>,
    /// How to write the variables; for one JSON document, pass `--format json`
    #[arg(long, value_name = "STYLE", default_value = "shell")]
    style: VariableForm,
    /// Append step outputs to this file
    #[arg(long, value_name = "FILE", env = "GITHUB_OUTPUT")]
    github_output: Option<PathBuf>,
    /// With `--style github`: append the directory of programs to this file
    #[arg(long, value_name = "FILE", env = "GITHUB_PATH")]
    github_path: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct EnvAnswer {
    schema: &'static str,
    rocm: String,
    root: String,
    targets: Vec<String>,
    /// What a wheel that is built with it should require, and the suffix of its version.
    requirement: String,
    version_suffix: String,
    device_extras: Vec<String>,
    variables: Vec<BuildVariable>,
    #[serde(skip)]
    style: VariableForm,
}

pub(super) fn run(args: &EnvArgs, world: &World) -> Result<()> {
    let rocm = args.installed()?;
    let exists = |path: &str| Path::new(&rocm.root).join(path).exists();
    let found = variables(&rocm, args.built, exists)?;
    for (why, names) in &found.left_out {
        let names = names.join(", ");
        world
            .console
            .note(format!("left out: {names}, since {why}"));
    }
    args.paths(&found.variables, world)?;
    let answer = EnvAnswer::of(rocm, found.variables, args.style);
    if let Some(file) = &args.github_output {
        let outputs = outputs::render(&answer.outputs());
        summary::append(file, &outputs?).context("failed to write step outputs")?;
    }
    world.console.answer(&answer)
}

impl EnvArgs {
    fn installed(&self) -> Result<InstalledRocm> {
        // Not the real path: on Windows that begins with `\\\\?\\`, which takes no `/`.
        let site = std::path::absolute(&self.site)?;
        let root = site.join(DEVEL);
        let packages = packages(&site)?;
        let core = packages.iter().find(|(name, _)| name == "rocm_sdk_core");
        let version = core
            .map(|(_, version)| version.clone())
            .with_context(|| format!("no `rocm-sdk-core` is installed in `{}`", site.display()))
            .hint("pass the `site-packages` into which `rocm[libraries,devel]` was installed")?;
        if !root.is_dir() {
            return Err(anyhow!("no development files in `{}`", site.display()))
                .hint("install `rocm[libraries,devel]`, and run `rocm-sdk init`");
        }
        let there = packages
            .iter()
            .filter_map(|(name, _)| name.strip_prefix("rocm_sdk_device_")?.parse().ok());
        let there: Vec<Target> = there.sorted().collect();
        let targets = match &self.targets {
            None => there,
            Some(list) => chosen_targets(list, &there, "installed")?,
        };
        Ok(InstalledRocm {
            root: utf8(&root)?,
            version,
            targets,
            base: self.base_version.clone(),
            platform: platform(),
        })
    }

    /// Says which paths a style cannot put before what a variable has. GitHub has a file for PATH.
    fn paths(&self, variables: &[BuildVariable], world: &World) -> Result<()> {
        for BuildVariable { name, value, .. } in variables
            .iter()
            .filter(|it| it.render(self.style).is_none())
        {
            match &self.github_path {
                Some(file) if self.style == VariableForm::Github && name == "PATH" => {
                    summary::append(file, &format!("{value}\n"))?;
                }
                _ => {
                    let note = format!("this style cannot say that `{name}` begins with `{value}`");
                    world.console.note(note);
                }
            }
        }
        Ok(())
    }
}

fn platform() -> Platform {
    if cfg!(windows) {
        Platform::Windows
    } else {
        Platform::Linux
    }
}

fn utf8(path: &Path) -> Result<String> {
    let text = path.to_str();
    let text = text.context("a directory whose name is not UTF-8")?;
    Ok(text.to_owned())
}

/// The installed packages, by the names of their `.dist-info` directories.
fn packages(site: &Path) -> Result<Vec<(String, Version)>> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(site)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let stem = name
            .strip_suffix(".dist-info")
            .and_then(|it| it.split_once('-'));
        packages.extend(
            stem.and_then(|(name, version)| Some((name.to_owned(), version.parse().ok()?))),
        );
    }
    Ok(packages)
}

impl EnvAnswer {
    fn of(rocm: InstalledRocm, variables: Vec<BuildVariable>, style: VariableForm) -> Self {
        let device_extras = rocm.targets.iter().map(|it| format!("device-{it}"));
        Self {
            schema: "rocwheel-framework-env-v1",
            requirement: format!("rocm[libraries]=={}", rocm.version),
            version_suffix: format!("+{}", suffix(&rocm.version)),
            device_extras: device_extras.collect(),
            targets: rocm.targets.iter().map(ToString::to_string).collect(),
            rocm: rocm.version.to_string(),
            root: rocm.root,
            variables,
            style,
        }
    }

    fn outputs(&self) -> Vec<(&'static str, String)> {
        vec![
            ("rocm-version", self.rocm.clone()),
            ("requirement", self.requirement.clone()),
            ("version-suffix", self.version_suffix.clone()),
            ("targets", self.targets.join(",")),
            ("device-extras", self.device_extras.join(",")),
        ]
    }
}

impl fmt::Display for EnvAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for variable in &self.variables {
            if let Some(line) = variable.render(self.style) {
                writeln!(f, "{line}")?;
            }
        }
        Ok(())
    }
}
