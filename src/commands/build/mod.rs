//! `build`: makes the packages of a set from artifacts.

mod args;

use std::path::Path;

pub use args::{BuildArgs, BuildInputs, read_catalog};

use super::World;
use crate::{
    artifact::input,
    error::{Hint as _, Result, anyhow},
    fetch,
    package::{
        build::Build,
        document::{BuildAnswer, PlanDocument},
    },
    set::LocalSet,
};

pub fn run(args: &BuildArgs, world: &World) -> Result<()> {
    let options = args.what.options()?;
    let selection = args.selection(&options)?;
    let _lock = args.lock()?;
    let (jobs, dest) = (options.settings.jobs, &args.dest_dir);
    let tree = input::read(&args.artifact_dir, &dest.join("artifacts"), jobs, world)?;
    let build = Build::plan(&tree, &options, &selection, dest, world)?;
    build.ensure_complete()?;
    if args.plan {
        return world.console.answer(&PlanDocument::from(&build.plan));
    }
    let made = build.make(dest, args.existing(), world)?;
    LocalSet::built(dest, &build.plan, &build.manifest()?, &made, world)?;
    world.console.answer(&BuildAnswer::new(&made))
}

/// Fails if the artifacts were fetched for some packages only. A build of the whole set would
/// succeed, but its set would differ from the one of the run.
pub fn ensure_all(directory: &Path) -> Result<()> {
    let names = fetch::fetched_for(directory)?;
    if names.is_empty() {
        return Ok(());
    }
    let artifacts = in_words(directory, &names);
    Err(anyhow!("{artifacts}, which do not show all targets"))
        .hint("build with `--only`, and all targets of the run as `--targets`; or fetch all of it")
}

/// Describes artifacts that were fetched for some packages only.
fn in_words(directory: &Path, names: &[String]) -> String {
    let (directory, names) = (directory.display(), names.join(","));
    format!("the artifacts in `{directory}` are those that `fetch --only {names}` fetches")
}
