//! Which run is fetched: named, found by what it is for, or waited for; and what is said about it.

use std::thread;

use insta::assert_snapshot;

use super::{
    Fixture,
    bucket::{Remote, shared},
    refusal, stems,
};
use crate::support::prelude::*;
use rocwheel_test_servers::github::{
    commit,
    fake::{Fake, Reply},
    page_of_runs, pull, repository, run,
};

const HEAD: &str = "0123456789abcdef0123456789abcdef01234567";
const RUNS: &str = "/repos/ROCm/TheRock/actions/workflows/multi_arch_ci.yml/runs";

/// A server that knows these runs of the branch `main`, the newest last.
fn server(runs: &[Value]) -> Fake {
    let fake = Fake::start();
    fake.on("/repos/ROCm/TheRock", Reply::json(&repository("main")));
    let path = format!("{RUNS}?branch=main&per_page=20&page=1");
    fake.on(&path, page_of_runs(runs));
    fake
}

fn day(id: u64) -> String {
    format!("2026-01-{id:02}T00:00:00Z")
}

fn ended(id: u64, conclusion: &str) -> Value {
    run(id, &day(id), "completed", Some(conclusion))
}

fn running(id: u64) -> Value {
    run(id, &day(id), "in_progress", None)
}

/// The server tells this run if it is asked for it.
fn knows(fake: &Fake, run: &Value) {
    let path = format!("/repos/ROCm/TheRock/actions/runs/{}", run["id"]);
    fake.on(&path, Reply::json(run));
}

/// A server with one run, which says all that it can about itself.
fn with_all_facts() -> Fake {
    let mut run = ended(7, "success");
    run["event"] = json!("pull_request");
    run["head_branch"] = json!("users/someone/change");
    run["run_attempt"] = json!(2);
    run["path"] = json!(".github/workflows/multi_arch_ci.yml");
    run["run_started_at"] = json!("2026-01-08T00:00:00Z");
    server(&[run])
}

fn find(fixture: &Fixture, fake: &Fake, arguments: &str) -> Outcome {
    let api = format!("--github-api-url {} --github-token hush", fake.url());
    let said = fixture.fetch(&format!("{api} {arguments}"));
    assert_lacks!(said.all(), "hush");
    said
}

fn document(said: Outcome) -> Value {
    serde_json::from_str(&said.ok()).unwrap()
}

#[test]
#[ignore = "slow"]
fn all_facts_of_a_run_are_told_in_each_form() {
    let (fake, fixture) = (with_all_facts(), Fixture::new());
    let text = find(&fixture, &fake, "--find --latest").done();
    assert_snapshot!(text.stdout, @"
    id:              7
    attempt:         2
    url:             https://github.com/ROCm/TheRock/actions/runs/7
    status:          completed
    conclusion:      success
    event:           pull_request
    branch:          users/someone/change
    commit:          0123456789abcdef0123456789abcdef01234567
    repository:      ROCm/TheRock
    head-repository: ROCm/TheRock
    fork:            false
    workflow:        .github/workflows/multi_arch_ci.yml
    created:         2026-01-07T00:00:00Z
    started:         2026-01-08T00:00:00Z
    updated:         2026-08-22T10:00:00Z
    platform:        linux
    bucket:          therock-ci-artifacts
    region:          us-east-2
    prefix:          7-linux
    role:            arn:aws:iam::692859939525:role/therock-ci
    release-type:    ci
    source:          bucket/7-linux
    artifact-groups: gfx1100, gfx942, gfx94X-all, gfx94X-dcgpu
    families:        gfx94X-all, gfx94X-dcgpu
    targets:         gfx1100, gfx942
    archives:        37
    size:            2.28 MiB
    complete:        true
    ");
    let told = document(find(&fixture, &fake, "--find --latest --format json"));
    let lines = text.stdout.lines().map(|it| it.split_once(':').unwrap().0);
    let mut names: Vec<&String> = told.as_object().unwrap().keys().collect();
    names.retain(|name| !["schema", "lacks", "note"].contains(&name.as_str()));
    assert_eq!(lines.collect::<Vec<_>>(), names);
    assert_eq!(told["size"], 2_391_992);
    assert_eq!(told["note"], Value::Null);

    find(&fixture, &fake, "--find --latest --github-output outputs").done();
    let outputs = fixture.t.read("outputs");
    let outputs: Vec<&str> = outputs.lines().collect();
    for [name, value, _] in outputs.as_chunks::<3>().0 {
        let name = name.split("<<").next().unwrap();
        let name = name.strip_prefix("run-").unwrap();
        let expected = match &told[name] {
            Value::Null if name == "json" => {
                assert_eq!(serde_json::from_str::<Value>(value).unwrap(), told);
                continue;
            }
            Value::Array(list) => {
                let list: Vec<&str> = list.iter().map(|it| it.as_str().unwrap()).collect();
                list.join(",")
            }
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        assert_eq!(*value, expected, "{name}");
    }
    assert!(fixture.names().is_empty(), "nothing is fetched");
    // `fetch` tells the same, and fetches.
    let fetched = document(find(&fixture, &fake, "--latest --format json"));
    assert_eq!(fetched["run"], told);
    assert!(!fixture.names().is_empty());
    let kept = find(&fixture, &fake, "--latest --dry-run").stdout;
    let lines: Vec<&str> = kept.lines().rev().take(2).collect();
    assert_snapshot!(lines.join("\n"), @"
    0 archives of 0 B from bucket/7-linux to out; 37 there already
    run 7 of ROCm/TheRock (success), commit 0123456789ab of users/someone/change: https://github.com/ROCm/TheRock/actions/runs/7
    ");
}

#[test]
#[ignore = "slow"]
fn without_github_a_named_run_has_no_more_than_its_place_and_its_artifacts() {
    let fixture = Fixture::new();
    fixture.lose("base_lib_generic.tar.zst");
    // A run that is not enough for packages is found all the same.
    let said = fixture.fetch("--find --run-id 7").done();
    assert_lacks!(said.stdout, "url:");
    said.says("complete:        false\nlacks:           no `base_lib_generic`");
    said.says("note: GitHub was not asked about the run");
    assert_eq!(fixture.fetch("--run-id 7").code, 1);
    assert_eq!(fixture.fetch("--find --run-id 8").code, 1);
    // About a run of a bucket, GitHub is asked once and need not answer.
    let (remote, fake) = (Remote::new(shared()), Fake::start());
    knows(&fake, &running(7));
    let asked = format!("--find --github-api-url {} --github-token hush", fake.url());
    let said = remote.fetch(&asked).done();
    said.says("\nstatus:          in_progress\n");
    assert_eq!(fake.paths().len(), 1);
    for flag in ["--find", "--find --format json", "--dry-run"] {
        let said = remote.fetch(flag).done();
        let note = "note: GitHub did not tell about the run: ";
        let is_told = said.stderr.contains(note);
        assert_eq!(is_told, flag != "--dry-run", "{}", said.stderr);
        assert_lacks!(said.stderr, "again");
    }
}

#[test]
#[ignore = "slow"]
fn a_run_is_found_by_its_commit_or_its_pull_request() {
    let fake = Fake::start();
    fake.on("/repos/ROCm/TheRock/commits/v7", Reply::json(&commit(HEAD)));
    fake.on("/repos/ROCm/TheRock/pulls/12", Reply::json(&pull(HEAD)));
    let path = format!("{RUNS}?head_sha={HEAD}&per_page=100&page=1");
    fake.on(&path, page_of_runs(&[ended(7, "success")]));
    for how in ["--commit v7", "--pr 12"] {
        let fixture = Fixture::new();
        find(&fixture, &fake, how).done();
        assert_eq!(fixture.names(), stems(sample()));
    }
}

#[test]
#[ignore = "slow"]
fn a_search_takes_the_newest_run_that_has_what_is_wanted_and_says_why_of_each_other() {
    let runs = [ended(6, "success"), ended(7, "failure"), ended(8, "success"), running(9)];
    let (fake, fixture) = (server(&runs), Fixture::new());
    for id in [8, 9] {
        let path = format!("bucket/{id}-linux/blas_lib_gfx942.tar.zst");
        fixture.t.write(&path, "");
    }
    let wanted = "--latest --dry-run --amdgpu-targets gfx942";
    let said = find(&fixture, &fake, wanted).done();
    assert_snapshot!(said.stderr, @"
          Listed 1 artifact in bucket/9-linux
          Listed 1 artifact in bucket/8-linux
          Listed 37 artifacts in bucket/7-linux
    note: skipped run 9 (0123456789ab, in_progress): not enough for packages: no `base_lib_generic`, which says what was built; no artifact for `rocm-sdk-core`
    note: skipped run 8 (0123456789ab, success): not enough for packages: no `base_lib_generic`, which says what was built; no artifact for `rocm-sdk-core`
    ");
    let said = find(&fixture, &fake, "--find --latest --require-successful-run");
    assert_snapshot!(refusal(&said), @"1: none of the 4 newest runs of `multi_arch_ci.yml` on the default branch has what is wanted | 9 (0123456789ab, in_progress): the run is `in_progress` | 8 (0123456789ab, success): not enough for packages: no `base_lib_generic`, which says what was built; no artifact for `rocm-sdk-core` | 7 (0123456789ab, failure): the run is `failure` | 6 (0123456789ab, success): no artifacts for linux in bucket/6-linux | hint: run 9 is `in_progress`: pass `--wait 2h` to wait for it | hint: `rocwheel fetch --find` looks at more runs with `--max-commits`, or at others with `--branch`, `--workflow` and `--platform`");
    for (filter, expected) in [
        ("", "7"),
        ("--require-successful-run --allow-incomplete", "8"),
        ("--allow-incomplete", "9"),
        ("--allow-incomplete --require-artifact ^base_", "7"),
        ("--require-artifact ^blas_lib_ --require-artifact _gfx950", ""),
        ("--artifact-group gfx94X-dcgpu,gfx110X-all", "7"),
        ("--artifact-group gfx94X-dcgpu --artifact-group gfx950-dcgpu", ""),
    ] {
        let said = find(&fixture, &fake, &format!("--find --latest {filter}"));
        let mut lines = said.stdout.lines();
        let found = lines.find_map(|line| line.strip_prefix("id:"));
        let found = (said.code, found.unwrap_or_default().trim());
        let code = i32::from(expected.is_empty());
        assert_eq!(found, (code, expected), "{filter}");
    }
}

#[test]
#[ignore = "slow"]
fn the_state_of_a_named_run_is_asked_for_where_it_matters() {
    let (fake, fixture) = (Fake::start(), Fixture::new());
    knows(&fake, &ended(7, "failure"));
    let said = find(&fixture, &fake, "--run-id 7 --require-successful-run");
    assert_snapshot!(refusal(&said), @"1: the run is `failure` | hint: the run has ended (`failure`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/7 | hint: take another run, or leave out `--require-successful-run`");
    assert!(fixture.names().is_empty());
    let fake = Fake::start();
    for state in [running(7), running(7), ended(7, "success")] {
        knows(&fake, &state);
    }
    let waits = "--find --run-id 7 --require-successful-run --wait 20s";
    let said = find(&fixture, &fake, waits).done();
    said.says("conclusion:      success");
}

#[test]
#[ignore = "slow"]
fn more_runs_of_a_branch_are_asked_for() {
    let fake = Fake::start();
    for (page, count) in [(1, 100), (2, 50)] {
        let first = 1000 - 100 * page;
        let conclusion = if page == 1 { "failure" } else { "success" };
        let runs: Vec<Value> = (first..first + count)
            .map(|id| run(id, &day(28 - page), "completed", Some(conclusion)))
            .collect();
        let list = json!({"total_count": 150, "workflow_runs": runs});
        let path = format!("{RUNS}?branch=main&per_page=100&page={page}");
        fake.on(&path, Reply::json(&list));
    }
    let all = "--find --branch main --max-commits 150 --require-successful-run";
    let said = refusal(&find(&Fixture::new(), &fake, all));
    assert_has!(
        said,
        "1: none of the 150 newest runs of `multi_arch_ci.yml` on branch `main` has what is wanted | 999 (",
        "| and 140 more |"
    );
}

#[test]
fn a_variable_that_decides_is_named_and_gives_way_to_a_flag() {
    let with = |variable: &str, value: &str, arguments: &str| {
        let mut fixture = Fixture::new();
        fixture.t = fixture.t.with(variable, value);
        fixture.fetch(&format!("--run-id 7 --find {arguments}"))
    };
    for (variable, value, arguments, is_told) in [
        ("AMDGPU_FAMILIES", "gfx94X-dcgpu", "", true),
        ("AMDGPU_FAMILIES", "gfx950-dcgpu", "--amdgpu-targets gfx942", false),
        ("AMDGPU_TARGETS", "gfx950", "--all", false),
        ("ARTIFACT_GROUP", "multi-arch-release", "", false),
        ("ARTIFACT_GROUP", "multi-arch-release", "--artifact-group gfx94X-dcgpu --all", false),
    ] {
        let said = with(variable, value, arguments).done();
        if is_told {
            said.says("note: only artifacts for gfx94X-dcgpu, because of the environment variable `AMDGPU_FAMILIES`; `--all-artifacts` fetches all of the run");
        } else {
            assert_lacks!(said.stderr, "variable");
        }
    }
    // The variable alone would have failed.
    assert_eq!(with("AMDGPU_FAMILIES", "gfx950-dcgpu", "").code, 1);
}

#[test]
fn a_target_is_refused_with_the_flag_that_is_meant() {
    let fixture = Fixture::new();
    for (value, archive) in
        [("gfx942", "_gfx942"), ("gfx942;gfx1100", "_gfx1100"), ("gfx94X-dcgpu", "_gfx942")]
    {
        let said =
            fixture.fetch(&format!("--run-id 7 --dry-run --allow-incomplete --target '{value}'"));
        assert_eq!(said.code, 2);
        said.says("error: unexpected argument '--target' found");
        let (_, hint) = said.stderr.split_once("tip: pass `").unwrap();
        let (flag, _) = hint.split_once('`').unwrap();
        let meant = fixture.fetch(&format!("--run-id 7 --dry-run --allow-incomplete {flag}"));
        meant.done().says(archive);
    }
    let said = Sandbox::new().run("pipeline --sample --output-dir out --target gfx942");
    said.says("tip: pass `--amdgpu-targets gfx942`");
}

#[test]
fn an_archive_of_an_unknown_name_is_named() {
    let fixture = Fixture::with(vec![("7zip-1.2+x_doc_generic.tar.zst".into(), Vec::new())]);
    for name in ["blas_foo_generic.tar.zst", "notes.tar.xz"] {
        fixture.t.write(&format!("bucket/7-linux/{name}"), "");
    }
    let said = fixture.fetch("--run-id 7 --dry-run --allow-incomplete");
    let note = "note: ignored archives whose names are not names of artifacts: `blas_foo_generic.tar.zst`, `notes.tar.xz`";
    said.done().says(note).says("7zip-1.2+x_doc_generic.tar.zst");
    let refused = fixture.fetch("--run-id 7 --artifact-group gfx942");
    refused.says(note);
}

#[test]
#[ignore = "slow"]
fn a_run_under_way_is_waited_for() {
    let (fake, fixture) = (Fake::start(), Fixture::new());
    knows(&fake, &running(7));
    let (from, to) = (fixture.bucket().join("elsewhere"), fixture.run());
    fs_err::rename(&to, &from).unwrap();
    let uploading = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1500));
        fs_err::rename(from, to).unwrap();
    });
    let waits = "--run-id 7 --wait 60s --amdgpu-targets gfx942";
    let said = find(&fixture, &fake, waits).done();
    uploading.join().unwrap();
    said.says("Waiting for at most");
    assert!(fixture.names().contains(&"blas_lib_gfx942".to_owned()));
}

#[test]
fn what_may_still_come_differs_from_what_never_will() {
    let fixture = Fixture::with(Vec::new());
    let mut said = String::new();
    for (state, wait) in [(running(8), "0s"), (ended(8, "failure"), "2h")] {
        let fake = Fake::start();
        knows(&fake, &state);
        let arguments = format!("--run-id 8 --wait {wait}");
        said += &refusal(&find(&fixture, &fake, &arguments));
    }
    // Neither no run at all nor a refusal is a run that lacks something.
    let fake = Fake::start();
    let path = format!("{RUNS}?branch=nowhere&per_page=20&page=1");
    fake.on(&path, page_of_runs(&[]));
    let refused = Reply::refusal(401, "Bad credentials");
    fake.on("/repos/ROCm/TheRock/pulls/12", refused);
    for search in ["--branch nowhere", "--pr 12"] {
        said += &refusal(&find(&fixture, &fake, search));
    }
    assert_snapshot!(said, @"
    1: no artifacts for linux in bucket/8-linux | hint: run 8 is `in_progress`: pass `--wait 2h` to wait for it | hint: check `--input-dir`, `--run-id` and `--platform`
    1: no artifacts for linux in bucket/8-linux | hint: the run has ended (`failure`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/8 | hint: check `--input-dir`, `--run-id` and `--platform`
    1: no run of `multi_arch_ci.yml` on branch `nowhere` in `ROCm/TheRock` | hint: `rocwheel fetch --find` looks at others with `--workflow` and `--repository`
    2: failed to look up pull request 12 of `ROCm/TheRock` | caused by: GitHub denies access: `/repos/ROCm/TheRock/pulls/12` | caused by: Bad credentials | hint: pass a token that is valid and has `actions: read` and `contents: read` for this repository (`GITHUB_TOKEN`, `GH_TOKEN`, `gh auth login`); public repositories need none
    ");
}
