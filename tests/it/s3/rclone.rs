//! rclone's server: it takes no keys that end in `/`, no conditions, and no uploads in parts.

use std::{
    net::{Ipv4Addr, TcpStream},
    process::{Child, Stdio},
    thread,
    time::Instant,
};

use super::{
    ends::pad,
    server::{ID, SECRET, free_ports},
    upload::Desk,
};
use crate::support::prelude::*;

/// The server ends with the test.
struct Rclone(Child);

impl Drop for Rclone {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn rclone() -> (Rclone, Desk) {
    let [port, ..] = free_ports();
    let desk = Desk::at("bucket".parse().unwrap(), port);
    let root = desk.bench.root.join("served");
    fs_err::create_dir_all(root.join("bucket")).unwrap();
    let server = Command::new(tool("rclone"))
        .env_clear()
        .env("HOME", desk.bench.path("home"))
        .args(["serve", "s3", "--auth-key", &format!("{ID},{SECRET}")])
        .args(["--addr", &format!("127.0.0.1:{port}")])
        .arg(root)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut server = Rclone(server);
    let begun = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        let is_there = server.0.try_wait().unwrap().is_none();
        let is_early = begun.elapsed() < Duration::from_secs(20);
        assert!(is_there && is_early, "rclone does not answer");
        thread::sleep(Duration::from_millis(50));
    }
    (server, desk)
}

#[test]
#[ignore = "slow"]
fn a_set_is_published_on_rclones_server_without_pages_of_directories() {
    let (_server, desk) = rclone();
    desk.upload("--no-directory-pages").done();
    let again = desk.upload("--no-directory-pages").done();
    assert_lacks!(again.stderr, "warning", "Uploaded");

    let index = "index --no-check --format json --no-directory-pages s3://BUCKET/42-linux/python";
    desk.run(index).done();
    desk.run(index).done().says(r#""changed":0"#);

    // 16 MiB is what an upload in one request takes.
    let dist = desk.bench.root.join("dist");
    pad(&dist.join(&tree(&dist)[0]), 17 << 20);
    let begun = Instant::now();
    let refused = desk.upload("--no-directory-pages --overwrite");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    refused.says("the answer is not one of S3's (HTTP 200): <?xml");
    let is_early = begun.elapsed() < Duration::from_secs(20);
    assert!(is_early, "it was tried again");
}
