//! `--offline`: where a run is read and written, without a question to any server.

use std::process::Command;

use serde_json::Value;

use crate::support::{
    program::{Outcome, ROCWHEEL},
    published,
};

/// Says something without any network: every address that could be asked refuses.
fn offline(arguments: &str) -> Outcome {
    let output = Command::new(ROCWHEEL)
        .env_clear()
        .env("GITHUB_API_URL", "http://127.0.0.1:1")
        .env("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
        .args(arguments.split_whitespace())
        .args(["--offline", "--platform", "linux"])
        .output()
        .unwrap();
    Outcome::of(output)
}

#[test]
fn offline_a_place_is_assumed() {
    let said = [
        "place --run-id 8",
        "place --run-id https://github.com/ROCm/rocm-libraries/actions/runs/8 --layout flat",
        "place --run-id 8 --bucket mine",
        "fetch --run-id 8 --dry-run",
        "pipeline --run-id 8 --dry-run --output-dir out --release-type nightly",
    ]
    .map(|line| {
        let outcome = offline(line);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        format!("$ {line}\n{}{}\n", outcome.stderr, outcome.stdout)
    });
    insta::assert_snapshot!(said.concat(), @"
    $ place --run-id 8
    note: assumed that run 8 has release type `ci`; pass `--release-type` if it has another
    note: assumed that run 8 did not build the code of a fork
    note: assumed that run 8 is from after 2025-11-11T16:18:48Z
    s3://therock-ci-artifacts/8-linux/python/
    index:  http://127.0.0.1:1/therock-ci-artifacts/8-linux/python/simple/
    region: us-east-2
    role:   arn:aws:iam::692859939525:role/therock-ci

    $ place --run-id https://github.com/ROCm/rocm-libraries/actions/runs/8 --layout flat
    note: assumed that run 8 has release type `ci`; pass `--release-type` if it has another
    note: assumed that run 8 is from after 2025-11-11T16:18:48Z
    s3://therock-ci-artifacts-external/ROCm-rocm-libraries/8-linux/python/
    index:  http://127.0.0.1:1/therock-ci-artifacts-external/ROCm-rocm-libraries/8-linux/python/simple/
    region: us-east-2
    role:   arn:aws:iam::692859939525:role/therock-ci-external

    $ place --run-id 8 --bucket mine
    note: assumed that this machine has no credentials of its own
    s3://mine/8-linux/python/
    index:  http://127.0.0.1:1/mine/8-linux/python/simple/
    region: not known, as this is no bucket of TheRock
    role:   none, because `mine` is no bucket of TheRock, and there are no other credentials: the packages stay with the run

    $ fetch --run-id 8 --dry-run
    note: assumed that run 8 has release type `ci`; pass `--release-type` if it has another
    note: assumed that run 8 did not build the code of a fork
    note: assumed that run 8 is from after 2025-11-11T16:18:48Z
    note: offline: which artifacts the run has, and whether they are enough, is not known
    run 8 of ROCm/TheRock

    linux, region us-east-2, role arn:aws:iam::692859939525:role/therock-ci
      read  s3://therock-ci-artifacts/8-linux/
      else  s3://therock-dev-artifacts/8-linux/ (--release-type dev)
      else  s3://therock-bkc-artifacts/8-linux/ (--release-type dev-bkc)
      else  s3://therock-nightly-artifacts/8-linux/ (--release-type nightly)
      else  s3://therock-prerelease-artifacts/8-linux/ (--release-type prerelease)
      else  s3://therock-artifacts/8-linux/ (--bucket therock-artifacts)

    $ pipeline --run-id 8 --dry-run --output-dir out --release-type nightly
    note: offline: which artifacts the run has, and whether they are enough, is not known
    run 8 of ROCm/TheRock

    linux, region us-east-2, role arn:aws:iam::692859939525:role/therock-nightly
      read  s3://therock-nightly-artifacts/8-linux/
      write s3://therock-nightly-artifacts/8-linux/python/
            http://127.0.0.1:1/therock-nightly-artifacts/8-linux/python/simple/
            http://127.0.0.1:1/therock-nightly-artifacts/8-linux/python/dist/index.html
    ");
}

#[test]
fn offline_nothing_else_is_done() {
    let packages = published::sample().root().join("packages");
    let packages = packages.to_str().unwrap();
    let said = [
        "fetch --run-id 8",
        "fetch --latest --dry-run",
        "pipeline --run-id 8 --output-dir out",
        "summary --run-id 8",
        "summary s3://bucket/set",
        &format!("upload --packages-dir {packages} --multi-target --no-check --run-id 8"),
        &format!("upload --packages-dir {packages} --to s3://bucket/set --no-check"),
    ]
    .map(|line| {
        let outcome = offline(line);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{line}");
        let errors = outcome
            .stderr
            .lines()
            .filter(|line| !line.starts_with("note: "));
        errors.collect::<Vec<_>>().join("\n")
    });
    insta::assert_snapshot!(said.join("\n"), @"
    error: fetching from a bucket or from GitHub is not possible with `--offline`

    hint: add `--dry-run`, or fetch from `--input-dir`
    error: `--latest` is not possible with `--offline`

    hint: name the run with `--run-id`
    error: fetching from a bucket or from GitHub is not possible with `--offline`

    hint: add `--dry-run`, or fetch from `--input-dir`
    error: reading `s3://therock-ci-artifacts/8-linux/python/` is not possible with `--offline`
    error: reading `s3://bucket/set` is not possible with `--offline`
    error: an upload to `s3://therock-ci-artifacts/8-linux/python/` is not possible with `--offline`

    hint: pass `--output-dir`, or ask `place --offline` where it would go
    error: an upload to `s3://bucket/set` is not possible with `--offline`

    hint: pass `--output-dir`, or ask `place --offline` where it would go
    ");
}

#[test]
fn offline_local_work_is_done() {
    let out = tempfile::tempdir().unwrap();
    let place = out.path().to_str().unwrap();
    let sample =
        format!("pipeline --sample --run-id 8 --output-dir {place} --dry-run --format json");
    let forecast: Value = serde_json::from_str(&offline(&sample).ok()).unwrap();
    // What is written is below the place of the run.
    let place = offline("place --run-id 8 --format json").ok();
    let place: Value = serde_json::from_str(&place).unwrap();
    assert_eq!(forecast["set-url"], place["set-url"]);
    for key in forecast["writes"].as_array().unwrap() {
        let key = key.as_str().unwrap();
        assert!(key.starts_with("8-linux/python/"), "{key}");
    }
}
