//! Looks up workflow runs, their artifacts, commits, pull requests and branches. Of GitHub's
//! answers, fields that it may omit are optional.

use std::{cmp::Reverse, hash::Hash};

use itertools::Itertools as _;
use octocrab::Page;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};

use super::client::GitHub;
use crate::{
    digest::Sha256,
    error::{Context as _, Result, anyhow},
    location::percent_encode,
    run::{Repository, RunFacts, RunId, RunOrigin, Workflow},
};

/// How many runs of a branch are read. Runs of a branch with the same name in forks are listed as
/// well, and can fill some of the pages.
const MOST_RUNS: usize = 500;
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
    head_repository: Option<HeadRepository>,
}

#[derive(Clone, Debug, Deserialize)]
struct HeadRepository {
    full_name: Option<String>,
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

    /// What the place of its outputs depends on. `repository` is that of the run.
    pub fn facts(&self, repository: &Repository) -> RunFacts {
        RunFacts::new(repository, self.head_repository(), self.updated_at.clone())
    }
}

#[derive(Deserialize)]
struct PullRequest {
    head: Commit,
}

#[derive(Deserialize)]
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
}

/// Reads `sha256:...`. A digest of another algorithm is ignored.
fn sha256<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Sha256>, D::Error> {
    let digest: Option<String> = Deserialize::deserialize(from)?;
    let digits = digest.as_deref().and_then(|it| it.strip_prefix("sha256:"));
    digits.map(str::parse).transpose().map_err(D::Error::custom)
}

/// Which runs of a workflow are looked for.
#[derive(Clone, Copy, Debug, derive_more::Display)]
pub enum RunsOf<'a> {
    #[display("on branch `{_0}`")]
    Branch(&'a str),
    /// The full hash.
    #[display("for commit `{_0}`")]
    Commit(&'a str),
}

impl GitHub {
    /// The details of one run.
    pub fn run(&self, repository: &Repository, id: &RunId) -> Result<WorkflowRun> {
        self.get(&format!("/repos/{repository}/actions/runs/{id}"))
            .with_context(|| format!("failed to look up run `{id}` of `{repository}`"))
    }

    /// The full hash of a commit, from a short hash, a branch or a tag.
    pub fn commit(&self, repository: &Repository, name: &str) -> Result<String> {
        let commit = percent_encode(name);
        let commit: Result<Commit> = self.get(&format!("/repos/{repository}/commits/{commit}"));
        let commit =
            commit.with_context(|| format!("failed to look up commit `{name}` of `{repository}`"));
        Ok(commit?.sha)
    }

    /// The newest commit of the branch of a pull request.
    pub fn head_of_pull(&self, repository: &Repository, number: u64) -> Result<String> {
        let pull: Result<PullRequest> = self.get(&format!("/repos/{repository}/pulls/{number}"));
        let pull = pull
            .with_context(|| format!("failed to look up pull request {number} of `{repository}`"));
        Ok(pull?.head.sha)
    }

    pub fn default_branch(&self, repository: &Repository) -> Result<String> {
        let answer: Result<DefaultBranch> = self.get(&format!("/repos/{repository}"));
        let answer = answer.with_context(|| format!("failed to look up `{repository}`"));
        Ok(answer?.default_branch)
    }

    /// The newest runs of a workflow, newest first. Runs of a branch with the same name in a fork are
    /// ignored: anybody can create such a branch.
    pub fn runs(
        &self,
        repository: &Repository,
        workflow: &Workflow,
        of: RunsOf<'_>,
        most: usize,
    ) -> Result<Vec<WorkflowRun>> {
        let (filter, page) = match of {
            RunsOf::Branch(name) => (format!("branch={}", percent_encode(name)), most),
            RunsOf::Commit(hash) => (format!("head_sha={}", percent_encode(hash)), LONGEST_PAGE),
        };
        let is_wanted = |run: &WorkflowRun| {
            matches!(of, RunsOf::Commit(_)) || run.facts(repository).origin == RunOrigin::Own
        };
        let is_enough = |runs: &[WorkflowRun]| {
            runs.len() >= MOST_RUNS || runs.iter().filter(|it| is_wanted(it)).count() >= most
        };
        let route = format!(
            "/repos/{repository}/actions/workflows/{workflow}/runs?{filter}&per_page={}",
            page.min(LONGEST_PAGE)
        );
        let runs = self.list(&route, |run: &WorkflowRun| run.id.clone(), is_enough);
        let (mut runs, _) =
            runs.with_context(|| format!("failed to list the runs of `{workflow}` {of}"))?;
        runs.retain(is_wanted);
        runs.sort_by_cached_key(|run| {
            let id: Option<u64> = run.id.as_str().parse().ok();
            Reverse((run.created_at.clone(), id))
        });
        runs.truncate(most);
        Ok(runs)
    }

    /// The artifacts that the jobs of a run have uploaded with `actions/upload-artifact`, sorted by
    /// name. If several attempts uploaded one name, the last upload.
    pub fn artifacts(&self, repository: &Repository, id: &RunId) -> Result<Vec<RunArtifact>> {
        let route = format!("/repos/{repository}/actions/runs/{id}/artifacts?per_page=100");
        let failed = || format!("failed to list the artifacts of run `{id}` of `{repository}`");
        let list = self.list(&route, |it: &RunArtifact| it.id, |_| false);
        let (mut artifacts, promised) = list.with_context(failed)?;
        let found = artifacts.len() as u64;
        if found < promised {
            let error = anyhow!("GitHub listed {found} of {promised} artifacts");
            return Err(error.context(failed()));
        }
        artifacts.sort_by(|one, other| (&one.name, other.id).cmp(&(&other.name, one.id)));
        artifacts.dedup_by(|one, other| one.name == other.name);
        Ok(artifacts)
    }

    /// The elements of a list, until those that were read are enough, and how many there are in all.
    ///
    /// A page with fewer elements than were asked for need not be the last one, and a run that starts
    /// between two requests shifts others to the next page, so that they appear twice. So pages are
    /// requested until all promised elements were there, or until one has nothing new.
    fn list<K: Eq + Hash, T: DeserializeOwned>(
        &self,
        first: &str,
        id: impl Fn(&T) -> K,
        is_enough: impl Fn(&[T]) -> bool,
    ) -> Result<(Vec<T>, u64)> {
        let mut found: Vec<T> = Vec::new();
        let mut number = 0;
        loop {
            number += 1;
            let page: Page<T> = self.get(&format!("{first}&page={number}"))?;
            let (promised, known) = (page.total_count, found.len());
            found = found.into_iter().chain(page).unique_by(&id).collect();
            let is_all = promised.is_some_and(|promised| found.len() as u64 >= promised);
            if is_all || found.len() == known || is_enough(&found) {
                return Ok((found, promised.unwrap_or_default()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
