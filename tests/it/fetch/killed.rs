//! A fetch that was killed or interrupted at any moment: what has its name is whole, and the next one does the rest.

use std::process::Stdio;

use super::{
    Fixture,
    bucket::{Remote, shared},
    count,
    tree::{Tree, difference, tree},
};
use crate::{
    s3::fault::Fault,
    support::{
        killed::{Killed, killed_at_every_step, killed_or_interrupted_at_every_step},
        prelude::*,
    },
};

const WAYS: [&str; 3] = ["", "--flatten", "--no-extract"];

/// A fetch into a directory of the sandbox.
fn command(fixture: &Fixture, out: &str, more: &str) -> Command {
    fixture.t.command(&format!(
        "fetch --platform linux --input-dir bucket --run-id 7 --output-dir {out} {more}"
    ))
}

#[test]
#[ignore = "slow"]
fn a_fetch_that_was_killed_is_made_whole_by_the_next() {
    let fixture = Fixture::of(published::odd());
    let fetch = |out: &str, way: &str| {
        let wanted = format!("--downloads 3 {way} blas rand rocgdb");
        command(&fixture, out, &wanted)
    };
    let whole = WAYS.map(|way| {
        let out = format!("whole{way}");
        succeed(&mut fetch(&out, way));
        tree(&fixture.t.path(out))
    });
    let out = fixture.t.path("stopped");
    let way = |round: u64| usize::try_from(round).unwrap() % WAYS.len();
    let prepared = |round| {
        let _ = fs_err::remove_dir_all(&out);
        fetch("stopped", WAYS[way(round)])
    };
    killed_or_interrupted_at_every_step(prepared, |killed| {
        killed.assert_code();
        let way = way(killed.round);
        let left = tree(&out);
        let half = left.keys().find(|path| path.contains(".part"));
        let may_be_half = !killed.is_interrupted || killed.status.code().is_none();
        assert!(half.is_none() || may_be_half, "{killed}: {half:?}");
        if WAYS[way] != "--flatten" {
            named_is_whole(&left, &whole[way], killed);
        }
        let again = fetch("stopped", WAYS[way]).output().unwrap();
        assert!(again.status.success(), "{killed}: {again:?}");
        assert_eq!(difference(&tree(&out), &whole[way]), [""; 0], "{killed}");
    });
}

/// Nothing lies under a final name that is not all of it.
fn named_is_whole(left: &Tree, whole: &Tree, killed: &Killed) {
    let top = |path: &String| path.split('/').next().unwrap().to_owned();
    for name in left.keys().map(top) {
        if name.starts_with('.') || name.ends_with(".part") {
            continue;
        }
        let of = |tree: &Tree| -> Tree {
            let own = tree.iter().filter(|(path, _)| top(path) == name);
            own.map(|(path, what)| (path.clone(), what.clone())).collect()
        };
        assert_eq!(difference(&of(left), &of(whole)), [""; 0], "{killed}");
    }
}

#[test]
fn an_artifact_that_was_to_be_replaced_is_never_lost_for_good() {
    let fixture = Fixture::new();
    let out = fixture.out();
    fixture.fetch("--run-id 7 blas_lib_gfx942").done();
    let whole = tree(&out);
    // As if it had been killed between two names.
    let old = out.join(".rocwheel-blas_lib_gfx942.old");
    fs_err::rename(out.join("blas_lib_gfx942"), old).unwrap();
    fs_err::create_dir(out.join("blas_lib_gfx942.part")).unwrap();
    fixture.fetch("--run-id 7 blas_lib_gfx942").done();
    assert_eq!(difference(&tree(&out), &whole), [""; 0]);
}

/// Whether a command takes a directory of artifacts.
fn is_taken(verb: &str, artifacts: &Path) -> bool {
    let t = Sandbox::new();
    let artifacts = artifacts.display();
    let said =
        t.run(&format!("{verb} --artifact-dir {artifacts} --platform linux --output-dir made"));
    let why = Regex::new("is not whole|no artifacts in|failed to read directory").unwrap();
    let is_told = why.is_match(&said.stderr);
    assert!(said.code == 0 || is_told, "{}", said.stderr);
    said.code == 0
}

/// What users see of a fetch directory.
fn artifacts(tree: &Tree) -> Tree {
    let seen = tree.iter().filter(|(path, _)| !path.starts_with('.'));
    seen.map(|(path, what)| (path.clone(), what.clone())).collect()
}

#[test]
#[ignore = "slow"]
fn an_interrupted_fetch_is_never_taken_for_the_whole_run() {
    let fixture = Fixture::new();
    let (out, whole) = (fixture.t.path("stopped"), fixture.t.path("whole"));
    succeed(&mut command(&fixture, "whole", ""));
    assert!(is_taken("build --plan", &whole));
    let whole = tree(&whole);
    let prepared = |_| {
        let _ = fs_err::remove_dir_all(&out);
        command(&fixture, "stopped", "--downloads 2")
    };
    killed_at_every_step(prepared, |killed| {
        let left = tree(&out);
        if is_taken("build --plan", &out) {
            // Between the last record and the end, only files of our own are still to go.
            let different = difference(&artifacts(&left), &artifacts(&whole));
            assert_eq!(different, [""; 0], "{killed}");
        } else {
            assert!(!difference(&left, &whole).is_empty(), "{killed}");
        }
    });
}

#[test]
fn an_artifact_that_was_not_recorded_is_missing_even_if_files_exist() {
    let fixture = Fixture::new();
    let out = fixture.out();
    fixture.fetch("--run-id 7").done();
    let record = fixture.t.read("out/.rocwheel-fetch.json");
    let mut state: Value = serde_json::from_str(&record).unwrap();
    let fetched = state["fetched"].as_object_mut().unwrap();
    // As if it had been killed after the new name, and before the record of it.
    fetched.remove("rpp_lib_generic").unwrap();
    fixture.t.write("out/.rocwheel-fetch.json", state.to_string());
    let is_taken = || ["build --plan", "pipeline --dry-run"].map(|it| is_taken(it, &out));
    assert_eq!(is_taken(), [false, false]);
    assert_eq!(count(&fixture.fetch("--run-id 7")), 1);
    assert_eq!(is_taken(), [true, true]);
}

#[test]
#[ignore = "slow"]
fn an_interruption_ends_a_download_at_once() {
    let remote = Remote::new(shared());
    let part = "/rocgdb_run_generic.tar";
    remote.proxy.breaks("GET", part, 99, Fault::Stall(10));
    let mut command = remote.signed("rocgdb_run");
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    remote.proxy.is_asked(part);
    let pid = child.id().to_string();
    let told = Command::new("kill").args(["-INT", &pid]).status();
    assert!(told.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let left = tree(&remote.out());
    assert!(left.keys().all(|path| !path.contains(".part")));
}
