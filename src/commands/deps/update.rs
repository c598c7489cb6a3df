//! `deps update`: proposes a lock.

use std::time::Duration;

use super::{LockArgs, RegistryArgs, SetArgs, WishArgs, World, requests};
use crate::{
    atomic,
    commands::args::duration,
    deps::{LockChanges, UpdateOptions, update},
    error::Result,
    wheel::DistName,
};

/// Pick the newest files of the base index, and write the lock
///
/// For each Python and platform: the newest version of each project that fulfils `deps.toml`, the
/// sets, and what the other picks need. Prints what changes in the lock. A requirement that no version
/// fulfils is an error, and then the lock stays as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel deps update --dry-run
  rocwheel deps update packages --deps-file deps.toml")]
pub(super) struct DepsUpdateArgs {
    #[command(flatten)]
    wishes: WishArgs,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    registry: RegistryArgs,
    /// Pick no file that is younger, unless `deps.toml` names its version: `12h`, `3d`
    #[arg(long, value_name = "AGE", default_value = "3d", value_parser = duration)]
    min_age: Duration,
    /// Accept this project, which another one needs and `deps.toml` does not name
    #[arg(long, value_name = "PROJECT")]
    allow: Vec<DistName>,
    /// Print what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    sets: SetArgs,
}

pub(super) fn run(args: &DepsUpdateArgs, world: &World) -> Result<()> {
    let (wishes, earlier) = (args.wishes.read()?, args.lock.read_if_there()?);
    let sets = args.sets.read(world)?;
    let registry = args.registry.connect(world)?;
    let options = UpdateOptions {
        min_age: args.min_age,
        allow: args.allow.clone(),
        deny: args.registry.deny.clone(),
        jobs: requests(&args.sets.jobs),
    };
    let lock = update(&wishes, &earlier, sets, &registry, &options, world)?;
    if !args.dry_run {
        atomic::write(&args.lock.deps_lock, lock.render()?)?;
    }
    world.console.answer(&LockChanges::between(&earlier, &lock))
}
