//! Every set in a bucket: uploaded, judged there, and described.

use super::upload::{Desk, KEYS};
use crate::support::{
    place::text,
    program::rocwheel,
    published::{TestSet, odd, sample, sets},
};

#[test]
fn every_set_is_in_a_bucket_what_it_was_in_a_directory() {
    sets()
        .into_iter()
        .for_each(is_in_a_bucket_what_it_was_in_a_directory);
}

fn is_in_a_bucket_what_it_was_in_a_directory(set: &TestSet) {
    let desk = Desk::new();
    let run = |arguments: &[&str]| desk.run(desk.command(&KEYS).args(arguments)).ok();
    let packages = set.root().join("packages");
    let mut upload = vec!["upload", "--multi-target", "--platform", "linux"];
    upload.extend(["--run-id", "42", "--bucket", desk.bucket.as_str()]);
    upload.extend(["--packages-dir", text(&packages)]);
    run(&upload);
    let there = desk.there();
    // Nothing is sent or changed a second time.
    run(&upload);
    assert_eq!(desk.there(), there);
    let place = format!("s3://{}/42-linux/python", desk.bucket);
    let checked = run(&["check", &place, "--fail-on", "warning"]);
    let clean = format!("OK, no problems in {} packages\n", set.packages());
    assert!(checked.contains(&clean), "{checked}");
    let summary = run(&["summary", &place]);
    let index = "http://HOST/BUCKET/42-linux/python/simple/";
    let install = set.install_line(set.targets[0]);
    let line = format!("pip install --index-url {index} {install}");
    assert!(summary.contains(&line), "{summary}");
}

/// The difference as JSON, without the sets' own places and origins.
fn lists(json: &str) -> serde_json::Value {
    let mut json: serde_json::Value = serde_json::from_str(json).unwrap();
    for side in ["before", "after"] {
        let set = json[side].as_object_mut().unwrap();
        set.retain(|key, _| ["versions", "size", "packages"].contains(&&**key));
    }
    json
}

#[test]
#[ignore = "slow"]
fn a_difference_is_the_same_between_directories_addresses_and_runs() {
    let desk = Desk::new();
    let run = |arguments: &[&str]| desk.run(desk.command(&KEYS).args(arguments));
    let bucket = desk.bucket.as_str();
    for (set, id) in [(sample(), "42"), (odd(), "43")] {
        let packages = set.root().join("packages");
        let upload = ["upload", "--multi-target", "--platform", "linux"];
        let place = ["--run-id", id, "--bucket", bucket];
        let upload = [&upload[..], &place, &["--packages-dir", text(&packages)]].concat();
        run(&upload).ok();
    }
    let json = ["--format", "json", "--no-progress"];
    let (before, after) = (sample().dist(), odd().dist());
    let here = [&["diff", text(&before), text(&after)][..], &json].concat();
    let here = lists(&rocwheel(&here).ok());
    assert!(!here["packages"].as_array().unwrap().is_empty(), "{here}");

    let [before, after] = ["42", "43"].map(|id| format!("s3://{bucket}/{id}-linux/python"));
    let places = [&["diff", &before, &after][..], &json].concat();
    assert_eq!(lists(&run(&places).ok()), here);

    let runs = [
        "diff",
        "42",
        "43",
        "--bucket",
        bucket,
        "--platform",
        "linux",
    ];
    let runs = [&runs[..], &json].concat();
    assert_eq!(lists(&run(&runs).ok()), here);

    let missing = [
        "diff",
        "42",
        "44",
        "--bucket",
        bucket,
        "--platform",
        "linux",
    ];
    let missing = run(&missing);
    assert_eq!(missing.code, 2, "{}", missing.stderr);
    assert!(
        missing.stderr.contains("44-linux/python"),
        "{}",
        missing.stderr
    );
}
