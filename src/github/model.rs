//! The parts of GitHub's responses that we read. Fields that GitHub may omit are optional.

use serde::{Deserialize, de::DeserializeOwned};
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
    pub branch: Option<String>,
    pub state: RunState,
    pub attempt: u64,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunArtifact {
    pub id: u64,
    pub name: String,
    pub size: u64,
    /// Of the bytes as they are downloaded. Older uploads have none.
    pub sha256: Option<Sha256>,
    pub keeping: Keeping,
}

/// Whether an artifact can still be downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeping {
    Kept,
    /// With the expiry time as GitHub writes it, if known.
    Expired(Option<String>),
}

#[derive(Deserialize)]
struct RawArtifact {
    id: u64,
    name: String,
    size_in_bytes: u64,
    expired: bool,
    expires_at: Option<String>,
    digest: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ArtifactsPage {
    pub(super) total_count: u64,
    pub(super) artifacts: Vec<Value>,
}

#[derive(Deserialize)]
struct RawRun {
    id: u64,
    head_sha: String,
    head_branch: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
    run_attempt: Option<u64>,
    created_at: Option<String>,
    html_url: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RunsPage {
    pub(super) workflow_runs: Vec<Value>,
}

#[derive(Deserialize)]
pub(super) struct Commit {
    pub(super) sha: String,
}

#[derive(Deserialize)]
pub(super) struct Pull {
    pub(super) head: Commit,
}

#[derive(Deserialize)]
pub(super) struct RepositoryFacts {
    pub(super) default_branch: String,
}

impl WorkflowRun {
    pub(super) fn read(value: &Value, repository: &Repository) -> Result<Self> {
        let raw = RawRun::deserialize(value).context("failed to read a run")?;
        let status = raw.status.unwrap_or_default();
        Ok(Self {
            id: raw.id.to_string().parse()?,
            commit: raw.head_sha,
            branch: raw.head_branch,
            state: match (status.as_str(), raw.conclusion) {
                ("completed", conclusion) => RunState::Ended(conclusion.unwrap_or_default()),
                _ => RunState::Running(status),
            },
            attempt: raw.run_attempt.unwrap_or(1),
            created_at: raw.created_at.unwrap_or_default(),
            page: raw.html_url.unwrap_or_default(),
            facts: RunFacts::read(value, repository),
        })
    }
}

impl RunArtifact {
    pub(super) fn read(value: &Value) -> Result<Self> {
        let raw = RawArtifact::deserialize(value).context("failed to read an artifact")?;
        // A digest of another algorithm is ignored.
        let sha256 = raw
            .digest
            .as_deref()
            .and_then(|it| it.strip_prefix("sha256:"));
        let sha256 = sha256.map(str::parse).transpose();
        Ok(Self {
            sha256: sha256
                .with_context(|| format!("failed to read the digest of artifact `{}`", raw.name))?,
            id: raw.id,
            name: raw.name,
            size: raw.size_in_bytes,
            keeping: if raw.expired {
                Keeping::Expired(raw.expires_at)
            } else {
                Keeping::Kept
            },
        })
    }
}

pub(super) fn parse<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text)
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
        assert_eq!((run.attempt, run.facts.origin), (1, RunOrigin::Fork));
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
        assert_eq!(told.keeping, Keeping::Expired(Some(at.to_owned())));
        for digest in [Value::Null, json!("sha512:00")] {
            let untold = artifact(digest, false, Value::Null).unwrap();
            assert_eq!((untold.sha256, untold.keeping), (None, Keeping::Kept));
        }
        let short = artifact(json!("sha256:00"), false, Value::Null).unwrap_err();
        insta::assert_snapshot!(render(&short), @r#"
        error: failed to read the digest of artifact `a`
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
          caused by: invalid length 0, expected struct RawRun with 8 elements
        error: failed to read a run
          caused by: invalid type: string "1", expected u64
        "#);
    }
}
