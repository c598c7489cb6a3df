//! `Patch`: a changed file, described as copied ranges of the old file and new bytes.
//!
//! [`PatchedReader`] reads the changed file while it reads the old one, so that files of gigabytes
//! are edited while they stream into a wheel, without a temporary copy.

use std::{
    io::{self, Read},
    ops::Range,
};

use crate::ReadAt;
use rocwheel_base::error::{Result, ensure};

/// The change of a file of a known length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    source_len: u64,
    total_len: u64,
    /// The pieces of the new file, ascending from offset 0 and without gaps.
    pieces: Vec<PlacedPiece>,
}

/// A part of the new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchPiece {
    /// A range of the old file.
    Copy(Range<u64>),
    /// New bytes.
    Bytes(Vec<u8>),
    /// This many zeros. They may be many megabytes of padding, and so they are never in memory.
    Zeros(u64),
}

/// A piece, and its offset in the new file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PlacedPiece {
    offset: u64,
    piece: PatchPiece,
}

/// A range of the old file, and the pieces that replace it.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// The range that is replaced. It may be empty, which inserts.
    pub old: Range<u64>,
    /// What comes in its place, in order. It may be shorter or longer.
    pub new: Vec<PatchPiece>,
}

/// The changed file, read as a stream or at any offset. It is never in memory as a whole.
#[derive(Clone, Debug)]
pub struct PatchedReader<R> {
    source: R,
    patch: Patch,
    position: u64,
}

impl PatchPiece {
    /// How many bytes of the patched file it is.
    pub fn size(&self) -> u64 {
        match self {
            Self::Copy(range) => range.end.saturating_sub(range.start),
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(len) => *len,
        }
    }
}

impl Replacement {
    /// Overwrites old bytes with as many new bytes.
    pub fn bytes(offset: u64, bytes: Vec<u8>) -> Self {
        Self {
            old: offset..offset.saturating_add(bytes.len() as u64),
            new: vec![PatchPiece::Bytes(bytes)],
        }
    }

    /// Overwrites old bytes with zeros.
    pub(crate) fn zeros(old: Range<u64>) -> Self {
        let zeros = PatchPiece::Zeros(old.end.saturating_sub(old.start));
        Self { old, new: vec![zeros] }
    }
}

impl Patch {
    /// The old file up to `end`, with the replacements, followed by `tail`. It is an error if
    /// replacements overlap or reach beyond `end`.
    pub fn new(
        source_len: u64,
        end: u64,
        mut replacements: Vec<Replacement>,
        tail: Vec<PatchPiece>,
    ) -> Result<Self> {
        // The replacements come from several steps of a planner. Sorted and without an overlap, they and
        // the copied ranges between them cover the old file once. An overlap means that two steps wrote
        // the same header, and only one of them could win.
        replacements.sort_by_key(|replacement| replacement.old.start);
        let mut patch = Self { source_len, ..Self::default() };
        let mut done = 0;
        for replacement in replacements {
            let old = &replacement.old;
            let is_next = old.start >= done && old.start <= old.end;
            ensure!(
                is_next && old.end <= end && end <= source_len,
                "changes overlap: at {:#x}",
                old.start
            );
            patch.push(PatchPiece::Copy(done..old.start));
            done = old.end;
            for piece in replacement.new {
                patch.push(piece);
            }
        }
        patch.push(PatchPiece::Copy(done..end));
        for piece in tail {
            patch.push(piece);
        }
        Ok(patch)
    }

    /// A patch that changes nothing.
    pub fn nothing(source_len: u64) -> Self {
        let mut patch = Self { source_len, ..Self::default() };
        patch.push(PatchPiece::Copy(0..source_len));
        patch
    }

    /// Whether the file stays as it is, byte for byte.
    pub fn is_nothing(&self) -> bool {
        *self == Self::nothing(self.source_len)
    }

    /// The length of the changed file.
    pub fn total_len(&self) -> u64 {
        self.total_len
    }

    /// The copied ranges of the old file, each with its offset in the new file.
    pub fn copies(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        self.pieces.iter().filter_map(|placed| match &placed.piece {
            PatchPiece::Copy(range) => Some((range.clone(), placed.offset)),
            _ => None,
        })
    }

    /// The overwritten ranges of the old file.
    ///
    /// **Contract:** the patch keeps every old byte at its offset, as the patch of an `EditPlan` does.
    /// Then an offset in the new file is the same offset in the old file.
    pub(crate) fn overlays(&self) -> impl Iterator<Item = Range<u64>> {
        self.pieces
            .iter()
            .filter(|placed| !matches!(placed.piece, PatchPiece::Copy(_)))
            .map(|placed| placed.offset..placed.offset.saturating_add(placed.piece.size()))
            .take_while(|range| range.start < self.source_len)
    }

    fn push(&mut self, piece: PatchPiece) {
        let len = piece.size();
        // Without empty pieces, a patch that changes nothing is one copy, and `is_nothing` can compare.
        if len > 0 {
            self.pieces.push(PlacedPiece { offset: self.total_len, piece });
            self.total_len = self.total_len.saturating_add(len);
        }
    }

    /// Reads the changed file at an offset, at most up to the end of the piece there.
    fn read(&self, source: &impl ReadAt, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        // A file of another length is not the file whose headers were planned for: the patch would mix
        // old headers with new bytes.
        if source.len() != self.source_len {
            return Err(io::Error::other(format!(
                "the file was changed while it was read: {} bytes instead of {}",
                source.len(),
                self.source_len
            )));
        }
        let next = self.pieces.partition_point(|placed| placed.offset <= offset);
        let Some(placed) = next.checked_sub(1).and_then(|index| self.pieces.get(index)) else {
            return Ok(0);
        };
        let inside = offset.saturating_sub(placed.offset);
        // An offset behind the last piece leaves nothing of it, which is 0 bytes as `Read` wants it.
        let rest =
            usize::try_from(placed.piece.size().saturating_sub(inside)).unwrap_or(usize::MAX);
        let count = buffer.len().min(rest);
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        match &placed.piece {
            PatchPiece::Copy(range) => source.read_at(range.start.saturating_add(inside), buffer),
            PatchPiece::Bytes(bytes) => bytes.read_at(inside, buffer),
            PatchPiece::Zeros(_) => {
                buffer.fill(0);
                Ok(count)
            }
        }
    }
}

impl<R: ReadAt> PatchedReader<R> {
    /// Applies a patch to the file that it was planned for. Reading fails if the file has another length
    /// than it had for the plan.
    pub fn new(source: R, patch: impl Into<Patch>) -> Self {
        Self { source, patch: patch.into(), position: 0 }
    }
}

impl<R: ReadAt> ReadAt for PatchedReader<R> {
    fn len(&self) -> u64 {
        self.patch.total_len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.patch.read(&self.source, offset, buffer)
    }
}

impl<R: ReadAt> Read for PatchedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        // 0 bytes before the end come from a file that was cut off while it was read. To a caller they
        // would look like the end of the changed file.
        if count == 0 && !buffer.is_empty() && self.position < self.patch.total_len {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends early"));
        }
        self.position = self.position.saturating_add(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::read_exact_at;

    fn patch() -> Patch {
        let bytes = |offset, bytes: &[u8]| Replacement::bytes(offset, bytes.to_vec());
        let changes = vec![
            bytes(7, b"HI"),
            bytes(0, b"A"),
            bytes(2, b"C"),
            Replacement::zeros(3..5),
            Replacement::zeros(6..7),
        ];
        let tail =
            vec![PatchPiece::Zeros(2), PatchPiece::Copy(1..5), PatchPiece::Bytes(b"xyz".to_vec())];
        Patch::new(10, 10, changes, tail).unwrap()
    }

    #[test]
    fn a_stream_is_the_file_with_its_changes_and_then_the_tail() {
        let mut reader = PatchedReader::new(b"abcdefghij".to_vec(), patch());
        let mut seen = Vec::new();
        reader.read_to_end(&mut seen).unwrap();
        assert_eq!(seen, b"AbC\0\0f\0HIj\0\0bcdexyz");
        assert_eq!(seen.len() as u64, reader.len());
        let overlays: Vec<Range<u64>> = patch().overlays().collect();
        assert_eq!(overlays, [0..1, 2..3, 3..5, 6..7, 7..9]);
    }

    #[test]
    fn any_range_reads_as_it_does_in_the_stream() {
        let mut reader = PatchedReader::new(b"abcdefghij".to_vec(), patch());
        let mut whole = Vec::new();
        reader.read_to_end(&mut whole).unwrap();
        for start in 0..=whole.len() {
            for end in start..=whole.len() {
                let mut bytes = vec![0; end - start];
                read_exact_at(&reader, start as u64, &mut bytes).unwrap();
                assert_eq!(bytes, whole[start..end], "{start}..{end}");
            }
        }
        assert_eq!(reader.read_at(99, &mut [0; 4]).unwrap(), 0);
    }

    #[test]
    fn a_file_of_another_length_is_refused() {
        let mut reader = PatchedReader::new(b"abcdefghi".to_vec(), patch());
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        insta::assert_snapshot!(error, @"the file was changed while it was read: 9 bytes instead of 10");
    }

    #[test]
    fn changes_that_overlap_are_refused() {
        let twice = vec![Replacement::zeros(2..5), Replacement::zeros(4..6)];
        let error = Patch::new(10, 10, twice, Vec::new()).unwrap_err();
        insta::assert_snapshot!(error, @"changes overlap: at 0x4");
    }
}
