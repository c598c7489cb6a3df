//! [`SparseFile`]: a file of device code without the code. Only the parts that name targets and
//! kernels are kept while it is read once, so that an archive of any size takes little memory.

use std::{
    io::{self, BufRead, Read},
    ops::Range,
};

use crate::elf::{ReadAt, ReadFrom};

/// The longest table of contents that is kept. No archive of device code has a longer one.
const LONGEST_CONTENTS: u64 = 64 << 20;
/// The size of the header of an archive, after which its code begins.
const HEADER: u64 = 64;
/// The most frames of an archive. The runtime refuses more as well.
const MOST_FRAMES: u32 = 1 << 20;

/// A file of which some parts are kept. Reading any other part is an error.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SparseFile {
    len: u64,
    /// All kept parts, one after the other. An archive has many, most of them of four bytes.
    bytes: Vec<u8>,
    parts: KeptParts,
}

/// Where each kept part of a file begins: in the file, and among the kept bytes, which lie one after
/// the other.
pub(super) type KeptParts = Vec<(u64, u64)>;

/// Where the kept bytes from an offset of the file on are, among `len` of them; `None` if the byte
/// at the offset was not kept.
pub(super) fn kept_from(parts: &[(u64, u64)], len: u64, offset: u64) -> Option<Range<u64>> {
    let next = parts.partition_point(|(start, _)| *start <= offset);
    let end = parts.get(next).map_or(len, |it| it.1);
    let (start, place) = parts.get(next.checked_sub(1)?)?;
    let from = place.saturating_add(offset.saturating_sub(*start));
    (from < end).then_some(from..end)
}

/// Bytes that are read forward, and of which some are skipped.
pub(super) trait Forward: Read {
    /// Skips up to `count` bytes, and returns how many: fewer only at the end.
    fn skip(&mut self, count: u64) -> io::Result<u64>;
}

/// A stream, which has to be read to be skipped.
pub(super) struct ForwardStream<R>(pub(super) R);

impl<R: BufRead> Read for ForwardStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: BufRead> Forward for ForwardStream<R> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let mut rest = self.0.by_ref().take(count);
        // What is buffered is not copied to be skipped.
        while let passed @ 1.. = rest.fill_buf()?.len() {
            rest.consume(passed);
        }
        Ok(count.saturating_sub(rest.limit()))
    }
}

impl<R: ReadAt> Forward for ReadFrom<R> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let count = count.min(self.0.len().saturating_sub(self.1));
        self.1 = self.1.saturating_add(count);
        Ok(count)
    }
}

impl SparseFile {
    /// Keeps the first bytes of a file.
    pub(super) fn begin(source: &mut impl Forward, most: u64) -> io::Result<Self> {
        let mut this = Self::default();
        this.keep(source, most)?;
        this.skip(source, u64::MAX)?;
        Ok(this)
    }

    /// Keeps the header of an archive of device code, the lengths of its frames, and its table of
    /// contents.
    pub(super) fn archive(source: &mut impl Forward) -> io::Result<Self> {
        let mut this = Self::default();
        let header = this.keep(source, HEADER)?;
        let contents = header.get(8..16).and_then(|it| it.try_into().ok());
        let contents = contents.map_or(0, u64::from_le_bytes);
        let mut left = 0;
        if this.len + 4 <= contents {
            left = this.length(source)?.unwrap_or(0).min(MOST_FRAMES);
        }
        while left > 0 && this.len + 4 <= contents {
            let Some(frame) = this.length(source)? else {
                break;
            };
            this.skip(source, u64::from(frame).min(contents - this.len))?;
            left -= 1;
        }
        this.skip(source, contents.saturating_sub(this.len))?;
        this.keep(source, LONGEST_CONTENTS)?;
        this.skip(source, u64::MAX)?;
        Ok(this)
    }

    fn keep(&mut self, source: &mut impl Read, most: u64) -> io::Result<&[u8]> {
        let start = self.bytes.len();
        let count = source.take(most).read_to_end(&mut self.bytes)?;
        self.parts.push((self.len, start as u64));
        self.len = self.len.saturating_add(count as u64);
        Ok(&self.bytes[start..])
    }

    /// Keeps a number of four bytes. `None` at the end of the file.
    fn length(&mut self, source: &mut impl Read) -> io::Result<Option<u32>> {
        let number = self.keep(source, 4)?.try_into();
        Ok(number.ok().map(u32::from_le_bytes))
    }

    fn skip(&mut self, source: &mut impl Forward, count: u64) -> io::Result<()> {
        self.len = self.len.saturating_add(source.skip(count)?);
        Ok(())
    }
}

impl ReadAt for SparseFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if offset >= self.len || buffer.is_empty() {
            return Ok(0);
        }
        let place = kept_from(&self.parts, self.bytes.len() as u64, offset);
        let rest = place.and_then(|place| {
            let (start, end) = (place.start.try_into().ok()?, place.end.try_into().ok()?);
            self.bytes.get::<Range<usize>>(start..end)
        });
        let rest = rest.ok_or_else(|| io::Error::other("a part of it that was not kept"))?;
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::kpack::archive::{ArchiveWriter, KpackArchive, Packed, stored::stored};

    const KEYS: [(&str, u64); 3] = [("k#0", 5000), ("k#1", 70_000), ("k#2", 3)];

    /// Code whose frames do not shrink, so that they are read over, not through.
    fn noise(len: u64) -> Vec<u8> {
        let noise = |at: u64| (at.wrapping_mul(0x9e37_79b9) >> 7).to_le_bytes()[0];
        (0..len).map(noise).collect()
    }

    fn archive() -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "g", "f").unwrap();
        for (key, len) in KEYS {
            let code = Packed::new(&noise(len)).unwrap();
            let target = "gfx942".parse().unwrap();
            writer.add(key, &target, &code, None).unwrap();
        }
        writer.finish().unwrap().0.into_inner()
    }

    /// What is kept of an archive, whether it is read as a stream or at offsets.
    fn sifted(bytes: &[u8]) -> SparseFile {
        let sparse = SparseFile::archive(&mut ForwardStream(bytes)).unwrap();
        let same = SparseFile::archive(&mut ReadFrom(bytes, 0)).unwrap();
        assert_eq!(sparse, same);
        sparse
    }

    #[test]
    fn an_archive_is_known_by_a_small_part_of_it() {
        let codes = KEYS.map(|(key, len)| (key, noise(len)));
        let codes = codes
            .each_ref()
            .map(|(key, code)| (*key, "gfx942", &**code));
        for bytes in [stored(&codes), archive()] {
            let sparse = sifted(&bytes);
            assert_eq!(sparse.len(), bytes.len() as u64);
            assert!(sparse.bytes.len() < 1000, "{}", sparse.bytes.len());
            let (whole, part) = (
                KpackArchive::open(&bytes).unwrap(),
                KpackArchive::open(&sparse).unwrap(),
            );
            assert_eq!(part.codes(), whole.codes());
            assert_eq!(part.targets(), whole.targets());
            for code in part.codes() {
                let refused = format!("{:#}", part.read(code).unwrap_err());
                assert!(
                    refused.contains("a part of it that was not kept"),
                    "{refused}"
                );
            }
        }
    }

    #[test]
    fn a_damaged_archive_is_refused_as_it_would_be_whole() {
        let bytes = archive();
        for end in [0, 3, 4, 8, 20, 64, 66, 68, 70, 5000, bytes.len() - 1] {
            let cut = bytes.get(..end).unwrap();
            let sparse = sifted(cut);
            assert_eq!(sparse.len(), end as u64);
            assert!(KpackArchive::open(&sparse).is_err(), "{end}");
        }
        let mut lying = bytes.clone();
        lying[64..68].copy_from_slice(&[0xff; 4]);
        let sparse = sifted(&lying);
        assert!(KpackArchive::open(&sparse).is_err());
        lying[8..16].copy_from_slice(&[0xff; 8]);
        let sparse = sifted(&lying);
        assert!(KpackArchive::open(&sparse).is_err());
    }

    #[test]
    fn reading_beside_what_was_kept_is_an_error() {
        let sparse = SparseFile::begin(&mut ForwardStream(&b"abcdefgh"[..]), 6).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(sparse.read_at(2, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"cdef");
        assert!(sparse.read_at(6, &mut buffer).is_err());
        assert_eq!(sparse.read_at(8, &mut buffer).unwrap(), 0);
    }
}
