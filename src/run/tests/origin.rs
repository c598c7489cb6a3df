//! Whose code a run builds.

use serde_json::json;

use super::*;
use rocwheel_base::error;

fn event(payload: &Value) -> Event {
    Event::parse(&payload.to_string()).unwrap()
}

#[test]
fn an_event_is_of_a_fork_unless_the_code_is_the_repositorys_own() {
    let here = json!({"full_name": "ROCm/TheRock", "fork": false});
    let pull = |head: Value| json!({"repository": here, "pull_request": {"head": {"repo": head}, "base": {"repo": here}}});
    let after =
        |head: Value| json!({"repository": here, "workflow_run": {"head_repository": head}});
    let table = [
        (json!({"repository": here, "ref": "refs/heads/main"}), RunOrigin::Own),
        (json!({}), RunOrigin::Own),
        (pull(json!({"full_name": "ROCm/TheRock"})), RunOrigin::Own),
        (pull(json!({"full_name": "rocm/therock"})), RunOrigin::Own),
        (pull(json!({"full_name": "me/TheRock", "fork": true})), RunOrigin::Fork),
        (pull(json!({"full_name": "me/TheRock", "fork": false})), RunOrigin::Fork),
        (pull(Value::Null), RunOrigin::Fork),
        (json!({"repository": here, "pull_request": {"head": {"repo": here}}}), RunOrigin::Own),
        (json!({"pull_request": null}), RunOrigin::Fork),
        (json!({"pull_request": {"head": []}}), RunOrigin::Fork),
        (after(json!({"full_name": "ROCm/TheRock"})), RunOrigin::Own),
        (after(json!({"full_name": "me/TheRock"})), RunOrigin::Fork),
        (after(Value::Null), RunOrigin::Fork),
    ];
    for (payload, origin) in table {
        assert_eq!(event(&payload).origin, origin, "{payload}");
    }
}

#[test]
fn an_event_that_may_be_of_a_fork_says_whose_code_it_builds() {
    for name in ["push", "schedule", "workflow_dispatch", ""] {
        assert_eq!(Event::of(name, None).unwrap(), None);
    }
    let said = [
        ("pull_request", None),
        ("pull_request_target", Some("{}")),
        ("pull_request_review", Some(r#"{"workflow_run": {}}"#)),
        ("workflow_run", Some(r#"{"pull_request": {}}"#)),
    ]
    .map(|(name, payload)| Event::of(name, payload).unwrap_err().to_string());
    insta::assert_snapshot!(said.join("\n"), @"
    nothing says whose code this run builds: the event `pull_request` has no `pull_request`
    nothing says whose code this run builds: the event `pull_request_target` has no `pull_request`
    nothing says whose code this run builds: the event `pull_request_review` has no `pull_request`
    nothing says whose code this run builds: the event `workflow_run` has no `workflow_run`
    ");
    let fork = Event::of("pull_request", Some(r#"{"pull_request": null}"#));
    assert_eq!(fork.unwrap().unwrap().origin, RunOrigin::Fork);
}

#[test]
fn a_pull_request_inside_a_fork_is_its_own_but_the_repository_is_none_to_trust() {
    let fork = json!({"full_name": "me/TheRock", "fork": true});
    let payload = json!({"repository": fork, "pull_request": {"head": {"repo": fork}, "base": {"repo": fork}}});
    let expected = Event { origin: RunOrigin::Own, repository: RunOrigin::Fork };
    assert_eq!(event(&payload), expected);
}

#[test]
fn a_payload_that_is_no_object_is_refused_in_words() {
    let messages = ["", "{", "[]", "null"]
        .map(|text| error::render(&Event::parse(text).unwrap_err()))
        .join("\n");
    insta::assert_snapshot!(messages, @"
    error: failed to read the event's payload
      caused by: EOF while parsing a value at line 1 column 0

    hint: `GITHUB_EVENT_PATH` must name a JSON file, or be unset

    error: failed to read the event's payload
      caused by: EOF while parsing an object at line 1 column 1

    hint: `GITHUB_EVENT_PATH` must name a JSON file, or be unset

    error: failed to read the event's payload
      caused by: invalid type: sequence, expected a map at line 1 column 0

    hint: `GITHUB_EVENT_PATH` must name a JSON file, or be unset

    error: failed to read the event's payload
      caused by: invalid type: null, expected a map at line 1 column 4

    hint: `GITHUB_EVENT_PATH` must name a JSON file, or be unset
    ");
}

#[test]
fn a_run_is_of_a_fork_unless_its_head_is_the_repository() {
    let repository: Repository = "ROCm/TheRock".parse().unwrap();
    for (head, origin) in [
        (Some("ROCm/TheRock"), RunOrigin::Own),
        (Some("rocm/therock"), RunOrigin::Own),
        (Some("me/TheRock"), RunOrigin::Fork),
        (None, RunOrigin::Fork),
    ] {
        let facts = RunFacts::new(&repository, head, None);
        assert_eq!(facts.origin, origin, "{head:?}");
    }
}
