//! Chooses the run and the source of its artifacts, and waits for artifacts that are still to come.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    candidates::Candidate,
    inventory::RunInventory,
    query::{Keeper, RunQuery, connect},
    run_artifacts::{ArtifactRole, RunArtifacts},
    source::{ArchiveSource, StoreSource},
};
use crate::{
    console::{World, took},
    error::{Context as _, Error, Exit, Hint as _, No, Result, anyhow, hinted, message},
    github::{RunState, Token},
    location::Key,
    run::{Buckets, RunReference},
    store::{Depth, Store, local::LocalStore, s3::S3Store},
};

/// The shortest and the longest pause between two polls.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(30);
/// GitHub answers 60 requests in an hour without a token. A poll makes two, so this makes 40.
const SELDOM_WITHOUT_TOKEN: Duration = Duration::from_mins(3);

/// The places that may have the artifacts of one run, in the order in which they are searched.
type Sources<'a> = Vec<Box<dyn ArchiveSource + 'a>>;

/// The chosen run, the source of its artifacts, and what `choose` selected of them.
pub(super) struct Settled<'a, T> {
    pub(super) source: Box<dyn ArchiveSource + 'a>,
    pub(super) candidate: Candidate,
    pub(super) chosen: T,
}

impl<'a> RunQuery<'a> {
    /// Takes the first candidate for which `choose` succeeds. If none has what is wanted, waits for
    /// the first candidate.
    pub(super) fn settle<T>(
        &self,
        world: &'a World,
        choose: impl Fn(&dyn ArchiveSource, &RunInventory) -> Result<T>,
    ) -> Result<Settled<'a, T>> {
        self.check_input_dir()?;
        let choose = |sources: &mut Sources<'a>| self.choose(sources, &choose);
        let mut newest = None;
        let candidates = self.candidates(world)?;
        let are_several = candidates.len() > 1;
        for mut candidate in candidates {
            self.complete(&mut candidate, world)?;
            let mut sources = self.sources(&candidate, world)?;
            // `Exit::No` means that this run lacks what is wanted, so the next candidate may have
            // it. Any other error, such as a failed connection, ends the search.
            match choose(&mut sources) {
                Err(error) if Exit::of(&error) == Exit::No => {
                    if are_several {
                        let (run, why) = (candidate.in_words(), message(&error));
                        world.console.note(format!("skipped {run}: {why}"));
                    }
                    newest = newest.or(Some((candidate, sources, error)));
                }
                chosen => return Ok(Settled::new(candidate, chosen?)),
            }
        }
        let (candidate, mut sources, error) = newest.context("no run may be meant")?;
        let chosen = self.wait_for(&candidate, error, world, || choose(&mut sources))?;
        Ok(Settled::new(candidate, chosen))
    }

    /// Applies `choose` to the first source that has any artifacts for the platform.
    fn choose<T>(
        &self,
        sources: &mut Sources<'a>,
        choose: impl Fn(&dyn ArchiveSource, &RunInventory) -> Result<T>,
    ) -> Result<(Box<dyn ArchiveSource + 'a>, T)> {
        for (at, source) in sources.iter().enumerate() {
            let inventory = source.inventory()?;
            if !inventory.is_empty() {
                let chosen = choose(&**source, &inventory)?;
                return Ok((sources.swap_remove(at), chosen));
            }
        }
        let names: Vec<String> = sources.iter().map(ToString::to_string).collect();
        let places = names.join(", nor in ");
        let message = format!("no artifacts for {} in {places}", self.platform);
        let hint = match self.keeper {
            _ if self.input_dir.is_some() => "check `--input-dir`, `--run-id` and `--platform`",
            Keeper::GitHub => "look at `--run-id` and `--platform`",
            _ => "look at `--run-id`, `--platform` and `--bucket`",
        };
        Err(hinted(No(message), hint))
    }

    /// Asks GitHub about the run if its place depends on whose code it built (a fork has another
    /// bucket). Not needed with `--input-dir`, where directories are searched instead.
    fn complete(&self, candidate: &mut Candidate, world: &World) -> Result<()> {
        if candidate.told.is_some() || self.input_dir.is_some() || self.keeper == Keeper::GitHub {
            return Ok(());
        }
        let (run, mut told) = (&candidate.run, None);
        self.context.resolve(run, self.platform, |repository| {
            let github = self.connect(run.server.as_deref(), world)?;
            let answer = github.run(repository, &run.id)?;
            let facts = answer.facts.clone();
            told = Some(answer);
            Ok(facts)
        })?;
        candidate.told = told;
        Ok(())
    }

    /// `--input-dir` must exist, except with `--wait`: the directory may be created meanwhile.
    fn check_input_dir(&self) -> Result<()> {
        match &self.input_dir {
            Some(directory) if self.wait.is_none() && !directory.is_dir() => {
                Err(anyhow!("not a directory: `{}`", directory.display()))
                    .hint("check `--input-dir`")
            }
            _ => Ok(()),
        }
    }

    /// Calls `choose` again until it succeeds, the run has ended or the time is up. `error` is the
    /// failure of the first attempt.
    fn wait_for<T>(
        &self,
        candidate: &Candidate,
        mut error: Error,
        world: &World,
        mut choose: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        if candidate.run.id.is_local() || self.input_dir.is_some() && self.wait.is_none() {
            return Err(error);
        }
        let wait = self.wait.unwrap_or_default();
        let start = Instant::now();
        let github = self.connect(candidate.run.server.as_deref(), world)?;
        let repository = self.context.repository(&candidate.run)?;
        loop {
            let run = match github.run(&repository, &candidate.run.id) {
                // Without `--wait`, GitHub is only asked for a better hint. If that fails, the
                // missing artifacts are still the error to report.
                Err(_) if wait.is_zero() => return Err(error),
                run => run?,
            };
            let status = match run.state {
                RunState::Running(status) => status,
                RunState::Ended(how) => {
                    let page = run.page;
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

    fn sources(&self, candidate: &Candidate, world: &'a World) -> Result<Sources<'a>> {
        let run = &candidate.run;
        if let Some(directory) = &self.input_dir {
            return Ok(vec![Box::new(self.local(directory, run)?)]);
        }
        // A bucket that the user named is the only source: do not fall back to GitHub.
        let only_bucket = self.context.names_a_bucket() || run.id.is_local();
        Ok(match self.keeper {
            Keeper::GitHub => vec![Box::new(self.run_artifacts(
                run,
                ArtifactRole::Only,
                world,
            )?)],
            Keeper::Auto if !only_bucket => vec![
                Box::new(self.bucket(candidate, world)?),
                Box::new(self.run_artifacts(run, ArtifactRole::Second, world)?),
            ],
            Keeper::Auto | Keeper::Bucket => vec![Box::new(self.bucket(candidate, world)?)],
        })
    }

    /// The artifacts that GitHub keeps for the run.
    fn run_artifacts(
        &self,
        run: &RunReference,
        role: ArtifactRole,
        world: &'a World,
    ) -> Result<RunArtifacts<'a>> {
        let (settings, server) = (Arc::clone(&self.github), run.server.clone());
        Ok(RunArtifacts::new(
            Box::new(move || connect(&settings, server.as_deref(), world)),
            world,
            (self.context.repository(run)?, run.id.clone()),
            self.platform,
            role,
        ))
    }

    /// The bucket that runs of this repository upload to.
    fn bucket(&self, candidate: &Candidate, world: &World) -> Result<StoreSource> {
        let run = candidate.resolve(self)?;
        let access = self.access.clone().in_known_region(run.region.as_deref())?;
        let directory = run.prefix().clone();
        let store = S3Store::connect(run.bucket, &access, world.stop.clone())?;
        Ok(StoreSource::new(Box::new(store), Some(directory)))
    }

    /// The directory of the run below `root` (`{run}-{platform}`), or `root` itself if it has none.
    fn local(&self, root: &Path, run: &RunReference) -> Result<StoreSource> {
        let store = LocalStore::new(root);
        let directory = self.directory_of(run, &store)?;
        Ok(StoreSource::new(Box::new(store), directory))
    }

    fn directory_of(&self, run: &RunReference, store: &dyn Store) -> Result<Option<Key>> {
        if self.run.is_none() && self.search.is_none() {
            return Ok(None);
        }
        let repository = self.context.repository(run)?;
        let name = format!("{}-{}", run.id, self.platform);
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

impl<'a, T> Settled<'a, T> {
    fn new(candidate: Candidate, (source, chosen): (Box<dyn ArchiveSource + 'a>, T)) -> Self {
        Self {
            source,
            candidate,
            chosen,
        }
    }
}

/// The pause before the next poll: short if the user waits a short time. A long wait is polled
/// rarely enough to stay below GitHub's rate limit.
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
