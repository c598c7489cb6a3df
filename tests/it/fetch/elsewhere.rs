//! `fetch` of a run of an unknown release type, from a server with the buckets of several.

use std::{thread, time::Duration};

use fs_err as fs;
use serde_json::{Value, json};

use super::refusal;
use crate::{
    github::{
        fake::{Fake, Reply},
        run,
    },
    s3::{
        inprocess::InProcess,
        server::{ID, SECRET},
    },
    support::{program::Outcome, published, sandbox::Sandbox},
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

    fn fetch(&self, arguments: &str) -> Outcome {
        let t = Sandbox::new()
            .with("AWS_EC2_METADATA_DISABLED", "true")
            .with("AWS_ACCESS_KEY_ID", ID)
            .with("AWS_SECRET_ACCESS_KEY", SECRET)
            .with("GITHUB_API_URL", self.github.url())
            .with(
                "AWS_ENDPOINT_URL",
                format!("http://127.0.0.1:{}", self.server.port),
            );
        let run = if arguments.contains("--run-id") {
            ""
        } else {
            "--run-id 8"
        };
        t.run(&format!(
            "fetch --platform linux --dry-run --format json --source bucket {run} {arguments}"
        ))
    }
}

/// Where the artifacts come from.
fn from(said: &Outcome) -> Value {
    assert_eq!(said.code, 0, "{}", said.stderr);
    serde_json::from_str::<Value>(&said.stdout).unwrap()["from"].take()
}

#[test]
#[ignore = "slow"]
fn a_run_of_another_release_type_is_found_and_told() {
    let desk = Desk::new(&BUCKETS, "ROCm/TheRock");
    desk.fill("therock-nightly-artifacts", "8-linux");
    let said = desk.fetch("");
    assert_eq!(from(&said), "s3://therock-nightly-artifacts/8-linux");
    insta::assert_snapshot!(said.stderr, @"
    note: run 8 may be in buckets that cannot be read: `therock-bkc-artifacts` (the store failed: `s3://therock-bkc-artifacts/8-linux/`: NoSuchBucket (HTTP 404))
    note: run 8 is in `s3://therock-nightly-artifacts/8-linux`, not in `s3://therock-ci-artifacts/8-linux`: pass `--release-type nightly` to read only there
          Listed 37 artifacts in s3://therock-nightly-artifacts/8-linux
    ");
    // What was said is true.
    let again = desk.fetch("--release-type nightly");
    assert_eq!(again.stdout, said.stdout);
    let told = &again.stderr;
    assert!(!told.contains("therock-ci-artifacts"), "{told}");
    // One that the user names is not replaced.
    insta::assert_snapshot!(refusal(&desk.fetch("--release-type ci")), @"1: no artifacts for linux in s3://therock-ci-artifacts/8-linux | hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/8 | hint: look at `--run-id`, `--platform`, `--release-type` and `--bucket`");
    // Upstream keeps the run of a fork with its own.
    let desk = Desk::new(&BUCKETS, "somebody/TheRock");
    desk.fill("therock-ci-artifacts", "8-linux");
    let said = desk.fetch("");
    assert_eq!(from(&said), "s3://therock-ci-artifacts/8-linux");
    said.says("note: run 8 is in `s3://therock-ci-artifacts/8-linux`, not in `s3://therock-ci-artifacts-external/ROCm-TheRock/8-linux`: pass `--bucket therock-ci-artifacts` to read only there");
}

#[test]
fn a_run_in_several_buckets_or_in_none_is_not_guessed() {
    let desk = Desk::new(&BUCKETS[1..], "somebody/TheRock");
    let mut said = refusal(&desk.fetch(""));
    desk.fill("therock-dev-artifacts", "8-linux");
    desk.fill("therock-artifacts", "8-linux");
    let several = desk.fetch("");
    said += &refusal(&several);
    insta::assert_snapshot!(said, @"
    1: no artifacts for linux in s3://therock-ci-artifacts-external/ROCm-TheRock/8-linux, nor in s3://therock-dev-artifacts/8-linux, nor in s3://therock-nightly-artifacts/8-linux, nor in s3://therock-prerelease-artifacts/8-linux, nor in s3://therock-artifacts/8-linux, nor in s3://therock-artifacts-external/ROCm-TheRock/8-linux | hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/8 | hint: look at `--run-id`, `--platform`, `--release-type` and `--bucket`
    2: run 8 is in several places: `s3://therock-dev-artifacts/8-linux`, `s3://therock-artifacts/8-linux` | hint: say which one is meant: `--release-type dev` or `--bucket therock-artifacts`
    ");
    several.says("note: run 8 may be in buckets that cannot be read: `therock-ci-artifacts` (the store failed: ");
}

#[test]
#[ignore = "slow"]
fn a_run_that_is_waited_for_is_found_in_whichever_bucket_it_comes_to() {
    let desk = Desk::new(&BUCKETS[..6], "ROCm/TheRock");
    let running = run(9, "2026-01-02T00:00:00Z", "in_progress", None);
    desk.github
        .on("/repos/ROCm/TheRock/actions/runs/9", Reply::json(&running));
    let said = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(1500));
            desk.fill("therock-nightly-artifacts", "9-linux");
        });
        desk.fetch("--run-id 9 --wait 60s")
    });
    assert_eq!(from(&said), "s3://therock-nightly-artifacts/9-linux");
    said.says("Waiting for at most");
}
