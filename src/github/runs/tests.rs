//! Tests of what is read of an answer.

use serde_json::{Value, json};

use super::*;
use rocwheel_base::error::render;

fn read(value: &Value) -> WorkflowRun {
    WorkflowRun::deserialize(value).unwrap()
}

#[test]
fn a_run_with_nothing_but_what_it_must_have_is_read() {
    let run = read(&json!({"id": 21_440_027_240_u64, "head_sha": "abc", "head_branch": null,
        "status": null, "conclusion": null, "head_repository": null}));
    assert_eq!(run.id.as_str(), "21440027240");
    assert_eq!((run.state(), run.conclusion()), ("", None));
    let facts = run.facts(&"ROCm/TheRock".parse().unwrap());
    assert_eq!(facts.origin, RunOrigin::Fork);
}

#[test]
fn a_run_ends_with_its_status_and_not_with_its_conclusion() {
    for (status, conclusion, state, ended) in [
        ("completed", json!("failure"), "failure", Some("failure")),
        ("completed", Value::Null, "", Some("")),
        // A second attempt is running, and GitHub still returns the conclusion of the first one.
        ("in_progress", json!("failure"), "in_progress", None),
    ] {
        let run =
            read(&json!({"id": 1, "head_sha": "", "status": status, "conclusion": conclusion}));
        assert_eq!((run.state(), run.conclusion()), (state, ended), "{status}");
    }
}

#[test]
fn what_an_artifact_may_leave_out_is_left_out() {
    let artifact = |digest: Value, expired: bool| {
        RunArtifact::deserialize(&json!({"id": 21_440_027_240_u64, "name": "a", "size_in_bytes": 3,
            "digest": digest, "expired": expired}))
    };
    let zeros = "0".repeat(64);
    let told = artifact(json!(format!("sha256:{zeros}")), true).unwrap();
    assert_eq!(told.sha256.unwrap().to_string(), zeros);
    assert!(told.expired);
    for digest in [Value::Null, json!("sha512:00")] {
        let untold = artifact(digest, false).unwrap();
        assert_eq!((untold.sha256, untold.expired), (None, false));
    }
    let short = artifact(json!("sha256:00"), false).unwrap_err();
    insta::assert_snapshot!(render(&short.into()), @r#"error: not a SHA-256 of 64 lower-case hexadecimal digits: "00""#);
}
