//! Which run is meant, who has its artifacts, and whether more are to come.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::find::{AskArgs, Candidate, SearchArgs};
use crate::{
    commands::{
        World,
        args::{AccessArgs, RunArgs},
    },
    console::took,
    error::{Context as _, Error, Exit, Hint as _, No, Result, anyhow, ensure, hinted, message},
    fetch::{
        either::Either,
        run_artifacts::RunArtifacts,
        source::{Source, StoreSource},
    },
    github::{State, Token},
    location::Key,
    run::{Buckets, Platform, Run, RunFacts, RunId, RunReference},
    store::{Depth, Store, local::LocalStore, s3::S3Store},
};

/// How often to look whether something came: at most, and at least.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(30);
/// Two questions each time are forty in an hour, where sixty are answered without a token.
const SELDOM_WITHOUT_TOKEN: Duration = Duration::from_mins(3);

/// The run, and where to look.
#[derive(Debug, clap::Args)]
pub(super) struct PlaceArgs {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    ask: AskArgs,
    #[command(flatten)]
    access: AccessArgs,
    /// Read from this directory instead of a bucket: laid out like the bucket, or only with
    /// archives in it
    #[arg(
        long,
        value_name = "DIR",
        env = "ROCWHEEL_INPUT_DIR",
        help_heading = "Run options"
    )]
    input_dir: Option<PathBuf>,
    /// Where to fetch artifacts from; `auto` tries the bucket, then GitHub if the run's usual
    /// bucket has none
    #[arg(
        long = "source",
        value_name = "WHO",
        default_value = "auto",
        env = "ROCWHEEL_SOURCE",
        help_heading = "Run options"
    )]
    keeper: Keeper,
}

/// Who keeps the artifacts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Keeper {
    #[default]
    Auto,
    Bucket,
    /// Artifacts of `actions/upload-artifact`.
    #[value(name = "github")]
    GitHub,
}

impl PlaceArgs {
    pub(super) fn platform(&self) -> Platform {
        self.run.platform()
    }

    /// Whether there is anything that says which run is meant.
    pub(super) fn knows_a_run(&self) -> bool {
        self.run.run().is_ok() || !self.search.is_empty() || self.input_dir.is_some()
    }

    /// The flag that searches for a run, if one does.
    pub(super) fn search_flag(&self) -> Option<&'static str> {
        self.search.flag()
    }

    /// The run that is named; without one, a run of this machine.
    pub(super) fn named_run(&self, world: &World) -> Result<Run> {
        let local = RunId::local().into();
        let run = self.run.run().unwrap_or(&local);
        self.run.resolve(run, &self.ask.github, world)
    }

    /// The run of a source that was settled on, and where it keeps its outputs. Without one it is the
    /// run that was named, or a run of this machine.
    pub(super) fn resolve(&self, candidate: Option<&Candidate>) -> Result<Run> {
        let local = RunId::local().into();
        let run = match candidate {
            Some(candidate) => &candidate.run,
            None => self.run.run().unwrap_or(&local),
        };
        let told = candidate.and_then(|it| it.told.as_ref());
        self.run.resolve_with(run, |_| {
            Ok(told.map_or_else(RunFacts::own, |told| told.facts.clone()))
        })
    }

    /// The first of the runs that may be meant of which `choose` takes something.
    pub(super) fn settle<'a, T>(
        &'a self,
        world: &'a World,
        choose: impl Fn(&dyn Source) -> Result<T>,
    ) -> Result<(Box<dyn Source + 'a>, Option<Candidate>, T)> {
        ensure!(
            self.input_dir.is_none() || self.keeper != Keeper::GitHub,
            "`--input-dir` is a place, and `--source github` is another"
        );
        self.check_input_dir()?;
        if let (Some(directory), Err(_)) = (&self.input_dir, self.run.run())
            && self.search.is_empty()
        {
            let source = StoreSource::new(Box::new(LocalStore::new(directory)), None);
            let chosen = choose(&source)?;
            return Ok((Box::new(source), None, chosen));
        }
        let mut candidates = self.ask.candidates(&self.search, &self.run, world)?;
        for candidate in &mut candidates {
            self.complete(candidate, world)?;
        }
        let mut newest = None;
        for candidate in &candidates {
            let source = self.source(candidate, world)?;
            match choose(&*source) {
                Err(error) if Exit::of(&error) == Exit::No => {
                    if candidates.len() > 1 {
                        let (run, why) = (candidate.in_words(), message(&error));
                        world.console.note(format!("passed over {run}: {why}"));
                    }
                    newest = newest.or(Some((candidate, source, error)));
                }
                chosen => return Ok((source, Some(candidate.clone()), chosen?)),
            }
        }
        let (candidate, source, error) = newest.context("no run may be meant")?;
        let chosen = self.patiently(candidate, error, world, || choose(&*source))?;
        Ok((source, Some(candidate.clone()), chosen))
    }

    /// Asks GitHub whose code the run built, where its place depends on that. A directory of the
    /// user's own is looked through instead.
    fn complete(&self, candidate: &mut Candidate, world: &World) -> Result<()> {
        if candidate.told.is_some() || self.input_dir.is_some() || self.keeper == Keeper::GitHub {
            return Ok(());
        }
        let (run, mut told) = (&candidate.run, None);
        self.run.resolve_with(run, |repository| {
            let github = self.ask.connect(run.server.as_deref(), world)?;
            let answer = github.run(repository, &run.id)?;
            let facts = answer.facts.clone();
            told = Some(answer);
            Ok(facts)
        })?;
        candidate.told = told;
        Ok(())
    }

    /// What is waited for may bring its directory along.
    fn check_input_dir(&self) -> Result<()> {
        match &self.input_dir {
            Some(directory) if self.ask.wait.is_none() && !directory.is_dir() => {
                Err(anyhow!("not a directory: `{}`", directory.display()))
                    .hint("look at `--input-dir`")
            }
            _ => Ok(()),
        }
    }

    /// Chooses again as long as what is wanted may still come; `error` says what is not there.
    fn patiently<T>(
        &self,
        candidate: &Candidate,
        mut error: Error,
        world: &World,
        choose: impl Fn() -> Result<T>,
    ) -> Result<T> {
        if self.input_dir.is_some() && self.ask.wait.is_none() {
            return Err(error);
        }
        let wait = self.ask.wait.map_or(Duration::ZERO, |wait| wait.0);
        let start = Instant::now();
        let github = self.ask.connect(candidate.run.server.as_deref(), world)?;
        let repository = self.run.repository(&candidate.run)?;
        loop {
            let run = match github.run(&repository, &candidate.run.id) {
                // That GitHub cannot be asked is not why there is nothing.
                Err(_) if wait.is_zero() => return Err(error),
                run => run?,
            };
            let status = match run.state {
                State::Running(status) => status,
                State::Ended(how) => {
                    let page = run.page;
                    let hint =
                        format!("the run has ended (`{how}`), nothing more will come: {page}");
                    // It may have come just before the end.
                    return choose().map_err(|_| hinted(error, hint));
                }
            };
            let left = wait.saturating_sub(start.elapsed());
            if left.is_zero() {
                let hint = format!("the run is `{status}`, so it may still come: pass `--wait 2h`");
                return Err(error).hint(hint);
            }
            let why = message(&error);
            let time = took(left);
            world
                .console
                .status("Waiting", format!("for at most {time}: {why}"));
            github.sleep(pause(wait, github.token()).min(left))?;
            error = match choose() {
                Err(error) if Exit::of(&error) == Exit::No => error,
                chosen => return chosen,
            };
        }
    }

    /// Why there is nothing at all to fetch.
    pub(super) fn nothing(&self, source: &dyn Source) -> Error {
        let message = format!("no artifacts for {} in {source}", self.platform());
        let hint = match self.keeper {
            _ if self.input_dir.is_some() => "look at `--input-dir`, `--run-id` and `--platform`",
            Keeper::GitHub => "look at `--run-id` and `--platform`",
            _ => "look at `--run-id`, `--platform` and `--bucket`",
        };
        hinted(No(message), hint)
    }

    fn source<'a>(
        &'a self,
        candidate: &Candidate,
        world: &'a World,
    ) -> Result<Box<dyn Source + 'a>> {
        if let Some(directory) = &self.input_dir {
            return Ok(Box::new(self.local(directory, &candidate.run)?));
        }
        Ok(match self.keeper {
            Keeper::Bucket => Box::new(self.bucket(candidate, world)?),
            Keeper::GitHub => Box::new(self.github(&candidate.run, world)?),
            // Whoever names a bucket, or a server, means it.
            Keeper::Auto if self.run.names_a_bucket() || candidate.run.id.is_local() => {
                Box::new(self.bucket(candidate, world)?)
            }
            Keeper::Auto => {
                let bucket = self.bucket(candidate, world)?;
                let github = self.github(&candidate.run, world)?;
                Box::new(Either::new(bucket, github))
            }
        })
    }

    /// What GitHub itself keeps of a run.
    fn github<'a>(&'a self, run: &RunReference, world: &'a World) -> Result<RunArtifacts<'a>> {
        let repository = self.run.repository(run)?;
        let server = run.server.clone();
        Ok(RunArtifacts::new(
            Box::new(move || self.ask.connect(server.as_deref(), world)),
            |text| world.console.note(text),
            world.stop.clone(),
            (repository, run.id.clone()),
            self.platform(),
        ))
    }

    /// The bucket that runs like this one upload to.
    fn bucket(&self, candidate: &Candidate, world: &World) -> Result<StoreSource> {
        let run = self.resolve(Some(candidate))?;
        let access = self.access.access(run.region.as_deref())?;
        let directory = run.prefix().clone();
        let store = S3Store::connect(run.bucket, &access, world.stop.clone())?;
        Ok(StoreSource::new(Box::new(store), Some(directory)))
    }

    /// The directory of the run in it, or else the directory itself.
    fn local(&self, root: &Path, run: &RunReference) -> Result<StoreSource> {
        let store = LocalStore::new(root);
        let directory = self.directory_of(run, &store)?;
        Ok(StoreSource::new(Box::new(store), directory))
    }

    fn directory_of(&self, run: &RunReference, store: &dyn Store) -> Result<Option<Key>> {
        let repository = self.run.repository(run)?;
        let name = format!("{}-{}", run.id, self.platform());
        let shared = format!("{}-{}/{name}", repository.owner(), repository.name());
        let mut ways = vec![shared, name];
        if repository == *Buckets::builtin().home() {
            ways.reverse();
        }
        for way in &ways {
            let key: Key = way.parse()?;
            if !store.list(Some(&key), Depth::Children)?.is_empty() {
                return Ok(Some(key));
            }
        }
        let lies_bare = !store.list(None, Depth::Children)?.is_empty();
        let likeliest = ways.first().filter(|_| !lies_bare);
        Ok(likeliest.map(|way| way.parse()).transpose()?)
    }
}

/// A short wait is looked at often, a long one so seldom that it is answered all the time.
fn pause(wait: Duration, token: Token) -> Duration {
    let seldom = match token {
        Token::Sent => SELDOM,
        Token::None => SELDOM_WITHOUT_TOKEN,
    };
    (wait / 20).clamp(OFTEN, seldom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_token_a_long_wait_does_not_spend_what_may_be_asked() {
        let seconds = |wait, token| pause(Duration::from_secs(wait), token).as_secs();
        let table = [
            (5, Token::Sent, 1),
            (60, Token::None, 3),
            (7200, Token::Sent, 30),
            (7200, Token::None, 180),
        ];
        for (wait, token, expected) in table {
            assert_eq!(seconds(wait, token), expected, "{wait} {token:?}");
        }
        assert!(2 * 3600 / seconds(7200, Token::None) < 60);
    }
}
