//! [`Tap`]: what every long read has in common.

use std::io::{self, Read};

use crate::error::Stop;

/// A reader that fails once the user asks to stop, and says how many bytes it has read.
pub struct Tap<'a, R, F> {
    source: R,
    stop: &'a Stop,
    progress: F,
}

impl<'a, R: Read, F: FnMut(u64)> Tap<'a, R, F> {
    /// Calls `progress` with the number of bytes of each read.
    pub fn new(source: R, stop: &'a Stop, progress: F) -> Self {
        Self { source, stop, progress }
    }
}

impl<R: Read, F: FnMut(u64)> Read for Tap<'_, R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        let count = self.source.read(buffer)?;
        (self.progress)(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::atomic::Ordering};

    use super::*;

    #[test]
    fn it_counts_and_stops() {
        let (stop, count) = (Stop::default(), Cell::new(0));
        let mut tap = Tap::new(&b"bytes"[..], &stop, |read| count.set(count.get() + read));
        let mut two = [0; 2];
        tap.read_exact(&mut two).unwrap();
        assert_eq!((&two, count.get()), (b"by", 2));
        stop.flag().store(true, Ordering::Relaxed);
        tap.read_exact(&mut two).unwrap_err();
        assert_eq!(count.get(), 2);
    }
}
