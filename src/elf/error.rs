//! Why an ELF file could not be read or changed. The caller knows its path and adds it.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file contradicts itself or the format.
    #[error("a damaged ELF file: {0}")]
    Damaged(String),
    /// A sound file in a form that is not read or changed here.
    #[error("an ELF file of a form that is not supported: {0}")]
    Unsupported(String),
    /// A plan that would break the file was made; it is not handed out.
    #[error("the changed ELF file would be broken: {0}")]
    Broken(String),
}

impl ElfError {
    pub(super) fn damaged(fact: impl Into<String>) -> Self {
        Self::Damaged(fact.into())
    }
}
