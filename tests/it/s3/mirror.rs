//! `deps mirror` to a bucket, and what is left when it is killed.

use std::cell::RefCell;

use super::{
    objects::receive,
    server::Server,
    upload::{Desk, KEYS},
};
use crate::{
    deps::{self, Workplace},
    promote::places::{assert_whole, wheels},
    support::{killed::killed_at_every_step, place::empty, prelude::*},
};

fn mirror(workplace: &Workplace, desk: &Desk) -> Command {
    let line = "deps mirror --deps-file deps.toml --into s3://BUCKET/base";
    let mut command = desk.command(&KEYS, line);
    command.current_dir(&workplace.root);
    command
}

/// At any moment there are whole files under their names, and pages that link to no other; the next run
/// does the rest.
#[test]
#[ignore = "slow"]
fn a_mirror_that_was_killed_is_finished_by_the_next() {
    let workplace = deps::locked();
    let desk = RefCell::new(Desk::new());
    let mirror = |desk: &Desk| mirror(&workplace, desk);
    let prepared = |_| {
        let mut desk = desk.borrow_mut();
        *desk = Desk::new();
        mirror(&desk)
    };
    let there = |desk: &Desk, name: &str| -> Vec<(String, Sha256)> {
        let here = empty(&format!("s3/mirror/{name}"));
        receive(&Server::shared().store(&desk.bucket), &here, "base/");
        assert_whole(&here);
        for name in wheels(&here) {
            let digest = Sha256::of(&fs_err::read(here.join("dist").join(&name)).unwrap());
            assert!(workplace.lock().contains(&digest.to_string()), "{name}");
        }
        // Pages say when files were uploaded.
        let mut there = desk.there();
        there.retain(|(key, _)| key.ends_with(".whl") || key.ends_with(".metadata"));
        there
    };
    succeed(&mut prepared(0));
    let whole = there(&desk.borrow(), "whole");
    assert!(!whole.is_empty());
    killed_at_every_step(prepared, |killed| {
        let desk = desk.borrow();
        there(&desk, "killed");
        succeed(&mut mirror(&desk));
        assert_eq!(there(&desk, "done"), whole, "{killed}");
    });
}
