//! A package set at a place, near or far: its files, what they say, and the index of them.

mod address;
mod built;
mod directory;
mod facts;
mod files;
mod found;
mod indexing;
mod known;
mod package;
mod pages;
mod place;
mod promised;
pub mod publish;
mod published;
mod read;
mod stale;
mod write;
mod yank;

pub use self::{
    address::local_urls,
    directory::LocalSet,
    found::{PlaceDepth, PublishedSet, find, find_published},
    indexing::{IndexOptions, Indexed, index},
    package::{PackageFile, identity, is_ours},
    place::{NamedPlace, SetPlace},
    published::{Listing, ListingPlace, PageClaim, PublishedFacts, SidecarPromise},
    write::{Act, IndexChange, WriteMode},
    yank::YankList,
};
