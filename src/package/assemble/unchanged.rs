//! Detects that another program changed a file while it was packed.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::error::Result;

/// Length, modification time and inode of a file. If another program writes or replaces the file,
/// at least one of them is expected to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    pub(super) len: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

/// A reader that fails at its last byte if the file is not the one that the plan was made for.
///
/// To compare only the length is not enough. If a build links a library again while it is packed,
/// the new library mostly has the same length. The wheel would then have the first half of the old
/// library and the second half of the new one.
pub(super) struct Unchanged<R> {
    reader: R,
    path: PathBuf,
    stamp: FileStamp,
    /// Bytes not yet read. The stamp is compared when this becomes 0.
    left: u64,
}

impl FileStamp {
    pub(super) fn of(path: &Path) -> Result<Self> {
        Ok(Self::read(path)?)
    }

    fn read(path: &Path) -> io::Result<Self> {
        let found = fs_err::metadata(path)?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&found);
        #[cfg(not(unix))]
        let inode = 0;
        Ok(Self {
            len: found.len(),
            modified: found.modified().ok(),
            inode,
        })
    }
}

impl<R> Unchanged<R> {
    pub(super) fn new(reader: R, path: &Path, stamp: FileStamp, len: u64) -> Self {
        Self {
            reader,
            path: path.to_owned(),
            stamp,
            left: len,
        }
    }
}

impl<R: Read> Read for Unchanged<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        if self.left == 0 && FileStamp::read(&self.path)? != self.stamp {
            let path = self.path.display();
            return Err(io::Error::other(format!(
                "`{path}` changed while it was packed"
            )));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_that_is_written_while_it_is_read_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libx.so");
        let read = |change: &dyn Fn()| {
            fs_err::write(&path, "the first build").unwrap();
            let stamp = FileStamp::of(&path).unwrap();
            let file = fs_err::File::open(&path).unwrap();
            let mut reader = Unchanged::new(file, &path, stamp, stamp.len);
            reader.read_exact(&mut [0; 7]).unwrap();
            change();
            reader.read_to_end(&mut Vec::new())
        };
        assert_eq!(read(&|| {}).unwrap(), 8);
        let later = || {
            fs_err::write(&path, "the other build").unwrap();
            let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
            let time = SystemTime::now() + Duration::from_secs(9);
            file.file().set_modified(time).unwrap();
        };
        let said = read(&later).unwrap_err().to_string();
        assert!(
            said.ends_with("libx.so` changed while it was packed"),
            "{said}"
        );
        let replaced = || {
            let other = path.with_extension("new");
            fs_err::copy(&path, &other).unwrap();
            fs_err::rename(other, &path).unwrap();
        };
        assert!(read(&replaced).is_err());
    }
}
