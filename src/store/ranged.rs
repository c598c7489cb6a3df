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
/// How many ranges are cached: a ZIP reader alternates between the central directory and a member.
const HELD: usize = 3;

/// A [`Read`] and [`Seek`] over range requests. It caches the most recent ranges, so that going
/// back and forth does not request the same bytes twice.
pub struct Ranged<'a> {
    /// Reads exactly the bytes of a range.
    read: Box<dyn FnMut(Range<u64>) -> io::Result<Vec<u8>> + Send + 'a>,
    size: u64,
    at: u64,
    /// The cached ranges, most recent first.
    pieces: Vec<CachedRange>,
}

struct CachedRange {
    start: u64,
    bytes: Vec<u8>,
}

impl CachedRange {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }

    fn from(&self, at: u64) -> Option<&[u8]> {
        let skip = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.bytes.get(skip..).filter(|rest| !rest.is_empty())
    }
}

impl<'a> Ranged<'a> {
    pub fn new(size: u64, read: impl FnMut(Range<u64>) -> io::Result<Vec<u8>> + Send + 'a) -> Self {
        Self {
            read: Box::new(read),
            size,
            at: 0,
            pieces: Vec::new(),
        }
    }

    /// Adds the end of the object to the cache, for callers that have already read it.
    #[must_use]
    pub fn with_end(mut self, bytes: Vec<u8>) -> Self {
        let start = self.size.saturating_sub(bytes.len() as u64);
        self.pieces.push(CachedRange { start, bytes });
        self
    }

    /// The range to request next; it contains `at`.
    fn next(&self) -> (u64, u64) {
        // A ZIP reader searches the end of the file backwards for the central directory, so the
        // range that holds the end starts before `at`.
        let tail = self.size.saturating_sub(FIRST);
        if self.at >= tail {
            return (tail, self.size);
        }
        let before = self.pieces.iter().find(|piece| piece.end() == self.at);
        let length = before.map_or(FIRST, |piece| {
            (piece.bytes.len() as u64).saturating_mul(2).min(LARGEST)
        });
        // Stop where a cached range begins.
        let later = self.pieces.iter().map(|piece| piece.start);
        let bound = later.filter(|start| *start > self.at).min();
        let end = self.at.saturating_add(length).min(self.size);
        (self.at, end.min(bound.unwrap_or(u64::MAX)))
    }

    fn fetch(&mut self) -> io::Result<()> {
        let (start, end) = self.next();
        let bytes = (self.read)(start..end)?;
        self.pieces.insert(0, CachedRange { start, bytes });
        self.pieces.truncate(HELD);
        Ok(())
    }
}

impl Read for Ranged<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.at >= self.size {
            return Ok(0);
        }
        if !self
            .pieces
            .iter()
            .any(|piece| piece.from(self.at).is_some())
        {
            self.fetch()?;
        }
        let found = self.pieces.iter().find_map(|piece| piece.from(self.at));
        let count = found.unwrap_or_default().read(buffer)?;
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
        let starts = [
            len - 22,
            len - 70_000,
            0,
            5,
            131_071,
            len - 1,
            len,
            len + 5,
            70_000,
        ];
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
    fn pieces_grow_and_do_not_overlap() {
        let (_, mut ranged) = ranged(1 << 20);
        assert_eq!(ranged.next(), (0, FIRST));
        ranged.fetch().unwrap();
        ranged.at = FIRST;
        assert_eq!(ranged.next(), (FIRST, 3 * FIRST));
        ranged.at = (1 << 20) - 22;
        assert_eq!(ranged.next(), ((1 << 20) - FIRST, 1 << 20));
        ranged.fetch().unwrap();
        ranged.at = (1 << 20) - FIRST - 10;
        assert_eq!(ranged.next(), ((1 << 20) - FIRST - 10, (1 << 20) - FIRST));
    }
}
