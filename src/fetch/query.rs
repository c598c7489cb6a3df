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
    found::FoundRun,
    run_artifacts::{LazyGitHub, RunArtifacts},
    search::{Candidate, RunFilter, Search},
    select::{ArchiveSelection, Completeness, Wish, select, subset},
    source::{ArchiveSource, ArtifactArchive, StoreSource},
};
use crate::{
    console::{World, few, many, took},
    error::{Context as _, Error, Exit, Hint as _, No, Result, anyhow, hinted, message, one_line},
    github::GitHub,
    location::Key,
    package::catalog::Catalog,
    parallel,
    run::{
        Assumption, Platform, Run, RunContext, RunFacts, RunId, RunOrigin, RunReference, Workflow,
    },
    store::{self, Depth, Origin, Store, s3::Access},
};

/// How many skipped runs an error lists.
const MOST_LINES: usize = 10;
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

/// What a run is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Fetch,
    /// Only to tell about it.
    Find,
}

/// A run that was found, the source of its artifacts, and those that are selected.
pub(super) struct FoundArtifacts<'a> {
    pub run: FoundRun,
    pub source: Arc<dyn ArchiveSource + 'a>,
    pub selection: ArchiveSelection,
}

/// A run with the places that may have its artifacts, in the order in which they are searched.
struct LocatedRun<'a> {
    candidate: Candidate,
    run: Run,
    sources: Vec<Arc<dyn ArchiveSource + 'a>>,
}

/// What was chosen of a run.
pub(super) struct Choice<'a> {
    pub source: Arc<dyn ArchiveSource + 'a>,
    /// All archives that the source has for the run.
    pub inventory: Vec<ArtifactArchive>,
    pub selection: ArchiveSelection,
    /// What packages lack; `None` if only a part of the run is wanted.
    pub lacks: Option<Vec<String>>,
    pub remarks: Vec<String>,
}

/// No run has what is wanted.
struct Missed<'a> {
    newest: LocatedRun<'a>,
    /// What the newest one lacks.
    error: Error,
    /// A line for each run.
    skipped: Vec<String>,
    /// What they are the runs of.
    what: String,
}

impl<'a> FetchRequest<'a> {
    /// Finds the run, and tells everything that is known about it. A search takes the run that
    /// [`decide`](Self::decide) would take; a run that was named may be incomplete.
    pub fn find(&self, world: &'a World) -> Result<FoundRun> {
        Ok(self.found(Aim::Find, world)?.run)
    }

    /// The newest run of a search for which `has` succeeds; its artifacts do not matter. With `--wait`,
    /// the newest of all if that may still get what none has.
    pub fn search_run(&self, world: &'a World, has: &dyn Fn(&Run) -> Result<()>) -> Result<Run> {
        match self.first(world, |it| has(&it.run))? {
            Ok((located, ())) => Ok(located.run),
            Err(missed) if self.wait.is_some() && missed.newest.candidate.status().is_some() => {
                announce(&missed.skipped, world);
                Ok(missed.newest.run)
            }
            Err(missed) => Err(self.refusal(missed)),
        }
    }

    /// Takes the first candidate that has what is wanted. If none has it, waits for the newest.
    pub(super) fn found(&self, aim: Aim, world: &'a World) -> Result<FoundArtifacts<'a>> {
        // With `--wait`, the directory may be created meanwhile.
        if let Some(directory) = &self.input_dir
            && self.wait.is_none()
            && !directory.is_dir()
        {
            return Err(anyhow!("not a directory: `{}`", directory.display()))
                .hint("check `--input-dir`");
        }
        let (mut located, choice) = match self.first(world, |it| self.choose(it, aim, world))? {
            Ok(found) => found,
            Err(missed) if missed.skipped.len() > 1 && self.wait.is_none() => {
                return Err(self.refusal(missed));
            }
            Err(missed) => {
                if missed.skipped.len() > 1 {
                    announce(&missed.skipped, world);
                }
                self.wait_for(missed, aim, world)?
            }
        };
        let silence = self.ask_about(&mut located, world);
        Ok(FoundArtifacts {
            run: FoundRun::new(located.run, &located.candidate, &choice, silence.as_deref()),
            source: choice.source,
            selection: choice.selection,
        })
    }

    /// The first candidate for which `attempt` succeeds.
    fn first<T>(
        &self,
        world: &'a World,
        attempt: impl Fn(&LocatedRun<'a>) -> Result<T>,
    ) -> Result<Result<(LocatedRun<'a>, T), Missed<'a>>> {
        let (mut newest, mut skipped) = (None, Vec::new());
        let (candidates, what) = self.candidates(world)?;
        for candidate in candidates {
            let located = self.open(candidate, world)?;
            // `Exit::No` means that this run lacks what is wanted, so the next candidate may have
            // it. Any other error, such as a failed connection, ends the search.
            let is_wanted = self.filter.check(located.candidate.from_github.as_ref());
            match is_wanted.and_then(|()| attempt(&located)) {
                Err(error) if Exit::of(&error) == Exit::No => {
                    skipped.push(located.candidate.skip_reason(&error));
                    newest = newest.or(Some((located, error)));
                }
                answer => {
                    announce(&skipped, world);
                    return Ok(Ok((located, answer?)));
                }
            }
        }
        let (newest, error) = newest.context("no run may be meant")?;
        Ok(Err(Missed {
            newest,
            error,
            skipped,
            what,
        }))
    }

    /// The error for a search in which no run has what is wanted.
    fn refusal(&self, missed: Missed) -> Error {
        let Missed {
            newest,
            mut error,
            skipped,
            what,
        } = missed;
        if skipped.len() > 1 {
            let count = skipped.len();
            let title = format!("none of the {count} newest runs {what} has what is wanted");
            error = Error::new(No::list(title, skipped, MOST_LINES));
            if let Some(search) = &self.search {
                error = hinted(error, search.hint());
            }
        }
        let candidate = &newest.candidate;
        match candidate.status() {
            Some(status) => {
                let id = &candidate.run.id;
                let hint = format!("run {id} is `{status}`: pass `--wait 2h` to wait for it");
                hinted(error, hint)
            }
            None => error,
        }
    }

    /// The runs that are meant, at least one, the newest first; and what they are the runs of. With
    /// `--input-dir` and no run, the only one is a local run.
    fn candidates(&self, world: &'a World) -> Result<(Vec<Candidate>, String)> {
        let Some(search) = &self.search else {
            return Ok((vec![self.named(world)?], String::new()));
        };
        let repository = self.context.repository(&RunId::local().into())?;
        let github = self.github.get(world)?;
        let found = search.runs(github, &repository, &self.workflow, self.most_runs)?;
        let what = format!("of `{}` {}", self.workflow, found.what);
        if found.runs.is_empty() {
            return Err(No(format!("no run {what} in `{repository}`"))).hint(
                "`rocwheel fetch --find` looks at others with `--workflow` and `--repository`",
            );
        }
        let candidates = found.runs.into_iter().map(|from_github| Candidate {
            run: RunReference {
                repository: Some(repository.clone()),
                ..from_github.id.clone().into()
            },
            from_github: Some(from_github),
            merge_commit: found.merge_commit.clone(),
        });
        Ok((candidates.collect(), what))
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

    fn open(&self, mut candidate: Candidate, world: &'a World) -> Result<LocatedRun<'a>> {
        let run = self.resolve(&mut candidate, world)?;
        Ok(LocatedRun {
            sources: self.sources(&run, world)?,
            candidate,
            run,
        })
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
            Ok(from_github.facts(repository))
        })?;
        for assumption in &resolved.assumed {
            // What the bucket of the release type has confirms it: if it has nothing, the hint names
            // the others. No bucket is read for a directory.
            let is_confirmed = matches!(assumption, Assumption::ReleaseType(..));
            if !is_confirmed && self.input_dir.is_none() {
                world.console.note(format!("assumed that {assumption}"));
            }
        }
        Ok(resolved)
    }

    /// Completes what is known about a run that was chosen. Nothing depends on it, so GitHub is
    /// asked once and need not answer. Returns why it did not tell, in that case.
    fn ask_about(&self, located: &mut LocatedRun, world: &'a World) -> Option<String> {
        let (run, candidate) = (&mut located.run, &mut located.candidate);
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
        // Where the place does not depend on it, only GitHub's answer tells that it is a fork's.
        if from_github.facts(&run.repository).origin == RunOrigin::Fork {
            run.role = None;
        }
        let is_of_pull = from_github.event.as_deref() == Some("pull_request");
        if candidate.merge_commit.is_none()
            && let Some(number) = from_github.pull().filter(|_| is_of_pull)
            && let Ok(pull) = self.ask(world, |github| github.pull(&run.repository, number))
            && pull.head.sha == from_github.commit
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

    /// Selects from the first source that has any artifacts for the platform.
    fn choose(&self, located: &LocatedRun<'a>, aim: Aim, world: &World) -> Result<Choice<'a>> {
        let mut unknown = BTreeSet::new();
        for source in &located.sources {
            let inventory = source.inventory()?;
            unknown.extend(inventory.unknown);
            if inventory.archives.is_empty() {
                continue;
            }
            let count = many(inventory.archives.len(), "artifact");
            world
                .console
                .status("Listed", format!("{count} in {source}"));
            if !unknown.is_empty() {
                let names = few(unknown.iter().map(|name| format!("`{name}`")));
                let text = "ignored archives whose names are not those of artifacts";
                world.console.note(format!("{text}: {names}"));
            }
            return self.choose_from(Arc::clone(source), inventory.archives, aim, world);
        }
        let places = located.sources.iter().join(", nor in ");
        let names = few(unknown.iter().map(|name| format!("`{name}`")));
        let only = if unknown.is_empty() {
            String::new()
        } else {
            format!(", only archives whose names are not those of artifacts: {names}")
        };
        let message = format!("no artifacts for {} in {places}{only}", self.platform);
        // Neither the id of a run nor GitHub tells its release type, which decides its bucket.
        let (reference, run) = (&located.candidate.run, &located.run);
        let others = self.context.other_buckets(reference, run);
        let flags = others.iter().map(|flag| format!("`{flag}`"));
        let hint = match self.source_kind {
            _ if self.input_dir.is_some() => {
                "check `--input-dir`, `--run-id` and `--platform`".to_owned()
            }
            SourceKind::GitHub => "check `--run-id` and `--platform`".to_owned(),
            _ if others.is_empty() => {
                "check `--run-id`, `--platform`, `--release-type` and `--bucket`".to_owned()
            }
            _ => format!(
                "check `--run-id` and `--platform`; if the run is in another bucket, name it with {}",
                flags.format(" or ")
            ),
        };
        Err(hinted(No(message), hint))
    }

    /// The selected archives. Fails if packages need more, unless `--allow-incomplete` is set.
    fn choose_from(
        &self,
        source: Arc<dyn ArchiveSource + 'a>,
        inventory: Vec<ArtifactArchive>,
        aim: Aim,
        world: &World,
    ) -> Result<Choice<'a>> {
        let (wish, platform) = (&self.wish, self.platform);
        let mut selection = select(&inventory, wish)?;
        let catalog = Catalog::built_in()?;
        let mut of = None;
        if !wish.only.is_empty() {
            let subset = subset(&wish.only, &selection, &inventory, &catalog, platform)?;
            selection.narrow(&subset, &inventory);
            of = Some(subset);
        }
        let found = Completeness::of(&selection, &inventory, &catalog, platform, of.as_ref())?;
        if aim == Aim::Fetch {
            for remark in &found.remarks {
                world.console.note(remark);
            }
        }
        if self.allow_incomplete {
            for lack in found.lacks.iter().filter(|_| aim == Aim::Fetch) {
                world.console.warn(lack);
            }
        } else if aim == Aim::Fetch || self.search.is_some() {
            found.require()?;
        }
        let (lacks, remarks) = (found.lacks, found.remarks);
        Ok(Choice {
            lacks: (!selection.is_part).then_some(lacks),
            remarks,
            source,
            inventory,
            selection,
        })
    }

    /// Tries again until the newest run has what is wanted, has ended, or the time is up.
    fn wait_for(
        &self,
        missed: Missed<'a>,
        aim: Aim,
        world: &'a World,
    ) -> Result<(LocatedRun<'a>, Choice<'a>)> {
        let Missed {
            newest: mut located,
            mut error,
            ..
        } = missed;
        if located.run.id.is_local() || self.input_dir.is_some() && self.wait.is_none() {
            return Err(error);
        }
        let attempt = |located: &LocatedRun<'a>| {
            self.filter.check(located.candidate.from_github.as_ref())?;
            self.choose(located, aim, world)
        };
        let wait = self.wait.unwrap_or_default();
        let start = Instant::now();
        let github = self.github.get(world)?;
        loop {
            let run = &located.run;
            let now = match github.run(&run.repository, &run.id) {
                // Without `--wait`, GitHub is only asked for a better hint. If that fails, the
                // missing artifacts are still the error to report.
                Err(_) if wait.is_zero() => return Err(error),
                now => located.candidate.from_github.insert(now?),
            };
            if let Some(how) = now.conclusion() {
                let page = now.page.as_deref().unwrap_or_default();
                let hint = format!("the run has ended (`{how}`), nothing more will come: {page}");
                // The artifact may have been uploaded between the last attempt and this answer.
                return match attempt(&located) {
                    Ok(choice) => Ok((located, choice)),
                    Err(_) => Err(hinted(error, hint)),
                };
            }
            let left = wait.saturating_sub(start.elapsed());
            if left.is_zero() {
                let status = now.state();
                let hint = format!("the run is `{status}`, so it may still come: pass `--wait 2h`");
                return Err(error).hint(hint);
            }
            let text = format!("for at most {}: {}", took(left), message(&error));
            world.console.status("Waiting", text);
            parallel::sleep(&world.stop, pause(wait, github.has_token()).min(left))?;
            error = match attempt(&located) {
                Err(error) if Exit::of(&error) == Exit::No => error,
                choice => return Ok((located, choice?)),
            };
        }
    }

    fn sources(&self, run: &Run, world: &'a World) -> Result<Vec<Arc<dyn ArchiveSource + 'a>>> {
        if let Some(directory) = &self.input_dir {
            let origin = Origin::Directory(directory.clone());
            let store = store::open(&origin, &self.access, &world.stop)?;
            return Ok(vec![Arc::new(StoreSource {
                directory: self.directory_of(run, &*store)?,
                store,
            })]);
        }
        let mut sources: Vec<Arc<dyn ArchiveSource + 'a>> = Vec::new();
        if self.source_kind != SourceKind::GitHub {
            let access = self.access.clone().in_known_region(run.region.as_deref())?;
            let origin = Origin::Bucket(run.bucket.clone());
            sources.push(Arc::new(StoreSource {
                store: store::open(&origin, &access, &world.stop)?,
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
                inside: Mutex::default(),
                announced: Mutex::default(),
            }));
        }
        Ok(sources)
    }

    /// The directory of the run in `--input-dir`, which is laid out like a bucket; `None` if the archives
    /// are directly in it.
    fn directory_of(&self, run: &Run, store: &dyn Store) -> Result<Option<Key>> {
        if self.run.is_none() && self.search.is_none() {
            return Ok(None);
        }
        let has =
            |directory| -> Result<bool> { Ok(!store.list(directory, Depth::Children)?.is_empty()) };
        let lies_bare = !has(Some(&run.prefix))? && has(None)?;
        Ok((!lies_bare).then(|| run.prefix.clone()))
    }
}

/// Tells which runs were skipped, and why.
fn announce(skipped: &[String], world: &World) {
    for line in skipped {
        world.console.note(format!("skipped run {line}"));
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
