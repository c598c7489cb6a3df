//! `framework tie`: binds wheels to one set of ROCm packages.

use std::path::PathBuf;

use super::{PlansAnswer, World, WritingArgs, split};
use crate::{
    error::Result,
    framework::{
        FrameworkWheel,
        split::{SplitWheelPlan, SplitWheels, ToSplit, WheelSplitOptions},
        tie::{self, TieOptions, TiePlan},
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
    options: TieOptions,
    /// Split the wheels with device code, too
    #[arg(long, help_heading = "Split options")]
    split: bool,
    #[command(flatten, next_help_heading = "Split options")]
    division: WheelSplitOptions,
}

pub(super) fn run(args: &TieArgs, world: &World) -> Result<()> {
    let writing = &args.writing;
    let options = &TieOptions {
        suffix: writing.version_suffix.clone(),
        ..args.options.clone()
    };
    let policy = writing.reading.policy()?;
    let wheels = writing.reading.wheels(&args.wheels, world)?;
    let rocm = writing.reading.rocm(&args.set, &policy, world)?;
    let plans = tie::decide(&wheels, &rocm, &policy, options)?;
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
    let splits = split::plans(&parts, Some(&rocm), &policy, &args.division, world)?;
    let mut written = Vec::new();
    if !writing.dry_run {
        let verify = |plans: &[TiePlan], tied: &[FrameworkWheel]| {
            tie::verify(plans, tied, &rocm, &policy, options)
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
        let saving = self.division.min_saving;
        let made = split::write(parts, splits, directory, saving, &settings, world)?;
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
