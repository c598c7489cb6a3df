//! `framework split`: takes the device code out of wheels.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::{PlansAnswer, World, WritingArgs};
use crate::{
    commands::args::Variables,
    framework::{
        RocmLibraries,
        split::{self, SplitWheelPlan, SplitWheels, SplitWriter, ToSplit, WheelSplitOptions},
    },
    place::PlaceArg,
};
use rocwheel_base::{error::Result, quantity::many};
use rocwheel_wheel::ChangedFile;

/// Take the device code out of wheels, so that users install only the code for their GPU
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
    set: Option<PlaceArg>,
    #[command(flatten)]
    division: WheelSplitOptions,
    #[command(flatten)]
    writing: WritingArgs,
}

impl FrameworkSplitArgs {
    pub(super) fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.writing.read_variables(variables)
    }
}

pub(super) fn run(args: &FrameworkSplitArgs, world: &World) -> Result<()> {
    let writing = &args.writing;
    let reading = &writing.reading;
    let wheels = reading.wheels(&args.wheels, world)?;
    let policy = reading.policy()?;
    let rocm: Option<RocmLibraries> = match &args.set {
        Some(set) => Some(reading.rocm(set, &policy, world)?),
        None => None,
    };
    let read = |wheel| ToSplit::read(wheel, reading.jobs.count(), &world.stop);
    let inputs: Vec<ToSplit<'_>> = wheels.iter().map(read).collect::<Result<_>>()?;
    let options =
        WheelSplitOptions { suffix: writing.version_suffix.clone(), ..args.division.clone() };
    let mut plans = split::decide(&inputs, rocm.as_ref(), &policy, &options)?;
    for plan in &plans {
        for warning in plan.notices() {
            world.console.warn(format!("{}: {warning}", plan.file));
        }
    }
    let mut written = Vec::new();
    if !writing.dry_run {
        let staged = writing.staged()?;
        written = write(&inputs, &plans, staged.path(), writing, world)?;
        let files: Vec<ChangedFile> = written.iter().flat_map(SplitWheels::made).cloned().collect();
        writing.publish(&files, staged.path(), &wheels)?;
        // The answer has what was done. Whether a split is worth it shows when the parts are written.
        let outcomes = plans.into_iter().zip(&written).zip(&wheels);
        let plans_done = outcomes.map(|((plan, made), wheel)| match &made.too_large {
            Some(why) => plan.passed_on(wheel, why.clone()),
            None => plan,
        });
        plans = plans_done.collect();
    }
    let answer = PlansAnswer { plans, written };
    world.console.report("framework split", &answer, &answer)
}

/// Writes the wheels of plans into a directory.
fn write(
    wheels: &[ToSplit<'_>],
    plans: &[SplitWheelPlan],
    directory: &Path,
    writing: &WritingArgs,
    world: &World,
) -> Result<Vec<SplitWheels>> {
    let (count, size) = split::work(wheels, plans);
    let what = many(wheels.len(), "wheel");
    let _bar = world.console.joined_progress("Splitting", what, count, size);
    let scratch = directory.join("scratch");
    let writer = SplitWriter { directory, scratch: &scratch, settings: &writing.settings(), world };
    let mut written = Vec::new();
    for (wheel, plan) in wheels.iter().zip(plans) {
        fs::create_dir(&scratch)?;
        written.push(writer.write(wheel, plan)?);
        // The files of a wheel may be large, so that they go before the next wheel needs the disk.
        fs::remove_dir_all(&scratch)?;
    }
    Ok(written)
}
