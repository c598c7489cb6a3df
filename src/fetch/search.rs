//! Which runs the user may mean: those that a search lists, and those of them that were asked for.

use crate::{
    error::{Error, No, Result, hinted, message},
    github::{GitHub, RunsOf, WorkflowRun},
    run::{Repository, RunReference, Workflow},
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
}

/// What GitHub has to report about a run, so that it is taken.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct RunFilter {
    /// Take only a run that has ended with success
    #[arg(long = "require-successful-run")]
    successful: bool,
    /// Take only a run that has ended
    #[arg(long = "require-completed-run")]
    completed: bool,
}

impl RunFilter {
    /// Fails if the run is not what was asked for. A run that GitHub was not asked about is.
    pub(super) fn check(self, from_github: Option<&WorkflowRun>) -> Result<()> {
        let Some(run) = from_github else {
            return Ok(());
        };
        let state = run.state();
        let (why, hint) = match run.conclusion() {
            None if self.is_set() => (
                format!("the run is `{state}`"),
                "leave out `--require-completed-run` and `--require-successful-run` to take it as it is",
            ),
            Some(how) if self.successful && how != "success" => (
                format!("the run has ended with `{how}`"),
                "take another run, or leave out `--require-successful-run`",
            ),
            _ => return Ok(()),
        };
        Err(hinted(No(why), hint))
    }

    pub(super) fn is_set(self) -> bool {
        self.completed || self.successful
    }
}

/// A run that the query may mean.
pub(super) struct Candidate {
    pub run: RunReference,
    /// What GitHub reported about it, if it was asked.
    pub from_github: Option<WorkflowRun>,
    /// The commit that a run of a pull request checks out.
    pub merge_commit: Option<String>,
}

impl Candidate {
    /// A line about why it was skipped: `7 (0123456789ab, success): no artifacts for linux`.
    pub(super) fn skip_reason(&self, error: &Error) -> String {
        let facts = self.from_github.as_ref();
        let facts = facts.map(|run| format!(" ({:.12}, {})", run.commit, run.state()));
        let (id, facts) = (&self.run.id, facts.unwrap_or_default());
        format!("{id}{facts}: {}", message(error))
    }

    /// Its status, if GitHub has reported that it has not ended.
    pub(super) fn status(&self) -> Option<&str> {
        let run = self.from_github.as_ref()?;
        run.conclusion().is_none().then(|| run.state())
    }
}

/// The runs that a search lists, the newest first.
pub(super) struct ListedRuns {
    pub runs: Vec<WorkflowRun>,
    /// What they are the runs of.
    pub what: String,
    /// The merge commit of the pull request that was searched for.
    pub merge_commit: Option<String>,
}

impl Search {
    /// Of a branch, at most `most`.
    pub(super) fn runs(
        &self,
        github: &GitHub,
        repository: &Repository,
        workflow: &Workflow,
        most: usize,
    ) -> Result<ListedRuns> {
        let of_branch = |name: &str| github.runs(repository, workflow, RunsOf::Branch(name), most);
        let of_commit =
            |commit: &str| github.runs(repository, workflow, RunsOf::Commit(commit), usize::MAX);
        let mut merge_commit = None;
        let (runs, what) = match self {
            Self::Commit(name) => (
                of_commit(&github.commit(repository, name)?)?,
                format!("for commit `{name}`"),
            ),
            Self::Pull(number) => {
                let pull = github.pull(repository, *number)?;
                let runs = of_commit(&pull.head.sha)?;
                merge_commit = pull.merge;
                let what = format!("for the newest commit of pull request {number}");
                (runs, what)
            }
            Self::Branch(name) => (of_branch(name)?, format!("on branch `{name}`")),
            Self::Latest => (
                of_branch(&github.default_branch(repository)?)?,
                "on the default branch".to_owned(),
            ),
        };
        Ok(ListedRuns {
            runs,
            what,
            merge_commit,
        })
    }

    /// The hint if no run has what is wanted.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::Branch(_) | Self::Latest => {
                "`rocwheel fetch --find` looks at more runs with `--max-commits`, or at others with `--branch`, `--workflow` and `--platform`"
            }
            Self::Commit(_) | Self::Pull(_) => {
                "`rocwheel fetch --find` looks at others with `--workflow` and `--platform`"
            }
        }
    }
}
