//! Fat artifacts as a generic part and one part for each target: the device code of binaries goes into
//! `.kpack` archives, kernel databases move, and everything else is for every target.

mod memory;
mod observe;
mod work;
mod write;

pub use observe::{ArchivePlace, CodeRemoval, SplitAction, SplitPlan, all};
pub use work::ArchiveSet;
pub(super) use write::link;
pub use write::{WrittenArtifact, write};
