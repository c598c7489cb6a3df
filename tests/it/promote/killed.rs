//! Promotions to a directory that are killed at any moment.

use std::{collections::BTreeMap, path::Path, process::Command};

use rocwheel::digest::Sha256;

use super::{built, fresh, places, walkdir};
use crate::support::{
    killed::killed_at_every_step,
    place::text,
    program::{Outcome, command},
    published::sets_in_turn,
};

/// Every file with its final name.
fn files(place: &Path) -> BTreeMap<String, Sha256> {
    let files = if place.exists() {
        walkdir(place)
    } else {
        Vec::new()
    };
    let files = files.into_iter().filter_map(|path| {
        let name = text(path.strip_prefix(place).unwrap()).to_owned();
        let is_final = !name.contains(".rocwheel-");
        is_final.then(|| (name, Sha256::of(&fs_err::read(&path).unwrap())))
    });
    files.collect()
}

/// Runs a command that is killed after a part of the time that it takes, and again to its end. `check`
/// looks at what is there after each kill.
fn killed(
    run: impl Fn() -> Command,
    mut prepare: impl FnMut(),
    place: &Path,
    check: impl Fn(&BTreeMap<String, Sha256>, &BTreeMap<String, Sha256>),
) {
    let finish = |run: &mut Command| Outcome::of(run.output().unwrap()).ok();
    prepare();
    finish(&mut run());
    let whole = files(place);
    let prepared = |_| {
        prepare();
        run()
    };
    killed_at_every_step(prepared, |killed| {
        check(&files(place), &whole);
        if place.exists() {
            places::assert_whole(place);
        }
        finish(&mut run());
        assert_eq!(files(place), whole, "{killed}");
    });
}

#[test]
#[ignore = "slow"]
fn a_promotion_to_a_directory_leaves_nothing_half_made() {
    for (layout, set) in [("dist", 0), ("product", 1)] {
        let candidate = built(sets_in_turn(set)[0], "7.14.0rc1");
        let place = fresh(&format!("killed-{layout}"));
        let run = || {
            let mut run = command();
            run.args(["promote", text(&candidate), "--to", "release", "--no-check"]);
            run.args(["--layout", layout, "--into", text(&place)]);
            run
        };
        let prepare = || drop(fresh(&format!("killed-{layout}")));
        killed(run, prepare, &place, |there, whole| {
            for (name, sha256) in there {
                // A page lists what is there so far.
                let is_page = name.ends_with(".html") || name.ends_with(".json");
                assert!(is_page || whole[name] == *sha256, "{name}");
            }
            let is_described = there.contains_key("set.json");
            assert!(!is_described || there == whole);
        });
    }
}
