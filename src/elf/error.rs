//! `ElfError`: why an ELF file could not be read or changed. Callers add the path of the file.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is inconsistent, or violates the format.
    #[error("a damaged ELF file: {0}")]
    Damaged(String),
    /// The file may be valid, but has a form that this module does not read or change.
    #[error("an ELF file of a form that is not supported: {0}")]
    Unsupported(String),
    /// A plan was refused because the changed file would not load.
    #[error("the changed ELF file would be broken: {0}")]
    Broken(String),
}

impl ElfError {
    pub(super) fn damaged(fact: impl Into<String>) -> Self {
        Self::Damaged(fact.into())
    }
}
