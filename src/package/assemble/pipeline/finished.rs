//! What the workers hand to the writer.

use std::ops::Range;

use super::buffer::Buffer;
use crate::{digest::Sha256, wheel::writer::StorageMethod};

/// A task that is done.
pub(super) enum FinishedTask<'a> {
    /// Members, and all of their bytes.
    Batch(Vec<Small>, Buffer<'a>),
    Block(PackedBlock<'a>),
}

/// A whole member.
pub(super) struct Small {
    pub(super) crc: u32,
    pub(super) sha256: Sha256,
    pub(super) method: StorageMethod,
    /// Where its bytes are.
    pub(super) packed: Range<usize>,
}

/// A block of a member; the last one brings the hash of the whole.
pub(super) struct PackedBlock<'a> {
    pub(super) crc: crc32fast::Hasher,
    pub(super) sha256: Option<Sha256>,
    pub(super) method: StorageMethod,
    pub(super) bytes: Buffer<'a>,
}
