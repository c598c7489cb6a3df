//! [`BuildOrigin`]: how a plan refers to a file of an artifact.

use std::path::PathBuf;

use crate::artifact::{ArtifactName, TreeForm};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildOrigin {
    pub artifact: ArtifactName,
    pub path: PathBuf,
    /// The length; 0 for a file that is not written yet.
    pub len: u64,
    pub form: TreeForm,
}
