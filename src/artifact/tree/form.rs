//! How the bytes of a file come from what lies at its source.

use std::{io, path::Path, sync::Arc};

use crate::{
    artifact::FileAt,
    elf::{Patch, PatchedReader, ReadAt as _},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TreeForm {
    /// As they lie there.
    #[default]
    Whole,
    /// Without the device code that lies there.
    WithoutCode(Arc<Patch>),
    /// Nothing lies there yet: it is written once it is decided what the set holds. Its length is
    /// not known.
    ToCome,
}

impl TreeForm {
    /// The file in its form, read at any place.
    pub fn open(&self, path: &Path) -> io::Result<PatchedReader<FileAt>> {
        let file = FileAt::open(path)?;
        let change = match self {
            Self::Whole | Self::ToCome => Patch::nothing(file.len()),
            Self::WithoutCode(change) => (**change).clone(),
        };
        Ok(PatchedReader::new(file, change))
    }
}
