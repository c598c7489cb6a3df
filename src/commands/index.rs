//! `index`: writes the pages with which pip and uv install from a directory of packages, on disk or
//! in a bucket.

mod aggregate;
mod products;

use std::{collections::BTreeSet, fmt, path::PathBuf};

use fs_err as fs;
use serde::Serialize;

use self::aggregate::AggregateArgs;
use super::{
    World,
    args::{AccessArgs, Jobs},
    check,
};
use crate::{
    console::{many, shell_word, size},
    error::{Context as _, Hint as _, Result, anyhow},
    set::{
        Addresses, IndexChange, IndexOptions, Indexed, Layout, NamedPlace, PackageDirectories,
        REMOVE, SetJson, SetPlace, YankList, index,
    },
};

/// Write the package index of a directory or bucket
///
/// Checks the packages first; with errors, writes nothing. Writes `simple/` for `--index-url`,
/// `index.html` beside the packages for `--find-links`, a `.metadata` file beside each wheel,
/// SHA256SUMS and set.json, into DIR. Removes the pages of projects that no longer have packages. Reads only files that
/// changed since the last set.json. `index aggregate` writes the index of several products.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  rocwheel index packages
  rocwheel index s3://bucket/directory --dry-run
  rocwheel index s3://bucket/v5 --layout product
  rocwheel index aggregate --manifest owners.yaml")]
pub struct IndexArgs {
    /// Directory or `s3://bucket/prefix`, with packages in it or in its `dist`
    #[arg(value_name = "DIR", env = "ROCWHEEL_PACKAGES_DIR", required = true)]
    place: Option<NamedPlace>,
    // The flag of `upload` and `summary`, and TheRock's name for it.
    #[arg(
        long,
        alias = "input-packages-dir",
        hide = true,
        conflicts_with = "place"
    )]
    packages_dir: Option<NamedPlace>,
    #[command(subcommand)]
    verb: Option<IndexVerb>,
    /// Where the packages are; `auto` finds them in DIR and in its `dist`. `product` writes the pages of
    /// a release place, without checks
    // Not the variable of `upload`, which says where packages go. A job that sets it may still index
    // what `build` wrote.
    #[arg(
        long,
        value_name = "LAYOUT",
        default_value = "auto",
        env = "ROCWHEEL_INDEX_LAYOUT"
    )]
    layout: LayoutChoice,
    /// Yank the packages in FILE: one file name or `project==version` per line, then a reason
    /// (default: keep earlier yanks)
    #[arg(long, value_name = "FILE")]
    yank: Option<PathBuf>,
    /// Write no pages under keys that end in `/`, for servers that reject such keys; installers
    /// then need `--find-links`
    #[arg(long)]
    no_directory_pages: bool,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    jobs: Jobs,
    /// Write the index without checking the packages
    #[arg(long, help_heading = "Check options")]
    no_check: bool,
    #[command(flatten, next_help_heading = "Check options")]
    policy: check::Policy,
    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Debug, clap::Subcommand)]
enum IndexVerb {
    Aggregate(Box<AggregateArgs>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LayoutChoice {
    /// In both, each file once
    Auto,
    /// In DIR
    Flat,
    /// In DIR/dist
    Dist,
    /// In DIR/rocm/{product}/whl-next/{project}, as release places have them
    Product,
}

pub fn run(args: &IndexArgs, world: &World) -> Result<()> {
    if let Some(IndexVerb::Aggregate(args)) = &args.verb {
        return aggregate::run(args, world);
    }
    let site = args.site(world)?;
    if args.layout == LayoutChoice::Product {
        return args.index_products(&site, world);
    }
    args.check(world)?;
    let indexed = index(&site, &args.options()?, world)?;
    if args.dry_run {
        return world
            .console
            .answer(&IndexPlan::of(&site, &indexed.changes));
    }
    for change in indexed.changes.iter().filter(|it| it.action == REMOVE) {
        world.console.status("Removed", &change.path);
    }
    world.console.status("Indexed", facts(&indexed.set));
    world.console.answer(&IndexReport::new(&indexed, &site)?)?;
    let shown = shell_word(&args.place()?.to_path().to_string_lossy());
    world.console.next(format!("rocwheel summary {shown}"));
    Ok(())
}

/// A line of numbers: files, size, projects.
fn facts(set: &SetJson) -> String {
    let files = &set.files;
    let yanked = match files.iter().filter(|file| file.yanked.is_some()).count() {
        0 => String::new(),
        count => format!(", {count} of them yanked"),
    };
    let others = match set.others() {
        0 => String::new(),
        count => format!(", {count} of them of others"),
    };
    let projects = files.chunk_by(|a, b| a.project == b.project).count();
    format!(
        "{}{others}{yanked}, {}, of {}",
        many(files.len(), "file"),
        size(set.size()),
        many(projects, "project")
    )
}

impl IndexArgs {
    fn check(&self, world: &World) -> Result<()> {
        if self.no_check {
            return Ok(());
        }
        let mut policy = self.policy.clone();
        (policy.jobs, policy.directories) = (self.jobs.clone(), self.directories());
        check::gate(&self.place()?.to_path(), &self.access, &policy, world)
    }

    fn place(&self) -> Result<&NamedPlace> {
        let place = self.place.as_ref().or(self.packages_dir.as_ref());
        place.context("no packages were named")
    }

    fn site(&self, world: &World) -> Result<SetPlace> {
        let place = self.place()?;
        if let NamedPlace::Directory(path) = place
            && path.is_file()
        {
            return Err(anyhow!("a file, not a directory: `{}`", path.display()))
                .hint("pass the directory that `rocwheel build` wrote to");
        }
        let mut place = match place {
            // Fails like other commands.
            NamedPlace::Directory(path) if !path.exists() => {
                self.access.place(path, &world.stop)?
            }
            place => self.access.named(place, &world.stop)?,
        };
        place.directory_pages = !self.no_directory_pages;
        Ok(place)
    }

    fn index_products(&self, site: &SetPlace, world: &World) -> Result<()> {
        if self.yank.is_some() {
            return Err(anyhow!("`--yank` does not go with `--layout product`"))
                .hint("`rocwheel prune --yank` yanks versions of a stream");
        }
        products::run(site, self.dry_run, world)
    }

    fn directories(&self) -> PackageDirectories {
        match self.layout {
            LayoutChoice::Auto | LayoutChoice::Product => PackageDirectories::All,
            LayoutChoice::Flat => PackageDirectories::Only(Layout::Flat),
            LayoutChoice::Dist => PackageDirectories::Only(Layout::Dist),
        }
    }

    fn options(&self) -> Result<IndexOptions> {
        let yank = self.yank.as_ref().map(|file| {
            let list = YankList::parse(&fs::read_to_string(file)?);
            list.with_context(|| format!("failed to read `{}`", file.display()))
        });
        Ok(IndexOptions {
            directories: self.directories(),
            without: BTreeSet::new(),
            yank: yank.transpose()?,
            is_dry_run: self.dry_run,
            is_from_bytes: self.policy.is_from_bytes(),
            jobs: self.jobs.count(),
        })
    }
}

/// The answer after the index was written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct IndexReport {
    schema: &'static str,
    #[serde(flatten)]
    addresses: Addresses,
    files: usize,
    /// The number of objects that were written or removed.
    changed: usize,
}

impl IndexReport {
    fn new(indexed: &Indexed, site: &SetPlace) -> Result<Self> {
        let (set, urls) = (&indexed.set, site.urls()?);
        Ok(Self {
            schema: "rocwheel-index-v1",
            addresses: Addresses::new(&urls.in_layout(set.layout()), &set.families()),
            files: set.files.len(),
            changed: indexed.changes.len(),
        })
    }
}

impl fmt::Display for IndexReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses.fmt(f)
    }
}

/// A line of a dry run.
fn change_line(change: &IndexChange, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let IndexChange { action, path, .. } = change;
    let size = match *action {
        REMOVE => String::new(),
        _ => size(change.size).to_string(),
    };
    writeln!(f, "{action:<7} {size:>10}  {path}")
}

/// The answer of `--dry-run`: what would be written and removed.
#[derive(Debug, Serialize)]
struct IndexPlan<'a> {
    schema: &'static str,
    place: String,
    actions: &'a [IndexChange],
}

impl<'a> IndexPlan<'a> {
    fn of(place: &SetPlace, actions: &'a [IndexChange]) -> Self {
        Self {
            schema: "rocwheel-index-plan-v1",
            place: place.to_string(),
            actions,
        }
    }
}

impl fmt::Display for IndexPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "in {}", self.place)?;
        self.actions.iter().try_for_each(|it| change_line(it, f))?;
        writeln!(f, "{}", many(self.actions.len(), "change"))
    }
}
