//! `BuildOrigin`: a file of an artifact, as a plan refers to it.

use std::path::PathBuf;

use crate::artifact::{ArtifactName, TreeForm};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildOrigin {
    pub artifact: ArtifactName,
    pub path: PathBuf,
    /// 0 while that is to come.
    pub len: u64,
    pub form: TreeForm,
}
