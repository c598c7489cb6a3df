//! The workflows that promote a set and prune old versions.

use rocwheel::store::{Depth, Store as _};
use serde_json::{Value, json};

use super::{
    frameworks::{CHECKED_OUT, CHECKOUT},
    runner::{Repository, Run, read},
    workflows::{CREDENTIALS, role},
};
use crate::{
    promote::{aggregate::manifest, prune::filled},
    s3::{prune::send, server::Server},
    support::{long, place::empty, published::sample},
};

const ROLE: &str = "arn:aws:iam::1:role/releaser";

/// Runs a workflow with inputs, on a machine with the buckets of our server.
fn run(workflow: &str, inputs: &Value) -> Run {
    let mut repository = Repository::new();
    let event = repository.path().join("event.json");
    let repository_of = json!({"full_name": "ROCm/TheRock", "fork": false});
    let event_of = json!({"inputs": inputs, "repository": repository_of});
    fs_err::write(&event, event_of.to_string()).unwrap();
    let endpoint = format!("http://127.0.0.1:{}", Server::shared().port);
    repository
        .variable("AWS_ENDPOINT_URL_S3", &endpoint)
        .variable("AWS_ENDPOINT_URL", &endpoint)
        .variable("ROCWHEEL_NO_DIRECTORY_PAGES", "true")
        .variable("ROCWHEEL_MOST", "50")
        .argument("--eventpath", event.to_str().unwrap());
    repository.action(CREDENTIALS, &role(ROLE));
    repository.action(CHECKOUT, CHECKED_OUT);
    repository.file(
        "ownership.yaml",
        &manifest(&[("rocm-sdk-core", "core/whl-next")]),
    );
    repository
        .run("workflow_dispatch", &read(workflow))
        .expect_success()
}

fn keys(bucket: &str) -> Vec<String> {
    let store = Server::shared().store(&bucket.parse().unwrap());
    let objects = store.list(None, Depth::All).unwrap();
    objects.iter().map(|it| it.key.to_string()).collect()
}

#[test]
fn old_nightlies_are_pruned_in_a_workflow() {
    let server = Server::shared();
    let bucket = server.bucket();
    let source = empty("action/prune");
    filled(&source);
    send(&server.store(&bucket), &source);
    let before = keys(bucket.as_str());
    let inputs = |really: bool| {
        // The inputs of an event are texts.
        json!({
            "places": format!("s3://{bucket}/v5"), "stream": "nightly", "keep": "4",
            "aws-region": "us-east-2", "role": ROLE, "really": really.to_string(),
        })
    };
    let plan = run("workflows/prune.yml", &inputs(false));
    assert_eq!(keys(bucket.as_str()), before);
    assert!(plan.log().contains("1 version to remove"), "{}", plan.log());
    run("workflows/prune.yml", &inputs(true));
    assert!(keys(bucket.as_str()).contains(&"v5/prune.json".to_owned()));
}

#[test]
fn a_set_is_published_in_a_workflow() {
    if long::is_left_out() {
        return;
    }
    let server = Server::shared();
    let bucket = server.bucket();
    let store = server.store(&bucket);
    send(&store, &sample().place());
    let inputs = json!({
        "set": format!("s3://{bucket}/v5"), "to": "same", "into": format!("s3://{bucket}/to"),
        "aws-region": "us-east-2", "role": ROLE, "dry-run": "false", "manifest": "ownership.yaml",
        "stream": "rc",
    });
    run("workflows/promote.yml", &inputs);
    for page in [
        "core/whl-next/rocm-sdk-core/index.html",
        "whl-next/index.html",
    ] {
        assert!(
            keys(bucket.as_str()).contains(&format!("to/rocm/{page}")),
            "{page}"
        );
    }
}
