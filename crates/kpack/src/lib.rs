#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

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
