//! `fetch` of a run of an unknown release type, from a server with the buckets of several.

use std::{process::Command, thread, time::Duration};

use fs_err as fs;
use serde_json::{Value, json};

use crate::{
    github::{
        fake::{Fake, Reply},
        run,
    },
    s3::{
        inprocess::InProcess,
        server::{ID, SECRET},
    },
    support::{program::ROCWHEEL, published},
};

/// Every bucket that a run of the home repository may have used.
pub(super) const BUCKETS: [&str; 7] = [
    "therock-ci-artifacts",
    "therock-ci-artifacts-external",
    "therock-dev-artifacts",
    "therock-nightly-artifacts",
    "therock-prerelease-artifacts",
    "therock-artifacts",
    "therock-artifacts-external",
];

struct Desk {
    server: InProcess,
    github: Fake,
}

impl Desk {
    /// With these buckets, and run 8 of the home repository, by this repository.
    fn new(buckets: &[&str], head: &str) -> Self {
        let (server, github) = (InProcess::start(), Fake::start());
        for bucket in buckets {
            fs::create_dir(server.bucket_named(bucket)).unwrap();
        }
        let mut told = run(8, "2026-01-02T00:00:00Z", "completed", Some("success"));
        told["head_repository"]["full_name"] = json!(head);
        github.on("/repos/ROCm/TheRock/actions/runs/8", Reply::json(&told));
        Self { server, github }
    }

    /// Writes the archives of the sample below a prefix.
    fn fill(&self, bucket: &str, prefix: &str) {
        let directory = self.server.bucket_named(bucket).join(prefix);
        fs::create_dir_all(&directory).unwrap();
        for (name, bytes) in published::sample().archives() {
            fs::write(directory.join(name), bytes).unwrap();
        }
    }

    /// The exit code, the answer, and what was said beside it.
    fn fetch(&self, arguments: &str) -> (i32, Value, String) {
        let output = Command::new(ROCWHEEL)
            .env_clear()
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_ACCESS_KEY_ID", ID)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("GITHUB_API_URL", self.github.url())
            .env(
                "AWS_ENDPOINT_URL",
                format!("http://127.0.0.1:{}", self.server.port),
            )
            .args(["fetch", "--platform", "linux"])
            .args(["--dry-run", "--format", "json", "--source", "bucket"])
            .args(
                if arguments.contains("--run-id") {
                    ""
                } else {
                    "--run-id 8"
                }
                .split_whitespace(),
            )
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let answer = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let code = output.status.code().unwrap();
        (
            code,
            answer,
            said.replace("Listed 37 artifacts", "Listed artifacts"),
        )
    }
}

#[test]
fn a_run_of_another_release_type_is_found_and_told() {
    let desk = Desk::new(&BUCKETS, "ROCm/TheRock");
    desk.fill("therock-nightly-artifacts", "8-linux");
    let (code, answer, said) = desk.fetch("");
    assert_eq!(
        (code, &answer["from"]),
        (0, &json!("s3://therock-nightly-artifacts/8-linux"))
    );
    insta::assert_snapshot!(said, @"
    note: run 8 may be in buckets that cannot be read: `therock-bkc-artifacts` (the store failed: `s3://therock-bkc-artifacts/8-linux/`: NoSuchBucket (HTTP 404))
    note: run 8 is in `s3://therock-nightly-artifacts/8-linux`, not in `s3://therock-ci-artifacts/8-linux`: pass `--release-type nightly` to read only there
          Listed artifacts in s3://therock-nightly-artifacts/8-linux
    ");
    // What was said is true.
    let (code, again, said) = desk.fetch("--release-type nightly");
    assert_eq!((code, again), (0, answer));
    assert!(!said.contains("therock-ci-artifacts"), "{said}");
    // One that the user names is not replaced.
    let (code, _, said) = desk.fetch("--release-type ci");
    assert_eq!(code, 1);
    insta::assert_snapshot!(said, @"
    error: no artifacts for linux in s3://therock-ci-artifacts/8-linux

    hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/8

    hint: look at `--run-id`, `--platform`, `--release-type` and `--bucket`
    ");
}

#[test]
fn a_run_of_a_fork_is_found_where_upstream_keeps_it() {
    let desk = Desk::new(&BUCKETS, "somebody/TheRock");
    desk.fill("therock-ci-artifacts", "8-linux");
    let (code, answer, said) = desk.fetch("");
    assert_eq!(
        (code, &answer["from"]),
        (0, &json!("s3://therock-ci-artifacts/8-linux"))
    );
    insta::assert_snapshot!(said, @"
    note: run 8 may be in buckets that cannot be read: `therock-bkc-artifacts` (the store failed: `s3://therock-bkc-artifacts/8-linux/`: NoSuchBucket (HTTP 404))
    note: run 8 is in `s3://therock-ci-artifacts/8-linux`, not in `s3://therock-ci-artifacts-external/ROCm-TheRock/8-linux`: pass `--bucket therock-ci-artifacts` to read only there
          Listed artifacts in s3://therock-ci-artifacts/8-linux
    ");
}

#[test]
fn a_run_in_several_buckets_or_in_none_is_not_guessed() {
    let desk = Desk::new(&BUCKETS[1..], "somebody/TheRock");
    let (code, _, said) = desk.fetch("");
    assert_eq!(code, 1);
    insta::assert_snapshot!(said, @"
    note: run 8 may be in buckets that cannot be read: `therock-ci-artifacts` (the store failed: `s3://therock-ci-artifacts/8-linux/`: NoSuchBucket (HTTP 404)), `therock-bkc-artifacts` (the store failed: `s3://therock-bkc-artifacts/8-linux/`: NoSuchBucket (HTTP 404))
    error: no artifacts for linux in s3://therock-ci-artifacts-external/ROCm-TheRock/8-linux, nor in s3://therock-dev-artifacts/8-linux, nor in s3://therock-nightly-artifacts/8-linux, nor in s3://therock-prerelease-artifacts/8-linux, nor in s3://therock-artifacts/8-linux, nor in s3://therock-artifacts-external/ROCm-TheRock/8-linux

    hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/8

    hint: look at `--run-id`, `--platform`, `--release-type` and `--bucket`
    ");
    desk.fill("therock-dev-artifacts", "8-linux");
    desk.fill("therock-artifacts", "8-linux");
    let (code, _, said) = desk.fetch("");
    assert_eq!(code, 2);
    insta::assert_snapshot!(said, @"
    note: run 8 may be in buckets that cannot be read: `therock-ci-artifacts` (the store failed: `s3://therock-ci-artifacts/8-linux/`: NoSuchBucket (HTTP 404)), `therock-bkc-artifacts` (the store failed: `s3://therock-bkc-artifacts/8-linux/`: NoSuchBucket (HTTP 404))
    error: run 8 is in several places: `s3://therock-dev-artifacts/8-linux`, `s3://therock-artifacts/8-linux`

    hint: say which one is meant: `--release-type dev` or `--bucket therock-artifacts`
    ");
}

#[test]
fn a_run_that_is_waited_for_is_found_in_whichever_bucket_it_comes_to() {
    let desk = Desk::new(&BUCKETS[..6], "ROCm/TheRock");
    let running = run(9, "2026-01-02T00:00:00Z", "in_progress", None);
    desk.github
        .on("/repos/ROCm/TheRock/actions/runs/9", Reply::json(&running));
    let (code, answer, said) = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(1500));
            desk.fill("therock-nightly-artifacts", "9-linux");
        });
        desk.fetch("--run-id 9 --wait 60s")
    });
    assert_eq!(
        (code, &answer["from"]),
        (0, &json!("s3://therock-nightly-artifacts/9-linux")),
        "{said}"
    );
    assert!(said.contains("Waiting for at most"), "{said}");
}
