//! How a run is found that is not named.

use crate::{
    error::Result,
    github::{GitHub, RunsOf, WorkflowRun},
    run::{Repository, Workflow},
};

/// How to find a run that is not named.
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

impl Search {
    pub fn flag(&self) -> &'static str {
        match self {
            Self::Commit(_) => "--commit",
            Self::Branch(_) => "--branch",
            Self::Pull(_) => "--pr",
            Self::Latest => "--latest",
        }
    }

    /// The runs, the newest first, and what they are the runs of. Of a branch, at most `most`.
    pub(super) fn runs(
        &self,
        github: &GitHub,
        repository: &Repository,
        workflow: &Workflow,
        most: usize,
    ) -> Result<(Vec<WorkflowRun>, String)> {
        let of_branch = |name: &str| github.runs(repository, workflow, RunsOf::Branch(name), most);
        let of_commit =
            |commit: &str| github.runs(repository, workflow, RunsOf::Commit(commit), usize::MAX);
        Ok(match self {
            Self::Commit(name) => {
                (of_commit(&github.commit(repository, name)?)?, format!("for commit `{name}`"))
            }
            Self::Pull(number) => (
                of_commit(&github.head_of_pull(repository, *number)?)?,
                format!("for the newest commit of pull request {number}"),
            ),
            Self::Branch(name) => (of_branch(name)?, format!("on branch `{name}`")),
            Self::Latest => (
                of_branch(&github.default_branch(repository)?)?,
                "on the default branch".to_owned(),
            ),
        })
    }
}
