//! Tarballs on web servers: found on the pages that list them, and read from there.

use std::{fmt, io::Read, path::PathBuf};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    SdkDirectory,
    tarballs::{Tarball, TarballWish, listed},
};
use crate::{
    console::size,
    error::{Context as _, Result, Stop},
    location::{Key, encode_path},
    run::StreamPlace,
    store::{Span, Store, StoreFailureKind, http::HttpStore},
    version::Version,
};

/// The longest page that is read.
const LONGEST_PAGE: u64 = 64 << 20;

/// What a tarball would be installed for. Its text is the dry run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TarballPlan {
    schema: &'static str,
    pub url: String,
    pub version: Version,
    pub(super) size: u64,
    directory: PathBuf,
    replaces: bool,
}

impl fmt::Display for TarballPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.replaces { "replace" } else { "create" };
        let (directory, bytes) = (self.directory.display(), size(self.size));
        writeln!(f, "{verb} `{directory}`")?;
        write!(f, "with {}, of {bytes}", self.url)
    }
}

/// A tarball on a web server.
pub struct RemoteTarball {
    store: HttpStore,
    /// The directory that has it.
    directory: Key,
    pub(super) tarball: Tarball,
}

impl RemoteTarball {
    /// The tarball that is wanted, at the first place that has one.
    pub fn find(places: &[StreamPlace], wish: &TarballWish<'_>, stop: &Stop) -> Result<Self> {
        let mut refusal = None;
        for place in places {
            let address = &place.tarballs;
            let (store, directory) = HttpStore::of_url(address.trim_end_matches('/'), stop)?;
            let Some(page) = page(&store, &directory)? else {
                continue;
            };
            let tarballs = listed(&page).with_context(|| format!("failed to read {address}"))?;
            match wish.choose(&tarballs).cloned() {
                Some(tarball) => {
                    return Ok(Self {
                        store,
                        directory,
                        tarball,
                    });
                }
                None => refusal = refusal.or(Some(wish.lacking(address, &tarballs))),
            }
        }
        let addresses = places.iter().map(|it| it.tarballs.as_str()).join(" and ");
        Err(refusal.unwrap_or_else(|| wish.lacking(&addresses, &[])))
    }

    /// Opens it for reading, from its first byte.
    pub(super) fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(self.store.get(&self.key()?, Span::Whole)?)
    }

    fn key(&self) -> Result<Key> {
        Ok(format!("{}/{}", self.directory, self.tarball.name).parse()?)
    }

    fn url(&self) -> String {
        let path = format!("{}/{}", self.directory, self.tarball.name);
        format!("{}/{}", self.store, encode_path(&path))
    }

    /// Decides what is installed, without downloading it.
    pub fn plan(&self, directory: &SdkDirectory) -> Result<TarballPlan> {
        Ok(TarballPlan {
            schema: "rocwheel-sdk-plan-v1",
            url: self.url(),
            version: self.tarball.version.clone(),
            size: self.store.head(&self.key()?)?.size,
            directory: directory.root().to_owned(),
            replaces: directory.is_installed(),
        })
    }
}

/// The page that lists the files of a directory, if there is one. A server in front of a bucket that
/// may not be listed denies what does not exist.
fn page(store: &HttpStore, directory: &Key) -> Result<Option<String>> {
    let key: Key = format!("{directory}/index.html").parse()?;
    let reader = match store.get(&key, Span::Whole) {
        Err(error) => match error.kind() {
            StoreFailureKind::NotFound | StoreFailureKind::Denied => return Ok(None),
            _ => return Err(error.into()),
        },
        Ok(reader) => reader,
    };
    let mut text = String::new();
    let read = reader.take(LONGEST_PAGE).read_to_string(&mut text);
    read.with_context(|| format!("failed to read `{key}` of {store}"))?;
    Ok(Some(text))
}
