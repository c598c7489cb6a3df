//! The directory that artifacts are fetched to, and which of them it already has.

use std::{
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::{
    inventory::ArtifactArchive,
    state::{FetchState, Fetched, PathExtent},
};
use crate::{
    artifact::ArtifactName,
    atomic,
    error::{Hint as _, Result, anyhow},
};

/// The directory in an install tree where artifacts wait until they are merged into it.
const WORK: &str = ".rocwheel-fetch";

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
pub(super) struct OutputDir {
    pub root: PathBuf,
    pub form: OutputForm,
    /// The directory that archives are fetched to: `root`, or a directory inside the install tree.
    pub work: PathBuf,
    /// The state of the artifacts in `work` when the directory was opened.
    pub state: FetchState,
}

impl OutputForm {
    /// The name of an archive's file or directory in [`OutputDir::work`].
    pub(super) fn name(self, archive: &ArtifactArchive) -> String {
        match self {
            Self::Unpacked | Self::Merged => archive.name.artifact.file_name(),
            Self::Packed => archive.name.file_name(),
        }
    }
}

impl OutputDir {
    pub(super) fn open(root: &Path, form: OutputForm) -> Result<Self> {
        if fs::metadata(root).is_ok_and(|found| !found.is_dir()) {
            return Err(anyhow!("not a directory: `{}`", root.display()))
                .hint("choose another `--output-dir`");
        }
        let work = match form {
            OutputForm::Merged => root.join(WORK),
            OutputForm::Unpacked | OutputForm::Packed => root.to_owned(),
        };
        Ok(Self {
            state: FetchState::read(&work)?,
            root: root.to_owned(),
            form,
            work,
        })
    }

    /// The recorded state of an archive if all of it is still on disk, otherwise `None`.
    pub(super) fn whole(&self, archive: &ArtifactArchive) -> Result<Option<Fetched>> {
        let name = self.form.name(archive);
        let Some(fetched) = self.state.fetched.get(&name) else {
            return Ok(None);
        };
        let is_whole = match (self.form, fetched.extent) {
            (OutputForm::Merged, None) => self.is_merged_whole(&name)?,
            (_, None) => false,
            (_, extent) => PathExtent::of(&self.work.join(name))? == extent,
        };
        Ok(is_whole.then(|| fetched.clone()))
    }

    /// Whether anything of this name is on disk, complete or not.
    pub(super) fn has(&self, name: &str) -> bool {
        let is_there = |path: PathBuf| fs::symlink_metadata(path).is_ok();
        self.form == OutputForm::Merged && is_there(self.listing_path(name))
            || is_there(self.work.join(name))
    }

    /// Removes the partial downloads of a fetch that was killed, and the directories that an
    /// interrupted merge has left.
    ///
    /// Call it only while holding the lock: without it, another fetch may still be writing these
    /// files.
    pub(super) fn clear(&self) -> io::Result<()> {
        atomic::sweep(&self.work);
        let entries = match fs::read_dir(&self.work) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let part_of = name.strip_suffix(".part");
            let is_part = part_of.is_some_and(|name| ArtifactName::of_file(name).is_ok());
            let recorded = self.state.fetched.get(&name);
            let waits = recorded.is_some_and(|it| it.extent.is_some());
            let is_tree = self.form == OutputForm::Merged && entry.file_type()?.is_dir();
            if is_part || is_tree && !waits {
                atomic::clear(&entry.path())?;
            }
        }
        Ok(())
    }
}
