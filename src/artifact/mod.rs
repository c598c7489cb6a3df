//! Artifacts, the parts of a build that CI publishes: their names, their archives, and their files
//! on disk.

mod fit;
pub mod input;
mod manifest;
mod name;
mod output;
pub mod sample;
pub mod split;
pub mod tree;
mod unpack;

pub use fit::ensure_fit;
pub use manifest::{ArtifactManifest, TherockManifest};
pub use name::{ArchiveName, ArtifactName, Component, local_path};
pub use output::ArtifactOutput;
pub use tree::{
    Artifact, ArtifactTree, Collision, FileFacts, FileKind, LinkEnd, Merged, Owned, TreeContent,
    TreeFile, TreeForm, merge, same_content, same_entry,
};
pub use unpack::{Staged, UnpackLimits, stage};
