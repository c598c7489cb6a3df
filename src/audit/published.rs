//! `Published`: what the pages of a set say about its files, and what is beside them.

use std::collections::{BTreeMap, BTreeSet};

use crate::digest::Sha256;

/// What was found out about a published set besides its packages.
#[derive(Clone, Debug, Default)]
pub struct Published {
    pub promises: Vec<Promise>,
    /// Promised files that are not there, by name.
    pub gone: BTreeSet<String>,
    /// The bytes of the metadata beside each wheel that a page promises; `None` where there are none.
    pub sidecars: BTreeMap<String, Option<Vec<u8>>>,
    /// Packages beside those that are promised, where the place can be listed.
    pub unlisted: BTreeSet<String>,
    /// Pages that are missing or cannot be understood, and why.
    pub bad_pages: Vec<(String, String)>,
}

/// What one page says of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    pub page: String,
    /// Which of several listings the page belongs to; all of them name the same files.
    pub listing: Listing,
    /// The name of the file.
    pub file: String,
    pub size: Option<u64>,
    pub sha256: Option<Sha256>,
    pub metadata: Option<SidecarPromise>,
}

/// A way to learn the files of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listing {
    SetJson,
    Simple,
    SimpleJson,
    FindLinks,
    Checksums,
}

/// What a page says of the metadata beside a wheel (PEP 658).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidecarPromise {
    There,
    Digest(Sha256),
}

impl Listing {
    pub fn name(self) -> &'static str {
        match self {
            Self::SetJson => "set.json",
            Self::Simple => "simple/",
            Self::SimpleJson => "simple/_json/",
            Self::FindLinks => "index.html",
            Self::Checksums => "SHA256SUMS",
        }
    }
}

impl Published {
    /// The files that each listing names.
    pub fn listings(&self) -> BTreeMap<Listing, BTreeSet<&str>> {
        let mut listings: BTreeMap<Listing, BTreeSet<&str>> = BTreeMap::new();
        for promise in &self.promises {
            let files = listings.entry(promise.listing).or_default();
            files.insert(&promise.file);
        }
        listings
    }

    /// The files that are not there, each with a size if a page tells it.
    pub fn promised_and_gone(&self) -> impl Iterator<Item = (&str, Option<u64>)> {
        let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
        for promise in &self.promises {
            if let Some(size) = promise.size {
                sizes.entry(&promise.file).or_insert(size);
            }
        }
        let gone = self.gone.iter().map(String::as_str);
        gone.map(move |file| (file, sizes.get(file).copied()))
    }
}
