//! Artifacts, the parts of a build that CI publishes: their names, their archives, and their files
//! on disk.

pub mod input;
mod manifest;
mod name;
mod output;
mod recombine;
mod resolve;
pub mod sample;
pub mod split;
pub mod tree;
mod unpack;

pub use manifest::{ArtifactManifest, TherockManifest};
pub use name::{ArchiveName, ArtifactName, Component, local_path};
pub use output::ArtifactOutput;
pub use recombine::{
    BinaryCode, RecombinedArtifact, code_by_binary, ensure_fit, parts_by_name, recombine,
    restore_code,
};
pub use tree::{
    Artifact, ArtifactTree, Collision, FileAt, FileFacts, FileIdentity, FileKind, FileStamp,
    LinkEnd, Merged, Owned, PermissionBits, TreeContent, TreeFile, TreeForm, merge, same_content,
};
pub use unpack::{Staged, UnpackLimits, Unpacked, Unpacker, stage};
