//! `upload` to a bucket, by the binary, and what pip makes of the result.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use aws_sdk_s3::primitives::ByteStream;
use rocwheel::{
    digest::Sha256,
    location::Bucket,
    store::{Depth, Span, Store},
};

use super::{
    key,
    server::{ID, SECRET, Server},
};
use crate::support::program::ROCWHEEL;
use crate::{
    publish::{Bench, judge, packages::wheels, tree},
    support::program::Outcome,
};

pub(super) const KEYS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", ID), ("AWS_SECRET_ACCESS_KEY", SECRET)];
const CORE: &str = "rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl";

/// Somebody at a machine, with a set to publish.
pub(super) struct Desk {
    pub(super) bench: Bench,
    pub(super) bucket: Bucket,
    pub(super) port: u16,
}

impl Desk {
    pub(super) fn new() -> Self {
        let server = Server::shared();
        let bench = Bench::new();
        wheels(&bench.root);
        fs_err::create_dir(bench.root.join("home")).unwrap();
        Self {
            bench,
            bucket: server.bucket(),
            port: server.port,
        }
    }

    /// The binary, in an environment with nothing but the way to this server.
    pub(super) fn command(&self, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(ROCWHEEL);
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        command
            .env_clear()
            .env("HOME", self.bench.path("home"))
            .env("AWS_ENDPOINT_URL", endpoint)
            // The address that it stands for is outside of this machine.
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(variables.iter().copied());
        command
    }

    pub(super) fn upload(&self, variables: &[(&str, &str)], more: &[&str]) -> Outcome {
        let mut command = self.command(variables);
        command
            .args(["upload", "--multi-target", "--platform", "linux"])
            .args(["--no-check", "--run-id", "42"])
            .args(["--bucket", self.bucket.as_str()])
            .args(["--packages-dir", &self.bench.path("")])
            .args(more);
        self.run(&mut command)
    }

    pub(super) fn run(&self, command: &mut Command) -> Outcome {
        let mut outcome = Outcome::of(command.output().unwrap());
        for text in [&mut outcome.stdout, &mut outcome.stderr] {
            *text = text
                .replace(self.bucket.as_str(), "BUCKET")
                .replace(&format!("127.0.0.1:{}", self.port), "HOST");
        }
        outcome
    }

    fn summary(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.command(&KEYS);
        Outcome::of(command.arg("summary").args(arguments).output().unwrap())
    }

    pub(super) fn signed(&self, more: &[&str]) -> Outcome {
        self.upload(&KEYS, more)
    }

    /// Every object, by key, with its digest.
    pub(super) fn there(&self) -> Vec<(String, Sha256)> {
        let store = Server::shared().store(&self.bucket);
        let listed = store.list(None, Depth::All).unwrap();
        let keys = listed.into_iter().map(|object| object.key);
        keys.map(|key| {
            let sha256 = Sha256::of_reader(store.get(&key, Span::Whole).unwrap())
                .unwrap()
                .0;
            (key.to_string(), sha256)
        })
        .collect()
    }

    pub(super) fn put(&self, key: &str, bytes: &'static [u8]) {
        let server = Server::shared();
        let request = server.client.put_object().bucket(self.bucket.as_str());
        let request = request.key(key).body(ByteStream::from_static(bytes));
        server.runtime.block_on(request.send()).unwrap();
    }
}

#[test]
#[ignore = "slow"]
fn a_summary_is_made_of_what_is_in_the_bucket() {
    let desk = Desk::new();
    let bucket = desk.bucket.as_str();
    let address = format!("s3://{bucket}/42-linux/python");
    let early = desk.summary(&[&address]);
    assert_eq!(early.code, 2, "{}", early.stderr);
    assert!(
        early.stderr.contains("writes it when a set is whole"),
        "{}",
        early.stderr
    );
    desk.signed(&[]).ok();
    let named = desk.summary(&[&address, "--baseline", &address]).ok();
    assert_eq!(named.matches("| unchanged |").count(), 3, "{named}");
    let place = format!("127.0.0.1:{}/{bucket}/42-linux/python/simple/", desk.port);
    assert!(named.contains(&place), "{named}");
    let run = ["--run-id", "42", "--bucket", bucket, "--platform", "linux"];
    let run = desk.summary(&[&run[..], &["--baseline", &address]].concat());
    assert_eq!(run.ok(), named);
    let refused = desk.summary(&[&address, "--check"]);
    assert!(
        refused
            .stderr
            .contains("`--check` is for packages in a directory")
    );
}

#[test]
#[ignore = "slow"]
fn an_uploaded_set_installs_from_its_address() {
    let desk = Desk::new();
    Server::shared().publish(&desk.bucket);
    let published = desk.signed(&[]);
    let said = &published.stderr;
    let dropped = "warning: this server drops the pages of directories, such as `42-linux/python/dist/`: \
                   install with `--find-links` and the address of the `index.html` beside the packages";
    assert!(said.contains(dropped), "{said}");
    assert!(
        said.contains("Published 26 objects in s3://BUCKET/42-linux/python, 0 of them"),
        "{said}"
    );
    insta::assert_snapshot!(published.ok(), @"http://HOST/BUCKET/42-linux/python/simple/");
    let base = format!(
        "http://127.0.0.1:{}/{}/42-linux/python",
        desk.port, desk.bucket
    );
    let place = desk.bench.path("downloaded");
    for source in [
        [
            "--no-index",
            "--find-links",
            &format!("{base}/dist/index.html"),
        ],
        [
            "--no-index",
            "--find-links",
            &format!("{base}/simple/rocm-sdk-core/index.html"),
        ],
    ] {
        let download = [
            "download",
            "--isolated",
            "--no-cache-dir",
            "--quiet",
            "--dest",
            &place,
        ];
        judge(
            "pip",
            &[&download[..], &source, &["--pre", "rocm-sdk-core"]].concat(),
        )
        .ok();
        assert_eq!(tree(place.as_ref()), [CORE]);
        fs_err::remove_dir_all(&place).unwrap();
    }
    let server = Server::shared();
    let head = server.client.head_object().bucket(desk.bucket.as_str());
    let head = head.key(format!("42-linux/python/dist/{CORE}"));
    let head = server.runtime.block_on(head.send()).unwrap();
    let said = (head.content_type(), head.cache_control());
    let expected = (
        Some("application/zip"),
        Some("public, max-age=31536000, immutable"),
    );
    assert_eq!(said, expected);
}

#[test]
fn a_dry_run_reads_what_is_there() {
    let desk = Desk::new();
    let begun = Instant::now();
    let blind = desk.upload(&[], &["--dry-run"]);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    insta::assert_snapshot!(blind.stderr, @"
    error: failed to read `s3://BUCKET/42-linux/python`
      caused by: failed to list `42-linux/python/` of `s3://BUCKET`
      caused by: access denied: `s3://BUCKET/42-linux/python/`
      caused by: AccessDenied: Access Denied. (HTTP 403)

    hint: no AWS credentials were found: set `AWS_PROFILE` or `AWS_ACCESS_KEY_ID`; the pull request of a fork mostly has none, and keeps its packages with `--output-dir`
    ");
    Server::shared().publish(&desk.bucket);
    desk.put(&format!("42-linux/python/dist/{CORE}"), b"other");
    let seeing = desk.upload(&[], &["--dry-run", "--no-sign-request"]);
    assert!(seeing.stdout.contains("refuse"), "{}", seeing.stdout);
    assert_eq!(seeing.stderr, "");
    assert_eq!(desk.there().len(), 1);
}

#[test]
fn an_upload_without_credentials_says_what_is_missing() {
    let desk = Desk::new();
    Server::shared().publish(&desk.bucket);
    let refused = desk.upload(&[], &[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    insta::assert_snapshot!(refused.stderr, @"
    error: access denied: `s3://BUCKET`
      caused by: nothing is written without credentials, unless `--no-sign-request` asks for it

    hint: no AWS credentials were found: set `AWS_PROFILE` or `AWS_ACCESS_KEY_ID`; the pull request of a fork mostly has none, and keeps its packages with `--output-dir`
    ");
    assert!(desk.there().is_empty());
}

/// Stands where Amazon's machines tell of their credentials.
fn metadata_service(answer: &'static str) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            if !answer.is_empty() {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
            }
            open.push(stream);
        }
    });
    address
}

#[test]
#[ignore = "slow"]
fn other_clouds_metadata_and_none_at_all_mean_no_credentials_and_soon() {
    let desk = Desk::new();
    Server::shared().publish(&desk.bucket);
    let answers = [
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nx\ny",
        // It listens, and never answers.
        "",
    ];
    for answer in answers {
        let service = metadata_service(answer);
        let variables = [
            ("AWS_EC2_METADATA_DISABLED", "false"),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.as_str()),
        ];
        let begun = Instant::now();
        let seeing = desk.upload(&variables, &["--dry-run"]);
        assert_eq!(seeing.stderr, "", "{answer}");
        seeing.ok();
        assert!(begun.elapsed() < Duration::from_secs(10), "{answer}");
    }
}

#[test]
fn an_unknown_profile_is_an_error() {
    let desk = Desk::new();
    let refused = desk.upload(&[("AWS_PROFILE", "nobody")], &[]);
    assert_eq!(refused.code, 2);
    insta::assert_snapshot!(refused.stderr, @"
    error: failed to reach `s3://BUCKET/42-linux/python/`
      caused by: access denied: `s3://BUCKET`
      caused by: the profile `nobody` does not exist or has no credentials

    hint: name another `--profile`, sign in again, or pass `--no-sign-request`
    ");
    let store = Server::shared().store(&desk.bucket);
    assert!(
        store
            .list(Some(&key("42-linux")), Depth::All)
            .unwrap()
            .is_empty()
    );
}

/// One step builds, checks and uploads what `build` and `upload` do in two, and its plan names every key.
#[test]
#[ignore = "slow"]
fn a_pipeline_ends_where_upload_ends() {
    let desk = Desk::new();
    let out = desk.bench.path("out");
    let place = |name: &str| format!("s3://{}/{name}", desk.bucket);
    let pipeline = |more: &[&str]| {
        let mut command = desk.command(&KEYS);
        command.env("ROCWHEEL_NO_DIRECTORY_PAGES", "true");
        command.args(["pipeline", "--sample", "--output-dir", &out]);
        command.args(["--to", &place("one")]);
        desk.run(command.args(more))
    };
    let plan = pipeline(&["--dry-run"]).ok();
    assert_eq!(desk.there(), []);
    let output = desk.bench.path("output");
    pipeline(&["--github-output", &output]).ok();
    assert!(!desk.bench.root.join("out/local-linux").exists());
    let mut upload = desk.command(&KEYS);
    upload.args(["upload", "--packages-dir", &desk.bench.path("out/packages")]);
    upload.args(["--to", &place("two"), "--no-directory-pages"]);
    desk.run(&mut upload).ok();
    let (one, two): (Vec<_>, Vec<_>) = desk
        .there()
        .into_iter()
        .partition(|(key, _)| key.starts_with("one/"));
    let below = |all: &[(String, Sha256)], top: &str| -> Vec<(String, Sha256)> {
        let below = all.iter();
        let below = below.map(|(key, it)| (key.strip_prefix(top).unwrap().to_owned(), *it));
        below.collect()
    };
    assert_eq!(below(&one, "one/"), below(&two, "two/"));
    let planned = plan.lines();
    let planned = planned.filter_map(|line| line.strip_prefix("write s3://BUCKET/"));
    let mut planned: Vec<&str> = planned.collect();
    planned.sort_unstable();
    let keys: Vec<&str> = one.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(planned, keys);
    let outputs = fs_err::read_to_string(output).unwrap();
    assert!(outputs.contains("/one/simple/"), "{outputs}");
    // The place of another run is never replaced.
    let again = pipeline(&["--compression", "1"]);
    assert_eq!(again.code, 1, "{}", again.stderr);
}
