//! Which run is asked for, and where to look for its artifacts.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{
    console::World,
    error::Result,
    github::{ApiSettings, GitHub, Workflow},
    run::{Platform, RunContext, RunReference},
    store::s3::Access,
};

/// How to reach the GitHub whose address this is, or the usual one.
pub type GitHubSettings<'a> = Arc<dyn Fn(Option<&str>) -> Result<ApiSettings> + Send + Sync + 'a>;

/// Which run is meant, and where to look for its artifacts.
pub struct RunQuery<'a> {
    pub run: Option<RunReference>,
    pub search: Option<Search>,
    /// Whose runs are searched.
    pub workflow: Workflow,
    pub context: RunContext,
    pub platform: Platform,
    /// How long to wait for artifacts that are not there yet.
    pub wait: Option<Duration>,
    /// A directory of the user's own, in place of a bucket.
    pub input_dir: Option<PathBuf>,
    pub keeper: Keeper,
    pub access: Access,
    pub github: GitHubSettings<'a>,
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

impl RunQuery<'_> {
    /// A connection to the GitHub that has a run's page.
    pub(super) fn connect<'w>(&self, server: Option<&str>, world: &'w World) -> Result<GitHub<'w>> {
        connect(&self.github, server, world)
    }
}

pub(super) fn connect<'w>(
    settings: &GitHubSettings<'_>,
    server: Option<&str>,
    world: &'w World,
) -> Result<GitHub<'w>> {
    let announce = |text: &str| world.console.note(text);
    GitHub::connect(settings(server)?, world.stop.clone(), announce)
}
