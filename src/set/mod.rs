//! A package set at a place: in a directory, in a bucket or on a web server.
//!
//! | file | what it does |
//! |---|---|
//! | `set_json` `layout` `projects` `urls` | what a set is: its document, where its packages are, its projects, its addresses |
//! | `pages` `install` | its index and its install lines |
//! | `place` `package_files` | opens a place, and lists its packages |
//! | `read_packages` `local` | reads packages that have changed, and the set of a directory |
//! | `parse` `read_index` `install_source` | parses pages, and says what they claim and where installers find packages |
//! | `sync` | compares a place with the objects that it is to have, and writes the difference |
//! | `upload` `index` `products` `mirror` | these objects, for a set, an index, a release place, and a base index |

mod earlier_set;
mod index;
pub mod install;
mod install_source;
mod layout;
mod local;
mod mirror;
mod package_files;
mod pages;
mod parse;
mod place;
mod products;
mod projects;
mod read_index;
mod read_packages;
mod set_json;
mod sync;
#[cfg(test)]
pub(crate) mod tests;
mod upload;
mod urls;

pub use self::{
    index::{IndexOptions, Indexed, index, plan_index},
    install::{Choice, Places},
    install_source::{OfferedFile, OfferedSet, PackageSource},
    layout::{Layout, PackageDirectories},
    local::{LocalSet, because as refusal},
    mirror::{MirroredPackage, mirror, plan_mirror},
    package_files::PackageFile,
    pages::{IndexPage, Phase, pages, paths},
    parse::PageLink,
    place::{NamedPlace, SetPlace},
    products::{
        IndexedProducts, ProductDirectories, ProductUpload, index_products, plan_index_products,
    },
    read_index::{
        Listing, ListingPlace, PageClaim, PlaceDepth, PublishedFacts, PublishedSet, find,
    },
    read_packages::{KnownPackage, KnownPackages},
    set_json::{
        Identity, IndexView, PART, Remembered, SIDECAR, SetFile, SetJson, SetStamp, counted,
        identity, is_of_others, is_ours,
    },
    sync::{Existing, Plan},
    upload::{PublishedUpload, Upload, UploadOptions},
    urls::{Addresses, Urls},
};
