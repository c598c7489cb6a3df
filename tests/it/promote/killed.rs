//! Promotions to a directory that are killed at any moment.

use super::{built, fresh, places};
use crate::support::{killed::killed_at_every_step, prelude::*, published::sets_in_turn};

/// Every file with its final name.
fn files(place: &Path) -> BTreeMap<String, Vec<u8>> {
    if !place.exists() {
        return BTreeMap::new();
    }
    contents_without_caches(place)
}

#[test]
#[ignore = "slow"]
fn a_promotion_to_a_directory_leaves_nothing_half_made() {
    for (layout, set) in [("dist", 0), ("product", 1)] {
        let candidate = built(sets_in_turn(set)[0], "7.14.0rc1");
        let directory = format!("killed-{layout}");
        let place = fresh(&directory);
        let run = || {
            let mut run = command();
            run.args(["promote", text(&candidate), "--to", "release", "--no-check"]);
            run.args(["--layout", layout, "--into", text(&place)]);
            run
        };
        succeed(&mut run());
        let whole = files(&place);
        let prepared = |_| {
            fresh(&directory);
            run()
        };
        killed_at_every_step(prepared, |killed| {
            let there = files(&place);
            for (name, bytes) in &there {
                // A page lists what is there so far.
                let is_page = name.ends_with(".html") || name.ends_with(".json");
                assert!(is_page || whole[name] == *bytes, "{name}");
            }
            let is_described = there.contains_key("set.json");
            assert!(!is_described || there == whole);
            if place.exists() {
                places::assert_whole(&place);
            }
            succeed(&mut run());
            assert!(files(&place) == whole, "{killed}");
        });
    }
}
