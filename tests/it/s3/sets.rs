//! Every set in a bucket: uploaded, judged there, and described.

use super::upload::{Desk, UPLOAD};
use crate::support::{prelude::*, published::odd};

#[test]
fn every_set_is_in_a_bucket_what_it_was_in_a_directory() {
    sets().into_iter().for_each(is_in_a_bucket_what_it_was_in_a_directory);
}

fn is_in_a_bucket_what_it_was_in_a_directory(set: &TestSet) {
    let desk = Desk::new();
    let upload = format!("{UPLOAD} '{}'", set.root().join("packages").display());
    desk.run(&upload).done();
    let there = desk.there();
    // Nothing is sent or changed a second time.
    desk.run(&upload).done();
    assert_eq!(desk.there(), there);
    let place = "s3://BUCKET/42-linux/python";
    let checked = desk.run(&format!("check {place} --fail-on warning")).done();
    checked.says(&format!("OK, no problems in {} packages\n", set.packages()));
    let index = "http://HOST/BUCKET/42-linux/python/simple/";
    let install = set.install_line(set.targets[0]);
    let summary = desk.run(&format!("summary {place}")).done();
    summary.says(&format!("pip install --index-url {index} {install}"));
}

/// The difference as JSON, without the sets' own places and origins.
fn lists(said: Outcome) -> Value {
    let mut json: Value = serde_json::from_str(&said.ok()).unwrap();
    for side in ["before", "after"] {
        let set = json[side].as_object_mut().unwrap();
        set.retain(|key, _| ["versions", "size", "packages"].contains(&&**key));
    }
    json
}

#[test]
#[ignore = "slow"]
fn a_difference_is_the_same_between_directories_and_addresses() {
    let desk = Desk::new();
    let [one, other] = [(sample(), "42"), (odd(), "43")].map(|(set, id)| {
        let upload = UPLOAD.replace("42", id);
        let packages = set.root().join("packages");
        desk.run(&format!("{upload} '{}'", packages.display())).done();
        format!("s3://BUCKET/{id}-linux/python")
    });
    let diff = |sets: &str| desk.run(&format!("diff {sets} --format json --no-progress"));
    let [before, after] = [sample().dist(), odd().dist()];
    let here = lists(diff(&format!("'{}' '{}'", before.display(), after.display())));
    assert!(!here["packages"].as_array().unwrap().is_empty(), "{here}");
    assert_eq!(lists(diff(&format!("{one} {other}"))), here);
}
