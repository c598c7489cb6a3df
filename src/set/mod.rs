//! A package set at a place: in a directory, in a bucket or on a web server.
//!
//! `set_json` says what a set is; `pages` and `install` render its index; `place` opens a place,
//! `files`, `known` and `read` read its packages, `local` those of a directory, `links` and
//! `promised` its pages, `offered` what an installer finds there, and `split_projects` those with device
//! code elsewhere; `groups` is the order in which people see packages, and `device` the targets of their names; `mirrored` adds single packages;
//! `items` decides what happens to each object and `write` writes them, for
//! `indexing` and `upload`.

mod aggregate;
mod device;
mod files;
mod groups;
mod indexing;
pub mod install;
mod items;
mod known;
mod links;
mod local;
mod mirrored;
mod offered;
mod others;
mod ownership;
mod pages;
mod place;
mod products;
mod promised;
mod prune;
mod pruned;
mod published;
mod read;
mod set_json;
mod split_projects;
mod tarballs;
#[cfg(test)]
pub(crate) mod tests;
mod upload;
mod urls;
mod write;

pub(crate) use self::links::html_links;
pub use self::{
    aggregate::{AggregateOptions, Aggregated, aggregate},
    files::PackageFile,
    indexing::{IndexChange, IndexOptions, Indexed, REMOVE, YankList, index},
    install::{Choice, Places},
    links::PageLink,
    local::{AttachedFile, LocalSet, because as refusal},
    offered::{OfferedFile, OfferedSet, PackageSource},
    ownership::OwnershipManifest,
    pages::{IndexPage, Phase, pages, paths},
    place::{NamedPlace, SetPlace},
    products::{
        IndexedProducts, ProductDirectories, index_products, plan_products, publish_products,
    },
    promised::{PlaceDepth, PublishedSet, find, find_published},
    prune::{PrunePlan, PruneRule, PrunedPlaces, prune},
    published::{Listing, ListingPlace, PageClaim, PublishedFacts},
    read::{named_metadata, package_metadata},
    set_json::{
        Identity, IndexView, Layout, PART, PackageDirectories, Remembered, SIDECAR, SetFile,
        SetJson, SetStamp, counted, identity, is_of_others, is_ours,
    },
    tarballs::index_tarballs,
    upload::{PlannedUpload, PublishedUpload, UploadOptions, publish},
    urls::{Addresses, Urls},
};
