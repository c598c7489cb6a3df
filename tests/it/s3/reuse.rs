//! `build --reuse` of a set in a bucket.

use super::upload::{Desk, KEYS};
use crate::{
    build::{files, reuse::built},
    support::place::text,
};

#[test]
fn the_large_members_of_a_set_in_a_bucket_are_taken_over() {
    let (desk, place) = (Desk::new(), built("bucket"));
    let mut upload = desk.command(&KEYS);
    upload.args([
        "upload",
        "--no-check",
        "--multi-target",
        "--platform",
        "linux",
    ]);
    upload.args(["--run-id", "42", "--bucket", desk.bucket.as_str()]);
    upload.args(["--packages-dir", text(&place.join("out"))]);
    desk.run(&mut upload).ok();
    let set = format!("s3://{}/42-linux/python", desk.bucket);
    let build = |set: &str| {
        let mut build = desk.command(&KEYS);
        build.args([
            "build",
            "--format",
            "json",
            "--artifact-dir",
            text(&place.join("in")),
        ]);
        build.args(["--dest-dir", text(&place.join("again")), "--reuse", set]);
        let output = build.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (json["reused"].clone(), said)
    };
    for set in [set.clone(), format!("{set}/dist")] {
        let (reused, said) = build(&set);
        // The three files of 12, 19 and 11 MB, and few others: less is not worth a request.
        let (members, bytes) = (reused["members"].as_u64(), reused["bytes"].as_u64());
        let is_right = (3..20).contains(&members.unwrap()) && bytes >= Some(42_000_000);
        assert!(is_right, "{reused} {said}");
        assert!(files(&place.join("out/dist")) == files(&place.join("again/dist")));
    }
    let (reused, said) = build(&format!("s3://{}/43-linux/python", desk.bucket));
    assert_eq!(reused["members"], 0);
    assert!(
        said.contains("warning: no wheels to reuse in `s3://"),
        "{said}"
    );
    let mut build = desk.command(&KEYS);
    build.args(["build", "--artifact-dir", text(&place.join("in"))]);
    build.args([
        "--dest-dir",
        text(&place.join("other")),
        "--reuse",
        "https://x/y",
    ]);
    let said = desk.run(&mut build);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("pass a directory, or `s3://"),
        "{}",
        said.stderr
    );
}
