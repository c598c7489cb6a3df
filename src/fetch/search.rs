//! Which runs the user may mean: those that a search lists, and those of them that were asked for.

use crate::{
    console::World,
    error::{Error, Hint as _, No, Result, hinted, message},
    github::{GitHub, RunState, Workflow, WorkflowRun},
    run::{Repository, RunReference},
};

/// How many skipped runs an error lists.
const MOST_LINES: usize = 10;

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
#[derive(Clone, Copy, Debug, Default)]
pub struct RunFilter {
    /// The run has ended, with any conclusion.
    pub completed: bool,
    /// The run has ended, and its conclusion is `success`.
    pub successful: bool,
}

impl RunFilter {
    /// Fails if the run is not what was asked for. A run that GitHub was not asked about is.
    pub(super) fn check(self, from_github: Option<&WorkflowRun>) -> Result<()> {
        let (why, hint) = match from_github.map(|from_github| &from_github.state) {
            Some(RunState::Running(status)) if self.is_set() => (
                format!("the run is `{status}`"),
                "leave out `--require-completed-run` and `--require-successful-run` to take it as it is",
            ),
            Some(RunState::Ended(how)) if self.successful && how != "success" => (
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
    /// The merge commit of the pull request that was searched for.
    pub merge_commit: Option<String>,
}

impl Candidate {
    /// A line about why it was skipped: `7 (0123456789ab, success): no artifacts for linux`.
    pub(super) fn skip_reason(&self, error: &Error) -> String {
        let facts = self.from_github.as_ref();
        let facts = facts
            .map(|from_github| format!(" ({:.12}, {})", from_github.commit, from_github.state));
        format!(
            "{}{}: {}",
            self.run.id,
            facts.unwrap_or_default(),
            message(error)
        )
    }

    /// Whether GitHub has reported that it has not ended.
    pub(super) fn is_running(&self) -> bool {
        let state = self
            .from_github
            .as_ref()
            .map(|from_github| &from_github.state);
        matches!(state, Some(RunState::Running(_)))
    }

    /// The error about what the run lacks, with whether that may still come.
    pub(super) fn advise(&self, error: Error) -> Error {
        let id = &self.run.id;
        match self
            .from_github
            .as_ref()
            .map(|from_github| &from_github.state)
        {
            Some(RunState::Running(status)) => {
                let hint = format!("run {id} is `{status}`: pass `--wait 2h` to wait for it");
                hinted(error, hint)
            }
            _ => error,
        }
    }
}

impl Search {
    /// The runs that are meant, at least one, the newest first; and what they are the runs of.
    /// Of a branch, at most `most`.
    pub(super) fn candidates(
        &self,
        github: &GitHub,
        repository: &Repository,
        (workflow, most): (&Workflow, usize),
    ) -> Result<(Vec<Candidate>, String)> {
        let of_branch = |name: &str| github.runs_of_branch(repository, workflow, name, most);
        let of_commit = |commit: &str| github.runs_of_commit(repository, workflow, commit);
        let mut merge_commit = None;
        let (runs, what) = match self {
            Self::Commit(name) => (
                of_commit(&github.commit(repository, name)?)?,
                format!("for commit `{name}`"),
            ),
            Self::Pull(number) => {
                let pull = github.pull(repository, *number)?;
                merge_commit = pull.merge;
                let what = format!("for the newest commit of pull request {number}");
                (of_commit(&pull.head)?, what)
            }
            Self::Branch(name) => (of_branch(name)?, format!("on branch `{name}`")),
            Self::Latest => (
                of_branch(&github.default_branch(repository)?)?,
                "on the default branch".to_owned(),
            ),
        };
        if runs.is_empty() {
            let message = format!("no run of `{workflow}` {what} in `{repository}`");
            return Err(No(message)).hint("look at `--workflow` and `--repository`");
        }
        let candidate = |from_github: WorkflowRun| {
            let mut run: RunReference = from_github.id.clone().into();
            run.repository = Some(repository.clone());
            Candidate {
                run,
                from_github: Some(from_github),
                merge_commit: merge_commit.clone(),
            }
        };
        let what = format!("of `{workflow}` {what}");
        Ok((runs.into_iter().map(candidate).collect(), what))
    }

    /// The hint if no run has what is wanted.
    fn hint(&self) -> &'static str {
        match self {
            Self::Branch(_) | Self::Latest => {
                "look at more runs with `--max-commits`, or at others with `--branch`, `--workflow` and `--platform`"
            }
            Self::Commit(_) | Self::Pull(_) => "look at `--workflow` and `--platform`",
        }
    }
}

/// The error for a search in which no run has what is wanted. `skipped` is a line for each, and `what`
/// says what they are the runs of.
pub(super) fn none_of(
    search: Option<&Search>,
    skipped: &[String],
    what: &str,
    newest: &Candidate,
) -> Error {
    let count = skipped.len();
    let title = format!("none of the {count} newest runs {what} has what is wanted");
    let error = Error::new(No::list(title, skipped, MOST_LINES));
    let error = match search {
        Some(search) => hinted(error, search.hint()),
        None => error,
    };
    newest.advise(error)
}

/// Tells which runs were skipped, and why.
pub(super) fn announce(skipped: &[String], world: &World) {
    for line in skipped {
        world.console.note(format!("skipped run {line}"));
    }
}
