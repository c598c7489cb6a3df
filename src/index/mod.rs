//! What an index says of a set: its document, addresses and pages, and how to read the pages of others. Pure:
//! nothing here opens a file or asks a server.
//!
//! | file | what it has |
//! |---|---|
//! | `package_file` | one file of a set |
//! | `bundled_rocm` | the ROCm packages that a wheel of others has in it |
//! | `set_json` | the document of a set |
//! | `layout` `urls` | where the packages of a set are, and their addresses |
//! | `projects` | the packages of others in a set |
//! | `variants` | what the labels of the variant wheels of a version mean |
//! | `pages` `install` | the pages of an index, and its install lines |
//! | `parse` | from the text of a page to links |

mod bundled_rocm;
pub mod install;
mod layout;
pub mod package_file;
pub mod pages;
pub mod parse;
pub mod projects;
pub mod set_json;
#[cfg(test)]
pub(crate) mod tests;
mod urls;
mod variants;

pub use self::{
    bundled_rocm::{BundledRocm, TIE_RECORD, TIE_SCHEMA, is_directory_of_ours},
    install::{Choice, Places},
    layout::Layout,
    package_file::{PackageFile, SIDECAR, identity, is_of_others, is_ours},
    pages::paths,
    parse::PageLink,
    set_json::{Identity, SetJson, counted},
    urls::{Addresses, Urls},
    variants::{MergedVariants, VariantsOfOthers},
};
#[cfg(test)]
pub use self::{
    package_file::{Remembered, SetStamp},
    pages::pages,
};
