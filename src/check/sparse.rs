//! [`SparseFile`]: a file of device code without the code. `Sift` takes the parts that name targets
//! and kernels while the file is read once, so that an archive of any size takes little memory.

use std::io;

use crate::elf::ReadAt;

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
    /// The kept parts by their offsets, sorted.
    parts: Vec<(u64, SparsePart)>,
}

#[derive(Debug, PartialEq, Eq)]
enum SparsePart {
    Bytes(Box<[u8]>),
    /// The length of a frame. An archive may have many, so they are kept without an allocation.
    Number([u8; 4]),
}

/// Reads a file in chunks, and keeps the parts that describe its device code.
#[derive(Debug)]
pub(super) struct Sift {
    at: u64,
    step: SparseStep,
    /// The bytes of the current step that were read so far.
    pending: Vec<u8>,
    parts: Vec<(u64, SparsePart)>,
}

/// The part of the file that is read next.
#[derive(Clone, Copy, Debug)]
enum SparseStep {
    /// The first bytes of the file, up to this number, which are kept.
    Begin(u64),
    Header,
    Count {
        contents: u64,
    },
    Length {
        contents: u64,
        left: u32,
    },
    Skip {
        until: u64,
        contents: u64,
        left: u32,
    },
    Rest,
}

impl Sift {
    /// Keeps the first bytes of a file.
    pub(super) fn begin(most: u64) -> Self {
        Self::new(SparseStep::Begin(most))
    }

    /// Keeps the header of an archive of device code, the lengths of its frames, and its table of
    /// contents.
    pub(super) fn archive() -> Self {
        Self::new(SparseStep::Header)
    }

    fn new(step: SparseStep) -> Self {
        Self {
            at: 0,
            step,
            pending: Vec::new(),
            parts: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            let wanted = self.wanted();
            let count = usize::try_from(wanted).map_or(chunk.len(), |it| it.min(chunk.len()));
            let (now, later) = chunk.split_at(count);
            let is_kept = !matches!(self.step, SparseStep::Skip { .. } | SparseStep::Rest);
            if is_kept {
                self.pending.extend_from_slice(now);
            }
            self.at = self.at.saturating_add(count as u64);
            chunk = later;
            if count as u64 == wanted {
                self.next();
            }
        }
    }

    /// The number of bytes still missing in the current step.
    fn wanted(&self) -> u64 {
        let whole = match self.step {
            SparseStep::Begin(most) => most,
            SparseStep::Header => HEADER,
            SparseStep::Count { .. } | SparseStep::Length { .. } => 4,
            SparseStep::Skip { until, .. } => return until.saturating_sub(self.at),
            SparseStep::Rest => return u64::MAX,
        };
        whole.saturating_sub(self.pending.len() as u64)
    }

    fn next(&mut self) {
        let bytes = std::mem::take(&mut self.pending);
        let start = self.at.saturating_sub(bytes.len() as u64);
        let number = <[u8; 4]>::try_from(bytes.as_slice());
        let value = number.map_or(0, u32::from_le_bytes);
        let next = match self.step {
            SparseStep::Header => {
                let contents = bytes.get(8..16).and_then(|it| it.try_into().ok());
                let contents = contents.map_or(0, u64::from_le_bytes);
                match contents.checked_sub(HEADER) {
                    Some(4..) => SparseStep::Count { contents },
                    _ => self.skip(contents, contents, 0),
                }
            }
            SparseStep::Count { contents } => self.length(contents, value.min(MOST_FRAMES)),
            SparseStep::Length { contents, left } => {
                let end = self.at.saturating_add(u64::from(value));
                self.skip(end.min(contents), contents, left)
            }
            SparseStep::Skip { contents, left, .. } => self.length(contents, left),
            SparseStep::Begin(_) | SparseStep::Rest => SparseStep::Rest,
        };
        match (self.step, number) {
            (SparseStep::Count { .. } | SparseStep::Length { .. }, Ok(number)) => {
                self.parts.push((start, SparsePart::Number(number)));
            }
            _ if bytes.is_empty() => {}
            _ => self.parts.push((start, SparsePart::Bytes(bytes.into()))),
        }
        self.step = next;
    }

    fn skip(&self, until: u64, contents: u64, left: u32) -> SparseStep {
        if until > self.at {
            SparseStep::Skip {
                until,
                contents,
                left,
            }
        } else {
            self.length(contents, left)
        }
    }

    fn length(&self, contents: u64, left: u32) -> SparseStep {
        let room = contents.saturating_sub(self.at);
        match left.checked_sub(1) {
            Some(left) if room >= 4 => SparseStep::Length { contents, left },
            _ if room > 0 => SparseStep::Skip {
                until: contents,
                contents,
                left: 0,
            },
            _ => SparseStep::Begin(LONGEST_CONTENTS),
        }
    }

    pub(super) fn finish(mut self) -> SparseFile {
        if !self.pending.is_empty() {
            let start = self.at.saturating_sub(self.pending.len() as u64);
            self.parts
                .push((start, SparsePart::Bytes(self.pending.into())));
        }
        SparseFile {
            len: self.at,
            parts: self.parts,
        }
    }
}

impl SparsePart {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(bytes) => bytes,
        }
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
    use crate::kpack::archive::{ArchiveWriter, KpackArchive, KpackScheme, Packed, key};

    fn archive(scheme: KpackScheme) -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "g", "f", scheme).unwrap();
        for (bundle, len) in [(0, 5000), (1, 70_000), (2, 3)] {
            // Frames that do not shrink are read over, not through.
            let noise =
                (0..len).map(|at: u64| (at.wrapping_mul(0x9e37_79b9) >> 7).to_le_bytes()[0]);
            let code = Packed::new(&noise.collect::<Vec<u8>>(), scheme).unwrap();
            let target = "gfx942".parse().unwrap();
            writer.add(&key("k", bundle), &target, &code, None).unwrap();
        }
        writer.finish().unwrap().0.into_inner()
    }

    /// The result is the same for any size of the chunks.
    fn sifted(sift: &Sift, bytes: &[u8]) -> SparseFile {
        let mut found = Vec::new();
        for size in [1, 3, 1000, 1 << 20] {
            let mut sift = Sift::new(sift.step);
            bytes.chunks(size).for_each(|chunk| sift.take(chunk));
            found.push(sift.finish());
        }
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
        found.swap_remove(0)
    }

    fn kept(sparse: &SparseFile) -> usize {
        sparse
            .parts
            .iter()
            .map(|(_, part)| part.bytes().len())
            .sum()
    }

    #[test]
    fn an_archive_is_known_by_a_small_part_of_it() {
        for scheme in [KpackScheme::Stored, KpackScheme::Zstd] {
            let bytes = archive(scheme);
            let sparse = sifted(&Sift::archive(), &bytes);
            assert_eq!(sparse.len(), bytes.len() as u64);
            assert!(kept(&sparse) < 1000, "{}", kept(&sparse));
            let (whole, part) = (
                KpackArchive::open(&bytes).unwrap(),
                KpackArchive::open(&sparse).unwrap(),
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
        let bytes = archive(KpackScheme::Zstd);
        for end in [0, 3, 4, 8, 20, 64, 66, 68, 70, 5000, bytes.len() - 1] {
            let cut = bytes.get(..end).unwrap();
            let sparse = sifted(&Sift::archive(), cut);
            assert_eq!(sparse.len(), end as u64);
            assert!(KpackArchive::open(&sparse).is_err(), "{end}");
        }
        let mut lying = bytes.clone();
        lying[64..68].copy_from_slice(&[0xff; 4]);
        let sparse = sifted(&Sift::archive(), &lying);
        assert!(KpackArchive::open(&sparse).is_err());
        lying[8..16].copy_from_slice(&[0xff; 8]);
        let sparse = sifted(&Sift::archive(), &lying);
        assert!(KpackArchive::open(&sparse).is_err());
    }

    #[test]
    fn reading_beside_what_was_kept_is_an_error() {
        let sparse = sifted(&Sift::begin(6), b"abcdefgh");
        let mut buffer = [0; 8];
        assert_eq!(sparse.read_at(2, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"cdef");
        assert!(sparse.read_at(6, &mut buffer).is_err());
        assert_eq!(sparse.read_at(8, &mut buffer).unwrap(), 0);
    }
}
