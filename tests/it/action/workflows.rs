//! The workflows for users, job by job, against an S3 server on this machine.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rocwheel_store::{Condition, Depth, Store as _, location::Bucket};

use super::{
    runner::{Repository, Run, address},
    spread::text as object,
};
use crate::s3::server::{ID, SECRET, Server};
use crate::support::memory::put;
use crate::support::prelude::*;
use crate::support::published::{odd, sets_in_turn};

pub(super) const CREDENTIALS: &str =
    "aws-actions/configure-aws-credentials@e6de054238d6b7531b4efff3b6587d9aade6a06c";

pub(super) const KEEP: &str = "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a";

pub(super) const PYTHON: &str = "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97";

/// Stands for AWS: has credentials for the role that may write.
pub(super) fn role(role: &str) -> String {
    format!(
        r#"
name: credentials
description: credentials
inputs:
  aws-region: {{ description: region, required: true }}
  role-to-assume: {{ description: role, required: true }}
  mask-aws-account-id: {{ description: mask }}
runs:
  using: composite
  steps:
    - shell: bash
      env:
        ROLE: ${{{{ inputs.role-to-assume }}}}
        REGION: ${{{{ inputs.aws-region }}}}
      run: |
        echo "asked for $ROLE in $REGION"
        [ "$ROLE" = {role} ]
        echo "::add-mask::{SECRET}"
        {{
          echo AWS_ACCESS_KEY_ID={ID}
          echo AWS_SECRET_ACCESS_KEY={SECRET}
          echo "AWS_REGION=$REGION"
        }} >>"$GITHUB_ENV"
"#
    )
}

/// Stands for GitHub's artifacts: a directory of them, as `gh run download` would make it.
pub(super) fn keep(place: &Path) -> String {
    let place = place.display();
    format!(
        r#"
name: keep
description: keep
inputs:
  name: {{ description: name, required: true }}
  path: {{ description: path, required: true }}
  compression-level: {{ description: level }}
  retention-days: {{ description: days }}
  if-no-files-found: {{ description: what }}
  overwrite: {{ description: whether }}
runs:
  using: composite
  steps:
    - shell: bash
      env:
        NAME: ${{{{ inputs.name }}}}
        KEPT: ${{{{ inputs.path }}}}
      run: |
        mkdir -p "{place}/$NAME"
        cp -R "$KEPT/." "{place}/$NAME"
"#
    )
}

/// Stands for an installation of Python: one is there.
pub(super) fn python() -> String {
    let directory = tool("python");
    let directory = directory.parent().unwrap().display();
    format!(
        r#"
name: python
description: python
inputs:
  python-version: {{ description: version }}
runs:
  using: composite
  steps:
    - shell: bash
      run: echo {directory} >>"$GITHUB_PATH"
"#
    )
}

impl Repository {
    /// Gives the runner keys of its own.
    pub(super) fn keys(&mut self, secret: &str) {
        self.variable("AWS_ACCESS_KEY_ID", ID).variable("AWS_SECRET_ACCESS_KEY", secret);
    }
}

/// The usual buckets on our server; they exist once, so that one test at a time has them.
pub(super) struct Stage {
    pub(super) repository: Repository,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    /// With the sample as the artifacts of this very run.
    pub(super) fn new(bucket: &str, prefix: &str, event: &Value) -> Self {
        Self::of(sample(), bucket, prefix, event)
    }

    pub(super) fn of(set: &TestSet, bucket: &str, prefix: &str, event: &Value) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let server = Server::shared();
        let bucket = server.bucket_named(bucket);
        server.publish(&bucket);
        remove(&bucket, prefix);
        store_archives(set, &bucket, prefix);
        let mut repository = Repository::new();
        let payload = repository.path().join("event.json");
        fs_err::write(&payload, event.to_string()).unwrap();
        let endpoint = format!("http://127.0.0.1:{}", server.port);
        repository.variable("AWS_ENDPOINT_URL_S3", &endpoint);
        repository.variable("GITHUB_REPOSITORY", "ROCm/TheRock");
        repository.argument("--eventpath", text(&payload));
        let kept = keep(&repository.path().join("kept"));
        repository.action(KEEP, &kept);
        Self { repository, _alone: alone }
    }
}

/// Removes what another test left.
fn remove(bucket: &Bucket, prefix: &str) {
    let store = Server::shared().store(bucket);
    let directory = prefix.trim_end_matches('/').parse().unwrap();
    for object in store.list(Some(&directory), Depth::All).unwrap() {
        store.delete(&object.key, &Condition::Always).unwrap();
    }
}

fn store_archives(set: &TestSet, bucket: &Bucket, prefix: &str) {
    let store = Server::shared().store(bucket);
    for (name, bytes) in set.archives() {
        put(&store, &format!("{prefix}{name}"), "application/zstd", &bytes);
    }
}

/// The event of a run that somebody starts by hand.
pub(super) fn dispatched() -> Value {
    json!({"repository": {"full_name": "ROCm/TheRock", "fork": false}})
}

/// The sample, made on this machine.
pub(super) fn made(place: &Path) -> PathBuf {
    let out = place.join("out");
    rocwheel(&["pipeline", "--sample", "--output-dir", text(&out)]).ok();
    out
}

/// Outcomes of jobs, without the workflow's name.
pub(super) fn outcomes(run: &Run) -> Vec<String> {
    let jobs = run.jobs().into_iter();
    jobs.map(|(job, result)| format!("{job}: {result}")).collect()
}

/// What is published for run 1, in order.
pub(super) fn published(bucket: &str, prefix: &str) -> Vec<String> {
    let store = Server::shared().store(&bucket.parse().unwrap());
    let directory = prefix.trim_end_matches('/').parse().unwrap();
    let objects = store.list(Some(&directory), Depth::All).unwrap();
    let keys = objects.iter().map(|object| object.key.to_string());
    keys.map(|key| key.replace(prefix, "")).collect()
}

#[test]
#[ignore = "slow"]
fn packages_are_built_checked_published_and_described() {
    sets_in_turn(1).into_iter().for_each(are_built_checked_published_and_described);
}

fn are_built_checked_published_and_described(set: &TestSet) {
    let mut stage = Stage::of(set, "therock-ci-artifacts", "1-linux/", &dispatched());
    let role = role("arn:aws:iam::692859939525:role/therock-ci");
    stage.repository.action(CREDENTIALS, &role);
    let inputs = json!({"platforms": "[\"linux\"]", "release-type": "ci"});
    let run = stage.repository.call("packages.yml", &inputs).expect_success();
    let job = "call/Python packages/Packages for linux: success";
    assert_eq!(outcomes(&run), [job]);
    let port = Server::shared().port;
    let index = format!("http://127.0.0.1:{port}/therock-ci-artifacts/1-linux/python/simple/");
    let outputs = run.outputs();
    assert_eq!(outputs["linux-package-index-url"], index);
    assert_eq!(outputs["linux-family-index-urls"], "{}");
    let page = index.replace("simple/", "dist/index.html");
    assert_eq!(outputs["linux-package_find_links_url"], page);
    assert_eq!(outputs["linux-kpack_split"], "true");
    assert_eq!(outputs["linux-version"], "0.99.1.dev0");
    let summaries = run.summaries();
    assert_eq!(summaries.len(), 1);
    assert!(summaries[0].contains(&format!("pip install --index-url {index}")));
    let published = published("therock-ci-artifacts", "1-linux/python/");
    let wheels = published.iter().filter(|path| path.ends_with(".whl")).count();
    assert_eq!(wheels, set.packages() - 1, "{published:#?}");
    assert!(published.contains(&"set.json".to_owned()), "{published:#?}");
    assert!(!run.printed("packages").contains(SECRET));
    assert!(!stage.repository.path().join("kept").exists());
}

/// "Re-run all jobs": the artifacts are built again, and are others.
#[test]
#[ignore = "slow"]
fn a_second_attempt_replaces_what_the_first_one_published() {
    let (bucket, place) = ("therock-ci-artifacts", "1-linux/python/");
    let mut stage = Stage::of(sample(), bucket, "1-linux/", &dispatched());
    let role = role("arn:aws:iam::692859939525:role/therock-ci");
    stage.repository.action(CREDENTIALS, &role);
    let inputs = json!({"platforms": "[\"linux\"]", "release-type": "ci"});
    let run = stage.repository.call("packages.yml", &inputs);
    let first = run.expect_success().outputs();
    let store = Server::shared().store(&bucket.parse().unwrap());
    let name = bucket.parse().unwrap();
    for (archive, _) in sample().archives() {
        store.delete(&format!("1-linux/{archive}").parse().unwrap(), &Condition::Always).unwrap();
    }
    store_archives(odd(), &name, "1-linux/");
    // Without the number of the attempt, the set of the first one stays.
    let refused = stage.repository.call("packages.yml", &inputs);
    assert!(!refused.succeeded, "{}", refused.log());
    assert_has!(refused.log(), "a later attempt replaces the set of an earlier one");
    stage.repository.variable("GITHUB_RUN_ATTEMPT", "2");
    let run = stage.repository.call("packages.yml", &inputs);
    let second = run.expect_success().outputs();
    assert_eq!(first["linux-package-index-url"], second["linux-package-index-url"]);
    assert_ne!(first["linux-targets"], second["linux-targets"]);
    let said = object(bucket, "1-linux/python/set.json");
    assert_has!(said, "\"run-attempt\": 2");
    let expected = fs_err::read_to_string(odd().place().join("SHA256SUMS")).unwrap();
    assert_eq!(object(bucket, "1-linux/python/SHA256SUMS"), expected);
    let there = published(bucket, place);
    let packages = there.iter().filter(|path| path.ends_with(".whl") || path.ends_with(".tar.gz"));
    assert_eq!(packages.count(), odd().packages(), "{there:#?}");
    let address = second["linux-package-index-url"].trim_end_matches("simple/");
    rocwheel(&["check", address]).ok();
}

/// The event of a pull request from a fork.
pub(super) fn pull_request_of_a_fork() -> Value {
    let theirs = json!({"full_name": "somebody/TheRock", "fork": true});
    let home = json!({"full_name": "ROCm/TheRock", "fork": false});
    let pull = json!({"number": 7, "head": {"repo": theirs}, "base": {"repo": home}});
    json!({"repository": home, "pull_request": pull, "number": 7})
}

/// A fork's run, whose runner may have keys. What those publish, `installs` says.
fn for_a_fork(secret: Option<&str>) -> (Stage, Run) {
    let bucket = "therock-ci-artifacts-external";
    let mut stage = Stage::new(bucket, "ROCm-TheRock/1-linux/", &pull_request_of_a_fork());
    let repository = &mut stage.repository;
    repository.action(CREDENTIALS, &role("none"));
    if let Some(secret) = secret {
        repository.keys(secret);
    }
    let uses = address("packages.yml");
    let caller = format!(
        "on: pull_request\njobs:\n  packages:\n    uses: {uses}\n    with:\n      platforms: '[\"linux\"]'\n"
    );
    let run = repository.run("pull_request", &caller).expect_success();
    assert_lacks!(run.log(), "asked for");
    let place = "ROCm-TheRock/1-linux/python/";
    assert_eq!(published(bucket, place), [""; 0]);
    let outputs = run.outputs();
    assert_eq!(outputs["linux-package-index-url"], "");
    assert_eq!(outputs["linux-published"], "false");
    assert_eq!(outputs["linux-workflow-artifact"], "python-packages-linux");
    assert_eq!(run.summaries().len(), 1);
    let kept = repository.path().join("kept/python-packages-linux");
    assert!(kept.exists());
    (stage, run)
}

#[test]
#[ignore = "long"]
fn long_a_forks_packages_stay_with_the_run_without_credentials_for_their_place() {
    for_a_fork(Some("of another server"));
    let (stage, run) = for_a_fork(None);
    assert_has!(run.log(), "Checked");
    assert_eq!(run.outputs()["linux-version"], "0.99.1.dev0");
    let summaries = run.summaries();
    let page = &summaries[0];
    assert_lacks!(page, "file:");
    let download = "\ngh run download 1 --repo ROCm/TheRock --name python-packages-linux --dir python-packages-linux\n";
    assert_has!(page, download);
    // The next step for the reader, where `gh` would have put it.
    let line = page.lines().find(|line| line.starts_with("pip install"));
    let line = line.unwrap().replace('\'', "");
    let place = stage.repository.path();
    let target = place.join("installed");
    let mut pip = Command::new(tool("pip"));
    pip.args(line.split(' ').skip(1)).args(["--quiet", "--no-cache-dir"]);
    pip.arg("--target").arg(&target).current_dir(place.join("kept"));
    succeed(&mut pip);
    assert!(target.join("rocm_sdk_devel").is_dir());
}

#[test]
#[ignore = "long"]
fn long_packages_that_cannot_be_published_stay_with_the_run() {
    let inputs = json!({"platforms": "[\"linux\"]", "release-type": "ci"});
    let mut stage = Stage::new("therock-ci-artifacts", "1-linux/", &dispatched());
    // There is a role, and it cannot be assumed.
    stage.repository.action(CREDENTIALS, &role("none"));
    let run = stage.repository.call("packages.yml", &inputs);
    assert!(!run.succeeded, "{}", run.log());
    let kept = stage.repository.path().join("kept/python-packages-linux");
    assert!(kept.exists(), "{}", run.log());
}

#[test]
#[ignore = "long"]
fn long_packages_that_are_not_what_was_asked_for_are_not_published() {
    let inputs = json!({"platforms": "[\"linux\"]", "release-type": "ci", "linux-amdgpu-families": "gfx1201"});
    let mut stage = Stage::new("therock-ci-artifacts", "1-linux/", &dispatched());
    stage.repository.action(CREDENTIALS, &role("none"));
    let before = published("therock-ci-artifacts", "1-linux/python/");
    let run = stage.repository.call("packages.yml", &inputs);
    assert!(!run.succeeded, "{}", run.log());
    assert_has!(run.log(), "::error title=");
    assert_eq!(published("therock-ci-artifacts", "1-linux/python/"), before);
}
