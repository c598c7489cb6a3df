//! `framework fuse`: a wheel with ROCm in it, for those who cannot have ROCm as packages of its own.
//!
//! The directories of the ROCm packages are embedded with their names in `_rocm` of the import package,
//! so that each file of ROCm keeps its bytes and its run path, and data files stay where the libraries
//! look for them. Only what the framework needs is embedded: the libraries that its binaries need, all
//! that these need, and what `frameworks.toml` says that they open. Run paths, metadata and tag of the
//! framework change as in [`tie`](super::tie), as if the set were installed in `_rocm`.
//!
//! Wheels that need the first one of a group find ROCm in it, and have none of their own: two copies of
//! HIP in one process do not work.

mod decide;
mod members;
mod plan;
mod write;

use crate::target::Target;

pub use self::{
    decide::decide,
    members::SetMembers,
    plan::FusePlan,
    write::{verify, write},
};

/// The directory in the import package that has the ROCm packages.
const DIRECTORY: &str = "_rocm";

/// How to fuse.
#[derive(Clone, Debug)]
pub struct FuseOptions {
    pub targets: Vec<Target>,
    /// The most bytes that a wheel may have.
    pub max_size: u64,
    /// Whether what compilers need is embedded. `None`: if the framework uses one.
    pub with_compiler: Option<bool>,
}
