//! A package set at a place: in a directory, in a bucket or on a web server.
//!
//! | file | what it does |
//! |---|---|
//! | `set_json` `pages` `groups` `install` `urls` `yank` | what a set is, and its index: pages, install lines, addresses |
//! | `place` `package_files` | opens a place, and lists its packages |
//! | `read_packages` `package_cache` `local` | reads packages that have changed, and the set of a directory |
//! | `parse` `read_index` `claims` `install_source` | parses pages, and says what they claim and where installers find packages |
//! | `sync` | makes a place equal to what a pure function decides |
//! | `upload` `index` `products` `foreign` `mirror` | these functions, for a set, an index, a release place, packages of others beside a set, and a base index |

mod claims;
mod device;
mod foreign;
mod groups;
mod index;
pub mod install;
mod install_source;
mod local;
mod mirror;
mod package_cache;
mod package_files;
mod pages;
mod parse;
mod place;
mod products;
mod read_index;
mod read_packages;
mod set_json;
mod split_projects;
mod sync;
#[cfg(test)]
pub(crate) mod tests;
mod upload;
mod urls;
mod yank;

pub use self::{
    claims::{Listing, ListingPlace, PageClaim, PublishedFacts},
    index::{IndexOptions, Indexed, index, plan_index},
    install::{Choice, Places},
    install_source::{OfferedFile, OfferedSet, PackageSource},
    local::{LocalSet, because as refusal},
    mirror::{MirroredPackage, mirror, plan_mirror, refresh},
    package_files::PackageFile,
    pages::{IndexPage, Phase, pages, paths},
    parse::PageLink,
    place::{NamedPlace, SetPlace},
    products::{
        IndexedProducts, ProductDirectories, PublishedProducts, index_products,
        plan_index_products, plan_products, publish_products,
    },
    read_index::{PlaceDepth, PublishedSet, find},
    read_packages::{named_metadata, package_metadata},
    set_json::{
        Identity, IndexView, Layout, PART, PackageDirectories, Remembered, SIDECAR, SetFile,
        SetJson, SetStamp, counted, identity, is_of_others, is_ours,
    },
    sync::{Existing, Plan},
    upload::{PublishedUpload, UploadOptions, plan_upload, publish},
    urls::{Addresses, Urls},
    yank::YankList,
};
