//! Runs that are found by what they are for, and runs that are still under way.

use std::{thread, time::Duration};

use fs_err as fs;
use serde_json::Value;

use super::{Fixture, Said, stems};
use crate::github::{
    commit,
    fake::{Fake, Reply},
    page_of_runs, pull, repository, run,
};
use crate::support::published::sample;

const ABC: &str = "0123456789abcdef0123456789abcdef01234567";
const RUNS: &str = "/repos/ROCm/TheRock/actions/workflows/multi_arch_ci.yml/runs";

fn fetch(fixture: &Fixture, fake: &Fake, arguments: &str) -> Said {
    let url = fake.url();
    let mut said = fixture.fetch(&format!(
        "--github-api-url {url} --github-token hush {arguments}"
    ));
    assert!(!(said.stdout.clone() + &said.stderr).contains("hush"));
    said.stderr = said.stderr.replace(&url, "API");
    said
}

fn ended(id: u64, created_at: &str) -> Value {
    run(id, created_at, "completed", Some("success"))
}

#[test]
fn a_run_is_found_by_its_commit_or_its_pull_request() {
    let fake = Fake::start();
    fake.on("/repos/ROCm/TheRock/commits/v7", Reply::json(&commit(ABC)));
    fake.on("/repos/ROCm/TheRock/pulls/12", Reply::json(&pull(ABC)));
    fake.on(
        &format!("{RUNS}?head_sha={ABC}&per_page=100&page=1"),
        page_of_runs(&[ended(7, "2026-01-01T00:00:00Z")]),
    );
    for how in ["--commit v7", "--pr 12"] {
        let fixture = Fixture::new();
        let said = fetch(&fixture, &fake, how);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert_eq!(fixture.names(), stems(sample()));
    }
}

#[test]
fn the_newest_run_that_has_what_is_wanted_is_taken() {
    let fake = Fake::start();
    fake.on("/repos/ROCm/TheRock", Reply::json(&repository("main")));
    let runs = [
        ended(7, "2026-01-01T00:00:00Z"),
        ended(9, "2026-01-03T00:00:00Z"),
        ended(8, "2026-01-02T00:00:00Z"),
    ];
    fake.on(
        &format!("{RUNS}?branch=main&per_page=20&page=1"),
        page_of_runs(&runs),
    );
    let fixture = Fixture::new();
    fs::create_dir(fixture.bucket().join("8-linux")).unwrap();
    fs::write(fixture.bucket().join("8-linux/blas_lib_gfx942.tar.zst"), "").unwrap();
    let said = fetch(
        &fixture,
        &fake,
        "--latest --dry-run --amdgpu-targets gfx942",
    );
    assert_eq!(said.code, 0, "{}", said.stderr);
    insta::assert_snapshot!(said.stderr, @"
          Listed 1 artifact in BUCKET/8-linux
          Listed 37 artifacts in BUCKET/7-linux
    note: skipped run 9 (0123456789ab, success): no artifacts for linux in BUCKET/9-linux
    note: skipped run 8 (0123456789ab, success): not enough for packages: no `base_lib_generic`, which says what was built; no artifact for `rocm-sdk-core`
    ");
    let none = fetch(
        &fixture,
        &fake,
        "--latest --dry-run --amdgpu-targets gfx950",
    );
    assert_eq!(none.code, 1);
}

#[test]
fn no_run_at_all_is_an_answer() {
    let fake = Fake::start();
    fake.on(
        &format!("{RUNS}?branch=nowhere&per_page=20&page=1"),
        page_of_runs(&[]),
    );
    let said = fetch(&Fixture::new(), &fake, "--branch nowhere");
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(said.stderr, @"
    error: no run of `multi_arch_ci.yml` on branch `nowhere` in `ROCm/TheRock`

    hint: look at `--workflow` and `--repository`
    ");
}

#[test]
fn a_run_under_way_is_waited_for() {
    let fake = Fake::start();
    fake.on(
        "/repos/ROCm/TheRock/actions/runs/7",
        Reply::json(&run(7, "2026-01-01T00:00:00Z", "in_progress", None)),
    );
    let fixture = Fixture::new();
    let hidden = fixture.bucket().join("elsewhere");
    fs::rename(fixture.run(), &hidden).unwrap();
    let (from, to) = (hidden, fixture.run());
    let uploading = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1500));
        fs::rename(from, to).unwrap();
    });
    let said = fetch(
        &fixture,
        &fake,
        "--run-id 7 --wait 60s --amdgpu-targets gfx942",
    );
    uploading.join().unwrap();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stderr.contains("Waiting for at most"),
        "{}",
        said.stderr
    );
    assert!(fixture.names().contains(&"blas_lib_gfx942".to_owned()));
}

#[test]
fn what_may_still_come_differs_from_what_never_will() {
    let fixture = Fixture::new();
    let running = Fake::start();
    running.on(
        "/repos/ROCm/TheRock/actions/runs/8",
        Reply::json(&run(8, "2026-01-01T00:00:00Z", "queued", None)),
    );
    let said = fetch(&fixture, &running, "--run-id 8 --wait 0s");
    insta::assert_snapshot!(said.stderr, @"
    error: no artifacts for linux in BUCKET/8-linux

    hint: the run is `queued`, so it may still come: pass `--wait 2h`

    hint: check `--input-dir`, `--run-id` and `--platform`
    ");
    let over = Fake::start();
    over.on(
        "/repos/ROCm/TheRock/actions/runs/8",
        Reply::json(&run(
            8,
            "2026-01-01T00:00:00Z",
            "completed",
            Some("failure"),
        )),
    );
    let said = fetch(&fixture, &over, "--run-id 8 --wait 2h");
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(said.stderr, @"
    error: no artifacts for linux in BUCKET/8-linux

    hint: the run has ended (`failure`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/8

    hint: check `--input-dir`, `--run-id` and `--platform`
    ");
}

#[test]
fn a_token_that_is_not_accepted_is_no_answer_about_the_run() {
    let fake = Fake::start();
    fake.on(
        "/repos/ROCm/TheRock/pulls/12",
        Reply::refusal(401, "Bad credentials"),
    );
    let said = fetch(&Fixture::new(), &fake, "--pr 12");
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.stderr, @"
    error: failed to look up pull request 12 of `ROCm/TheRock`
      caused by: GitHub does not accept the token: `/repos/ROCm/TheRock/pulls/12`
      caused by: Bad credentials

    hint: renew the token in `--github-token`, `GITHUB_TOKEN` or `GH_TOKEN`, or do without: public repositories need none
    ");
}

#[test]
fn a_run_that_is_named_is_not_searched_for() {
    let said = fetch(&Fixture::new(), &Fake::start(), "--run-id 7 --latest");
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.stderr, @"error: `--run-id` cannot be used with `--latest`");
}
