//! `ByteRegion`: a range of a file that is read like a file of its own, and a buffered reader over
//! it.

use std::io::{self, BufRead, Read};

use crate::{
    elf::{ReadAt, read_exact_at},
    error::{Context as _, Result, bail},
};

/// How many bytes are read, and allocated, at once.
const STEP: usize = 1 << 20;
/// How many bytes `Through` buffers: first a page, then more.
const FIRST: usize = 1 << 12;
const FURTHER: usize = 1 << 16;

/// A range of a file, checked to lie within the file.
#[derive(Debug)]
pub struct ByteRegion<'a, R: ?Sized> {
    source: &'a R,
    start: u64,
    len: u64,
}

impl<R: ?Sized> Clone for ByteRegion<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: ?Sized> Copy for ByteRegion<'_, R> {}

impl<'a, R: ReadAt + ?Sized> ByteRegion<'a, R> {
    /// The whole file.
    pub fn whole(source: &'a R) -> Self {
        Self {
            source,
            start: 0,
            len: source.len(),
        }
    }

    /// A range of a file. The error names `what` if the range is not within the file.
    pub fn new(source: &'a R, what: &str, start: u64, len: u64) -> Result<Self> {
        Self::whole(source).part(what, start, len)
    }

    /// A part of this region, relative to its start.
    pub fn part(&self, what: &str, start: u64, len: u64) -> Result<Self> {
        let size = self.len;
        if start.checked_add(len).is_none_or(|end| end > size) {
            bail!("the {what} lies outside of what holds it: {len} bytes at {start} of {size}");
        }
        Ok(Self {
            source: self.source,
            start: self.start.saturating_add(start),
            len,
        })
    }

    /// Reads a part of this region.
    pub fn bytes(&self, what: &str, start: u64, len: u64) -> Result<Vec<u8>> {
        let part = self.part(what, start, len)?;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < len {
            // A length that is within the file may still be larger than the memory of the machine,
            // so memory is allocated step by step.
            let done = bytes.len();
            let rest = usize::try_from(len)
                .unwrap_or(usize::MAX)
                .saturating_sub(done);
            bytes.resize(done.saturating_add(rest.min(STEP)), 0);
            let free = bytes.get_mut(done..).unwrap_or_default();
            part.fill(what, done as u64, free)?;
        }
        Ok(bytes)
    }

    /// Fills a buffer with the bytes from `start` on.
    pub fn fill(&self, what: &str, start: u64, buffer: &mut [u8]) -> Result<()> {
        let part = self.part(what, start, buffer.len() as u64)?;
        read_exact_at(&part, 0, buffer).with_context(|| format!("failed to read the {what}"))
    }

    /// Reads a little-endian number of `size` bytes.
    pub(super) fn number(&self, what: &str, at: u64, size: u64) -> Result<u64> {
        let bytes = self.bytes(what, at, size)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    /// Whether the region has these bytes at `at`.
    pub(super) fn has(&self, at: u64, expected: &[u8]) -> Result<bool> {
        let len = expected.len() as u64;
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Ok(false);
        }
        Ok(self.bytes("magic", at, len)? == expected)
    }

    /// The offset of the first byte from `at` on that is not zero; the end if all are zero.
    pub(super) fn skip_zeros(&self, at: u64) -> Result<u64> {
        let mut through = self.from(at);
        loop {
            let chunk = through.fill_buf().context("failed to skip zeros")?;
            if chunk.is_empty() {
                return Ok(self.len);
            }
            let zeros = chunk.iter().take_while(|byte| **byte == 0).count();
            let all = zeros == chunk.len();
            through.consume(zeros);
            if !all {
                return Ok(through.position());
            }
        }
    }

    /// A reader that begins at an offset.
    pub(super) fn from(&self, at: u64) -> Through<'a, R> {
        Through {
            region: *self,
            next: at.min(self.len),
            buffer: Vec::new(),
            used: 0,
        }
    }
}

impl<R: ReadAt + ?Sized> ReadAt for ByteRegion<'_, R> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.len.saturating_sub(offset);
        let count = buffer
            .len()
            .min(usize::try_from(rest).unwrap_or(usize::MAX));
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        self.source
            .read_at(self.start.saturating_add(offset), buffer)
    }
}

/// A buffered reader that knows its position: `position` is exact although more bytes are buffered.
/// The end of a compressed stream is found this way.
pub(super) struct Through<'a, R: ?Sized> {
    region: ByteRegion<'a, R>,
    next: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl<R: ReadAt + ?Sized> Through<'_, R> {
    /// The offset of the next byte that the caller gets.
    pub(super) fn position(&self) -> u64 {
        let unread = self.buffer.len().saturating_sub(self.used);
        self.next.saturating_sub(unread as u64)
    }
}

impl<R: ReadAt + ?Sized> BufRead for Through<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used >= self.buffer.len() {
            // Zeros between bundles are rarely longer than a page, so the first read is small.
            let is_first = self.buffer.capacity() == 0;
            self.used = 0;
            self.buffer
                .resize(if is_first { FIRST } else { FURTHER }, 0);
            let read = loop {
                match self.region.read_at(self.next, &mut self.buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            self.next = self.next.saturating_add(read? as u64);
        }
        Ok(self.buffer.get(self.used..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.used = self.used.saturating_add(count).min(self.buffer.len());
    }
}

impl<R: ReadAt + ?Sized> Read for Through<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_never_leaves_what_holds_it() {
        let bytes = b"0123456789".to_vec();
        let region = ByteRegion::new(&bytes, "middle", 2, 5).unwrap();
        assert_eq!(region.bytes("all", 0, 5).unwrap(), b"23456");
        let mut buffer = [0; 9];
        assert_eq!(region.read_at(3, &mut buffer).unwrap(), 2);
        assert_eq!(region.read_at(9, &mut buffer).unwrap(), 0);
        insta::assert_snapshot!(region.bytes("tail", 3, 3).unwrap_err(), @"the tail lies outside of what holds it: 3 bytes at 3 of 5");
        insta::assert_snapshot!(ByteRegion::new(&bytes, "head", u64::MAX, 2).unwrap_err(), @"the head lies outside of what holds it: 2 bytes at 18446744073709551615 of 10");
    }

    #[test]
    fn a_buffer_is_filled_or_nothing_is_read() {
        let bytes = b"0123456789".to_vec();
        let region = ByteRegion::new(&bytes, "middle", 2, 5).unwrap();
        let mut buffer = [0; 3];
        region.fill("end", 2, &mut buffer).unwrap();
        assert_eq!(&buffer, b"456");
        insta::assert_snapshot!(region.fill("end", 3, &mut buffer).unwrap_err(), @"the end lies outside of what holds it: 3 bytes at 3 of 5");
    }

    #[test]
    fn zeros_are_skipped_across_buffers() {
        let mut bytes = vec![0; 200_000];
        let region = ByteRegion::whole(&bytes);
        assert_eq!(region.skip_zeros(5).unwrap(), 200_000);
        bytes[150_000] = 7;
        let region = ByteRegion::whole(&bytes);
        assert_eq!(region.skip_zeros(5).unwrap(), 150_000);
        assert_eq!(region.skip_zeros(150_001).unwrap(), 200_000);
        assert_eq!(region.skip_zeros(u64::MAX).unwrap(), 200_000);
    }

    #[test]
    fn a_reader_knows_how_far_it_is() {
        let bytes = vec![1; 100_000];
        let region = ByteRegion::whole(&bytes);
        let mut through = region.from(10);
        let mut some = vec![0; 70_000];
        through.read_exact(&mut some).unwrap();
        assert_eq!(through.position(), 70_010);
    }
}
