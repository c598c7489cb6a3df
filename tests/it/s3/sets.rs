//! Every set in a bucket: uploaded, judged there, and described.

use super::upload::{Desk, KEYS};
use crate::support::{
    place::text,
    published::{TestSet, sets},
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
    let clean = format!("nothing found in {} packages\n", set.packages());
    assert!(checked.contains(&clean), "{checked}");
    let summary = run(&["summary", &place]);
    let index = "http://HOST/BUCKET/42-linux/python/simple/";
    let install = set.install_line(set.targets[0]);
    let line = format!("pip install --index-url {index} {install}");
    assert!(summary.contains(&line), "{summary}");
}
