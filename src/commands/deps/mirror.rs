//! `deps mirror`: copies the locked files to a place.

use std::fmt;

use serde::Serialize;
use time::OffsetDateTime;

use super::{LockArgs, RegistryArgs, World, requests};
use crate::{
    commands::args::{AccessArgs, Jobs},
    console::{many, size},
    deps::{LeftoverRule, MirrorOptions, MirrorPlan, ensure_closed, open_requirements},
    error::Result,
    set::{Addresses, Indexed, NamedPlace, SetPlace},
};

/// Copy the locked files to a place, and write the pages of its index
///
/// Each file is compared with the size and the digest of the lock before it gets its name, and no
/// file is replaced. A rerun copies what is missing. Files that the lock does not have are yanked, and
/// removed after the time of grace.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel deps mirror --into python-deps
  rocwheel deps mirror --into s3://bucket/python-deps --dry-run")]
pub(super) struct DepsMirrorArgs {
    /// Directory or `s3://bucket/directory` of the base index
    #[arg(long, value_name = "PLACE")]
    into: NamedPlace,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    registry: RegistryArgs,
    /// Mirror a lock of which a wheel needs something that the lock does not have
    #[arg(long)]
    allow_open: bool,
    /// Days between the yank of a file that the lock does not have and its removal
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    grace: u16,
    /// Keep this many of the newest versions of each project
    #[arg(long, value_name = "N", default_value_t = 2)]
    keep: usize,
    /// Write no pages under keys that end in `/`, for servers that reject such keys; installers
    /// then need `--find-links`
    #[arg(long)]
    no_directory_pages: bool,
    /// Print what would be copied, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    access: AccessArgs,
}

pub(super) fn run(args: &DepsMirrorArgs, world: &World) -> Result<()> {
    let lock = args.lock.read()?;
    if !args.allow_open {
        ensure_closed(open_requirements(&lock, None, &[]))?;
    }
    let mut place = args.access.named(&args.into, &world.stop)?;
    place.directory_pages = !args.no_directory_pages;
    let (registry, options) = (args.registry.connect(world)?, args.options());
    let plan = MirrorPlan::of(&lock, &registry, &place, &options, world)?;
    if args.dry_run {
        return world.console.answer(&plan);
    }
    let indexed = plan.carry_out(&registry, &place, options.jobs, world)?;
    let facts = format!(
        "{}, {}",
        many(indexed.set.files.len(), "file"),
        size(indexed.set.size())
    );
    world.console.status("Indexed", facts);
    world.console.answer(&MirrorAnswer::of(&indexed, &place)?)
}

impl DepsMirrorArgs {
    fn options(&self) -> MirrorOptions {
        MirrorOptions {
            leftovers: LeftoverRule {
                today: OffsetDateTime::now_utc().date(),
                grace: self.grace,
                keep: self.keep,
            },
            deny: self.registry.deny.clone(),
            jobs: requests(&self.jobs),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct MirrorAnswer {
    schema: &'static str,
    #[serde(flatten)]
    addresses: Addresses,
    files: usize,
    size: u64,
    /// The pages and sidecars that were written or removed.
    changed: usize,
}

impl MirrorAnswer {
    fn of(indexed: &Indexed, place: &SetPlace) -> Result<Self> {
        let urls = place.urls()?.in_layout(indexed.set.layout());
        Ok(Self {
            schema: "rocwheel-deps-mirror-v1",
            addresses: Addresses::new(&urls, &indexed.set.families()),
            files: indexed.set.files.len(),
            size: indexed.set.size(),
            changed: indexed.changes.len(),
        })
    }
}

impl fmt::Display for MirrorAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses.fmt(f)
    }
}
