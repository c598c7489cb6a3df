//! `place`, which a workflow asks before it takes on a role.

use std::process::Command;

use serde_json::{Value, json};

use crate::github::{
    fake::{Fake, Reply},
    run,
};
use crate::support::{
    program::{Outcome, ROCWHEEL},
    published,
};

/// What it answers to a run of `ROCm/TheRock`, for an event.
fn place(event: &Value, arguments: &str) -> (Value, String) {
    place_with(event, arguments, &[])
}

fn place_with(event: &Value, arguments: &str, keys: &[(&str, &str)]) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let (payload, outputs) = (
        directory.path().join("event.json"),
        directory.path().join("outputs"),
    );
    fs_err::write(&payload, event.to_string()).unwrap();
    let output = Command::new(ROCWHEEL)
        .env_clear()
        .env("GITHUB_REPOSITORY", "ROCm/TheRock")
        .env("GITHUB_RUN_ID", "7")
        .env("GITHUB_EVENT_PATH", &payload)
        .env("GITHUB_OUTPUT", &outputs)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(keys.iter().copied())
        .args(["place", "--format", "json", "--platform", "windows"])
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let outputs = fs_err::read_to_string(&outputs).unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), outputs)
}

fn push() -> Value {
    json!({"repository": {"full_name": "ROCm/TheRock", "fork": false}})
}

fn forks_pull() -> Value {
    let theirs = json!({"full_name": "somebody/TheRock", "fork": true});
    let home = json!({"full_name": "ROCm/TheRock", "fork": false});
    json!({"repository": home, "pull_request": {"head": {"repo": theirs}, "base": {"repo": home}}})
}

#[test]
fn a_run_of_our_own_has_a_place_and_a_role() {
    let (answer, outputs) = place(&push(), "");
    insta::assert_snapshot!(serde_json::to_string_pretty(&answer).unwrap(), @r#"
    {
      "schema": "rocwheel-place-v1",
      "bucket": "therock-ci-artifacts",
      "set-url": "s3://therock-ci-artifacts/7-windows/python/",
      "index-url": "https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/simple/",
      "find-links-url": "https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/dist/index.html",
      "region": "us-east-2",
      "role": "arn:aws:iam::692859939525:role/therock-ci",
      "no-role": null,
      "credentials": "role",
      "assumed": []
    }
    "#);
    let lines = outputs.lines().filter(|line| !line.contains("rocwheel_"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
    therock-ci-artifacts
    s3://therock-ci-artifacts/7-windows/python/
    https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/simple/
    https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/dist/index.html
    us-east-2
    arn:aws:iam::692859939525:role/therock-ci
    us-east-2
    arn:aws:iam::692859939525:role/therock-ci
    role
    ");
}

#[test]
fn on_behalf_of_a_fork_there_is_a_place_and_no_role() {
    let (answer, outputs) = place(&forks_pull(), "");
    assert_eq!(
        answer["set-url"],
        "s3://therock-ci-artifacts-external/ROCm-TheRock/7-windows/python/"
    );
    assert_eq!(answer["role"], Value::Null);
    assert_eq!(answer["no-role"], "the run builds the code of a fork");
    assert!(!outputs.contains("arn:aws"), "{outputs}");
    assert_eq!(
        place(&forks_pull(), "--release-type nightly").0["role"],
        Value::Null
    );
}

#[test]
fn a_runner_with_credentials_of_its_own_publishes_what_a_fork_built() {
    let keys = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let credentials = |event: &Value, arguments: &str, keys| {
        let (answer, outputs) = place_with(event, arguments, keys);
        let said = answer["credentials"].as_str().unwrap().to_owned();
        assert!(outputs.contains(&said), "{outputs}");
        said
    };
    let table = [
        (push(), "", &keys[..], "role"),
        (forks_pull(), "", &keys[..], "runner"),
        (forks_pull(), "", &[], "none"),
        (forks_pull(), "--no-sign-request", &keys[..], "none"),
        // It shares neither of these buckets.
        (forks_pull(), "--release-type nightly", &keys[..], "none"),
        (
            forks_pull(),
            "--bucket therock-ci-artifacts",
            &keys[..],
            "none",
        ),
        (forks_pull(), "--bucket mine", &keys[..], "runner"),
        (push(), "--bucket mine", &keys[..], "runner"),
        (push(), "--bucket mine", &[], "none"),
    ];
    for (event, arguments, keys, expected) in table {
        assert_eq!(
            credentials(&event, arguments, keys),
            expected,
            "{arguments}"
        );
    }
}

#[test]
fn what_is_asked_for_decides_the_place() {
    let shown = |arguments| {
        let (answer, _) = place(&push(), arguments);
        format!(
            "{} {} {}",
            answer["set-url"], answer["region"], answer["role"]
        )
    };
    let shown = [
        "--release-type nightly",
        "--bucket mine",
        "--artifact-group gfx94X-dcgpu",
    ]
    .map(shown);
    insta::assert_snapshot!(shown.join("\n"), @r#"
    "s3://therock-nightly-artifacts/7-windows/python/" "us-east-2" "arn:aws:iam::692859939525:role/therock-nightly"
    "s3://mine/7-windows/python/" null null
    "s3://therock-ci-artifacts/7-windows/python/gfx94X-dcgpu/" "us-east-2" "arn:aws:iam::692859939525:role/therock-ci"
    "#);
}

#[test]
fn a_local_run_has_no_place_in_a_bucket() {
    let mut command = Command::new(ROCWHEEL);
    command.env_clear().args(["place", "--run-id", "local"]);
    let refused = Outcome::of(command.output().unwrap());
    assert_eq!((refused.code, &*refused.stdout), (2, ""));
    insta::assert_snapshot!(refused.stderr, @"
    error: a local run has no bucket

    hint: pass `--bucket`, or the id of a run as `--run-id`
    ");
    command.args(["--bucket", "mine"]);
    let there = Outcome::of(command.output().unwrap()).ok();
    assert!(
        there.starts_with("s3://mine/local-linux/python/\n"),
        "{there}"
    );
}

/// What the binary says of run 8, with nothing but an API to ask.
fn of_another_run(fake: &Fake, arguments: &[&str]) -> String {
    let output = Command::new(ROCWHEEL)
        .env_clear()
        .env("GITHUB_API_URL", fake.url())
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .args(arguments)
        .args([
            "--run-id",
            "8",
            "--repository",
            "ROCm/TheRock",
            "--platform",
            "linux",
        ])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

#[test]
fn whose_code_another_run_built_is_asked_of_github() {
    let fake = Fake::start();
    let path = "/repos/ROCm/TheRock/actions/runs/8";
    let mut forks = run(8, "2026-01-02T00:00:00Z", "completed", Some("success"));
    forks["head_repository"]["full_name"] = json!("somebody/TheRock");
    fake.on(path, Reply::json(&forks));
    insta::assert_snapshot!(of_another_run(&fake, &["place"]), @"
    s3://therock-ci-artifacts-external/ROCm-TheRock/8-linux/python/
    index:  https://therock-ci-artifacts-external.s3.amazonaws.com/ROCm-TheRock/8-linux/python/simple/
    region: us-east-2
    role:   none, because the run builds the code of a fork, and there are no other credentials: the packages stay with the run
    note: assumed that run 8 has release type `ci`; pass `--release-type` if it has another
    ");
    // For a local directory, `upload` sends no request, and prints what it assumes.
    let own = tempfile::tempdir().unwrap();
    let place = own.path().to_str().unwrap();
    let [artifacts, packages] =
        ["artifacts", "packages"].map(|it| published::sample().root().join(it));
    let [artifacts, packages] = [&artifacts, &packages].map(|it| it.to_str().unwrap());
    let upload = [
        "upload",
        "--multi-target",
        "--no-check",
        "--packages-dir",
        packages,
    ];
    for command in [
        &["summary"][..],
        &[&upload[..], &["--dry-run"]].concat(),
        &["pipeline", "--artifact-dir", artifacts, "--dry-run"],
    ] {
        let said = of_another_run(&fake, &[command, &["--output-dir", place]].concat());
        assert!(said.contains("/8-linux/python"), "{said}");
    }
    let empty = Fake::start();
    empty.on(path, Reply::refusal(404, "Not Found"));
    insta::assert_snapshot!(of_another_run(&empty, &["summary"]), @"
    error: failed to look up run `8` of `ROCm/TheRock`
      caused by: GitHub has no such thing: `/repos/ROCm/TheRock/actions/runs/8`
      caused by: Not Found

    hint: pass `--bucket` to say where its outputs are, or `--offline` to assume the usual bucket

    hint: look at `--repository` and `--run-id`; a private repository needs `--github-token`
    ");
}
