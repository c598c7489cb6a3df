//! The results that the workers send to the writer, and the buffers that they are in.

use std::{
    mem,
    ops::{Deref, Range},
    sync::Mutex,
};

use crate::{digest::Sha256, wheel::StorageMethod};

/// The members of a batch or one block of a large member, and a buffer with their packed bytes.
pub(super) struct FinishedTask<'a> {
    pub(super) pieces: Vec<PackedPiece>,
    pub(super) bytes: Buffer<'a>,
}

/// A member that was packed as a whole, or a block of a large one.
pub(super) struct PackedPiece {
    pub(super) crc: crc32fast::Hasher,
    /// The SHA-256 of the whole member. Of its blocks, only the last one has it.
    pub(super) sha256: Option<Sha256>,
    pub(super) method: StorageMethod,
    /// The range of its packed bytes in the buffer.
    pub(super) packed: Range<usize>,
}

impl PackedPiece {
    /// Describes bytes that were packed to the start of `room`, which is at `start` of its buffer.
    /// Those that would not become shorter are copied there.
    pub(super) fn new(bytes: &[u8], packed: Option<usize>, room: &mut [u8], start: usize) -> Self {
        if packed.is_none() {
            room[..bytes.len()].copy_from_slice(bytes);
        }
        let mut crc = crc32fast::Hasher::new();
        crc.update(bytes);
        Self {
            crc,
            sha256: None,
            method: packed.map_or(StorageMethod::Stored, |_| StorageMethod::Deflated),
            packed: start..start + packed.unwrap_or(bytes.len()),
        }
    }
}

/// A pool of unused buffers of one size. It has as many as were ever in use at the same time. To
/// allocate fresh memory for each block takes as long as to hash the block.
pub(super) struct Spare {
    size: usize,
    rooms: Mutex<Vec<Box<[u8]>>>,
}

/// A buffer from the pool. Dropping it returns it to the pool.
pub(super) struct Buffer<'a> {
    pub(super) room: Box<[u8]>,
    /// How many bytes at the start of the buffer are its contents.
    pub(super) len: usize,
    spare: &'a Spare,
}

impl Spare {
    pub(super) fn new(size: usize) -> Self {
        let rooms = Mutex::default();
        Self { size, rooms }
    }

    /// Takes a buffer from the pool, or allocates one.
    pub(super) fn take(&self) -> Buffer<'_> {
        let used = self.rooms.lock().ok().and_then(|mut rooms| rooms.pop());
        Buffer {
            // The allocator gives zeroed pages lazily: what is never written takes no memory.
            room: used.unwrap_or_else(|| vec![0; self.size].into()),
            len: 0,
            spare: self,
        }
    }
}

impl Deref for Buffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room[..self.len]
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if let Ok(mut rooms) = self.spare.rooms.lock() {
            rooms.push(mem::take(&mut self.room));
        }
    }
}
