//! Host binaries: finds their device code, removes it, and puts it back.
//!
//! `fat` finds bundles and wrappers, `layout` and `change` plan the binary without its code,
//! `check` verifies the plan, and `restore` is the inverse. `coff`, `pe` and `imports` read Windows
//! binaries, which are never changed.

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

/// The section with the bundles of device code.
pub const CODE: &str = ".hip_fatbin";
/// The section with one wrapper per translation unit.
pub const WRAPPERS: &str = ".hipFatBinSegment";
/// The section with the markers, which replace the bundles.
pub const MARKERS: &str = ".rocm_kpack_ref";
