//! What a run uploaded to GitHub itself: listed, and read from the server that keeps it.

use std::io::Read as _;

use insta::assert_snapshot;
use rocwheel_test_files::{assert_has, assert_lacks};
use rocwheel_test_servers::github::{
    fake::{Fake, Reply},
    hosted::{Hosted, LIST, artifact, page, route},
};
use serde_json::json;

use crate::{
    fetch::{open_artifact, storage_client},
    github::{
        GitHub, RunArtifact,
        tests::{connect, line, of},
    },
};
use rocwheel_base::{
    digest::Sha256,
    error::{Error, Exit, Result, Stop},
};

/// A page of `LIST` after the first.
fn later(page: u32) -> String {
    LIST.replace("&page=1", &format!("&page={page}"))
}

fn list(github: &GitHub) -> Result<Vec<RunArtifact>> {
    github.artifacts(&of(), &"7".parse()?)
}

fn read(github: &GitHub) -> Result<Vec<u8>> {
    read_one(github, &list(github)?.remove(0))
}

fn read_one(github: &GitHub, artifact: &RunArtifact) -> Result<Vec<u8>> {
    let storage = storage_client(github, &Stop::default())?;
    let mut stream = open_artifact(github, &storage, &of(), artifact, 0..artifact.size)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(Error::new)?;
    Ok(bytes)
}

#[test]
fn every_page_is_read_and_of_one_name_the_last_upload_counts() {
    let fake = Fake::start();
    let first = [artifact(3, "a", b"new"), artifact(5, "b", b"")];
    fake.on(LIST, page(4, &first));
    let mut expired = artifact(1, "a", b"older");
    expired["expired"] = json!(true);
    let again = page(4, &[expired, artifact(5, "b", b"")]);
    fake.on(&later(2), again);
    fake.on(&later(3), page(4, &[artifact(6, "c", b"")]));
    let found = list(&connect(&fake, None)).unwrap();
    let shown = found.iter().map(|it| (it.id, it.name.as_str(), it.size));
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown, [(3, "a", 3), (5, "b", 0), (6, "c", 0)]);
    assert_eq!(found[0].sha256, Some(Sha256::of(b"new")));
    assert!(!found[0].expired);
}

#[test]
fn a_list_that_is_shorter_than_it_says_is_no_list() {
    let fake = Fake::start();
    fake.on(LIST, page(2, &[artifact(1, "a", b"")]));
    fake.on(&later(2), page(2, &[]));
    let said = line(&list(&connect(&fake, None)).unwrap_err());
    assert_has!(said, "GitHub listed 1 of 2 artifacts");
}

#[test]
fn the_token_is_not_sent_to_the_server_of_an_artifact() {
    let mut hosted = Hosted::start();
    hosted.upload(5, "a", "application/zip", b"bytes");
    hosted.ready();
    let github = connect(&hosted.api, Some("secret"));
    assert_eq!(read(&github).unwrap(), b"bytes");
    let asked = hosted.keeper.asked();
    assert_eq!(asked.len(), 1);
    let asked = (&asked[0].token, asked[0].path.as_str());
    assert_eq!(asked, (&None, "/kept/5?sig=hush"));
    let bearer = Some("Bearer secret".to_owned());
    assert!(hosted.api.asked().iter().all(|it| it.token == bearer));
}

fn empty(status: u16) -> Reply {
    Reply::bytes("text/plain", b"").status(status)
}

/// Ten bytes, in parts if they are asked for so.
fn ten_bytes() -> Reply {
    let reply = Reply::bytes("application/zstd", b"0123456789");
    reply.header("ETag", "\"1\"").in_parts()
}

#[test]
#[ignore = "slow"]
fn a_download_is_taken_up_where_it_ended_at_a_new_address() {
    let broken_off = |at| ten_bytes().cut_after(at);
    let silent = |at| ten_bytes().silent_after(at);
    let [busy, too_late] = [503, 403].map(empty);
    for (replies, starts) in [
        (vec![busy, broken_off(4), too_late, broken_off(6)], vec![0, 0, 4, 4]),
        (vec![silent(4), silent(0), ten_bytes()], vec![0, 4, 4]),
    ] {
        let hosted = Hosted::of_ten_bytes(replies);
        let github = connect(&hosted.api, None);
        assert_eq!(read(&github).unwrap(), b"0123456789");
        let ranges = hosted.keeper.asked().into_iter();
        let ranges: Vec<_> = ranges.map(|it| it.range.unwrap()).collect();
        let asked: Vec<_> = starts.iter().map(|it| format!("bytes={it}-9")).collect();
        assert_eq!(ranges, asked);
        let places = hosted.api.paths().into_iter().filter(|it| *it == route(5));
        assert_eq!(places.count(), asked.len());
    }
}

#[test]
fn an_unreadable_artifact_is_reported_without_its_address() {
    let broken_off = ten_bytes().cut_after(2);
    let another = ten_bytes().with_header("ETag", "\"2\"");
    let without_parts = Reply::bytes("application/zip", b"0123456789");
    let short = Reply::bytes("application/zip", b"byte");
    let mut said = String::new();
    for fault in [
        vec![empty(503)],
        vec![empty(404)],
        vec![empty(416)],
        vec![empty(400)],
        vec![short],
        vec![broken_off.clone(), another],
        vec![broken_off, without_parts],
    ] {
        let hosted = Hosted::of_ten_bytes(fault);
        let error = read(&connect(&hosted.api, Some("secret"))).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::CouldNotTry);
        said += &line(&error);
    }
    assert_lacks!(said, "hush", "127.0.0.1");
    assert_snapshot!(said, @"
    the store does not answer: `artifact a of ROCm/TheRock` | caused by: the server answers 503 Service Unavailable
    the store does not answer: `artifact a of ROCm/TheRock` | caused by: the server answers 404 Not Found
    the store failed: `artifact a of ROCm/TheRock` | caused by: the server answers 416 Range Not Satisfiable
    the store failed: `artifact a of ROCm/TheRock` | caused by: the server answers 400 Bad Request
    wrong contents: `artifact a of ROCm/TheRock` | caused by: it has 4 bytes and not 10
    wrong contents: `artifact a of ROCm/TheRock` | caused by: the object was replaced while it was read
    wrong contents: `artifact a of ROCm/TheRock` | caused by: the object was replaced while it was read
    ");
}

#[test]
fn an_expired_artifact_differs_from_a_forbidden_one() {
    let mut said = String::new();
    for refusal in [
        Reply::refusal(410, "Artifact has expired"),
        Reply::refusal(404, "Not Found"),
        Reply::refusal(403, "Resource not accessible by integration"),
        Reply::refusal(401, "Requires authentication"),
        Reply::redirect(302, "").untold(),
    ] {
        let fake = Fake::start();
        fake.on(LIST, page(1, &[artifact(5, "a", b"bytes")]));
        fake.on(&route(5), refusal);
        said += &line(&read(&connect(&fake, None)).unwrap_err());
    }
    assert_snapshot!(said, @"
    the store failed: `artifact a of ROCm/TheRock` | caused by: GitHub does not have it any more: `/repos/ROCm/TheRock/actions/artifacts/5/zip` | caused by: Artifact has expired | hint: what a run kept has expired: take a newer run, or `--bucket`
    the store failed: `artifact a of ROCm/TheRock` | caused by: GitHub has no such thing: `/repos/ROCm/TheRock/actions/artifacts/5/zip` | caused by: Not Found | hint: check `--repository` and the name that was looked up; a private repository needs a token that can read it (`GITHUB_TOKEN`)
    the store failed: `artifact a of ROCm/TheRock` | caused by: GitHub denies access: `/repos/ROCm/TheRock/actions/artifacts/5/zip` | caused by: Resource not accessible by integration | hint: pass a token that is valid and has `actions: read` and `contents: read` for this repository (`GITHUB_TOKEN`, `GH_TOKEN`, `gh auth login`); public repositories need none
    the store failed: `artifact a of ROCm/TheRock` | caused by: GitHub denies access: `/repos/ROCm/TheRock/actions/artifacts/5/zip` | caused by: Requires authentication | hint: pass a token that is valid and has `actions: read` and `contents: read` for this repository (`GITHUB_TOKEN`, `GH_TOKEN`, `gh auth login`); public repositories need none
    the store failed: `artifact a of ROCm/TheRock` | caused by: not an answer of GitHub's API: `/repos/ROCm/TheRock/actions/artifacts/5/zip` | caused by: it has no target | hint: set `GITHUB_API_URL` to the address of the API, which ends in `/api/v3` on a GitHub Enterprise server
    ");
}

#[test]
fn an_api_may_keep_artifacts_itself() {
    let mut hosted = Hosted::start();
    hosted.list(artifact(5, "a", b"bytes"));
    hosted.ready();
    let place = format!("{}/kept/5", hosted.api.url());
    hosted.api.on(&route(5), Reply::redirect(302, &place));
    let kept = Reply::bytes("application/zip", b"bytes").in_parts();
    hosted.api.on("/kept/5", kept.untold());
    let github = connect(&hosted.api, Some("secret"));
    assert_eq!(read(&github).unwrap(), b"bytes");
    // No server of artifacts gets the token.
    let asked = hosted.api.asked().pop().unwrap();
    assert_eq!((asked.path.as_str(), asked.token), ("/kept/5", None));
}

#[test]
fn a_repository_that_was_renamed_still_says_where_its_artifacts_are() {
    let mut hosted = Hosted::start();
    hosted.list(artifact(5, "a", b"bytes"));
    hosted.ready();
    let there = "/repositories/1/actions/artifacts/5/zip";
    let moved = Reply::redirect(301, &format!("{}{there}", hosted.api.url()));
    hosted.api.on(&route(5), moved.untold());
    let place = format!("{}/kept/5?sig=hush", hosted.keeper.url());
    hosted.api.on(there, Reply::redirect(302, &place).untold());
    let kept = Reply::bytes("application/zip", b"bytes").in_parts();
    hosted.keeper.on("/kept/5?sig=hush", kept);
    let github = connect(&hosted.api, Some("secret"));
    assert_eq!(read(&github).unwrap(), b"bytes");
    let circle = Reply::redirect(301, &format!("{}{}", hosted.api.url(), route(6))).untold();
    hosted.api.on(&route(6), circle);
    let mut six = list(&github).unwrap().remove(0);
    six.id = 6;
    let error = read_one(&github, &six).unwrap_err();
    assert_has!(line(&error), "not an answer of GitHub's API");
}
