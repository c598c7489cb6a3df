//! `.kpack` archives: code objects by the key and the target that the runtime asks for.

mod read;
#[cfg(test)]
mod tests;
mod toc;
mod write;

use std::fmt;

pub use read::KpackArchive;
pub use toc::{CodeOrigin, StoredCode};
pub use write::{ArchiveWriter, Packed, Packer, WrittenArchive};

/// What an archive begins with.
pub const MAGIC: &[u8; 4] = b"KPAK";

const VERSION: u64 = 1;
/// Where the code begins: behind the magic, the version, the place of the contents, and zeros.
const BLOBS: u64 = 64;

/// How an archive keeps its code objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KpackScheme {
    /// As they are.
    Stored,
    /// Each as a zstd frame of its own.
    Zstd,
}

impl fmt::Display for KpackScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stored => "none",
            Self::Zstd => "zstd-per-kernel",
        })
    }
}

/// What the runtime asks for: the name in the binary's marker and the ordinal of the bundle.
pub fn key(kernel_name: &str, bundle: usize) -> String {
    format!("{kernel_name}#{bundle}")
}
