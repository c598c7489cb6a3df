//! [`FetchRequest`]: what the user asks for. Chooses the run and the source of its artifacts, and waits for
//! artifacts that are not uploaded yet.

use std::{
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use itertools::Itertools as _;

use super::{
    found::FoundRun,
    run_artifacts::{LazyGitHub, RunArtifacts},
    search::{Search, SearchedRuns},
    select::{ArchiveSelection, Wish, find_lacks, find_subset, select},
    source::{ArchiveSource, ArtifactArchive, StoreSource},
};
use crate::{
    console::World,
    github::WorkflowRun,
    policy::catalog::Catalog,
    run::{
        Assumption, Platform, Run, RunContext, RunFacts, RunId, RunOrigin, RunReference, Workflow,
    },
};
use rocwheel_base::{
    error::{Context as _, Error, Exit, Hint as _, No, Result, anyhow, hinted, message, one_line},
    parallel,
    quantity::{few, many, took},
};
use rocwheel_store::{Depth, Origin, Store, location::Key, s3::Access};

/// How many skipped runs an error lists.
const MOST_LINES: usize = 10;
/// How long GitHub may take to answer a question that may stay unanswered.
const BRIEF: Duration = Duration::from_secs(10);
/// The shortest and the longest pause between two polls.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(30);
/// GitHub answers 60 requests in an hour without a token. A poll makes two requests, so this pause makes 40.
const SELDOM_WITHOUT_TOKEN: Duration = Duration::from_mins(3);

/// What the user asked for: which run, where to search for its artifacts, and which artifacts.
pub struct FetchRequest<'a> {
    pub run: Option<RunReference>,
    pub search: Option<Search>,
    /// The workflow whose runs are searched.
    pub workflow: Workflow,
    /// How many runs of a branch are considered.
    pub most_runs: usize,
    /// Take only a run that has ended with success.
    pub needs_success: bool,
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

/// A run that may be meant, with the places that may have its artifacts, in the order in which they are
/// searched.
struct Candidate<'a> {
    reference: RunReference,
    /// What GitHub reported about it, if it was asked.
    from_github: Option<WorkflowRun>,
    run: Run,
    sources: Vec<Arc<dyn ArchiveSource + 'a>>,
}

/// A run that may be meant.
struct PossibleRun {
    reference: RunReference,
    /// What GitHub reported about it, if it was asked.
    from_github: Option<WorkflowRun>,
}

/// The runs that may be meant, the newest first.
struct PossibleRuns {
    runs: Vec<PossibleRun>,
    /// Says in messages which runs they are: ``of `ci.yml` on the default branch``. Empty for a run that the
    /// user named.
    origin: String,
}

/// What was chosen of a run.
pub(super) struct Choice<'a> {
    pub source: Arc<dyn ArchiveSource + 'a>,
    /// All archives that the source has for the run.
    pub inventory: Vec<ArtifactArchive>,
    pub selection: ArchiveSelection,
    /// What packages lack; `None` if only a part of the run is wanted.
    pub lacks: Option<Vec<String>>,
}

/// The answer of a search in which no run has what is wanted.
struct NoMatch<'a> {
    newest: Candidate<'a>,
    error: Error,
}

impl Candidate<'_> {
    /// Whether it may still upload something, as far as is known.
    fn may_get_more(&self) -> bool {
        let is_in_progress = self.from_github.as_ref().is_none_or(|run| run.conclusion().is_none());
        !self.run.id.is_local() && is_in_progress
    }
}

impl<'a> FetchRequest<'a> {
    /// Finds the run, and tells everything that is known about it.
    pub fn find(&self, world: &'a World) -> Result<FoundRun> {
        let (found, _) = self.choose_run(world)?;
        Ok(found)
    }

    /// The newest run of a search for which `has` succeeds; its artifacts do not matter. With `--wait`,
    /// the newest run of all, if no run succeeds and that run may still get what the others lack.
    pub fn search_run(&self, world: &'a World, has: &dyn Fn(&Run) -> Result<()>) -> Result<Run> {
        match self.find_first(world, |candidate| has(&candidate.run))? {
            Ok((candidate, ())) => Ok(candidate.run),
            Err(no_match) if self.wait.is_some() && no_match.newest.may_get_more() => {
                Ok(no_match.newest.run)
            }
            Err(no_match) => Err(no_match.error),
        }
    }

    /// Takes the first candidate that has what is wanted. If none has it, waits for the newest.
    pub(super) fn choose_run(&self, world: &'a World) -> Result<(FoundRun, Choice<'a>)> {
        // With `--wait`, the directory may be created meanwhile.
        if let Some(directory) = &self.input_dir
            && self.wait.is_none()
            && !directory.is_dir()
        {
            return Err(anyhow!("not a directory: `{}`", directory.display()))
                .hint("check `--input-dir`");
        }
        let first = self.find_first(world, |candidate| self.choose_artifacts(candidate, world))?;
        let (mut candidate, choice) = match (first, self.wait) {
            (Ok(first), _) => first,
            (Err(no_match), Some(wait)) if no_match.newest.may_get_more() => {
                self.wait_for(no_match.newest, wait, world)?
            }
            (Err(no_match), _) => return Err(no_match.error),
        };
        let silence = self.ask_about(&mut candidate, world);
        let from_github = candidate.from_github.as_ref();
        let run = FoundRun::new(candidate.run, from_github, &choice, silence.as_deref());
        Ok((run, choice))
    }

    /// Finds the first candidate for which `attempt` succeeds. The inner error says that there is none; the
    /// outer error, that the search itself failed.
    fn find_first<T>(
        &self,
        world: &'a World,
        attempt: impl Fn(&Candidate<'a>) -> Result<T>,
    ) -> Result<Result<(Candidate<'a>, T), NoMatch<'a>>> {
        let announce = |skipped: &[String]| {
            for line in skipped {
                world.console.note(format!("skipped run {line}"));
            }
        };
        let mut newest = None;
        let mut skipped = Vec::new();
        let PossibleRuns { runs, origin } = self.list_runs(world)?;
        for possible in runs {
            let candidate = self.open_candidate(possible, world)?;
            // `Exit::No` means that this run lacks what is wanted, so the next candidate may have
            // it. Any other error, such as a failed connection, ends the search.
            match self.check(&candidate).and_then(|()| attempt(&candidate)) {
                Err(error) if Exit::of(&error) == Exit::No => {
                    let facts = match &candidate.from_github {
                        Some(run) => format!(" ({:.12}, {})", run.commit, run.state()),
                        None => String::new(),
                    };
                    let id = &candidate.reference.id;
                    skipped.push(format!("{id}{facts}: {}", message(&error)));
                    newest.get_or_insert((candidate, error));
                }
                answer => {
                    announce(&skipped);
                    return Ok(Ok((candidate, answer?)));
                }
            }
        }
        let (newest, mut error) = newest.context("no run may be meant")?;
        // The error lists the skipped runs. A command that waits has no error yet.
        if self.wait.is_some() && newest.may_get_more() {
            announce(&skipped);
        }
        if skipped.len() > 1 {
            let count = skipped.len();
            let title = format!("none of the {count} newest runs {origin} has what is wanted");
            let hint = "`rocwheel fetch --find` looks at more runs with `--max-commits`, or at others with `--branch`, `--workflow` and `--platform`";
            error = hinted(Error::new(No::list(title, skipped, MOST_LINES)), hint);
        }
        let error = match &newest.from_github {
            Some(run) if self.search.is_none() || run.conclusion().is_none() => {
                hinted(error, suggest_wait(run))
            }
            _ => error,
        };
        Ok(Err(NoMatch { newest, error }))
    }

    /// Lists the runs that may be meant, at least one. With `--input-dir` and no run, it is a local run.
    fn list_runs(&self, world: &'a World) -> Result<PossibleRuns> {
        let Some(search) = &self.search else {
            return Ok(PossibleRuns { runs: vec![self.named_run(world)?], origin: String::new() });
        };
        let repository = self.context.repository(&RunId::local().into())?;
        let github = self.github.get(world)?;
        let SearchedRuns { runs, origin } =
            search.find_runs(github, &repository, &self.workflow, self.most_runs)?;
        let origin = format!("of `{}` {origin}", self.workflow);
        if runs.is_empty() {
            return Err(No(format!("no run {origin} in `{repository}`"))).hint(
                "`rocwheel fetch --find` looks at others with `--workflow` and `--repository`",
            );
        }
        let runs = runs
            .into_iter()
            .map(|from_github| PossibleRun {
                reference: RunReference {
                    repository: Some(repository.clone()),
                    ..from_github.id.clone().into()
                },
                from_github: Some(from_github),
            })
            .collect();
        Ok(PossibleRuns { runs, origin })
    }

    /// The run that the user named. GitHub is asked about it if its state matters.
    fn named_run(&self, world: &'a World) -> Result<PossibleRun> {
        let reference = match &self.run {
            None if self.input_dir.is_some() => RunId::local().into(),
            run => run
                .clone()
                .context("no run was named")
                .hint("pass `--run-id` with an id or the address of a run")?,
        };
        if !self.needs_success {
            return Ok(PossibleRun { reference, from_github: None });
        }
        let repository = self.context.repository(&reference)?;
        let from_github = self.github.get(world)?.run(&repository, &reference.id)?;
        Ok(PossibleRun { reference, from_github: Some(from_github) })
    }

    /// Fails if the run has to have ended with success and has not.
    fn check(&self, candidate: &Candidate) -> Result<()> {
        if !self.needs_success {
            return Ok(());
        }
        match candidate.from_github.as_ref().map(WorkflowRun::state) {
            None | Some("success") => Ok(()),
            Some(state) => Err(No(format!("the run is `{state}`")))
                .hint("take another run, or leave out `--require-successful-run`"),
        }
    }

    /// Finds the bucket and the prefix of the outputs of a run. Asks GitHub about the run if its place
    /// depends on whose code it built (a fork has another bucket), except where no bucket is
    /// searched.
    fn open_candidate(&self, possible: PossibleRun, world: &'a World) -> Result<Candidate<'a>> {
        let PossibleRun { reference, mut from_github } = possible;
        let run = self.context.resolve(&reference, self.platform, |repository| {
            let from_github = match &from_github {
                Some(from_github) => from_github,
                None if self.input_dir.is_some() || self.source_kind == SourceKind::GitHub => {
                    return Ok(RunFacts::default());
                }
                None => from_github.insert(self.github.get(world)?.run(repository, &reference.id)?),
            };
            Ok(from_github.facts(repository))
        })?;
        for assumption in &run.assumed {
            // A release type is confirmed by its bucket: if the bucket has nothing of the run, the hint
            // names the other buckets. No bucket is read for a directory.
            let is_confirmed = matches!(assumption, Assumption::ReleaseType(..));
            if !is_confirmed && self.input_dir.is_none() {
                world.console.note(format!("assumed that {assumption}"));
            }
        }
        Ok(Candidate { sources: self.open_sources(&run, world)?, reference, from_github, run })
    }

    /// Completes what is known about a run that was chosen. Nothing depends on it, so GitHub is
    /// asked once and need not answer. If it does not answer, returns why.
    fn ask_about(&self, candidate: &mut Candidate, world: &'a World) -> Option<String> {
        let run = &mut candidate.run;
        if candidate.from_github.is_none() {
            if run.id.is_local() || self.input_dir.is_some() || self.context.is_offline {
                return Some("GitHub was not asked about the run".to_owned());
            }
            let ask = || {
                let github = self.github.get(world)?.single_attempt()?;
                let ask = || github.run(&run.repository, &run.id);
                world.stop.within(BRIEF, ask)
            };
            match ask() {
                Ok(from_github) => candidate.from_github = Some(from_github),
                Err(error) => {
                    let why = one_line(&error);
                    return Some(format!("GitHub did not tell about the run: {why}"));
                }
            }
        }
        // The place of the run may not depend on whose code it built. Then only this answer tells that it
        // is the run of a fork, and the workflow of a fork cannot take a role.
        let from_github = candidate.from_github.as_ref()?;
        if from_github.facts(&run.repository).origin == RunOrigin::Fork {
            run.role = None;
        }
        None
    }

    /// Selects from the first source that has any artifacts for the platform.
    fn choose_artifacts(&self, candidate: &Candidate<'a>, world: &World) -> Result<Choice<'a>> {
        for source in &candidate.sources {
            let mut inventory = source.inventory()?;
            if !inventory.unknown.is_empty() {
                let names = few(inventory.unknown.iter().map(|name| format!("`{name}`")));
                world.console.note(format!(
                    "ignored archives whose names are not names of artifacts: {names}"
                ));
            }
            // Packages of some of the artifacts would lack files without a word. Only who names what is
            // wanted can do without the contents of an upload.
            let wants_all = self.wish.packages().is_some_and(<[String]>::is_empty);
            if (wants_all || inventory.archives.is_empty()) && !inventory.unread.is_empty() {
                return Err(inventory.unread.swap_remove(0));
            }
            if inventory.archives.is_empty() {
                continue;
            }
            let count = many(inventory.archives.len(), "artifact");
            world.console.status("Listed", format!("{count} in {source}"));
            let choice = self.choose_archives(Arc::clone(source), inventory.archives);
            // What the others lack may be in the upload that cannot be read.
            if choice.as_ref().is_err_and(|error| Exit::of(error) == Exit::No)
                && !inventory.unread.is_empty()
            {
                return Err(inventory.unread.swap_remove(0));
            }
            for error in &inventory.unread {
                world.console.warn(format!("left out: {}", one_line(error)));
            }
            return choice;
        }
        let places = candidate.sources.iter().join(", nor in ");
        let message = format!("no artifacts for {} in {places}", self.platform);
        // Neither the id of a run nor GitHub tells its release type, which decides its bucket.
        let other_buckets = self.context.other_buckets(&candidate.reference, &candidate.run);
        let hint = if self.input_dir.is_some() {
            "check `--input-dir`, `--run-id` and `--platform`".to_owned()
        } else if self.source_kind == SourceKind::GitHub {
            "check `--run-id` and `--platform`".to_owned()
        } else if other_buckets.is_empty() {
            "check `--run-id`, `--platform`, `--release-type` and `--bucket`".to_owned()
        } else {
            let flags = other_buckets.iter().map(|flag| format!("`{flag}`")).join(" or ");
            format!(
                "check `--run-id` and `--platform`; if the run is in another bucket, name it with {flags}"
            )
        };
        let error = hinted(No(message), hint);
        if candidate.from_github.is_none() && candidate.may_get_more() && self.input_dir.is_none() {
            let hint = "if the run is still in progress, pass `--wait 2h` to wait for it";
            return Err(hinted(error, hint));
        }
        Err(error)
    }

    /// Selects archives of a source. Fails if packages need more, unless `--allow-incomplete` is set.
    fn choose_archives(
        &self,
        source: Arc<dyn ArchiveSource + 'a>,
        inventory: Vec<ArtifactArchive>,
    ) -> Result<Choice<'a>> {
        let wish = &self.wish;
        let platform = self.platform;
        let mut selection = select(&inventory, wish)?;
        let catalog = Catalog::built_in()?;
        let subset = if wish.only.is_empty() {
            None
        } else {
            let subset = find_subset(&wish.only, &selection, &inventory, &catalog, platform)?;
            selection.narrow(&subset, &inventory);
            Some(subset)
        };
        // Patterns and components are to leave something out, so nothing can be said about the rest.
        let lacks = if selection.is_part {
            None
        } else {
            Some(find_lacks(&selection, &inventory, &catalog, platform, subset.as_ref())?)
        };
        match lacks.as_deref() {
            Some(lacks @ [_, ..]) if !self.allow_incomplete => {
                Err(No(format!("not enough for packages: {}", lacks.join("; "))))
                    .hint("pass `--allow-incomplete` to fetch anyway")
            }
            _ => Ok(Choice { source, inventory, selection, lacks }),
        }
    }

    /// Tries again until the run has what is wanted, has ended, or the time is up.
    fn wait_for(
        &self,
        mut candidate: Candidate<'a>,
        wait: Duration,
        world: &'a World,
    ) -> Result<(Candidate<'a>, Choice<'a>)> {
        let start = Instant::now();
        let github = self.github.get(world)?;
        loop {
            // The run is asked about first: if it has ended, the attempt sees all that it has uploaded.
            let run = &candidate.run;
            let now = github.run(&run.repository, &run.id)?;
            let left = wait.saturating_sub(start.elapsed());
            let is_last = now.conclusion().is_some() || left.is_zero();
            let hint = suggest_wait(&now);
            candidate.from_github = Some(now);
            let choice =
                self.check(&candidate).and_then(|()| self.choose_artifacts(&candidate, world));
            let error = match choice {
                Err(error) if Exit::of(&error) == Exit::No => error,
                choice => return Ok((candidate, choice?)),
            };
            if is_last {
                return Err(hinted(error, hint));
            }
            let facts = format!("for at most {}: {}", took(left), message(&error));
            world.console.status("Waiting", facts);
            parallel::sleep(&world.stop, pause(wait, github.has_token()).min(left))?;
        }
    }

    /// Opens the places that may have the artifacts of a run, in the order in which they are searched.
    fn open_sources(
        &self,
        run: &Run,
        world: &'a World,
    ) -> Result<Vec<Arc<dyn ArchiveSource + 'a>>> {
        if let Some(directory) = &self.input_dir {
            let origin = Origin::Directory(directory.clone());
            let store = rocwheel_store::open(&origin, &self.access, &world.stop)?;
            return Ok(vec![Arc::new(StoreSource {
                directory: self.find_directory(run, &*store)?,
                store,
            })]);
        }
        let mut sources: Vec<Arc<dyn ArchiveSource + 'a>> = Vec::new();
        if self.source_kind != SourceKind::GitHub {
            let access = self.access.clone().in_known_region(run.region.as_deref())?;
            let origin = Origin::Bucket(run.bucket.clone());
            sources.push(Arc::new(StoreSource {
                store: rocwheel_store::open(&origin, &access, &world.stop)?,
                directory: Some(run.prefix.clone()),
            }));
        }
        // A bucket that the user named is the only source: do not fall back to GitHub.
        let only_bucket = self.context.bucket.is_some() || run.id.is_local();
        if self.source_kind == SourceKind::GitHub
            || self.source_kind == SourceKind::Auto && !only_bucket
        {
            sources.push(Arc::new(RunArtifacts {
                github: Arc::clone(&self.github),
                world,
                run: run.clone(),
                after_bucket: !sources.is_empty(),
                inspected: Mutex::default(),
            }));
        }
        Ok(sources)
    }

    /// Finds the directory of the run in `--input-dir`, which is laid out like a bucket; `None` if the
    /// archives are directly in it.
    fn find_directory(&self, run: &Run, store: &dyn Store) -> Result<Option<Key>> {
        if self.run.is_none() && self.search.is_none() {
            return Ok(None);
        }
        let has_files =
            |directory| -> Result<bool> { Ok(!store.list(directory, Depth::Children)?.is_empty()) };
        // If neither has files, the error is to name the directory of the run.
        let has_no_prefix = !has_files(Some(&run.prefix))? && has_files(None)?;
        Ok((!has_no_prefix).then(|| run.prefix.clone()))
    }
}

/// The hint that says whether a run may still get what it lacks.
fn suggest_wait(run: &WorkflowRun) -> String {
    match run.conclusion() {
        Some(conclusion) => {
            let page = run.page.as_deref().unwrap_or_default();
            format!("the run has ended (`{conclusion}`), nothing more will come: {page}")
        }
        None => format!("run {} is `{}`: pass `--wait 2h` to wait for it", run.id, run.state()),
    }
}

/// The pause before the next poll: short if the user waits a short time. A long wait is polled
/// rarely enough to stay below GitHub's rate limit.
fn pause(wait: Duration, has_token: bool) -> Duration {
    let seldom = if has_token { SELDOM } else { SELDOM_WITHOUT_TOKEN };
    (wait / 20).clamp(OFTEN, seldom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_token_a_long_wait_does_not_spend_what_may_be_asked() {
        let seconds = |wait, has_token| pause(Duration::from_secs(wait), has_token).as_secs();
        let table = [(5, true, 1), (60, false, 3), (7200, true, 30), (7200, false, 180)];
        for (wait, has_token, expected) in table {
            assert_eq!(seconds(wait, has_token), expected, "{wait} {has_token}");
        }
        assert!(2 * 3600 / seconds(7200, false) < 60);
    }
}
