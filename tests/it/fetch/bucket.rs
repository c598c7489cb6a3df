//! `fetch` from a real server, and through a proxy that breaks chosen answers.

use std::{process::Stdio, thread};

use rocwheel_base::{error::Stop, parallel};
use rocwheel_store::location::Bucket;

use super::{
    Fixture, count, refusal,
    tree::{Tree, difference, seen},
};
use crate::s3::{
    fault::{Fault, Proxy},
    server::{ID, SECRET, Server},
};
use crate::support::memory;
use crate::support::prelude::*;

/// A bucket with the sample as run 7, behind a proxy, and a directory to fetch to.
pub(super) struct Remote {
    bucket: Bucket,
    pub(super) proxy: Proxy,
    t: Sandbox,
}

fn put(bucket: &Bucket, name: &str, bytes: &[u8]) {
    let (store, key) = (Server::shared().store(bucket), format!("7-linux/{name}"));
    memory::put(&store, &key, "application/zstd", bytes);
}

/// A bucket that no test changes.
pub(super) fn shared() -> &'static Bucket {
    static BUCKET: OnceLock<Bucket> = OnceLock::new();
    BUCKET.get_or_init(|| filled(sample(), true))
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
    files.push(("logs/ccache_logs.tar.zst".into(), b"no artifact".into()));
    let many = NonZeroUsize::new(8).unwrap();
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
    TREE.get_or_init(|| fetched(sample()))
}

fn fetched(set: &TestSet) -> Tree {
    let fixture = Fixture::of(set);
    fixture.fetch("--run-id 7").done();
    seen(&fixture.out())
}

impl Remote {
    pub(super) fn new(bucket: &Bucket) -> Self {
        Self::of(bucket, Server::shared().port)
    }

    /// Of another server.
    pub(super) fn of(bucket: &Bucket, port: u16) -> Self {
        let t = Sandbox::new()
            .shows(bucket.as_str(), "BUCKET")
            .with("AWS_EC2_METADATA_DISABLED", "true")
            // Nothing of this depends on GitHub, so no test is to reach it.
            .with("GITHUB_API_URL", "http://127.0.0.1:1");
        Self { bucket: bucket.clone(), proxy: Proxy::before(port), t }
    }

    pub(super) fn out(&self) -> PathBuf {
        self.t.path("out")
    }

    fn command(&self, arguments: &str) -> Command {
        let (bucket, port) = (&self.bucket, self.proxy.port);
        self.t.command(&format!(
            "fetch --run-id 7 --platform linux --output-dir out --bucket {bucket} \
             --endpoint-url http://127.0.0.1:{port} {arguments}"
        ))
    }

    /// With the owner's credentials.
    pub(super) fn signed(&self, arguments: &str) -> Command {
        self.keyed(ID, SECRET, arguments)
    }

    fn keyed(&self, id: &str, secret: &str, arguments: &str) -> Command {
        let mut command = self.command(arguments);
        command.env("AWS_ACCESS_KEY_ID", id);
        command.env("AWS_SECRET_ACCESS_KEY", secret);
        command
    }

    pub(super) fn fetch(&self, arguments: &str) -> Outcome {
        self.t.outcome(&mut self.signed(arguments))
    }

    fn anonymous(&self, arguments: &str) -> Outcome {
        self.t.outcome(&mut self.command(arguments))
    }

    fn is_whole(&self) {
        assert_eq!(difference(&seen(&self.out()), expected()), [""; 0]);
    }
}

#[test]
#[ignore = "slow"]
fn a_run_is_fetched_from_a_real_server_and_then_kept() {
    for set in sets() {
        let count = set.archives().len();
        let remote = Remote::new(&filled(set, true));
        let said = remote.fetch("--region us-west-1");
        said.done().says(&format!("{count} archives of"));
        assert_eq!(difference(&seen(&remote.out()), &fetched(set)), [""; 0]);
        assert!(remote.proxy.count("/us-west-1/") > count);
        let gets = remote.proxy.count(".tar.");
        remote.fetch("").says(&format!("; {count} there already"));
        // Nothing but the digests was asked for.
        assert_eq!(remote.proxy.count(".tar.") - gets, count);
    }
}

#[test]
#[ignore = "slow"]
fn a_public_bucket_is_read_without_any_credentials() {
    let bucket = filled(sample(), false);
    Server::shared().publish(&bucket);
    for arguments in ["", "--no-sign-request"] {
        let remote = Remote::new(&bucket);
        let said = remote.anonymous(arguments).done();
        // Nothing lies beside the archives, but the bucket has a SHA-256 of each.
        assert_lacks!(said.stderr, "no digest", "checksum");
        assert_eq!(remote.proxy.count("AWS4"), 0);
        remote.is_whole();
        remote.anonymous("").says("; 37 there already");
    }
    let remote = Remote::new(&bucket);
    remote.anonymous("blas_lib_gfx942").done();
    let mut bytes = archive("blas_lib_gfx942");
    *bytes.last_mut().unwrap() ^= 1;
    put(&bucket, "blas_lib_gfx942.tar.zst", &bytes);
    let said = remote.anonymous("blas_lib_gfx942 --dry-run");
    assert!(said.stdout.starts_with("renew"), "{}", said.stdout);
}

/// The bytes of an archive of the sample.
fn archive(stem: &str) -> Vec<u8> {
    let mut archives = sample().archives().into_iter();
    let found = archives.find(|(name, _)| name.split('.').next() == Some(stem));
    found.unwrap().1
}

#[test]
#[ignore = "slow"]
fn credentials_are_those_of_the_profile() {
    let remote = Remote::new(shared());
    let text = format!(
        "[default]\naws_access_key_id = nobody\naws_secret_access_key = nothing\n\
         [ci]\naws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n"
    );
    let file = remote.t.write("credentials", text);
    let with = |mut command: Command| {
        command.env("AWS_SHARED_CREDENTIALS_FILE", &file);
        remote.t.outcome(&mut command)
    };
    let beside_keys = |id: &str, secret: &str, variable: &str, arguments: &str| {
        let mut command = remote.keyed(id, secret, &format!("hip_lib --dry-run {arguments}"));
        command.env("AWS_PROFILE", variable);
        with(command)
    };
    // A flag beats all variables; of two variables the keys come first.
    beside_keys("nobody", "nothing", "default", "--profile ci").done();
    beside_keys("nobody", "nothing", "ci", "--profile ci").done();
    beside_keys(ID, SECRET, "default", "").done();
    with(remote.command("base_lib --profile ci")).done();
    let foreign = refusal(&with(remote.command("base_lib")));
    assert_has!(foreign, "access denied");
    assert_lacks!(foreign, SECRET);
    let gone = beside_keys(ID, SECRET, "ci", "--profile gone");
    let unsigned = with(remote.command("base_lib --no-sign-request"));
    let skewed = Fault::Answer(403, "RequestTimeTooSkewed");
    remote.proxy.breaks("GET", "list-type", 99, skewed);
    let said = [gone, unsigned, remote.fetch("")].map(|it| refusal(&it));
    insta::assert_snapshot!(said.concat(), @"
    2: access denied: `s3://BUCKET` | caused by: the profile `gone` does not exist or has no credentials | hint: name another `--profile`, sign in again, or pass `--no-sign-request`
    2: access denied: `s3://BUCKET/7-linux/` | caused by: AccessDenied: Access Denied. (HTTP 403) | hint: leave `--no-sign-request` out
    2: access denied: `s3://BUCKET/7-linux/` | caused by: RequestTimeTooSkewed: as told (HTTP 403) | hint: set the clock of this machine
    ");
}

#[test]
#[ignore = "slow"]
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
    remote.fetch("").done();
    remote.is_whole();
    // A storm of refusals is sat out.
    let remote = Remote::new(shared());
    for (times, status, code) in [(12, 503, "SlowDown"), (6, 500, "InternalError")] {
        let fault = Fault::Answer(status, code);
        remote.proxy.breaks("GET", ".tar.", times, fault);
    }
    remote.fetch("").done();
    remote.is_whole();
}

#[test]
#[ignore = "slow"]
fn wrong_bytes_are_an_error_and_the_next_fetch_repairs_them() {
    let remote = Remote::new(shared());
    for (archive, fault) in [
        ("blas_lib_gfx942", Fault::Flip),
        ("blas_lib_gfx1100", Fault::Answer(400, "ExpiredToken")),
        ("host-blas_lib_generic", Fault::Answer(403, "AccessDenied")),
        ("blas_doc_generic", Fault::Answer(404, "NoSuchKey")),
    ] {
        let part = format!("/{archive}.tar.zst?");
        remote.proxy.breaks("GET", &part, 99, fault);
    }
    insta::assert_snapshot!(refusal(&remote.fetch("")), @"1: 4 of 37 archives not fetched | failed to fetch `blas_doc_generic.tar.zst`: no such object: `s3://BUCKET/7-linux/blas_doc_generic.tar.zst` | failed to fetch `blas_lib_gfx1100.tar.zst`: access denied: `s3://BUCKET/7-linux/blas_lib_gfx1100.tar.zst`: ExpiredToken: as told (HTTP 400) | failed to fetch `blas_lib_gfx942.tar.zst`: failed to unpack `blas_lib_gfx942.tar.zst`: failed to unpack `math-libs/BLAS/rocBLAS/stage/lib/rocblas/library/TensileLibrary_gfx942.co`: the zstd data is damaged: Restored data doesn't match checksum | failed to fetch `host-blas_lib_generic.tar.zst`: access denied: `s3://BUCKET/7-linux/host-blas_lib_generic.tar.zst`: AccessDenied: as told (HTTP 403) | hint: the credentials have expired: get new ones, and run the same again; uploaded files stay | hint: run it again: what is whole is kept | hint: download the archive again; if that does not help, rebuild it in its run | hint: choose other credentials with `--profile`; a public bucket is read with `--no-sign-request`");
    let healthy = Remote { proxy: Proxy::before(Server::shared().port), ..remote };
    assert_eq!(count(&healthy.fetch("").done()), 4);
    healthy.is_whole();
}

#[test]
fn an_archive_that_is_replaced_while_it_is_read_is_never_mixed() {
    let bucket = filled(sample(), false);
    let (remote, new) = (Remote::new(&bucket), archive("blas_lib_gfx1100"));
    // The archive itself, and not the question for its digest.
    let part = "/blas_lib_gfx942.tar.zst?";
    remote.proxy.breaks("GET", part, 1, Fault::Cut(200));
    let waiting = thread::scope(|scope| {
        scope.spawn(|| {
            remote.proxy.is_asked(part);
            // It was answered in part; the rest is asked for after a pause.
            thread::sleep(Duration::from_millis(200));
            put(&bucket, "blas_lib_gfx942.tar.zst", &new);
        });
        remote.fetch("^blas_lib_gfx942.tar")
    });
    let said = refusal(&waiting);
    assert!(said.starts_with("1: "), "{said}");
    assert_has!(said, "the object was replaced while it was read");
    assert!(seen(&remote.out()).is_empty());
    remote.fetch("^blas_lib_gfx942.tar").done();
}

#[test]
#[ignore = "slow"]
fn a_directory_is_fetched_to_by_one_at_a_time() {
    let remote = Remote::new(shared());
    // The archive, and not the file with its digest.
    let part = "/rocgdb_run_generic.tar.zst?";
    remote.proxy.breaks("GET", part, 1, Fault::Stall(10));
    let mut first = remote.signed("rocgdb_run");
    let mut first = first.stderr(Stdio::null()).spawn().unwrap();
    remote.proxy.is_asked(part);
    for way in ["", "--no-extract", "--flatten"] {
        let said = refusal(&remote.fetch(&format!("{way} blas")));
        let running = "2: another fetch is running in `out` | hint: wait until it has ended, or choose another `--output-dir`\n";
        assert_eq!(said, running);
    }
    remote.fetch("--dry-run blas").done();
    // A killed fetch clears nothing away, and what it leaves stops no other fetch.
    first.kill().unwrap();
    first.wait().unwrap();
    let lock = remote.out().join(".rocwheel-fetch.lock");
    assert!(lock.exists());
    remote.fetch("").done();
    assert!(!lock.exists());
    remote.is_whole();
}
