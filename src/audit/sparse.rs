//! `Sparse`: of a file that passes by, the parts that tell what is in it. The rest is not kept.

use std::io::{self, Read};

use crate::elf::ReadAt;

/// More than the contents of any archive of device code.
const LONGEST_CONTENTS: u64 = 64 << 20;
/// Where code begins in such an archive.
const HEADER: u64 = 64;
/// What the runtime refuses too.
const MOST_FRAMES: u32 = 1 << 20;

/// A file of which some parts are known. Reading anything else is an error.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sparse {
    len: u64,
    /// Where each known part begins, ascending.
    parts: Vec<(u64, Part)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Bytes(Box<[u8]>),
    /// The length of a frame: there may be many.
    Number([u8; 4]),
}

impl Sparse {
    /// Keeps the first bytes of a file, of which `begin` has been read.
    pub(super) fn begin(begin: &[u8], source: impl Read, most: u64) -> io::Result<Self> {
        let mut through = Through::new(begin, source);
        through.keep(most)?;
        through.finish()
    }

    /// Keeps the header of an archive of device code, the lengths of its frames, and its contents.
    pub(super) fn archive(begin: &[u8], source: impl Read) -> io::Result<Self> {
        let mut through = Through::new(begin, source);
        let header = through.keep(HEADER)?;
        let contents = header.get(8..16).and_then(|it| it.try_into().ok());
        let contents = contents.map_or(0, u64::from_le_bytes);
        if through.at.saturating_add(4) <= contents {
            let mut left = through.number()?.min(MOST_FRAMES);
            while left > 0 && through.at.saturating_add(4) <= contents {
                let len = u64::from(through.number()?);
                through.skip(len.min(contents.saturating_sub(through.at)))?;
                left -= 1;
            }
        }
        through.skip(contents.saturating_sub(through.at))?;
        through.keep(LONGEST_CONTENTS)?;
        through.finish()
    }
}

/// A file while it passes.
struct Through<'a, R> {
    source: io::Chain<&'a [u8], R>,
    at: u64,
    parts: Vec<(u64, Part)>,
}

impl<'a, R: Read> Through<'a, R> {
    fn new(begin: &'a [u8], source: R) -> Self {
        Self {
            source: begin.chain(source),
            at: 0,
            parts: Vec::new(),
        }
    }

    fn keep(&mut self, most: u64) -> io::Result<Box<[u8]>> {
        let mut bytes = Vec::new();
        self.source.by_ref().take(most).read_to_end(&mut bytes)?;
        let bytes = bytes.into_boxed_slice();
        self.parts.push((self.at, Part::Bytes(bytes.clone())));
        self.at = self.at.saturating_add(bytes.len() as u64);
        Ok(bytes)
    }

    /// Four bytes, as far as there are so many.
    fn number(&mut self) -> io::Result<u32> {
        let mut bytes = Vec::new();
        self.source.by_ref().take(4).read_to_end(&mut bytes)?;
        let Ok(bytes) = <[u8; 4]>::try_from(bytes.as_slice()) else {
            self.at = self.at.saturating_add(bytes.len() as u64);
            return Ok(0);
        };
        self.parts.push((self.at, Part::Number(bytes)));
        self.at = self.at.saturating_add(4);
        Ok(u32::from_le_bytes(bytes))
    }

    fn skip(&mut self, len: u64) -> io::Result<()> {
        let mut part = self.source.by_ref().take(len);
        let count = io::copy(&mut part, &mut io::sink())?;
        self.at = self.at.saturating_add(count);
        Ok(())
    }

    fn finish(mut self) -> io::Result<Sparse> {
        let rest = io::copy(&mut self.source, &mut io::sink())?;
        Ok(Sparse {
            len: self.at.saturating_add(rest),
            parts: self.parts,
        })
    }
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(bytes) => bytes,
        }
    }
}

impl ReadAt for Sparse {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if offset >= self.len || buffer.is_empty() {
            return Ok(0);
        }
        let next = self.parts.partition_point(|(start, _)| *start <= offset);
        let part = next.checked_sub(1).and_then(|at| self.parts.get(at));
        let rest = part.and_then(|(start, part)| {
            let inside = usize::try_from(offset.saturating_sub(*start)).ok()?;
            part.bytes().get(inside..).filter(|rest| !rest.is_empty())
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
    use crate::kpack::archive::{Archive, ArchiveWriter, Packed, Scheme, key};

    fn archive(scheme: Scheme) -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "g", "f", scheme).unwrap();
        for (bundle, len) in [(0, 5000), (1, 70_000), (2, 3)] {
            // Frames that do not shrink are read over, not through.
            let noise = (0..len).map(|at: u64| (at.wrapping_mul(0x9e37_79b9) >> 7) as u8);
            let code = Packed::new(&noise.collect::<Vec<u8>>(), scheme).unwrap();
            let target = "gfx942".parse().unwrap();
            writer.add(&key("k", bundle), &target, &code, None).unwrap();
        }
        writer.finish().unwrap().0.into_inner()
    }

    fn kept(sparse: &Sparse) -> usize {
        sparse
            .parts
            .iter()
            .map(|(_, part)| part.bytes().len())
            .sum()
    }

    #[test]
    fn an_archive_is_known_by_a_small_part_of_it() {
        for scheme in [Scheme::Stored, Scheme::Zstd] {
            let bytes = archive(scheme);
            let (begin, rest) = bytes.split_at(4);
            let sparse = Sparse::archive(begin, rest).unwrap();
            assert_eq!(sparse.len(), bytes.len() as u64);
            assert!(kept(&sparse) < 1000, "{}", kept(&sparse));
            let (whole, part) = (
                Archive::open(&bytes).unwrap(),
                Archive::open(&sparse).unwrap(),
            );
            assert_eq!(part.codes(), whole.codes());
            assert_eq!(part.targets(), whole.targets());
            for code in part.codes() {
                assert_eq!(part.packed(code), whole.packed(code));
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
        let bytes = archive(Scheme::Zstd);
        for end in [0, 3, 4, 8, 20, 64, 66, 68, 70, 5000, bytes.len() - 1] {
            let cut = bytes.get(..end).unwrap();
            let sparse = Sparse::archive(cut, io::empty()).unwrap();
            assert_eq!(sparse.len(), end as u64);
            assert!(Archive::open(&sparse).is_err(), "{end}");
        }
        let mut lying = bytes.clone();
        lying[64..68].copy_from_slice(&[0xff; 4]);
        let sparse = Sparse::archive(&lying, io::empty()).unwrap();
        assert!(Archive::open(&sparse).is_err());
        lying[8..16].copy_from_slice(&[0xff; 8]);
        let sparse = Sparse::archive(&lying, io::empty()).unwrap();
        assert!(Archive::open(&sparse).is_err());
    }

    #[test]
    fn reading_beside_what_was_kept_is_an_error() {
        let sparse = Sparse::begin(b"abcd", &b"efgh"[..], 6).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(sparse.read_at(2, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"cdef");
        assert!(sparse.read_at(6, &mut buffer).is_err());
        assert_eq!(sparse.read_at(8, &mut buffer).unwrap(), 0);
    }
}
