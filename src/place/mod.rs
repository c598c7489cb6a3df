//! A package set at a place: in a directory, in a bucket or on a web server.
//!
//! | file | what it does |
//! |---|---|
//! | `place_arg` `set_place` `directory_url` `stored_package` | parses and opens a place, says its addresses, and lists its packages |
//! | `read_packages` `local` | reads packages that have changed, and the set of a directory |
//! | `read_index` `install_source` `offered_versions` | says what pages claim, where installers find packages, and which versions are there |
//! | `first_use` | takes the digests that a place does not say |
//! | `sync` | compares a place with the objects that it is to have, and writes the difference |
//! | `object_memory` | what this machine knows of the objects of a bucket |
//! | `upload` `index` `products` `mirror` | these objects, for a set, an index, a release place, and a base index |
//! | `earlier_set` | whether a set may take the place of the set that is there |

mod directory_url;
mod earlier_set;
mod first_use;
mod index;
mod install_source;
mod local;
mod mirror;
mod object_memory;
mod offered_versions;
mod place_arg;
mod products;
mod read_index;
mod read_packages;
mod set_place;
mod stored_package;
mod sync;
mod upload;
mod variants_of_others;

pub use self::{
    directory_url::urls_of_directory,
    first_use::ServedDigests,
    index::{IndexOptions, Indexed, index, plan_index},
    install_source::{OfferedFile, OfferedSet, PackageSource, UnreadProject},
    local::{LocalSet, because as refusal},
    mirror::{mirror, plan_mirror},
    offered_versions::{
        Completeness, OfferedFramework, OfferedVersion, VersionsOffered, selectors_of,
    },
    place_arg::PlaceArg,
    products::{
        IndexedProducts, ProductDirectories, ProductUpload, index_products, plan_index_products,
    },
    read_index::{Listing, ListingPlace, PageClaim, PlaceDepth, PublishedFacts, find},
    read_packages::{KnownPackage, KnownPackages},
    set_place::{PackageDirectories, SetPlace},
    stored_package::{SetFiles, StoredPackage, one_of_each_store},
    sync::{Existing, Plan},
    upload::{PublishedUpload, Upload, UploadOptions},
};

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
