//! A file as its plan changes it, read piece by piece and never held as a whole.

use std::io::{self, Read};

use crate::elf::{
    ReadAt,
    edit::{EditPlan, TailPiece},
    source::read_exact_at,
};

/// The changed file, as a stream and at any offset.
#[derive(Debug)]
pub struct PatchedReader<R> {
    source: R,
    plan: EditPlan,
    position: u64,
}

/// The changed file while it is looked at.
pub(super) struct PatchedView<'a, R: ?Sized> {
    pub(super) source: &'a R,
    pub(super) plan: &'a EditPlan,
}

impl<R: ReadAt> PatchedReader<R> {
    /// The plan must be one for this file.
    pub fn new(source: R, plan: EditPlan) -> Self {
        Self {
            source,
            plan,
            position: 0,
        }
    }
}

impl<R: ReadAt> Read for PatchedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        self.position = self.position.saturating_add(count as u64);
        Ok(count)
    }
}

impl<R: ReadAt> ReadAt for PatchedReader<R> {
    fn len(&self) -> u64 {
        self.plan.total_len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let view = PatchedView {
            source: &self.source,
            plan: &self.plan,
        };
        view.read_at(offset, buffer)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for PatchedView<'_, R> {
    fn len(&self) -> u64 {
        self.plan.total_len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let source_len = self.plan.source_len();
        if self.source.len() != source_len {
            return Err(io::Error::other(format!(
                "the file was changed while it was read: {} bytes instead of {source_len}",
                self.source.len()
            )));
        }
        let Some(in_tail) = offset.checked_sub(source_len) else {
            let rest = source_len.saturating_sub(offset);
            let buffer = up_to(buffer, rest);
            read_exact_at(self.source, offset, buffer)?;
            self.lay_over(offset, buffer);
            return Ok(buffer.len());
        };
        self.read_tail(in_tail, buffer)
    }
}

impl<R: ReadAt + ?Sized> PatchedView<'_, R> {
    fn lay_over(&self, offset: u64, buffer: &mut [u8]) {
        let end = offset.saturating_add(buffer.len() as u64);
        let overlays = self.plan.overlays();
        let first = overlays.partition_point(|overlay| overlay.end() <= offset);
        let hit = overlays.iter().skip(first);
        for overlay in hit.take_while(|overlay| overlay.offset < end) {
            let skipped = offset.saturating_sub(overlay.offset);
            let place = overlay.offset.saturating_sub(offset);
            let bytes = overlay.bytes.get(index(skipped)..).unwrap_or_default();
            let target = buffer.get_mut(index(place)..).unwrap_or_default();
            for (target, byte) in target.iter_mut().zip(bytes) {
                *target = *byte;
            }
            let zeros = overlay.end().saturating_sub(overlay.zeros).max(offset);
            let zeros = index(zeros.saturating_sub(offset))..index(overlay.end().min(end) - offset);
            buffer.get_mut(zeros).unwrap_or_default().fill(0);
        }
    }

    fn read_tail(&self, mut offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        for piece in self.plan.tail() {
            let Some(beyond) = offset.checked_sub(piece.len()) else {
                let buffer = up_to(buffer, piece.len().saturating_sub(offset));
                match piece {
                    TailPiece::Bytes(bytes) => {
                        let bytes = bytes.get(index(offset)..).unwrap_or_default();
                        return bytes.read_at(0, buffer);
                    }
                    TailPiece::Copy { offset: from, .. } => {
                        read_exact_at(self.source, from.saturating_add(offset), buffer)?;
                    }
                    TailPiece::Zeros(_) => buffer.fill(0),
                }
                return Ok(buffer.len());
            };
            offset = beyond;
        }
        Ok(0)
    }
}

/// The part of a buffer that `rest` bytes fill.
fn up_to(buffer: &mut [u8], rest: u64) -> &mut [u8] {
    let count = buffer.len().min(index(rest));
    buffer.get_mut(..count).unwrap_or_default()
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::edit::{ByteOverlay, Strategy};

    fn plan() -> EditPlan {
        let overlay = |offset, bytes: &[u8]| ByteOverlay::new(offset, bytes.to_vec());
        let mut overlays = vec![overlay(7, b"HI"), overlay(0, b"A"), overlay(2, b"C")];
        overlays[2].zeros = 2;
        overlays.push(ByteOverlay::blank(&(6..7)));
        let tail = vec![
            TailPiece::Zeros(2),
            TailPiece::Copy { offset: 1, len: 4 },
            TailPiece::Bytes(b"xyz".to_vec()),
        ];
        EditPlan::new(10, overlays, tail, Strategy::Evict)
    }

    #[test]
    fn a_stream_is_the_file_with_its_changes_and_then_the_tail() {
        let mut reader = PatchedReader::new(b"abcdefghij".to_vec(), plan());
        let mut seen = Vec::new();
        reader.read_to_end(&mut seen).unwrap();
        assert_eq!(seen, b"AbC\0\0f\0HIj\0\0bcdexyz");
        assert_eq!(seen.len() as u64, reader.len());
    }

    #[test]
    fn any_range_reads_as_it_does_in_the_stream() {
        let mut reader = PatchedReader::new(b"abcdefghij".to_vec(), plan());
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
        let mut reader = PatchedReader::new(b"abcdefghi".to_vec(), plan());
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        insta::assert_snapshot!(error, @"the file was changed while it was read: 9 bytes instead of 10");
    }
}
