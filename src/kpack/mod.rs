//! Device code: the bundles in which compilers leave it, the archives in which it is shipped, and
//! the host files that it is taken out of.
//!
//! `docs/kpack.md` tells the whole way. Everything works on bytes that are read where they lie.

pub mod archive;
pub mod bundle;
mod code_target;
pub mod contents;
pub mod databases;
pub mod fit;
pub mod host;
pub mod loader;
mod marker;
mod region;
pub mod split;

pub use code_target::{CodeTarget, InvalidCodeTarget, generic};
pub use host::SplittableBinary;
pub use marker::{Marker, PLACEHOLDER};
pub use region::ByteRegion;
