//! GitHub's API against a GitHub of our own: what is requested, who gets the token, what is tried again.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use regex::Regex;
use rocwheel_test_files::{assert_has, assert_lacks};
use rocwheel_test_servers::{
    github::{
        commit,
        fake::{Fake, Reply},
        pull, repository, run,
    },
    http::{Answer, serve},
};
use serde_json::{Value, json};

use crate::{
    github::{ApiSettings, GitHub, RunsOf, WaitPolicy, WorkflowRun},
    run::{Repository, RunOrigin},
};
use rocwheel_base::{
    error::{Error, Exit, Result, Secret, Stop, render},
    retry::Backoff,
};
use rocwheel_store::{Store as _, http::HttpStore};

const RUN: &str = "/repos/ROCm/TheRock/actions/runs/7";
const RUNS: &str = "/repos/ROCm/TheRock/actions/workflows/ci.yml/runs";

pub(crate) fn connect(fake: &Fake, token: Option<&str>) -> GitHub {
    announcing(fake, token, Stop::default()).0
}

/// A connection without much patience, and what it announced.
fn announcing(fake: &Fake, token: Option<&str>, stop: Stop) -> (GitHub, Arc<Mutex<Vec<String>>>) {
    let settings = ApiSettings {
        api: fake.url().parse().unwrap(),
        token: token.map(Secret::new),
        waits: WaitPolicy {
            backoff: Backoff { attempts: 3, pause: Duration::from_millis(1) },
            answer: Duration::from_secs(3),
            silence: Duration::from_secs(1),
            longest: Duration::from_secs(20),
        },
    };
    let said = Arc::new(Mutex::new(Vec::new()));
    let saying = Arc::clone(&said);
    let announce = move |text: &str| saying.lock().unwrap().push(text.to_owned());
    (GitHub::connect(settings, stop, announce).unwrap(), said)
}

/// When nothing depends on it.
const SOME_TIME: &str = "2026-01-01T00:00:00Z";

pub(crate) fn of() -> Repository {
    "ROCm/TheRock".parse().unwrap()
}

fn ask(fake: &Fake, token: Option<&str>) -> Result<WorkflowRun> {
    connect(fake, token).run(&of(), &"7".parse()?)
}

/// The ids of runs of `ci.yml`.
fn ids(fake: &Fake, of_what: RunsOf<'_>, most: usize) -> Vec<String> {
    let workflow = "ci.yml".parse().unwrap();
    let found = connect(fake, None).runs(&of(), &workflow, of_what, most);
    let ids = found.unwrap().into_iter().map(|run| run.id.to_string());
    ids.collect()
}

/// An error with its causes and hints in one line.
pub(crate) fn line(error: &Error) -> String {
    let text = render(error).replace("\n\n", "\n");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join(" | ").replace("error: ", "") + "\n"
}

fn refused(fake: &Fake, token: Option<&str>) -> String {
    let error = ask(fake, token).unwrap_err();
    // What GitHub does not have, or does not have any more, is an answer.
    let chain = format!("{error:#}");
    let is_no = ["has no such thing", "does not have it any more"].map(|no| chain.contains(no));
    let exit = if is_no.contains(&true) { Exit::No } else { Exit::CouldNotTry };
    assert_eq!(Exit::of(&error), exit, "{chain}");
    line(&error)
}

#[test]
fn a_run_is_looked_up_with_the_token_or_without() {
    let fake = Fake::start();
    let ended = run(7, SOME_TIME, "completed", Some("success"));
    fake.on(RUN, Reply::json(&ended));
    let found = ask(&fake, Some("secret")).unwrap();
    assert_eq!(found.conclusion(), Some("success"));
    assert_eq!(found.facts(&of()).origin, RunOrigin::Own);
    ask(&fake, None).unwrap();
    let tokens: Vec<_> = fake.asked().into_iter().map(|asked| asked.token).collect();
    assert_eq!(tokens, [Some("Bearer secret".to_owned()), None]);
}

#[test]
fn each_refusal_has_its_words_and_never_the_token() {
    let limit = Reply::refusal(403, "API rate limit exceeded for 192.0.2.1.")
        .header("X-RateLimit-Remaining", "0")
        .header("X-RateLimit-Reset", "99999999999");
    let begun = Instant::now();
    let mut said = String::new();
    let (no_page, no_json) = (b"<html>", json!({"id": "7", "head_sha": ""}));
    let broken = Reply::bytes("text/plain", b"abc").untold().cut_after(0);
    let token = Some("secret");
    // What is not worth trying again is asked for once.
    for (reply, token, times) in [
        (Reply::refusal(401, "Bad credentials"), token, 1),
        (Reply::refusal(401, "Requires authentication"), None, 1),
        (Reply::refusal(403, "Resource not accessible"), token, 1),
        (Reply::refusal(404, "Not Found"), token, 1),
        (Reply::refusal(410, "Gone"), token, 1),
        (Reply::bytes("text/html", no_page).untold(), token, 1),
        (Reply::json(&no_json).untold(), token, 1),
        (limit, None, 1),
        (Reply::refusal(500, "Server Error"), None, 3),
        (broken, None, 3),
    ] {
        let fake = Fake::start();
        fake.on(RUN, reply);
        said += &refused(&fake, token);
        assert_eq!(fake.asked().len(), times, "{said}");
    }
    let is_waited_for = begun.elapsed() > Duration::from_secs(10);
    assert!(!is_waited_for, "no limit is waited for");
    assert_lacks!(said, "secret");
    let minutes = Regex::new("[0-9]+ min").unwrap();
    assert_snapshot!(minutes.replace(&said, "N min"), @r#"
    failed to look up run `7` of `ROCm/TheRock` | caused by: GitHub denies access: `/repos/ROCm/TheRock/actions/runs/7` | caused by: Bad credentials | hint: pass a token that is valid and has `actions: read` and `contents: read` for this repository (`GITHUB_TOKEN`, `GH_TOKEN`, `gh auth login`); public repositories need none
    failed to look up run `7` of `ROCm/TheRock` | caused by: GitHub denies access: `/repos/ROCm/TheRock/actions/runs/7` | caused by: Requires authentication | hint: pass a token that is valid and has `actions: read` and `contents: read` for this repository (`GITHUB_TOKEN`, `GH_TOKEN`, `gh auth login`); public repositories need none
    failed to look up run `7` of `ROCm/TheRock` | caused by: GitHub denies access: `/repos/ROCm/TheRock/actions/runs/7` | caused by: Resource not accessible | hint: pass a token that is valid and has `actions: read` and `contents: read` for this repository (`GITHUB_TOKEN`, `GH_TOKEN`, `gh auth login`); public repositories need none
    failed to look up run `7` of `ROCm/TheRock` | caused by: GitHub has no such thing: `/repos/ROCm/TheRock/actions/runs/7` | caused by: Not Found | hint: check `--repository` and the name that was looked up; a private repository needs a token that can read it (`GITHUB_TOKEN`)
    failed to look up run `7` of `ROCm/TheRock` | caused by: GitHub does not have it any more: `/repos/ROCm/TheRock/actions/runs/7` | caused by: Gone | hint: what a run kept has expired: take a newer run, or `--bucket`
    failed to look up run `7` of `ROCm/TheRock` | caused by: not an answer of GitHub's API: `/repos/ROCm/TheRock/actions/runs/7` | caused by: expected value at line 1 column 1 | hint: set `GITHUB_API_URL` to the address of the API, which ends in `/api/v3` on a GitHub Enterprise server
    failed to look up run `7` of `ROCm/TheRock` | caused by: not an answer of GitHub's API: `/repos/ROCm/TheRock/actions/runs/7` | caused by: id: invalid type: string "7", expected u64 at line 1 column 9 | hint: set `GITHUB_API_URL` to the address of the API, which ends in `/api/v3` on a GitHub Enterprise server
    failed to look up run `7` of `ROCm/TheRock` | caused by: GitHub's rate limit is spent for N min: `/repos/ROCm/TheRock/actions/runs/7` | caused by: API rate limit exceeded for 192.0.2.1. | hint: try again when the limit is lifted, or pass another token (`GITHUB_TOKEN`): without one, far less may be asked
    failed to look up run `7` of `ROCm/TheRock` | caused by: GitHub does not answer now: `/repos/ROCm/TheRock/actions/runs/7` | caused by: Server Error | hint: look at https://www.githubstatus.com and at the proxy, and try again
    failed to look up run `7` of `ROCm/TheRock` | caused by: GitHub does not answer now: `/repos/ROCm/TheRock/actions/runs/7` | caused by: end of file before message length reached | hint: look at https://www.githubstatus.com and at the proxy, and try again
    "#);
}

#[test]
fn what_fails_for_a_moment_is_asked_again() {
    let fake = Fake::start();
    let good = Reply::json(&run(7, SOME_TIME, "queued", None));
    fake.on(RUN, Reply::refusal(502, "Server Error"));
    fake.on(RUN, good.clone().cut_after(20));
    fake.on(RUN, good);
    ask(&fake, None).unwrap();
    assert_eq!(fake.asked().len(), 3);
}

#[test]
fn an_answer_without_an_end_ends() {
    let long = vec![b' '; (16 << 20) + 1];
    let fake = Fake::start();
    fake.on(RUN, Reply::bytes("application/json", &long).untold());
    assert_has!(refused(&fake, None), "its answer is longer than 16 MiB");
    assert_eq!(fake.asked().len(), 1);

    // A server that sends nothing for a minute is not waited for so long.
    let fake = Fake::start();
    let good = Reply::json(&run(7, SOME_TIME, "queued", None));
    fake.on(RUN, good.clone().silent_after(20));
    fake.on(RUN, good);
    let start = Instant::now();
    ask(&fake, None).unwrap();
    assert!(start.elapsed() < Duration::from_secs(30));

    let fake = Fake::start();
    for number in 1..=101 {
        let run = run(number, SOME_TIME, "queued", None);
        let page = json!({"total_count": 1_000_000, "workflow_runs": [run]});
        let query = format!("head_sha=abc&per_page=100&page={number}");
        fake.on(&format!("{RUNS}?{query}"), Reply::json(&page).untold());
    }
    let workflow = "ci.yml".parse().unwrap();
    let runs = connect(&fake, None).runs(&of(), &workflow, RunsOf::Commit("abc"), usize::MAX);
    assert_has!(line(&runs.unwrap_err()), "its list has more than 100 pages");
    assert_eq!(fake.asked().len(), 100);
}

#[test]
#[ignore = "slow"]
fn a_short_limit_is_announced_and_waited_for() {
    let fake = Fake::start();
    let limit = Reply::refusal(429, "slow down").header("Retry-After", "1");
    fake.on(RUN, limit);
    fake.on(RUN, Reply::json(&run(7, SOME_TIME, "queued", None)));
    let (github, said) = announcing(&fake, None, Stop::default());
    let start = Instant::now();
    github.run(&of(), &"7".parse().unwrap()).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    let announced = ["asking GitHub again in 1 s: its rate limit is spent"];
    assert_eq!(*said.lock().unwrap(), announced);
}

#[test]
fn a_server_that_fails_for_a_moment_says_when_to_ask_again() {
    let fake = Fake::start();
    fake.on(RUN, Reply::refusal(503, "busy").header("Retry-After", "2"));
    fake.on(RUN, Reply::json(&run(7, SOME_TIME, "queued", None)));
    let start = Instant::now();
    ask(&fake, None).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(2));

    // The servers that keep files are asked by another client.
    let count = AtomicUsize::new(0);
    let port = serve(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) > 0 {
            return Answer::new(200, "text/plain", b"x".to_vec());
        }
        let mut busy = Answer::new(503, "text/plain", Vec::new());
        busy.headers.push(("Retry-After".to_owned(), "2".to_owned()));
        busy
    });
    let url = format!("http://127.0.0.1:{port}/a");
    let (store, key) = HttpStore::of_url(&url, &Stop::default()).unwrap();
    let start = Instant::now();
    assert_eq!(store.head(&key).unwrap().size, 1);
    assert!(start.elapsed() >= Duration::from_secs(2));
}

#[test]
fn a_stop_ends_the_waiting() {
    let fake = Fake::start();
    fake.on(RUN, Reply::refusal(429, "").header("Retry-After", "19"));
    let stop = Stop::default();
    let (github, _) = announcing(&fake, None, stop.clone());
    stop.flag().store(true, Ordering::Relaxed);
    let error = github.run(&of(), &"7".parse().unwrap());
    assert_eq!(Exit::of(&error.unwrap_err()), Exit::Interrupted);
}

#[test]
fn every_page_of_runs_is_read_and_the_newest_comes_first() {
    let fake = Fake::start();
    let page = |runs: &[Value]| Reply::json(&json!({"total_count": 4, "workflow_runs": runs}));
    let first = page(&[
        run(9, "2026-01-01T00:00:00Z", "completed", Some("failure")),
        run(10, "2026-01-03T00:00:00Z", "queued", None),
    ]);
    // A run that came meanwhile moved one to this page, and another one was deleted.
    let second = page(&[
        run(8, "2026-01-02T00:00:00Z", "completed", Some("success")),
        run(10, "2026-01-03T00:00:00Z", "queued", None),
    ]);
    for (number, page) in [(1, first), (2, second), (3, page(&[]))] {
        let query = format!("head_sha=abc&per_page=100&page={number}");
        fake.on(&format!("{RUNS}?{query}"), page);
    }
    let found = ids(&fake, RunsOf::Commit("abc"), usize::MAX);
    assert_eq!(found, ["10", "8", "9"]);
}

#[test]
fn a_branch_of_the_same_name_in_a_fork_is_another_branch() {
    let fake = Fake::start();
    let of_fork = |full_name: Value| {
        let mut run = run(9, SOME_TIME, "completed", Some("success"));
        run["head_repository"]["full_name"] = full_name;
        run
    };
    let mut deleted = of_fork(json!(""));
    (deleted["id"], deleted["head_repository"]) = (json!(8), Value::Null);
    let page = |run: Value| Reply::json(&json!({"total_count": 30, "workflow_runs": [run]}));
    let replies = [
        page(of_fork(json!("someone/TheRock"))),
        // GitHub's description does not know that the repository of a run may be gone.
        page(deleted).untold(),
        page(run(7, SOME_TIME, "completed", Some("success"))),
    ];
    for (number, reply) in (1..).zip(replies) {
        let query = format!("branch=main&per_page=1&page={number}");
        fake.on(&format!("{RUNS}?{query}"), reply);
    }
    assert_eq!(ids(&fake, RunsOf::Branch("main"), 1), ["7"]);
}

#[test]
fn a_redirect_elsewhere_is_not_followed_and_one_here_is() {
    let (fake, other) = (Fake::start(), Fake::elsewhere());
    let moved = |to: &str| Reply::redirect(301, to).untold();
    fake.on(RUN, moved(&format!("{}/steal?sig=hush", other.url())));
    let said = refused(&fake, Some("secret"));
    assert!(said.contains("not an answer of GitHub's API"), "{said}");
    assert_has!(said, &format!("it leads to `{}/steal`", other.url()));
    assert_eq!(other.asked().len(), 0);

    let fake = Fake::start();
    fake.on(RUN, moved(&format!("{}/repositories/1", fake.url())));
    let good = Reply::json(&run(7, SOME_TIME, "queued", None));
    fake.on("/repositories/1", good.untold());
    ask(&fake, Some("secret")).unwrap();
    assert_eq!(fake.asked()[1].token.as_deref(), Some("Bearer secret"));
}

#[test]
fn a_missing_thing_is_named() {
    let fake = Fake::start();
    let none = Reply::refusal(422, "No commit found for SHA: nothing");
    fake.on("/repos/ROCm/TheRock/commits/nothing", none);
    let (github, of) = (connect(&fake, None), of());
    let workflow = "gone.yml".parse().unwrap();
    let runs = github.runs(&of, &workflow, RunsOf::Commit("abc"), 9);
    let said = [
        github.commit(&of, "nothing").unwrap_err(),
        github.head_of_pull(&of, 12).unwrap_err(),
        github.default_branch(&of).unwrap_err(),
        runs.unwrap_err(),
    ];
    assert_snapshot!(said.map(|error| line(&error)).concat(), @"
    failed to look up commit `nothing` of `ROCm/TheRock` | caused by: GitHub has no such thing: `/repos/ROCm/TheRock/commits/nothing` | caused by: No commit found for SHA: nothing | hint: check `--repository` and the name that was looked up; a private repository needs a token that can read it (`GITHUB_TOKEN`)
    failed to look up pull request 12 of `ROCm/TheRock` | caused by: GitHub has no such thing: `/repos/ROCm/TheRock/pulls/12` | caused by: Not Found | hint: check `--repository` and the name that was looked up; a private repository needs a token that can read it (`GITHUB_TOKEN`)
    failed to look up `ROCm/TheRock` | caused by: GitHub has no such thing: `/repos/ROCm/TheRock` | caused by: Not Found | hint: check `--repository` and the name that was looked up; a private repository needs a token that can read it (`GITHUB_TOKEN`)
    failed to list the runs of `gone.yml` for commit `abc` | caused by: GitHub has no such thing: `/repos/ROCm/TheRock/actions/workflows/gone.yml/runs` | caused by: Not Found | hint: check `--repository` and the name that was looked up; a private repository needs a token that can read it (`GITHUB_TOKEN`)
    ");
}

#[test]
fn names_of_commits_and_pull_requests_are_resolved() {
    let fake = Fake::start();
    let path = "/repos/ROCm/TheRock/commits/release%2F2.12";
    fake.on(path, Reply::json(&commit("abc")));
    fake.on("/repos/ROCm/TheRock/pulls/12", Reply::json(&pull("def")));
    fake.on("/repos/ROCm/TheRock", Reply::json(&repository("trunk")));
    let (github, of) = (connect(&fake, None), of());
    assert_eq!(github.commit(&of, "release/2.12").unwrap(), "abc");
    assert_eq!(github.head_of_pull(&of, 12).unwrap(), "def");
    assert_eq!(github.default_branch(&of).unwrap(), "trunk");
    assert_eq!(fake.paths().len(), 3);
}
