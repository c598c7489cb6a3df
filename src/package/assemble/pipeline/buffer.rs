//! A pool of buffers. To allocate fresh memory for each block takes as long as to hash the block.

use std::{mem, ops::Deref, sync::Mutex};

/// A pool of unused buffers of one size. It has as many as were ever in use at the same time.
pub(super) struct Spare {
    size: usize,
    rooms: Mutex<Vec<Box<[u8]>>>,
}

/// A buffer from the pool. It derefs to its first `len` bytes; dropping it returns it to the pool.
pub(super) struct Buffer<'a> {
    room: Box<[u8]>,
    len: usize,
    spare: &'a Spare,
}

impl Spare {
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            rooms: Mutex::default(),
        }
    }

    /// Takes a buffer from the pool, or allocates one. Its length is 0.
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

impl Buffer<'_> {
    /// The whole buffer, to write into.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.room
    }

    /// Sets how many bytes at the start of the buffer are its contents.
    pub(super) fn set_len(&mut self, len: usize) {
        self.len = len.min(self.room.len());
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if let Ok(mut rooms) = self.spare.rooms.lock() {
            rooms.push(mem::take(&mut self.room));
        }
    }
}

impl Deref for Buffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_is_dropped_is_the_next() {
        let spare = Spare::new(10);
        let (mut first, second) = (spare.take(), spare.take());
        first.room()[3] = 7;
        first.set_len(4);
        assert_eq!(&first[..], [0, 0, 0, 7]);
        drop(first);
        let mut again = spare.take();
        assert_eq!(again.len(), 0);
        assert_eq!(again.room()[3], 7, "no work was done to empty it");
        drop((again, second));
        assert_eq!(spare.rooms.lock().unwrap().len(), 2);
    }

    #[test]
    fn no_more_counts_than_there_is_room_for() {
        let spare = Spare::new(10);
        let mut buffer = spare.take();
        buffer.set_len(11);
        assert_eq!(buffer.len(), 10);
    }
}
