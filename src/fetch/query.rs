//! Which run the user asks for, and where to search for its artifacts.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{
    console::World,
    error::Result,
    github::{ApiSettings, GitHub, Workflow},
    run::{Platform, RunContext, RunReference},
    store::s3::Access,
};

/// The API settings for a GitHub server, or for the default server if there is no address.
pub type GitHubSettings<'a> = Arc<dyn Fn(Option<&str>) -> Result<ApiSettings> + Send + Sync + 'a>;

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
    /// Connects to the GitHub server that the run belongs to.
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
