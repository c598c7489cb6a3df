//! [`Unchanged`]: a reader of a file that must not change meanwhile.

use std::{
    io::{self, Read},
    path::PathBuf,
};

use super::FileIdentity;

/// A reader that fails at its last byte if the file is not the one that the plan was made for.
///
/// To compare only the length is not enough. If a build links a library again while it is packed,
/// the new library mostly has the same length. The wheel would then have the first half of the old
/// library and the second half of the new one.
pub struct Unchanged<R> {
    /// The bytes, which may be those of an open file or of an edit of it.
    pub reader: R,
    /// Where the file is, to look at its identity again.
    pub path: PathBuf,
    /// The identity that was seen before the first byte was read.
    pub identity: FileIdentity,
    /// Bytes not yet read. The identity is compared when this becomes 0.
    pub left: u64,
}

impl<R: Read> Read for Unchanged<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        if self.left == 0 {
            self.identity.ensure_at(&self.path, "while it was packed")?;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_file_that_is_written_while_it_is_read_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libx.so");
        let read = |change: &dyn Fn()| {
            fs_err::write(&path, "the first build").unwrap();
            let identity = FileIdentity::of(&path).unwrap();
            let file = fs_err::File::open(&path).unwrap();
            let mut reader =
                Unchanged { reader: file, path: path.clone(), identity, left: identity.len };
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
        assert!(said.ends_with("libx.so` changed while it was packed"), "{said}");
        let replaced = || {
            let other = path.with_extension("new");
            fs_err::copy(&path, &other).unwrap();
            fs_err::rename(other, &path).unwrap();
        };
        assert!(read(&replaced).is_err());
        // No program can set the time of the last change of an inode.
        #[cfg(unix)]
        let with_its_old_time = || {
            let time = fs_err::metadata(&path).unwrap().modified().unwrap();
            std::thread::sleep(Duration::from_millis(30));
            fs_err::write(&path, "the other build").unwrap();
            let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
            file.file().set_modified(time).unwrap();
        };
        #[cfg(unix)]
        assert!(read(&with_its_old_time).is_err());
    }
}
