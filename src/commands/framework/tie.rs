//! `framework tie`: binds wheels to one set of ROCm packages.

use std::{collections::BTreeMap, path::PathBuf};

use super::{PlansAnswer, World, WritingArgs};
use crate::{
    commands::args::Variables,
    framework::{
        FrameworkWheel, ShownFile,
        tie::{self, BundleRequest, RocmBundle, TieOptions},
    },
    place::PlaceArg,
};
use rocwheel_base::{error::Result, quantity::many, target::TargetPattern};

/// Tie wheels to one set of ROCm packages
///
/// A tied wheel requires the ROCm packages, its binaries find their libraries there, its init
/// module loads what they open by name, and its platform tag is one that its symbols prove. A tied
/// wheel can be tied to another set, as promotion does. Wheels that are named together may provide
/// libraries for each other, and require each other exactly.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework tie torch-*.whl torchvision-*.whl --set packages --output-dir tied --dry-run
  rocwheel framework tie jax_rocm7_pjrt-*.whl --set packages --output-dir tied --init add
  rocwheel framework tie torch-*.whl --set packages --output-dir fat --bundle --target gfx942
  rocwheel framework tie tied/torch-*.whl --set final --output-dir release --version-suffix set")]
pub(super) struct TieArgs {
    /// Wheels that are installed together
    #[arg(value_name = "WHEEL", required = true)]
    wheels: Vec<PathBuf>,
    /// ROCm packages to tie to: a directory, `s3://bucket/directory`, or the URL of an index
    #[arg(long, value_name = "SET")]
    set: PlaceArg,
    /// Put the files of ROCm into the first wheel, which needs no ROCm package then
    ///
    /// The other wheels require the first one instead of ROCm.
    #[arg(long)]
    bundle: bool,
    /// Targets whose device code joins the wheel, comma-separated
    #[arg(long = "target", alias = "targets", value_name = "LIST", requires = "bundle", value_parser = TargetPattern::known)]
    targets: Option<TargetPattern>,
    // Stands before `options`: clap puts a flag without a heading under the heading of the flag before it.
    #[command(flatten)]
    writing: WritingArgs,
    #[command(flatten)]
    options: TieOptions,
}

impl TieArgs {
    pub(super) fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.writing.read_variables(variables)
    }
}

pub(super) fn run(args: &TieArgs, world: &World) -> Result<()> {
    let writing = &args.writing;
    let options = &TieOptions { suffix: writing.version_suffix.clone(), ..args.options.clone() };
    let policy = writing.reading.policy()?;
    let wheels = writing.reading.wheels(&args.wheels, world)?;
    let set = writing.reading.rocm_set(&args.set, &policy, world)?;
    let rocm = &set.libraries;
    let bundle = BundleRequest { set: &set.facts, targets: args.targets.as_ref() };
    let plans = tie::decide(&wheels, rocm, &policy, options, args.bundle.then_some(bundle))?;
    for plan in &plans {
        for warning in &plan.warnings {
            world.console.warn(format!("{}: {warning}", plan.file));
        }
        for note in &plan.notes {
            world.console.note(format!("{}: {note}", plan.file));
        }
    }
    let mut written = Vec::new();
    if !writing.dry_run {
        let staged = writing.staged()?;
        let settings = writing.settings();
        let directory = staged.path();
        // The packages of a server are there until the wheels have been written.
        let fetched = writing.staged()?;
        let bundles: Vec<&RocmBundle> =
            plans.iter().filter_map(|plan| plan.bundle.as_ref()).collect();
        let packages = match bundles.first() {
            Some(bundle) => bundle.obtain(&set.place, rocm.platform, fetched.path(), world)?,
            None => BTreeMap::new(),
        };
        let what = many(wheels.len(), "wheel");
        let size = wheels.iter().map(FrameworkWheel::unpacked_size).sum::<u64>()
            + bundles.iter().map(|bundle| bundle.unpacked_size()).sum::<u64>();
        let _bar = world.console.joined_progress("Tying", what, wheels.len(), size);
        for (wheel, plan) in wheels.iter().zip(&plans) {
            written.push(tie::write(wheel, plan, &packages, directory, &settings, world)?);
        }
        // The files are read again, as every user will read them: what was written is judged, and not what
        // was meant.
        let paths: Vec<PathBuf> = written.iter().map(|it| directory.join(&it.file)).collect();
        let tied = writing.reading.wheels(&paths, world)?;
        tie::verify(&plans, &tied, rocm, &policy, options)?;
        for selector in plans.iter().filter_map(|it| it.selector.as_ref()) {
            written.push(selector.write(directory, settings.time)?);
        }
        writing.publish(&written, directory, &wheels)?;
    }
    let answer = PlansAnswer { plans, written: written.iter().map(ShownFile).collect() };
    world.console.report("framework tie", &answer, &answer)
}
