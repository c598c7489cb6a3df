//! Device code: the bundles in which compilers store it, the `.kpack` archives in which it ships,
//! and the host binaries from which it is removed.
//!
//! `docs/kpack.md` describes the whole way. All code reads ranges of a file at their offsets, and
//! no file is in memory as a whole.

pub mod archive;
pub mod bundle;
mod code_target;
pub mod contents;
pub mod databases;
pub mod host;
pub mod loader;
mod region;
pub mod split;

pub use code_target::CodeTarget;
pub use host::SplittableBinary;
pub use region::ByteRegion;
pub use split::{Marker, PLACEHOLDER};
