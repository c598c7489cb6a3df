//! `place`, which a workflow asks before it takes on a role.

use std::process::Command;

use serde_json::{Value, json};

/// What it answers to a run of `ROCm/TheRock`, for an event.
fn place(event: &Value, arguments: &str) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let (payload, outputs) = (
        directory.path().join("event.json"),
        directory.path().join("outputs"),
    );
    fs_err::write(&payload, event.to_string()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rocwheel"))
        .env_clear()
        .env("GITHUB_REPOSITORY", "ROCm/TheRock")
        .env("GITHUB_RUN_ID", "7")
        .env("GITHUB_EVENT_PATH", &payload)
        .env("GITHUB_OUTPUT", &outputs)
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
      "find-links-url": "https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/index.html",
      "region": "us-east-2",
      "role": "arn:aws:iam::692859939525:role/therock-ci"
    }
    "#);
    let lines = outputs.lines().filter(|line| !line.contains("rocwheel_"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
    therock-ci-artifacts
    s3://therock-ci-artifacts/7-windows/python/
    https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/simple/
    https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/index.html
    us-east-2
    arn:aws:iam::692859939525:role/therock-ci
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
    assert!(!outputs.contains("arn:aws"), "{outputs}");
    assert_eq!(
        place(&forks_pull(), "--release-type nightly").0["role"],
        Value::Null
    );
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
