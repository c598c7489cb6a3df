//! The tasks of the workers: how the members of a wheel are cut and put together.

use std::{num::NonZeroUsize, ops::Range};

use crate::{
    package::assemble::earlier::TakenMember,
    wheel::{WheelMember, deflate::BlockPosition},
};

/// The unit of work of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PackTask {
    /// A member to copy. The writer does it, no worker.
    Copy(usize),
    /// Consecutive members that are together at most one block long.
    Batch(Range<usize>),
    Block(Block),
}

impl PackTask {
    pub(super) fn is_packing(&self) -> bool {
        !matches!(self, Self::Copy(_))
    }
}

/// A piece of a member that is longer than a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) member: usize,
    /// The offset of the block in the member.
    pub(super) start: u64,
    pub(super) len: usize,
    pub(super) place: BlockPosition,
}

/// An iterator over the tasks, in order. It is lazy, because a member may have billions of blocks.
///
/// Only the lengths of the members decide, so the bytes of a wheel do not depend on the machine or
/// the number of threads.
#[derive(Clone, Debug)]
pub(super) struct Tasks<'a> {
    members: &'a [WheelMember],
    taken: &'a [Option<TakenMember>],
    block: NonZeroUsize,
    next: usize,
    /// How many blocks of the next member were returned already.
    cut: u64,
}

/// The most members in a batch. Without it, any number of empty members would be one task.
const BATCH: usize = 256;

impl<'a> Tasks<'a> {
    pub(super) fn new(
        members: &'a [WheelMember],
        taken: &'a [Option<TakenMember>],
        block: NonZeroUsize,
    ) -> Self {
        Self {
            members,
            taken,
            block,
            next: 0,
            cut: 0,
        }
    }

    /// The next block of a large member.
    ///
    /// All blocks of a member have the same length, or differ by one byte. A short last block would
    /// compress worse than the others.
    fn block(&mut self, len: u64) -> Block {
        let count = len.div_ceil(self.block.get() as u64);
        let (short, longer) = (len / count, len % count);
        let (member, index) = (self.next, self.cut);
        let mut place = BlockPosition::Inner;
        self.cut += 1;
        if self.cut == count {
            place = BlockPosition::Last;
            self.next += 1;
            self.cut = 0;
        }
        Block {
            member,
            start: index * short + index.min(longer),
            // At most the block length, which is a `usize`.
            len: usize::try_from(short + u64::from(index < longer)).unwrap_or(self.block.get()),
            place,
        }
    }

    fn is_taken(&self, index: usize) -> bool {
        self.taken.get(index).is_some_and(Option::is_some)
    }

    /// The next members that fit into one block together.
    fn batch(&mut self) -> Range<usize> {
        let mut room = self.block.get() as u64;
        let start = self.next;
        for member in self.members.iter().skip(start).take(BATCH) {
            let Some(left) = room.checked_sub(member.len) else {
                break;
            };
            if self.is_taken(self.next) {
                break;
            }
            room = left;
            self.next += 1;
        }
        start..self.next
    }
}

impl Iterator for Tasks<'_> {
    type Item = PackTask;

    fn next(&mut self) -> Option<PackTask> {
        let member = self.members.get(self.next)?;
        if self.is_taken(self.next) {
            self.next += 1;
            return Some(PackTask::Copy(self.next - 1));
        }
        Some(if member.len > self.block.get() as u64 {
            PackTask::Block(self.block(member.len))
        } else {
            PackTask::Batch(self.batch())
        })
    }
}
