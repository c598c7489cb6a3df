//! Splits a fat artifact into a generic artifact and one for each target. Device code of binaries
//! moves to `.kpack` archives, kernel databases move to the artifact of their target, and
//! everything else is generic.

mod memory;
mod observe;
mod work;
mod write;

pub use observe::{ArchiveId, ArchivePlace, CodeRemoval, SplitAction, SplitPlan, all};
pub use work::ArchiveSet;
pub(super) use write::link;
pub use write::{WrittenArtifact, write};
