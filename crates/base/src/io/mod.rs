//! Files on this disk: whether one is still the file that was read, and what is remembered of it; and readers.

mod digest_cache;
mod file_at;
mod file_cache;
mod identity;
mod tap;
mod unchanged;

use std::{
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

pub use digest_cache::{CachedPackage, DigestCache};
pub use file_at::FileAt;
pub use file_cache::{FileCache, Proof};
pub use identity::{FileIdentity, FileTime};
pub use tap::Tap;
pub use unchanged::Unchanged;

/// A buffered reader of something of which the length is known. Most readers need a buffer that has been
/// filled with zeros, so a short file gets a small one: 10,000 buffers of 1 MiB take 0.3 s.
pub fn buffered<R: Read>(reader: R, len: u64, most: usize) -> BufReader<R> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    // With one byte more, something that is longer than it should be is noticed.
    BufReader::with_capacity(len.saturating_add(1).min(most), reader)
}

/// The longest file that is read whole, if somebody else may have written it.
const LONGEST_SMALL: u64 = 64 << 20;

/// Reads a file that should be small, such as the metadata of an installed package. A device, a pipe and a file
/// of gigabytes are errors: they would block, or fill the memory.
pub fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let refused = |why: &str| {
        let text = format!("failed to read `{}`: {why}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    // Asked before it is opened: opening a pipe waits for its writer. What cannot be asked cannot be opened
    // either, and that error says more.
    if fs_err::metadata(path).is_ok_and(|it| !it.is_file()) {
        return Err(refused("not a regular file"));
    }
    let mut bytes = Vec::new();
    let file = fs_err::File::open(path)?;
    file.take(LONGEST_SMALL + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_SMALL {
        return Err(refused("more than 64 MiB"));
    }
    Ok(bytes)
}

/// The path of an existing file or directory, to show it and to hand it to other programs. Symlinks and `..` are
/// resolved; not the symlinks of Windows, where that gives a path that begins with `\\?\`, which many programs refuse.
pub fn resolved_path(path: &Path) -> io::Result<PathBuf> {
    if cfg!(windows) { std::path::absolute(path) } else { fs_err::canonicalize(path) }
}

/// Reads a text file whole: every document, list and record that is not of a store.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_small(path)?).map_err(|error| {
        let why = error.utf8_error();
        let text = format!("failed to read `{}`: not UTF-8: {why}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}
