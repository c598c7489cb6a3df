//! GitHub's API against a GitHub of our own: what is asked, who is told the token, what is tried again.

pub(crate) mod fake;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rocwheel::{
    error::{Exit, Result, Secret, Stop, render},
    github::{GitHub, Patience, Run, Settings, State},
    run::Origin,
};
use serde_json::{Value, json};

use self::fake::{Fake, Reply};

const RUN: &str = "/repos/ROCm/TheRock/actions/runs/7";

/// A connection without much patience, and what it announced.
fn connect(fake: &Fake, token: Option<&str>) -> (GitHub<'static>, Arc<Mutex<Vec<String>>>) {
    connect_until(fake, token, Stop::default())
}

fn connect_until(
    fake: &Fake,
    token: Option<&str>,
    stop: Stop,
) -> (GitHub<'static>, Arc<Mutex<Vec<String>>>) {
    let settings = Settings {
        api: fake.url().parse().unwrap(),
        token: token.map(Secret::new),
        patience: Patience {
            attempts: 3,
            pause: Duration::from_millis(1),
            longest: Duration::from_secs(20),
        },
    };
    let said = Arc::new(Mutex::new(Vec::new()));
    let saying = Arc::clone(&said);
    let announce = move |text: &str| saying.lock().unwrap().push(text.to_owned());
    (GitHub::connect(settings, stop, announce).unwrap(), said)
}

/// A run as GitHub describes it, with all that its description requires of the fields read here.
pub(crate) fn run(id: u64, created_at: &str, status: &str, conclusion: Option<&str>) -> Value {
    json!({
        "id": id,
        "head_sha": "0123456789abcdef0123456789abcdef01234567",
        "head_branch": "main",
        "status": status,
        "conclusion": conclusion,
        "run_attempt": 1,
        "created_at": created_at,
        "updated_at": "2026-08-22T10:00:00Z",
        "html_url": format!("https://github.com/ROCm/TheRock/actions/runs/{id}"),
        "head_repository": {"full_name": "ROCm/TheRock"},
    })
}

fn ask(fake: &Fake, token: Option<&str>) -> Result<Run> {
    let (github, _) = connect(fake, token);
    github.run(&"ROCm/TheRock".parse()?, &"7".parse()?)
}

fn refused(fake: &Fake, token: Option<&str>) -> String {
    let error = ask(fake, token).unwrap_err();
    assert_eq!(Exit::of(&error), Exit::CouldNotTry);
    render(&error)
}

#[test]
fn a_run_is_looked_up_with_the_token_or_without() {
    let fake = Fake::start();
    fake.on(
        RUN,
        Reply::json(&run(
            7,
            "2026-01-01T00:00:00Z",
            "completed",
            Some("success"),
        )),
    );
    let found = ask(&fake, Some("secret")).unwrap();
    assert_eq!(found.state, State::Ended("success".into()));
    assert_eq!(found.facts.origin, Origin::Own);
    ask(&fake, None).unwrap();
    let tokens: Vec<_> = fake.asked().into_iter().map(|asked| asked.token).collect();
    assert_eq!(tokens, [Some("Bearer secret".to_owned()), None]);
}

#[test]
fn each_refusal_has_its_words_and_never_the_token() {
    let replies = [
        Reply::refusal(401, "Bad credentials"),
        Reply::refusal(403, "Resource not accessible by personal access token"),
        Reply::refusal(404, "Not Found"),
        Reply::refusal(410, "Gone"),
        Reply::bytes("text/html", b"<html>"),
    ];
    let mut said = String::new();
    for reply in replies {
        let fake = Fake::start();
        fake.on(RUN, reply);
        said.push_str(&refused(&fake, Some("secret")).replace("\n\n", "\n"));
        assert_eq!(fake.asked().len(), 1, "it is not worth trying again");
    }
    assert!(!said.contains("secret"));
    insta::assert_snapshot!(said, @"
    error: look up run `7` of `ROCm/TheRock`
      caused by: GitHub does not accept the token: `/repos/ROCm/TheRock/actions/runs/7`
      caused by: Bad credentials
    hint: renew the token in `--github-token`, `GITHUB_TOKEN` or `GH_TOKEN`, or do without: public repositories need none
    error: look up run `7` of `ROCm/TheRock`
      caused by: GitHub denies access: `/repos/ROCm/TheRock/actions/runs/7`
      caused by: Resource not accessible by personal access token
    hint: the token needs `actions: read` and `contents: read` for this repository
    error: look up run `7` of `ROCm/TheRock`
      caused by: GitHub has no such thing: `/repos/ROCm/TheRock/actions/runs/7`
      caused by: Not Found
    hint: look at `--repository` and `--run-id`; of a private repository, the token may not know
    error: look up run `7` of `ROCm/TheRock`
      caused by: GitHub does not have it any more: `/repos/ROCm/TheRock/actions/runs/7`
      caused by: Gone
    hint: what a run kept has expired: take a newer run, or `--bucket`
    error: look up run `7` of `ROCm/TheRock`
      caused by: not an answer of GitHub's API: `/repos/ROCm/TheRock/actions/runs/7`
      caused by: expected value at line 1 column 1
    hint: look at `--github-api-url`
    ");
}

#[test]
fn what_fails_for_a_moment_is_asked_again() {
    let fake = Fake::start();
    let good = Reply::json(&run(7, "", "queued", None));
    fake.on(RUN, Reply::refusal(502, "Server Error"));
    fake.on(RUN, good.clone().cut_after(20));
    fake.on(RUN, good);
    ask(&fake, None).unwrap();
    assert_eq!(fake.asked().len(), 3);
}

#[test]
fn what_always_fails_is_given_up() {
    let fake = Fake::start();
    fake.on(RUN, Reply::refusal(500, "Server Error"));
    insta::assert_snapshot!(refused(&fake, None), @"
    error: look up run `7` of `ROCm/TheRock`
      caused by: GitHub does not answer now: `/repos/ROCm/TheRock/actions/runs/7`
      caused by: Server Error

    hint: look at https://www.githubstatus.com and at the proxy, and try again
    ");
    assert_eq!(fake.asked().len(), 3);
    let gone = Fake::start();
    gone.on(RUN, Reply::bytes("text/plain", b"abc").cut_after(0));
    assert!(refused(&gone, None).contains("does not answer now"));
}

#[test]
fn a_short_limit_is_announced_and_waited_for() {
    let fake = Fake::start();
    fake.on(
        RUN,
        Reply::refusal(429, "slow down").header("Retry-After", "1"),
    );
    fake.on(RUN, Reply::json(&run(7, "", "queued", None)));
    let (github, said) = connect(&fake, None);
    let start = Instant::now();
    github
        .run(&"ROCm/TheRock".parse().unwrap(), &"7".parse().unwrap())
        .unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(
        *said.lock().unwrap(),
        ["asking GitHub again in 1 s: its rate limit is spent"]
    );
}

#[test]
fn a_long_limit_is_an_error_at_once() {
    let fake = Fake::start();
    let limit = Reply::refusal(403, "API rate limit exceeded for 192.0.2.1.")
        .header("X-RateLimit-Remaining", "0")
        .header("X-RateLimit-Reset", "99999999999");
    fake.on(RUN, limit);
    let start = Instant::now();
    let said = refused(&fake, None);
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(fake.asked().len(), 1);
    let minutes = regex::Regex::new("[0-9]+ min").unwrap();
    insta::assert_snapshot!(minutes.replace(&said, "N min"), @"
    error: look up run `7` of `ROCm/TheRock`
      caused by: GitHub's rate limit is spent for N min: `/repos/ROCm/TheRock/actions/runs/7`
      caused by: API rate limit exceeded for 192.0.2.1.

    hint: pass `--github-token`, or set `GITHUB_TOKEN`: with a token far more may be asked
    ");
}

#[test]
fn a_stop_ends_the_waiting() {
    let fake = Fake::start();
    fake.on(RUN, Reply::refusal(429, "").header("Retry-After", "19"));
    let stop = Stop::default();
    let (github, _) = connect_until(&fake, None, stop.clone());
    stop.flag()
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let error = github.run(&"ROCm/TheRock".parse().unwrap(), &"7".parse().unwrap());
    assert_eq!(Exit::of(&error.unwrap_err()), Exit::Interrupted);
}

#[test]
fn every_page_of_runs_is_read_and_the_newest_comes_first() {
    let fake = Fake::start();
    let route = "/repos/ROCm/TheRock/actions/workflows/ci.yml/runs?head_sha=abc&per_page=100";
    let page = |runs: Value| json!({"total_count": 3, "workflow_runs": runs});
    let first = page(json!([
        run(9, "2026-01-01T00:00:00Z", "completed", Some("failure")),
        run(10, "2026-01-03T00:00:00Z", "queued", None)
    ]));
    let link = format!(
        "<{}{route}&page=2>; rel=\"next\", <{0}/x>; rel=\"last\"",
        fake.url()
    );
    fake.on(route, Reply::json(&first).header("Link", &link));
    fake.on(
        &format!("{route}&page=2"),
        Reply::json(&page(json!([run(
            8,
            "2026-01-02T00:00:00Z",
            "completed",
            Some("success")
        )]))),
    );
    let (github, _) = connect(&fake, None);
    let runs = github
        .runs_of_commit(
            &"ROCm/TheRock".parse().unwrap(),
            &"ci.yml".parse().unwrap(),
            "abc",
        )
        .unwrap();
    let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(ids, ["10", "8", "9"]);
}

#[test]
fn a_page_elsewhere_is_not_asked_for() {
    let (fake, other) = (Fake::start(), Fake::start());
    let route = "/repos/ROCm/TheRock/actions/workflows/ci.yml/runs?branch=main&per_page=5";
    let link = format!("<{}/steal>; rel=\"next\"", other.url());
    let page = json!({"total_count": 9, "workflow_runs": [run(9, "", "queued", None)]});
    fake.on(route, Reply::json(&page).header("Link", &link));
    let (github, _) = connect(&fake, Some("secret"));
    let (repository, workflow) = ("ROCm/TheRock".parse().unwrap(), "ci.yml".parse().unwrap());
    let runs = github
        .runs_of_branch(&repository, &workflow, "main", 5)
        .unwrap();
    assert_eq!((runs.len(), other.asked().len()), (1, 0));
}

#[test]
fn a_redirect_elsewhere_is_not_followed_and_one_here_is() {
    let (fake, other) = (Fake::start(), Fake::start());
    fake.on(
        RUN,
        Reply::refusal(301, "Moved").header("Location", &format!("{}/steal", other.url())),
    );
    assert!(refused(&fake, Some("secret")).contains("not an answer of GitHub's API"));
    assert_eq!(other.asked().len(), 0);

    let fake = Fake::start();
    fake.on(
        RUN,
        Reply::refusal(301, "Moved").header("Location", &format!("{}/repositories/1", fake.url())),
    );
    fake.on("/repositories/1", Reply::json(&run(7, "", "queued", None)));
    ask(&fake, Some("secret")).unwrap();
    assert_eq!(fake.asked()[1].token.as_deref(), Some("Bearer secret"));
}

#[test]
fn names_of_commits_and_pull_requests_are_resolved() {
    let fake = Fake::start();
    fake.on(
        "/repos/ROCm/TheRock/commits/release%2F2.12",
        Reply::json(&json!({"sha": "abc"})),
    );
    fake.on(
        "/repos/ROCm/TheRock/pulls/12",
        Reply::json(&json!({"head": {"sha": "def", "repo": null}})),
    );
    fake.on(
        "/repos/ROCm/TheRock",
        Reply::json(&json!({"default_branch": "trunk"})),
    );
    let (github, _) = connect(&fake, None);
    let repository = "ROCm/TheRock".parse().unwrap();
    assert_eq!(github.commit(&repository, "release/2.12").unwrap(), "abc");
    assert_eq!(github.head_of_pull(&repository, 12).unwrap(), "def");
    assert_eq!(github.default_branch(&repository).unwrap(), "trunk");
    assert_eq!(fake.paths().len(), 3);
}
