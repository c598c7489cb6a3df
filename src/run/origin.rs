//! Whose code a run builds: that of the repository itself, or that of a fork.

use serde_json::{Map, Value};

use crate::{
    error::{Context as _, Hint as _, Result},
    run::Repository,
};

/// Whose code a run builds. Code of a fork is not trusted: it may not write to the buckets of the
/// repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunOrigin {
    #[default]
    Own,
    Fork,
}

/// The event that started this run, from the payload that GitHub provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub origin: RunOrigin,
    /// Whether the repository of the run is itself a fork. No role trusts a fork.
    pub repository: RunOrigin,
}

/// Facts about a run from GitHub's API. By default, it built the code of the repository itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    pub origin: RunOrigin,
    /// As GitHub writes times, `2025-11-11T16:18:48Z`, so that sorting the texts sorts by time.
    pub updated_at: Option<String>,
}

impl RunFacts {
    /// Reads the answer of GitHub's API about a run of `repository`.
    pub fn read(run: &Value, repository: &Repository) -> Self {
        let head = text(run, "/head_repository/full_name");
        Self {
            origin: RunOrigin::of(head, Some(&repository.to_string())),
            updated_at: text(run, "/updated_at").map(str::to_owned),
        }
    }
}

impl RunOrigin {
    /// `Own` if the code is from `repository`. GitHub reports no head repository if it was deleted;
    /// that was a fork.
    fn of(head: Option<&str>, repository: Option<&str>) -> Self {
        match (head, repository) {
            (Some(head), Some(base)) if head.eq_ignore_ascii_case(base) => Self::Own,
            _ => Self::Fork,
        }
    }
}

impl Event {
    /// Parses the contents of the file at `GITHUB_EVENT_PATH`.
    ///
    /// The names of head and base repository are compared. The field `fork` of the head would not
    /// do: in a repository that is a fork, it is also set for pull requests from the repository
    /// itself. A `workflow_run` event builds the code of the run that triggered it, so it has the
    /// origin of that run.
    pub fn parse(payload: &str) -> Result<Self> {
        let payload: Map<String, Value> = serde_json::from_str(payload)
            .context("failed to read the event's payload")
            .hint("`GITHUB_EVENT_PATH` must name a JSON file, or be unset")?;
        let payload = Value::Object(payload);
        let here = text(&payload, "/repository/full_name");
        let origin = if payload.get("pull_request").is_some() {
            let base = text(&payload, "/pull_request/base/repo/full_name").or(here);
            RunOrigin::of(text(&payload, "/pull_request/head/repo/full_name"), base)
        } else if payload.get("workflow_run").is_some() {
            let head = text(&payload, "/workflow_run/head_repository/full_name");
            RunOrigin::of(head, here)
        } else {
            RunOrigin::Own
        };
        let repository = match payload.pointer("/repository/fork") {
            Some(Value::Bool(true)) => RunOrigin::Fork,
            _ => RunOrigin::Own,
        };
        Ok(Self { origin, repository })
    }

    /// Whether all that this run builds is the repository's own.
    pub(super) fn is_trusted(self) -> bool {
        self.origin == RunOrigin::Own && self.repository == RunOrigin::Own
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error;

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
            (
                json!({"repository": here, "ref": "refs/heads/main"}),
                RunOrigin::Own,
            ),
            (json!({}), RunOrigin::Own),
            (pull(json!({"full_name": "ROCm/TheRock"})), RunOrigin::Own),
            (pull(json!({"full_name": "rocm/therock"})), RunOrigin::Own),
            (
                pull(json!({"full_name": "me/TheRock", "fork": true})),
                RunOrigin::Fork,
            ),
            (
                pull(json!({"full_name": "me/TheRock", "fork": false})),
                RunOrigin::Fork,
            ),
            (pull(Value::Null), RunOrigin::Fork),
            (
                json!({"repository": here, "pull_request": {"head": {"repo": here}}}),
                RunOrigin::Own,
            ),
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
    fn a_pull_request_inside_a_fork_is_its_own_but_the_repository_is_none_to_trust() {
        let fork = json!({"full_name": "me/TheRock", "fork": true});
        let payload = json!({"repository": fork, "pull_request": {"head": {"repo": fork}, "base": {"repo": fork}}});
        let expected = Event {
            origin: RunOrigin::Own,
            repository: RunOrigin::Fork,
        };
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
        let facts = |run: Value| RunFacts::read(&run, &repository);
        let own = facts(json!({
            "head_repository": {"full_name": "ROCm/TheRock"},
            "updated_at": "2026-08-22T10:00:00Z",
        }));
        let expected = RunFacts {
            origin: RunOrigin::Own,
            updated_at: Some("2026-08-22T10:00:00Z".to_owned()),
        };
        assert_eq!(own, expected);
        for run in [
            json!({"head_repository": {"full_name": "me/TheRock"}}),
            json!({"head_repository": null}),
            json!({}),
            json!([]),
        ] {
            let facts = facts(run);
            assert_eq!((facts.origin, facts.updated_at), (RunOrigin::Fork, None));
        }
    }
}
