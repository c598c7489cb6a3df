//! The workflow that promotes a set.

use rocwheel_store::{Depth, Store as _};

use super::{
    frameworks::{CHECKED_OUT, CHECKOUT},
    runner::{Repository, Run},
    workflows::{CREDENTIALS, role},
};
use crate::s3::{objects::send, server::Server};
use crate::support::prelude::*;

const ROLE: &str = "arn:aws:iam::1:role/releaser";

/// Calls a workflow with inputs, on a machine with the buckets of our server.
fn call(name: &str, inputs: &Value) -> Run {
    let mut repository = Repository::new();
    let event = repository.path().join("event.json");
    let repository_of = json!({"full_name": "ROCm/TheRock", "fork": false});
    let event_of = json!({"repository": repository_of});
    fs_err::write(&event, event_of.to_string()).unwrap();
    let endpoint = format!("http://127.0.0.1:{}", Server::shared().port);
    repository
        .variable("AWS_ENDPOINT_URL_S3", &endpoint)
        .variable("AWS_ENDPOINT_URL", &endpoint)
        .variable("ROCWHEEL_NO_DIRECTORY_PAGES", "true")
        .argument("--eventpath", event.to_str().unwrap());
    repository.action(CREDENTIALS, &role(ROLE));
    repository.action(CHECKOUT, CHECKED_OUT);
    repository.call(name, inputs).expect_success()
}

fn keys(bucket: &str) -> Vec<String> {
    let store = Server::shared().store(&bucket.parse().unwrap());
    let objects = store.list(None, Depth::All).unwrap();
    objects.iter().map(|it| it.key.to_string()).collect()
}

#[test]
#[ignore = "long"]
fn long_a_set_is_published_in_a_workflow() {
    let server = Server::shared();
    let bucket = server.bucket();
    let store = server.store(&bucket);
    send(&store, &sample().place());
    let inputs = json!({
        "set": format!("s3://{bucket}/v5"), "to": "same", "into": format!("s3://{bucket}/to"),
        "aws-region": "us-east-2", "role": ROLE, "dry-run": false,
    });
    call("promote.yml", &inputs);
    let page = "to/rocm/core/whl-next/rocm-sdk-core/index.html".to_owned();
    assert!(keys(bucket.as_str()).contains(&page));
}
