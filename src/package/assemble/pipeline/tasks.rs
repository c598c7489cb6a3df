//! Cuts members into tasks. Only the lengths of the members decide, so the bytes of a wheel do not
//! depend on the machine or the number of threads.

use std::{num::NonZeroUsize, ops::Range};

use super::Contents;
use crate::wheel::{deflate::BlockPosition, writer::WheelMember};

/// The unit of work of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PackTask {
    /// Consecutive members that are together at most one block long.
    Batch(Range<usize>),
    Block(Block),
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
#[derive(Clone, Debug)]
pub(super) struct Tasks<'a> {
    members: &'a [WheelMember],
    block: NonZeroUsize,
    next: usize,
    /// How many blocks of the next member were returned already.
    cut: u64,
}

/// The most members in a batch. Without it, any number of empty members would be one task.
const BATCH: usize = 256;

impl<'a> Tasks<'a> {
    pub(super) fn new(contents: &Contents<'a>, block: NonZeroUsize) -> Self {
        Self {
            members: contents.members,
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
        let count = len.div_ceil(self.block.get() as u64).max(1);
        let (short, longer) = (len / count, len % count);
        let index = self.cut;
        let block = Block {
            member: self.next,
            start: index * short + index.min(longer),
            // At most the block length, which is a `usize`.
            len: usize::try_from(short + u64::from(index < longer)).unwrap_or(self.block.get()),
            place: if index + 1 == count {
                BlockPosition::Last
            } else {
                BlockPosition::Inner
            },
        };
        self.cut += 1;
        if block.place == BlockPosition::Last {
            self.next += 1;
            self.cut = 0;
        }
        block
    }

    /// The next members that fit into one block together.
    fn batch(&mut self) -> Range<usize> {
        let mut room = self.block.get() as u64;
        let start = self.next;
        for member in self.members.iter().skip(start).take(BATCH) {
            let Some(left) = room.checked_sub(member.len) else {
                break;
            };
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
        Some(if member.len > self.block.get() as u64 {
            PackTask::Block(self.block(member.len))
        } else {
            PackTask::Batch(self.batch())
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wheel::writer::FileMode;

    fn members(lens: &[u64]) -> Vec<WheelMember> {
        (0_u32..)
            .zip(lens)
            .map(|(index, len)| WheelMember {
                path: index.to_string().parse().unwrap(),
                mode: FileMode::Regular,
                len: *len,
            })
            .collect()
    }

    fn tasks(members: &[WheelMember], block: usize) -> Tasks<'_> {
        Tasks {
            members,
            block: NonZeroUsize::new(block).unwrap(),
            next: 0,
            cut: 0,
        }
    }

    #[test]
    fn members_are_cut_by_their_lengths_only() {
        let members = members(&[0, 10, 4, 6, 1, 10, 11, 25, 3, 3, 3, 3, 20]);
        let shown: Vec<String> = tasks(&members, 10)
            .map(|task| match task {
                PackTask::Batch(members) => format!("{members:?}"),
                PackTask::Block(block) => format!(
                    "{} at {}: {} {:?}",
                    block.member, block.start, block.len, block.place
                ),
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @"
        0..2
        2..4
        4..5
        5..6
        6 at 0: 6 Inner
        6 at 6: 5 Last
        7 at 0: 9 Inner
        7 at 9: 8 Inner
        7 at 17: 8 Last
        8..11
        11..12
        12 at 0: 10 Inner
        12 at 10: 10 Last
        ");
    }

    #[test]
    fn many_empty_members_are_several_batches() {
        let members = members(&[0; 1_000]);
        assert_eq!(tasks(&members, 10).count(), 4);
    }

    #[test]
    fn a_member_of_any_length_takes_no_room_by_itself() {
        let members = members(&[u64::MAX, 1]);
        assert_eq!(tasks(&members, 10).take(1_000).count(), 1_000);
    }

    proptest! {
        #[test]
        fn every_member_is_cut_into_all_of_its_bytes(
            lens in proptest::collection::vec(0_u64..100, 0..20),
            block in 1_usize..40,
        ) {
            let mut done = vec![0; lens.len()];
            for task in tasks(&members(&lens), block) {
                match task {
                    PackTask::Batch(range) => {
                        done[range.clone()].copy_from_slice(&lens[range.clone()]);
                        prop_assert!(lens[range].iter().sum::<u64>() <= block as u64);
                    }
                    PackTask::Block(piece) => {
                        let before = &mut done[piece.member];
                        prop_assert_eq!(piece.start, *before);
                        prop_assert!(piece.len <= block && piece.len > 0);
                        *before += piece.len as u64;
                        prop_assert_eq!(piece.place == BlockPosition::Last, *before == lens[piece.member]);
                    }
                }
            }
            prop_assert_eq!(done, lens);
        }
    }
}
