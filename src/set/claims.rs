//! [`PublishedFacts`]: what the pages of a set say about its files, and which files exist. `check`
//! compares them with the packages.

use std::collections::{BTreeMap, BTreeSet};

use super::{parse::PageLink, urls::Urls};
use crate::run::ArtifactGroup;

/// The facts about a published set, besides those of its packages.
#[derive(Clone, Debug, Default)]
pub struct PublishedFacts {
    pub promises: Vec<PageClaim>,
    /// The listings that exist. One without a claim in `promises` names no package.
    pub listings: BTreeSet<ListingPlace>,
    /// Project pages that name no package of their project: page and project.
    pub empty_pages: Vec<(String, String)>,
    /// Files that a page names and that do not exist, by name.
    pub gone: BTreeSet<String>,
    /// The sidecar of each wheel for which a page promises one. `None` if it does not exist.
    pub sidecars: BTreeMap<String, Option<Vec<u8>>>,
    /// Files of other projects that the pages name. They are not read.
    pub foreign: BTreeSet<String>,
    /// Packages that no page names. Empty for places that cannot be listed.
    pub unlisted: BTreeSet<String>,
    /// Pages that another program replaced by lists of their directories.
    pub replaced_pages: BTreeSet<String>,
    /// The find-links pages among them. Such a list has the packages beside it only.
    pub replaced_listings: BTreeSet<ListingPlace>,
    /// The addresses of the set, as commands print them.
    pub urls: Option<Urls>,
    /// Pages of which the two keys differ, and how.
    pub torn_pages: Vec<(String, String)>,
    /// Pages that are missing or cannot be parsed, and why.
    pub bad_pages: Vec<(String, String)>,
}

/// What one page says about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageClaim {
    pub page: String,
    /// The listing that the page belongs to.
    pub listing: ListingPlace,
    /// The name of the file, with the directory of its family if it has one.
    pub file: String,
    pub link: PageLink,
}

/// A kind of list of the files of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum Listing {
    #[strum(serialize = "set.json")]
    SetJson,
    #[strum(serialize = "simple/")]
    Simple,
    #[strum(serialize = "simple/_json/")]
    SimpleJson,
    #[strum(serialize = "index.html")]
    FindLinks,
    #[strum(serialize = "SHA256SUMS")]
    Checksums,
}

/// A listing of the whole set, or of one family that has pages of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListingPlace {
    pub family: Option<String>,
    pub listing: Listing,
}

impl Listing {
    pub(super) fn of(self, family: Option<&str>) -> ListingPlace {
        let (family, listing) = (family.map(str::to_owned), self);
        ListingPlace { family, listing }
    }
}

impl ListingPlace {
    /// `simple/`, or `gfx94X-dcgpu/simple/`.
    pub fn name(&self) -> String {
        let name: &str = self.listing.into();
        match &self.family {
            Some(family) => format!("{family}/{name}"),
            None => name.to_owned(),
        }
    }

    /// The directory of its family in an index: a name that can be one of a group.
    pub fn group(&self) -> Option<ArtifactGroup> {
        ArtifactGroup::of_directory(self.family.as_deref()?).ok()
    }

    /// Whether the listing must name a file. `set.json` and SHA256SUMS name every file; the pages
    /// of a family name the common packages and those of the family.
    pub fn concerns(&self, file: &str) -> bool {
        let is_of_all = matches!(self.listing, Listing::SetJson | Listing::Checksums);
        let family = file.split_once('/').map(|(family, _)| family);
        is_of_all || family.is_none() || family == self.family.as_deref()
    }
}

impl PublishedFacts {
    /// The files that a listing names.
    pub fn named(&self, place: &ListingPlace) -> BTreeSet<&str> {
        let promises = self.promises.iter().filter(|it| it.listing == *place);
        promises.map(|promise| promise.file.as_str()).collect()
    }
}
