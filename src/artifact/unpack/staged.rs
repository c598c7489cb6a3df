//! A directory that is called `NAME.part` while it is written, and `NAME` when it is complete.

use std::path::{Path, PathBuf};

use crate::{
    artifact::{ArtifactName, Unpacked},
    atomic::clear,
    error::{Hint, Result, anyhow},
};

/// A directory that is being written. Dropping it deletes it, unless `put` has renamed it.
pub(super) struct PartialTree {
    path: PathBuf,
    target: PathBuf,
    /// The name that the previous directory has during the replacement.
    old: PathBuf,
    kept: bool,
}

/// An unpacked artifact without its final name. Dropping it deletes it.
pub struct Staged {
    part: PartialTree,
    unpacked: Unpacked,
}

impl PartialTree {
    /// Creates an empty directory. What an earlier attempt left under its name is deleted.
    pub(super) fn create(destination: &Path, name: &ArtifactName) -> Result<Self> {
        let name = name.file_name();
        let part = Self {
            path: destination.join(format!("{name}.part")),
            target: destination.join(&name),
            old: destination.join(format!("{name}.old")),
            kept: false,
        };
        part.check_target()?;
        fs_err::create_dir_all(destination)?;
        clear(&part.path)?;
        fs_err::create_dir(&part.path)?;
        Ok(part)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if a regular file has the name: only directories and symlinks are replaced.
    fn check_target(&self) -> Result<()> {
        match fs_err::symlink_metadata(&self.target) {
            Ok(found) if found.is_file() => Err(anyhow!(
                "a file has this name already: `{}`",
                self.target.display()
            ))
            .hint("remove it, or unpack to another directory"),
            _ => Ok(()),
        }
    }

    /// Renames the directory to its final name. The old one is moved away first, because a rename
    /// cannot replace a directory that is not empty. If the second rename fails, it is moved back.
    /// If the process is killed between the two, only `NAME.old` is left, and the artifact has to
    /// be unpacked again.
    fn put(&mut self) -> Result<()> {
        self.check_target()?;
        let replaces = fs_err::symlink_metadata(&self.target).is_ok();
        if replaces {
            clear(&self.old)?;
            fs_err::rename(&self.target, &self.old)?;
        }
        if let Err(error) = fs_err::rename(&self.path, &self.target) {
            if replaces {
                fs_err::rename(&self.old, &self.target)?;
            }
            return Err(error.into());
        }
        self.kept = true;
        Ok(clear(&self.old)?)
    }
}

impl Drop for PartialTree {
    fn drop(&mut self) {
        if !self.kept {
            // Another error is being reported already.
            let _ = clear(&self.path);
        }
    }
}

impl Staged {
    pub(super) fn new(part: PartialTree, unpacked: Unpacked) -> Self {
        Self { part, unpacked }
    }

    pub fn unpacked(&self) -> &Unpacked {
        &self.unpacked
    }

    /// Renames the artifact to its final name. An older one is replaced.
    pub fn commit(self) -> Result<Unpacked> {
        let Self { mut part, unpacked } = self;
        part.put()?;
        Ok(Unpacked {
            directory: part.target.clone(),
            ..unpacked
        })
    }
}
