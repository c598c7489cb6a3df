//! Runs that are searched for, and sets that are not whole yet.

use std::thread::{self, sleep};

use super::{assert_installed, copy_of, sandbox, told};
use crate::support::prelude::*;
use crate::support::published::{TestSet, sets_in_turn};
use rocwheel_test_servers::github::fake::{Fake, Reply};
use rocwheel_test_servers::github::{commit, page_of_runs, pull, repository, run};

const ABC: &str = "0123456789abcdef0123456789abcdef01234567";
const RUNS: &str = "/repos/ROCm/TheRock/actions/workflows/multi_arch_ci.yml/runs";

/// The outputs of a run that has the packages of a set.
fn write_run(set: &TestSet, run: &Path) {
    fs_err::create_dir_all(run).unwrap();
    copy_tree(&set.place(), &run.join("python"));
}

fn ended(id: u64, day: u64) -> Value {
    let day = format!("2026-01-0{day}T00:00:00Z");
    run(id, &day, "completed", Some("success"))
}

fn under_way() -> Value {
    run(9, "2026-01-03T00:00:00Z", "in_progress", None)
}

/// A repository whose runs are these, on its branch, for a commit and for a pull request.
fn github(runs: &[Value]) -> Fake {
    let fake = Fake::start();
    fake.on("/repos/ROCm/TheRock", Reply::json(&repository("main")));
    fake.on("/repos/ROCm/TheRock/commits/v7", Reply::json(&commit(ABC)));
    fake.on("/repos/ROCm/TheRock/pulls/12", Reply::json(&pull(ABC)));
    for query in
        [format!("head_sha={ABC}&per_page=100&page=1"), "branch=main&per_page=20&page=1".to_owned()]
    {
        fake.on(&format!("{RUNS}?{query}"), page_of_runs(runs));
    }
    fake
}

/// A sandbox that asks this GitHub.
fn asking(fake: &Fake) -> Sandbox {
    let t = sandbox().with("GITHUB_API_URL", fake.url()).with("GITHUB_TOKEN", "hush");
    fs_err::create_dir(t.path("bucket")).unwrap();
    t
}

/// Installs a run whose outputs are in the directory `bucket`.
fn found(t: &Sandbox, line: &str) -> Outcome {
    let line = format!("install --input-dir bucket --platform linux {line}");
    let outcome = t.run(&line);
    assert_lacks!(outcome.stderr, "hush");
    outcome
}

#[test]
#[ignore = "slow"]
fn the_newest_run_that_has_packages_is_installed() {
    let fake = github(&[ended(7, 1), ended(9, 3), ended(8, 2)]);
    let hows = ["--latest", "--branch main", "--commit v7", "--pr 12"];
    for (number, how) in hows.into_iter().enumerate() {
        let (t, set) = (asking(&fake), sets_in_turn(number)[0]);
        write_run(set, &t.path("bucket/8-linux"));
        let is_dry = number > 0;
        let dry = if is_dry { "--dry-run" } else { "" };
        let outcome = found(&t, &format!("{how} --target {} {dry}", set.targets[0]));
        let skipped =
            "note: skipped run 9 (0123456789ab, success): no packages at `bucket/9-linux/python`";
        assert_has!(outcome.stderr, skipped);
        let plan = outcome.ok();
        if is_dry {
            assert_has!(plan, ", from bucket/8-linux/python");
        } else {
            assert_installed(&t.path(".venv"), &set.targets[..1]);
        }
    }
}

#[test]
fn a_search_without_packages_says_what_it_has_skipped() {
    let two = [ended(7, 1), ended(9, 3)];
    let cases: [(&[Value], &str); 7] = [
        (&two, "--latest"),
        (&two, "--latest --wait 2h"),
        (&[ended(7, 1), under_way()], "--latest"),
        (&[under_way()], "--pr 12"),
        (&[], "--commit v7"),
        (&two, "--run-id 7 --latest"),
        (&two, "--pr 12 packages"),
    ];
    let told = cases.map(|(runs, line)| {
        let t = asking(&github(runs));
        let outcome = found(&t, &format!("{line} --target none"));
        assert!(!t.path(".venv").exists());
        told(line, &outcome)
    });
    insta::assert_snapshot!(told.concat());
}

#[test]
#[ignore = "slow"]
fn the_packages_of_a_run_under_way_are_waited_for() {
    let fake = github(&[under_way()]);
    let t = asking(&fake);
    write_run(sample(), &t.path("ready"));
    let (ready, uploaded) = (t.path("ready"), t.path("bucket/9-linux"));
    let uploading = thread::spawn(move || {
        sleep(Duration::from_millis(1500));
        fs_err::rename(ready, uploaded).unwrap();
    });
    let outcome = found(&t, "--commit v7 --wait 60s --target gfx942");
    uploading.join().unwrap();
    outcome.ok();
    assert_installed(&t.path(".venv"), &["gfx942"]);
}

/// `upload` writes `set.json` last.
#[test]
#[ignore = "slow"]
fn a_set_that_is_not_whole_yet_is_waited_for() {
    let t = sandbox();
    let whole = copy_of(sample(), t.path("set")).join("set.json");
    let hidden = t.path("set.json");
    fs_err::rename(&whole, &hidden).unwrap();
    let line = "install set --target gfx942 --dry-run --wait";
    let said = t.run(&format!("{line} 1s")).refused(1);
    assert_has!(said, "has no `set.json` after");
    let uploading = thread::spawn(move || {
        sleep(Duration::from_secs(2));
        fs_err::rename(hidden, whole).unwrap();
    });
    t.run(&format!("{line} 60s")).ok();
    uploading.join().unwrap();
}
