//! Where artifacts go, and what is known of those that are there.

use std::path::{Path, PathBuf};

use super::{
    flat::Flat,
    inventory::Archive,
    ledger::{Entry, Ledger},
};
use crate::error::{Hint as _, Result, anyhow};

/// What becomes of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// A directory with the content of the artifact.
    Unpacked,
    /// The archive as it came.
    Packed,
    /// Its content is part of one install tree.
    Merged,
}

/// An output directory.
#[derive(Debug)]
pub struct Shelf {
    pub root: PathBuf,
    pub kept: Kept,
    /// Of what was fetched to `work`.
    pub ledger: Ledger,
    /// The install tree, if that is what is wanted.
    pub flat: Option<Flat>,
}

impl Kept {
    /// What an archive becomes in the directory that it is fetched to.
    pub fn name(self, archive: &Archive) -> String {
        match self {
            Self::Unpacked | Self::Merged => archive.artifact().file_name(),
            Self::Packed => archive.name.file_name(),
        }
    }
}

impl Shelf {
    pub fn open(root: &Path, kept: Kept) -> Result<Self> {
        if fs_err::metadata(root).is_ok_and(|found| !found.is_dir()) {
            return Err(anyhow!("not a directory: `{}`", root.display()))
                .hint("choose another `--output-dir`");
        }
        let flat = match kept {
            Kept::Merged => Some(Flat::open(root)?),
            Kept::Unpacked | Kept::Packed => None,
        };
        let work = flat.as_ref().map_or(root, |flat| flat.work());
        Ok(Self {
            ledger: Ledger::read(work)?,
            root: root.to_owned(),
            kept,
            flat,
        })
    }

    /// Where archives are fetched to; of an install tree, a directory inside.
    pub fn work(&self) -> &Path {
        self.flat.as_ref().map_or(&self.root, Flat::work)
    }

    /// What is recorded of an archive, if what lies here is still as it was then.
    pub fn whole(&self, archive: &Archive) -> Result<Option<Entry>> {
        let name = self.kept.name(archive);
        // What waits to be merged is younger than what is merged.
        match (self.ledger.whole(&name)?, &self.flat) {
            (None, Some(flat)) => flat.whole(&name),
            (entry, _) => Ok(entry),
        }
    }

    /// Has on the disk what was fetched, so that it counts after a crash of the machine.
    pub fn settle(&self) -> Result<()> {
        self.ledger.settle()?;
        self.flat.as_ref().map_or(Ok(()), Flat::settle)
    }

    /// What is there from elsewhere, each with where from.
    pub fn others_than(&self, from: &str) -> Vec<(String, String)> {
        match &self.flat {
            Some(flat) => flat.others_than(from),
            None => self.ledger.others_than(from),
        }
    }

    /// Whether there is anything of an archive.
    pub fn has(&self, archive: &Archive) -> bool {
        let name = self.kept.name(archive);
        let merged = self.flat.as_ref().is_some_and(|flat| flat.has(&name));
        merged || fs_err::symlink_metadata(self.work().join(name)).is_ok()
    }
}
