//! A remote object as a seekable file, read in ranges.

use std::{
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
};

/// Size of the first range. For most wheels, the last 64 KiB hold the ZIP central directory and
/// METADATA.
pub const FIRST: u64 = 64 << 10;
/// Each sequential read doubles the size of the range, up to this.
const LARGEST: u64 = 8 << 20;

/// A [`Read`] and [`Seek`] over range requests. It keeps the end of the object and the last range before
/// it, so that a ZIP reader, which goes back and forth between the central directory and a member, does
/// not request the same bytes twice.
pub struct Ranged<'a> {
    /// Reads exactly the bytes of a range.
    read: Box<dyn FnMut(Range<u64>) -> io::Result<Vec<u8>> + Send + 'a>,
    size: u64,
    /// Where the next read starts.
    at: u64,
    /// The end of the object. Empty before it is read.
    tail: Vec<u8>,
    /// The last range that was read before the tail.
    piece: Vec<u8>,
    piece_start: u64,
}

impl<'a> Ranged<'a> {
    /// An object of `size` bytes. `read` is called with ranges inside of it, and must give all of their
    /// bytes.
    pub fn new(size: u64, read: impl FnMut(Range<u64>) -> io::Result<Vec<u8>> + Send + 'a) -> Self {
        Self {
            read: Box::new(read),
            size,
            at: 0,
            tail: Vec::new(),
            piece: Vec::new(),
            piece_start: 0,
        }
    }

    /// Adds the end of the object, for callers that have already read it.
    #[must_use]
    pub fn with_end(mut self, bytes: Vec<u8>) -> Self {
        self.tail = bytes;
        self
    }

    fn tail_start(&self) -> u64 {
        let len = match self.tail.len() as u64 {
            0 => FIRST,
            len => len,
        };
        self.size.saturating_sub(len)
    }

    /// The bytes from `at` on that were read already.
    fn buffered(&self) -> &[u8] {
        let (start, bytes) = if self.at >= self.tail_start() {
            (self.tail_start(), &self.tail)
        } else {
            (self.piece_start, &self.piece)
        };
        self.at
            .checked_sub(start)
            .and_then(|skip| bytes.get(usize::try_from(skip).ok()?..))
            .unwrap_or_default()
    }

    /// Requests a range that contains `at`.
    fn fetch(&mut self) -> io::Result<()> {
        let tail_start = self.tail_start();
        if self.at >= tail_start {
            self.tail = (self.read)(tail_start..self.size)?;
            return Ok(());
        }
        let last_length = self.piece.len() as u64;
        // A read that goes on where the last one ended will probably go on again. A read elsewhere may need
        // a few bytes only.
        let is_sequential =
            last_length > 0 && self.piece_start.saturating_add(last_length) == self.at;
        let length = if is_sequential { last_length.saturating_mul(2).min(LARGEST) } else { FIRST };
        self.piece = (self.read)(self.at..self.at.saturating_add(length).min(tail_start))?;
        self.piece_start = self.at;
        Ok(())
    }
}

impl Read for Ranged<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.at >= self.size {
            return Ok(0);
        }
        if self.buffered().is_empty() {
            self.fetch()?;
        }
        let count = self.buffered().read(buffer)?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

impl Seek for Ranged<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranged(len: usize) -> (Vec<u8>, Ranged<'static>) {
        let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let object = bytes.clone();
        let read = move |range: Range<u64>| {
            let [start, end] = [range.start, range.end].map(|it| usize::try_from(it).unwrap());
            Ok(object[start..end].to_vec())
        };
        (bytes, Ranged::new(len as u64, read))
    }

    #[test]
    fn it_reads_the_same_as_a_file_from_wherever() {
        let len = 300_000;
        let (bytes, mut ranged) = ranged(len);
        let starts = [len - 22, len - 70_000, 0, 5, 131_071, len - 1, len, len + 5, 70_000];
        for start in starts {
            ranged.seek(SeekFrom::Start(start as u64)).unwrap();
            let mut read = Vec::new();
            ranged.by_ref().take(1000).read_to_end(&mut read).unwrap();
            let end = (start + 1000).min(len);
            assert_eq!(read, bytes.get(start..end).unwrap_or_default(), "{start}");
        }
        ranged.seek(SeekFrom::Start(0)).unwrap();
        let mut whole = Vec::new();
        ranged.read_to_end(&mut whole).unwrap();
        assert!(whole == bytes);
        assert_eq!(ranged.seek(SeekFrom::End(-10)).unwrap(), len as u64 - 10);
        assert!(ranged.seek(SeekFrom::End(-300_001)).is_err());
    }

    #[test]
    fn ranges_grow_and_do_not_overlap() {
        let size: u64 = 1 << 20;
        let mut asked = Vec::new();
        let mut ranged = Ranged::new(size, |range| {
            asked.push((range.start, range.end));
            Ok(vec![0; usize::try_from(range.end - range.start).unwrap()])
        });
        for at in [0, FIRST, size - 22, size - FIRST - 10, size - 1] {
            ranged.seek(SeekFrom::Start(at)).unwrap();
            ranged.read_exact(&mut [0]).unwrap();
        }
        drop(ranged);
        let tail = size - FIRST;
        let expected = [(0, FIRST), (FIRST, 3 * FIRST), (tail, size), (tail - 10, tail)];
        assert_eq!(asked, expected);
    }
}
