//! `.kpack` archives: code objects that the runtime finds by key and target.
//!
//! | offset | contents |
//! |---|---|
//! | 0 | `KPAK`, version 1 (4 bytes), offset of the table of contents (8 bytes), zeros |
//! | 64 | the code objects, back to back |
//! | to the end | the table of contents, one `MessagePack` map |
//!
//! With compression, the code objects begin with their number (4 bytes), and each is preceded by
//! its length (4 bytes).

mod read;
#[cfg(test)]
mod tests;
mod toc;
mod write;

use serde::{Deserialize, Serialize};

pub use read::KpackArchive;
pub use toc::{CodeOrigin, StoredCode};
pub use write::{ArchiveWriter, Packed};

/// The magic number of an archive.
pub const MAGIC: &[u8; 4] = b"KPAK";

const VERSION: u64 = 1;
/// The offset of the code objects.
const BLOBS: u64 = 64;

/// How an archive stores its code objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum KpackScheme {
    /// Uncompressed.
    #[default]
    #[serde(rename = "none")]
    Stored,
    /// Each in a zstd frame of its own.
    #[serde(rename = "zstd-per-kernel")]
    Zstd,
}

/// The key of a code object, such as `lib/libfoo.so#0`: the name in the binary's marker, and the
/// number of the bundle.
pub fn key(kernel_name: &str, bundle: usize) -> String {
    format!("{kernel_name}#{bundle}")
}
