//! `framework tie`: binds wheels to one set of ROCm packages.

use std::{fmt, path::PathBuf};

use serde::Serialize;

use super::{World, WritingArgs, publish};
use crate::{
    error::Result,
    framework::{
        FrameworkWheel, Providers, WheelRefusal,
        tie::{self, InitMode, TagChoice, TieInput, TieOptions, TiePlan, VersionPin},
    },
    glob::Glob,
    package::assemble::ChangedFile,
};

/// Tie wheels to one set of ROCm packages
///
/// A tied wheel requires the ROCm packages, its binaries find their libraries there, its init module
/// loads what they open by name, and its platform tag is one that its symbols prove. To tie a tied
/// wheel to another set is what promotion needs. Wheels that are named together may provide libraries
/// for each other, and require each other exactly.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework tie torch-*.whl torchvision-*.whl --set packages --output-dir tied --plan
  rocwheel framework tie jax_rocm7_pjrt-*.whl --set packages --output-dir tied --init add
  rocwheel framework tie tied/torch-*.whl --set final --output-dir release --version-suffix set")]
pub(super) struct TieArgs {
    /// Wheels that are installed together
    #[arg(value_name = "WHEEL", required = true)]
    wheels: Vec<PathBuf>,
    /// ROCm packages to tie to: a directory, `s3://bucket/directory`, or the URL of an index
    #[arg(long, value_name = "SET", env = "ROCWHEEL_FRAMEWORK_SET")]
    set: PathBuf,
    #[command(flatten)]
    requirements: RequirementArgs,
    #[command(flatten)]
    module: ModuleArgs,
    #[command(flatten)]
    binaries: BinaryArgs,
    #[command(flatten)]
    writing: WritingArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Requirement options")]
struct RequirementArgs {
    /// Which ROCm to require: this version, its patch releases, or none (default: `minor` for final
    /// releases, else `exact`)
    #[arg(long, value_name = "PIN")]
    requires: Option<VersionPin>,
    /// Extras of `rocm` to require besides `libraries`, which follows from the binaries
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    extras: Vec<String>,
    /// Offer no extras for device code
    #[arg(long)]
    no_device_extras: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Init module options")]
struct ModuleArgs {
    /// Whether to write `_rocm_init.py` and the hook in `__init__.py` that calls it
    #[arg(long, value_name = "MODE", default_value = "auto")]
    init: InitMode,
    /// Libraries to load, by short names as in `amdhip64` (default: those that the binaries need or
    /// open)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    preload: Option<Vec<String>>,
    /// Which installed version is right (default: as `--requires`)
    #[arg(long, value_name = "PIN")]
    check_version: Option<VersionPin>,
    /// Let another version of ROCm be an error, and not a warning
    #[arg(long)]
    fail_on_version_mismatch: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Binary options")]
struct BinaryArgs {
    /// Leave run paths alone
    #[arg(long)]
    keep_run_paths: bool,
    /// Platform tag: `auto`, `keep`, or one that the symbols prove, such as `manylinux_2_28_x86_64`
    #[arg(long, value_name = "TAG", default_value = "auto")]
    tag: TagChoice,
    /// Further libraries that every host has, by file name, comma-separated
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    host_provides: Vec<String>,
    /// Tie only these binaries, by globs of their installed paths, comma-separated
    #[arg(long, value_name = "GLOBS", value_delimiter = ',')]
    only: Vec<String>,
}

pub(super) fn run(args: &TieArgs, world: &World) -> Result<()> {
    let policy = args.writing.policy.read()?;
    let wheels = args.writing.read(&args.wheels, world)?;
    let rocm = args.writing.rocm(&args.set, &policy, world)?;
    let inputs = wheels.iter().map(|wheel| TieInput::read(wheel, &policy));
    let inputs: Vec<TieInput> = inputs.collect::<Result<_>>()?;
    let options = args.options();
    let providers = Providers::new(&wheels, Some(&rocm), &policy, &options.host);
    let plans = tie::decide((&wheels, &inputs), &providers, &rocm, &policy, &options)?;
    let plans = plans.map_err(|refusals| WheelRefusal::all("tied", &refusals))?;
    for plan in &plans {
        for warning in &plan.warnings {
            world.console.warn(format!("{}: {warning}", plan.file));
        }
    }
    let mut answer = TieAnswer {
        schema: "rocwheel-tie-plan-v1",
        plans,
        written: Vec::new(),
    };
    if !args.writing.plan {
        let verify =
            |tied: &[FrameworkWheel]| tie::verify(&answer.plans, tied, &rocm, &policy, &options);
        answer.written = args.write(&wheels, &answer.plans, &verify, world)?;
    }
    world.console.answer(&answer)
}

impl TieArgs {
    fn options(&self) -> TieOptions {
        TieOptions {
            requires: self.requirements.requires,
            extras: self.requirements.extras.clone(),
            device_extras: !self.requirements.no_device_extras,
            suffix: self.writing.version_suffix.clone(),
            init: self.module.init,
            preload: self.module.preload.clone(),
            check_version: self.module.check_version,
            fail_on_version_mismatch: self.module.fail_on_version_mismatch,
            keep_run_paths: self.binaries.keep_run_paths,
            tag: self.binaries.tag.clone(),
            host: self.binaries.host_provides.clone(),
            only: self.binaries.only.iter().map(Glob::new).collect(),
        }
    }

    /// Writes the wheels beside the directory, reads them back, and publishes them together.
    fn write(
        &self,
        wheels: &[FrameworkWheel],
        plans: &[TiePlan],
        verify: &dyn Fn(&[FrameworkWheel]) -> Result<()>,
        world: &World,
    ) -> Result<Vec<ChangedFile>> {
        let staged = self.writing.staged()?;
        let settings = self.writing.settings();
        let to = staged.path();
        let mut written = tie::write_all((wheels, plans), to, &settings, world)?;
        verify(&self.writing.read_back(&written, staged.path(), world)?)?;
        for selector in plans.iter().filter_map(|it| it.selector.as_ref()) {
            written.push(selector.write(staged.path(), settings.time)?);
        }
        publish(&written, staged.path(), self.writing.directory(), wheels)?;
        Ok(written)
    }
}

#[derive(Debug, Serialize)]
struct TieAnswer {
    schema: &'static str,
    plans: Vec<TiePlan>,
    written: Vec<ChangedFile>,
}

impl fmt::Display for TieAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, plan) in self.plans.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            plan.fmt(f)?;
        }
        for wheel in &self.written {
            writeln!(f, "\n{wheel}")?;
        }
        Ok(())
    }
}
