//! rclone's server: it takes no keys that end in `/`, no conditions, and no uploads in parts.

use std::{
    io,
    net::{Ipv4Addr, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    ends::pad,
    server::{ID, SECRET, free_ports},
    upload::{Desk, KEYS},
};
use crate::{
    judges::tool,
    publish::{Bench, packages::wheels},
};

/// The server ends with the test.
struct Rclone(Child);

impl Drop for Rclone {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn rclone() -> (Rclone, Desk) {
    let bench = Bench::new();
    wheels(&bench.root);
    fs_err::create_dir_all(bench.root.join("served/bucket")).unwrap();
    fs_err::create_dir(bench.root.join("home")).unwrap();
    let [port, ..] = free_ports();
    let server = Command::new(tool("rclone"))
        .env_clear()
        .env("HOME", bench.path("home"))
        .args(["serve", "s3", "--auth-key", &format!("{ID},{SECRET}")])
        .args(["--addr", &format!("127.0.0.1:{port}")])
        .arg(bench.root.join("served"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut server = Rclone(server);
    let begun = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(server.0.try_wait().unwrap().is_none(), "rclone ended");
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "rclone is silent"
        );
        thread::sleep(Duration::from_millis(50));
    }
    let bucket = "bucket".parse().unwrap();
    (
        server,
        Desk {
            bench,
            bucket,
            port,
        },
    )
}

const NO_DIRECTORY_PAGES: &str = "--no-directory-pages";

#[test]
#[ignore = "slow"]
fn a_set_is_published_on_rclones_server_without_pages_of_directories() -> io::Result<()> {
    let (_server, desk) = rclone();
    desk.signed(&[NO_DIRECTORY_PAGES]).ok();
    let again = desk.signed(&[NO_DIRECTORY_PAGES]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(!again.stderr.contains("warning"), "{}", again.stderr);
    assert!(!again.stderr.contains("Uploaded"), "{}", again.stderr);

    let place = format!("s3://{}/42-linux/python", desk.bucket);
    let mut index = desk.command(&KEYS);
    let index = index.args([
        "index",
        "--no-check",
        "--format",
        "json",
        NO_DIRECTORY_PAGES,
        &place,
    ]);
    desk.run(index).ok();
    let again = desk.run(index).ok();
    assert!(again.contains(r#""changed":0"#), "{again}");

    // 16 MiB is what an upload in one request takes.
    let dist = desk.bench.root.join("dist");
    let wheel = fs_err::read_dir(&dist)?.next().unwrap()?.path();
    pad(&wheel, 17 << 20);
    let begun = Instant::now();
    let refused = desk.signed(&[NO_DIRECTORY_PAGES, "--overwrite"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let answer = "the answer is not one of S3's (HTTP 200): <?xml";
    assert!(refused.stderr.contains(answer), "{}", refused.stderr);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "it was tried again"
    );
    Ok(())
}
