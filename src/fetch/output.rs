//! The directory that artifacts are fetched to.

use std::path::{Path, PathBuf};

use super::{
    inventory::ArtifactArchive,
    merge::MergedTree,
    state::{FetchState, Fetched, PathExtent},
};
use crate::error::{Hint as _, Result, anyhow};

/// What becomes of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputForm {
    /// A directory with the content of the artifact.
    Unpacked,
    /// The archive as it came.
    Packed,
    /// Its content is part of one install tree.
    Merged,
}

/// An output directory, and what is known of the artifacts in it.
#[derive(Debug)]
pub struct OutputDir {
    pub root: PathBuf,
    pub form: OutputForm,
    /// Of what is fetched to `work`.
    pub state: FetchState,
    /// The install tree, if one is made.
    pub merged: Option<MergedTree>,
}

impl OutputForm {
    /// What an archive becomes in the directory that it is fetched to.
    pub fn name(self, archive: &ArtifactArchive) -> String {
        match self {
            Self::Unpacked | Self::Merged => archive.artifact().file_name(),
            Self::Packed => archive.name.file_name(),
        }
    }
}

impl OutputDir {
    pub fn open(root: &Path, form: OutputForm) -> Result<Self> {
        if fs_err::metadata(root).is_ok_and(|found| !found.is_dir()) {
            return Err(anyhow!("not a directory: `{}`", root.display()))
                .hint("choose another `--output-dir`");
        }
        let merged = (form == OutputForm::Merged).then(|| MergedTree::at(root));
        let work = merged.as_ref().map_or(root, MergedTree::work);
        Ok(Self {
            state: FetchState::read(work)?,
            root: root.to_owned(),
            form,
            merged,
        })
    }

    /// Where archives are fetched to; of an install tree, a directory inside.
    pub fn work(&self) -> &Path {
        self.merged.as_ref().map_or(&self.root, MergedTree::work)
    }

    /// What was fetched under a name, if all of it is still here.
    pub fn whole(&self, archive: &ArtifactArchive) -> Result<Option<Fetched>> {
        let name = self.form.name(archive);
        let Some(fetched) = self.state.get(&name) else {
            return Ok(None);
        };
        let is_whole = match (&self.merged, fetched.extent) {
            (Some(merged), None) => merged.is_whole(&name)?,
            (None, None) => false,
            (_, extent) => PathExtent::of(&self.work().join(name))? == extent,
        };
        Ok(is_whole.then_some(fetched))
    }

    /// The names of artifacts from elsewhere that are still here, each with where from.
    pub fn others_than(&self, from: &str) -> Vec<(String, String)> {
        let mut others = self.state.others_than(from);
        others.retain(|(name, _)| self.has(name));
        others
    }

    /// Whether there is anything under a name.
    pub fn has(&self, name: &str) -> bool {
        let is_merged = self.merged.as_ref().is_some_and(|it| it.has(name));
        is_merged || fs_err::symlink_metadata(self.work().join(name)).is_ok()
    }
}
