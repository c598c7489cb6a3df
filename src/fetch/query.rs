//! Which run the user asks for: chooses the run and the source of its artifacts, and waits for
//! artifacts that are still to come.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use itertools::Itertools as _;

use super::{
    run_artifacts::{LazyGitHub, RunArtifacts},
    search::{Candidate, RunFilter, Search, announce, none_of},
    select::Wish,
    source::{ArchiveSource, Inventory, StoreSource},
};
use crate::{
    console::{World, few, took},
    error::{Context as _, Error, Exit, Hint as _, No, Result, anyhow, hinted, message, one_line},
    github::{GitHub, RunState, Workflow},
    location::Key,
    run::{Assumption, Buckets, Platform, Run, RunContext, RunFacts, RunId, RunReference},
    store::{self, Depth, Origin, Store, StoreError, StoreFailureKind, s3::Access},
};

/// How long GitHub may take to answer a question that may stay unanswered.
const BRIEF: Duration = Duration::from_secs(10);
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
    /// How many runs of a branch are considered.
    pub most_runs: usize,
    pub filter: RunFilter,
    pub context: RunContext,
    pub platform: Platform,
    /// How long to wait for artifacts that are not uploaded yet.
    pub wait: Option<Duration>,
    /// A local directory to search instead of a bucket.
    pub input_dir: Option<PathBuf>,
    pub source_kind: SourceKind,
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
pub enum SourceKind {
    #[default]
    Auto,
    Bucket,
    /// Artifacts of `actions/upload-artifact`.
    #[value(name = "github")]
    GitHub,
}

/// The places that may have the artifacts of one run, in the order in which they are searched.
type Sources<'a> = Vec<Box<dyn ArchiveSource + 'a>>;

/// The run that was chosen, the source of its artifacts, and what was chosen of them.
pub(super) struct ChosenRun<'a, T> {
    pub run: Run,
    pub candidate: Candidate,
    pub source: Box<dyn ArchiveSource + 'a>,
    pub choice: T,
}

/// Chooses from the artifacts that a source has listed.
type Choose<'f, T> = &'f dyn Fn(&dyn ArchiveSource, &Inventory) -> Result<T>;

impl<'a> FetchRequest<'a> {
    /// Takes the first candidate for which `choose` succeeds. If none has what is wanted, waits for
    /// the first candidate.
    pub(super) fn choose_run<T>(
        &self,
        world: &'a World,
        choose: Choose<T>,
    ) -> Result<ChosenRun<'a, T>> {
        // With `--wait`, the directory may be created meanwhile.
        if let Some(directory) = &self.input_dir
            && self.wait.is_none()
            && !directory.is_dir()
        {
            return Err(anyhow!("not a directory: `{}`", directory.display()))
                .hint("check `--input-dir`");
        }
        let (mut newest, mut skipped) = (None, Vec::new());
        let (candidates, what) = self.candidates(world)?;
        let are_several = candidates.len() > 1;
        for mut candidate in candidates {
            let (run, mut sources, is_found) = self.open(&mut candidate, world)?;
            // `Exit::No` means that this run lacks what is wanted, so the next candidate may have
            // it. Any other error, such as a failed connection, ends the search.
            match self.attempt(&candidate, &mut sources, choose) {
                Err(error) if Exit::of(&error) == Exit::No => {
                    skipped.push(candidate.skip_reason(&error));
                    newest = newest.or(Some((run, candidate, (sources, is_found), error)));
                }
                chosen => {
                    announce(&skipped, world);
                    let (source, choice) = chosen?;
                    return Ok(ChosenRun {
                        run,
                        candidate,
                        source,
                        choice,
                    });
                }
            }
        }
        let (mut run, mut candidate, (mut sources, mut is_found), error) =
            newest.context("no run may be meant")?;
        if are_several && self.wait.is_none() {
            return Err(none_of(self.search.as_ref(), &skipped, &what, &candidate));
        } else if are_several {
            announce(&skipped, world);
        }
        let waited = run.clone();
        let attempt = |candidate: &Candidate| {
            if !is_found {
                is_found = self.find_again(&mut run, candidate, &mut sources, world)?;
            }
            self.attempt(candidate, &mut sources, choose)
        };
        let (source, choice) = self.wait_for(&waited, &mut candidate, error, world, attempt)?;
        Ok(ChosenRun {
            run,
            candidate,
            source,
            choice,
        })
    }

    /// The runs that are meant, at least one, the newest first; and what they are the runs of. With
    /// `--input-dir` and no run, the only one is a local run.
    pub(super) fn candidates(&self, world: &'a World) -> Result<(Vec<Candidate>, String)> {
        let Some(search) = &self.search else {
            return Ok((vec![self.named(world)?], String::new()));
        };
        let repository = self.context.repository(&RunId::local().into())?;
        let workflow = (&self.workflow, self.most_runs);
        search.candidates(self.github.get(world)?, &repository, workflow)
    }

    /// The run that the user named. GitHub is asked about it if its state matters.
    fn named(&self, world: &'a World) -> Result<Candidate> {
        let run = match &self.run {
            None if self.input_dir.is_some() => RunId::local().into(),
            run => run
                .clone()
                .context("no run was named")
                .hint("pass `--run-id` with an id or the address of a run")?,
        };
        let from_github = if self.filter.is_set() {
            let repository = self.context.repository(&run)?;
            Some(self.github.get(world)?.run(&repository, &run.id)?)
        } else {
            None
        };
        Ok(Candidate {
            run,
            from_github,
            merge_commit: None,
        })
    }

    /// The run of a candidate with its place, the sources of its artifacts, and whether its place is
    /// known. It is not if none of the buckets that it may use has anything of it, or if they were not
    /// searched.
    pub(super) fn open(
        &self,
        candidate: &mut Candidate,
        world: &'a World,
    ) -> Result<(Run, Sources<'a>, bool)> {
        let run = self.resolve(candidate, world)?;
        // No bucket is asked about a run that is not taken anyway.
        let is_taken = self.filter.check(candidate.from_github.as_ref()).is_ok();
        let (run, searched) = if is_taken {
            self.locate(&candidate.run, run, false, world)?
        } else {
            (run, None)
        };
        let is_found = is_taken && searched.is_none();
        let mut sources = self.sources(&run, world)?;
        if let Some(searched) = searched {
            // After the expected bucket.
            sources.insert(1, Box::new(searched));
        }
        Ok((run, sources, is_found))
    }

    /// Searches the buckets again for a run whose place was not known, and takes the one that has it
    /// by now. Returns whether one has. While the run is waited for, a bucket that does not answer
    /// is asked again at the next turn.
    fn find_again(
        &self,
        run: &mut Run,
        candidate: &Candidate,
        sources: &mut Sources<'a>,
        world: &'a World,
    ) -> Result<bool> {
        if self.filter.check(candidate.from_github.as_ref()).is_err() {
            return Ok(false);
        }
        let located = match self.locate(&candidate.run, run.clone(), true, world) {
            Err(error) if is_unavailable(&error) => return Ok(false),
            located => located?,
        };
        let (there, None) = located else {
            return Ok(false);
        };
        if there.bucket != run.bucket {
            *sources = self.sources(&there, world)?;
            *run = there;
        }
        Ok(true)
    }

    /// The run with the bucket and the prefix of its outputs. Asks GitHub about it if its place
    /// depends on whose code it built (a fork has another bucket), except where no bucket is
    /// searched.
    fn resolve(&self, candidate: &mut Candidate, world: &'a World) -> Result<Run> {
        let Candidate {
            run, from_github, ..
        } = candidate;
        let resolved = self.context.resolve(run, self.platform, |repository| {
            let from_github = match from_github {
                Some(from_github) => from_github,
                None if self.input_dir.is_some() || self.source_kind == SourceKind::GitHub => {
                    return Ok(RunFacts::default());
                }
                None => from_github.insert(self.github.get(world)?.run(repository, &run.id)?),
            };
            Ok(from_github.facts.clone())
        })?;
        for assumption in &resolved.assumed {
            // Which bucket has the run tells its release type, and no bucket is read for a directory.
            let is_found_out = matches!(assumption, Assumption::ReleaseType(..));
            if !is_found_out && self.input_dir.is_none() {
                world.console.note(format!("assumed that {assumption}"));
            }
        }
        Ok(resolved)
    }

    /// Completes what is known about a run that was chosen. Nothing depends on it, so GitHub is
    /// asked once and need not answer. Returns why it did not tell, in that case.
    pub(super) fn ask_about(
        &self,
        run: &Run,
        candidate: &mut Candidate,
        world: &'a World,
    ) -> Option<String> {
        if candidate.from_github.is_none() {
            if run.id.is_local() {
                return Some("GitHub knows nothing about a local run".to_owned());
            }
            for (flag, is_given) in [
                ("--input-dir", self.input_dir.is_some()),
                ("--offline", self.context.is_offline),
            ] {
                if is_given {
                    let why = format!("GitHub was not asked about the run, because of `{flag}`");
                    return Some(why);
                }
            }
            match self.ask(world, |github| github.run(&run.repository, &run.id)) {
                Ok(from_github) => candidate.from_github = Some(from_github),
                Err(error) => {
                    let why = one_line(&error);
                    return Some(format!("GitHub did not tell about the run: {why}"));
                }
            }
        }
        let from_github = candidate.from_github.as_ref()?;
        let is_of_pull = from_github.details.event.as_deref() == Some("pull_request");
        if candidate.merge_commit.is_none()
            && let Some(number) = from_github.details.pull().filter(|_| is_of_pull)
            && let Ok(pull) = self.ask(world, |github| github.pull(&run.repository, number))
            && pull.head == from_github.commit
        {
            candidate.merge_commit = pull.merge;
        }
        None
    }

    /// Asks a question that may stay unanswered.
    fn ask<T>(&self, world: &'a World, ask: impl FnOnce(&GitHub) -> Result<T>) -> Result<T> {
        let github = self.github.get(world)?.single_attempt()?;
        world.stop.within(BRIEF, || ask(&github))
    }

    /// Applies `choose` to a candidate, if that is a run that was asked for.
    fn attempt<T>(
        &self,
        candidate: &Candidate,
        sources: &mut Sources<'a>,
        choose: Choose<T>,
    ) -> Result<(Box<dyn ArchiveSource + 'a>, T)> {
        self.filter.check(candidate.from_github.as_ref())?;
        self.choose(sources, choose)
    }

    /// Applies `choose` to the first source that has any artifacts for the platform.
    fn choose<T>(
        &self,
        sources: &mut Sources<'a>,
        choose: Choose<T>,
    ) -> Result<(Box<dyn ArchiveSource + 'a>, T)> {
        let mut unknown = BTreeSet::new();
        for (at, source) in sources.iter().enumerate() {
            let inventory = source.inventory()?;
            if !inventory.archives.is_empty() {
                let chosen = choose(&**source, &inventory)?;
                return Ok((sources.swap_remove(at), chosen));
            }
            unknown.extend(inventory.unknown);
        }
        let places = sources.iter().join(", nor in ");
        let names = few(unknown.iter().map(|name| format!("`{name}`")));
        let only = if unknown.is_empty() {
            String::new()
        } else {
            format!(", only archives whose names are not those of artifacts: {names}")
        };
        let message = format!("no artifacts for {} in {places}{only}", self.platform);
        let hint = match self.source_kind {
            _ if self.input_dir.is_some() => "check `--input-dir`, `--run-id` and `--platform`",
            SourceKind::GitHub => "look at `--run-id` and `--platform`",
            _ => "look at `--run-id`, `--platform`, `--release-type` and `--bucket`",
        };
        Err(hinted(No(message), hint))
    }

    /// Calls `attempt` again until it succeeds, the run has ended or the time is up. `error` is the
    /// failure of the first attempt.
    fn wait_for<T>(
        &self,
        run: &Run,
        candidate: &mut Candidate,
        mut error: Error,
        world: &'a World,
        mut attempt: impl FnMut(&Candidate) -> Result<T>,
    ) -> Result<T> {
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
                now => candidate.from_github.insert(now?),
            };
            let status = match &now.state {
                RunState::Running(status) => status.clone(),
                RunState::Ended(how) => {
                    let page = &now.page;
                    let hint =
                        format!("the run has ended (`{how}`), nothing more will come: {page}");
                    // The artifact may have been uploaded between the last attempt and this answer.
                    return attempt(candidate).map_err(|_| hinted(error, hint));
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
            error = match attempt(candidate) {
                Err(error) if Exit::of(&error) == Exit::No => error,
                chosen => return chosen,
            };
        }
    }

    fn sources(&self, run: &Run, world: &'a World) -> Result<Sources<'a>> {
        if let Some(directory) = &self.input_dir {
            let origin = Origin::Directory(directory.clone());
            let store = store::open(&origin, &self.access, &world.stop)?;
            return Ok(vec![Box::new(StoreSource {
                directory: self.directory_of(run, &*store)?,
                store,
            })]);
        }
        let mut sources: Sources = Vec::new();
        if self.source_kind != SourceKind::GitHub {
            let access = self.access.clone().in_known_region(run.region.as_deref())?;
            let origin = Origin::Bucket(run.bucket.clone());
            sources.push(Box::new(StoreSource {
                store: store::open(&origin, &access, &world.stop)?,
                directory: Some(run.prefix.clone()),
            }));
        }
        // A bucket that the user named is the only source: do not fall back to GitHub.
        let only_bucket = self.context.bucket.is_some() || run.id.is_local();
        if self.source_kind == SourceKind::GitHub
            || self.source_kind == SourceKind::Auto && !only_bucket
        {
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
    fn directory_of(&self, run: &Run, store: &dyn Store) -> Result<Option<Key>> {
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

fn is_unavailable(error: &Error) -> bool {
    let kind = error.downcast_ref().map(StoreError::kind);
    kind == Some(StoreFailureKind::Unavailable)
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
