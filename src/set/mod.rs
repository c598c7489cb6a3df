//! A package set at a place: in a directory, in a bucket or on a web server.
//!
//! `place` opens it, `files` and `read` read its packages, `promised` reads its pages, `indexing`
//! and `write` write its index, and `publish` uploads a local set.

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
