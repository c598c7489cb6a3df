//! `fetch` from a real server, and through a proxy that breaks chosen answers.

use std::{
    path::PathBuf,
    process::Command,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use fs_err as fs;
use rocwheel::{
    artifact::sample,
    digest::Sha256,
    error::Stop,
    location::Bucket,
    parallel,
    store::{Condition, PutOptions, Store as _},
};
use tempfile::TempDir;

use super::{
    Fixture, Said,
    tree::{Tree, difference, seen},
};
use crate::s3::{
    fault::{Fault, Proxy},
    server::{ID, SECRET, Server},
};
use crate::support::{
    program::ROCWHEEL,
    published::{self, TestSet, sets},
};

/// A bucket with the sample as run 7, behind a proxy, and a directory to fetch to.
pub(super) struct Remote {
    bucket: Bucket,
    pub(super) proxy: Proxy,
    directory: TempDir,
}

fn put(bucket: &Bucket, name: &str, bytes: &[u8]) {
    let options = PutOptions {
        content_type: "application/zstd".to_owned(),
        cache_control: None,
        condition: Condition::Always,
        sha256: None,
    };
    let key = format!("7-linux/{name}").parse().unwrap();
    let store = Server::shared().store(bucket);
    store.put(&key, &bytes, &options).unwrap();
}

/// A bucket that no test changes.
pub(super) fn shared() -> &'static Bucket {
    static BUCKET: OnceLock<Bucket> = OnceLock::new();
    BUCKET.get_or_init(|| filled(published::sample(), true))
}

fn filled(set: &TestSet, with_sidecars: bool) -> Bucket {
    let bucket = Server::shared().bucket();
    let mut files = Vec::new();
    for (name, bytes) in set.archives() {
        let sidecar = format!("{}  {name}\n", Sha256::of(&bytes)).into_bytes();
        if with_sidecars {
            files.push((format!("{name}.sha256sum"), sidecar));
        }
        files.push((name, bytes));
    }
    files.push((
        "logs/ccache_logs.tar.zst".to_owned(),
        b"no artifact".to_vec(),
    ));
    let many = std::num::NonZeroUsize::new(8).unwrap();
    let work = |(name, bytes): &(String, Vec<u8>)| {
        put(&bucket, name, bytes);
        Ok(())
    };
    parallel::try_each(&files, many, &Stop::default(), work, |_, ()| ()).unwrap();
    bucket
}

/// What a directory gives for the same archives.
fn expected() -> &'static Tree {
    static TREE: OnceLock<Tree> = OnceLock::new();
    TREE.get_or_init(|| fetched(published::sample()))
}

fn fetched(set: &TestSet) -> Tree {
    let fixture = Fixture::of(set);
    assert_eq!(fixture.fetch("--run-id 7").code, 0);
    seen(&fixture.out())
}

impl Remote {
    pub(super) fn new(bucket: &Bucket) -> Self {
        Self::of(bucket, Server::shared().port)
    }

    /// Of another server.
    pub(super) fn of(bucket: &Bucket, port: u16) -> Self {
        Self {
            bucket: bucket.clone(),
            proxy: Proxy::before(port),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(ROCWHEEL);
        command
            .env_clear()
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // Nothing of this depends on GitHub, so no test is to reach it.
            .env("GITHUB_API_URL", "http://127.0.0.1:1")
            .args(["fetch", "--run-id", "7", "--platform", "linux", "--bucket"])
            .arg(self.bucket.as_str())
            .arg("--endpoint-url")
            .arg(format!("http://127.0.0.1:{}", self.proxy.port))
            .arg("--output-dir")
            .arg(self.out());
        command
    }

    /// With the owner's credentials.
    pub(super) fn signed(&self) -> Command {
        let mut command = self.command();
        command
            .env("AWS_ACCESS_KEY_ID", ID)
            .env("AWS_SECRET_ACCESS_KEY", SECRET);
        command
    }

    pub(super) fn fetch(&self, arguments: &str) -> Said {
        self.said(self.signed().args(arguments.split_whitespace()))
    }

    fn said(&self, command: &mut Command) -> Said {
        let output = command.output().unwrap();
        let text = |bytes| {
            let text = String::from_utf8(bytes).unwrap();
            text.replace(self.bucket.as_str(), "BUCKET")
                .replace(self.out().to_str().unwrap(), "OUT")
        };
        Said {
            code: output.status.code().unwrap(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    fn is_whole(&self) {
        assert_eq!(difference(&seen(&self.out()), expected()), [""; 0]);
    }
}

#[test]
fn a_run_is_fetched_from_a_real_server_and_then_kept() {
    for set in sets() {
        let count = set.archives().len();
        let remote = Remote::new(&filled(set, true));
        let said = remote.fetch("--region us-west-1 --addressing-style path");
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert_eq!(difference(&seen(&remote.out()), &fetched(set)), [""; 0]);
        let all = format!("{count} archives of");
        assert!(said.stdout.contains(&all), "{}", said.stdout);
        assert!(remote.proxy.count("/us-west-1/") > count);
        let gets = remote.proxy.count(".tar.");
        let again = remote.fetch("");
        let all = format!("; {count} there already");
        assert!(again.stdout.contains(&all), "{}", again.stdout);
        // Nothing but the digests was asked for.
        assert_eq!(remote.proxy.count(".tar.") - gets, count);
    }
}

#[test]
fn a_public_bucket_is_read_without_any_credentials() {
    let bucket = filled(published::sample(), false);
    Server::shared().publish(&bucket);
    for arguments in ["", "--no-sign-request"] {
        let remote = Remote::new(&bucket);
        let said = remote.said(remote.command().args(arguments.split_whitespace()));
        assert_eq!(said.code, 0, "{}", said.stderr);
        // Nothing lies beside the archives, but the bucket has a SHA-256 of each.
        assert!(!said.stderr.contains("no digest"), "{}", said.stderr);
        assert!(!said.stderr.contains("checksum"), "{}", said.stderr);
        assert_eq!(remote.proxy.count("AWS4"), 0);
        remote.is_whole();
        let again = remote.said(&mut remote.command());
        assert!(
            again.stdout.contains("; 37 there already"),
            "{}",
            again.stdout
        );
    }
    let remote = Remote::new(&bucket);
    assert_eq!(remote.said(remote.command().arg("blas_lib_gfx942")).code, 0);
    let other = sample::archives()
        .unwrap()
        .into_iter()
        .find(|it| it.file_name.starts_with("blas_lib_gfx942."))
        .unwrap();
    let mut bytes = other.bytes;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    put(&bucket, "blas_lib_gfx942.tar.zst", &bytes);
    let said = remote.said(remote.command().args(["blas_lib_gfx942", "--dry-run"]));
    assert!(said.stdout.starts_with("renew"), "{}", said.stdout);
}

#[test]
fn credentials_are_those_of_the_profile() {
    let remote = Remote::new(shared());
    let file = remote.directory.path().join("credentials");
    let text = format!(
        "[default]\naws_access_key_id = nobody\naws_secret_access_key = nothing\n\
         [ci]\naws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n"
    );
    fs::write(&file, text).unwrap();
    let with = |arguments: &[&str]| {
        let mut command = remote.command();
        command.env("AWS_SHARED_CREDENTIALS_FILE", &file);
        remote.said(command.arg("base_lib").args(arguments))
    };
    let beside_keys = |id: &str, secret: &str, variable: &str, arguments: &[&str]| {
        let mut command = remote.command();
        command.env("AWS_SHARED_CREDENTIALS_FILE", &file);
        command.env("AWS_ACCESS_KEY_ID", id);
        command.env("AWS_SECRET_ACCESS_KEY", secret);
        command.env("AWS_PROFILE", variable);
        remote.said(command.arg("hip_lib").arg("--dry-run").args(arguments))
    };
    // A flag beats all variables; of two variables the keys come first.
    let said = beside_keys("nobody", "nothing", "default", &["--profile", "ci"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = beside_keys("nobody", "nothing", "ci", &["--profile", "ci"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = beside_keys(ID, SECRET, "default", &[]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = beside_keys(ID, SECRET, "ci", &["--profile", "gone"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.stderr, @"
    error: access denied: `s3://BUCKET`
      caused by: the profile `gone` does not exist or has no credentials

    hint: name another `--profile`, sign in again, or pass `--no-sign-request`
    ");
    let said = with(&["--profile", "ci"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = with(&[]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(
        said.stderr.contains("error: access denied"),
        "{}",
        said.stderr
    );
    assert!(!said.stderr.contains(SECRET));
    let said = with(&["--no-sign-request"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.stderr, @"
    error: access denied: `s3://BUCKET/7-linux/`
      caused by: AccessDenied: Access Denied. (HTTP 403)

    hint: leave `--no-sign-request` out
    ");
}

#[test]
fn what_breaks_on_the_way_is_borne() {
    let remote = Remote::new(shared());
    let faults: [(&str, usize, Fault); 8] = [
        ("/blas_lib_gfx942.tar.zst", 1, Fault::Cut(100)),
        ("/blas_lib_gfx1100.tar.zst", 1, Fault::Tear(50)),
        ("/blas_lib_generic.tar.zst", 1, Fault::Tear(0)),
        ("/rand_lib_generic", 2, Fault::Answer(503, "SlowDown")),
        ("/rand_lib_gfx942", 1, Fault::Answer(500, "InternalError")),
        ("/fft_lib_generic", 1, Fault::Busy(429, "1")),
        ("/base_lib_generic", 1, Fault::Lose),
        ("list-type", 1, Fault::Answer(503, "SlowDown")),
    ];
    for (part, times, fault) in faults {
        remote.proxy.breaks("GET", part, times, fault);
    }
    let said = remote.fetch("");
    assert_eq!(said.code, 0, "{}", said.stderr);
    remote.is_whole();
}

#[test]
fn a_storm_of_refusals_is_sat_out() {
    let remote = Remote::new(shared());
    remote
        .proxy
        .breaks("GET", ".tar.", 12, Fault::Answer(503, "SlowDown"));
    remote
        .proxy
        .breaks("GET", ".tar.", 6, Fault::Answer(500, "InternalError"));
    let said = remote.fetch("");
    assert_eq!(said.code, 0, "{}", said.stderr);
    remote.is_whole();
}

#[test]
fn wrong_bytes_are_an_error_and_the_next_fetch_repairs_them() {
    let remote = Remote::new(shared());
    let faults: [(&str, Fault); 4] = [
        ("/blas_lib_gfx942.tar.zst?", Fault::Flip),
        (
            "/blas_lib_gfx1100.tar.zst?",
            Fault::Answer(400, "ExpiredToken"),
        ),
        (
            "/host-blas_lib_generic.tar.zst?",
            Fault::Answer(403, "AccessDenied"),
        ),
        (
            "/blas_doc_generic.tar.zst?",
            Fault::Answer(404, "NoSuchKey"),
        ),
    ];
    for (part, fault) in faults {
        remote.proxy.breaks("GET", part, 99, fault);
    }
    let said = remote.fetch("");
    assert_eq!(said.code, 1, "{}", said.stderr);
    let error = said.stderr.split_once("error: ").unwrap().1;
    let digests = regex::Regex::new("[0-9a-f]{64}").unwrap();
    insta::assert_snapshot!(digests.replace_all(error, "SHA"), @"
    4 of 37 archives not fetched
      failed to fetch `blas_doc_generic.tar.zst`: no such object: `s3://BUCKET/7-linux/blas_doc_generic.tar.zst`
      failed to fetch `blas_lib_gfx1100.tar.zst`: access denied: `s3://BUCKET/7-linux/blas_lib_gfx1100.tar.zst`: ExpiredToken: as told (HTTP 400)
      failed to fetch `blas_lib_gfx942.tar.zst`: failed to unpack `blas_lib_gfx942.tar.zst`: the zstd data is damaged: Restored data doesn't match checksum
      failed to fetch `host-blas_lib_generic.tar.zst`: access denied: `s3://BUCKET/7-linux/host-blas_lib_generic.tar.zst`: AccessDenied: as told (HTTP 403)

    hint: the credentials have expired: get new ones, and run the same again; uploaded files stay

    hint: run it again: what is whole is kept

    hint: download the archive again; if that does not help, rebuild it in its run

    hint: choose other credentials with `--profile`; a public bucket is read with `--no-sign-request`
    ");
    let healthy = Remote {
        proxy: Proxy::before(Server::shared().port),
        ..remote
    };
    let said = healthy.fetch("");
    assert_eq!(said.stderr.matches("Fetched").count(), 4, "{}", said.stderr);
    healthy.is_whole();
}

#[test]
fn a_wrong_clock_is_reported() {
    let remote = Remote::new(shared());
    let skewed = Fault::Answer(403, "RequestTimeTooSkewed");
    remote.proxy.breaks("GET", "list-type", 99, skewed);
    let said = remote.fetch("");
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.stderr, @"
    error: access denied: `s3://BUCKET/7-linux/`
      caused by: RequestTimeTooSkewed: as told (HTTP 403)

    hint: set the clock of this machine
    ");
}

#[test]
fn an_archive_that_is_replaced_while_it_is_read_is_never_mixed() {
    let bucket = filled(published::sample(), false);
    let remote = Remote::new(&bucket);
    let archives = sample::archives().unwrap();
    let of = |stem: &str| {
        let archive = archives
            .iter()
            .find(|it| it.file_name.split('.').next() == Some(stem))
            .unwrap();
        archive.bytes.as_slice()
    };
    let new = of("blas_lib_gfx1100");
    remote
        .proxy
        .breaks("GET", "/blas_lib_gfx942.tar.zst", 1, Fault::Cut(200));
    let waiting = thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            while remote.proxy.count("/blas_lib_gfx942.tar.zst") == 0 {
                assert!(begun.elapsed() < Duration::from_mins(1));
                thread::yield_now();
            }
            // It was answered in part; the rest is asked for after a pause.
            thread::sleep(Duration::from_millis(200));
            put(&bucket, "blas_lib_gfx942.tar.zst", new);
        });
        remote.fetch("^blas_lib_gfx942.tar")
    });
    assert_eq!(waiting.code, 1, "{}", waiting.stderr);
    assert!(
        waiting
            .stderr
            .contains("the object was replaced while it was read"),
        "{}",
        waiting.stderr
    );
    assert!(seen(&remote.out()).is_empty());
    let said = remote.fetch("^blas_lib_gfx942.tar");
    assert_eq!(said.code, 0, "{}", said.stderr);
}

#[test]
fn a_directory_is_fetched_to_by_one_at_a_time() {
    let remote = Remote::new(shared());
    // The archive, and not the file with its digest.
    let part = "/rocgdb_run_generic.tar.zst?";
    remote.proxy.breaks("GET", part, 1, Fault::Stall(10));
    let owner = |command: &mut Command| {
        command
            .env("AWS_ACCESS_KEY_ID", ID)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .arg("rocgdb_run")
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut first = owner(&mut remote.command());
    let begun = Instant::now();
    while remote.proxy.count(part) == 0 {
        assert!(begun.elapsed() < Duration::from_mins(1));
        thread::yield_now();
    }
    for arguments in ["blas", "--no-extract blas", "--flatten blas"] {
        let second = remote.fetch(arguments);
        assert_eq!(second.code, 2, "{arguments}: {}", second.stderr);
        let error = second.stderr.split_once("error: ").unwrap().1;
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"
            another fetch is running in `OUT`

            hint: wait until it has ended, or choose another `--output-dir`
            ");
        }
    }
    let looked = remote.fetch("--dry-run blas");
    assert_eq!(looked.code, 0, "{}", looked.stderr);
    // A killed fetch clears nothing away, and what it leaves stops no other fetch.
    first.kill().unwrap();
    first.wait().unwrap();
    let lock = remote.out().join(".rocwheel-fetch.lock");
    assert!(lock.exists());
    let next = remote.fetch("");
    assert_eq!(next.code, 0, "{}", next.stderr);
    assert!(!lock.exists());
    remote.is_whole();
}

#[test]
fn slow_downloads_are_an_error_and_the_next_fetch_does_the_rest() {
    let remote = Remote::new(shared());
    let part = "/rocgdb_run_generic.tar.zst?";
    remote.proxy.breaks("GET", part, 1, Fault::Stall(10));
    let said = remote.fetch("--download-timeout 3s");
    assert_eq!(said.code, 1, "{}", said.stderr);
    insta::assert_snapshot!(said.stderr.split_once("error: ").unwrap().1, @"
    not everything was fetched in 3.0 s

    hint: run it again: what is whole is kept; or allow more with `--download-timeout`
    ");
    let left = super::tree::tree(&remote.out());
    assert!(left.keys().all(|path| !path.contains(".part")), "{left:?}");
    let said = remote.fetch("--download-timeout 1h");
    assert_eq!(said.code, 0, "{}", said.stderr);
    remote.is_whole();
}
