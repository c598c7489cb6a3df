//! Artifacts: the slices of a build that CI publishes, as names, as archives and as a tree on disk.

mod manifest;
mod name;
pub mod sample;

pub use manifest::{ArtifactManifest, InvalidManifest, Submodule, TherockManifest, dist_targets};
pub use name::{ArchiveName, ArtifactName, Component, InvalidArchiveName, InvalidArtifactName};
