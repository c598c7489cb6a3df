//! Connections that fail while an installer works.

use std::sync::atomic::AtomicUsize;

use super::{expected, install, packages, place, ran, registry};
use crate::{
    publish::server::{Server, Site},
    support::{
        place::text,
        program::Outcome,
        published::{sample, sets},
    },
};

const AGAIN: &str = "has lost a connection, and is started again";

#[test]
fn an_installer_that_loses_a_connection_is_started_again() {
    for (installer, set) in ["uv", "pip"].into_iter().zip(sets()) {
        for failures in [2, 3] {
            let server = Server::start(Site::Flaky {
                root: set.place(),
                project: "rocm_sdk_core",
                left: AtomicUsize::new(failures),
            });
            let (_place, environment) = place();
            let target = set.targets[0];
            let arguments = ["--set", &server.url, "--target", target];
            let mut command = install(&[&arguments[..], &["--installer", installer]].concat());
            // Otherwise each of them hides such failures for a while.
            command.env("UV_HTTP_RETRIES", "0").env("PIP_RETRIES", "0");
            let outcome = Outcome::of(command.arg(&environment).output().unwrap());
            let said = &outcome.stderr;
            assert_eq!(said.matches(AGAIN).count(), 2, "{installer}: {said}");
            if failures == 2 {
                assert_eq!(outcome.code, 0, "{installer}: {said}");
                assert_eq!(packages(&environment), expected(&[target]), "{installer}");
            } else {
                assert_eq!(outcome.code, 1, "{installer}: {said}");
                assert!(!environment.exists(), "{installer}");
            }
        }
    }
}

#[test]
fn what_cannot_be_resolved_is_asked_for_once() {
    let (place, environment) = place();
    let (set, registry) = (sample().place(), registry(place.path()));
    let base = ["--set", text(&set), "--target", "none", "--deps", &registry];
    for installer in ["uv", "pip"] {
        let more = ["--package", "nothing==1", "--installer", installer];
        let refused = ran(&[&base[..], &more, &[text(&environment)]].concat());
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(!refused.stderr.contains(AGAIN), "{}", refused.stderr);
        assert!(refused.stderr.contains("nothing"), "{}", refused.stderr);
        assert!(!environment.exists());
    }
}
