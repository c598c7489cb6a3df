//! Which bucket and prefix a run's outputs have, from what was asked, what the environment says and
//! what GitHub says.

use crate::error::{Context, Hint, Result, anyhow, ensure};
use crate::location::Bucket;
use crate::run::{
    BucketFacts, Buckets, Event, Origin, Platform, Repository, Role, RunFacts, RunId, RunLocation,
    RunReference,
};
use crate::version::ReleaseType;

/// What was asked for by name. It beats everything else.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    pub repository: Option<Repository>,
    pub release_type: Option<ReleaseType>,
    pub bucket: Option<Bucket>,
}

/// What the run that this process is part of says of itself.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub repository: Option<Repository>,
    pub release_type: Option<ReleaseType>,
    pub run_id: Option<RunId>,
    pub event: Option<Event>,
}

impl Environment {
    /// Reads what GitHub sets: `GITHUB_REPOSITORY`, `RELEASE_TYPE`, `GITHUB_RUN_ID` and the text of
    /// the file that `GITHUB_EVENT_PATH` names. An empty text counts as unset.
    pub fn parse(
        repository: Option<&str>,
        release_type: Option<&str>,
        run_id: Option<&str>,
        payload: Option<&str>,
    ) -> Result<Self> {
        Ok(Self {
            repository: set(repository)
                .map(str::parse)
                .transpose()
                .context("read `GITHUB_REPOSITORY`")?,
            release_type: set(release_type)
                .map(str::parse)
                .transpose()
                .context("read `RELEASE_TYPE`")?,
            run_id: set(run_id)
                .map(str::parse)
                .transpose()
                .context("read `GITHUB_RUN_ID`")?,
            event: set(payload).map(Event::parse).transpose()?,
        })
    }
}

/// Everything that decides where a run keeps its outputs.
#[derive(Clone, Debug, Default)]
pub struct RunContext {
    pub choices: Choices,
    pub environment: Environment,
    /// What GitHub says about the run, once it has been asked.
    pub run: Option<RunFacts>,
}

/// Where the outputs of runs like this one are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub bucket: Bucket,
    /// What the prefix of each run begins with, in a bucket that repositories share.
    pub external: Option<Repository>,
    /// Unknown for a bucket that is not ours.
    pub region: Option<String>,
    /// Who may write there; nobody on behalf of a fork.
    pub role: Option<Role>,
}

impl Place {
    /// Where one run keeps what it makes for a platform.
    pub fn run(&self, id: &RunId, platform: Platform) -> RunLocation {
        RunLocation::new(self.bucket.clone(), self.external.as_ref(), id, platform)
    }
}

impl RunContext {
    /// The run's repository: as its address says, as chosen, as the environment says, or home.
    pub fn repository(&self, run: &RunReference) -> Result<Repository> {
        let chosen = self.choices.repository.as_ref();
        if let (Some(told), Some(chosen)) = (&run.repository, chosen) {
            ensure!(
                told == chosen,
                "a run of `{told}` was asked for in repository `{chosen}`"
            );
        }
        let repository = run.repository.as_ref().or(chosen);
        let repository = repository.or(self.environment.repository.as_ref());
        Ok(repository.unwrap_or(Buckets::builtin().home()).clone())
    }

    /// The release type: as chosen, or as the environment says of this very run, or `ci`.
    ///
    /// What this run is released as says nothing about another run that it reads.
    pub fn release_type(&self, run: &RunReference) -> ReleaseType {
        let chosen = self.choices.release_type;
        let said = self.environment.release_type;
        chosen
            .or(said.filter(|_| !self.is_another_run(run)))
            .unwrap_or(ReleaseType::Ci)
    }

    /// Whether GitHub must be asked about the run before `place` can answer.
    pub fn needs_lookup(&self, run: &RunReference) -> Result<bool> {
        let buckets = Buckets::builtin();
        Ok(self.choices.bucket.is_none()
            && !run.id.is_local()
            && buckets.tells_forks_apart(self.release_type(run))
            && self.repository(run)? == *buckets.home()
            && self.origin(run).is_none())
    }

    /// Takes an unknown run for the repository's own, where it makes no difference to others: in a
    /// place of one's own.
    pub fn trust(&mut self, run: &RunReference) -> Result<()> {
        if self.needs_lookup(run)? {
            self.run = Some(RunFacts {
                origin: Origin::Own,
                updated_at: None,
            });
        }
        Ok(())
    }

    /// Where the run's outputs are.
    pub fn place(&self, run: &RunReference) -> Result<Place> {
        let repository = self.repository(run)?;
        let buckets = Buckets::builtin();
        if let Some(bucket) = &self.choices.bucket {
            return Ok(match buckets.find(bucket) {
                Some(facts) => self.known_place(run, facts, repository),
                None => unknown_place(bucket.clone(), repository),
            });
        }
        if run.id.is_local() {
            let bucket = "local".parse()?;
            return Ok(unknown_place(bucket, buckets.home().clone()));
        }
        if self.needs_lookup(run)? {
            return Err(anyhow!(
                "not known whose code was built: run `{}` of `{repository}`",
                run.id
            ))
            .hint("let GitHub be asked, or pass `--bucket`");
        }
        let facts = RunFacts {
            // Where it is unknown by now, it makes no difference.
            origin: self.origin(run).unwrap_or(Origin::Own),
            updated_at: self.run.as_ref().and_then(|run| run.updated_at.clone()),
        };
        let facts = buckets.artifacts(self.release_type(run), &repository, &facts)?;
        Ok(self.known_place(run, facts, repository))
    }

    fn known_place(
        &self,
        run: &RunReference,
        facts: &BucketFacts,
        repository: Repository,
    ) -> Place {
        let event = self.environment.event;
        let is_trusted = self.origin(run) != Some(Origin::Fork)
            && event
                .is_none_or(|event| event.origin == Origin::Own && event.repository == Origin::Own);
        Place {
            bucket: facts.name.clone(),
            external: facts.external.then_some(repository),
            region: Some(facts.region.clone()),
            role: facts.role.clone().filter(|_| is_trusted),
        }
    }

    /// Whose code the run builds, as far as that is known. The event tells of this run only.
    fn origin(&self, run: &RunReference) -> Option<Origin> {
        if let Some(facts) = &self.run {
            return Some(facts.origin);
        }
        let is_this_run = self.environment.run_id.is_some() && !self.is_another_run(run);
        is_this_run.then_some(
            self.environment
                .event
                .map_or(Origin::Own, |event| event.origin),
        )
    }

    fn is_another_run(&self, run: &RunReference) -> bool {
        let here = &self.environment;
        let is_other_id = here.run_id.as_ref().is_some_and(|id| *id != run.id);
        let told = run.repository.as_ref().or(self.choices.repository.as_ref());
        let is_elsewhere = match (told, &here.repository) {
            (Some(there), Some(here)) => there != here,
            _ => false,
        };
        is_other_id || is_elsewhere
    }
}

fn set(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// A bucket that is not ours: nobody knows who else uses it, so a repository that is not home keeps
/// its own prefix.
fn unknown_place(bucket: Bucket, repository: Repository) -> Place {
    let is_home = repository == *Buckets::builtin().home();
    Place {
        bucket,
        external: Some(repository).filter(|_| !is_home),
        region: None,
        role: None,
    }
}

#[cfg(test)]
mod tests;
