//! A directory that is gone at the end, with all that was not moved out of it.

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::error::Result;

pub struct Staging(PathBuf);

impl Staging {
    /// Makes the directory anew; what an interrupted run left there goes.
    pub fn new(place: PathBuf) -> Result<Self> {
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(&place)?;
        Ok(Self(place))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What is left is of no use, and the error that left it is being told.
        let _ = fs::remove_dir_all(&self.0);
    }
}
