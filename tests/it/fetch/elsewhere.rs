//! `fetch` of a run of an unknown release type, from a server with the buckets of several.

use rocwheel_test_servers::github::{
    fake::{Fake, Reply},
    run,
};

use super::refusal;
use crate::{
    s3::{
        inprocess::InProcess,
        server::{ID, SECRET},
    },
    support::prelude::*,
};

/// Buckets that a run of the home repository may have used.
const BUCKETS: [&str; 3] =
    ["therock-ci-artifacts", "therock-ci-artifacts-external", "therock-nightly-artifacts"];

struct Desk {
    server: InProcess,
    github: Fake,
}

impl Desk {
    /// With run 8 of the home repository, by this repository.
    fn new(head: &str) -> Self {
        let (server, github) = (InProcess::start(), Fake::start());
        for bucket in BUCKETS {
            fs_err::create_dir(server.bucket_named(bucket)).unwrap();
        }
        let mut told = run(8, "2026-01-02T00:00:00Z", "completed", Some("success"));
        told["head_repository"]["full_name"] = json!(head);
        github.on("/repos/ROCm/TheRock/actions/runs/8", Reply::json(&told));
        Self { server, github }
    }

    /// Writes the archives of the sample below a prefix.
    fn fill(&self, bucket: &str, prefix: &str) {
        let directory = self.server.bucket_named(bucket).join(prefix);
        sample().write_archives(&directory);
    }

    fn fetch(&self, arguments: &str) -> Outcome {
        let endpoint = format!("http://127.0.0.1:{}", self.server.port);
        let t = Sandbox::new()
            .with("AWS_EC2_METADATA_DISABLED", "true")
            .with("AWS_ACCESS_KEY_ID", ID)
            .with("AWS_SECRET_ACCESS_KEY", SECRET)
            .with("AWS_ENDPOINT_URL", endpoint)
            .with("GITHUB_API_URL", self.github.url());
        t.run(&format!(
            "fetch --platform linux --dry-run --format json --source bucket --run-id 8 {arguments}"
        ))
    }
}

/// Where the artifacts come from.
fn from(said: Outcome) -> Value {
    serde_json::from_str::<Value>(&said.ok()).unwrap()["from"].take()
}

#[test]
fn a_run_of_another_release_type_is_not_guessed() {
    let desk = Desk::new("ROCm/TheRock");
    desk.fill("therock-nightly-artifacts", "8-linux");
    let mut said = refusal(&desk.fetch(""));
    // The hint is true.
    let named = desk.fetch("--release-type nightly");
    assert_eq!(from(named), "s3://therock-nightly-artifacts/8-linux");
    said += &refusal(&desk.fetch("--release-type ci"));
    // Upstream may keep the run of a fork with its own.
    let desk = Desk::new("somebody/TheRock");
    desk.fill("therock-ci-artifacts", "8-linux");
    said += &refusal(&desk.fetch(""));
    let named = desk.fetch("--bucket therock-ci-artifacts");
    assert_eq!(from(named), "s3://therock-ci-artifacts/8-linux");
    insta::assert_snapshot!(said, @"
    1: no artifacts for linux in s3://therock-ci-artifacts/8-linux | hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/8 | hint: check `--run-id` and `--platform`; if the run is in another bucket, name it with `--release-type dev` or `--release-type dev-bkc` or `--release-type nightly` or `--release-type prerelease` or `--bucket therock-artifacts`
    1: no artifacts for linux in s3://therock-ci-artifacts/8-linux | hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/8 | hint: check `--run-id`, `--platform`, `--release-type` and `--bucket`
    1: no artifacts for linux in s3://therock-ci-artifacts-external/ROCm-TheRock/8-linux | hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/8 | hint: check `--run-id` and `--platform`; if the run is in another bucket, name it with `--bucket therock-ci-artifacts` or `--release-type dev` or `--release-type dev-bkc` or `--release-type nightly` or `--release-type prerelease` or `--bucket therock-artifacts` or `--bucket therock-artifacts-external`
    ");
}
