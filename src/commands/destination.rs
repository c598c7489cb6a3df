//! Where a set is published.

use std::path::Path;

use crate::{
    error::{Context as _, Result, Stop},
    index::Urls,
    location::{Key, Location},
    set::local_urls,
    store::{
        Store,
        local::LocalStore,
        s3::{Access, S3Store},
    },
};

/// The directory of the set itself, as a path below it.
pub const TOP: &str = "./";

/// A directory of a store, and how the world sees it.
#[derive(Debug)]
pub struct Destination {
    pub store: Box<dyn Store>,
    pub directory: Key,
    pub urls: Urls,
    /// Whether pages have the keys too that clients ask a directory for.
    pub directory_pages: bool,
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
            directory_pages: true,
        })
    }

    /// In a bucket.
    pub fn bucket(place: &Location, access: &Access, stop: &Stop) -> Result<Self> {
        let (bucket, key) = (place.bucket().clone(), place.key().directory());
        let store = S3Store::connect(bucket, access, stop.clone())
            .with_context(|| format!("reach `{place}`"))?;
        Ok(Self {
            urls: access.url(&place.directory()).parse()?,
            store: Box::new(store),
            directory: key,
            directory_pages: true,
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
