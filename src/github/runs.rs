//! Looks up workflow runs, their artifacts, commits, pull requests and branches. The fields that GitHub
//! may omit are optional.

use std::{cmp::Reverse, hash::Hash};

use itertools::Itertools as _;
use octocrab::Page;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};

use super::{client::GitHub, failure::ApiFailureKind};
use crate::run::{Repository, RunFacts, RunId, RunOrigin, Workflow};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, anyhow},
};
use rocwheel_store::location::percent_encode;

/// How many runs of a branch are read. Runs of a branch with the same name in forks are listed as
/// well, and can fill some of the pages.
const MOST_RUNS: usize = 500;
/// GitHub lists no more than this on one page.
const LONGEST_PAGE: usize = 100;
/// How many pages of a list are read. A run has less than a thousand artifacts.
const MOST_PAGES: usize = 100;

/// A run of a workflow.
#[derive(Clone, Debug, Deserialize)]
pub struct WorkflowRun {
    #[serde(deserialize_with = "read_run_id")]
    pub id: RunId,
    /// The head commit. For a pull request, it is the newest commit of its branch.
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

fn read_run_id<'de, D: Deserializer<'de>>(from: D) -> Result<RunId, D::Error> {
    u64::deserialize(from)?.to_string().parse().map_err(D::Error::custom)
}

impl WorkflowRun {
    /// The conclusion of a run that has ended, such as `success`. `None` while another attempt is running,
    /// although GitHub then still returns the conclusion of the attempt before.
    pub fn conclusion(&self) -> Option<&str> {
        let has_ended = self.status.as_deref() == Some("completed");
        has_ended.then(|| self.conclusion.as_deref().unwrap_or_default())
    }

    /// Its conclusion, or its status, such as `in_progress`, if it has not ended.
    pub fn state(&self) -> &str {
        self.conclusion().unwrap_or_else(|| self.status.as_deref().unwrap_or_default())
    }

    /// The repository whose code the run built, unless it was deleted.
    pub fn head_repository(&self) -> Option<&str> {
        self.head_repository.as_ref()?.full_name.as_deref()
    }

    /// What the place of its outputs depends on. `repository` is the repository in which the run ran.
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
    /// The digest of the bytes as they are downloaded. Older uploads have none.
    #[serde(default, rename = "digest", deserialize_with = "read_sha256")]
    pub sha256: Option<Sha256>,
    /// Whether it cannot be downloaded any more.
    pub expired: bool,
}

/// Reads `sha256:...`. A digest of another algorithm is ignored.
fn read_sha256<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Sha256>, D::Error> {
    let digest: Option<String> = Deserialize::deserialize(from)?;
    digest
        .as_deref()
        .and_then(|digest| digest.strip_prefix("sha256:"))
        .map(str::parse)
        .transpose()
        .map_err(D::Error::custom)
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
        self.get(&format!("/repos/{repository}/commits/{}", percent_encode(name)))
            .map(|commit: Commit| commit.sha)
            .with_context(|| format!("failed to look up commit `{name}` of `{repository}`"))
    }

    /// The newest commit of the branch of a pull request.
    pub fn head_of_pull(&self, repository: &Repository, number: u64) -> Result<String> {
        self.get(&format!("/repos/{repository}/pulls/{number}"))
            .map(|pull: PullRequest| pull.head.sha)
            .with_context(|| format!("failed to look up pull request {number} of `{repository}`"))
    }

    pub fn default_branch(&self, repository: &Repository) -> Result<String> {
        self.get(&format!("/repos/{repository}"))
            .map(|repository: DefaultBranch| repository.default_branch)
            .with_context(|| format!("failed to look up `{repository}`"))
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
        let (filter, page_length) = match of {
            RunsOf::Branch(name) => (format!("branch={}", percent_encode(name)), most),
            // A commit has few runs: the longest page mostly has all of them.
            RunsOf::Commit(hash) => (format!("head_sha={}", percent_encode(hash)), LONGEST_PAGE),
        };
        // A hash names the code itself, so a run for it may be in a fork.
        let is_wanted = |run: &WorkflowRun| {
            matches!(of, RunsOf::Commit(_)) || run.facts(repository).origin == RunOrigin::Own
        };
        let is_enough = |runs: &[WorkflowRun]| {
            runs.len() >= MOST_RUNS || runs.iter().filter(|run| is_wanted(run)).count() >= most
        };
        let route = format!(
            "/repos/{repository}/actions/workflows/{workflow}/runs?{filter}&per_page={}",
            page_length.min(LONGEST_PAGE)
        );
        let mut runs = self
            .list(&route, |run: &WorkflowRun| run.id.clone(), is_enough)
            .with_context(|| format!("failed to list the runs of `{workflow}` {of}"))?
            .elements;
        runs.retain(is_wanted);
        runs.sort_by_cached_key(|run| {
            let id: Option<u64> = run.id.as_str().parse().ok();
            Reverse((run.created_at.clone(), id))
        });
        runs.truncate(most);
        Ok(runs)
    }

    /// The artifacts that the jobs of a run have uploaded with `actions/upload-artifact`, sorted by
    /// name. If several attempts uploaded an artifact of one name, only the last upload is listed.
    pub fn artifacts(&self, repository: &Repository, id: &RunId) -> Result<Vec<RunArtifact>> {
        let route = format!("/repos/{repository}/actions/runs/{id}/artifacts?per_page=100");
        let failed = || format!("failed to list the artifacts of run `{id}` of `{repository}`");
        let List { elements: mut artifacts, total } = self
            .list(&route, |artifact: &RunArtifact| artifact.id, |_| false)
            .with_context(failed)?;
        let listed = artifacts.len() as u64;
        // A set that is built from some of the artifacts would lack files without a word.
        if listed < total {
            let error = anyhow!("GitHub listed {listed} of {total} artifacts");
            return Err(error.context(failed()));
        }
        // Ids grow, so the last upload of a name comes first, and the others are removed.
        artifacts.sort_by(|a, b| (&a.name, b.id).cmp(&(&b.name, a.id)));
        artifacts.dedup_by(|a, b| a.name == b.name);
        Ok(artifacts)
    }

    /// Reads the pages of a list until `is_enough`. `route` has a query.
    ///
    /// A page with fewer elements than were asked for need not be the last page, and a run that starts
    /// between two requests shifts other runs to the next page, so that they appear twice. So pages are
    /// requested until all elements that GitHub counts were listed, or until a page has no new element.
    /// Only a server that is no API has more than [`MOST_PAGES`].
    fn list<K: Eq + Hash, T: DeserializeOwned>(
        &self,
        route: &str,
        id: impl Fn(&T) -> K,
        is_enough: impl Fn(&[T]) -> bool,
    ) -> Result<List<T>> {
        let mut elements: Vec<T> = Vec::new();
        for number in 1..=MOST_PAGES {
            let page: Page<T> = self.get(&format!("{route}&page={number}"))?;
            let total = page.total_count;
            let count_before = elements.len();
            elements = elements.into_iter().chain(page).unique_by(&id).collect();
            let is_complete = total.is_some_and(|total| elements.len() as u64 >= total);
            if is_complete || elements.len() == count_before || is_enough(&elements) {
                return Ok(List { elements, total: total.unwrap_or_default() });
            }
        }
        let cause = format!("its list has more than {MOST_PAGES} pages");
        Err(ApiFailureKind::Unexpected.error(route, &cause))
    }
}

/// The elements of a list that were read.
struct List<T> {
    elements: Vec<T>,
    /// How many elements GitHub counts. 0 if it does not say.
    total: u64,
}

#[cfg(test)]
mod tests;
