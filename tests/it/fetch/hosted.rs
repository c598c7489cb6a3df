//! Artifacts that GitHub itself keeps: in zip files and as they are.

use std::io::Write as _;

use insta::assert_snapshot;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{
    Fixture, refusal, stems,
    tree::{difference, seen},
    verbs,
};
use crate::support::prelude::*;
use rocwheel_test_servers::github::{
    fake::{Fake, Reply},
    hosted::{Hosted, artifact, route},
    run,
};

const ZIP: &str = "application/zip";

type Files = [(String, Vec<u8>)];

fn stored(members: &Files) -> Vec<u8> {
    zip(members, CompressionMethod::Stored)
}

fn deflated(members: &Files) -> Vec<u8> {
    zip(members, CompressionMethod::Deflated)
}

fn zip(members: &Files, method: CompressionMethod) -> Vec<u8> {
    // As GitHub's uploads are written: what is not known beforehand stands behind each member.
    let mut zip = ZipWriter::new_stream(Vec::new());
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in members {
        zip.start_file(name.as_str(), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A set as run 7: some archives as they are, the others in two zip files.
fn hosted(set: &TestSet) -> Hosted {
    let mut hosted = Hosted::start();
    let mut archives = set.archives();
    let rest = archives.split_off(archives.len() / 2);
    for (id, (name, bytes)) in (10..).zip(&archives[..3]) {
        hosted.upload(id, name, "application/zstd", bytes);
    }
    let mut nested: Vec<_> = archives.split_off(3);
    for (name, _) in &mut nested {
        // What uploads artifacts takes no colons.
        *name = format!("build/artifacts/{}", name.replace(':', "%3A"));
    }
    nested.push(("build/readme.txt".into(), vec![b'x'; 70_000]));
    let logs = [("log.txt".into(), b"x".to_vec())];
    hosted.upload(20, "nested", ZIP, &deflated(&nested));
    hosted.upload(21, "stored", ZIP, &stored(&rest));
    hosted.upload(22, "logs", ZIP, &stored(&logs));
    hosted.upload(23, "windows-artifacts", ZIP, b"not even a zip file");
    hosted.upload(24, "empty", ZIP, b"");
    hosted
}

fn fetch(fixture: &Fixture, hosted: &Hosted, arguments: &str) -> Outcome {
    hosted.ready();
    let api = format!("--github-api-url {} --github-token hush", hosted.api.url());
    let said = fixture.run_binary(&format!("--source github --run-id 7 {api} {arguments}"));
    assert_lacks!(said.all(), "hush", "127.0.0.1");
    said
}

/// Says that run 7 has ended.
fn has_ended(api: &Fake) {
    let ended = run(7, "2026-01-01T00:00:00Z", "completed", Some("success"));
    api.on("/repos/ROCm/TheRock/actions/runs/7", Reply::json(&ended));
}

#[test]
#[ignore = "slow"]
fn what_github_keeps_of_a_run_is_fetched_once_and_then_kept() {
    for set in sets() {
        let (fixture, hosted) = (Fixture::of(set), hosted(set));
        let first = fetch(&fixture, &hosted, "").done();
        assert_eq!(verbs(&first.stdout), ["fetch"]);
        assert_eq!(fixture.names(), stems(set));
        let second = fetch(&fixture, &hosted, "").done();
        assert_eq!(verbs(&second.stdout), ["keep"]);
        let other = Fixture::of(set);
        other.fetch("--run-id 7").done();
        // It is the same from wherever it comes.
        let different = difference(&seen(&fixture.out()), &seen(&other.out()));
        assert_eq!(different, [""; 0]);
    }
}

/// The job that publishes is mostly another one than the job that has built, and has the role of the repository.
#[test]
fn the_code_of_a_fork_is_known_as_such_until_it_is_published() {
    let (fixture, hosted) = (Fixture::new(), hosted(sample()));
    let mut forks = run(7, "2026-01-01T00:00:00Z", "completed", Some("success"));
    forks["head_repository"]["full_name"] = json!("somebody/TheRock");
    let api = "/repos/ROCm/TheRock/actions/runs/7";
    hosted.api.on(api, Reply::json(&forks));
    fetch(&fixture, &hosted, "").done();
    let t = &fixture.t;
    t.run("build --artifact-dir out --output-dir packages").ok();
    let document: Value = serde_json::from_str(&t.read("packages/set.json")).unwrap();
    let foreign =
        json!({"repository": "ROCm/TheRock", "run-id": "7", "head-repository": "somebody/TheRock"});
    assert_eq!(document["foreign-code"], foreign);
    assert_eq!(document["run-id"], "7");
    let upload = "upload packages --multi-target --platform linux --run-id 555";
    let refusal = |bucket: &str| {
        format!(
            "exit 2\nerror: `{bucket}` takes no code of a fork, and run 7 of ROCm/TheRock built the code of somebody/TheRock\n\n\
             hint: publish to a directory, or to a bucket of your own: the packages of a fork stay with its run\n"
        )
    };
    let ci = "therock-ci-artifacts";
    for (line, bucket) in [
        (format!("{upload} --bucket {ci}"), ci),
        (format!("{upload} --bucket {ci} --part --dry-run"), ci),
        ("upload packages --to s3://therock-nightly-python/x".into(), "therock-nightly-python"),
        (
            "upload packages --product core --release-type nightly".into(),
            "therock-repo-amd-nightly-core",
        ),
        (format!("pipeline --artifact-dir out --output-dir all --to s3://{ci}/x"), ci),
    ] {
        let said = t.run(&format!("{line} --quiet")).all();
        assert_eq!(said, refusal(bucket), "{line}");
    }
    // What is made of the set is of the same run.
    t.run("promote packages --to same --into promoted").ok();
    let line = "upload promoted --to s3://therock-release-python/x --quiet";
    assert_eq!(t.run(line).all(), refusal("therock-release-python"));
    let elsewhere = "--output-dir published --ignore other-run";
    t.run(&format!("{upload} {elsewhere}")).ok();
    let published = t.read("published/555-linux/python/set.json");
    assert_has!(published, "\"head-repository\": \"somebody/TheRock\"");

    // The same artifacts, of a run of the repository itself. The next fetch still hears the answer from before.
    has_ended(&hosted.api);
    fetch(&fixture, &hosted, "").done();
    fetch(&fixture, &hosted, "").done();
    let manifest =
        "out/base_lib_generic/base/aux-overlay/stage/share/therock/therock_manifest.json";
    let other = t.read(manifest).replace("\"local\"", "\"run-7\"");
    t.write(manifest, other);
    let said = t.run("build --artifact-dir out --output-dir again").done();
    let why = "note: `github_run_id` of the manifest is not used: not a run id";
    assert_has!(said.stderr, why);
    assert_lacks!(t.read("again/set.json"), "foreign-code", "run-id");
}

#[test]
fn a_dry_run_lists_parcels_and_downloads_none() {
    let (fixture, hosted) = (Fixture::new(), hosted(sample()));
    let arguments = "--dry-run --format json --amdgpu-targets gfx942";
    let plan = fetch(&fixture, &hosted, arguments).ok();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["from"], "GitHub's artifacts of run 7 of ROCm/TheRock");
    let archives = plan["archives"].as_array().unwrap().iter();
    let names: Vec<&str> = archives.map(|it| it["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"blas_lib_gfx942.tar.zst"));
    assert!(!names.contains(&"blas_lib_gfx1100.tar.zst"));
    assert!(fixture.names().is_empty());
    let asked = hosted.keeper.asked();
    let ranges = asked.iter().map(|it| it.range.as_deref().unwrap());
    let ends = ranges.filter(|range| !range.starts_with("bytes=0-"));
    assert_eq!(ends.count(), 2, "of the two long ones only the end is read");
}

#[test]
#[ignore = "slow"]
fn bytes_that_are_not_those_that_were_uploaded_are_refused() {
    let mut hosted = hosted(sample());
    let bytes = stored(&[sample().archives().remove(0)]);
    let mut listed = artifact(30, "other", &bytes);
    listed["digest"] = json!(format!("sha256:{}", Sha256::of(b"other")));
    hosted.list(listed);
    hosted.keep(30, Reply::bytes(ZIP, &bytes).in_parts());
    let fixture = Fixture::new();
    let said = refusal(&fetch(&fixture, &hosted, ""));
    assert_eq!(fixture.names().len(), stems(sample()).len() - 1);
    let expected =
        "1: 1 of 5 archives not fetched | failed to fetch `other`: wrong digest: sha256 ";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn an_archive_in_two_artifacts_is_taken_from_the_later_one() {
    let mut hosted = hosted(sample());
    let again = stored(&[sample().archives().remove(0)]);
    hosted.upload(31, "again", ZIP, &again);
    let damaged = ("blas_lib_gfx942.tar.zst".to_owned(), b"damaged".to_vec());
    hosted.upload(5, "older", ZIP, &stored(&[damaged]));
    let fixture = Fixture::new();
    fetch(&fixture, &hosted, "--no-extract")
        .says("was uploaded more than once, in `older` and")
        .says("the last one is taken");
    for (name, bytes) in sample().archives() {
        assert_eq!(fs_err::read(fixture.out().join(name)).unwrap(), bytes);
    }
}

#[test]
fn an_upload_that_cannot_be_read_matters_only_to_who_wants_it() {
    let hosted = || {
        let mut hosted = hosted(sample());
        hosted.list(artifact(40, "gone", b"x"));
        hosted.api.on(&route(40), Reply::refusal(410, "Artifact has expired"));
        hosted
    };
    let fixture = Fixture::new();
    let said = fetch(&fixture, &hosted(), "--no-extract base_lib");
    assert_eq!(said.says("warning: left out: failed to read artifact `gone`").code, 0);
    for wish in ["", "no_such_artifact"] {
        let said = refusal(&fetch(&Fixture::new(), &hosted(), wish));
        assert!(said.starts_with("1: failed to read artifact `gone`"), "{said}");
    }
}

fn expired(id: u64, name: &str) -> Value {
    let mut expired = artifact(id, name, b"x");
    expired["expired"] = json!(true);
    expired
}

#[test]
fn expired_artifacts_differ_from_missing_ones() {
    let fixture = Fixture::with(Vec::new());
    let mut said = String::new();
    for names in [&["a", "b"][..], &["windows-artifacts"]] {
        let mut hosted = Hosted::start();
        for (id, name) in (1..).zip(names) {
            hosted.list(expired(id, name));
        }
        said += &refusal(&fetch(&fixture, &hosted, ""));
    }
    assert_snapshot!(said, @"
    1: GitHub's artifacts of run 7 of ROCm/TheRock have expired | hint: take a newer run, or have its jobs run again
    1: no artifacts for linux in GitHub's artifacts of run 7 of ROCm/TheRock | hint: if the run is still in progress, pass `--wait 2h` to wait for it | hint: check `--run-id` and `--platform`
    ");
    let mut hosted = hosted(sample());
    hosted.list(expired(40, "old-logs"));
    fetch(&fixture, &hosted, "--dry-run base_lib")
        .says("note: expired, and so left out: `old-logs`");
}

#[test]
fn a_hostile_zip_file_does_no_harm() {
    let (name, bytes) = sample().archives().remove(0);
    let whole = |name: &str| deflated(&[(name.to_owned(), bytes.clone())]);
    // A member that says it is short, and unpacks to much more.
    let mut bomb = deflated(&[(name.clone(), vec![0; 1 << 26])]);
    let directory = bomb.windows(4).rposition(|it| it == b"PK\x01\x02").unwrap();
    bomb[directory + 24..directory + 28].copy_from_slice(&1000_u32.to_le_bytes());
    let mut damaged = whole(&name);
    damaged[100] ^= 1;
    let mut said = String::new();
    for (what, bytes) in [
        ("slips", whole(&format!("../../{name}"))),
        ("bomb", bomb),
        ("damaged", damaged),
        ("html", b"<html>".to_vec()),
    ] {
        let fixture = Fixture::with(Vec::new());
        let mut hosted = Hosted::start();
        hosted.upload(5, what, ZIP, &bytes);
        said += &refusal(&fetch(&fixture, &hosted, "--allow-incomplete --no-extract"));
        let mut names = fixture.names();
        names.retain(|name| name != ".rocwheel-fetch.json");
        assert!(names.is_empty(), "{what}: {names:?}");
    }
    assert_snapshot!(said, @r#"
    2: failed to read artifact `slips` | caused by: a member that must not be unpacked | caused by: a path with `..`: "../../base_lib_generic.tar.zst"
    1: 1 of 1 archive not fetched | failed to fetch `bomb`: failed to read `base_lib_generic.tar.zst` in the zip file: File is larger than its declared uncompressed size | hint: run it again: what is whole is kept
    1: 1 of 1 archive not fetched | failed to fetch `damaged`: failed to read `base_lib_generic.tar.zst` in the zip file: Invalid checksum | hint: run it again: what is whole is kept
    1: no artifacts for linux in GitHub's artifacts of run 7 of ROCm/TheRock | hint: if the run is still in progress, pass `--wait 2h` to wait for it | hint: check `--run-id` and `--platform`
    "#);
}

#[test]
fn a_name_that_no_artifact_can_have_is_only_a_name() {
    let mut hosted = hosted(sample());
    let (_, bytes) = sample().archives().remove(0);
    let evil = stored(&[("evil_lib_generic.tar.zst".to_owned(), bytes)]);
    hosted.upload(50, "../evil\n::error::x", ZIP, &evil);
    let fixture = Fixture::new();
    let said = fetch(&fixture, &hosted, "--no-extract evil").done();
    let mut lines = said.stderr.lines();
    assert!(!lines.any(|line| line.starts_with("::")), "{}", said.stderr);
    let names = [".rocwheel-fetch.json", "evil_lib_generic.tar.zst"];
    assert_eq!(fixture.names(), names);
}

/// The usual bucket without anything of a run, as an S3 server tells it.
fn empty_bucket() -> Fake {
    let fake = Fake::elsewhere();
    let list = "<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>";
    let query = "list-type=2&delimiter=%2F&prefix=7-linux%2F";
    for slash in ["/", ""] {
        let path = format!("/therock-ci-artifacts{slash}?{query}");
        fake.on(&path, Reply::bytes("application/xml", list.as_bytes()));
    }
    fake
}

#[test]
#[ignore = "slow"]
fn github_is_asked_where_the_usual_bucket_has_nothing() {
    let (fixture, hosted, bucket) = (Fixture::new(), hosted(sample()), empty_bucket());
    hosted.ready();
    has_ended(&hosted.api);
    let fetch = |fixture: &Fixture, api: &Fake, more: &str| {
        let (api, bucket) = (api.url(), bucket.url());
        let servers = format!("--github-api-url {api} --endpoint-url {bucket}");
        fixture.run_binary(&format!("--run-id 7 {servers} --no-sign-request {more}"))
    };
    fetch(&fixture, &hosted.api, "").done();
    assert_eq!(fixture.names(), stems(sample()));
    let paths = hosted.api.paths();
    assert!(paths.contains(&route(20)), "{paths:?}");

    let nowhere = Fixture::with(Vec::new());
    let mut shown = refusal(&fetch(&nowhere, &hosted.api, "--source bucket"));
    let denied = Hosted::start();
    has_ended(&denied.api);
    denied.api.on(
        "/repos/ROCm/TheRock/actions/runs/7/artifacts?per_page=100&page=1",
        Reply::refusal(403, "Resource not accessible by integration"),
    );
    let said = fetch(&nowhere, &denied.api, "");
    shown += &refusal(&said);
    assert_snapshot!(shown, @"
    1: no artifacts for linux in s3://therock-ci-artifacts/7-linux | hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/7 | hint: check `--run-id` and `--platform`; if the run is in another bucket, name it with `--release-type dev` or `--release-type dev-bkc` or `--release-type nightly` or `--release-type prerelease` or `--bucket therock-artifacts`
    1: no artifacts for linux in s3://therock-ci-artifacts/7-linux, nor in GitHub's artifacts of run 7 of ROCm/TheRock | hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/7 | hint: check `--run-id` and `--platform`; if the run is in another bucket, name it with `--release-type dev` or `--release-type dev-bkc` or `--release-type nightly` or `--release-type prerelease` or `--bucket therock-artifacts`
    ");
    said.says("note: only the bucket was looked in: failed to list the artifacts of run `7` of `ROCm/TheRock`: GitHub denies access: ");
}

#[test]
fn the_login_of_gh_will_do() {
    let (mut fixture, hosted) = (Fixture::with(Vec::new()), hosted(sample()));
    hosted.ready();
    let script = "#!/bin/sh\n[ \"$*\" = \"auth token --hostname $HOST\" ] && echo hush\n";
    write_program(&fixture.t.path("gh"), script);
    let (url, here) = (hosted.api.url(), fixture.t.path(""));
    fixture.t = fixture.t.with("PATH", here);
    fixture.t = fixture.t.with("HOST", url.strip_prefix("http://").unwrap());
    let arguments = format!("--dry-run --source github --run-id 7 --github-api-url {url}");
    fixture.run_binary(&arguments).done();
    let asked = hosted.api.asked();
    let bearer = Some("Bearer hush");
    assert!(asked.iter().all(|it| it.token.as_deref() == bearer));
}
