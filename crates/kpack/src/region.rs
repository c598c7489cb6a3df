//! `ByteRegion`: a range of a file that is read like a whole file, and buffered readers of it.

use std::{
    io::{self, BufRead, BufReader, Read},
    ops::Range,
};

use rocwheel_base::error::{Context as _, Result, ensure};
use rocwheel_elf::{ReadAt, ReadFrom, tables::number};

/// How many bytes are allocated at once.
const STEP: usize = 1 << 20;
/// How many bytes a block has: few, because symbols are asked for in any order, and because zeros
/// between bundles are rarely longer than a page.
const BLOCK: usize = 1 << 12;
/// How many bytes a reader buffers.
const BUFFER: usize = 1 << 16;

/// A range of a file, checked to lie within the file.
#[derive(Clone, Copy)]
pub struct ByteRegion<'a> {
    source: &'a dyn ReadAt,
    start: u64,
    len: u64,
}

impl<'a> ByteRegion<'a> {
    /// The whole file.
    pub fn whole(source: &'a dyn ReadAt) -> Self {
        Self { source, start: 0, len: source.len() }
    }

    /// A range of a file. The error names `what` if the range is not within the file.
    pub fn new(source: &'a dyn ReadAt, what: &str, range: &Range<u64>) -> Result<Self> {
        let len = range.end.saturating_sub(range.start);
        Self::whole(source).part(what, range.start, len)
    }

    /// A part of this region, relative to its start.
    pub fn part(&self, what: &str, start: u64, len: u64) -> Result<Self> {
        let size = self.len;
        ensure!(
            start.checked_add(len).is_some_and(|end| end <= size),
            "the {what} lies outside of what holds it: {len} bytes at {start} of {size}"
        );
        Ok(Self { source: self.source, start: self.start.saturating_add(start), len })
    }

    /// Reads a part of this region.
    pub fn bytes(&self, what: &str, start: u64, len: u64) -> Result<Vec<u8>> {
        let part = self.part(what, start, len)?;
        // A length that is within the file may still be larger than the memory of the machine, so
        // memory is allocated while the bytes arrive.
        let capacity = usize::try_from(len).unwrap_or(usize::MAX).min(STEP);
        let mut bytes = Vec::with_capacity(capacity);
        // `take` ends without asking the file for the bytes behind the part.
        ReadFrom::new(part, 0)
            .take(len)
            .read_to_end(&mut bytes)
            .with_context(|| format!("failed to read the {what}"))?;
        ensure!(bytes.len() as u64 == len, "failed to read the {what}: the file ends early");
        Ok(bytes)
    }

    /// Reads a little-endian number of `size` bytes.
    pub(super) fn number(&self, what: &str, at: u64, size: u64) -> Result<u64> {
        let bytes = self.bytes(what, at, size)?;
        Ok(number(&bytes, 0, bytes.len()))
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
        let mut reader = BufReader::with_capacity(BLOCK, ReadFrom::new(*self, at.min(self.len)));
        loop {
            let buffer = reader.fill_buf()?;
            let zeros = buffer.iter().take_while(|byte| **byte == 0).count();
            let is_done = buffer.is_empty() || zeros < buffer.len();
            reader.consume(zeros);
            if is_done {
                return Ok(position(&reader));
            }
        }
    }

    /// The entries of 24 bytes that the region consists of, each with its offset. This is the size
    /// of symbols and of relocations, whose tables may be too large to be in memory as a whole.
    pub(super) fn entries(self) -> impl Iterator<Item = Result<(u64, [u8; 24])>> {
        let mut reader = self.from(0);
        (0..self.len / 24).map(move |index| {
            let mut entry = [0; 24];
            reader.read_exact(&mut entry)?;
            Ok((index * 24, entry))
        })
    }

    /// A reader that begins at an offset.
    pub(super) fn from(&self, at: u64) -> BufReader<ReadFrom<ByteRegion<'a>>> {
        BufReader::with_capacity(BUFFER, ReadFrom::new(*self, at.min(self.len)))
    }
}

/// Reads numbers and entries that lie close to each other. It keeps the last block, so that a table
/// of a million relocations does not take a million reads of the file.
pub(super) struct BlockReader<'a> {
    region: ByteRegion<'a>,
    start: u64,
    block: Vec<u8>,
}

impl<'a> BlockReader<'a> {
    pub(super) fn new(region: ByteRegion<'a>) -> Self {
        Self { region, start: 0, block: Vec::new() }
    }

    /// The bytes of an entry of `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self, what: &str, at: u64) -> Result<[u8; N]> {
        if let Some(bytes) = self.bytes_of_block(at) {
            return Ok(bytes);
        }
        let left = self.region.len.saturating_sub(at);
        // At least the entry: if it is not in the region, the error says where it would be.
        let len = left.min(BLOCK as u64).max(N as u64);
        self.block = self.region.bytes(what, at, len)?;
        self.start = at;
        self.bytes_of_block(at).context("the file ends early")
    }

    fn bytes_of_block<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let inside = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.block.get(inside..)?.first_chunk().copied()
    }
}

impl ReadAt for ByteRegion<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.len.saturating_sub(offset);
        let count = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        self.source.read_at(self.start.saturating_add(offset), buffer)
    }
}

/// The offset of the next byte that the caller gets, although more bytes are buffered. The end of a
/// compressed stream is found this way.
pub(super) fn position(reader: &BufReader<ReadFrom<ByteRegion<'_>>>) -> u64 {
    reader.get_ref().offset.saturating_sub(reader.buffer().len() as u64)
}

/// Decompresses a zstd frame of `len` bytes; see [`take`]. Windows may be as large as the frame, as
/// clang makes them; by default the decoder refuses windows of more than 128 MiB.
pub(super) fn unzstd(packed: impl BufRead, len: u64) -> io::Result<Vec<u8>> {
    // One frame: behind it may be other bytes, and a caller may need `position` to say where it ends.
    let mut decoder = zstd::Decoder::with_buffer(packed)?.single_frame();
    decoder.window_log_max(31)?;
    take(decoder, len)
}

/// Reads at most one byte more than `len`. This byte shows that there is too much data, without
/// decompressing all of it. The caller compares the length.
pub(super) fn take(decoder: impl Read, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    decoder.take(len.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_region_never_leaves_what_holds_it() {
        let bytes = b"0123456789".to_vec();
        let region = ByteRegion::new(&bytes, "middle", &(2..7)).unwrap();
        assert_eq!(region.bytes("all", 0, 5).unwrap(), b"23456");
        let mut buffer = [0; 9];
        assert_eq!(region.read_at(3, &mut buffer).unwrap(), 2);
        assert_eq!(region.read_at(9, &mut buffer).unwrap(), 0);
        insta::assert_snapshot!(region.bytes("tail", 3, 3).unwrap_err(), @"the tail lies outside of what holds it: 3 bytes at 3 of 5");
        insta::assert_snapshot!(ByteRegion::new(&bytes, "head", &(9..11)).err().unwrap(), @"the head lies outside of what holds it: 2 bytes at 9 of 10");
    }

    /// Counts the reads, and the bytes that they ask for.
    struct Counted<'a>(&'a [u8], Cell<(usize, usize)>);

    impl ReadAt for Counted<'_> {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let (reads, bytes) = self.1.get();
            self.1.set((reads + 1, bytes + buffer.len()));
            self.0.read_at(offset, buffer)
        }
    }

    #[test]
    fn a_small_record_takes_one_read_and_a_gap_few_bytes() {
        let bytes = vec![1; 200_000];
        let counted = Counted(&bytes, Cell::default());
        let region = ByteRegion::whole(&counted);
        assert_eq!(region.number("record", 9, 4).unwrap(), 0x0101_0101);
        assert_eq!(counted.1.take(), (1, 4));
        assert_eq!(region.bytes("block", 9, 5000).unwrap().len(), 5000);
        assert_eq!(counted.1.take(), (1, 5000));
        assert_eq!(region.skip_zeros(9).unwrap(), 9);
        assert_eq!(counted.1.take(), (1, BLOCK));
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
        assert_eq!(position(&through), 70_010);
    }
}
