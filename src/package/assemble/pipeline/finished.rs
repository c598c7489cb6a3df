//! The results that the workers send to the writer.

use std::ops::Range;

use super::buffer::Buffer;
use crate::{digest::Sha256, wheel::writer::StorageMethod};

/// The result of a task.
pub(super) enum FinishedTask<'a> {
    /// Some members, and a buffer with the packed bytes of all of them.
    Batch(Vec<Small>, Buffer<'a>),
    Block(PackedBlock<'a>),
}

/// A member that was packed as a whole.
pub(super) struct Small {
    pub(super) crc: u32,
    pub(super) sha256: Sha256,
    pub(super) method: StorageMethod,
    /// The range of its packed bytes in the buffer.
    pub(super) packed: Range<usize>,
}

/// A packed block of a large member. Only the last block has the SHA-256, of the whole member.
pub(super) struct PackedBlock<'a> {
    pub(super) crc: crc32fast::Hasher,
    pub(super) sha256: Option<Sha256>,
    pub(super) method: StorageMethod,
    pub(super) bytes: Buffer<'a>,
}
