//! `index`: writes the pages with which pip and uv install from a directory of packages, on disk or
//! in a bucket.

use serde::Serialize;
use serde_json::json;

use super::{
    World,
    args::{AccessArgs, Jobs, PageArgs, SetArg, Variables},
    check, publish,
};
use crate::{
    index::{Addresses, SetJson},
    place::{
        self, IndexOptions, Indexed, IndexedProducts, KnownPackages, PackageDirectories, PlaceArg,
        PlaceDepth, SetPlace,
    },
};
use rocwheel_base::{
    atomic::lock::{Lock, LockPurpose},
    error::{Hint as _, Result, anyhow},
    quantity::{many, shell_word, size},
};

/// Write the package index of a directory or bucket
///
/// Checks the packages first; with errors, writes nothing. Writes `simple/` for `--index-url`,
/// `index.html` beside the packages for `--find-links`, a `.metadata` file beside each wheel,
/// SHA256SUMS and set.json, into SET. Removes the pages of projects that no longer have packages. Reads only files that
/// changed since the last set.json.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel index packages
  rocwheel index s3://bucket/directory --dry-run
  rocwheel index s3://bucket/v5 --layout product")]
pub struct IndexArgs {
    #[command(flatten)]
    set: SetArg,
    /// Treat SET as a release place, and check no packages [default: the packages are in SET, or in its
    /// dist]
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<IndexLayout>,
    #[command(flatten)]
    pages: PageArgs,
    /// Print what would be written, and write nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    gate: check::GateArgs,
    #[command(flatten)]
    access: AccessArgs,
}

/// A layout that the user must name, because `index` does not detect it. Its packages are not checked.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum IndexLayout {
    /// In SET/rocm/{product}/whl-next/{project}, as release places have them
    Product,
}

pub fn run(args: &IndexArgs, world: &World) -> Result<()> {
    let site = args.site(world)?;
    if let Some(IndexLayout::Product) = args.layout {
        return args.index_products(&site, world);
    }
    // A build that ran meanwhile would remove these pages, or leave pages that list other packages.
    let _lock = match site.local() {
        Some(root) if !args.dry_run => Some(Lock::take(root, LockPurpose::Index)?),
        _ => None,
    };
    let options = args.options(args.check(world)?);
    if args.dry_run {
        return world.console.answer(&place::plan_index(&site, &options, world)?);
    }
    let Indexed { set, changed } = place::index(&site, &options, world)?;
    world.console.status("Indexed", facts(&set));
    let addresses = Addresses::new(&site.urls()?.in_layout(set.layout()), &set.families());
    let answer = IndexAnswer { addresses: &addresses, files: set.files.len(), changed };
    world.console.report("index", &answer, &addresses)?;
    let shown = shell_word(&args.set.required()?.to_string());
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
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.pages.read_variables(variables)?;
        self.jobs.read_variables(variables)?;
        self.gate.read_variables(variables);
        self.access.read_variables(variables)
    }

    /// Checks the packages, and returns what is then known of them.
    fn check(&self, world: &World) -> Result<KnownPackages> {
        let place = self.access.place(self.set.required()?, &world.stop)?;
        // The pages are about to be written, so the existing pages do not count.
        let depth = PlaceDepth::Packages(PackageDirectories::All);
        let jobs = self.jobs.count();
        let checked = self.gate.check(&place, depth, jobs, false, world)?;
        checked.verdict.map(|()| checked.read)
    }

    fn site(&self, world: &World) -> Result<SetPlace> {
        let place = self.set.required()?;
        if let PlaceArg::Directory(path) = place
            && path.is_file()
        {
            return Err(anyhow!("a file, not a directory: `{}`", path.display()))
                .hint("pass the directory that `rocwheel build` wrote to");
        }
        let mut place = match place {
            // A directory that is written may be new, but an index is of packages that exist.
            PlaceArg::Directory(path) if !path.exists() => self.access.place(place, &world.stop)?,
            place => self.access.destination(place, &world.stop)?,
        };
        place.directory_pages = !self.pages.no_directory_pages;
        Ok(place)
    }

    /// Writes the pages of a release place.
    fn index_products(&self, site: &SetPlace, world: &World) -> Result<()> {
        if self.dry_run {
            return world.console.answer(&place::plan_index_products(site, world)?);
        }
        let IndexedProducts { products, files, changed } = place::index_products(site, world)?;
        let facts = format!("{}, {}", many(files, "file"), many(changed, "change"));
        world.console.status("Indexed", facts);
        let facts = json!({ "files": files, "changed": changed });
        publish::product_pages("index", products.iter(), site, facts, world)
    }

    fn options(&self, read: KnownPackages) -> IndexOptions {
        IndexOptions { read, jobs: self.jobs.count() }
    }
}

/// The answer after the index was written.
#[derive(Serialize)]
struct IndexAnswer<'a> {
    #[serde(flatten)]
    addresses: &'a Addresses,
    files: usize,
    /// The number of objects that were written or removed.
    changed: usize,
}
