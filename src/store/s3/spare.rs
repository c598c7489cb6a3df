//! Buffers of parts, used again: fresh memory for each would be cleared first.

use std::{
    mem,
    sync::{Arc, Mutex},
};

/// Where large buffers wait. What the store bounds is how many are out at once.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Vec<Vec<u8>>>);

/// A buffer that goes back by itself, once the last one who sends its bytes is done.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    spare: Arc<Spare>,
}

/// Less is not worth keeping.
const LEAST: usize = 1 << 20;

impl Spare {
    /// A buffer of this length; what is in it is what was.
    pub(super) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let used = self.0.lock().ok().filter(|_| len >= LEAST);
        let mut bytes = used.and_then(|mut spare| spare.pop()).unwrap_or_default();
        bytes.resize(len, 0);
        Buffer {
            bytes,
            spare: Arc::clone(self),
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes.len() < LEAST {
            return;
        }
        if let Ok(mut spare) = self.spare.0.lock() {
            spare.push(mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_buffer_waits_until_nobody_has_its_bytes() {
        let spare = Arc::new(Spare::default());
        let waiting = || spare.0.lock().unwrap().len();
        let mut buffer = spare.take(LEAST);
        buffer.as_mut()[0] = 7;
        let bytes = Bytes::from_owner(buffer);
        let other = bytes.clone();
        drop(bytes);
        assert_eq!(waiting(), 0);
        drop(other);
        assert_eq!(waiting(), 1);
        let again = spare.take(LEAST + 1);
        assert_eq!((again.as_ref()[0], again.as_ref().len()), (7, LEAST + 1));
        assert_eq!(waiting(), 0);
    }

    #[test]
    fn small_buffers_do_not_wait() {
        let spare = Arc::new(Spare::default());
        drop(spare.take(LEAST - 1));
        assert!(spare.0.lock().unwrap().is_empty());
    }
}
