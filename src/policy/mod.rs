//! What the packages are: `packages.toml`, the only place that says it, and the Python that ships in them.
//!
//! [`Catalog`] reads the policy: which package takes which artifacts, and which files it must have.
//! [`DistNames`] has the names of the packages. A [`Subset`] is a part of a set, and knows which artifacts it needs. [`dist_info`] and [`templates`] are what their Python says of
//! a set. Nothing here opens a file.

pub mod catalog;
pub mod devel_manifest;
pub mod dist_info;
mod dist_names;
pub mod naming;
pub mod required_file;
pub mod selector;
pub mod subset;
pub mod templates;

pub use catalog::Catalog;
pub use dist_names::DistNames;
pub use naming::{DistributionMode, ImportSuffix};
pub use subset::Subset;
