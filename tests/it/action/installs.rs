//! The workflow that installs and tests packages, alone and after the one that makes them.

use super::{
    runner::{Repository, address, ours},
    workflows::{
        CREDENTIALS, PYTHON, Stage, dispatched, made, pull_request_of_a_fork, python, role,
    },
};
use crate::support::prelude::*;
use crate::{
    python::legacy,
    s3::server::{SECRET, Server},
};

pub(super) const DOWNLOAD: &str =
    "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c";

/// The other way: what [`keep`] has kept.
pub(super) fn download(place: &Path) -> String {
    let place = place.display();
    format!(
        r#"
name: download
description: download
inputs:
  name: {{ description: name, required: true }}
  path: {{ description: path, required: true }}
runs:
  using: composite
  steps:
    - shell: bash
      env:
        NAME: ${{{{ inputs.name }}}}
        TO: ${{{{ inputs.path }}}}
      run: |
        mkdir -p "$TO"
        cp -R "{place}/$NAME/." "$TO"
"#
    )
}

/// The actions that test packages.
fn add_tests(repository: &mut Repository) {
    let kept = repository.path().join("kept");
    repository.action(DOWNLOAD, &download(&kept));
    repository.action(PYTHON, &python());
}

/// A workflow that has the artifacts, and calls the one that does all the rest.
const ALL: &str = r#"
on: pull_request
jobs:
  all:
    uses: OURS/packages-and-tests.yml
    with:
      platforms: '["linux"]'
      layout: flat
      linux-tests: '[{"family": "gfx94X-dcgpu", "runner": "gpu", "gpu": false}]'
"#;

/// Tests what this run has published.
const BY_RUN: &str = "
on: pull_request
jobs:
  tests:
    uses: OURS/test-packages.yml
    with:
      target: gfx942
      runner: gpu
      gpu: false
      profiler: false
";

/// A workflow with the addresses of ours in it.
fn calling(workflow: &str) -> String {
    let uses = Regex::new(r"OURS/(\S+)").unwrap();
    uses.replace_all(workflow, |it: &Captures| address(&it[1])).into_owned()
}

/// With or without a place to publish to.
fn packages_are_made_and_tested(secret: Option<&str>) -> (Stage, String) {
    let bucket = "therock-ci-artifacts-external";
    let mut stage = Stage::new(bucket, "ROCm-TheRock/1-linux/", &pull_request_of_a_fork());
    stage.repository.action(CREDENTIALS, &role("none"));
    if let Some(secret) = secret {
        stage.repository.keys(secret);
    }
    add_tests(&mut stage.repository);
    // This server answers no keys that end in `/`, so that pip needs the page with all packages too.
    let port = Server::shared().port;
    let place = format!("http://127.0.0.1:{port}/{bucket}/ROCm-TheRock/1-linux/python");
    let settings =
        format!("[install]\nfind-links = {place}/index.html\n  {place}/dist/index.html\n");
    let directory = stage.repository.path().join(".config/pip");
    fs_err::create_dir_all(&directory).unwrap();
    fs_err::write(directory.join("pip.conf"), settings).unwrap();
    let run = stage.repository.run("pull_request", &calling(ALL)).expect_success();
    let printed = run.printed("test");
    let passed = "rocm-sdk test of ROCm 0.99.1.dev0:";
    assert_eq!(printed.matches(passed).count(), 3, "{printed}");
    assert_has!(printed, "rocm-sdk-device-gfx942==0.99.1.dev0");
    (stage, printed)
}

/// Whether pip was told the address of the index.
fn names_the_index(printed: &str) -> bool {
    printed.lines().any(|line| {
        line.starts_with("Looking in indexes: ") && line.ends_with("/1-linux/python/simple/")
    })
}

#[test]
#[ignore = "long"]
fn long_one_workflow_makes_publishes_and_tests_the_packages() {
    let (stage, printed) = packages_are_made_and_tested(Some(SECRET));
    assert!(names_the_index(&printed), "{printed}");
    let run = stage.repository.run("pull_request", &calling(BY_RUN));
    let printed = run.expect_success().printed("test");
    assert!(names_the_index(&printed), "{printed}");
    // Of the libraries, by rocwheel, and of the development files.
    let passed = "rocm-sdk test of ROCm 0.99.1.dev0:";
    assert_eq!(printed.matches(passed).count(), 3, "{printed}");
    let installed = "venv with spaces/rocwheel";
    assert_has!(printed, installed);
}

#[test]
#[ignore = "long"]
fn long_packages_that_stay_with_the_run_are_tested_all_the_same() {
    let (_, printed) = packages_are_made_and_tested(None);
    assert_lacks!(printed, "Looking in indexes");
}

/// One workflow makes a set without the kpack split, and hands on what the other takes.
const FAMILIES: &str = r"
on: push
jobs:
  packages:
    runs-on: ubuntu-latest
    outputs:
      index: ${{ steps.upload.outputs.package-index-url }}
      indexes: ${{ steps.upload.outputs.family-index-urls }}
      version: ${{ steps.upload.outputs.version }}
    steps:
      - uses: ROCWHEEL
        with:
          command: build
          artifact-dir: ARTIFACTS
          output-dir: packages
      - uses: ROCWHEEL
        with:
          command: check
          set: packages
      - id: upload
        uses: ROCWHEEL
        with:
          command: upload
          set: packages
          multi-target: true
          output-dir: PUBLISHED
          platform: linux
  test:
    needs: packages
    uses: OURS/test-packages.yml
    with:
      package-index-url: ${{ needs.packages.outputs.index }}
      family-index-urls: ${{ needs.packages.outputs.indexes }}
      version: ${{ needs.packages.outputs.version }}
      family: gfx94X-dcgpu
      runner: gpu
      gpu: false
      profiler: false
";

#[test]
#[ignore = "long"]
fn long_of_a_set_for_several_families_that_of_one_is_tested() {
    let mut repository = Repository::new();
    let [artifacts, published] = ["artifacts", "published"].map(|it| repository.path().join(it));
    fs_err::create_dir(&artifacts).unwrap();
    let families = [("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")];
    legacy::write_run(&artifacts, &families);
    add_tests(&mut repository);
    let workflow = calling(FAMILIES)
        .replace("ROCWHEEL", ours())
        .replace("ARTIFACTS", artifacts.to_str().unwrap())
        .replace("PUBLISHED", published.to_str().unwrap());
    let run = repository.run("push", &workflow).expect_success();
    let printed = run.printed("test");
    let passed = "rocm-sdk test of ROCm 0.99.1.dev0:";
    assert_eq!(printed.matches(passed).count(), 2, "{printed}");
    let libraries = "rocm-sdk-libraries-gfx94x-dcgpu==0.99.1.dev0";
    assert_has!(printed.to_lowercase(), libraries);
    assert_lacks!(printed, "gfx110x");
}

#[test]
#[ignore = "long"]
fn long_a_published_set_tests_itself_and_a_job_without_its_gpu_says_so() {
    let mut repository = Repository::new();
    let out = made(repository.path());
    let index = format!("file://{}/local-linux/python/simple/", out.display());
    let inputs = json!({"package-index-url": index, "version": "0.99.1.dev0", "target": "gfx942",
        "runner": "gpu", "gpu": true});
    let payload = repository.path().join("event.json");
    fs_err::write(&payload, dispatched().to_string()).unwrap();
    repository.argument("--eventpath", payload.to_str().unwrap());
    add_tests(&mut repository);
    let run = repository.call("test-packages.yml", &inputs);
    let printed = run.expect_success().printed("test");
    let passed = "rocm-sdk test of ROCm 0.99.1.dev0:";
    assert_eq!(printed.matches(passed).count(), 3, "{printed}");
    assert_has!(printed, "testNothingIsMissing");
    let said = printed.find("no AMD GPU was found").expect(&printed);
    let installed = printed.find("rocm-sdk-core==0.99.1.dev0").expect(&printed);
    assert!(said < installed, "{printed}");
}
