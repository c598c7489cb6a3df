//! `Windows`: the parts of a large file that were kept while it passed, read as if it were whole.

use std::{cell::Cell, io, ops::Range};

use crate::elf::ReadAt;

pub(super) struct Windows {
    /// Of the whole file.
    len: u64,
    /// By offset; they do not touch.
    kept: Vec<(u64, Vec<u8>)>,
    /// What was asked for first that was not kept.
    missing: Cell<Option<(u64, u64)>>,
}

impl Windows {
    pub(super) fn new(len: u64) -> Self {
        Self {
            len,
            kept: Vec::new(),
            missing: Cell::new(None),
        }
    }

    /// How many bytes are held.
    pub(super) fn held(&self) -> u64 {
        self.kept.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// What could not be answered since the last time.
    pub(super) fn take_missing(&self) -> Option<Range<u64>> {
        self.missing.take().map(|(start, end)| start..end)
    }

    /// Keeps what a chunk of the file has of the wanted ranges, which ascend and do not touch.
    /// Chunks come in order.
    pub(super) fn keep(&mut self, at: u64, chunk: &[u8], wanted: &[Range<u64>]) {
        let end = at.saturating_add(chunk.len() as u64);
        for range in wanted {
            let (from, to) = (range.start.max(at), range.end.min(end));
            if from >= to {
                continue;
            }
            let inside = |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(0);
            let part = chunk.get(inside(from)..inside(to)).unwrap_or_default();
            let follows = |kept: &&mut (u64, Vec<u8>)| {
                kept.0.saturating_add(kept.1.len() as u64) == from && kept.0 >= range.start
            };
            if let Some((_, bytes)) = self.kept.iter_mut().find(follows) {
                bytes.extend_from_slice(part);
                continue;
            }
            let len = usize::try_from(range.end.saturating_sub(from)).unwrap_or(0);
            let mut bytes = Vec::with_capacity(len);
            bytes.extend_from_slice(part);
            self.kept.push((from, bytes));
        }
    }

    /// The whole file, if it was kept as one.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        match self.kept.as_slice() {
            [] if self.len == 0 => Some(&[]),
            [(0, bytes)] if bytes.len() as u64 == self.len => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn into_whole(mut self) -> Option<Vec<u8>> {
        self.whole()?;
        Some(self.kept.pop().map(|(_, bytes)| bytes).unwrap_or_default())
    }
}

impl ReadAt for Windows {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = (buffer.len() as u64).min(self.len.saturating_sub(offset));
        let end = offset.saturating_add(wanted);
        for (start, bytes) in &self.kept {
            let inside = offset
                .checked_sub(*start)
                .and_then(|at| usize::try_from(at).ok());
            let rest = inside.and_then(|at| bytes.get(at..)).unwrap_or_default();
            if rest.len() as u64 >= wanted {
                return rest.read_at(0, buffer);
            }
        }
        if wanted == 0 {
            return Ok(0);
        }
        if self.missing.get().is_none() {
            self.missing.set(Some((offset, end)));
        }
        Err(io::Error::other("a part of the file was not kept"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_and_what_was_not_is_told() {
        let file: Vec<u8> = (0..=255).collect();
        let mut windows = Windows::new(256);
        for (index, chunk) in file.chunks(7).enumerate() {
            windows.keep(index as u64 * 7, chunk, &[10..40, 100..101, 250..256]);
        }
        assert_eq!(windows.held(), 37);
        let mut buffer = [0; 20];
        assert_eq!(windows.read_at(15, &mut buffer).unwrap(), 20);
        assert_eq!(buffer[..], file[15..35]);
        assert_eq!(windows.read_at(252, &mut buffer).unwrap(), 4);
        assert_eq!(windows.read_at(300, &mut buffer).unwrap(), 0);
        assert_eq!(windows.take_missing(), None);
        assert!(windows.read_at(30, &mut buffer).is_err());
        assert!(windows.read_at(90, &mut buffer).is_err());
        assert_eq!(windows.take_missing(), Some(30..50));
        assert_eq!(windows.take_missing(), None);
        assert_eq!(windows.whole(), None);
    }
}
