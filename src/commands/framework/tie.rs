//! `framework tie`: binds wheels to one set of ROCm packages.

use std::path::PathBuf;

use super::{
    PlansAnswer, World, WritingArgs,
    split::{self, SplitOptionArgs},
};
use crate::{
    error::Result,
    framework::{
        FrameworkWheel,
        split::{SplitWheelPlan, SplitWheels, ToSplit},
        tie::{self, InitMode, TagChoice, TieOptions, TiePlan, VersionPin, VersionSuffix},
    },
    package::assemble::ChangedFile,
};

/// Tie wheels to one set of ROCm packages
///
/// A tied wheel requires the ROCm packages, its binaries find their libraries there, its init
/// module loads what they open by name, and its platform tag is one that its symbols prove. A tied
/// wheel can be tied to another set, as promotion does. Wheels that are named together may provide
/// libraries for each other, and require each other exactly. `--split` does what `framework split`
/// does in the same step: the device code leaves each binary before its run path changes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework tie torch-*.whl torchvision-*.whl --set packages --output-dir tied --dry-run
  rocwheel framework tie jax_rocm7_pjrt-*.whl --set packages --output-dir tied --init add
  rocwheel framework tie torch-*.whl torchvision-*.whl --set packages --output-dir dist --split
  rocwheel framework tie tied/torch-*.whl --set final --output-dir release --version-suffix set")]
pub(super) struct TieArgs {
    /// Wheels that are installed together
    #[arg(value_name = "WHEEL", required = true)]
    wheels: Vec<PathBuf>,
    /// ROCm packages to tie to: a directory, `s3://bucket/directory`, or the URL of an index
    #[arg(long, value_name = "SET")]
    set: PathBuf,
    // Before those with headings, which it would be below otherwise.
    #[command(flatten)]
    writing: WritingArgs,
    #[command(flatten)]
    requirements: RequirementArgs,
    #[command(flatten)]
    module: ModuleArgs,
    #[command(flatten)]
    binaries: BinaryArgs,
    /// Split the wheels with device code, too
    #[arg(long, help_heading = "Split options")]
    split: bool,
    #[command(flatten, next_help_heading = "Split options")]
    division: SplitOptionArgs,
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
    /// Make another version of ROCm an error instead of a warning
    #[arg(long)]
    fail_on_version_mismatch: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Binary options")]
struct BinaryArgs {
    /// Leave run paths alone
    #[arg(long)]
    keep_run_paths: bool,
    /// Which platform tag the wheel gets
    #[arg(long, value_name = "TAG", default_value = "auto")]
    tag: TagChoice,
    /// Further libraries that every host has, by file name, comma-separated
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    host_provides: Vec<String>,
}

pub(super) fn run(args: &TieArgs, world: &World) -> Result<()> {
    let (writing, options) = (&args.writing, args.options());
    let policy = writing.reading.policy()?;
    let wheels = writing.reading.wheels(&args.wheels, world)?;
    let rocm = writing.reading.rocm(&args.set, &policy, world)?;
    let plans = tie::decide(&wheels, &rocm, &policy, &options)?;
    for plan in &plans {
        for warning in &plan.warnings {
            world.console.warn(format!("{}: {warning}", plan.file));
        }
    }
    let code = if args.split {
        split::device_code(&wheels, writing, world)?
    } else {
        Vec::new()
    };
    // Wheels without device code, those that were split before and their device wheels are only tied.
    let parts = wheels
        .iter()
        .zip(&code)
        .zip(&plans)
        .filter(|((_, code), plan)| code.passed_on().is_none() && plan.follows.is_none())
        .map(|((wheel, code), plan)| ToSplit {
            wheel,
            code,
            tied: Some(plan),
        });
    let parts: Vec<ToSplit<'_>> = parts.collect();
    let suffix = VersionSuffix::Keep;
    let splits = args
        .division
        .plans(&parts, Some(&rocm), &policy, suffix, world)?;
    let mut written = Vec::new();
    if !writing.dry_run {
        let verify = |plans: &[TiePlan], tied: &[FrameworkWheel]| {
            tie::verify(plans, tied, &rocm, &policy, &options)
        };
        written = args.write(&wheels, &plans, &parts, &splits, &verify, world)?;
    }
    world.console.answer(&PlansAnswer {
        schema: "rocwheel-tie-plan-v1",
        plans,
        splits,
        written,
    })
}

/// Fails unless wheels are what their plans say.
type Verify<'a> = dyn Fn(&[TiePlan], &[FrameworkWheel]) -> Result<()> + 'a;

impl TieArgs {
    fn options(&self) -> TieOptions {
        TieOptions {
            requires: self.requirements.requires,
            extras: self.requirements.extras.clone(),
            device_extras: !self.requirements.no_device_extras,
            suffix: self.writing.version_suffix.clone(),
            init: self.module.init,
            fail_on_version_mismatch: self.module.fail_on_version_mismatch,
            keep_run_paths: self.binaries.keep_run_paths,
            tag: self.binaries.tag,
            host: self.binaries.host_provides.clone(),
        }
    }

    /// Writes the wheels beside the directory, reads them back, and publishes them together.
    fn write(
        &self,
        wheels: &[FrameworkWheel],
        plans: &[TiePlan],
        parts: &[ToSplit<'_>],
        splits: &[SplitWheelPlan],
        verify: &Verify<'_>,
        world: &World,
    ) -> Result<Vec<ChangedFile>> {
        let (staged, settings) = (self.writing.staged()?, self.writing.settings());
        let directory = staged.path();
        let made = self
            .division
            .write(parts, splits, directory, &settings, world)?;
        let divided = |plan: &TiePlan| splits.iter().zip(&made).find(|it| it.0.file == plan.file);
        let others: Vec<(&FrameworkWheel, &TiePlan)> = wheels
            .iter()
            .zip(plans)
            .filter(|it| divided(it.1).is_none())
            .collect();
        let mut others = tie::write_all(&others, directory, &settings, world)?.into_iter();
        let (mut tied, mut promised) = (Vec::new(), plans.to_vec());
        for plan in &mut promised {
            if let Some((split, made)) = divided(plan) {
                plan.requires
                    .retain(|it| made.whole || !split.removed.contains(&it.line));
                tied.push(made.host.clone());
            } else {
                tied.extend(others.next());
            }
        }
        let paths: Vec<PathBuf> = tied.iter().map(|it| directory.join(&it.file)).collect();
        verify(&promised, &self.writing.reading.wheels(&paths, world)?)?;
        let selectors = plans.iter().filter_map(|it| it.selector.as_ref());
        let selectors = selectors.map(|it| it.write(directory, settings.time));
        let mut written = tied;
        written.extend(made.iter().flat_map(SplitWheels::parts).cloned());
        written.extend(selectors.collect::<Result<Vec<_>>>()?);
        self.writing.publish(&written, directory, wheels)?;
        Ok(written)
    }
}
