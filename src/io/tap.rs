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
        Self {
            source,
            stop,
            progress,
        }
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

/// Reads everything, or fails if it is more than `most` bytes.
pub fn read_at_most(source: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("more than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::atomic::Ordering};

    use super::*;

    #[test]
    fn it_counts_and_stops_and_what_is_read_whole_has_a_limit() {
        let (stop, count) = (Stop::default(), Cell::new(0));
        let mut tap = Tap::new(&b"bytes"[..], &stop, |read| count.set(count.get() + read));
        let mut two = [0; 2];
        tap.read_exact(&mut two).unwrap();
        assert_eq!((&two, count.get()), (b"by", 2));
        stop.flag().store(true, Ordering::Relaxed);
        tap.read_exact(&mut two).unwrap_err();
        assert_eq!(count.get(), 2);
        assert_eq!(read_at_most(&b"bytes"[..], 5).unwrap(), b"bytes");
        let said = read_at_most(io::repeat(0), 4).unwrap_err();
        assert_eq!(said.to_string(), "more than 4 bytes");
        assert!(read_at_most(io::empty(), u64::MAX).unwrap().is_empty());
    }
}
