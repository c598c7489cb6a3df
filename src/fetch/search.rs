//! [`Search`]: finds runs by commit, branch or pull request, if no run is named.

use crate::{
    github::{GitHub, RunsOf, WorkflowRun},
    run::{Repository, Workflow},
};
use rocwheel_base::error::Result;

/// How to find a run, if no run is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// The newest run for a commit, a tag or the tip of a branch.
    Commit(String),
    /// The newest run on a branch that has what is wanted.
    Branch(String),
    /// The newest run for a pull request.
    Pull(u64),
    /// The newest run on the default branch that has what is wanted.
    Latest,
}

/// The runs that GitHub has for a search.
pub(super) struct SearchedRuns {
    pub(super) runs: Vec<WorkflowRun>,
    /// Says in messages which runs they are: `on the default branch`.
    pub(super) origin: String,
}

impl Search {
    pub fn flag(&self) -> &'static str {
        match self {
            Self::Commit(_) => "--commit",
            Self::Branch(_) => "--branch",
            Self::Pull(_) => "--pr",
            Self::Latest => "--latest",
        }
    }

    /// Finds the runs, the newest first: all runs of a commit, or at most `most` runs of a branch.
    pub(super) fn find_runs(
        &self,
        github: &GitHub,
        repository: &Repository,
        workflow: &Workflow,
        most: usize,
    ) -> Result<SearchedRuns> {
        let of_branch = |name: &str| github.runs(repository, workflow, RunsOf::Branch(name), most);
        let of_commit =
            |commit: &str| github.runs(repository, workflow, RunsOf::Commit(commit), usize::MAX);
        Ok(match self {
            Self::Commit(name) => SearchedRuns {
                runs: of_commit(&github.commit(repository, name)?)?,
                origin: format!("for commit `{name}`"),
            },
            Self::Pull(number) => SearchedRuns {
                runs: of_commit(&github.head_of_pull(repository, *number)?)?,
                origin: format!("for the newest commit of pull request {number}"),
            },
            Self::Branch(name) => {
                SearchedRuns { runs: of_branch(name)?, origin: format!("on branch `{name}`") }
            }
            Self::Latest => SearchedRuns {
                runs: of_branch(&github.default_branch(repository)?)?,
                origin: "on the default branch".to_owned(),
            },
        })
    }
}
