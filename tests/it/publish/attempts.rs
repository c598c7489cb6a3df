//! A run that is started again: all its attempts publish at one place.

use super::{
    Bench, Outcome,
    packages::{VERSION, wheel},
    tree,
};
use crate::support::{prelude::*, sandbox::words};

const PLACE: &str = "out/42-linux/python";

/// Uploads a directory in an attempt of run 42; 0 is a process that is no part of a run.
fn upload(bench: &Bench, packages: &str, attempt: u32, more: &str) -> Outcome {
    let line = format!(
        "upload {packages} --run-id 42 --bucket mine --platform linux --no-check --multi-target --output-dir out {more}"
    );
    let mut command = command();
    command.args(words(&line)).current_dir(&bench.root);
    if attempt > 0 {
        command.env("GITHUB_RUN_ID", "42");
        command.env("GITHUB_RUN_ATTEMPT", attempt.to_string());
    }
    Outcome::of(command.output().unwrap())
}

/// Packages that an attempt has built: their bytes are others each time.
fn build(bench: &Bench, directory: &str, version: &str, projects: &[&str]) {
    let dist = bench.root.join(directory).join("dist");
    for project in projects {
        wheel(&dist, project, version, &format!("Summary: {directory}\n"));
    }
}

/// A set as `build` describes it, of a commit.
fn describe(bench: &Bench, directory: &str, commit: char) {
    let commit = commit.to_string().repeat(40);
    let text = format!(
        r#"{{"schema": 1, "run-id": "42", "commit": "{commit}", "version": "{VERSION}", "targets": [], "files": []}}"#
    );
    fs_err::write(bench.root.join(directory).join("set.json"), text).unwrap();
}

/// Every file of the place, with its digest.
fn contents(bench: &Bench, place: &str) -> Vec<(String, Sha256)> {
    let root = bench.root.join(place);
    let digest = |path: String| {
        let bytes = fs_err::read(root.join(&path)).unwrap();
        (path, Sha256::of(&bytes))
    };
    tree(&root).into_iter().map(digest).collect()
}

fn set_json(bench: &Bench) -> Value {
    let text = fs_err::read_to_string(bench.path(&format!("{PLACE}/set.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn refused(bench: &Bench, outcome: &Outcome, before: &[(String, Sha256)]) -> String {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{}", outcome.stderr);
    assert_eq!(contents(bench, PLACE), before);
    outcome.stderr.clone()
}

#[test]
fn a_later_attempt_replaces_the_set_of_an_earlier_one() {
    let later = "7.13.0.dev0+ef.gh";
    let bench = Bench::new();
    build(&bench, "first", VERSION, &["rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-devel"]);
    build(&bench, "second", VERSION, &["rocm-sdk-core", "rocm-sdk-libraries"]);
    build(&bench, "third", later, &["rocm-sdk-core", "rocm-sdk-libraries"]);
    upload(&bench, "first", 1, "").ok();
    assert_eq!(set_json(&bench)["run-attempt"], 1);
    for (attempt, packages) in [(2, "second"), (3, "third")] {
        let said = upload(&bench, packages, attempt, "").done();
        assert_has!(said.stderr, "Removed dist/rocm_sdk_");
        assert_eq!(set_json(&bench)["run-attempt"], attempt);
        // What is there is what the attempt alone would have published.
        let replaced = contents(&bench, PLACE);
        fs_err::remove_dir_all(bench.root.join("out")).unwrap();
        upload(&bench, packages, attempt, "").ok();
        assert_eq!(replaced, contents(&bench, PLACE));
    }
    // The same again, and in the other layout.
    let said = upload(&bench, "third", 3, "");
    assert_has!(said.stderr, "11 of them unchanged");
    build(&bench, "fourth", later, &["rocm-sdk-core"]);
    upload(&bench, "fourth", 4, "--layout flat").ok();
    let there = tree(&bench.root.join(PLACE));
    assert!(!there.iter().any(|it| it.starts_with("dist/")), "{there:#?}");
}

#[test]
fn what_is_no_later_attempt_of_the_same_commit_is_refused() {
    let bench = Bench::new();
    for packages in ["first", "second"] {
        build(&bench, packages, VERSION, &["rocm-sdk-core"]);
        describe(&bench, packages, 'a');
    }
    build(&bench, "other", VERSION, &["rocm-sdk-core"]);
    describe(&bench, "other", 'b');
    upload(&bench, "first", 2, "").ok();
    let before = contents(&bench, PLACE);
    let said = [("second", 1), ("first", 1), ("other", 3), ("second", 2), ("second", 0)];
    let said = said.map(|(packages, attempt)| {
        let outcome = upload(&bench, packages, attempt, "");
        format!("{packages} {attempt}\n{}", refused(&bench, &outcome, &before))
    });
    let digests = regex::Regex::new("[0-9a-f]{64}").unwrap();
    insta::assert_snapshot!(digests.replace_all(&said.join("\n"), "SHA256"), @"
    second 1
    error: `out/42-linux/python` has the set of attempt 2 of the run, and this is attempt 1

    hint: start the run again on GitHub, because a later attempt replaces the set of an earlier one; or replace it with `rocwheel upload --overwrite`

    first 1
    error: `out/42-linux/python` has the set of attempt 2 of the run, and this is attempt 1

    hint: start the run again on GitHub, because a later attempt replaces the set of an earlier one; or replace it with `rocwheel upload --overwrite`

    other 3
    error: `out/42-linux/python` has the set of aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, and attempt 3 of the run has built bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb

    hint: start another run for the other commit, or replace the set with `rocwheel upload --overwrite`

    second 2
    error: 2 files are in `out/42-linux/python` already, with other bytes; nothing was changed
      caused by: `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`: here 1014 bytes with sha256 SHA256, there 1013 bytes with sha256 SHA256
      caused by: `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl.metadata`: here 85 bytes with sha256 SHA256, there 84 bytes with sha256 SHA256

    hint: start the run again on GitHub, because a later attempt replaces the set of an earlier one; or replace it with `rocwheel upload --overwrite`

    second 0
    error: 2 files are in `out/42-linux/python` already, with other bytes; nothing was changed
      caused by: `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`: here 1014 bytes with sha256 SHA256, there 1013 bytes with sha256 SHA256
      caused by: `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl.metadata`: here 85 bytes with sha256 SHA256, there 84 bytes with sha256 SHA256

    hint: start the run again on GitHub, because a later attempt replaces the set of an earlier one; or replace it with `rocwheel upload --overwrite`
    ");
    // The same bytes, from anywhere: the attempt that published them is still known.
    upload(&bench, "first", 0, "").ok();
    assert_eq!(set_json(&bench)["run-attempt"], 2);
    upload(&bench, "second", 0, "--overwrite").ok();
    assert_ne!(contents(&bench, PLACE), before);
}

#[test]
fn a_later_attempt_goes_on_where_an_earlier_one_was_interrupted() {
    let bench = Bench::new();
    build(&bench, "first", VERSION, &["rocm-sdk-core", "rocm-sdk-libraries"]);
    build(&bench, "second", VERSION, &["rocm-sdk-core", "rocm-sdk-libraries"]);
    upload(&bench, "first", 1, "").ok();
    for gone in ["set.json", "simple/index.html"] {
        fs_err::remove_file(bench.root.join(PLACE).join(gone)).unwrap();
    }
    let before = contents(&bench, PLACE);
    refused(&bench, &upload(&bench, "second", 1, ""), &before);
    upload(&bench, "second", 2, "").ok();
    let replaced = contents(&bench, PLACE);
    fs_err::remove_dir_all(bench.root.join("out")).unwrap();
    upload(&bench, "second", 2, "").ok();
    assert_eq!(replaced, contents(&bench, PLACE));
}

#[test]
fn the_packages_of_others_are_replaced_one_by_one() {
    let bench = Bench::new();
    build(&bench, "ours", VERSION, &["rocm-sdk-core"]);
    for packages in ["torch-1", "torch-2"] {
        build(&bench, packages, "2.9", &["torch"]);
    }
    build(&bench, "jax", "0.8", &["jax"]);
    describe(&bench, "ours", 'a');
    // Those of others may be the first.
    for packages in ["torch-1", "jax"] {
        upload(&bench, packages, 1, "").ok();
    }
    // The jobs of a second attempt come in any order, and some do not come at all.
    upload(&bench, "ours", 2, "").ok();
    let before = contents(&bench, PLACE);
    refused(&bench, &upload(&bench, "torch-2", 1, ""), &before);
    upload(&bench, "torch-2", 2, "").ok();
    let set = set_json(&bench);
    let of = |project: &str| {
        let mut files = set["files"].as_array().unwrap().iter();
        let file = files.find(|it| it["project"] == project).unwrap();
        file["run-attempt"].as_u64()
    };
    assert_eq!(set["run-attempt"], 2);
    assert_eq!(["rocm-sdk-core", "torch", "jax"].map(of), [None, Some(2), Some(1)]);
    let before = contents(&bench, PLACE);
    refused(&bench, &upload(&bench, "torch-1", 1, ""), &before);
}

#[test]
fn the_parts_of_a_later_attempt_replace_those_of_an_earlier_one() {
    let bench = Bench::new();
    for attempt in ["1", "2"] {
        for project in ["core", "libraries"] {
            let directory = format!("{project}-{attempt}");
            build(&bench, &directory, VERSION, &[&format!("rocm-sdk-{project}")]);
            describe(&bench, &directory, 'a');
        }
    }
    for attempt in [1, 2] {
        upload(&bench, &format!("core-{attempt}"), attempt, "--part").ok();
        upload(&bench, &format!("libraries-{attempt}"), attempt, "--part").ok();
        bench.run(&format!("index --no-check {PLACE}")).ok();
        assert_eq!(set_json(&bench)["run-attempt"], attempt);
    }
    let before = contents(&bench, PLACE);
    refused(&bench, &upload(&bench, "core-1", 1, "--part"), &before);
    refused(&bench, &upload(&bench, "core-1", 2, "--part"), &before);
}
