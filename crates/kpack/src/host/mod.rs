//! Host binaries: finds their device code, and removes it.
//!
//! `fat` finds bundles and wrappers, `layout` and `change` plan the binary without its code, and
//! `check` verifies the plan. `windows` reads Windows binaries, which are never changed.

mod change;
mod check;
mod fat;
mod image;
mod layout;
#[cfg(test)]
mod tests;
mod windows;
mod wrapper;

pub use change::plan;
pub use fat::{FatFileKind, SplittableBinary, look, references};
pub use windows::{Windows, imports, windows};
pub use wrapper::{Wrapper, WrapperReference};

/// The section with the bundles of device code.
pub const CODE: &str = ".hip_fatbin";
/// The section with one wrapper per translation unit.
pub const WRAPPERS: &str = ".hipFatBinSegment";
/// The section with the markers, which replace the bundles.
pub(crate) const MARKERS: &str = ".rocm_kpack_ref";
