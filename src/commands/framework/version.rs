//! `framework version`: the version of a framework wheel that is built for a set, and the versions of wheels.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;
use serde_json::json;

use super::World;
use crate::{
    commands::args::{AccessArgs, JobEnvironment, StepOutputs, Variables},
    framework::{
        Frameworks,
        env::BuiltFramework,
        version::{suffix, with_suffix, without_rocm},
    },
    index,
    place::{self, PlaceArg, PlaceDepth},
    policy::DistNames,
};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, anyhow, ensure},
    version::{GitSha, Version},
};
use rocwheel_wheel::PackageFilename;

/// Compute the version of a framework wheel, or read the versions of wheels
///
/// With BASE, the part that names ROCm is appended, as the builds of PyTorch do: `2.12.0+rocm7.14.0`. For wheels, or
/// the wheels in a directory, the versions in their names are printed, and in a workflow they are step outputs:
/// `torch_version` and the like. With `--set`, a workflow also gets the variables `version_suffix` and
/// `optional_build_prod_arguments` for its later steps. `check --with` compares the versions of wheels with the
/// versions in an index.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework version 2.12.0 --set packages
  rocwheel framework version 0.8.2 --set packages --for jax
  rocwheel framework version 2.12.0 --set 10.1.0
  rocwheel framework version dist")]
pub(super) struct FrameworkVersionArgs {
    /// Version of the framework itself; or wheels, or a directory with wheels
    #[arg(value_name = "BASE|WHEEL|DIR", required = true)]
    subjects: Vec<PathBuf>,
    /// ROCm packages that it is built for, or their version
    #[arg(long, value_name = "SET")]
    set: Option<PlaceArg>,
    /// What is built: builds of JAX name a ROCm under development in another way
    #[arg(long = "for", value_name = "FRAMEWORK", default_value = "torch")]
    built: BuiltFramework,
    /// Commit of the framework, for builds that are no release
    #[arg(long, value_name = "SHA")]
    commit: Option<GitSha>,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    outputs: StepOutputs,
    #[command(flatten)]
    environment: JobEnvironment,
}

pub(super) fn run(args: &FrameworkVersionArgs, world: &World) -> Result<()> {
    let rocm = match &args.set {
        Some(set) => Some(args.rocm(set, world)?),
        None => None,
    };
    if let Some(rocm) = &rocm {
        args.write_variables(rocm)?;
    }
    match (&args.subjects[..], rocm) {
        ([base], Some(rocm)) if !is_file_or_directory(base) => args.compute(base, &rocm, world),
        ([base], None) if !is_file_or_directory(base) => {
            Err(anyhow!("no ROCm packages for the version of `{}`", base.display()))
                .hint("pass `--set`, or the path of a wheel or of a directory with wheels")
        }
        _ => args.read_wheels(world),
    }
}

/// Whether an argument is a path, and not a version.
fn is_file_or_directory(subject: &Path) -> bool {
    subject.exists() || has_extension(subject, "whl")
}

impl FrameworkVersionArgs {
    pub(super) fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.access.read_variables(variables)?;
        self.environment.read_variables(variables);
        self.outputs.read_variables(variables);
        Ok(())
    }

    /// The version of a wheel that is built for a set.
    fn compute(&self, base: &Path, rocm: &Version, world: &World) -> Result<()> {
        let base: Version = base.to_string_lossy().parse()?;
        let mut version = without_rocm(&base);
        if let Some(commit) = &self.commit {
            version = with_suffix(&version, &format!("git{}", commit.short()))?;
        }
        version = with_suffix(&version, &suffix(rocm, self.built.policy()))?;
        let shown = version.to_string();
        let facts = json!({
            "version": shown,
            "suffix": shown.split_once('+').map(|(_, local)| local),
            "rocm": rocm.to_string(),
            "requirement": format!("=={shown}"),
            "filename-part": version.filename_form(),
        });
        world.console.report("framework version", &facts, &shown)
    }

    /// The versions in the names of wheels.
    fn read_wheels(&self, world: &World) -> Result<()> {
        let mut wheels: Vec<PackageFilename> = Vec::new();
        for subject in &self.subjects {
            if subject.is_dir() {
                for entry in fs::read_dir(subject)? {
                    let path = entry?.path();
                    if has_extension(&path, "whl") {
                        wheels.push(wheel_name(&path)?);
                    }
                }
            } else {
                wheels.push(wheel_name(subject)?);
            }
        }
        wheels.sort_by_key(ToString::to_string);
        let outputs = Frameworks::builtin().version_outputs(&wheels)?;
        if outputs.is_empty() {
            return Err(anyhow!("no wheel of PyTorch, JAX, or what is built for them"))
                .hint("pass the directory with the wheels of a build");
        }
        self.outputs.append(&outputs)?;
        let lines = outputs.iter().map(|(name, version)| format!("{name}={version}")).join("\n");
        let facts = json!({ "versions": outputs.iter().cloned().collect::<BTreeMap<_, _>>() });
        world.console.report("framework version", &facts, lines)
    }

    /// Writes the variables of TheRock's `determine_version.py` for the later steps of a job.
    fn write_variables(&self, rocm: &Version) -> Result<()> {
        let suffix = format!("+{}", suffix(rocm, self.built.policy()));
        let build_arguments = format!("--rocm-sdk-version =={rocm} --version-suffix {suffix}");
        self.environment.append(&[
            ("optional_build_prod_arguments", build_arguments),
            ("version_suffix", suffix),
        ])
    }

    /// The version of the set, from the names of its packages.
    fn rocm(&self, set: &PlaceArg, world: &World) -> Result<Version> {
        // `--set 10.1.0` is a version, unless a directory has this name.
        if let PlaceArg::Directory(path) = set
            && !path.exists()
            && let Ok(version) = set.to_string().parse()
        {
            return Ok(version);
        }
        let ours = DistNames::built_in();
        let place = self.access.place(set, &world.stop)?;
        let listing = place::find(&place, PlaceDepth::Pages)?;
        let mut packages = listing.packages.iter().filter_map(|it| index::identity(&it.name));
        let rocm =
            packages.find(|(name, _)| [&ours.selector, &ours.core].contains(&&name.to_string()));
        rocm.map(|(_, version)| version)
            .with_context(|| format!("no `{}` in `{place}`", ours.selector))
            .hint("pass the directory that `rocwheel build` wrote to, or the version itself")
    }
}

/// The name of a wheel, by its path.
fn wheel_name(path: &Path) -> Result<PackageFilename> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let name: PackageFilename = file.parse()?;
    ensure!(name.tag.is_some(), "not a wheel: `{}`", path.display());
    Ok(name)
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|it| it == extension)
}
