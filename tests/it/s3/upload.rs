//! `upload` to a bucket, by the binary, and what pip makes of the result.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    thread,
    time::Instant,
};

use aws_sdk_s3::types::MetadataDirective;
use insta::assert_snapshot;
use rocwheel_store::{Depth, Span, Store, location::Bucket};

use super::{
    fault::Proxy,
    server::{ID, SECRET, Server},
};
use crate::publish::{Bench, packages::wheels, pip};
use crate::support::{prelude::*, sandbox::words};

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
        Self::at(server.bucket(), server.port)
    }

    pub(super) fn at(bucket: Bucket, port: u16) -> Self {
        let bench = Bench::new();
        wheels(&bench.root);
        fs_err::create_dir(bench.root.join("home")).unwrap();
        Self { bench, bucket, port }
    }

    /// The binary with the words of a line, in which `BUCKET` is the bucket. It runs at the bench, in an
    /// environment with nothing but the way to this server and these variables.
    pub(super) fn command(&self, variables: &[(&str, &str)], line: &str) -> Command {
        let mut command = command();
        command
            .args(words(&line.replace("BUCKET", self.bucket.as_str())))
            .current_dir(&self.bench.root)
            .env("HOME", self.bench.path("home"))
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            // The address that it stands for is outside of this machine.
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(variables.iter().copied());
        command
    }

    /// Runs it with the keys of the bucket.
    pub(super) fn run(&self, line: &str) -> Outcome {
        self.outcome(&mut self.command(&KEYS, line))
    }

    /// Runs a command, and shows the bucket as `BUCKET` and the server as `HOST`.
    pub(super) fn outcome(&self, command: &mut Command) -> Outcome {
        let mut outcome = Outcome::of(command.output().unwrap());
        for text in [&mut outcome.stdout, &mut outcome.stderr] {
            *text = text
                .replace(self.bucket.as_str(), "BUCKET")
                .replace(&format!("127.0.0.1:{}", self.port), "HOST");
        }
        outcome
    }

    pub(super) fn upload(&self, more: &str) -> Outcome {
        self.upload_as(&KEYS, more)
    }

    pub(super) fn upload_as(&self, variables: &[(&str, &str)], more: &str) -> Outcome {
        let line = format!("{UPLOAD} . --no-check {more}");
        self.outcome(&mut self.command(variables, &line))
    }

    /// Every object, by key, with its digest.
    pub(super) fn there(&self) -> Vec<(String, Sha256)> {
        let store = Server::shared().store(&self.bucket);
        let listed = store.list(None, Depth::All).unwrap();
        let keys = listed.into_iter().map(|object| object.key);
        let digest = |key: &_| Sha256::of_reader(store.get(key, Span::Whole).unwrap());
        keys.map(|key| (key.to_string(), digest(&key).unwrap().0)).collect()
    }

    pub(super) fn put(&self, key: &str, bytes: &[u8]) {
        Server::shared().put(&self.bucket, key, bytes);
    }
}

/// As run 42. A directory is to follow.
pub(super) const UPLOAD: &str =
    "upload --multi-target --platform linux --run-id 42 --bucket BUCKET --packages-dir";

#[test]
#[ignore = "slow"]
fn a_summary_is_made_of_what_is_in_the_bucket() {
    let desk = Desk::new();
    let place = "s3://BUCKET/42-linux/python";
    let early = desk.run(&format!("summary {place}"));
    assert_eq!(early.code, 2, "{}", early.stderr);
    early.says("writes it when a set is whole");
    desk.upload("").done();
    let named = desk.run(&format!("summary {place} --baseline {place}")).ok();
    assert_eq!(named.matches("| unchanged |").count(), 3, "{named}");
    assert_has!(named, "HOST/BUCKET/42-linux/python/simple/");
    let run = "summary --run-id 42 --bucket BUCKET --platform linux";
    let run = desk.run(&format!("{run} --baseline {place}"));
    assert_eq!(run.ok(), named);
    desk.run(&format!("summary {place} --check")).says("`--check` is for packages in a directory");
}

#[test]
#[ignore = "slow"]
fn an_uploaded_set_installs_from_its_address() {
    let desk = Desk::new();
    let server = Server::shared();
    server.publish(&desk.bucket);
    let published = desk.upload("");
    assert_has!(
        published.stderr,
        "warning: this server drops the pages of directories, such as `42-linux/python/`: \
         install with `--find-links` and the address of the `index.html` beside the packages",
        "Published 20 objects in s3://BUCKET/42-linux/python, 0 of them"
    );
    assert_snapshot!(published.ok(), @"http://HOST/BUCKET/42-linux/python/simple/");
    let base = format!("http://127.0.0.1:{}/{}", desk.port, desk.bucket);
    for page in ["dist/index.html", "simple/rocm-sdk-core/index.html"] {
        let to = desk.bench.path("downloaded");
        let page = format!("{base}/42-linux/python/{page}");
        let download = "download --no-index --pre rocm-sdk-core";
        pip(download, &["--dest", &to, "--find-links", &page]).ok();
        assert_eq!(tree(to.as_ref()), [CORE]);
        fs_err::remove_dir_all(&to).unwrap();
    }
    let head = server.client.head_object().bucket(desk.bucket.as_str());
    let head = head.key(format!("42-linux/python/dist/{CORE}"));
    let head = server.runtime.block_on(head.send()).unwrap();
    assert_eq!(head.content_type(), Some("application/zip"));
    // A later attempt of the run may replace it.
    assert_eq!(head.cache_control(), Some("no-cache"));
}

/// Gives an object other headers, as a person with another tool does.
fn put_headers(desk: &Desk, key: &str, content_type: &str, cache_control: &str) {
    let server = Server::shared();
    let copy = server.client.copy_object().bucket(desk.bucket.as_str()).key(key);
    let copy = copy
        .copy_source(format!("{}/{key}", desk.bucket))
        .metadata_directive(MetadataDirective::Replace)
        .content_type(content_type)
        .cache_control(cache_control);
    server.runtime.block_on(copy.send()).unwrap();
}

#[test]
fn headers_that_another_program_changed_are_written_again() {
    let mut desk = Desk::new();
    let dist = "42-linux/python/dist";
    let wheel = format!("{dist}/{CORE}");
    let page = "42-linux/python/simple/rocm-sdk-core/index.html";
    let index = "index --no-check --format json --no-directory-pages s3://BUCKET/42-linux/python";
    desk.upload("--no-directory-pages").done();
    let store = Server::shared().store(&desk.bucket);
    let headers = |key: &str| {
        let object = store.head(&key.parse().unwrap()).unwrap();
        let header = |header: Option<String>| header.unwrap_or_default();
        format!("{}; {}", header(object.content_type), header(object.cache_control))
    };

    put_headers(&desk, page, "application/json", "no-cache");
    put_headers(&desk, &wheel, "application/zip", "public, max-age=31536000, immutable");
    let checked = desk.run("check --no-progress s3://BUCKET/42-linux/python");
    assert_has!(
        checked.stdout,
        "simple/rocm-sdk-core/index.html\n  error   RW706 unreadable-page: installers refuse its type, \
         `application/json`: `rocwheel index` writes it again"
    );
    let plan = desk.upload("--no-directory-pages --dry-run").ok();
    assert_has!(plan, "\n0 new (0 B), 2 to replace (");
    let said = desk.upload("--no-directory-pages").done().stderr;
    // The bytes of a package are there already.
    assert_has!(said, &format!("Copied dist/{CORE}"));
    assert_eq!(headers(page), "text/html; charset=utf-8; no-cache");
    assert_eq!(headers(&wheel), "application/zip; no-cache");

    let proxy = Proxy::before(desk.port);
    desk.port = proxy.port;
    let requests = || ["HEAD", "GET", "PUT"].map(|method| proxy.count(&format!("{method} /")));
    // What this server wrote within its last second may change once more without a trace in a listing.
    let is_asked_once = |before: [usize; 3], after: [usize; 3], most: [usize; 3]| {
        let [heads, gets, puts] = [0, 1, 2].map(|method| after[method] - before[method]);
        assert!(heads <= most[0], "{heads}");
        assert_eq!([gets, puts], most[1..]);
    };
    // The pages name the server, which has another address now.
    desk.upload("--no-directory-pages").done();
    let before = requests();
    desk.upload("--no-directory-pages").done();
    let after = requests();
    // Three packages and eight pages take a request each at most, and `set.json` one more.
    is_asked_once(before, after, [12, 2, 0]);

    desk.run(index).done();
    put_headers(&desk, page, "text/html; charset=utf-8", "public, max-age=31536000, immutable");
    desk.run(index).done().says(r#""changed":1"#);
    assert_eq!(headers(page), "text/html; charset=utf-8; no-cache");
    let before = requests();
    desk.run(index).done().says(r#""changed":0"#);
    let after = requests();
    is_asked_once(before, after, [9, 3, 0]);
}

#[test]
fn a_dry_run_reads_what_is_there() {
    let desk = Desk::new();
    let begun = Instant::now();
    let blind = desk.upload_as(&[], "--dry-run");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_snapshot!(blind.stderr, @"
    error: failed to read `s3://BUCKET/42-linux/python`
      caused by: failed to list `42-linux/python/` of `s3://BUCKET`
      caused by: access denied: `s3://BUCKET/42-linux/python/`
      caused by: AccessDenied: Access Denied. (HTTP 403)

    hint: no AWS credentials were found: set `AWS_PROFILE` or `AWS_ACCESS_KEY_ID`; the pull request of a fork mostly has none, and keeps its packages with `--output-dir`
    ");
    Server::shared().publish(&desk.bucket);
    desk.put(&format!("42-linux/python/dist/{CORE}"), b"other");
    let seeing = desk.upload_as(&[], "--dry-run --no-sign-request");
    assert_has!(seeing.stdout, "refuse");
    assert_eq!(seeing.stderr, "");
    assert_eq!(desk.there().len(), 1);
}

#[test]
fn an_upload_without_credentials_says_what_is_missing() {
    let desk = Desk::new();
    Server::shared().publish(&desk.bucket);
    let without = desk.upload_as(&[], "");
    let unknown = desk.upload_as(&[("AWS_PROFILE", "nobody")], "");
    for refused in [&without, &unknown] {
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    }
    assert_snapshot!(without.stderr + &unknown.stderr, @"
    error: access denied: `s3://BUCKET`
      caused by: nothing is written without credentials, unless `--no-sign-request` asks for it

    hint: no AWS credentials were found: set `AWS_PROFILE` or `AWS_ACCESS_KEY_ID`; the pull request of a fork mostly has none, and keeps its packages with `--output-dir`
    error: failed to reach `s3://BUCKET/42-linux/python/`
      caused by: access denied: `s3://BUCKET`
      caused by: the profile `nobody` does not exist or has no credentials

    hint: name another `--profile`, sign in again, or pass `--no-sign-request`
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
    for answer in [
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nx\ny",
        // It listens, and never answers.
        "",
    ] {
        let service = metadata_service(answer);
        let variables = [
            ("AWS_EC2_METADATA_DISABLED", "false"),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.as_str()),
        ];
        let begun = Instant::now();
        let seeing = desk.upload_as(&variables, "--dry-run").done();
        assert_eq!(seeing.stderr, "", "{answer}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{answer}");
    }
}

/// One step builds, checks and uploads what `build` and `upload` do in two, and its plan names every key.
#[test]
#[ignore = "slow"]
fn a_pipeline_ends_where_upload_ends() {
    let desk = Desk::new();
    let pipeline = |more: &str| {
        let line = format!("pipeline --sample --output-dir out --to s3://BUCKET/one {more}");
        let mut command = desk.command(&KEYS, &line);
        desk.outcome(command.env("ROCWHEEL_NO_DIRECTORY_PAGES", "true"))
    };
    let plan = pipeline("--dry-run").ok();
    assert_eq!(desk.there(), []);
    pipeline("--github-output output").ok();
    assert!(!desk.bench.root.join("out/local-linux").exists());
    let there = desk.there();
    // At the same place, because pages name their address.
    desk.run("upload --packages-dir out/packages --to s3://BUCKET/one --no-directory-pages").ok();
    assert_eq!(desk.there(), there);
    let planned = plan.lines();
    let planned = planned.filter_map(|line| line.strip_prefix("write s3://BUCKET/one/"));
    let planned: BTreeSet<&str> = planned.collect();
    let keys = there.iter().filter_map(|(key, _)| key.strip_prefix("one/"));
    let keys: BTreeSet<&str> = keys.collect();
    assert_eq!(planned, keys);
    let outputs = fs_err::read_to_string(desk.bench.path("output")).unwrap();
    assert_has!(outputs, "/one/simple/");
    // The place of another run is never replaced.
    let again = pipeline("--compression 1");
    assert_eq!(again.code, 1, "{}", again.stderr);
}

/// A plan of an upload at a place whose server does not answer.
fn plan_at_closed_port(line: &str) -> Outcome {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let closed = listener.local_addr().unwrap().port();
    drop(listener);
    let desk = Desk::at("therock-ci-artifacts".parse().unwrap(), closed);
    let mut command = desk.command(&[], &format!("upload {line} --no-check --dry-run"));
    command.env("GITHUB_REPOSITORY", "ROCm/TheRock");
    desk.outcome(&mut command)
}

/// What a set would add to a place can be seen without network and without keys.
#[test]
fn a_plan_needs_neither_the_network_nor_the_bucket() {
    for (line, place) in [
        (". --to s3://BUCKET/somewhere --offline", "to s3://BUCKET/somewhere\n"),
        (
            ". --multi-target --run-id 77 --platform linux --offline",
            "to s3://BUCKET/77-linux/python\n",
        ),
    ] {
        let said = plan_at_closed_port(line).done();
        assert_has!(said.stderr, "note: assumed that `s3://BUCKET", "is empty");
        assert_has!(said.stdout, place, CORE);
    }
}

#[test]
#[ignore = "slow"]
fn a_plan_of_a_place_that_does_not_answer_says_how_to_plan_without_it() {
    let said = plan_at_closed_port(". --to s3://BUCKET/somewhere");
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert_has!(
        said.stderr,
        "hint: add `--offline`: the plan then assumes that the place is empty"
    );
}
