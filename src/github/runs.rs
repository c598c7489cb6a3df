//! Looks up workflow runs, commits, pull requests and branches.

use std::{cmp::Reverse, collections::BTreeSet};

use serde_json::Value;

use super::{
    model::{Commit, Pull, RepositoryFacts, RunsPage, WorkflowRun},
    route::Workflow,
    transport::GitHub,
};
use crate::{
    error::{Context as _, Result},
    location::percent_encode,
    run::{Repository, RunId, RunOrigin},
};

/// How many pages of a branch's runs are read. Runs of a branch with the same name in forks are
/// listed as well, and can fill some of the pages.
const MOST_PAGES: usize = 5;

/// Where reading a list stops.
#[derive(Clone, Copy)]
struct Limit {
    runs: usize,
    pages: usize,
}

impl GitHub<'_> {
    /// The details of one run.
    pub fn run(&self, repository: &Repository, id: &RunId) -> Result<WorkflowRun> {
        let route = self.route(repository, &["actions", "runs", id.as_str()], "");
        let run: Value = self
            .get(&route)
            .with_context(|| format!("failed to look up run `{id}` of `{repository}`"))?;
        WorkflowRun::read(&run, repository)
    }

    /// The full hash of a commit, from a short hash, a branch or a tag.
    pub fn commit(&self, repository: &Repository, name: &str) -> Result<String> {
        let route = self.route(repository, &["commits", name], "");
        let commit: Commit = self
            .get(&route)
            .with_context(|| format!("failed to look up commit `{name}` of `{repository}`"))?;
        Ok(commit.sha)
    }

    /// The newest commit of a pull request.
    pub fn head_of_pull(&self, repository: &Repository, number: u64) -> Result<String> {
        let route = self.route(repository, &["pulls", &number.to_string()], "");
        let pull: Pull = self.get(&route).with_context(|| {
            format!("failed to look up pull request {number} of `{repository}`")
        })?;
        Ok(pull.head.sha)
    }

    pub fn default_branch(&self, repository: &Repository) -> Result<String> {
        let route = self.route(repository, &[], "");
        let facts: RepositoryFacts = self
            .get(&route)
            .with_context(|| format!("failed to look up `{repository}`"))?;
        Ok(facts.default_branch)
    }

    /// The runs of a workflow for a commit (full hash), newest first.
    pub fn runs_of_commit(
        &self,
        repository: &Repository,
        workflow: &Workflow,
        commit: &str,
    ) -> Result<Vec<WorkflowRun>> {
        let filter = format!("head_sha={}", percent_encode(commit));
        let limit = Limit {
            runs: usize::MAX,
            pages: usize::MAX,
        };
        self.runs(repository, workflow, &filter, limit, |_| true)
            .with_context(|| {
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
        let filter = format!("branch={}", percent_encode(branch));
        let limit = Limit {
            runs: most,
            pages: MOST_PAGES,
        };
        let is_own = |run: &WorkflowRun| run.facts.origin == RunOrigin::Own;
        self.runs(repository, workflow, &filter, limit, is_own)
            .with_context(|| {
                format!("failed to list the runs of `{workflow}` on branch `{branch}`")
            })
    }

    fn runs(
        &self,
        repository: &Repository,
        workflow: &Workflow,
        filter: &str,
        limit: Limit,
        is_wanted: impl Fn(&WorkflowRun) -> bool,
    ) -> Result<Vec<WorkflowRun>> {
        let segments = ["actions", "workflows", &workflow.to_string(), "runs"];
        let query = format!("{filter}&per_page={}", limit.runs.clamp(1, 100));
        let mut next = Some(self.route(repository, &segments, &query));
        let (mut runs, mut ids, mut pages) = (Vec::new(), BTreeSet::new(), 0);
        while let Some(route) = next.filter(|_| runs.len() < limit.runs && pages < limit.pages) {
            let (page, further): (RunsPage, _) = self.page(&route)?;
            let known = ids.len();
            for run in &page.workflow_runs {
                let run = WorkflowRun::read(run, repository)?;
                // A run that starts between two requests shifts others to the next page, so they
                // appear twice.
                if ids.insert(run.id.clone()) && is_wanted(&run) {
                    runs.push(run);
                }
            }
            pages += 1;
            // A server that repeats a page would make us list forever.
            next = further.filter(|_| ids.len() > known);
        }
        runs.sort_by_key(|run| {
            Reverse((
                run.created_at.clone(),
                run.id.as_str().len(),
                run.id.clone(),
            ))
        });
        runs.truncate(limit.runs);
        Ok(runs)
    }

    pub(super) fn route(&self, repository: &Repository, segments: &[&str], query: &str) -> String {
        let mut path = vec!["repos", repository.owner(), repository.name()];
        path.extend_from_slice(segments);
        self.api().route(&path, query)
    }
}
