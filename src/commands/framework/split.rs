//! `framework split`: takes the device code out of wheels.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::Serialize;

use super::{World, WritingArgs, publish};
use crate::{
    console::many,
    error::Result,
    framework::{
        FrameworkWheel, Frameworks, RocmLibraries,
        split::{self, SplitInput, SplitWheelPlan, SplitWheels, ToSplit, WheelSplitOptions},
        tie::VersionSuffix,
    },
    package::assemble::{AssembleSettings, ChangedFile},
    target::TargetList,
    wheel::DistName,
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
    division: SplitOptionArgs,
    #[command(flatten)]
    writing: WritingArgs,
}

/// What `tie --split` has in common with `split`.
#[derive(Debug, clap::Args)]
pub(super) struct SplitOptionArgs {
    /// Beginning of the names of device wheels (default: `amd-NAME-device`, or what policy says)
    #[arg(long, value_name = "TEXT")]
    device_prefix: Option<DistName>,
    /// Families or targets that get a device wheel, comma-separated (default: all that have code)
    #[arg(long = "target", alias = "targets", value_name = "LIST")]
    targets: Option<TargetList>,
    /// Write no sdist that selects the device wheel for the GPU of the machine that installs it, and
    /// no extra `device` that asks for it
    #[arg(long)]
    no_selector: bool,
    /// Copy a wheel unchanged if the split would save a user of one target less than this, in percent
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = clap::value_parser!(u8).range(0..=100))]
    min_saving: u8,
}

pub(super) fn run(args: &FrameworkSplitArgs, world: &World) -> Result<()> {
    let writing = &args.writing;
    let wheels = writing.read(&args.wheels, world)?;
    let policy = writing.policy.read()?;
    let open = |set: &PathBuf| writing.rocm(set, &policy, world);
    let rocm: Option<RocmLibraries> = args.set.as_ref().map(open).transpose()?;
    let inputs = device_code(&wheels, writing, world)?;
    let parts = wheels.iter().zip(&inputs);
    let parts = parts.map(|(wheel, code)| ToSplit {
        wheel,
        code,
        tied: None,
    });
    let parts: Vec<ToSplit<'_>> = parts.collect();
    let options = args.division.options(&writing.version_suffix);
    let plans = plans(&parts, rocm.as_ref(), &policy, &options, world)?;
    let mut answer = SplitAnswer {
        schema: "rocwheel-framework-split-v1",
        plans,
        written: Vec::new(),
    };
    if !writing.dry_run {
        answer.written = args.write(&wheels, &parts, &answer.plans, world)?;
    }
    world.console.answer(&answer)
}

/// The device code of wheels.
pub(super) fn device_code(
    wheels: &[FrameworkWheel],
    writing: &WritingArgs,
    world: &World,
) -> Result<Vec<SplitInput>> {
    let jobs = writing.jobs.count();
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

impl SplitOptionArgs {
    pub(super) fn options(&self, suffix: &VersionSuffix) -> WheelSplitOptions {
        let targets = self.targets.as_ref();
        WheelSplitOptions {
            prefix: self.device_prefix.clone(),
            targets: targets.map(|list| list.bases().collect()),
            selector: !self.no_selector,
            suffix: suffix.clone(),
        }
    }

    /// Writes the wheels of plans into a directory.
    pub(super) fn write(
        &self,
        wheels: &[ToSplit<'_>],
        plans: &[SplitWheelPlan],
        directory: &Path,
        settings: &AssembleSettings,
        world: &World,
    ) -> Result<Vec<SplitWheels>> {
        let mut all = Vec::new();
        let (count, size) = split::work(wheels, plans);
        let what = many(wheels.len(), "wheel");
        let join = || (world.console).joined_progress("Splitting", what, count, size);
        let _bar = (count > 0).then(join);
        for (number, (wheel, plan)) in wheels.iter().zip(plans).enumerate() {
            let scratch = directory.join(number.to_string());
            fs::create_dir(&scratch)?;
            all.push(split::write(
                *wheel,
                plan,
                directory,
                &scratch,
                self.min_saving,
                settings,
                world,
            )?);
            fs::remove_dir_all(&scratch)?;
        }
        Ok(all)
    }
}

impl FrameworkSplitArgs {
    /// Writes the wheels beside the directory, and publishes them together.
    fn write(
        &self,
        wheels: &[FrameworkWheel],
        parts: &[ToSplit<'_>],
        plans: &[SplitWheelPlan],
        world: &World,
    ) -> Result<Vec<SplitWheels>> {
        let (staged, settings) = (self.writing.staged()?, self.writing.settings());
        let all = self
            .division
            .write(parts, plans, staged.path(), &settings, world)?;
        let made = all.iter().flat_map(SplitWheels::made);
        let made: Vec<ChangedFile> = made.cloned().collect();
        publish(&made, staged.path(), self.writing.directory(), wheels)?;
        Ok(all)
    }
}

#[derive(Debug, Serialize)]
struct SplitAnswer {
    schema: &'static str,
    plans: Vec<SplitWheelPlan>,
    written: Vec<SplitWheels>,
}

impl fmt::Display for SplitAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, plan) in self.plans.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            plan.fmt(f)?;
        }
        for made in &self.written {
            write!(f, "\n{made}")?;
        }
        Ok(())
    }
}
