//! `PublishedFacts`: what the pages of a set say about its files, and what is beside them.

use std::collections::{BTreeMap, BTreeSet};

use crate::digest::Sha256;

/// What was found out about a published set besides its packages.
#[derive(Clone, Debug, Default)]
pub struct PublishedFacts {
    /// What the set goes without on purpose, by its `set.json`.
    pub without: Vec<String>,
    pub promises: Vec<PageClaim>,
    /// The listings that there are. One without a promise names no package.
    pub listings: BTreeSet<ListingPlace>,
    /// Pages of projects that name no package of their project, each with the project.
    pub empty_pages: Vec<(String, String)>,
    /// Promised files that are not there, by name.
    pub gone: BTreeSet<String>,
    /// The bytes of the metadata beside each wheel that a page promises; `None` where there are none.
    pub sidecars: BTreeMap<String, Option<Vec<u8>>>,
    /// Files of other projects that the pages name. They are not read.
    pub foreign: BTreeSet<String>,
    /// Packages beside those that are promised, where the place can be listed.
    pub unlisted: BTreeSet<String>,
    /// Pages that are missing or cannot be understood, and why.
    pub bad_pages: Vec<(String, String)>,
}

/// What one page says of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageClaim {
    pub page: String,
    /// The listing that the page belongs to.
    pub listing: ListingPlace,
    /// The name of the file; below the directory of its family, if it lies in one.
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

/// A listing of the whole set, or of one family that has pages of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListingPlace {
    pub family: Option<String>,
    pub listing: Listing,
}

/// What a page says of the metadata beside a wheel (PEP 658).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidecarPromise {
    There,
    Digest(Sha256),
}

impl ListingPlace {
    /// `simple/`, or `gfx94X-dcgpu/simple/`.
    pub fn name(&self) -> String {
        let family = self.family.as_ref();
        let directory = family.map_or(String::new(), |family| format!("{family}/"));
        directory + self.listing.name()
    }

    /// Whether the listing has to name a file. Pages of a family name what all families share and
    /// what is of this one; `set.json` and SHA256SUMS name everything.
    pub fn concerns(&self, file: &str) -> bool {
        let is_of_all = matches!(self.listing, Listing::SetJson | Listing::Checksums);
        let family = file.split_once('/').map(|(family, _)| family);
        is_of_all || family.is_none() || family == self.family.as_deref()
    }
}

impl Listing {
    fn name(self) -> &'static str {
        match self {
            Self::SetJson => "set.json",
            Self::Simple => "simple/",
            Self::SimpleJson => "simple/_json/",
            Self::FindLinks => "index.html",
            Self::Checksums => "SHA256SUMS",
        }
    }
}

impl PublishedFacts {
    /// The files that a listing names.
    pub fn named(&self, place: &ListingPlace) -> BTreeSet<&str> {
        let promises = self.promises.iter().filter(|it| it.listing == *place);
        promises.map(|promise| promise.file.as_str()).collect()
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
