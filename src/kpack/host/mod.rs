//! Host binaries: the device code in them, and how they are without it.

mod change;
mod check;
mod coff;
mod fat;
mod image;
mod imports;
mod layout;
mod pe;
mod references;
mod relocations;
mod restore;
mod symbols;
#[cfg(test)]
mod tests;
mod wrapper;

pub use change::plan;
pub use coff::{Windows, windows};
pub use fat::{FatFileKind, SplittableBinary, Wrapper, look};
pub use imports::imports;
#[cfg(test)]
pub(crate) use pe::tests as windows_specimen;
pub use references::references;
pub use restore::{Restored, restore};
pub use wrapper::WrapperReference;

/// The section with the bundles.
pub const CODE: &str = ".hip_fatbin";
/// The section with a wrapper for each translation unit.
pub const WRAPPERS: &str = ".hipFatBinSegment";
/// The section with the markers.
pub const MARKERS: &str = ".rocm_kpack_ref";
