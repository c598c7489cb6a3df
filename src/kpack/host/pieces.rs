//! `HostPlan`: a changed binary as pieces of the old one and new bytes, read without a copy.

use std::{
    io::{self, Read},
    ops::Range,
};

use crate::{
    elf::ReadAt,
    error::{Result, ensure},
};

/// How a binary is without its code. Made for one file of a known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    source_len: u64,
    total_len: u64,
    /// Where each piece begins in the new file, ascending from 0 and without gaps.
    pieces: Vec<(u64, HostPiece)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostPiece {
    Copy(Range<u64>),
    Bytes(Vec<u8>),
    Zeros(u64),
}

/// Some bytes of the old file, and what stands in their place.
#[derive(Clone, Debug)]
pub(super) struct Replacement {
    pub(super) old: Range<u64>,
    pub(super) new: Vec<HostPiece>,
}

/// The binary without its code, as a stream and at any offset.
#[derive(Clone, Debug)]
pub struct SplitReader<R> {
    source: R,
    plan: HostPlan,
    position: u64,
}

impl HostPiece {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Copy(range) => range.end.saturating_sub(range.start),
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(len) => *len,
        }
    }
}

impl HostPlan {
    /// All of a file up to `end` but for the replacements, then the tail.
    pub(super) fn new(
        source_len: u64,
        end: u64,
        mut replacements: Vec<Replacement>,
        tail: Vec<HostPiece>,
    ) -> Result<Self> {
        replacements.sort_by_key(|replacement| replacement.old.start);
        let mut plan = Self {
            source_len,
            total_len: 0,
            pieces: Vec::new(),
        };
        let mut at = 0;
        for replacement in replacements {
            let old = &replacement.old;
            ensure!(
                old.start >= at && old.start <= old.end && old.end <= end && end <= source_len,
                "two changes of the same bytes: at {:#x}",
                old.start
            );
            plan.push(HostPiece::Copy(at..old.start));
            at = old.end;
            for piece in replacement.new {
                plan.push(piece);
            }
        }
        plan.push(HostPiece::Copy(at..end));
        for piece in tail {
            plan.push(piece);
        }
        Ok(plan)
    }

    /// The length of the binary without its code.
    pub fn total_len(&self) -> u64 {
        self.total_len
    }

    /// The length of the binary that the plan is for.
    pub fn source_len(&self) -> u64 {
        self.source_len
    }

    /// What is copied: from where, and to where.
    pub(super) fn copies(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        self.pieces.iter().filter_map(|(start, piece)| match piece {
            HostPiece::Copy(range) => Some((range.clone(), *start)),
            _ => None,
        })
    }

    fn push(&mut self, piece: HostPiece) {
        let len = piece.len();
        if len > 0 {
            self.pieces.push((self.total_len, piece));
            self.total_len = self.total_len.saturating_add(len);
        }
    }

    fn read(
        &self,
        source: &(impl ReadAt + ?Sized),
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        if source.len() != self.source_len {
            return Err(io::Error::other(format!(
                "the file was changed while it was read: {} bytes instead of {}",
                source.len(),
                self.source_len
            )));
        }
        let index = self.pieces.partition_point(|(start, _)| *start <= offset);
        let Some((start, piece)) = index
            .checked_sub(1)
            .and_then(|index| self.pieces.get(index))
        else {
            return Ok(0);
        };
        let inside = offset.saturating_sub(*start);
        let rest = usize::try_from(piece.len().saturating_sub(inside)).unwrap_or(usize::MAX);
        let count = buffer.len().min(rest);
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        match piece {
            HostPiece::Copy(range) => source.read_at(range.start.saturating_add(inside), buffer),
            HostPiece::Bytes(bytes) => bytes.read_at(inside, buffer),
            HostPiece::Zeros(_) => {
                buffer.fill(0);
                Ok(count)
            }
        }
    }
}

impl<R: ReadAt> SplitReader<R> {
    /// The plan must be one for this file.
    pub fn new(source: R, plan: HostPlan) -> Self {
        Self {
            source,
            plan,
            position: 0,
        }
    }
}

impl<R: ReadAt> ReadAt for SplitReader<R> {
    fn len(&self) -> u64 {
        self.plan.total_len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.plan.read(&self.source, offset, buffer)
    }
}

impl<R: ReadAt> Read for SplitReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        if count == 0 && !buffer.is_empty() && self.position < self.plan.total_len {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file ends early",
            ));
        }
        self.position = self.position.saturating_add(count as u64);
        Ok(count)
    }
}
