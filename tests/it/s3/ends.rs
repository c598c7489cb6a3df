//! What ends an upload.

use std::{
    io::{self, Write as _},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rocwheel::digest::Sha256;
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::{
    bytes,
    fault::{Fault, Proxy},
    server::{ID, SECRET, Server},
    upload::{Desk, KEYS},
};
use crate::{publish::packages::wheel, support::program::Outcome};

#[test]
#[ignore = "slow"]
fn ctrl_c_ends_an_upload_and_the_next_one_completes_it() {
    let mut desk = Desk::new();
    let dist = desk.bench.root.join("dist");
    let large = dist.join("large-1.0-py3-none-any.whl");
    wheel(&dist, "large", "1.0", "");
    pad(&large, 33 << 20);
    let (server, proxy) = (Server::shared(), Proxy::before(desk.port));
    proxy.breaks("PUT", "partNumber=2", 99, Fault::Answer(503, "SlowDown"));
    desk.port = proxy.port;
    let mut command = desk.command(&KEYS);
    let running = command
        .args([
            "upload",
            "--multi-target",
            "--no-check",
            "--platform",
            "linux",
        ])
        .args(["--run-id", "42", "--bucket", desk.bucket.as_str()])
        .args(["--packages-dir", &desk.bench.path("")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while proxy.count("partNumber=2") == 0 {
        assert!(begun.elapsed() < Duration::from_mins(1));
        thread::sleep(Duration::from_millis(20));
    }
    let mut kill = Command::new("kill");
    let kill = kill.args(["-INT", &running.id().to_string()]);
    assert!(kill.status().unwrap().success());
    let ended = Outcome::of(running.wait_with_output().unwrap());
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (130, ""),
        "{}",
        ended.stderr
    );
    assert_eq!(server.unfinished(&desk.bucket), [""; 0]);
    let there = desk.there();
    let is_early = |key: &str| key.contains("large") || key.contains("html");
    assert!(!there.iter().any(|(key, _)| is_early(key)), "{there:?}");
    desk.port = server.port;
    desk.signed(&[]).ok();
    let sha256 = Sha256::of(&fs_err::read(&large).unwrap());
    let key = "42-linux/python/dist/large-1.0-py3-none-any.whl".to_owned();
    assert!(desk.there().contains(&(key, sha256)));
    assert_eq!(server.unfinished(&desk.bucket), [""; 0]);
}

/// Puts so many bytes into a wheel, before everything else.
pub(super) fn pad(wheel: &Path, len: usize) {
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut writer = ZipWriter::new(io::Cursor::new(Vec::new()));
    writer.start_file("payload.bin", stored).unwrap();
    writer.write_all(&bytes(len)).unwrap();
    let before = fs_err::read(wheel).unwrap();
    let mut archive = ZipArchive::new(io::Cursor::new(before)).unwrap();
    for at in 0..archive.len() {
        let mut file = archive.by_index(at).unwrap();
        let name = file.name().unwrap().to_string();
        writer.start_file(name, stored).unwrap();
        io::copy(&mut file, &mut writer).unwrap();
    }
    fs_err::write(wheel, writer.finish().unwrap().into_inner()).unwrap();
}

#[test]
fn credentials_that_expire_are_an_error_and_uploaded_files_stay() {
    let mut desk = Desk::new();
    let proxy = Proxy::before(desk.port);
    let expired = Fault::Answer(400, "ExpiredToken");
    // The first answer is taken for credentials that can be renewed.
    proxy.breaks("PUT", "rocm_sdk_libraries", 2, expired);
    desk.port = proxy.port;
    let expired = desk.signed(&[]);
    assert_eq!(expired.code, 2);
    let hint = expired.stderr.lines().last().unwrap();
    insta::assert_snapshot!(hint, @"hint: the credentials have expired: get new ones, and run the same again; uploaded files stay");
    assert_eq!(desk.there().len(), 2);
    desk.signed(&[]).ok();
}

#[test]
#[ignore = "slow"]
fn every_attempt_is_signed_with_the_keys_of_that_moment() {
    let mut desk = Desk::new();
    let (proxy, count) = (Proxy::before(desk.port), desk.bench.path("home/count"));
    desk.port = proxy.port;
    // The provider of keys says that they are valid no longer, and is asked again each time.
    let keys = format!(
        r#"{{"Version": 1, "AccessKeyId": "{ID}", "SecretAccessKey": "{SECRET}",
        "Expiration": "2020-01-01T00:00:00Z"}}"#
    );
    fs_err::write(desk.bench.path("home/keys.json"), keys).unwrap();
    let script = "cd \"$HOME\"; echo >>count; cat keys.json\n";
    fs_err::create_dir(desk.bench.path("home/.aws")).unwrap();
    fs_err::write(desk.bench.path("home/keys.sh"), script).unwrap();
    let config = "[profile me]\ncredential_process = sh -c '. \"$HOME/keys.sh\"'\n";
    fs_err::write(desk.bench.path("home/.aws/config"), config).unwrap();
    let path = std::env::var("PATH").unwrap();
    let me = [("AWS_PROFILE", "me"), ("PATH", path.as_str())];
    proxy.breaks("PUT", "rocm_sdk_core", 2, Fault::Answer(503, "SlowDown"));
    desk.upload(&me, &[]).ok();
    let asked = fs_err::read_to_string(&count).unwrap().lines().count();
    let signed = proxy.count("AWS4");
    // Requests that are signed at one time share an answer.
    assert!(
        asked > signed / 4,
        "{asked} times asked for keys, {signed} requests signed"
    );
}
