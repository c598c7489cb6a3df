//! The parts of GitHub's responses that we read. Fields that GitHub may omit are optional.

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::{
    digest::Sha256,
    error::{Context as _, Result},
    run::{Repository, RunFacts, RunId},
};

/// A run of a workflow.
#[derive(Clone, Debug)]
pub struct WorkflowRun {
    pub id: RunId,
    pub commit: String,
    pub state: RunState,
    /// The creation time as GitHub writes it (ISO 8601), so that sorting the texts sorts by time.
    pub created_at: String,
    pub page: String,
    pub facts: RunFacts,
}

/// Whether a run may still upload artifacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It has not ended; with GitHub's status, such as `in_progress`.
    Running(String),
    /// It has ended; with its conclusion, such as `success`.
    Ended(String),
}

/// An artifact that a job of a run has uploaded to GitHub.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RunArtifact {
    pub id: u64,
    pub name: String,
    #[serde(rename = "size_in_bytes")]
    pub size: u64,
    /// Of the bytes as they are downloaded. Older uploads have none.
    #[serde(default, rename = "digest", deserialize_with = "sha256")]
    pub sha256: Option<Sha256>,
    /// Whether it cannot be downloaded any more.
    pub expired: bool,
    /// As GitHub writes times.
    pub expires_at: Option<String>,
}

/// Reads `sha256:...`. A digest of another algorithm is ignored.
fn sha256<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Sha256>, D::Error> {
    let digest: Option<String> = Deserialize::deserialize(from)?;
    let digits = digest.as_deref().and_then(|it| it.strip_prefix("sha256:"));
    digits.map(str::parse).transpose().map_err(D::Error::custom)
}

#[derive(Deserialize)]
struct RawRun {
    id: u64,
    head_sha: String,
    status: Option<String>,
    conclusion: Option<String>,
    created_at: Option<String>,
    html_url: Option<String>,
}

impl WorkflowRun {
    pub(super) fn read(value: &Value, repository: &Repository) -> Result<Self> {
        let raw = RawRun::deserialize(value).context("failed to read a run")?;
        let status = raw.status.unwrap_or_default();
        Ok(Self {
            id: raw.id.to_string().parse()?,
            commit: raw.head_sha,
            state: if status == "completed" {
                RunState::Ended(raw.conclusion.unwrap_or_default())
            } else {
                RunState::Running(status)
            },
            created_at: raw.created_at.unwrap_or_default(),
            page: raw.html_url.unwrap_or_default(),
            facts: RunFacts::read(value, repository),
        })
    }
}

impl RunArtifact {
    pub(super) fn read(value: &Value) -> Result<Self> {
        Self::deserialize(value).context("failed to read an artifact")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{error::render, run::RunOrigin};

    fn read(value: &Value) -> Result<WorkflowRun> {
        WorkflowRun::read(value, &"ROCm/TheRock".parse().unwrap())
    }

    #[test]
    fn a_run_with_nothing_but_what_it_must_have_is_read() {
        let run = read(
            &json!({"id": 21_440_027_240_u64, "head_sha": "abc", "head_branch": null,
            "status": null, "conclusion": null, "head_repository": null}),
        )
        .unwrap();
        assert_eq!(run.id.as_str(), "21440027240");
        assert_eq!(run.state, RunState::Running(String::new()));
        assert_eq!(run.facts.origin, RunOrigin::Fork);
    }

    #[test]
    fn a_run_ends_with_its_status_and_not_with_its_conclusion() {
        let state = |status: &str, conclusion: Value| {
            let run = json!({"id": 1, "head_sha": "", "status": status, "conclusion": conclusion});
            read(&run).unwrap().state
        };
        assert_eq!(
            state("completed", json!("failure")),
            RunState::Ended("failure".into())
        );
        assert_eq!(
            state("completed", Value::Null),
            RunState::Ended(String::new())
        );
        // A second attempt is running, and GitHub still returns the conclusion of the first one.
        assert_eq!(
            state("in_progress", json!("failure")),
            RunState::Running("in_progress".into())
        );
    }

    #[test]
    fn what_an_artifact_may_leave_out_is_left_out() {
        let artifact = |digest: Value, expired: bool, expires_at: Value| {
            RunArtifact::read(
                &json!({"id": 21_440_027_240_u64, "name": "a", "size_in_bytes": 3,
                "digest": digest, "expired": expired, "expires_at": expires_at}),
            )
        };
        let (zeros, at) = ("0".repeat(64), "2026-01-01T00:00:00Z");
        let told = artifact(json!(format!("sha256:{zeros}")), true, json!(at)).unwrap();
        assert_eq!(told.sha256.unwrap().to_string(), zeros);
        assert_eq!((told.expired, told.expires_at.as_deref()), (true, Some(at)));
        for digest in [Value::Null, json!("sha512:00")] {
            let untold = artifact(digest, false, Value::Null).unwrap();
            assert_eq!((untold.sha256, untold.expired), (None, false));
        }
        let short = artifact(json!("sha256:00"), false, Value::Null).unwrap_err();
        insta::assert_snapshot!(render(&short), @r#"
        error: failed to read an artifact
          caused by: not a SHA-256 of 64 lower-case hexadecimal digits: "00"
        "#);
    }

    #[test]
    fn what_is_no_run_is_refused_in_words() {
        let refused = [json!({}), json!([]), json!({"id": "1", "head_sha": ""})];
        let said = refused
            .map(|value| render(&read(&value).unwrap_err()))
            .concat();
        insta::assert_snapshot!(said, @r#"
        error: failed to read a run
          caused by: missing field `id`
        error: failed to read a run
          caused by: invalid length 0, expected struct RawRun with 6 elements
        error: failed to read a run
          caused by: invalid type: string "1", expected u64
        "#);
    }
}
