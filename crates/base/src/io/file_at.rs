//! [`FileAt`]: an open file that is read at offsets.

use std::{io, path::Path};

#[cfg(unix)]
use fs_err::os::unix::fs::FileExt as _;
#[cfg(windows)]
use fs_err::os::windows::fs::FileExt as _;

/// An open file. Its length is fixed when it is opened.
#[derive(Debug)]
pub struct FileAt {
    file: fs_err::File,
    len: u64,
}

#[expect(clippy::len_without_is_empty, reason = "no caller asks whether it is empty")]
impl FileAt {
    /// Opening a pipe would wait for its writer, and neither it nor a device has a length.
    pub fn open(path: &Path) -> io::Result<Self> {
        if fs_err::metadata(path).is_ok_and(|it| !it.is_file()) {
            let text = format!("not a regular file: `{}`", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let file = fs_err::File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }

    /// The length when the file was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reads at most `buffer.len()` bytes. It may read fewer, and reads none only at the end.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        return self.file.read_at(buffer, offset);
        #[cfg(windows)]
        return self.file.seek_read(buffer, offset);
    }
}
