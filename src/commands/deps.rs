//! `deps`: the base index of dependencies.

use std::{
    fmt,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use fs_err as fs;
use serde::Serialize;

use super::{
    World,
    args::{AccessArgs, Jobs, duration},
};
use crate::{
    console::{many, size},
    deps::{
        self, Lock, MirrorPlan, PythonMinor, SetPackage, UpdateOptions, Wishes, ensure_closed,
        open_requirements, packages_of,
    },
    error::{Context as _, Hint as _, Result},
    run::Platform,
    set::{Addresses, Indexed, NamedPlace, SetPlace, Urls},
};

/// Maintain the base index: the third-party packages that ROCm packages need
///
/// `deps.toml` names the projects. `update` lets uv pick their files and write the lock, a
/// `pylock.toml` with digests; `mirror` copies these files to a place.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel deps update packages
  rocwheel deps check packages
  rocwheel deps mirror --into s3://bucket/python-deps --dry-run")]
pub struct DepsArgs {
    #[command(subcommand)]
    verb: DepsVerb,
}

#[derive(Debug, clap::Subcommand)]
enum DepsVerb {
    Update(Box<DepsUpdateArgs>),
    Check(Box<DepsCheckArgs>),
    Mirror(Box<DepsMirrorArgs>),
}

/// Let uv pick the newest files of the base index, and write the lock
///
/// They fulfil `deps.toml`, the requirements of the sets, and each other, for all Pythons and platforms.
/// Wheels only.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel deps update
  rocwheel deps update packages --deps-file deps.toml")]
struct DepsUpdateArgs {
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    sets: SetArgs,
    /// Package index that the files come from
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://pypi.org/simple/",
        help_heading = "Options"
    )]
    registry: Urls,
    /// Pick no file that is younger: `12h`, `3d`
    #[arg(
        long,
        value_name = "AGE",
        default_value = "3d",
        value_parser = duration,
        help_heading = "Options"
    )]
    min_age: Duration,
}

/// Check that the base index and the sets need nothing else
///
/// For each Python and platform: each project of `deps.toml`, and each requirement of each wheel of the
/// sets, has a version in the lock. Sends no request to a registry.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel deps check
  rocwheel deps check packages s3://bucket/1-windows/python")]
struct DepsCheckArgs {
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    sets: SetArgs,
}

/// Copy the locked files to a place, and write the pages of its index
///
/// Each file is compared with the digest of the lock before it gets its name, and no file is replaced
/// or removed. A rerun copies what is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel deps mirror --into python-deps
  rocwheel deps mirror --into s3://bucket/python-deps --dry-run")]
struct DepsMirrorArgs {
    /// Directory or `s3://bucket/directory` of the base index
    #[arg(long, value_name = "PLACE")]
    into: NamedPlace,
    #[command(flatten)]
    lock: LockArgs,
    /// Write no pages under keys that end in `/`, for servers that reject such keys; installers
    /// then need `--find-links`
    #[arg(long, env = "ROCWHEEL_NO_DIRECTORY_PAGES")]
    no_directory_pages: bool,
    /// Print what would be copied, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct LockArgs {
    /// The lock: files of the base index, with their digests
    #[arg(long, value_name = "FILE", default_value = "deps.lock")]
    lock: PathBuf,
    /// Projects of the base index (default: the list of rocwheel itself, for PyTorch and JAX)
    #[arg(long, value_name = "FILE")]
    deps_file: Option<PathBuf>,
    /// Only these Pythons of `deps.toml`, or others: `3.12,3.13`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pythons: Vec<PythonMinor>,
    /// Only these platforms of `deps.toml`, or others: `linux`, `windows`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    platforms: Vec<Platform>,
}

#[derive(Clone, Debug, clap::Args)]
struct SetArgs {
    /// Sets whose requirements count: a directory, `s3://bucket/directory`, or a URL
    #[arg(value_name = "SET")]
    sets: Vec<PathBuf>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    access: AccessArgs,
}

pub fn run(args: &DepsArgs, world: &World) -> Result<()> {
    match &args.verb {
        DepsVerb::Update(args) => args.run(world),
        DepsVerb::Check(args) => args.run(world),
        DepsVerb::Mirror(args) => args.run(world),
    }
}

impl DepsUpdateArgs {
    fn run(&self, world: &World) -> Result<()> {
        let sets = self.sets.read(world)?;
        let options = UpdateOptions {
            registry: &self.registry.to_string(),
            min_age: self.min_age,
        };
        let wishes = self.lock.wishes()?;
        let earlier = self.lock.read().ok();
        let lock = deps::update(&wishes, &sets, &self.lock.lock, &options, world)?;
        world.console.status("Wrote", self.lock.lock.display());
        world.console.answer(&lock.changes_since(earlier.as_ref()))
    }
}

impl DepsCheckArgs {
    fn run(&self, world: &World) -> Result<()> {
        let sets = self.sets.read(world)?;
        let open = open_requirements(&self.lock.read()?, &self.lock.wishes()?, &sets);
        world.console.answer(&DepsCheckAnswer {
            schema: "rocwheel-deps-check-v2",
            packages: sets.len(),
            open: &open,
        })?;
        ensure_closed(open)
    }
}

impl DepsMirrorArgs {
    fn run(&self, world: &World) -> Result<()> {
        // A registry of others is not to be flooded.
        const MOST: NonZeroUsize = NonZeroUsize::new(8).expect("8 is not 0");
        let jobs = self.jobs.jobs.unwrap_or(MOST);
        let mut place = self.access.named(&self.into, &world.stop)?;
        place.directory_pages = !self.no_directory_pages;
        let (lock, wishes) = (self.lock.read()?, self.lock.wishes()?);
        let plan = MirrorPlan::of(&lock, &wishes, &place, jobs, world)?;
        if self.dry_run {
            return world.console.answer(&plan);
        }
        let indexed = plan.carry_out(&place, jobs, world)?;
        let files = many(indexed.set.files.len(), "file");
        let facts = format!("{files}, {}", size(indexed.set.size()));
        world.console.status("Indexed", facts);
        world.console.answer(&MirrorAnswer::of(&indexed, &place)?)
    }
}

impl LockArgs {
    fn read(&self) -> Result<Lock> {
        let text = fs::read_to_string(&self.lock).hint("`rocwheel deps update` writes it")?;
        Lock::parse(&text).with_context(|| format!("failed to read `{}`", self.lock.display()))
    }

    fn wishes(&self) -> Result<Wishes> {
        let wishes = match &self.deps_file {
            None => Wishes::parse(Wishes::BUILTIN),
            Some(path) => Wishes::parse(&fs::read_to_string(path)?)
                .with_context(|| format!("failed to read `{}`", path.display())),
        };
        Ok(wishes?.limited(&self.pythons, &self.platforms))
    }
}

impl SetArgs {
    fn read(&self, world: &World) -> Result<Vec<SetPackage>> {
        let mut found = Vec::new();
        for set in &self.sets {
            let place = self.access.place(Path::new(set), &world.stop)?;
            let packages = packages_of(&place, self.jobs.count(), world);
            found.extend(packages.with_context(|| format!("failed to read `{}`", set.display()))?);
        }
        Ok(found)
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct DepsCheckAnswer<'a> {
    schema: &'static str,
    /// Those of the sets.
    packages: usize,
    open: &'a [String],
}

impl fmt::Display for DepsCheckAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.open.is_empty() {
            let packages = many(self.packages, "package");
            writeln!(
                f,
                "every requirement of `deps.toml` and of {packages} has a version"
            )?;
        }
        Ok(())
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
            changed: indexed.changed,
        })
    }
}

impl fmt::Display for MirrorAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses.fmt(f)
    }
}
