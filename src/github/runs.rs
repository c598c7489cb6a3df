//! Looks up workflow runs, their artifacts, commits, pull requests and branches. Of GitHub's
//! answers, fields that it may omit are optional.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use octocrab::Page;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use super::{client::GitHub, route::Workflow};
use crate::{
    digest::Sha256,
    error::{Context as _, Result, Secret},
    location::percent_encode,
    run::{Repository, RunFacts, RunId, RunOrigin},
};

/// How many pages of a branch's runs are read. Runs of a branch with the same name in forks are
/// listed as well, and can fill some of the pages.
const MOST_PAGES: usize = 5;
/// GitHub lists no more than this on one page.
const LONGEST_PAGE: usize = 100;

/// A run of a workflow.
#[derive(Clone, Debug)]
pub struct WorkflowRun {
    pub id: RunId,
    /// The head commit: of a pull request, the newest one of its branch.
    pub commit: String,
    pub state: RunState,
    /// The creation time as GitHub writes it (ISO 8601), so that sorting the texts sorts by time.
    pub created_at: String,
    pub page: String,
    pub facts: RunFacts,
    pub details: RunDetails,
}

/// What GitHub reports about a run for the user to know. Nothing is decided by it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RunDetails {
    #[serde(rename = "run_attempt")]
    pub attempt: Option<u64>,
    /// What started the run, such as `push`.
    pub event: Option<String>,
    #[serde(rename = "head_branch")]
    pub branch: Option<String>,
    /// The start of this attempt.
    #[serde(rename = "run_started_at")]
    pub started_at: Option<String>,
    /// The file of the workflow, `.github/workflows/ci.yml`.
    #[serde(rename = "path")]
    pub workflow: Option<String>,
    /// The pull requests that the run is for. Empty if they come from a fork.
    #[serde(rename = "pull_requests")]
    pulls: Option<Vec<PullNumber>>,
    head_repository: Option<HeadRepository>,
}

#[derive(Clone, Debug, Deserialize)]
struct HeadRepository {
    full_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct PullNumber {
    number: u64,
}

impl RunDetails {
    /// The repository whose code the run built, unless it was deleted.
    pub fn head_repository(&self) -> Option<&str> {
        self.head_repository.as_ref()?.full_name.as_deref()
    }

    /// The pull request that the run is for, if there is exactly one.
    pub fn pull(&self) -> Option<u64> {
        match self.pulls.as_deref() {
            Some([only]) => Some(only.number),
            _ => None,
        }
    }
}

/// The commits of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullCommits {
    /// The newest commit of its branch.
    pub head: String,
    /// What GitHub merged it to: the commit that its workflows check out.
    pub merge: Option<String>,
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
    #[serde(flatten)]
    details: RunDetails,
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Running(word) | Self::Ended(word)) = self;
        f.write_str(word)
    }
}

impl WorkflowRun {
    fn read(value: &Value, repository: &Repository) -> Result<Self> {
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
            details: raw.details,
        })
    }
}

impl GitHub {
    /// The details of one run.
    pub fn run(&self, repository: &Repository, id: &RunId) -> Result<WorkflowRun> {
        let route = Self::route(repository, &["actions", "runs", id.as_str()], "");
        let run: Value = self
            .get(&route)
            .with_context(|| format!("failed to look up run `{id}` of `{repository}`"))?;
        WorkflowRun::read(&run, repository)
    }

    /// The full hash of a commit, from a short hash, a branch or a tag.
    pub fn commit(&self, repository: &Repository, name: &str) -> Result<String> {
        let what = format!("commit `{name}` of `{repository}`");
        Ok(self
            .look_up(repository, &["commits", name], "/sha", &what)?
            .0)
    }

    /// The commits of a pull request.
    pub fn pull(&self, repository: &Repository, number: u64) -> Result<PullCommits> {
        let what = format!("pull request {number} of `{repository}`");
        let segments = ["pulls", &number.to_string()];
        let (head, pull) = self.look_up(repository, &segments, "/head/sha", &what)?;
        let merge = pull.get("merge_commit_sha").and_then(Value::as_str);
        Ok(PullCommits {
            head,
            merge: merge.map(str::to_owned),
        })
    }

    pub fn default_branch(&self, repository: &Repository) -> Result<String> {
        let what = format!("`{repository}`");
        Ok(self.look_up(repository, &[], "/default_branch", &what)?.0)
    }

    /// The text at `pointer` of an answer, and all of that answer.
    fn look_up(
        &self,
        repository: &Repository,
        segments: &[&str],
        pointer: &str,
        what: &str,
    ) -> Result<(String, Value)> {
        let route = Self::route(repository, segments, "");
        let look_up = || -> Result<(String, Value)> {
            let answer: Value = self.get(&route)?;
            let text = answer.pointer(pointer).and_then(Value::as_str);
            let unexpected = || self.unexpected(&route, &format!("it has no `{pointer}`"));
            let text = text.map(str::to_owned).ok_or_else(unexpected)?;
            Ok((text, answer))
        };
        look_up().with_context(|| format!("failed to look up {what}"))
    }

    /// The runs of a workflow for a commit (full hash), newest first.
    pub fn runs_of_commit(
        &self,
        repository: &Repository,
        workflow: &Workflow,
        commit: &str,
    ) -> Result<Vec<WorkflowRun>> {
        let query = format!("head_sha={}&per_page=100", percent_encode(commit));
        let first = Self::runs_route(repository, workflow, &query);
        self.runs(repository, &first, None).with_context(|| {
            format!("failed to list the runs of `{workflow}` for commit `{commit}`")
        })
    }

    /// The newest runs of a workflow on a branch, newest first. Runs of a branch with the same name
    /// in a fork are ignored: anybody can create such a branch.
    pub fn runs_of_branch(
        &self,
        repository: &Repository,
        workflow: &Workflow,
        branch: &str,
        most: usize,
    ) -> Result<Vec<WorkflowRun>> {
        let page = most.min(LONGEST_PAGE);
        let query = format!("branch={}&per_page={page}", percent_encode(branch));
        let first = Self::runs_route(repository, workflow, &query);
        self.runs(repository, &first, Some(most)).with_context(|| {
            format!("failed to list the runs of `{workflow}` on branch `{branch}`")
        })
    }

    fn runs_route(repository: &Repository, workflow: &Workflow, query: &str) -> String {
        let segments = ["actions", "workflows", &workflow.to_string(), "runs"];
        Self::route(repository, &segments, query)
    }

    /// The runs of a list, newest first. With a number, only so many of the newest that are of the
    /// repository itself.
    fn runs(
        &self,
        repository: &Repository,
        first: &str,
        most_own: Option<usize>,
    ) -> Result<Vec<WorkflowRun>> {
        let most = most_own.unwrap_or(usize::MAX);
        let most_pages = most_own.map_or(usize::MAX, |_| MOST_PAGES);
        let mut runs = Vec::new();
        self.each(first, most_pages, |run| {
            let run = WorkflowRun::read(run, repository)?;
            if most_own.is_none() || run.facts.origin == RunOrigin::Own {
                runs.push(run);
            }
            Ok(runs.len() < most)
        })?;
        runs.sort_by_key(|run| {
            let id = run.id.as_str().to_owned();
            Reverse((run.created_at.clone(), id.len(), id))
        });
        runs.truncate(most);
        Ok(runs)
    }

    /// The artifacts that the jobs of a run have uploaded with `actions/upload-artifact`, sorted by
    /// name. If several attempts uploaded one name, the last upload.
    pub fn artifacts(&self, repository: &Repository, id: &RunId) -> Result<Vec<RunArtifact>> {
        let segments = ["actions", "runs", id.as_str(), "artifacts"];
        let first = Self::route(repository, &segments, "per_page=100");
        let mut newest: BTreeMap<String, RunArtifact> = BTreeMap::new();
        let take = |artifact: &Value| {
            let artifact =
                RunArtifact::deserialize(artifact).context("failed to read an artifact")?;
            let earlier = newest.get(&artifact.name);
            if earlier.is_none_or(|earlier| earlier.id < artifact.id) {
                newest.insert(artifact.name.clone(), artifact);
            }
            Ok(true)
        };
        let list = || -> Result<()> {
            let (found, promised) = self.each(&first, usize::MAX, take)?;
            if found < promised {
                let cause = format!("{found} of {promised} artifacts were listed");
                return Err(self.incomplete(&first, &cause));
            }
            Ok(())
        };
        list().with_context(|| {
            format!("failed to list the artifacts of run `{id}` of `{repository}`")
        })?;
        Ok(newest.into_values().collect())
    }

    /// The address of the bytes of an artifact, which anyone can use for the next minute.
    pub async fn locate_artifact(
        &self,
        repository: &Repository,
        artifact: &RunArtifact,
    ) -> Result<Secret> {
        let id = artifact.id.to_string();
        let route = Self::route(repository, &["actions", "artifacts", &id, "zip"], "");
        self.locate(&route).await
    }

    /// Calls `take` with each element of a list, page by page, until it returns that this page is
    /// enough. Returns how many elements there were, and how many the first page promises.
    ///
    /// A page with fewer elements than were asked for need not be the last one. So pages are
    /// requested until all promised elements were there, or until one has nothing new.
    fn each(
        &self,
        first: &str,
        most_pages: usize,
        mut take: impl FnMut(&Value) -> Result<bool>,
    ) -> Result<(u64, u64)> {
        let (mut ids, mut promised) = (BTreeSet::new(), None);
        for number in 1..=most_pages {
            let route = format!("{first}&page={number}");
            let page: Page<Value> = self.get(&route)?;
            promised = promised.or(page.total_count);
            let (known, mut wants_more) = (ids.len(), true);
            for element in &page {
                // A run that starts between two requests shifts others to the next page, so they
                // appear twice.
                if ids.insert(element.get("id").and_then(Value::as_u64)) {
                    wants_more = take(element)?;
                }
            }
            let is_all = promised.is_some_and(|promised| ids.len() as u64 >= promised);
            if !wants_more || is_all || ids.len() == known {
                break;
            }
        }
        Ok((ids.len() as u64, promised.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests;
