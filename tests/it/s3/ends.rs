//! What ends an upload.

use std::process::Stdio;

use super::{
    fault::{Fault, Proxy},
    nothing_is_unfinished,
    server::{ID, SECRET, Server},
    upload::{Desk, KEYS, UPLOAD},
};
use crate::publish::packages::wheel;
use crate::support::{noise, prelude::*};

#[test]
#[ignore = "slow"]
fn ctrl_c_ends_an_upload_and_the_next_one_completes_it() {
    let mut desk = Desk::new();
    let dist = desk.bench.root.join("dist");
    let large = dist.join("large-1.0-py3-none-any.whl");
    wheel(&dist, "large", "1.0", "");
    pad(&large, 33 << 20);
    let proxy = Proxy::before(desk.port);
    proxy.breaks("PUT", "partNumber=2", 99, Fault::Answer(503, "SlowDown"));
    desk.port = proxy.port;
    let mut command = desk.command(&KEYS, &format!("{UPLOAD} . --no-check"));
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    proxy.is_asked("partNumber=2");
    let mut kill = Command::new("kill");
    let kill = kill.args(["-INT", &running.id().to_string()]);
    assert!(kill.status().unwrap().success());
    let ended = Outcome::of(running.wait_with_output().unwrap());
    let is_told = (ended.code, ended.stdout.as_str()) == (130, "");
    assert!(is_told, "{}", ended.all());
    nothing_is_unfinished(&desk.bucket);
    let there = desk.there();
    let is_early = |key: &str| key.contains("large") || key.contains("html");
    assert!(!there.iter().any(|(key, _)| is_early(key)), "{there:?}");
    desk.port = Server::shared().port;
    desk.upload("").done();
    let sha256 = Sha256::of(&fs_err::read(&large).unwrap());
    let key = "42-linux/python/dist/large-1.0-py3-none-any.whl".to_owned();
    assert!(desk.there().contains(&(key, sha256)));
    nothing_is_unfinished(&desk.bucket);
}

/// Puts so many bytes into a wheel, before everything else.
pub(super) fn pad(wheel: &Path, len: usize) {
    let mut members = unzip(&fs_err::read(wheel).unwrap());
    members.insert(0, ("payload.bin".to_owned(), 0o644, noise(1, len)));
    fs_err::write(wheel, zipped(&members)).unwrap();
}

#[test]
fn credentials_that_expire_are_an_error_and_uploaded_files_stay() {
    let mut desk = Desk::new();
    let proxy = Proxy::before(desk.port);
    let expired = Fault::Answer(400, "ExpiredToken");
    // The first answer is taken for credentials that can be renewed.
    proxy.breaks("PUT", "rocm_sdk_libraries", 2, expired);
    desk.port = proxy.port;
    let expired = desk.upload("");
    assert_eq!(expired.code, 2);
    let hint = expired.stderr.lines().last().unwrap();
    insta::assert_snapshot!(hint, @"hint: the credentials have expired: get new ones, and run the same again; uploaded files stay");
    // Each of the other two packages with its sidecar.
    assert_eq!(desk.there().len(), 4);
    desk.upload("").done();
}

#[test]
#[ignore = "slow"]
fn every_attempt_is_signed_with_the_keys_of_that_moment() {
    let mut desk = Desk::new();
    let proxy = Proxy::before(desk.port);
    desk.port = proxy.port;
    // The provider of keys says that they are valid no longer, and is asked again each time.
    let keys = format!(
        r#"{{"Version": 1, "AccessKeyId": "{ID}", "SecretAccessKey": "{SECRET}",
        "Expiration": "2020-01-01T00:00:00Z"}}"#
    );
    let script = "cd \"$HOME\"; echo >>count; cat keys.json\n";
    let config = "[profile me]\ncredential_process = sh -c '. \"$HOME/keys.sh\"'\n";
    fs_err::create_dir(desk.bench.path("home/.aws")).unwrap();
    for (name, text) in [("keys.json", keys.as_str()), ("keys.sh", script), (".aws/config", config)]
    {
        fs_err::write(desk.bench.root.join("home").join(name), text).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let me = [("AWS_PROFILE", "me"), ("PATH", path.as_str())];
    proxy.breaks("PUT", "rocm_sdk_core", 2, Fault::Answer(503, "SlowDown"));
    desk.upload_as(&me, "").done();
    let count = fs_err::read_to_string(desk.bench.path("home/count")).unwrap();
    let (asked, signed) = (count.lines().count(), proxy.count("AWS4"));
    // Requests that are signed at one time share an answer.
    assert!(asked > signed / 4, "{asked} times for {signed} requests");
}

#[test]
fn what_a_program_for_credentials_complains_about_is_not_shown() {
    let desk = Desk::new();
    let config = "[profile me]\ncredential_process = sh -c 'echo hush >&2; exit 3'\n";
    fs_err::create_dir(desk.bench.path("home/.aws")).unwrap();
    fs_err::write(desk.bench.path("home/.aws/config"), config).unwrap();
    let path = std::env::var("PATH").unwrap();
    let said = desk.upload_as(&[("AWS_PROFILE", "me"), ("PATH", &path)], "");
    assert_eq!(said.code, 2);
    let all = said.all();
    assert_has!(all, "external process exited");
    assert_lacks!(all, "hush");
}
