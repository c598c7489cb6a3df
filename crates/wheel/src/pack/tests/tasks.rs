//! How members are cut into tasks.

use proptest::prelude::*;

use std::num::NonZeroUsize;

use crate::{
    WheelMember,
    deflate::BlockPosition,
    pack::{PackTask, Tasks},
};

fn members(lens: &[u64]) -> Vec<WheelMember> {
    (0_u32..)
        .zip(lens)
        .map(|(index, len)| WheelMember {
            path: index.to_string().parse().unwrap(),
            executable: false,
            len: *len,
        })
        .collect()
}

fn tasks(members: &[WheelMember], block: usize) -> Tasks<'_> {
    Tasks::new(members, &[], NonZeroUsize::new(block).unwrap())
}

#[test]
fn members_are_cut_by_their_lengths_only() {
    let members = members(&[0, 10, 4, 6, 1, 10, 11, 25, 3, 3, 3, 3, 20]);
    let shown: Vec<String> = tasks(&members, 10)
        .map(|task| match task {
            PackTask::Batch(members) => format!("{members:?}"),
            PackTask::Block(block) => {
                format!("{} at {}: {} {:?}", block.member, block.start, block.len, block.place)
            }
            PackTask::Copy(member) => format!("{member} is copied"),
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
                PackTask::Copy(member) => prop_assert!(false, "{} has no copy", member),
            }
        }
        prop_assert_eq!(done, lens);
    }
}
