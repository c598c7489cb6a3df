//! `ElfError`: why there is no answer about a file.

use std::io;

use rocwheel_base::error::Error;

/// Why a file has no facts or no plan. Each says what a caller can do.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The bytes could not be read, which says nothing about them. Reading again may help.
    #[error(transparent)]
    Unread(io::Error),
    /// The file is damaged, or has a layout that is not known. It should stay as it is.
    #[error(transparent)]
    Refused(Error),
}

impl From<Error> for ElfError {
    fn from(error: Error) -> Self {
        error.downcast().map_or_else(Self::Refused, Self::Unread)
    }
}
