//! `Origin`: a file of an artifact, as a plan refers to it.

use std::path::PathBuf;

use crate::artifact::ArtifactName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub artifact: ArtifactName,
    pub path: PathBuf,
    pub len: u64,
}
