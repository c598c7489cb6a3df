//! Artifacts, the parts of a build that CI publishes: their names, their archives, and their files
//! on disk.

pub mod input;
mod manifest;
mod name;
mod output;
mod parts;
mod recombine;
mod resolve;
pub mod sample;
pub mod split;
pub mod tree;
mod unpack;

pub use manifest::{ArtifactManifest, Submodule, TherockManifest};
pub use name::{ArchiveName, ArtifactName, Component};
pub use output::ArtifactOutput;
pub use parts::{ensure_fit, is_archive};
pub use recombine::{RecombinedArtifact, parts_by_name, recombine};
pub use tree::{
    Artifact, ArtifactTree, Collision, FileAt, FileFacts, FileKind, LinkEnd, Merged, Owned,
    PermissionBits, TreeContent, TreeFile, TreeForm, merge, same_content,
};
pub use unpack::{Clashes, Staged, UnpackLimits, Unpacked, stage, unpack};
