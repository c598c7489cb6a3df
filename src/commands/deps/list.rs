//! `deps list`: what a lock has.

use std::fmt;

use itertools::Itertools as _;
use serde::Serialize;

use super::{LockArgs, World};
use crate::{
    console::{many, size},
    deps::DepsLock,
    error::Result,
};

/// List the projects and files of the lock
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel deps list
  rocwheel deps list --format json")]
pub(super) struct DepsListArgs {
    #[command(flatten)]
    lock: LockArgs,
}

pub(super) fn run(args: &DepsListArgs, world: &World) -> Result<()> {
    let lock = args.lock.read()?;
    world.console.answer(&LockListing {
        schema: "rocwheel-deps-list-v1",
        size: lock.size(),
        lock: &lock,
    })
}

#[derive(Debug, Serialize)]
struct LockListing<'a> {
    schema: &'static str,
    size: u64,
    #[serde(rename = "files", serialize_with = "files")]
    lock: &'a DepsLock,
}

fn files<S: serde::Serializer>(lock: &DepsLock, to: S) -> Result<S::Ok, S::Error> {
    lock.files.serialize(to)
}

impl fmt::Display for LockListing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.lock.files.iter();
        for ((project, version), files) in &files.chunk_by(|it| (&it.project, &it.version)) {
            let (count, bytes, why) =
                files.fold((0, 0, Vec::new()), |(count, bytes, mut why), it| {
                    why.extend(&it.why);
                    (count + 1, bytes + it.size, why)
                });
            let name = format!("{project} {version}");
            let (count, bytes) = (many(count, "file"), size(bytes).to_string());
            let why = why.into_iter().unique().join(", ");
            writeln!(f, "{name:<32} {count:>9} {bytes:>11}  {why}")?;
        }
        writeln!(f, "{}", self.lock.totals())
    }
}
