//! Makes the packages of a set from artifacts.
//!
//! The policy says what they are. [`planner::plan`] decides which files go into
//! which package, without reading or writing files. [`assemble`] then writes the packages.

mod artifact_version;
pub mod assemble;
pub mod build;
mod describe;
pub mod document;
pub mod plan;
pub mod planner;
mod request;
mod runtime;
mod split_tree;

pub use plan::SdkTreePacking;
pub use request::{BuildOptions, Expected, OnCollision};
pub use split_tree::Kpack;
