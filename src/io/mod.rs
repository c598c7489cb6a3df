//! Files on this disk: whether one is still the file that was read, and what is remembered of it; and readers.

mod digest_cache;
mod identity;
mod tap;

use std::io::{BufReader, Read};

pub use digest_cache::{CachedFile, DigestCache};
pub use identity::{FileIdentity, FileStamp, FileState};
pub use tap::Tap;

/// A buffered reader of something of which the length is known. Most readers need a buffer that has been
/// filled with zeros, so a short file gets a small one: 10,000 buffers of 1 MiB take 0.3 s.
pub fn buffered<R: Read>(reader: R, len: u64, most: usize) -> BufReader<R> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    // With one byte more, something that is longer than it should be is noticed.
    BufReader::with_capacity(len.saturating_add(1).min(most), reader)
}
