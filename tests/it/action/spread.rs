//! A set that many jobs build, where nothing is on one machine.

use super::workflows::{CREDENTIALS, Stage, dispatched, outcomes, published, role};
use crate::s3::server::Server;
use crate::support::published::{TestSet, odd, sample};
use rocwheel_store::{Span, Store as _};
use serde_json::{Value, json};

pub(super) const ROLE: &str = "arn:aws:iam::692859939525:role/therock-ci";

pub(super) fn text(bucket: &str, key: &str) -> String {
    let store = Server::shared().store(&bucket.parse().unwrap());
    let mut object = store.get(&key.parse().unwrap(), Span::Whole).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut object, &mut text).unwrap();
    text
}

#[test]
#[ignore = "long"]
fn long_many_jobs_make_the_same_set_as_one() {
    for set in [sample(), odd()] {
        is_made_by_many_jobs_as_by_one(set);
    }
}

fn is_made_by_many_jobs_as_by_one(set: &TestSet) {
    let inputs = json!({"platform": "linux", "release-type": "ci"});
    let bucket = "therock-ci-artifacts";
    let mut stage = Stage::of(set, bucket, "1-linux/", &dispatched());
    stage.repository.action(CREDENTIALS, &role(ROLE));
    let run = stage.repository.call("packages-spread.yml", &inputs);
    let run = run.expect_success();
    let ended = outcomes(&run);
    assert_eq!(ended.len(), 4 + set.targets.len(), "{ended:#?}");
    let printed = run.log();
    let times = |archive: &str| {
        let line = format!("Fetched\u{1b}[0m {archive}.tar.");
        printed.matches(&line).count()
    };
    for target in set.targets {
        assert_eq!(times(&format!("blas_lib_{target}")), 1, "{target}");
    }
    for (archive, expected) in [
        ("amd-llvm_run_generic", 2),
        ("blas_dev_generic", 1),
        ("blas_test_generic", 0),
        ("blas_lib_generic", 2 + set.targets.len()),
    ] {
        assert_eq!(times(archive), expected, "{archive}: {printed}");
    }
    let here = fs_err::read_to_string(set.place().join("SHA256SUMS")).unwrap();
    assert_eq!(text(bucket, "1-linux/python/SHA256SUMS"), here);
    let said: Value = serde_json::from_str(&text(bucket, "1-linux/python/set.json")).unwrap();
    assert_eq!(said["run-id"], "1");
    assert_eq!(said["run-attempt"], 1);
    assert_eq!(said["platform"], "linux");
    assert_eq!(said["commit"], "5a6d91e000000000000000000000000000000000");
    let port = Server::shared().port;
    let index = format!("http://127.0.0.1:{port}/therock-ci-artifacts/1-linux/python/simple/");
    assert_eq!(run.outputs()["package-index-url"], index);
    let page = run.summaries().concat();
    assert_has!(page, &format!("pip install --index-url {index}"));
}

#[test]
#[ignore = "long"]
fn long_without_one_of_its_parts_a_set_has_no_index() {
    let inputs = json!({"platform": "linux", "release-type": "ci", "host-parts": "[\"core,meta\", \"nonsense\"]"});
    let mut stage = Stage::new("therock-ci-artifacts", "1-linux/", &dispatched());
    stage.repository.action(CREDENTIALS, &role(ROLE));
    let run = stage.repository.call("packages-spread.yml", &inputs);
    assert!(!run.succeeded, "{}", run.log());
    let published = published("therock-ci-artifacts", "1-linux/python/");
    let is_part = |path: &String| path.starts_with("dist/") || path == "part.json";
    assert!(published.iter().all(is_part), "{published:#?}");
}
