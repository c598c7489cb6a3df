//! `framework split`: takes the device code out of wheels.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::{PlansAnswer, World, WritingArgs};
use crate::{
    console::many,
    error::Result,
    framework::{
        FrameworkWheel, Frameworks, RocmLibraries,
        split::{
            self, SplitInput, SplitWheelPlan, SplitWheels, SplitWriter, ToSplit, WheelSplitOptions,
        },
    },
    package::assemble::{AssembleSettings, ChangedFile},
};

/// Take the device code out of wheels, so that users install that of their GPU only
///
/// Each wheel becomes a host wheel of the same name, with an extra for each target, a device wheel for
/// each target, and an sdist that selects the one for the GPU of the machine that installs it. A wheel
/// without device code, or for which that saves too little, is passed on as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework split tied/*.whl --set packages --output-dir dist --dry-run
  rocwheel framework split tied/*.whl --set packages --output-dir dist --target gfx942,gfx1100")]
pub(super) struct FrameworkSplitArgs {
    /// Wheels to split
    #[arg(value_name = "WHEEL", required = true)]
    wheels: Vec<PathBuf>,
    /// ROCm packages that the wheels are installed with: a directory, `s3://bucket/directory`, or a
    /// URL. Device wheels require its device code, too
    #[arg(long, value_name = "SET")]
    set: Option<PathBuf>,
    #[command(flatten)]
    division: WheelSplitOptions,
    #[command(flatten)]
    writing: WritingArgs,
}

pub(super) fn run(args: &FrameworkSplitArgs, world: &World) -> Result<()> {
    let (writing, reading) = (&args.writing, &args.writing.reading);
    let wheels = reading.wheels(&args.wheels, world)?;
    let policy = reading.policy()?;
    let rocm = args.set.as_ref();
    let rocm = rocm.map(|set| reading.rocm(set, &policy, world));
    let rocm: Option<RocmLibraries> = rocm.transpose()?;
    let inputs = device_code(&wheels, writing, world)?;
    let parts = wheels.iter().zip(&inputs);
    let parts = parts.map(|(wheel, code)| ToSplit {
        wheel,
        code,
        tied: None,
    });
    let parts: Vec<ToSplit<'_>> = parts.collect();
    let options = WheelSplitOptions {
        suffix: writing.version_suffix.clone(),
        ..args.division.clone()
    };
    let plans = plans(&parts, rocm.as_ref(), &policy, &options, world)?;
    let mut written = Vec::new();
    if !writing.dry_run {
        let (staged, settings) = (writing.staged()?, writing.settings());
        let (directory, saving) = (staged.path(), options.min_saving);
        written = write(&parts, &plans, directory, saving, &settings, world)?;
        let made = written.iter().flat_map(SplitWheels::made);
        let made: Vec<ChangedFile> = made.cloned().collect();
        writing.publish(&made, directory, &wheels)?;
    }
    world.console.answer(&PlansAnswer {
        schema: "rocwheel-framework-split-v1",
        plans,
        splits: Vec::new(),
        written,
    })
}

/// The device code of wheels.
pub(super) fn device_code(
    wheels: &[FrameworkWheel],
    writing: &WritingArgs,
    world: &World,
) -> Result<Vec<SplitInput>> {
    let jobs = writing.reading.jobs.count();
    let read = |wheel| SplitInput::read(wheel, jobs, &world.stop);
    wheels.iter().map(read).collect()
}

/// The plans. What is strange is said.
pub(super) fn plans(
    wheels: &[ToSplit<'_>],
    rocm: Option<&RocmLibraries>,
    policy: &Frameworks,
    options: &WheelSplitOptions,
    world: &World,
) -> Result<Vec<SplitWheelPlan>> {
    let plans = split::decide(wheels, rocm, policy, options)?;
    for plan in &plans {
        for warning in plan.notices() {
            world.console.warn(format!("{}: {warning}", plan.file));
        }
    }
    Ok(plans)
}

/// Writes the wheels of plans into a directory.
pub(super) fn write(
    wheels: &[ToSplit<'_>],
    plans: &[SplitWheelPlan],
    directory: &Path,
    min_saving: u8,
    settings: &AssembleSettings,
    world: &World,
) -> Result<Vec<SplitWheels>> {
    let mut all = Vec::new();
    let (count, size) = split::work(wheels, plans);
    let what = many(wheels.len(), "wheel");
    let join = || (world.console).joined_progress("Splitting", what, count, size);
    let _bar = (count > 0).then(join);
    let scratch = directory.join("scratch");
    let writer = SplitWriter {
        directory,
        scratch: &scratch,
        min_saving,
        settings,
        world,
    };
    for (wheel, plan) in wheels.iter().zip(plans) {
        fs::create_dir(&scratch)?;
        all.push(writer.write(*wheel, plan)?);
        fs::remove_dir_all(&scratch)?;
    }
    Ok(all)
}
