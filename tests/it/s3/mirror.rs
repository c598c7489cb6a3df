//! `deps mirror` to a bucket, and what is left when it is killed.

use std::{process::Stdio, thread, time::Instant};

use rocwheel::digest::Sha256;

use super::{
    prune::receive,
    server::Server,
    upload::{Desk, KEYS},
};
use crate::{
    deps,
    promote::prune::{assert_whole, wheels},
    support::{long, place::empty},
};

/// At any moment there are whole files under their names, and pages that link to no other; the next run
/// does the rest.
#[test]
fn a_mirror_that_was_killed_is_finished_by_the_next() {
    let workplace = deps::mirror::locked();
    let rounds = long::rounds(4, 24);
    let (mut time, mut whole) = (None, None::<Vec<(String, Sha256)>>);
    for round in 0..=rounds {
        let desk = Desk::new();
        let store = Server::shared().store(&desk.bucket);
        let run = || {
            let place = format!("s3://{}/base", desk.bucket);
            let mut command = desk.command(&KEYS);
            command.env("ROCWHEEL_REGISTRY", &workplace.registry.url);
            command
                .current_dir(&workplace.root)
                .args(["deps", "mirror", "--into", &place]);
            command
        };
        let there = |name: &str| {
            let here = empty(&format!("s3/mirror/{round}-{name}"));
            receive(&store, &here, "base/");
            assert_whole(&here);
            for name in wheels(&here) {
                let digest = Sha256::of(&fs_err::read(here.join("dist").join(&name)).unwrap());
                assert!(workplace.lock().contains(&digest.to_string()), "{name}");
            }
        };
        if let Some(time) = time {
            let begun: std::time::Duration = time;
            let mut child = run()
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            thread::sleep(begun * (round * 37 % rounds) / rounds);
            child.kill().unwrap();
            child.wait().unwrap();
            there("killed");
        }
        let begun = Instant::now();
        desk.run(&mut run()).ok();
        time.get_or_insert(begun.elapsed());
        there("done");
        // Pages say when files were uploaded.
        let mut there = desk.there();
        there.retain(|(key, _)| key.ends_with(".whl") || key.ends_with(".metadata"));
        assert_eq!(whole.get_or_insert(there.clone()), &there, "round {round}");
    }
}
