//! `NAME.part` until it is whole, then `NAME`.

use std::path::{Path, PathBuf};

use crate::{
    artifact::{ArtifactName, Unpacked},
    atomic::clear,
    error::{Hint, Result, anyhow},
};

/// A directory that goes when this goes, unless it was given its final name.
pub(super) struct PartialTree {
    path: PathBuf,
    target: PathBuf,
    /// Where what was there before waits until it is replaced.
    old: PathBuf,
    kept: bool,
}

/// An artifact that is unpacked and waits for `commit` to get its name.
pub struct Staged {
    part: PartialTree,
    unpacked: Unpacked,
}

impl PartialTree {
    /// Begins anew, whatever an earlier attempt left.
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

    /// Only an artifact, or a link to one, is ever replaced.
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

    /// Puts the directory where it belongs; if that fails, what was there is there again.
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
            // There is another error to report already.
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

    /// Gives the artifact its name, in place of an older one.
    pub fn commit(self) -> Result<Unpacked> {
        let Self { mut part, unpacked } = self;
        part.put()?;
        Ok(Unpacked {
            directory: part.target.clone(),
            ..unpacked
        })
    }
}
