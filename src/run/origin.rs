//! Whose code a run builds: that of the repository itself, or that of a fork.

use std::{fmt, str::FromStr};

use serde_json::Value;

use crate::error::{Context, Hint, Result, anyhow};
use crate::run::Repository;

/// Whose code a run builds. Code of a fork is not trusted: it may not write to the buckets of the
/// repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOrigin {
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

/// Facts about a run from GitHub's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFacts {
    pub origin: RunOrigin,
    pub updated_at: Option<UtcTime>,
}

impl RunFacts {
    /// The facts of a run that built the code of the repository itself.
    pub fn own() -> Self {
        Self {
            origin: RunOrigin::Own,
            updated_at: None,
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
        let payload: Value = serde_json::from_str(payload)
            .context("failed to read the event's payload")
            .hint("`GITHUB_EVENT_PATH` must name a JSON file, or be unset")?;
        if !payload.is_object() {
            return Err(anyhow!("the event's payload is not a JSON object"))
                .hint("`GITHUB_EVENT_PATH` must name a JSON file, or be unset");
        }
        let here = text(&payload, "/repository/full_name");
        let origin = if payload.get("pull_request").is_some() {
            let base = text(&payload, "/pull_request/base/repo/full_name").or(here);
            RunOrigin::of(text(&payload, "/pull_request/head/repo/full_name"), base)
        } else if payload.get("workflow_run").is_some() {
            RunOrigin::of(
                text(&payload, "/workflow_run/head_repository/full_name"),
                here,
            )
        } else {
            RunOrigin::Own
        };
        let repository = match payload.pointer("/repository/fork") {
            Some(Value::Bool(true)) => RunOrigin::Fork,
            _ => RunOrigin::Own,
        };
        Ok(Self { origin, repository })
    }
}

impl RunFacts {
    /// Parses the answer of GitHub's API about a run of `repository`.
    pub fn read(run: &Value, repository: &Repository) -> Result<Self> {
        let head = text(run, "/head_repository/full_name");
        Ok(Self {
            origin: RunOrigin::of(head, Some(&repository.to_string())),
            updated_at: text(run, "/updated_at")
                .map(str::parse)
                .transpose()
                .context("failed to read `updated_at` of a run")?,
        })
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

/// A time as in GitHub's API, `2025-11-11T16:18:48Z`. Sorted by time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcTime(Box<str>);

/// Error of parsing a [`UtcTime`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time such as `2025-11-11T16:18:48Z`: {0:?}")]
pub struct InvalidUtcTime(String);

impl FromStr for UtcTime {
    type Err = InvalidUtcTime;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shape = "0000-00-00T00:00:00Z";
        let fits = |(have, want): (u8, u8)| match want {
            b'0' => have.is_ascii_digit(),
            _ => have == want,
        };
        if text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidUtcTime(text.to_owned()))
        }
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
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

        error: the event's payload is not a JSON object

        hint: `GITHUB_EVENT_PATH` must name a JSON file, or be unset

        error: the event's payload is not a JSON object

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
            updated_at: Some("2026-08-22T10:00:00Z".parse().unwrap()),
        };
        assert_eq!(own.unwrap(), expected);
        for run in [
            json!({"head_repository": {"full_name": "me/TheRock"}}),
            json!({"head_repository": null}),
            json!({}),
            json!([]),
        ] {
            let facts = facts(run).unwrap();
            assert_eq!((facts.origin, facts.updated_at), (RunOrigin::Fork, None));
        }
        let error = facts(json!({"updated_at": "yesterday"})).unwrap_err();
        insta::assert_snapshot!(error::render(&error), @r#"
        error: failed to read `updated_at` of a run
          caused by: not a time such as `2025-11-11T16:18:48Z`: "yesterday"
        "#);
    }

    #[test]
    fn times_are_ordered() {
        let time = |text: &str| text.parse::<UtcTime>().unwrap();
        assert!(time("2025-11-11T16:18:48Z") < time("2025-11-11T16:18:49Z"));
        assert!(time("2025-12-01T00:00:00Z") > time("2025-11-30T23:59:59Z"));
        assert_eq!(
            time("2025-11-11T16:18:48Z").to_string(),
            "2025-11-11T16:18:48Z"
        );
        for text in [
            "",
            "2025-11-11",
            "2025-11-11T16:18:48+00:00",
            "2025-11-11T16:18:48z",
        ] {
            assert!(text.parse::<UtcTime>().is_err(), "{text}");
        }
    }
}
