//! Makes the packages of a set from artifacts.
//!
//! [`Catalog`] loads the policy, `packages.toml`. [`planner::plan`] decides which files go into
//! which package, without reading or writing files. [`assemble`] then writes the packages.

mod artifact_version;
pub mod assemble;
pub mod build;
pub mod catalog;
mod describe;
pub mod devel_manifest;
pub mod dist_info;
mod dist_names;
pub mod document;
pub mod naming;
pub mod plan;
pub mod planner;
mod request;
pub mod required_file;
mod runtime;
pub mod selector;
mod split_tree;
pub mod templates;

pub use catalog::Catalog;
pub use dist_names::DistNames;
pub use naming::{DistributionMode, ImportSuffix};
pub use plan::{BuildPlan, SdkTreePacking};
pub use request::{BuildOptions, Expected, OnCollision, Request, Subset};
pub use split_tree::Kpack;
