//! Tar archives and their compression. Archives may be damaged or malicious, and are checked while they
//! are read. When archives are written, the same input always gives the same bytes.

mod decompress;
mod read;
mod sdist;
#[cfg(test)]
mod tests;
mod write;

use std::io::{self, Read};

pub use decompress::Decompressor;
pub use read::TarReader;
pub use sdist::{SdistFiles, read_sdist, write_sdist};
pub use write::{TarEntry, TarKind, TarPlan};

/// Headers and contents are padded to multiples of this size.
const BLOCK: usize = 512;

/// The format of an archive, which its file extension tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArchiveFormat {
    /// Zstandard: what CI writes today.
    TarZst,
    /// xz: what older runs have.
    TarXz,
}

impl ArchiveFormat {
    /// The formats of artifacts, in order of preference.
    pub const ALL: [Self; 2] = [Self::TarZst, Self::TarXz];

    /// `.tar.zst` or `.tar.xz`.
    pub fn extension(self) -> &'static str {
        match self {
            Self::TarZst => ".tar.zst",
            Self::TarXz => ".tar.xz",
        }
    }

    /// The format of an artifact, by its extension. `None` for a name that consists only of an
    /// extension.
    pub fn from_file_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| {
            name.strip_suffix(format.extension()).is_some_and(|stem| !stem.is_empty())
        })
    }
}

/// The number of zeros that pad content of `len` bytes to a full block.
fn padding(len: u64) -> u64 {
    len.wrapping_neg() % BLOCK as u64
}

/// Reads once, and again if a signal interrupted the call.
pub(crate) fn read_some(from: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(buf) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads until the buffer is full or the source ends. Returns how many bytes were read.
pub fn read_full(from: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buf.len() {
        match read_some(from, &mut buf[count..])? {
            0 => break,
            read => count += read,
        }
    }
    Ok(count)
}
