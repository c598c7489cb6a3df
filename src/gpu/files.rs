//! The files of the kernel that describe devices: `/sys`, or a directory like it.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;

/// The files below `/sys`, by their path below it.
pub trait SysFiles {
    fn read(&self, path: &str) -> io::Result<String>;
    /// The names in a directory. Empty if there is no such directory.
    fn names(&self, directory: &str) -> Vec<String>;
    /// The name at the end of what a symlink leads to.
    fn link(&self, path: &str) -> Option<String>;
}

/// A directory with the files of `/sys`.
pub struct SysDirectory(PathBuf);

impl SysDirectory {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

impl SysFiles for SysDirectory {
    fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.0.join(path))
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(directory)).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.collect()
    }

    fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.0.join(path)).ok()?;
        let name = Path::new(&target).file_name().and_then(OsStr::to_str);
        name.map(str::to_owned)
    }
}
