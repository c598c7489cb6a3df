//! Artifacts that GitHub itself keeps: in zip files and as they are.

use std::io::Write as _;

use fs_err as fs;
use rocwheel::digest::Sha256;
use serde_json::json;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{Fixture, Said, elsewhere, stems, verbs};
use crate::github::{
    artifacts::{Hosted, artifact, route},
    fake::{Fake, Reply},
    run,
};
use crate::support::{
    program::ROCWHEEL,
    published::{TestSet, sample, sets},
};

const ZIP: &str = "application/zip";

fn zip(members: &[(String, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
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
    let mut hosted = Hosted::new();
    let mut archives = set.archives();
    let rest = archives.split_off(archives.len() / 2);
    for (id, (name, bytes)) in (10..).zip(&archives[..3]) {
        let name = format!("attachment; filename=\"{name}\"");
        let kept = Reply::bytes("application/zstd", bytes).header("Content-Disposition", &name);
        hosted.upload_as(id, &format!("bare-{id}"), bytes, kept.in_parts());
    }
    let mut nested: Vec<_> = archives.split_off(3);
    for (name, _) in &mut nested {
        // What uploads artifacts takes no colons.
        *name = format!("build/artifacts/{}", name.replace(':', "%3A"));
    }
    nested.push(("build/readme.txt".into(), vec![b'x'; 70_000]));
    hosted.upload(
        20,
        "nested",
        ZIP,
        &zip(&nested, CompressionMethod::Deflated),
    );
    hosted.upload(21, "stored", ZIP, &zip(&rest, CompressionMethod::Stored));
    hosted.upload(
        22,
        "logs",
        ZIP,
        &zip(
            &[("log.txt".into(), b"x".to_vec())],
            CompressionMethod::Stored,
        ),
    );
    hosted.upload(23, "windows-artifacts", ZIP, b"not even a zip file");
    hosted.upload(24, "empty", ZIP, b"");
    hosted
}

fn fetch(fixture: &Fixture, hosted: &Hosted, arguments: &str) -> Said {
    hosted.ready();
    let url = hosted.api.url();
    let mut said = fixture.run_binary(&format!(
        "--source github --run-id 7 --github-api-url {url} --github-token hush {arguments}"
    ));
    let told = said.stdout.clone() + &said.stderr;
    assert!(
        !told.contains("hush") && !told.contains("127.0.0.1"),
        "{told}"
    );
    said.stderr = said.stderr.replace(&url, "API");
    said
}

fn error(said: &Said) -> String {
    assert_ne!(said.code, 0);
    format!(
        "exit {}: {}",
        said.code,
        said.stderr.split("error: ").nth(1).unwrap()
    )
}

#[test]
fn what_github_keeps_of_a_run_is_fetched_once_and_then_kept() {
    sets().into_iter().for_each(is_fetched_once_and_then_kept);
}

fn is_fetched_once_and_then_kept(set: &TestSet) {
    let (fixture, hosted) = (Fixture::of(set), hosted(set));
    let first = fetch(&fixture, &hosted, "");
    assert_eq!(
        (first.code, verbs(&first.stdout)),
        (0, vec!["fetch"]),
        "{}",
        first.stderr
    );
    assert_eq!(fixture.names(), stems(set));
    let second = fetch(&fixture, &hosted, "");
    assert_eq!((second.code, verbs(&second.stdout)), (0, vec!["keep"]));

    let other = Fixture::of(set);
    let bucket = other.fetch("--run-id 7");
    assert_eq!(bucket.code, 0);
    let tree = |fixture: &Fixture| {
        let listing = std::process::Command::new("find")
            .args([".", "-type", "f", "-not", "-name", ".rocwheel-fetch.json"])
            .args(["-exec", "sha256sum", "{}", "+"])
            .current_dir(fixture.out())
            .output()
            .unwrap();
        let mut lines: Vec<String> = String::from_utf8(listing.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(
        tree(&fixture),
        tree(&other),
        "it is the same from wherever it comes"
    );
}

#[test]
fn a_dry_run_lists_parcels_and_downloads_none() {
    let (fixture, hosted) = (Fixture::new(), hosted(sample()));
    let said = fetch(
        &fixture,
        &hosted,
        "--dry-run --format json --amdgpu-targets gfx942",
    );
    assert_eq!(said.code, 0, "{}", said.stderr);
    let plan: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(plan["from"], "GitHub's artifacts of run 7 of ROCm/TheRock");
    let names: Vec<&str> = plan["archives"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"blas_lib_gfx942.tar.zst") && !names.contains(&"blas_lib_gfx1100.tar.zst")
    );
    assert!(fixture.names().is_empty());
    let ends = hosted
        .keeper
        .asked()
        .into_iter()
        .map(|it| it.range.unwrap());
    assert_eq!(
        ends.filter(|it| it.starts_with("bytes=0-")).count(),
        hosted.keeper.asked().len() - 2,
        "of the two long ones only the end was read"
    );
}

#[test]
fn archives_are_kept_when_they_are_not_to_be_unpacked() {
    let (fixture, hosted) = (Fixture::new(), hosted(sample()));
    assert_eq!(fetch(&fixture, &hosted, "--no-extract").code, 0);
    for (name, bytes) in sample().archives() {
        assert_eq!(fs::read(fixture.out().join(name)).unwrap(), bytes);
    }
}

#[test]
fn bytes_that_are_not_those_that_were_uploaded_are_refused() {
    let mut hosted = hosted(sample());
    let bytes = zip(&[sample().archives().remove(0)], CompressionMethod::Stored);
    let mut listed = artifact(30, "other", &bytes);
    listed["digest"] = json!(format!("sha256:{}", Sha256::of(b"other")));
    hosted.list(listed);
    hosted.keep(30, Reply::bytes(ZIP, &bytes).in_parts());
    let fixture = Fixture::new();
    let said = fetch(&fixture, &hosted, "");
    assert_eq!(fixture.names().len(), stems(sample()).len() - 1);
    insta::assert_snapshot!(error(&said), @"
    exit 1: 1 of 5 archives not fetched
      failed to fetch `other`: wrong digest: sha256 7952c23c5230d9130906b45f8aeff015be23a056d164d25a928533dd5d847e17, expected d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa

    hint: run it again: what is whole is kept

    hint: fetch it again; if that does not help, upload it again from its run
    ");
}

#[test]
fn an_archive_in_two_artifacts_is_taken_from_the_later_one() {
    let mut hosted = hosted(sample());
    let (name, bytes) = sample().archives().remove(0);
    hosted.upload(
        31,
        "again",
        ZIP,
        &zip(&[(name.clone(), bytes)], CompressionMethod::Stored),
    );
    let other = zip(
        &[("blas_lib_gfx942.tar.zst".into(), b"damaged".to_vec())],
        CompressionMethod::Stored,
    );
    hosted.upload(5, "older", ZIP, &other);
    let said = fetch(&Fixture::new(), &hosted, "");
    assert_eq!(said.code, 0, "{}", said.stderr);
    let notes: Vec<&str> = said
        .stderr
        .lines()
        .filter(|it| it.starts_with("note:"))
        .collect();
    insta::assert_snapshot!(notes.join("\n"), @"
    note: `blas_lib_gfx942.tar.zst` is in `older` and in `stored`, which was uploaded last and counts
    note: `base_lib_generic.tar.zst` is in `bare-10` and in `again`, which was uploaded last and counts
    ");
}

#[test]
fn expired_artifacts_differ_from_missing_ones() {
    let fixture = Fixture::new();
    let mut said = String::new();
    for names in [&["a", "b"][..], &[], &["windows-artifacts"]] {
        let mut hosted = Hosted::new();
        for (id, name) in (1..).zip(names) {
            let mut expired = artifact(id, name, b"x");
            expired["expired"] = json!(true);
            expired["expires_at"] = json!(format!("2026-01-0{id}T00:00:00Z"));
            hosted.list(expired);
        }
        let ended = run(7, "2026-01-01T00:00:00Z", "completed", Some("success"));
        hosted
            .api
            .on("/repos/ROCm/TheRock/actions/runs/7", Reply::json(&ended));
        said += &error(&fetch(&fixture, &hosted, ""));
    }
    let mut hosted = hosted(sample());
    let mut expired = artifact(40, "old-logs", b"x");
    expired["expired"] = json!(true);
    hosted.list(expired);
    said += &fetch(&fixture, &hosted, "--dry-run base_lib").stderr;
    insta::assert_snapshot!(said.replace("\n\n", "\n"), @"
    exit 1: GitHub's artifacts of run 7 of ROCm/TheRock have expired, the last at 2026-01-02T00:00:00Z
    hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/7
    hint: take a newer run, or have its jobs run again
    exit 1: no artifacts for linux in GitHub's artifacts of run 7 of ROCm/TheRock
    hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/7
    hint: look at `--run-id` and `--platform`
    exit 1: no artifacts for linux in GitHub's artifacts of run 7 of ROCm/TheRock
    hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/7
    hint: look at `--run-id` and `--platform`
    note: expired, and so left out: `old-logs`
          Listed 37 artifacts in GitHub's artifacts of run 7 of ROCm/TheRock
    note: left out, and part of the packages: `amd-llvm_lib_generic`, `amd-llvm_run_generic`, `base_run_generic`, `blas_dev_generic`, `blas_doc_generic`, `blas_lib_generic`, and 29 more
    ");
}

#[test]
fn a_hostile_zip_file_does_no_harm() {
    let (name, bytes) = sample().archives().remove(0);
    let whole = |name: &str| {
        zip(
            &[(name.to_owned(), bytes.clone())],
            CompressionMethod::Deflated,
        )
    };
    // A member that says it is short, and unpacks to a gigabyte.
    let mut bomb = zip(
        &[(name.clone(), vec![0; 1 << 26])],
        CompressionMethod::Deflated,
    );
    let directory = bomb.windows(4).rposition(|it| it == b"PK\x01\x02").unwrap();
    bomb[directory + 24..directory + 28].copy_from_slice(&1000_u32.to_le_bytes());
    let mut cut = whole(&name);
    cut.truncate(cut.len() - 30);
    let mut damaged = whole(&name);
    damaged[100] ^= 1;
    let mut said = String::new();
    for (what, bytes) in [
        ("slips", whole(&format!("../../{name}"))),
        ("absolute", whole(&format!("/tmp/{name}"))),
        ("bomb", bomb),
        ("cut", cut),
        ("damaged", damaged),
        ("html", b"<html>".to_vec()),
    ] {
        let fixture = Fixture::new();
        let mut hosted = Hosted::new();
        hosted.upload(5, what, ZIP, &bytes);
        let heard = fetch(&fixture, &hosted, "--allow-incomplete --no-extract");
        said += &error(&heard);
        let mut names = fixture.names();
        names.retain(|name| name != ".rocwheel-fetch.json");
        assert!(names.is_empty(), "{what}: {names:?}");
    }
    insta::assert_snapshot!(said.replace("\n\n", "\n"), @r#"
    exit 2: failed to read artifact `slips`
      caused by: a member that must not be unpacked
      caused by: a path with `..`: "../../base_lib_generic.tar.zst"
    exit 2: failed to read artifact `absolute`
      caused by: a member that must not be unpacked
      caused by: an absolute path: "/tmp/base_lib_generic.tar.zst"
    exit 1: 1 of 1 archive not fetched
      failed to fetch `bomb`: the zip file is damaged at `base_lib_generic.tar.zst`
    hint: run it again: what is whole is kept
    exit 2: failed to read artifact `cut`
      caused by: not a zip file that can be read
      caused by: invalid Zip archive: Could not find EOCD
    exit 1: 1 of 1 archive not fetched
      failed to fetch `damaged`: the zip file is damaged at `base_lib_generic.tar.zst`
    hint: run it again: what is whole is kept
    exit 2: failed to read artifact `html`
      caused by: not a zip file that can be read
      caused by: invalid Zip archive: Could not find EOCD
    "#);
}

#[test]
fn a_name_that_no_artifact_can_have_is_only_a_name() {
    let mut hosted = hosted(sample());
    let (_, bytes) = sample().archives().remove(0);
    let evil = Reply::bytes("application/zstd", &bytes).header(
        "Content-Disposition",
        "attachment; filename*=UTF-8''..%2F..%2Fevil_lib_generic.tar.zst",
    );
    hosted.upload_as(50, "../evil\n::error::x", &bytes, evil.in_parts());
    let fixture = Fixture::new();
    let said = fetch(&fixture, &hosted, "--no-extract evil");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        !said.stderr.lines().any(|line| line.starts_with("::")),
        "{}",
        said.stderr
    );
    assert_eq!(
        fixture.names(),
        [".rocwheel-fetch.json", "evil_lib_generic.tar.zst"]
    );
}

/// Buckets without anything of a run, as an S3 server tells it.
fn empty_buckets() -> Fake {
    let fake = Fake::elsewhere();
    let list = "<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>";
    let mut paths =
        vec!["therock-ci-artifacts/?list-type=2&delimiter=%2F&prefix=7-linux%2F".to_owned()];
    for bucket in elsewhere::BUCKETS {
        let shared = if bucket.ends_with("external") {
            "ROCm-TheRock%2F"
        } else {
            ""
        };
        paths.push(format!(
            "{bucket}/?list-type=2&delimiter=%2F&prefix={shared}7-linux%2F"
        ));
    }
    for path in &paths {
        for path in [format!("/{path}"), format!("/{}", path.replace("/?", "?"))] {
            fake.on(&path, Reply::bytes("application/xml", list.as_bytes()));
        }
    }
    fake
}

#[test]
fn github_is_asked_where_the_usual_bucket_has_nothing() {
    let (fixture, hosted, bucket) = (Fixture::new(), hosted(sample()), empty_buckets());
    hosted.ready();
    let own = run(7, "2026-01-01T00:00:00Z", "completed", Some("success"));
    hosted
        .api
        .on("/repos/ROCm/TheRock/actions/runs/7", Reply::json(&own));
    let arguments = format!(
        "--run-id 7 --github-api-url {} --endpoint-url {} --no-sign-request",
        hosted.api.url(),
        bucket.url()
    );
    let said = fixture.run_binary(&arguments);
    assert_eq!(said.code, 0, "{} {:?}", said.stderr, bucket.paths());
    assert_eq!(fixture.names(), stems(sample()));

    let nowhere = Fixture::new();
    let said = nowhere.run_binary(&format!("{arguments} --source bucket"));
    let mut shown = error(&said);
    let denied = Hosted::new();
    denied
        .api
        .on("/repos/ROCm/TheRock/actions/runs/7", Reply::json(&own));
    denied.api.on(
        "/repos/ROCm/TheRock/actions/runs/7/artifacts?per_page=100&page=1",
        Reply::refusal(403, "Resource not accessible by integration"),
    );
    let said = nowhere.run_binary(&arguments.replace(&hosted.api.url(), &denied.api.url()));
    shown += &said.stderr;
    insta::assert_snapshot!(shown.replace("\n\n", "\n"), @"
    exit 1: no artifacts for linux in s3://therock-ci-artifacts/7-linux, nor in s3://therock-dev-artifacts/7-linux, nor in s3://therock-nightly-artifacts/7-linux, nor in s3://therock-prerelease-artifacts/7-linux, nor in s3://therock-artifacts/7-linux
    hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/7
    hint: look at `--run-id`, `--platform`, `--release-type` and `--bucket`
    note: run 7 may be in buckets that cannot be read: `therock-bkc-artifacts` (no such object: `s3://therock-bkc-artifacts/7-linux/`)
    note: only the bucket was looked in: failed to list the artifacts of run `7` of `ROCm/TheRock`: GitHub denies access: `/repos/ROCm/TheRock/actions/runs/7/artifacts`: Resource not accessible by integration (pass `--github-token`, set `GITHUB_TOKEN` or `GH_TOKEN`, or log in with `gh auth login`)
    error: no artifacts for linux in s3://therock-ci-artifacts/7-linux, nor in s3://therock-dev-artifacts/7-linux, nor in s3://therock-nightly-artifacts/7-linux, nor in s3://therock-prerelease-artifacts/7-linux, nor in s3://therock-artifacts/7-linux, nor in GitHub's artifacts of run 7 of ROCm/TheRock
    hint: the run has ended (`success`), nothing more will come: https://github.com/ROCm/TheRock/actions/runs/7
    hint: look at `--run-id`, `--platform`, `--release-type` and `--bucket`
    ");
    let paths = hosted.api.paths();
    assert!(paths.contains(&route(20)), "{paths:?}");
}

#[test]
fn a_directory_is_not_github() {
    let said = Fixture::new().fetch("--source github --run-id 7");
    insta::assert_snapshot!(error(&said), @"exit 2: `--source github` cannot be used with `--input-dir`");
}

#[test]
fn the_login_of_gh_will_do() {
    use std::os::unix::fs::PermissionsExt;
    let (fixture, hosted) = (Fixture::new(), hosted(sample()));
    hosted.ready();
    let gh = fixture.directory.path().join("gh");
    fs::write(
        &gh,
        "#!/bin/sh\n[ \"$*\" = \"auth token --hostname $HOST\" ] && echo hush\n",
    )
    .unwrap();
    fs::set_permissions(&gh, PermissionsExt::from_mode(0o755)).unwrap();
    let url = hosted.api.url();
    let output = std::process::Command::new(ROCWHEEL)
        .env_clear()
        .env("PATH", fixture.directory.path())
        .env("HOST", url.strip_prefix("http://").unwrap())
        .args([
            "fetch",
            "--platform",
            "linux",
            "--dry-run",
            "--source",
            "github",
            "--run-id",
            "7",
        ])
        .args(["--github-api-url", &url])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        hosted
            .api
            .asked()
            .iter()
            .all(|it| it.token.as_deref() == Some("Bearer hush"))
    );
}
