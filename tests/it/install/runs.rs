//! Runs that are searched for, and sets that are not whole yet.

use std::{
    path::Path,
    thread::{self, sleep},
    time::Duration,
};

use serde_json::Value;
use walkdir::WalkDir;

use super::{expected, packages, place, ran};
use crate::{
    github::{
        commit,
        fake::{Fake, Reply},
        page_of_runs, pull, repository, run,
    },
    support::{
        place::{copy_files, text},
        program::Outcome,
        published::{TestSet, sample, sets_in_turn},
    },
};

const ABC: &str = "0123456789abcdef0123456789abcdef01234567";
const RUNS: &str = "/repos/ROCm/TheRock/actions/workflows/multi_arch_ci.yml/runs";

/// The outputs of a run that has the packages of a set.
fn write_run(set: &TestSet, run: &Path) {
    let (from, to) = (set.place(), run.join("python"));
    for entry in WalkDir::new(&from).into_iter().map(Result::unwrap) {
        let path = to.join(entry.path().strip_prefix(&from).unwrap());
        if entry.file_type().is_dir() {
            fs_err::create_dir_all(path).unwrap();
        } else {
            fs_err::copy(entry.path(), path).unwrap();
        }
    }
}

fn ended(id: u64, day: u64) -> Value {
    run(
        id,
        &format!("2026-01-0{day}T00:00:00Z"),
        "completed",
        Some("success"),
    )
}

/// A repository whose runs are these, on its branch, for a commit and for a pull request.
fn github(runs: &[Value]) -> Fake {
    let fake = Fake::start();
    fake.on("/repos/ROCm/TheRock", Reply::json(&repository("main")));
    fake.on("/repos/ROCm/TheRock/commits/v7", Reply::json(&commit(ABC)));
    fake.on("/repos/ROCm/TheRock/pulls/12", Reply::json(&pull(ABC)));
    for query in [
        format!("head_sha={ABC}&per_page=100&page=1"),
        "branch=main&per_page=20&page=1".to_owned(),
    ] {
        fake.on(&format!("{RUNS}?{query}"), page_of_runs(runs));
    }
    fake
}

fn found(fake: &Fake, bucket: &Path, arguments: &[&str]) -> Outcome {
    let url = fake.url();
    let hub = ["--github-api-url", &url, "--github-token", "hush"];
    let from = ["--input-dir", text(bucket), "--platform", "linux"];
    let mut outcome = ran(&[&hub[..], &from, arguments].concat());
    assert!(!outcome.stderr.contains("hush"), "{}", outcome.stderr);
    outcome.stderr = outcome.stderr.replace(text(bucket), "BUCKET");
    outcome
}

#[test]
fn the_newest_run_that_has_packages_is_installed() {
    let fake = github(&[ended(7, 1), ended(9, 3), ended(8, 2)]);
    for (number, how) in [
        &["--latest"][..],
        &["--branch", "main"],
        &["--commit", "v7"],
        &["--pr", "12"],
    ]
    .into_iter()
    .enumerate()
    {
        let set = sets_in_turn(number)[0];
        let (place, environment) = place();
        let bucket = place.path().join("bucket");
        write_run(set, &bucket.join("8-linux"));
        let target = ["--target", set.targets[0], "--venv", text(&environment)];
        let outcome = found(&fake, &bucket, &[how, &target].concat());
        assert_eq!(outcome.code, 0, "{how:?} {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(
                "note: skipped run 9 (0123456789ab, success): no packages at `BUCKET/9-linux/python`"
            ),
            "{}",
            outcome.stderr
        );
        assert_eq!(
            packages(&environment),
            expected(&set.targets[..1]),
            "{how:?}"
        );
    }
}

#[test]
fn a_search_without_packages_says_what_it_has_skipped() {
    let (place, environment) = place();
    let nothing = place.path().join("bucket");
    fs_err::create_dir(&nothing).unwrap();
    let refused = |runs: &[Value], more: &[&str]| {
        let target = ["--target", "none", "--venv", text(&environment)];
        let outcome = found(&github(runs), &nothing, &[more, &target].concat());
        assert!(!environment.exists());
        format!("{more:?} {}\n{}", outcome.code, outcome.stderr)
    };
    let under_way = run(9, "2026-01-03T00:00:00Z", "in_progress", None);
    let told = [
        refused(&[ended(7, 1), ended(9, 3)], &["--latest"]),
        refused(&[ended(7, 1), ended(9, 3)], &["--latest", "--wait", "2h"]),
        refused(&[ended(7, 1), under_way.clone()], &["--latest"]),
        refused(&[under_way], &["--pr", "12"]),
        refused(&[], &["--commit", "v7"]),
        refused(&[ended(7, 1)], &["--run-id", "7", "--latest"]),
        refused(&[ended(7, 1)], &["--pr", "12", "--set", "packages"]),
    ];
    insta::assert_snapshot!(told.concat());
}

#[test]
fn the_packages_of_a_run_under_way_are_waited_for() {
    let (place, environment) = place();
    let bucket = place.path().join("bucket");
    fs_err::create_dir(&bucket).unwrap();
    let (ready, uploaded) = (place.path().join("ready"), bucket.join("9-linux"));
    write_run(sample(), &ready);
    let uploading = thread::spawn(move || {
        sleep(Duration::from_millis(1500));
        fs_err::rename(ready, uploaded).unwrap();
    });
    let under_way = run(9, "2026-01-03T00:00:00Z", "in_progress", None);
    let more = ["--commit", "v7", "--wait", "60s", "--target", "gfx942"];
    let fake = github(&[under_way]);
    let outcome = found(
        &fake,
        &bucket,
        &[&more[..], &["--venv", text(&environment)]].concat(),
    );
    uploading.join().unwrap();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(packages(&environment), expected(&["gfx942"]));
}

/// `upload` writes `set.json` last.
#[test]
fn a_set_that_is_not_whole_yet_is_waited_for() {
    let (place, environment) = place();
    let set = place.path().join("set");
    let from = sample().root().join("packages");
    fs_err::create_dir_all(set.join("dist")).unwrap();
    copy_files(&from.join("dist"), &set.join("dist"));
    let whole = set.join("set.json");
    let uploading = thread::spawn(move || {
        sleep(Duration::from_secs(6));
        fs_err::copy(from.join("set.json"), whole).unwrap();
    });
    let target = [
        "--set",
        text(&set),
        "--target",
        "gfx942",
        "--venv",
        text(&environment),
    ];
    let refused = ran(&[&target[..], &["--wait", "2s"]].concat());
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("has no `set.json` after"),
        "{}",
        refused.stderr
    );
    assert!(!environment.exists());
    ran(&[&target[..], &["--wait", "10s"]].concat()).ok();
    uploading.join().unwrap();
    assert_eq!(packages(&environment), expected(&["gfx942"]));
}

/// Without `--wait`, and only if `upload` has begun: other runs have no `set.json` to wait for.
#[test]
fn packages_that_are_being_uploaded_are_waited_for() {
    let (place, environment) = place();
    let bucket = place.path().join("bucket");
    write_run(sample(), &bucket.join("9-linux"));
    let python = bucket.join("9-linux/python");
    let (whole, hidden) = (python.join("set.json"), place.path().join("set.json"));
    fs_err::rename(&whole, &hidden).unwrap();
    let uploading = thread::spawn(move || {
        sleep(Duration::from_millis(2500));
        fs_err::rename(hidden, whole).unwrap();
    });
    let run = ["--run-id", "9", "--offline", "--input-dir", text(&bucket)];
    let outcome = ran(&[
        &run[..],
        &["--target", "gfx942", "--venv", text(&environment)],
    ]
    .concat());
    uploading.join().unwrap();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let note = "is being uploaded: waiting for its `set.json`, at most 3 min";
    assert!(outcome.stderr.contains(note), "{}", outcome.stderr);
    assert_eq!(packages(&environment), expected(&["gfx942"]));
}
