//! What `fetch` prints about a run, the filters of a search, and variables that decide.

use fs_err as fs;
use serde_json::{Value, json};

use super::{
    Fixture, Said,
    bucket::{Remote, shared},
};
use crate::github::{
    fake::{Fake, Reply},
    pull, repository, run,
};

const HEAD: &str = "0123456789abcdef0123456789abcdef01234567";
const RUNS: &str = "/repos/ROCm/TheRock/actions/workflows/multi_arch_ci.yml/runs";

/// A server that knows these runs of the branch `main`, the newest last.
fn server(runs: &[Value]) -> Fake {
    let fake = Fake::start();
    fake.on("/repos/ROCm/TheRock", Reply::json(&repository("main")));
    let page = json!({"total_count": runs.len(), "workflow_runs": runs});
    let path = format!("{RUNS}?branch=main&per_page=20&page=1");
    fake.on(&path, Reply::json(&page));
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

/// The last run is of a pull request.
fn of_pull(mut run: Value) -> Value {
    run["event"] = json!("pull_request");
    run["head_branch"] = json!("users/someone/change");
    run["run_attempt"] = json!(2);
    run["path"] = json!(".github/workflows/multi_arch_ci.yml");
    run["run_started_at"] = json!("2026-01-08T00:00:00Z");
    let side =
        json!({"ref": "x", "sha": HEAD, "repo": {"id": 1, "url": "https://x", "name": "TheRock"}});
    run["pull_requests"] =
        json!([{"id": 1, "number": 12, "url": "https://x", "head": side, "base": side}]);
    run
}

/// A server with one run, which is of a pull request.
fn of_pull_12() -> Fake {
    let fake = server(&[of_pull(ended(7, "success"))]);
    let mut merged = pull(HEAD);
    merged["merge_commit_sha"] = json!("fedcba9876543210fedcba9876543210fedcba98");
    fake.on("/repos/ROCm/TheRock/pulls/12", Reply::json(&merged));
    fake
}

fn find(fixture: &Fixture, fake: &Fake, arguments: &str) -> Said {
    let url = fake.url();
    fixture.fetch(&format!(
        "--github-api-url {url} --github-token hush {arguments}"
    ))
}

#[test]
fn all_facts_of_a_run_are_printed_in_three_forms() {
    let (fake, fixture) = (of_pull_12(), Fixture::new());
    let text = find(&fixture, &fake, "--find --latest");
    assert_eq!(text.code, 0, "{}", text.stderr);
    insta::assert_snapshot!(text.stdout, @"
    id:              7
    attempt:         2
    url:             https://github.com/ROCm/TheRock/actions/runs/7
    status:          completed
    conclusion:      success
    event:           pull_request
    branch:          users/someone/change
    commit:          0123456789abcdef0123456789abcdef01234567
    merge-commit:    fedcba9876543210fedcba9876543210fedcba98
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
    source:          BUCKET/7-linux
    artifact-groups: gfx1100, gfx942, gfx94X-all, gfx94X-dcgpu
    families:        gfx94X-all, gfx94X-dcgpu
    targets:         gfx1100, gfx942
    archives:        37
    size:            2.28 MiB
    complete:        true
    ");
    insta::assert_snapshot!(text.stderr, @"      Listed 37 artifacts in BUCKET/7-linux");
    let document: Value =
        serde_json::from_str(&find(&fixture, &fake, "--find --latest --format json").stdout)
            .unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap(), @r#"
    {
      "schema": "rocwheel-run-v1",
      "id": "7",
      "attempt": 2,
      "url": "https://github.com/ROCm/TheRock/actions/runs/7",
      "status": "completed",
      "conclusion": "success",
      "event": "pull_request",
      "branch": "users/someone/change",
      "commit": "0123456789abcdef0123456789abcdef01234567",
      "merge-commit": "fedcba9876543210fedcba9876543210fedcba98",
      "repository": "ROCm/TheRock",
      "head-repository": "ROCm/TheRock",
      "fork": false,
      "workflow": ".github/workflows/multi_arch_ci.yml",
      "created": "2026-01-07T00:00:00Z",
      "started": "2026-01-08T00:00:00Z",
      "updated": "2026-08-22T10:00:00Z",
      "platform": "linux",
      "bucket": "therock-ci-artifacts",
      "region": "us-east-2",
      "prefix": "7-linux",
      "role": "arn:aws:iam::692859939525:role/therock-ci",
      "release-type": "ci",
      "source": "BUCKET/7-linux",
      "artifact-groups": [
        "gfx1100",
        "gfx942",
        "gfx94X-all",
        "gfx94X-dcgpu"
      ],
      "families": [
        "gfx94X-all",
        "gfx94X-dcgpu"
      ],
      "targets": [
        "gfx1100",
        "gfx942"
      ],
      "archives": 37,
      "size": 2391982,
      "complete": true,
      "lacks": [],
      "remarks": [],
      "note": null
    }
    "#);
}

#[test]
fn step_outputs_and_a_fetch_tell_the_same_about_the_run() {
    let (fake, fixture) = (of_pull_12(), Fixture::new());
    let document: Value =
        serde_json::from_str(&find(&fixture, &fake, "--find --latest --format json").stdout)
            .unwrap();
    let file = fixture.bucket().join("outputs");
    let flag = format!("--find --latest --github-output {}", file.display());
    assert_eq!(find(&fixture, &fake, &flag).code, 0);
    let outputs = fs::read_to_string(&file).unwrap();
    let outputs = outputs.replace(fixture.bucket().to_str().unwrap(), "BUCKET");
    let outputs: Vec<&str> = outputs.lines().collect();
    for [name, value, _] in outputs.as_chunks::<3>().0 {
        let name = name
            .split("<<")
            .next()
            .unwrap()
            .strip_prefix("run-")
            .unwrap();
        let told = &document[name];
        let expected = match told {
            Value::Null if name == "json" => {
                assert_eq!(serde_json::from_str::<Value>(value).unwrap(), document);
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
    let fetched = find(&fixture, &fake, "--latest --format json");
    let fetched: Value = serde_json::from_str(&fetched.stdout).unwrap();
    assert_eq!(fetched["run"], document);
    assert!(!fixture.names().is_empty());
    let kept = find(&fixture, &fake, "--latest --dry-run").stdout;
    let lines: Vec<&str> = kept.lines().rev().take(2).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    0 archives of 0 B from BUCKET/7-linux to OUT; 37 there already
    run 7 of ROCm/TheRock (success), commit 0123456789ab of users/someone/change: https://github.com/ROCm/TheRock/actions/runs/7
    ");
}

#[test]
fn without_github_a_named_run_has_no_more_than_its_place_and_its_artifacts() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.run().join("base_lib_generic.tar.zst")).unwrap();
    let said = fixture.fetch("--find --run-id 7");
    // A run that is not enough for packages is found all the same.
    assert_eq!(said.code, 0, "{}", said.stderr);
    insta::assert_snapshot!(said.stdout, @"
    id:              7
    repository:      ROCm/TheRock
    platform:        linux
    bucket:          therock-ci-artifacts
    region:          us-east-2
    prefix:          7-linux
    role:            arn:aws:iam::692859939525:role/therock-ci
    release-type:    ci
    source:          BUCKET/7-linux
    artifact-groups: gfx1100, gfx942, gfx94X-all, gfx94X-dcgpu
    families:        gfx94X-all, gfx94X-dcgpu
    targets:         gfx1100, gfx942
    archives:        36
    size:            2.28 MiB
    complete:        false
    lacks:           no `base_lib_generic`, which says what was built
    ");
    insta::assert_snapshot!(said.stderr, @"
          Listed 36 artifacts in BUCKET/7-linux
    note: GitHub was not asked about the run, because of `--input-dir`
    ");
    assert_eq!(fixture.fetch("--run-id 7").code, 1);
    assert_eq!(fixture.fetch("--find --run-id 8").code, 1);
    // Where GitHub has to be asked, it cannot be done without.
    let unreachable = "--github-api-url http://127.0.0.1:1 --github-token hush";
    let fixture = Fixture::new();
    let said = fixture.fetch(&format!("--find --run-id 7 {unreachable}"));
    assert_eq!(said.code, 0, "{}", said.stderr);
}

#[test]
fn a_search_that_finds_nothing_says_why_for_each_run() {
    let fake = server(&[ended(6, "success"), ended(7, "failure"), running(8)]);
    let fixture = Fixture::new();
    fs::create_dir(fixture.bucket().join("8-linux")).unwrap();
    let archive = fixture.bucket().join("8-linux/blas_lib_gfx942.tar.zst");
    fs::write(archive, "").unwrap();
    let said = find(&fixture, &fake, "--find --latest --require-successful-run");
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(said.stderr, @"
    error: none of the 3 newest runs of `multi_arch_ci.yml` on the default branch has what is wanted
      8 (0123456789ab, in_progress): the run is `in_progress`
      7 (0123456789ab, failure): the run has ended with `failure`
      6 (0123456789ab, success): no artifacts for linux in BUCKET/6-linux

    hint: run 8 is `in_progress`: pass `--wait 2h` to wait for it

    hint: look at more runs with `--max-commits`, or at others with `--branch`, `--workflow` and `--platform`
    ");
    let take = |filter: &str| {
        let said = find(&fixture, &fake, &format!("--find --latest {filter}"));
        let found = said
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix("id:"));
        (said.code, found.unwrap_or_default().trim().to_owned())
    };
    let taken = |id: &str| (0, id.to_owned());
    assert_eq!(take(""), taken("7"));
    assert_eq!(
        take("--require-completed-run --allow-incomplete"),
        taken("7")
    );
    assert_eq!(take("--allow-incomplete"), taken("8"));
    assert_eq!(
        take("--allow-incomplete --require-artifact ^base_"),
        taken("7")
    );
    assert_eq!(
        take("--require-artifact ^blas_lib_ --require-artifact _gfx950"),
        (1, String::new())
    );
    assert_eq!(
        take("--artifact-group gfx94X-dcgpu,gfx110X-all"),
        taken("7")
    );
    assert_eq!(
        take("--artifact-group gfx94X-dcgpu --target gfx950-dcgpu"),
        (1, String::new())
    );
}

#[test]
fn the_state_of_a_named_run_is_asked_for_where_it_matters() {
    let fake = Fake::start();
    let path = "/repos/ROCm/TheRock/actions/runs/7";
    fake.on(path, Reply::json(&ended(7, "failure")));
    let fixture = Fixture::new();
    let said = find(&fixture, &fake, "--find --run-id 7 --require-completed-run");
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = find(&fixture, &fake, "--run-id 7 --require-successful-run");
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(said.stderr, @"
    error: the run has ended with `failure`

    hint: take another run, or leave out `--require-successful-run`
    ");
    assert!(fixture.names().is_empty());
}

#[test]
fn a_run_that_succeeds_while_it_is_waited_for_is_taken() {
    let fake = Fake::start();
    let path = "/repos/ROCm/TheRock/actions/runs/7";
    fake.on(path, Reply::json(&running(7)));
    fake.on(path, Reply::json(&running(7)));
    fake.on(path, Reply::json(&ended(7, "success")));
    let fixture = Fixture::new();
    let said = find(
        &fixture,
        &fake,
        "--find --run-id 7 --require-successful-run --wait 20s",
    );
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stdout.contains("conclusion:      success"),
        "{}",
        said.stdout
    );
}

#[test]
fn more_runs_of_a_branch_are_asked_for() {
    let fake = Fake::start();
    let pages = [(1, 100, "failure"), (2, 50, "success")];
    for (page, count, conclusion) in pages {
        let first = 1000 - 100 * page;
        let runs: Vec<Value> = (first..first + count)
            .map(|id| run(id, &day(28 - page), "completed", Some(conclusion)))
            .collect();
        let list = json!({"total_count": 150, "workflow_runs": runs});
        let path = format!("{RUNS}?branch=main&per_page=100&page={page}");
        fake.on(&path, Reply::json(&list));
    }
    let said = find(
        &Fixture::new(),
        &fake,
        "--find --branch main --max-commits 150 --require-successful-run",
    );
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(said.stderr, @"
    error: none of the 150 newest runs of `multi_arch_ci.yml` on branch `main` has what is wanted
      999 (0123456789ab, failure): the run has ended with `failure`
      998 (0123456789ab, failure): the run has ended with `failure`
      997 (0123456789ab, failure): the run has ended with `failure`
      996 (0123456789ab, failure): the run has ended with `failure`
      995 (0123456789ab, failure): the run has ended with `failure`
      994 (0123456789ab, failure): the run has ended with `failure`
      993 (0123456789ab, failure): the run has ended with `failure`
      992 (0123456789ab, failure): the run has ended with `failure`
      991 (0123456789ab, failure): the run has ended with `failure`
      990 (0123456789ab, failure): the run has ended with `failure`
      and 140 more

    hint: look at more runs with `--max-commits`, or at others with `--branch`, `--workflow` and `--platform`
    ");
    let refused = find(
        &Fixture::new(),
        &fake,
        "--find --branch main --max-commits 0",
    );
    assert_eq!(refused.code, 2);
}

/// With a variable of the environment.
fn with(variable: (&str, &str), arguments: &str) -> (Option<i32>, String) {
    let fixture = Fixture::new();
    let output = fixture
        .command()
        .args(["--run-id", "7", "--find"])
        .args(arguments.split_whitespace())
        .env(variable.0, variable.1)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let stderr = stderr.replace(fixture.bucket().to_str().unwrap(), "BUCKET");
    (output.status.code(), stderr)
}

#[test]
fn a_variable_that_decides_is_named_and_gives_way_to_a_flag() {
    let mut told = Vec::new();
    for (variable, arguments) in [
        (("AMDGPU_FAMILIES", "gfx94X-dcgpu"), ""),
        (
            ("AMDGPU_FAMILIES", "gfx950-dcgpu"),
            "--amdgpu-targets gfx942",
        ),
        (("AMDGPU_TARGETS", "gfx950"), "--all"),
        (("ARTIFACT_GROUP", "multi-arch-release"), ""),
        (
            ("ARTIFACT_GROUP", "multi-arch-release"),
            "--target gfx94X-dcgpu --all",
        ),
    ] {
        let (code, stderr) = with(variable, arguments);
        assert_eq!(code, Some(0), "{variable:?} {arguments}: {stderr}");
        let notes: Vec<&str> = stderr
            .lines()
            .filter(|it| it.contains("variable"))
            .collect();
        let given = format!("{}={} {arguments}", variable.0, variable.1);
        told.push(format!("{}\n{}", given.trim(), notes.join("\n")));
    }
    insta::assert_snapshot!(told.join("\n"), @"
    AMDGPU_FAMILIES=gfx94X-dcgpu
    note: only artifacts for gfx94X-dcgpu, because of the environment variable `AMDGPU_FAMILIES`; `--all-artifacts` fetches all of the run
    AMDGPU_FAMILIES=gfx950-dcgpu --amdgpu-targets gfx942

    AMDGPU_TARGETS=gfx950 --all

    ARTIFACT_GROUP=multi-arch-release

    ARTIFACT_GROUP=multi-arch-release --target gfx94X-dcgpu --all
    ");
    // The variable alone would have failed.
    assert_eq!(with(("AMDGPU_FAMILIES", "gfx950-dcgpu"), "").0, Some(1));
}

#[test]
fn an_archive_of_an_unknown_name_is_named() {
    let fixture = Fixture::new();
    for name in ["blas_foo_generic.tar.zst", "notes.tar.xz"] {
        fs::write(fixture.run().join(name), "").unwrap();
    }
    let archive = fixture.run().join("blas_doc_generic.tar.zst");
    fs::rename(
        archive,
        fixture.run().join("7zip-1.2+x_doc_generic.tar.zst"),
    )
    .unwrap();
    let said = fixture.fetch("--run-id 7 --dry-run");
    assert_eq!(said.code, 0, "{}", said.stderr);
    insta::assert_snapshot!(said.stderr, @"
          Listed 37 artifacts in BUCKET/7-linux
    note: ignored archives whose names are not those of artifacts: `blas_foo_generic.tar.zst`, `notes.tar.xz`
    note: 1 archive without a digest: only the checksums inside are verified
    ");
    assert!(said.stdout.contains("7zip-1.2+x_doc_generic.tar.zst"));
    for entry in fs::read_dir(fixture.run()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".tar.zst") && name != "blas_foo_generic.tar.zst"
            || name.ends_with("ic.tar.xz")
        {
            fs::remove_file(path).unwrap();
        }
    }
    let said = fixture.fetch("--run-id 7 --artifact-group generic");
    insta::assert_snapshot!(said.stderr, @"
          Listed 2 artifacts in BUCKET/7-linux
    note: ignored archives whose names are not those of artifacts: `blas_foo_generic.tar.zst`, `notes.tar.xz`
    error: no artifact of the run matches artifact group `generic`

    hint: it has 2 artifacts: rccl (lib) for gfx1100, gfx942
    ");
}

#[test]
fn about_a_run_of_a_bucket_github_is_asked_once_and_need_not_answer() {
    let remote = Remote::new(shared());
    let fake = Fake::start();
    fake.on(
        "/repos/ROCm/TheRock/actions/runs/7",
        Reply::json(&run(7, "2026-01-01T00:00:00Z", "in_progress", None)),
    );
    let url = fake.url();
    let asked = format!("--find --github-api-url {url} --github-token hush");
    let said = remote.fetch(&asked);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("\nstatus:          in_progress\n"));
    assert_eq!(fake.paths().len(), 1);
    for flag in ["--find", "--find --format json", "--dry-run"] {
        let said = remote.fetch(flag);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let is_told = said
            .stderr
            .contains("note: GitHub did not tell about the run: ");
        assert_eq!(is_told, flag != "--dry-run", "{}", said.stderr);
        assert!(!said.stderr.contains("again"), "{}", said.stderr);
    }
}
