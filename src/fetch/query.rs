//! Which run the user asks for: chooses the run and the source of its artifacts, and waits for
//! artifacts that are still to come.

use std::{
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use itertools::Itertools as _;

use super::{
    run_artifacts::{LazyGitHub, RunArtifacts},
    select::{ArchiveSelection, Wish},
    source::{ArchiveSource, ArtifactArchive, StoreSource},
};
use crate::{
    console::{World, took},
    error::{Context as _, Error, Exit, Hint as _, No, Result, anyhow, hinted, message},
    github::{RunState, Workflow, WorkflowRun},
    location::Key,
    run::{Assumption, Buckets, Platform, Run, RunContext, RunFacts, RunId, RunReference},
    store::{
        Depth, Store,
        local::LocalStore,
        s3::{Access, S3Store},
    },
};

/// How many runs of a branch are considered.
const MOST_RUNS: usize = 20;
/// The shortest and the longest pause between two polls.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(30);
/// GitHub answers 60 requests in an hour without a token. A poll makes two, so this makes 40.
const SELDOM_WITHOUT_TOKEN: Duration = Duration::from_mins(3);

/// What the user asked for: which run, where to search for its artifacts, and which of them.
pub struct FetchRequest<'a> {
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
    pub wish: Wish,
    /// Fetch even if the artifacts are not enough to build packages.
    pub allow_incomplete: bool,
    pub downloads: NonZeroUsize,
    /// Time limit for all downloads together.
    pub time: Option<Duration>,
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

/// A run that the query may mean, and what GitHub reported about it, if it was asked.
type Candidate = (RunReference, Option<WorkflowRun>);

/// The places that may have the artifacts of one run, in the order in which they are searched.
type Sources<'a> = Vec<Box<dyn ArchiveSource + 'a>>;

/// The source of artifacts, and what was selected of them.
type Chosen<'a> = (Box<dyn ArchiveSource + 'a>, ArchiveSelection);

/// Selects from the artifacts that a source has listed.
type Choose<'f> = &'f dyn Fn(&dyn ArchiveSource, &[ArtifactArchive]) -> Result<ArchiveSelection>;

impl<'a> FetchRequest<'a> {
    /// Takes the first candidate for which `choose` succeeds. If none has what is wanted, waits for
    /// the first candidate.
    pub(super) fn settle(&self, world: &'a World, choose: Choose) -> Result<(Run, Chosen<'a>)> {
        // With `--wait`, the directory may be created meanwhile.
        if let Some(directory) = &self.input_dir
            && self.wait.is_none()
            && !directory.is_dir()
        {
            return Err(anyhow!("not a directory: `{}`", directory.display()))
                .hint("check `--input-dir`");
        }
        let choose = |sources: &mut Sources<'a>| self.choose(sources, choose);
        let mut newest = None;
        let candidates = self.candidates(world)?;
        let are_several = candidates.len() > 1;
        for candidate in candidates {
            let run = self.resolve(&candidate, world)?;
            let (run, searched) = self.locate(&candidate.0, run, world)?;
            let mut sources = self.sources(&run, world)?;
            if let Some(searched) = searched {
                // After the expected bucket.
                sources.insert(1, Box::new(searched));
            }
            // `Exit::No` means that this run lacks what is wanted, so the next candidate may have
            // it. Any other error, such as a failed connection, ends the search.
            match choose(&mut sources) {
                Err(error) if Exit::of(&error) == Exit::No => {
                    if are_several {
                        let commit = candidate.1.map(|told| told.commit).unwrap_or_default();
                        let (id, why) = (&run.id, message(&error));
                        let text = format!("skipped run {id} ({commit:.12}): {why}");
                        world.console.note(text);
                    }
                    newest = newest.or(Some((run, sources, error)));
                }
                chosen => return Ok((run, chosen?)),
            }
        }
        let (run, mut sources, error) = newest.context("no run may be meant")?;
        let chosen = self.wait_for(&run, error, world, || choose(&mut sources))?;
        Ok((run, chosen))
    }

    /// The runs that the query may mean, at least one, the newest first. With `--input-dir` and no
    /// run, the only one is a local run.
    fn candidates(&self, world: &'a World) -> Result<Vec<Candidate>> {
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
            return Err(No(message)).hint("look at `--workflow` and `--repository`");
        }
        let candidate = |told: WorkflowRun| {
            let mut run: RunReference = told.id.clone().into();
            run.repository = Some(repository.clone());
            (run, Some(told))
        };
        Ok(runs.into_iter().map(candidate).collect())
    }

    /// The run with the bucket and the prefix of its outputs. Asks GitHub about it if its place
    /// depends on whose code it built (a fork has another bucket), except where no bucket is
    /// searched.
    fn resolve(&self, (run, told): &Candidate, world: &'a World) -> Result<Run> {
        let resolved = self.context.resolve(run, self.platform, |repository| {
            Ok(match told {
                Some(told) => told.facts.clone(),
                None if self.input_dir.is_some() || self.keeper == Keeper::GitHub => {
                    RunFacts::default()
                }
                None => self.github.get(world)?.run(repository, &run.id)?.facts,
            })
        })?;
        for assumption in &resolved.assumed {
            // Which bucket has the run tells its release type.
            if !matches!(assumption, Assumption::ReleaseType(..)) {
                world.console.note(format!("assumed that {assumption}"));
            }
        }
        Ok(resolved)
    }

    /// Applies `choose` to the first source that has any artifacts for the platform.
    fn choose(&self, sources: &mut Sources<'a>, choose: Choose) -> Result<Chosen<'a>> {
        for (at, source) in sources.iter().enumerate() {
            let inventory = source.inventory()?;
            if !inventory.is_empty() {
                let chosen = choose(&**source, &inventory)?;
                return Ok((sources.swap_remove(at), chosen));
            }
        }
        let places = sources.iter().join(", nor in ");
        let message = format!("no artifacts for {} in {places}", self.platform);
        let hint = match self.keeper {
            _ if self.input_dir.is_some() => "check `--input-dir`, `--run-id` and `--platform`",
            Keeper::GitHub => "look at `--run-id` and `--platform`",
            _ => "look at `--run-id`, `--platform`, `--release-type` and `--bucket`",
        };
        Err(hinted(No(message), hint))
    }

    /// Calls `choose` again until it succeeds, the run has ended or the time is up. `error` is the
    /// failure of the first attempt.
    fn wait_for(
        &self,
        run: &Run,
        mut error: Error,
        world: &'a World,
        mut choose: impl FnMut() -> Result<Chosen<'a>>,
    ) -> Result<Chosen<'a>> {
        if run.id.is_local() || self.input_dir.is_some() && self.wait.is_none() {
            return Err(error);
        }
        let wait = self.wait.unwrap_or_default();
        let start = Instant::now();
        let github = self.github.get(world)?;
        loop {
            let now = match github.run(&run.repository, &run.id) {
                // Without `--wait`, GitHub is only asked for a better hint. If that fails, the
                // missing artifacts are still the error to report.
                Err(_) if wait.is_zero() => return Err(error),
                now => now?,
            };
            let status = match now.state {
                RunState::Running(status) => status,
                RunState::Ended(how) => {
                    let page = now.page;
                    let hint =
                        format!("the run has ended (`{how}`), nothing more will come: {page}");
                    // The artifact may have been uploaded between the last attempt and this answer.
                    return choose().map_err(|_| hinted(error, hint));
                }
            };
            let left = wait.saturating_sub(start.elapsed());
            if left.is_zero() {
                let hint = format!("the run is `{status}`, so it may still come: pass `--wait 2h`");
                return Err(error).hint(hint);
            }
            let (time, why) = (took(left), message(&error));
            let text = format!("for at most {time}: {why}");
            world.console.status("Waiting", text);
            github.sleep(pause(wait, github.has_token()).min(left))?;
            error = match choose() {
                Err(error) if Exit::of(&error) == Exit::No => error,
                chosen => return chosen,
            };
        }
    }

    fn sources(&self, run: &Run, world: &'a World) -> Result<Sources<'a>> {
        if let Some(directory) = &self.input_dir {
            let store = LocalStore::new(directory);
            return Ok(vec![Box::new(StoreSource {
                directory: self.directory_of(run, &store)?,
                store: Box::new(store),
            })]);
        }
        let mut sources: Sources = Vec::new();
        if self.keeper != Keeper::GitHub {
            let access = self.access.clone().in_known_region(run.region.as_deref())?;
            let store = S3Store::connect(run.bucket.clone(), &access, world.stop.clone())?;
            sources.push(Box::new(StoreSource {
                store: Box::new(store),
                directory: Some(run.prefix.clone()),
            }));
        }
        // A bucket that the user named is the only source: do not fall back to GitHub.
        let only_bucket = self.context.bucket.is_some() || run.id.is_local();
        if self.keeper == Keeper::GitHub || self.keeper == Keeper::Auto && !only_bucket {
            sources.push(Box::new(RunArtifacts {
                github: Arc::clone(&self.github),
                world,
                run: run.clone(),
                after_bucket: !sources.is_empty(),
                inside: Mutex::default(),
                announced: Mutex::default(),
            }));
        }
        Ok(sources)
    }

    /// The directory of the run in `--input-dir` (`{run}-{platform}`, perhaps below its
    /// repository), or `None` if the archives are directly in it.
    fn directory_of(&self, run: &Run, store: &LocalStore) -> Result<Option<Key>> {
        if self.run.is_none() && self.search.is_none() {
            return Ok(None);
        }
        let repository = &run.repository;
        let name = format!("{}-{}", run.id, self.platform);
        let shared = format!("{}-{}/{name}", repository.owner(), repository.name());
        let mut ways = [shared, name];
        if repository == Buckets::builtin().home() {
            ways.reverse();
        }
        for way in &ways {
            let key: Key = way.parse()?;
            if !store.list(Some(&key), Depth::Children)?.is_empty() {
                return Ok(Some(key));
            }
        }
        let lies_bare = !store.list(None, Depth::Children)?.is_empty();
        Ok((!lies_bare).then(|| ways[0].parse()).transpose()?)
    }
}

/// The pause before the next poll: short if the user waits a short time. A long wait is polled
/// rarely enough to stay below GitHub's rate limit.
fn pause(wait: Duration, has_token: bool) -> Duration {
    let seldom = if has_token {
        SELDOM
    } else {
        SELDOM_WITHOUT_TOKEN
    };
    (wait / 20).clamp(OFTEN, seldom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_token_a_long_wait_does_not_spend_what_may_be_asked() {
        let seconds = |wait, has_token| pause(Duration::from_secs(wait), has_token).as_secs();
        let table = [
            (5, true, 1),
            (60, false, 3),
            (7200, true, 30),
            (7200, false, 180),
        ];
        for (wait, has_token, expected) in table {
            assert_eq!(seconds(wait, has_token), expected, "{wait} {has_token}");
        }
        assert!(2 * 3600 / seconds(7200, false) < 60);
    }
}
