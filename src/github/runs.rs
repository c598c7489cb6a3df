//! Looks up workflow runs, their artifacts, commits, pull requests and branches. Of GitHub's
//! answers, fields that it may omit are optional.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Display};

use octocrab::Page;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};

use super::{client::GitHub, failure::ApiFailureKind, route::Workflow};
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
#[derive(Clone, Debug, Deserialize)]
pub struct WorkflowRun {
    #[serde(deserialize_with = "run_id")]
    pub id: RunId,
    /// The head commit: of a pull request, the newest one of its branch.
    #[serde(rename = "head_sha")]
    pub commit: String,
    pub status: Option<String>,
    conclusion: Option<String>,
    #[serde(rename = "html_url")]
    pub page: Option<String>,
    /// As GitHub writes times (ISO 8601), so that sorting the texts sorts by time.
    pub created_at: Option<String>,
    /// The start of this attempt.
    pub run_started_at: Option<String>,
    pub updated_at: Option<String>,
    pub run_attempt: Option<u64>,
    /// What started the run, such as `push`.
    pub event: Option<String>,
    #[serde(rename = "head_branch")]
    pub branch: Option<String>,
    /// The file of the workflow, `.github/workflows/ci.yml`.
    #[serde(rename = "path")]
    pub workflow: Option<String>,
    /// Empty if they come from a fork.
    pull_requests: Option<Vec<PullNumber>>,
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

fn run_id<'de, D: Deserializer<'de>>(from: D) -> Result<RunId, D::Error> {
    let id = u64::deserialize(from)?.to_string();
    id.parse().map_err(D::Error::custom)
}

impl WorkflowRun {
    /// The conclusion of a run that has ended, such as `success`. While another attempt is running,
    /// GitHub still returns the conclusion of the one before.
    pub fn conclusion(&self) -> Option<&str> {
        let has_ended = self.status.as_deref() == Some("completed");
        has_ended.then(|| self.conclusion.as_deref().unwrap_or_default())
    }

    /// Its conclusion, or its status, such as `in_progress`, if it has not ended.
    pub fn state(&self) -> &str {
        let status = || self.status.as_deref().unwrap_or_default();
        self.conclusion().unwrap_or_else(status)
    }

    /// The repository whose code the run built, unless it was deleted.
    pub fn head_repository(&self) -> Option<&str> {
        self.head_repository.as_ref()?.full_name.as_deref()
    }

    /// The pull request that the run is for, if there is exactly one.
    pub fn pull(&self) -> Option<u64> {
        match self.pull_requests.as_deref() {
            Some([only]) => Some(only.number),
            _ => None,
        }
    }

    /// What the place of its outputs depends on. `repository` is that of the run.
    pub fn facts(&self, repository: &Repository) -> RunFacts {
        RunFacts::new(repository, self.head_repository(), self.updated_at.clone())
    }
}

/// A pull request.
#[derive(Debug, Deserialize)]
pub struct PullRequest {
    head: Commit,
    /// What GitHub merged its head to: the commit that its workflows check out.
    #[serde(rename = "merge_commit_sha")]
    pub merge: Option<String>,
}

impl PullRequest {
    /// The newest commit of its branch.
    pub fn head(&self) -> &str {
        &self.head.sha
    }
}

#[derive(Debug, Deserialize)]
struct Commit {
    sha: String,
}

#[derive(Deserialize)]
struct DefaultBranch {
    default_branch: String,
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

impl GitHub {
    /// The details of one run.
    pub fn run(&self, repository: &Repository, id: &RunId) -> Result<WorkflowRun> {
        let what = format!("run `{id}` of `{repository}`");
        self.look_up(repository, &["actions", "runs", id.as_str()], what)
    }

    /// The full hash of a commit, from a short hash, a branch or a tag.
    pub fn commit(&self, repository: &Repository, name: &str) -> Result<String> {
        let what = format!("commit `{name}` of `{repository}`");
        let commit: Commit = self.look_up(repository, &["commits", name], what)?;
        Ok(commit.sha)
    }

    pub fn pull(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        let what = format!("pull request {number} of `{repository}`");
        self.look_up(repository, &["pulls", &number.to_string()], what)
    }

    pub fn default_branch(&self, repository: &Repository) -> Result<String> {
        let answer: DefaultBranch = self.look_up(repository, &[], format!("`{repository}`"))?;
        Ok(answer.default_branch)
    }

    fn look_up<T: DeserializeOwned>(
        &self,
        repository: &Repository,
        segments: &[&str],
        what: impl Display,
    ) -> Result<T> {
        self.get(&Self::route(repository, segments, ""))
            .with_context(|| format!("failed to look up {what}"))
    }

    /// The runs of a workflow for a commit (full hash), newest first.
    pub fn runs_of_commit(
        &self,
        repository: &Repository,
        workflow: &Workflow,
        commit: &str,
    ) -> Result<Vec<WorkflowRun>> {
        let query = format!("head_sha={}&per_page=100", percent_encode(commit));
        let runs = self.runs(repository, workflow, &query, None);
        runs.with_context(|| {
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
        let runs = self.runs(repository, workflow, &query, Some(most));
        runs.with_context(|| {
            format!("failed to list the runs of `{workflow}` on branch `{branch}`")
        })
    }

    /// The runs of a workflow, newest first. With a number, only so many of the newest that are of
    /// the repository itself.
    fn runs(
        &self,
        repository: &Repository,
        workflow: &Workflow,
        query: &str,
        most_own: Option<usize>,
    ) -> Result<Vec<WorkflowRun>> {
        let segments = ["actions", "workflows", &workflow.to_string(), "runs"];
        let first = Self::route(repository, &segments, query);
        let is_own = |run: &WorkflowRun| run.facts(repository).origin == RunOrigin::Own;
        let is_enough = |runs: &BTreeMap<RunId, WorkflowRun>| {
            most_own.is_some_and(|most| runs.values().filter(|run| is_own(run)).count() >= most)
        };
        let pages = most_own.map_or(usize::MAX, |_| MOST_PAGES);
        let (runs, _) = self.list(&first, pages, |run| run.id.clone(), is_enough)?;
        let mut runs: Vec<WorkflowRun> = runs.into_values().collect();
        runs.retain(|run| most_own.is_none() || is_own(run));
        runs.sort_by_key(|run| {
            let id = run.id.as_str().to_owned();
            Reverse((run.created_at.clone(), id.len(), id))
        });
        runs.truncate(most_own.unwrap_or(usize::MAX));
        Ok(runs)
    }

    /// The artifacts that the jobs of a run have uploaded with `actions/upload-artifact`, sorted by
    /// name. If several attempts uploaded one name, the last upload.
    pub fn artifacts(&self, repository: &Repository, id: &RunId) -> Result<Vec<RunArtifact>> {
        let segments = ["actions", "runs", id.as_str(), "artifacts"];
        let first = Self::route(repository, &segments, "per_page=100");
        let list = || -> Result<BTreeMap<u64, RunArtifact>> {
            let id = |artifact: &RunArtifact| artifact.id;
            let (artifacts, promised) = self.list(&first, usize::MAX, id, |_| false)?;
            let found = artifacts.len() as u64;
            if found < promised {
                let cause = format!("{found} of {promised} artifacts were listed");
                return Err(self.error(ApiFailureKind::Unavailable, &first, &cause));
            }
            Ok(artifacts)
        };
        let artifacts = list().with_context(|| {
            format!("failed to list the artifacts of run `{id}` of `{repository}`")
        })?;
        // In the order of their ids, so that the last upload of a name stays.
        let artifacts = artifacts.into_values().map(|it| (it.name.clone(), it));
        Ok(artifacts
            .collect::<BTreeMap<_, _>>()
            .into_values()
            .collect())
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

    /// The elements of a list by their ids, until those that were read are enough. Returns also how
    /// many the first page promises.
    ///
    /// A page with fewer elements than were asked for need not be the last one, and a run that starts
    /// between two requests shifts others to the next page, so that they appear twice. So pages are
    /// requested until all promised elements were there, or until one has nothing new.
    fn list<K: Ord, T: DeserializeOwned>(
        &self,
        first: &str,
        most_pages: usize,
        id: impl Fn(&T) -> K,
        is_enough: impl Fn(&BTreeMap<K, T>) -> bool,
    ) -> Result<(BTreeMap<K, T>, u64)> {
        let (mut found, mut promised) = (BTreeMap::new(), None);
        for number in 1..=most_pages {
            let page: Page<T> = self.get(&format!("{first}&page={number}"))?;
            promised = promised.or(page.total_count);
            let known = found.len();
            found.extend(page.into_iter().map(|it| (id(&it), it)));
            let is_all = promised.is_some_and(|promised| found.len() as u64 >= promised);
            if is_all || found.len() == known || is_enough(&found) {
                break;
            }
        }
        Ok((found, promised.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests;
