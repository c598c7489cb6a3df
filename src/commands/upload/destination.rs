//! Where a set is published.

use std::path::Path;

use super::plan::TOP;
use crate::{
    commands::index::local_urls,
    error::{Context as _, Result},
    index::Urls,
    location::Key,
    store::{Store, local::LocalStore},
};

/// A directory of a store, and how the world sees it.
#[derive(Debug)]
pub struct Destination {
    pub store: Box<dyn Store>,
    pub directory: Key,
    pub urls: Urls,
}

impl Destination {
    /// In a directory that is laid out as a bucket.
    pub fn local(root: &Path, directory: &Key) -> Result<Self> {
        let urls = local_urls(root)?;
        let directory = directory.to_path();
        Ok(Self {
            urls: urls.path(directory.as_str()).parse()?,
            store: Box::new(LocalStore::new(root)),
            directory: directory.as_str().parse()?,
        })
    }

    /// The key of a path below the directory; the path may end in `/`.
    pub fn key(&self, path: &str) -> Result<Key> {
        let below = path.strip_prefix(TOP).unwrap_or(path);
        let key = format!("{}{below}", self.directory.directory());
        key.parse().with_context(|| format!("place `{path}`"))
    }

    /// For people: the store and the directory in it.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.store, self.directory.to_path())
    }
}
