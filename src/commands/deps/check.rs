//! `deps check`: whether a lock has everything that is needed.

use std::fmt;

use serde::Serialize;

use super::{LockArgs, SetArgs, WishArgs, World};
use crate::{
    deps::{ensure_closed, open_requirements},
    error::Result,
};

/// Check that the base index and the sets need nothing else
///
/// For each Python and platform of the lock: each project of `deps.toml`, and each requirement of each
/// wheel of the lock and of the sets, has a version there. Sends no request to a registry.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel deps check
  rocwheel deps check packages s3://bucket/1-windows/python")]
pub(super) struct DepsCheckArgs {
    #[command(flatten)]
    wishes: WishArgs,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    sets: SetArgs,
}

pub(super) fn run(args: &DepsCheckArgs, world: &World) -> Result<()> {
    let (wishes, lock) = (args.wishes.read()?, args.lock.read()?);
    let sets = args.sets.read(world)?;
    let open = open_requirements(&lock, Some(&wishes), &sets);
    let answer = DepsCheckAnswer {
        schema: "rocwheel-deps-check-v1",
        lock: lock.totals(),
        packages: sets.len(),
        open: &open,
    };
    world.console.answer(&answer)?;
    ensure_closed(open)
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct DepsCheckAnswer<'a> {
    schema: &'static str,
    lock: String,
    /// Those of the sets.
    packages: usize,
    open: &'a [String],
}

impl fmt::Display for DepsCheckAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lock,
            packages,
            open,
            ..
        } = self;
        if open.is_empty() {
            writeln!(
                f,
                "{lock} in the lock, {packages} in the sets: every requirement has a version"
            )?;
        }
        Ok(())
    }
}
