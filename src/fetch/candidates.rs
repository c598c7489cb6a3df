//! The runs that a query may mean: the one that the user named, or those that a search finds, the
//! newest first.

use super::query::{RunQuery, Search};
use crate::{
    console::World,
    error::{Context as _, Hint as _, No, Result, ensure, hinted},
    github::{GitHub, Workflow, WorkflowRun},
    run::{Repository, RunFacts, RunId, RunReference},
};

/// How many runs of a branch are considered.
const MOST_RUNS: usize = 20;

/// A run that the query may mean.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) run: RunReference,
    /// What GitHub reported about the run, if it was asked.
    pub(super) told: Option<WorkflowRun>,
}

impl Search {
    /// The runs that the search finds, at least one; otherwise an error.
    fn runs(
        &self,
        of: &Repository,
        workflow: &Workflow,
        github: &GitHub,
    ) -> Result<Vec<WorkflowRun>> {
        let of_branch = |name: &str| github.runs_of_branch(of, workflow, name, MOST_RUNS);
        let of_commit = |commit: &str| github.runs_of_commit(of, workflow, commit);
        let (runs, what) = match self {
            Self::Commit(name) => (
                of_commit(&github.commit(of, name)?)?,
                format!("for commit `{name}`"),
            ),
            Self::Pull(number) => (
                of_commit(&github.head_of_pull(of, *number)?)?,
                format!("for the newest commit of pull request {number}"),
            ),
            Self::Branch(name) => (of_branch(name)?, format!("on branch `{name}`")),
            Self::Latest => (
                of_branch(&github.default_branch(of)?)?,
                "on the default branch".to_owned(),
            ),
        };
        let message = || No(format!("no run of `{workflow}` {what} in `{of}`"));
        ensure!(
            !runs.is_empty(),
            hinted(message(), "look at `--workflow` and `--repository`")
        );
        Ok(runs)
    }
}

impl RunQuery<'_> {
    /// The candidates for the query. With `--input-dir` and no run, the only one is a local run.
    pub(super) fn candidates(&self, world: &World) -> Result<Vec<Candidate>> {
        let Some(search) = &self.search else {
            if let (Some(_), None) = (&self.input_dir, &self.run) {
                let (run, told) = (RunId::local().into(), None);
                return Ok(vec![Candidate { run, told }]);
            }
            let run = self.run.as_ref().context("no run was named");
            let run = run.hint("pass `--run-id` with an id or the address of a run")?;
            let (run, told) = (run.clone(), None);
            return Ok(vec![Candidate { run, told }]);
        };
        let repository = self.context.repository(&RunId::local().into())?;
        let github = self.connect(None, world)?;
        let runs = search.runs(&repository, &self.workflow, &github)?;
        let candidate = |told: WorkflowRun| Candidate {
            run: RunReference {
                id: told.id.clone(),
                repository: Some(repository.clone()),
                server: None,
            },
            told: Some(told),
        };
        Ok(runs.into_iter().map(candidate).collect())
    }
}

impl Candidate {
    /// The run for messages: `run 7 (0123456789ab)`.
    pub(super) fn in_words(&self) -> String {
        match &self.told {
            None => format!("run {}", self.run.id),
            Some(told) => {
                let commit: String = told.commit.chars().take(12).collect();
                format!("run {} ({commit})", self.run.id)
            }
        }
    }

    /// The run with the bucket and the prefix of its outputs.
    pub(super) fn resolve(&self, query: &RunQuery) -> Result<crate::run::Run> {
        let facts = self.told.as_ref().map(|told| told.facts.clone());
        let facts = |_: &_| Ok(facts.unwrap_or_else(RunFacts::own));
        query.context.resolve(&self.run, query.platform, facts)
    }
}
