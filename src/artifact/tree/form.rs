//! Whether a file is used as it is on disk, or with changes.

use std::{io, path::Path, sync::Arc};

use crate::{
    artifact::FileAt,
    elf::{Patch, PatchedReader, ReadAt as _},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TreeForm {
    /// All bytes as they are on disk.
    #[default]
    Whole,
    /// Without the device code, which the patch removes while reading.
    WithoutCode(Arc<Patch>),
    /// The file does not exist yet: it is written once the contents of the set are decided. Its
    /// length is unknown.
    ToCome,
}

impl TreeForm {
    /// Opens the file with its changes applied, for reading at any offset.
    pub fn open(&self, path: &Path) -> io::Result<PatchedReader<FileAt>> {
        let file = FileAt::open(path)?;
        let change = match self {
            Self::Whole | Self::ToCome => Patch::nothing(file.len()),
            Self::WithoutCode(change) => (**change).clone(),
        };
        Ok(PatchedReader::new(file, change))
    }
}
