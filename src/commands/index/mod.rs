//! `index`: the pages that let pip and uv install from a directory of packages.

mod address;
mod directory;
mod facts;
mod stale;

use std::{fmt, path::PathBuf};

use serde::Serialize;

pub use address::local_urls;
pub use directory::LocalSet;

use super::World;
use crate::{
    console::{many, size},
    digest::Sha256,
    error::{Context as _, Result, Stop},
    index::{Layout, Page, PageKind, pages},
    location::Key,
    store::{Condition, PutOptions, Store as _, local::LocalStore},
};

/// Write the index of a directory of packages
///
/// In DIR, or for the packages in DIR/dist: `simple/` for `--index-url`, `index.html` for
/// `--find-links`, a `.metadata` file beside each wheel, SHA256SUMS and set.json. Pages of projects
/// that are gone are removed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory; packages are in it, or in its `dist`
    #[arg(value_name = "DIR", env = "ROCWHEEL_PACKAGES_DIR")]
    directory: PathBuf,
    /// Where the packages are: `auto` takes `dist` if there is one
    #[arg(
        long,
        value_name = "LAYOUT",
        default_value = "auto",
        env = "ROCWHEEL_LAYOUT"
    )]
    layout: LayoutChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LayoutChoice {
    Auto,
    /// In DIR
    Flat,
    /// In DIR/dist
    Dist,
}

pub fn run(args: &Args, world: &World) -> Result<()> {
    let layout = match args.layout {
        LayoutChoice::Auto => None,
        LayoutChoice::Flat => Some(Layout::Flat),
        LayoutChoice::Dist => Some(Layout::Dist),
    };
    let set = {
        let progress = world
            .console
            .progress("Reading", args.directory.display(), None);
        LocalSet::read(&args.directory, layout, &world.stop, &|bytes| {
            progress.inc(bytes);
        })?
    };
    let written = write(&set, &world.stop)?;
    for path in &written.removed {
        world.console.status("Removed", path);
    }
    let files = set.set.files();
    world.console.status(
        "Indexed",
        format!(
            "{}, {}, of {}",
            many(files.len(), "file"),
            size(set.set.size()),
            many(set.set.projects().count(), "project")
        ),
    );
    world.console.answer(&Answer::new(&set)?)
}

/// What an index run changed on disk.
#[derive(Debug)]
pub struct Written {
    pub removed: Vec<String>,
}

/// Writes sidecars and pages, each at once, then removes those that nothing leads to any more.
pub fn write(set: &LocalSet, stop: &Stop) -> Result<Written> {
    let store = LocalStore::new(&set.root);
    let mut paths = Vec::new();
    for file in set.set.files() {
        if let Some(sidecar) = &file.metadata {
            let path = format!("{}{}", set.layout.files(), file.sidecar_name());
            put(&store, &path, PageKind::Text, sidecar.bytes())?;
            paths.push(path);
        }
    }
    let mut all: Vec<Page> = pages(&set.set, set.layout);
    all.push(set.document.page());
    for page in all {
        stop.check()?;
        put(&store, &page.path, page.kind, page.body.as_bytes())?;
        paths.push(page.path);
    }
    let removed = stale::remove(&store, set.layout, &paths)?;
    Ok(Written { removed })
}

fn put(store: &LocalStore, path: &str, kind: PageKind, bytes: &[u8]) -> Result<()> {
    let key: Key = path.parse().with_context(|| format!("write `{path}`"))?;
    let options = PutOptions {
        content_type: kind.content_type().to_owned(),
        cache_control: None,
        condition: Condition::Always,
        sha256: Some(Sha256::of(bytes)),
    };
    let done = store.put(&key, &bytes, &options);
    done.with_context(|| format!("write `{path}` in `{store}`"))
}

/// Where the index is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Answer {
    schema: &'static str,
    index_url: String,
    find_links_url: String,
    files: usize,
}

impl Answer {
    fn new(set: &LocalSet) -> Result<Self> {
        let urls = set.urls()?;
        Ok(Self {
            schema: "rocwheel-index-v1",
            index_url: urls.index(),
            find_links_url: urls.find_links(),
            files: set.set.files().len(),
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.index_url)
    }
}
