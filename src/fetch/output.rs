//! The directory that artifacts are fetched to, and which of them it already has.

use std::path::{Path, PathBuf};

use super::{
    inventory::ArtifactArchive,
    merge::MergedTree,
    state::{FetchState, Fetched, PathExtent},
};
use crate::error::{Hint as _, Result, anyhow};

/// The form in which artifacts are kept on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputForm {
    /// One directory for each artifact, with its contents.
    Unpacked,
    /// The archives as they were downloaded.
    Packed,
    /// One install tree with the contents of all artifacts (`--flatten`).
    Merged,
}

/// The output directory and the recorded state of the artifacts in it.
#[derive(Debug)]
pub struct OutputDir {
    pub root: PathBuf,
    pub form: OutputForm,
    /// The state of the artifacts in [`OutputDir::work`].
    pub state: FetchState,
    /// The install tree, with [`OutputForm::Merged`] only.
    pub merged: Option<MergedTree>,
}

impl OutputForm {
    /// The name of an archive's file or directory in [`OutputDir::work`].
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

    /// The directory that archives are fetched to: `root`, or a directory inside the install tree.
    pub fn work(&self) -> &Path {
        self.merged.as_ref().map_or(&self.root, MergedTree::work)
    }

    /// The recorded state of an archive if all of it is still on disk, otherwise `None`.
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

    /// The artifacts that come from another place than `from` and are still on disk: names and
    /// origins.
    pub fn others_than(&self, from: &str) -> Vec<(String, String)> {
        let mut others = self.state.others_than(from);
        others.retain(|(name, _)| self.has(name));
        others
    }

    /// Whether anything of this name is on disk, complete or not.
    pub fn has(&self, name: &str) -> bool {
        let is_merged = self.merged.as_ref().is_some_and(|it| it.has(name));
        is_merged || fs_err::symlink_metadata(self.work().join(name)).is_ok()
    }
}
