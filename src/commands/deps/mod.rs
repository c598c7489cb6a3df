//! `deps`: the base index of dependencies.

mod check;
mod list;
mod mirror;
mod update;

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::{
    World,
    args::{AccessArgs, Jobs},
};
use crate::{
    deps::{
        ConcernKind, DepsLock, PythonMinor, Registry, RegistryUrl, SetPackage, Wishes, packages_of,
    },
    error::{Context as _, Hint as _, Result},
    run::Platform,
};

/// Maintain the base index: the third-party packages that ROCm packages need
///
/// `deps.toml` names the projects, `deps.lock` has the files with their digests. Only `update` writes
/// the lock; `mirror` copies its files to a place. No Python is needed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel deps update packages
  rocwheel deps check packages
  rocwheel deps mirror --into s3://bucket/python-deps --dry-run
  rocwheel deps list")]
pub struct DepsArgs {
    #[command(subcommand)]
    verb: DepsVerb,
}

#[derive(Debug, clap::Subcommand)]
enum DepsVerb {
    Update(Box<update::DepsUpdateArgs>),
    Check(Box<check::DepsCheckArgs>),
    Mirror(Box<mirror::DepsMirrorArgs>),
    List(list::DepsListArgs),
}

pub fn run(args: &DepsArgs, world: &World) -> Result<()> {
    match &args.verb {
        DepsVerb::Update(args) => update::run(args, world),
        DepsVerb::Check(args) => check::run(args, world),
        DepsVerb::Mirror(args) => mirror::run(args, world),
        DepsVerb::List(args) => list::run(args, world),
    }
}

#[derive(Clone, Debug, clap::Args)]
struct LockArgs {
    /// The lock: files of the base index, with their digests
    #[arg(long, value_name = "FILE", default_value = "deps.lock")]
    deps_lock: PathBuf,
}

impl LockArgs {
    fn read(&self) -> Result<DepsLock> {
        let text = fs::read_to_string(&self.deps_lock).hint("`rocwheel deps update` writes it")?;
        self.parse(&text)
    }

    /// The lock, or an empty one if it does not exist yet.
    fn read_if_there(&self) -> Result<DepsLock> {
        if self.deps_lock.exists() {
            self.read()
        } else {
            Ok(DepsLock::new(Vec::new()))
        }
    }

    fn parse(&self, text: &str) -> Result<DepsLock> {
        let lock = DepsLock::parse(text);
        lock.with_context(|| format!("failed to read `{}`", self.deps_lock.display()))
    }
}

#[derive(Clone, Debug, clap::Args)]
struct WishArgs {
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

impl WishArgs {
    fn read(&self) -> Result<Wishes> {
        let wishes = match &self.deps_file {
            None => Wishes::parse(Wishes::BUILTIN),
            Some(path) => Wishes::parse(&fs::read_to_string(path)?)
                .with_context(|| format!("failed to read `{}`", path.display())),
        };
        Ok(wishes?.limited(&self.pythons, &self.platforms))
    }
}

#[derive(Clone, Debug, clap::Args)]
struct RegistryArgs {
    /// Package index that the files come from
    #[arg(long, value_name = "URL", default_value = "https://pypi.org/simple/")]
    registry: RegistryUrl,
    /// Refuse what is otherwise only reported, comma-separated
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    deny: Vec<ConcernKind>,
}

impl RegistryArgs {
    fn connect(&self, world: &World) -> Result<Registry> {
        Registry::connect(self.registry.clone(), &world.stop)
    }
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

/// Requests to a registry at the same time. A registry of others is not to be flooded.
fn requests(jobs: &Jobs) -> NonZeroUsize {
    const MOST: NonZeroUsize = NonZeroUsize::new(8).expect("8 is not 0");
    jobs.jobs.unwrap_or(MOST)
}
