//! Makes the packages of a set from artifacts.
//!
//! [`Catalog`] loads the policy, `packages.toml`. [`planner::plan`] decides which files go into
//! which package, without reading or writing files. [`assemble`] then writes the packages.

pub mod assemble;
pub mod build;
pub mod catalog;
pub mod complete;
mod describe;
mod devel;
pub mod devel_manifest;
pub mod dist_info;
pub mod document;
mod expected;
pub mod naming;
mod options;
pub mod plan;
pub mod planner;
pub mod promise;
mod python_literal;
mod runtime;
pub mod sdk_tree;
mod search;
pub mod selector;
mod split_tree;
mod subset;
pub mod templates;

pub use catalog::Catalog;
pub use expected::{Expected, expected};
pub use naming::{DistributionMode, ImportSuffix, PublicationName};
pub use options::{BuildOptions, FIRST_DAY, OnCollision, Request};
pub use plan::{BuildPlan, SdkTreePacking};
pub use split_tree::Kpack;
pub use subset::{Sibling, Subset};
