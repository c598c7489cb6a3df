//! `index`: writes the pages with which pip and uv install from a directory of packages, on disk or
//! in a bucket.

use std::{collections::BTreeSet, path::PathBuf};

use fs_err as fs;
use serde::Serialize;

use super::{
    World,
    args::{AccessArgs, Jobs, PageArgs},
    check,
};
use crate::{
    check::facts_of,
    console::{many, shell_word, size},
    error::{Context as _, Hint as _, Result, anyhow},
    set::{
        self, Addresses, IndexOptions, Indexed, IndexedProducts, Layout, NamedPlace,
        PackageDirectories, PlaceDepth, SetJson, SetPlace, YankList,
    },
};

/// Write the package index of a directory or bucket
///
/// Checks the packages first; with errors, writes nothing. Writes `simple/` for `--index-url`,
/// `index.html` beside the packages for `--find-links`, a `.metadata` file beside each wheel,
/// SHA256SUMS and set.json, into DIR. Removes the pages of projects that no longer have packages. Reads only files that
/// changed since the last set.json.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel index packages
  rocwheel index s3://bucket/directory --dry-run
  rocwheel index s3://bucket/v5 --layout product")]
pub struct IndexArgs {
    /// Directory or `s3://bucket/prefix`, with packages in it or in its `dist`
    #[arg(value_name = "DIR", required = true)]
    place: Option<NamedPlace>,
    // The flag of `upload` and `summary`, and TheRock's name for it.
    #[arg(
        long,
        alias = "input-packages-dir",
        hide = true,
        conflicts_with = "place"
    )]
    packages_dir: Option<NamedPlace>,
    /// Where the packages are; `auto` finds them in DIR and in its `dist`. `product` writes the pages of
    /// a release place, without checks
    #[arg(long, value_name = "LAYOUT", default_value = "auto")]
    layout: LayoutChoice,
    /// Yank the packages in FILE: one file name or `project==version` per line, then a reason
    /// (default: keep earlier yanks)
    #[arg(long, value_name = "FILE")]
    yank: Option<PathBuf>,
    #[command(flatten)]
    pages: PageArgs,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    gate: check::GateArgs,
    #[command(flatten)]
    access: AccessArgs,
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
    let site = args.site(world)?;
    if args.layout == LayoutChoice::Product {
        return args.index_products(&site, world);
    }
    args.check(world)?;
    let options = args.options()?;
    if args.dry_run {
        return world
            .console
            .answer(&set::plan_index(&site, &options, world)?);
    }
    let indexed = set::index(&site, &options, world)?;
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
        if self.gate.no_check {
            return Ok(());
        }
        let place = self.access.named(self.place()?, &world.stop)?;
        // The pages are about to be written, so those that are there do not count.
        let depth = PlaceDepth::Packages(self.directories());
        let set = facts_of(&place, depth, self.jobs.count(), world)?;
        let policy = &self.gate.policy;
        policy.verdict(&policy.check(&set, world)?)
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
        place.directory_pages = !self.pages.no_directory_pages;
        Ok(place)
    }

    /// Writes the pages of a release place.
    fn index_products(&self, site: &SetPlace, world: &World) -> Result<()> {
        if self.yank.is_some() {
            return Err(anyhow!("`--yank` does not go with `--layout product`"))
                .hint("leave `--yank` out; the pages keep the yanks that they have");
        }
        if self.dry_run {
            return world
                .console
                .answer(&set::plan_index_products(site, world)?);
        }
        let IndexedProducts {
            products,
            files,
            changed,
        } = set::index_products(site, world)?;
        let facts = format!("{}, {}", many(files, "file"), many(changed, "change"));
        world.console.status("Indexed", facts);
        let urls = site.urls()?;
        world.console.answer(&ProductsReport {
            schema: "rocwheel-indexed-products-v1",
            pages: products
                .iter()
                .map(|it| urls.path(&format!("{it}/")))
                .collect(),
            files,
            changed,
        })
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
            jobs: self.jobs.count(),
        })
    }
}

/// The answer after the index was written.
#[derive(Debug, derive_more::Display, Serialize)]
#[display("{addresses}")]
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
            changed: indexed.changed,
        })
    }
}

/// The answer after the pages of a release place were written.
#[derive(Debug, derive_more::Display, Serialize)]
#[display("{}", pages.join("\n"))]
struct ProductsReport {
    schema: &'static str,
    /// The pages of the products.
    pages: Vec<String>,
    files: usize,
    /// The number of objects that were written.
    changed: usize,
}
