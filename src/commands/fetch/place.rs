//! Which run is meant, and who has its artifacts.

use std::path::{Path, PathBuf};

use super::source::{Source, StoreSource};
use crate::{
    commands::{World, args::RunArgs},
    error::{Error, No, Result, hinted},
    location::Key,
    run::{Buckets, Platform, RunReference},
    store::{Depth, Store, local::LocalStore},
};

/// The run, and where to look.
#[derive(Debug, clap::Args)]
pub(super) struct PlaceArgs {
    #[command(flatten)]
    run: RunArgs,
    /// A directory laid out like a bucket, or with nothing but the archives, instead of a bucket
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_INPUT_DIR")]
    input_dir: Option<PathBuf>,
}

impl PlaceArgs {
    pub(super) fn platform(&self) -> Platform {
        self.run.platform()
    }

    /// Who has the archives.
    pub(super) fn find(&self, _world: &World) -> Result<Box<dyn Source>> {
        match &self.input_dir {
            Some(directory) => self.local(directory),
            None => crate::error::bail!("no `--input-dir`"),
        }
    }

    /// Why there is nothing at all to fetch.
    pub(super) fn nothing(&self, source: &dyn Source) -> Error {
        let run = self
            .run
            .run()
            .map_or_else(|_| String::new(), |run| format!(" of run `{}`", run.id));
        let message = format!("no artifacts{run} for {} in {source}", self.platform());
        hinted(
            No(message),
            "look at `--run-id`, `--platform` and `--bucket`",
        )
    }

    /// The directory of the run in it, or else the directory itself.
    fn local(&self, root: &Path) -> Result<Box<dyn Source>> {
        let store = LocalStore::new(root);
        let directory = match self.run.run() {
            Ok(run) => self.directory_of(run, &store)?,
            Err(_) => None,
        };
        Ok(Box::new(StoreSource::new(Box::new(store), directory)))
    }

    fn directory_of(&self, run: &RunReference, store: &dyn Store) -> Result<Option<Key>> {
        let context = self.run.context()?;
        let repository = context.repository(run)?;
        let name = format!("{}-{}", run.id, self.platform());
        let shared = format!("{}-{}/{name}", repository.owner(), repository.name());
        let mut ways = vec![shared, name];
        if repository == *Buckets::builtin().home() {
            ways.reverse();
        }
        for way in ways {
            let key: Key = way.parse()?;
            if !store.list(Some(&key), Depth::Children)?.is_empty() {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}
