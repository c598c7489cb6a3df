//! Buffers that worker threads reuse. Decoded bundles have hundreds of megabytes, and getting fresh
//! pages from the system takes as long as decoding into them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use derive_more::Deref;

use crate::error::{Context as _, Result};

/// At most so many bytes are kept while they are unused. They come on top of what is in use.
const IDLE: usize = 128 << 20;
/// Sizes are rounded up to a multiple of this, so that buffers of similar size fit each other.
const GRAIN: usize = 4 << 20;

#[derive(Default)]
pub(super) struct MemoryPool(Mutex<Vec<Vec<u8>>>);

/// A buffer that returns to the pool when it is dropped.
#[derive(Deref)]
pub(super) struct LentMemory<'a> {
    pool: &'a MemoryPool,
    #[deref(forward)]
    bytes: Vec<u8>,
}

impl MemoryPool {
    /// A buffer of at least `len` bytes, with arbitrary contents.
    pub(super) fn memory(&self, len: u64) -> Result<Vec<u8>> {
        let len = usize::try_from(len)?;
        let mut idle = self.lock();
        let sizes = idle.iter().map(Vec::capacity).enumerate();
        let best = sizes
            .filter(|(_, size)| *size >= len && size / 2 <= len.max(GRAIN))
            .min_by_key(|(_, size)| *size);
        if let Some((index, _)) = best {
            return Ok(idle.swap_remove(index));
        }
        drop(idle);
        let mut fresh = Vec::new();
        fresh
            .try_reserve_exact(len.checked_next_multiple_of(GRAIN).unwrap_or(len))
            .with_context(|| format!("failed to allocate {len} bytes"))?;
        Ok(fresh)
    }

    pub(super) fn lend(&self, bytes: Vec<u8>) -> LentMemory<'_> {
        LentMemory { pool: self, bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LentMemory<'_> {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut idle = self.pool.lock();
        let used: usize = idle.iter().map(Vec::capacity).sum();
        if used.saturating_add(bytes.capacity()) <= IDLE {
            idle.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_by_what_is_nearly_as_large() {
        let tools = MemoryPool::default();
        let first = tools.memory(30 << 20).unwrap();
        let place = first.as_ptr();
        drop(tools.lend(first));
        let second = tools.memory(31 << 20).unwrap();
        assert_eq!(second.as_ptr(), place);
        let third = tools.memory(31 << 20).unwrap();
        assert_ne!(third.as_ptr(), place);
    }

    #[test]
    fn little_never_holds_much_and_idle_memory_is_bounded() {
        let tools = MemoryPool::default();
        drop(tools.lend(tools.memory(100 << 20).unwrap()));
        assert!(tools.memory(10 << 20).unwrap().capacity() < 20 << 20);
        drop(tools.lend(tools.memory(40 << 20).unwrap()));
        let idle: usize = tools.lock().iter().map(Vec::capacity).sum();
        assert_eq!(idle, 100 << 20);
    }

    #[test]
    fn more_than_there_can_be_is_an_error() {
        let error = MemoryPool::default().memory(u64::MAX / 2).unwrap_err();
        insta::assert_snapshot!(error, @"failed to allocate 9223372036854775807 bytes");
    }
}
