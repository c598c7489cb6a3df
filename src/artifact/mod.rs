//! Artifacts: the slices of a build that CI publishes, as names, as archives and as a tree on disk.

mod manifest;
mod name;
mod parts;
mod resolve;
pub mod sample;
pub mod tree;
mod unpack;

pub use manifest::{ArtifactManifest, InvalidManifest, Submodule, TherockManifest, dist_targets};
pub use name::{ArchiveName, ArtifactName, Component, InvalidArchiveName, InvalidArtifactName};
pub use parts::{ensure_fit, is_archive};
pub use tree::{
    Artifact, ArtifactTree, Collision, Content, FileAt, FileFacts, FileKind, Form, FormedFile,
    LinkEnd, Merged, Mode, Owned, TreeFile, merge, same_content,
};
pub use unpack::{Clashes, Limits, Staged, Unpacked, stage, unpack};
