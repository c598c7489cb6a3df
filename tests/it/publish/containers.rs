//! Uploads from containers that share a directory, and are all process 1.

use std::process::Stdio;

use super::{Bench, Outcome, tree};
use crate::support::namespace;
use crate::support::prelude::*;

const STORE: &str = "out/42-linux/python/dist";

/// An upload as the only process of a container, in which it has the first process id; where one may be that.
fn upload_as_process_1(bench: &Bench, to: &Path) -> Option<Command> {
    let mut command = namespace::as_process_1()?;
    command.arg(ROCWHEEL).env_clear();
    command.args(["upload", "--no-check", "--multi-target", "--platform=linux"]);
    command.args(["--run-id=42", "--bucket=mine", "--packages-dir"]);
    command.arg(bench.path("built"));
    command.arg("--output-dir").arg(to);
    Some(command)
}

#[test]
fn containers_that_upload_at_once_leave_whole_files() {
    if namespace::as_process_1().is_none() {
        return;
    }
    let benches = [Bench::built(), Bench::built(), Bench::built()];
    let place = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let shared = place.path().join(round.to_string());
        let started = benches.each_ref().map(|bench| {
            let mut command = upload_as_process_1(bench, &shared).unwrap();
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        });
        for child in started {
            Outcome::of(child.wait_with_output().unwrap()).ok();
        }
        for name in tree(&benches[0].root.join("built/dist")) {
            let built = fs_err::read(benches[0].root.join("built/dist").join(&name)).unwrap();
            let published = shared.join("42-linux/python/dist").join(&name);
            assert!(fs_err::read(published).unwrap() == built, "{name}");
        }
        let left = tree(&shared);
        assert!(!left.iter().any(|path| path.contains(".rocwheel-")), "{left:?}");
    }
}

#[test]
fn what_a_killed_upload_left_is_gone_after_the_next_one() {
    if namespace::as_process_1().is_none() {
        return;
    }
    let bench = Bench::built();
    let store = bench.root.join(STORE);
    fs_err::create_dir_all(&store).unwrap();
    let left = || {
        let mut left = tree(&store);
        left.retain(|name| name.starts_with(".rocwheel-"));
        left
    };
    let upload = || upload_as_process_1(&bench, &bench.root.join("out")).unwrap();
    // The kernel kills a process that writes a file longer than its limit: here with the first
    // byte. Process 1 of a container would be spared.
    let mut killed = Command::new("sh");
    killed.args(["-c", r#"ulimit -f 0; exec "$0" "$@""#]);
    let outside = upload();
    killed.args(outside.get_args().skip_while(|argument| *argument != ROCWHEEL));
    assert!(!killed.env_clear().status().unwrap().success());
    assert!(!left().is_empty());
    // Another machine may be writing it.
    fs_err::write(store.join(".rocwheel-of-another.part"), "").unwrap();
    Outcome::of(upload().output().unwrap()).ok();
    assert_eq!(left(), [".rocwheel-of-another.part"]);
}
