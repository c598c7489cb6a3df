//! Looks up workflow runs, their artifacts, commits, pull requests and branches.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value;

use super::{
    failure::ApiFailureKind,
    model::{RunArtifact, WorkflowRun},
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

impl GitHub<'_> {
    /// The details of one run.
    pub fn run(&self, repository: &Repository, id: &RunId) -> Result<WorkflowRun> {
        let route = self.route(repository, &["actions", "runs", id.as_str()], "");
        let (run, _) = self
            .page(&route)
            .with_context(|| format!("failed to look up run `{id}` of `{repository}`"))?;
        WorkflowRun::read(&run, repository)
    }

    /// The full hash of a commit, from a short hash, a branch or a tag.
    pub fn commit(&self, repository: &Repository, name: &str) -> Result<String> {
        let what = format!("commit `{name}` of `{repository}`");
        self.look_up(repository, &["commits", name], "/sha", &what)
    }

    /// The newest commit of a pull request.
    pub fn head_of_pull(&self, repository: &Repository, number: u64) -> Result<String> {
        let what = format!("pull request {number} of `{repository}`");
        let segments = ["pulls", &number.to_string()];
        self.look_up(repository, &segments, "/head/sha", &what)
    }

    pub fn default_branch(&self, repository: &Repository) -> Result<String> {
        let what = format!("`{repository}`");
        self.look_up(repository, &[], "/default_branch", &what)
    }

    /// The text at `pointer` of an answer.
    fn look_up(
        &self,
        repository: &Repository,
        segments: &[&str],
        pointer: &str,
        what: &str,
    ) -> Result<String> {
        let route = self.route(repository, segments, "");
        let look_up = || -> Result<String> {
            let (answer, _) = self.page(&route)?;
            let text = answer.pointer(pointer).and_then(Value::as_str);
            let strange = || self.strange(&route, &format!("it has no `{pointer}`"));
            text.map(str::to_owned).ok_or_else(strange)
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
        let mut runs = Vec::new();
        let take = |run| {
            runs.push(run);
            true
        };
        self.each_run(repository, workflow, &query, usize::MAX, take)
            .with_context(|| {
                format!("failed to list the runs of `{workflow}` for commit `{commit}`")
            })?;
        Ok(newest_first(runs))
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
        let query = format!("branch={}&per_page={most}", percent_encode(branch));
        let mut runs = Vec::new();
        let take = |run: WorkflowRun| {
            if run.facts.origin == RunOrigin::Own {
                runs.push(run);
            }
            runs.len() < most
        };
        self.each_run(repository, workflow, &query, MOST_PAGES, take)
            .with_context(|| {
                format!("failed to list the runs of `{workflow}` on branch `{branch}`")
            })?;
        let mut runs = newest_first(runs);
        runs.truncate(most);
        Ok(runs)
    }

    fn each_run(
        &self,
        repository: &Repository,
        workflow: &Workflow,
        query: &str,
        most_pages: usize,
        mut take: impl FnMut(WorkflowRun) -> bool,
    ) -> Result<()> {
        let segments = ["actions", "workflows", &workflow.to_string(), "runs"];
        let first = self.route(repository, &segments, query);
        let take = |run: &Value| Ok(take(WorkflowRun::read(run, repository)?));
        self.each(&first, "workflow_runs", most_pages, take)?;
        Ok(())
    }

    /// The artifacts that the jobs of a run have uploaded with `actions/upload-artifact`, sorted by
    /// name. If several attempts uploaded one name, the last upload.
    pub fn artifacts(&self, repository: &Repository, id: &RunId) -> Result<Vec<RunArtifact>> {
        let segments = ["actions", "runs", id.as_str(), "artifacts"];
        let first = self.route(repository, &segments, "per_page=100");
        let mut newest: BTreeMap<String, RunArtifact> = BTreeMap::new();
        let take = |artifact: &Value| {
            let artifact = RunArtifact::read(artifact)?;
            let earlier = newest.get(&artifact.name);
            if earlier.is_none_or(|earlier| earlier.id < artifact.id) {
                newest.insert(artifact.name.clone(), artifact);
            }
            Ok(true)
        };
        let list = || -> Result<()> {
            let (found, promised) = self.each(&first, "artifacts", usize::MAX, take)?;
            if found < promised {
                let said = format!("{found} of {promised} artifacts were listed");
                return Err(self.refused(ApiFailureKind::Unavailable, &first, &said));
            }
            Ok(())
        };
        list().with_context(|| {
            format!("failed to list the artifacts of run `{id}` of `{repository}`")
        })?;
        Ok(newest.into_values().collect())
    }

    /// Calls `take` with each element of a list, page by page, until it returns that this page is
    /// enough. Returns how many elements there were, and how many the first page promises.
    fn each(
        &self,
        first: &str,
        list: &str,
        most_pages: usize,
        mut take: impl FnMut(&Value) -> Result<bool>,
    ) -> Result<(u64, u64)> {
        let (mut ids, mut promised) = (BTreeSet::new(), None);
        let mut next = Some(first.to_owned());
        for _ in 0..most_pages {
            let Some(route) = next else { break };
            let (page, further) = self.page(&route)?;
            let elements = page.get(list).and_then(Value::as_array);
            let elements =
                elements.ok_or_else(|| self.strange(&route, &format!("it has no `{list}`")))?;
            promised = promised.or(page.get("total_count").and_then(Value::as_u64));
            let (known, mut wants_more) = (ids.len(), true);
            for element in elements {
                // A run that starts between two requests shifts others to the next page, so they
                // appear twice.
                if ids.insert(element.get("id").and_then(Value::as_u64)) {
                    wants_more = take(element)?;
                }
            }
            // A server that repeats a page would make us list forever.
            next = further.filter(|_| wants_more && ids.len() > known);
        }
        Ok((ids.len() as u64, promised.unwrap_or_default()))
    }
}

fn newest_first(mut runs: Vec<WorkflowRun>) -> Vec<WorkflowRun> {
    runs.sort_by_key(|run| {
        let id = run.id.as_str().to_owned();
        Reverse((run.created_at.clone(), id.len(), id))
    });
    runs
}
