//! A file that several threads read at any offset.

use std::{io, path::Path};

#[cfg(unix)]
use fs_err::os::unix::fs::FileExt;
#[cfg(windows)]
use fs_err::os::windows::fs::FileExt;

use crate::elf::ReadAt;

/// An open file. Its length is fixed when it is opened.
#[derive(Debug)]
pub struct FileAt {
    file: fs_err::File,
    len: u64,
}

impl FileAt {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = fs_err::File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

impl ReadAt for FileAt {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        return self.file.read_at(buffer, offset);
        #[cfg(windows)]
        return self.file.seek_read(buffer, offset);
    }
}
