//! Which run the user asks for, and where to search for its artifacts.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use crate::{
    console::World,
    error::{Context as _, Hint as _, No, Result, hinted},
    github::{ApiSettings, GitHub, Workflow, WorkflowRun},
    run::{Platform, RunContext, RunId, RunReference},
    store::s3::Access,
};

/// How many runs of a branch are considered.
const MOST_RUNS: usize = 20;

/// Which run the user means, and where to search for its artifacts.
pub struct RunQuery<'a> {
    pub run: Option<RunReference>,
    pub search: Option<Search>,
    /// The workflow whose runs are searched.
    pub workflow: Workflow,
    pub context: RunContext,
    pub platform: Platform,
    /// How long to wait for artifacts that are not uploaded yet.
    pub wait: Option<Duration>,
    /// A local directory to search instead of a bucket.
    pub input_dir: Option<PathBuf>,
    pub keeper: Keeper,
    pub access: Access,
    pub github: Arc<LazyGitHub<'a>>,
}

/// Who keeps the artifacts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Keeper {
    #[default]
    Auto,
    Bucket,
    /// Artifacts of `actions/upload-artifact`.
    #[value(name = "github")]
    GitHub,
}

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

/// A connection to the GitHub server of a run, made when the first request is due: the token may
/// come from another program.
pub struct LazyGitHub<'a> {
    settings: Box<dyn Fn() -> Result<ApiSettings> + Send + Sync + 'a>,
    connected: OnceLock<GitHub<'a>>,
}

impl<'a> LazyGitHub<'a> {
    pub fn new(settings: impl Fn() -> Result<ApiSettings> + Send + Sync + 'a) -> Arc<Self> {
        Arc::new(Self {
            settings: Box::new(settings),
            connected: OnceLock::new(),
        })
    }

    pub(super) fn get(&self, world: &'a World) -> Result<&GitHub<'a>> {
        if let Some(github) = self.connected.get() {
            return Ok(github);
        }
        let announce = |text: &str| world.console.note(text);
        let github = GitHub::connect((self.settings)()?, world.stop.clone(), announce)?;
        Ok(self.connected.get_or_init(|| github))
    }
}

/// A run that the query may mean, and what GitHub reported about it, if it was asked.
pub(super) type Candidate = (RunReference, Option<WorkflowRun>);

impl<'a> RunQuery<'a> {
    /// The runs that the query may mean, at least one, the newest first. With `--input-dir` and no
    /// run, the only one is a local run.
    pub(super) fn candidates(&self, world: &'a World) -> Result<Vec<Candidate>> {
        let Some(search) = &self.search else {
            let run = match &self.run {
                None if self.input_dir.is_some() => RunId::local().into(),
                run => run
                    .clone()
                    .context("no run was named")
                    .hint("pass `--run-id` with an id or the address of a run")?,
            };
            return Ok(vec![(run, None)]);
        };
        let repository = self.context.repository(&RunId::local().into())?;
        let (github, workflow) = (self.github.get(world)?, &self.workflow);
        let of_branch = |name: &str| github.runs_of_branch(&repository, workflow, name, MOST_RUNS);
        let of_commit = |commit: &str| github.runs_of_commit(&repository, workflow, commit);
        let (runs, what) = match search {
            Search::Commit(name) => (
                of_commit(&github.commit(&repository, name)?)?,
                format!("for commit `{name}`"),
            ),
            Search::Pull(number) => (
                of_commit(&github.head_of_pull(&repository, *number)?)?,
                format!("for the newest commit of pull request {number}"),
            ),
            Search::Branch(name) => (of_branch(name)?, format!("on branch `{name}`")),
            Search::Latest => (
                of_branch(&github.default_branch(&repository)?)?,
                "on the default branch".to_owned(),
            ),
        };
        if runs.is_empty() {
            let message = format!("no run of `{workflow}` {what} in `{repository}`");
            return Err(hinted(
                No(message),
                "look at `--workflow` and `--repository`",
            ));
        }
        let reference = |told: &WorkflowRun| RunReference {
            id: told.id.clone(),
            repository: Some(repository.clone()),
            server: None,
        };
        let runs = runs.into_iter();
        Ok(runs.map(|told| (reference(&told), Some(told))).collect())
    }
}
