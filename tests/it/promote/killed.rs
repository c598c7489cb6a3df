//! Promotions and prunes of a directory that are killed at any moment.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rocwheel::digest::Sha256;

use super::{built, fresh, prune, walkdir};
use crate::support::{
    long,
    place::{empty, text},
    program::{Outcome, command},
    published::sets_in_turn,
};

/// Every file with its final name. The record of what waits is not needed when nothing waits.
fn files(place: &Path) -> BTreeMap<String, Sha256> {
    let files = if place.exists() {
        walkdir(place)
    } else {
        Vec::new()
    };
    let files = files.into_iter().filter_map(|path| {
        let name = text(path.strip_prefix(place).unwrap()).to_owned();
        let is_final = !name.contains(".rocwheel-") && name != "prune.json";
        is_final.then(|| (name, Sha256::of(&fs_err::read(&path).unwrap())))
    });
    files.collect()
}

/// Runs a command that is killed after a part of the time that it takes, and again to its end. `check`
/// looks at what is there after each kill.
fn killed(
    mut run: impl FnMut() -> Command,
    mut prepare: impl FnMut(),
    place: &Path,
    check: impl Fn(&BTreeMap<String, Sha256>, &BTreeMap<String, Sha256>),
) {
    let finish = |run: &mut Command| Outcome::of(run.output().unwrap()).ok();
    prepare();
    let begun = Instant::now();
    finish(&mut run());
    let (time, whole): (Duration, _) = (begun.elapsed(), files(place));
    let rounds = long::rounds(6, 40);
    for round in 0..rounds {
        prepare();
        let mut child = run()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(time * round / rounds);
        child.kill().unwrap();
        child.wait().unwrap();
        check(&files(place), &whole);
        if place.exists() {
            prune::assert_whole(place);
        }
        finish(&mut run());
        assert_eq!(files(place), whole, "round {round}");
    }
}

#[test]
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

#[test]
fn a_prune_of_a_directory_leaves_no_page_with_a_missing_file() {
    let place = empty("promote/killed-prune");
    let run = || {
        let mut run = command();
        run.args(["prune", text(&place), "--stream", "nightly", "--keep", "2"]);
        run.args(["--grace", "0", "--most", "100", "--really"]);
        run
    };
    let prepare = || prune::filled(&empty("promote/killed-prune"));
    killed(run, prepare, &place, |there, whole| {
        assert!(whole.keys().all(|name| there.contains_key(name)));
    });
}
