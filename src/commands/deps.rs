//! `deps`: the base index of dependencies.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use serde_json::json;

use super::{
    World,
    args::{AccessArgs, Jobs, PageArgs, Variables, duration},
};
use crate::{
    deps::{self, Lock, Mirror, SetPackage, Wishes, open_requirements, packages_of},
    index::{Addresses, Urls},
    place::{PlaceArg, refusal},
};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result},
    io::read_text,
    quantity::{many, size},
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
    into: PlaceArg,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    pages: PageArgs,
    /// Print what would be copied, and write nothing
    #[arg(long, short = 'n')]
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
    /// Projects of the base index [default: the list of rocwheel itself, for PyTorch and JAX]
    #[arg(long, value_name = "FILE")]
    deps_file: Option<PathBuf>,
}

#[derive(Clone, Debug, clap::Args)]
struct SetArgs {
    /// Sets whose requirements count: a directory, `s3://bucket/directory`, or a URL
    #[arg(value_name = "SET")]
    sets: Vec<PlaceArg>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    access: AccessArgs,
}

impl DepsArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        match &mut self.verb {
            DepsVerb::Update(args) => args.sets.read_variables(variables),
            DepsVerb::Check(args) => args.sets.read_variables(variables),
            DepsVerb::Mirror(args) => args.read_variables(variables),
        }
    }
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
        let wishes = self.lock.wishes()?;
        let to = &self.lock.lock;
        // Read before `deps::update` replaces it. Without a lock, or with a lock that cannot be read, each version is
        // new.
        let old = self.lock.read().map(|lock| lock.versions()).unwrap_or_default();
        let registry = self.registry.to_string();
        let lock = deps::update(&wishes, &sets, &registry, self.min_age, to, world)?;
        world.console.status("Wrote", to.display());
        let new = lock.versions();
        let shown = |(name, version): &_| format!("{name} {version}");
        let removed: Vec<String> = old.difference(&new).map(shown).collect();
        let added: Vec<String> = new.difference(&old).map(shown).collect();
        let removals = removed.iter().map(|it| format!("- {it}\n"));
        let additions = added.iter().map(|it| format!("+ {it}\n"));
        let lines: String = removals.chain(additions).collect();
        let facts = json!({ "removed": removed, "added": added });
        world.console.report("deps update", &facts, lines)
    }
}

impl DepsCheckArgs {
    fn run(&self, world: &World) -> Result<()> {
        let sets = self.sets.read(world)?;
        let open = open_requirements(&self.lock.read()?, &self.lock.wishes()?, &sets);
        let packages = many(sets.len(), "package");
        let answer = if open.is_empty() {
            format!("every requirement of `deps.toml` and of {packages} has a version")
        } else {
            // The refusal below names the requirements.
            String::new()
        };
        let facts = json!({ "packages": sets.len(), "open": open });
        world.console.report("deps check", &facts, answer)?;
        let count = many(open.len(), "requirement");
        match refusal(format!("{count} without a version in the lock"), open) {
            Some(refusal) => Err(refusal).hint("run `rocwheel deps update` with the same sets"),
            None => Ok(()),
        }
    }
}

impl DepsMirrorArgs {
    fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.pages.read_variables(variables)?;
        self.jobs.read_variables(variables)?;
        self.access.read_variables(variables)
    }

    fn run(&self, world: &World) -> Result<()> {
        // The registry serves everybody, so it gets few requests at once.
        const MOST: NonZeroUsize = NonZeroUsize::new(8).expect("8 is not 0");
        let jobs = self.jobs.jobs.unwrap_or(MOST);
        let mut place = self.access.destination(&self.into, &world.stop)?;
        place.directory_pages = !self.pages.no_directory_pages;
        let lock = self.lock.read()?;
        let wishes = self.lock.wishes()?;
        let mirror = Mirror::new(&lock, &wishes, &place, world)?;
        if self.dry_run {
            return world.console.answer(&mirror.plan()?);
        }
        let indexed = mirror.carry_out(jobs)?;
        let set = &indexed.set;
        let files = many(set.files.len(), "file");
        let facts = format!("{files}, {}", size(set.size()));
        world.console.status("Indexed", facts);
        let urls = place.urls()?.in_layout(set.layout());
        let addresses = Addresses::new(&urls, &set.families());
        let facts = json!({
            "addresses": addresses,
            "files": set.files.len(),
            "size": set.size(),
            "changed": indexed.changed,
        });
        world.console.report("deps mirror", &facts, addresses)
    }
}

impl LockArgs {
    fn read(&self) -> Result<Lock> {
        let lock = read_text(&self.lock).hint("`rocwheel deps update` writes it")?;
        Lock::parse(&lock).with_context(|| format!("failed to read `{}`", self.lock.display()))
    }

    fn wishes(&self) -> Result<Wishes> {
        match &self.deps_file {
            None => Wishes::parse(Wishes::BUILTIN),
            Some(path) => Wishes::parse(&read_text(path)?)
                .with_context(|| format!("failed to read `{}`", path.display())),
        }
    }
}

impl SetArgs {
    fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.jobs.read_variables(variables)?;
        self.access.read_variables(variables)
    }

    fn read(&self, world: &World) -> Result<Vec<SetPackage>> {
        let mut all_packages = Vec::new();
        for set in &self.sets {
            let place = self.access.place(set, &world.stop)?;
            let packages = packages_of(&place, self.jobs.count(), world);
            all_packages.extend(packages.with_context(|| format!("failed to read `{set}`"))?);
        }
        Ok(all_packages)
    }
}
