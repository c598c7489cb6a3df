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
    commands::{
        args::{AccessArgs, Jobs},
        summary,
    },
    error::{Context as _, Hint as _, Result, anyhow},
    framework::{
        SetPackages, SetUse,
        env::{BuildVariable, BuiltFramework, InstalledRocm, VariableForm, variables},
        unpack,
        version::suffix,
    },
    report::outputs,
    run::Platform,
    set::{self, PlaceDepth},
    target::{Target, TargetList},
    version::Version,
};

/// The directory of the development files below `site-packages`.
const DEVEL: &str = "_rocm_sdk_devel";

/// Print the variables that the build of a framework needs, and unpack what it is built against
///
/// With `--unpack`, packages of a set are put into a directory as an installer and `rocm-sdk init`
/// would: runtime, libraries, development files, and the device code of `--targets`. With `--site`,
/// they are installed already. Variables for parts that the packages do not have are left out, with a
/// note.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework env --set packages --unpack sdk --for torch --base-version 2.12.0
  rocwheel framework env --site venv/lib/python3.12/site-packages --for torchvision
  rocwheel framework env --set packages --unpack sdk --for jax --style bazel")]
pub(super) struct EnvArgs {
    /// ROCm packages to build against: a directory, `s3://bucket/directory`, or the URL of an index
    #[arg(
        long,
        value_name = "SET",
        env = "ROCWHEEL_FRAMEWORK_SET",
        required_unless_present = "site"
    )]
    set: Option<PathBuf>,
    /// Directory to unpack the set into, without Python. The same set is unpacked once; a directory
    /// that has something else is an error
    #[arg(
        long,
        value_name = "DIR",
        env = "ROCWHEEL_FRAMEWORK_UNPACK",
        requires = "set"
    )]
    unpack: Option<PathBuf>,
    /// Directory in which the packages are installed: `site-packages`
    #[arg(
        long,
        value_name = "DIR",
        env = "ROCWHEEL_FRAMEWORK_SITE",
        conflicts_with = "unpack"
    )]
    site: Option<PathBuf>,
    /// What is built
    #[arg(long = "for", value_name = "FRAMEWORK", default_value = "cmake")]
    built: BuiltFramework,
    /// Version of the framework itself, for the variables that name it
    #[arg(long, value_name = "VERSION")]
    base_version: Option<Version>,
    /// Families or targets to build for, comma-separated (default: those with device code there).
    /// Their device code is unpacked, too
    #[arg(long, value_name = "LIST")]
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
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct EnvAnswer {
    schema: &'static str,
    rocm: String,
    root: Option<String>,
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
    let rocm = args.rocm(world)?;
    let root = rocm.root.as_ref().map(PathBuf::from);
    // What is not installed cannot be looked at: every part is taken to be there.
    let exists = |path: &str| root.as_ref().is_none_or(|root| root.join(path).exists());
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
    fn rocm(&self, world: &World) -> Result<InstalledRocm> {
        match (&self.site, &self.set) {
            (Some(site), _) if self.unpack.is_none() => self.installed(site),
            (_, Some(set)) => self.of_set(set, world),
            (_, None) => Err(anyhow!("no `--set` and no `--site`")).hint("pass one of them"),
        }
    }

    /// The set itself, unpacked if that is wanted.
    fn of_set(&self, set: &Path, world: &World) -> Result<InstalledRocm> {
        let place = self.access.place(set, &world.stop)?;
        let found = set::find(&place, PlaceDepth::Pages)?;
        let packages = SetPackages::of(&found, SetUse::Build, cfg!(windows))
            .with_context(|| format!("failed to use `{place}`"))?;
        let there = packages.targets();
        let chosen = self.targets.as_ref();
        let chosen = chosen.map(|list| chosen_targets(list, &there, "in the set"));
        let chosen = chosen.transpose()?;
        let mut root = None;
        if let Some(directory) = &self.unpack {
            let targets = chosen.as_deref().unwrap_or_default();
            let is_new = unpack::unpack(
                (&place, &found),
                &packages,
                targets,
                directory,
                self.jobs.count(),
                world,
            )?;
            let verb = if is_new { "Unpacked" } else { "Found" };
            let (version, shown) = (&packages.version, directory.display());
            let done = format!("ROCm {version} in `{shown}`");
            world.console.status(verb, done);
            root = Some(utf8(&fs::canonicalize(directory)?.join(DEVEL))?);
        }
        Ok(InstalledRocm {
            root,
            version: packages.version,
            targets: chosen.unwrap_or(there),
            base: self.base_version.clone(),
            platform: platform(),
        })
    }

    /// What is installed in `site-packages`.
    fn installed(&self, site: &Path) -> Result<InstalledRocm> {
        let site = fs::canonicalize(site)?;
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
            root: Some(utf8(&root)?),
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
