//! Which bucket and prefix a run's outputs have, from what was asked, what the environment says and
//! what GitHub says.

use crate::error::{Context, Hint, Result, anyhow, ensure};
use crate::location::{Bucket, Key, Location};
use crate::run::{
    ArtifactGroup, Buckets, Event, Platform, Repository, Role, RunFacts, RunId, RunOrigin,
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

/// A CI run, the repository that it belongs to, and where it keeps its outputs.
///
/// It is resolved once, and every command that reads or writes outputs of the run asks this value:
/// what `place` prints is where `upload` and `pipeline` write, and where `fetch` and `summary` look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    pub repository: Repository,
    pub platform: Platform,
    pub bucket: Bucket,
    /// The region of the bucket. Unknown for a bucket that is not in `buckets.toml`.
    pub region: Option<String>,
    /// The role that may write there. There is none for code from a fork.
    pub role: Option<Role>,
    prefix: Key,
}

/// Everything that decides where a run keeps its outputs.
#[derive(Clone, Debug, Default)]
pub struct RunContext {
    choices: Choices,
    environment: Environment,
    /// What GitHub says about the run, once it has been asked.
    run: Option<RunFacts>,
}

impl Run {
    /// `{owner-repo/}{run}-{platform}`, without a `/` at its end. Each attempt of a run has the same.
    pub fn prefix(&self) -> &Key {
        &self.prefix
    }

    /// The directory of a set of Python packages: `{prefix}/python/{group}/`.
    pub fn python(&self, group: &ArtifactGroup) -> Location {
        let path = match group.as_str() {
            "" => "python/".to_owned(),
            group => format!("python/{group}/"),
        };
        Location::new(self.bucket.clone(), key(&format!("{}/{path}", self.prefix)))
    }
}

/// The prefix of a run in its bucket; `external` is its repository in a bucket that repositories
/// share.
pub(super) fn prefix(external: Option<&Repository>, id: &RunId, platform: Platform) -> Key {
    let shared = external.map(|it| format!("{}-{}/", it.owner(), it.name()));
    key(&format!("{}{id}-{platform}", shared.unwrap_or_default()))
}

fn key(text: &str) -> Key {
    text.parse().expect("made of names that are segments")
}

impl RunContext {
    pub fn new(choices: Choices, environment: Environment) -> Self {
        Self {
            choices,
            environment,
            run: None,
        }
    }

    /// Whether the bucket was named, and is not merely the usual one.
    pub fn names_a_bucket(&self) -> bool {
        self.choices.bucket.is_some()
    }

    /// Finds out where a run keeps its outputs. `lookup` asks GitHub about the run; it is called
    /// only if the answer depends on whose code the run built.
    pub fn resolve(
        &self,
        reference: &RunReference,
        platform: Platform,
        lookup: impl FnOnce(&Repository) -> Result<RunFacts>,
    ) -> Result<Run> {
        let mut context = self.clone();
        if context.needs_lookup(reference)? {
            context.run = Some(lookup(&context.repository(reference)?)?);
        }
        context.place(reference, platform)
    }

    /// The run's repository, which is known without asking GitHub: as its address says, as chosen, as the environment says, or home.
    pub fn repository(&self, run: &RunReference) -> Result<Repository> {
        let chosen = self.choices.repository.as_ref();
        if let (Some(told), Some(chosen)) = (&run.repository, chosen) {
            ensure!(
                told == chosen,
                "the run belongs to `{told}`, not to `{chosen}`"
            );
        }
        let repository = run.repository.as_ref().or(chosen);
        let repository = repository.or(self.environment.repository.as_ref());
        Ok(repository.unwrap_or(Buckets::builtin().home()).clone())
    }

    /// The release type: as chosen, or as the environment says of this very run, or `ci`.
    ///
    /// What this run is released as says nothing about another run that it reads.
    fn release_type(&self, run: &RunReference) -> ReleaseType {
        let chosen = self.choices.release_type;
        let said = self.environment.release_type;
        chosen
            .or(said.filter(|_| !self.is_another_run(run)))
            .unwrap_or(ReleaseType::Ci)
    }

    /// Whether GitHub must be asked about the run before `place` can answer.
    fn needs_lookup(&self, run: &RunReference) -> Result<bool> {
        let buckets = Buckets::builtin();
        Ok(self.choices.bucket.is_none()
            && !run.id.is_local()
            && buckets.tells_forks_apart(self.release_type(run))
            && self.repository(run)? == *buckets.home()
            && self.origin(run).is_none())
    }

    /// Where the run's outputs are.
    fn place(&self, run: &RunReference, platform: Platform) -> Result<Run> {
        let repository = self.repository(run)?;
        let buckets = Buckets::builtin();
        let local;
        let (bucket, known) = if let Some(bucket) = &self.choices.bucket {
            (bucket, buckets.find(bucket))
        } else if run.id.is_local() {
            local = "local".parse()?;
            (&local, None)
        } else {
            if self.needs_lookup(run)? {
                return Err(anyhow!(
                    "cannot tell whose code was built: run `{}` of `{repository}`",
                    run.id
                ))
                .hint("allow access to GitHub's API, or pass `--bucket`");
            }
            let facts = RunFacts {
                // Where it is unknown by now, it makes no difference.
                origin: self.origin(run).unwrap_or(RunOrigin::Own),
                updated_at: self.run.as_ref().and_then(|run| run.updated_at.clone()),
            };
            let known = buckets.artifacts(self.release_type(run), &repository, &facts)?;
            (&known.name, Some(known))
        };
        let is_shared = match known {
            Some(known) => known.external,
            None => self.choices.bucket.is_some() && repository != *buckets.home(),
        };
        let external = is_shared.then_some(&repository);
        let role = known.and_then(|known| known.role.clone());
        Ok(Run {
            bucket: bucket.clone(),
            region: known.map(|known| known.region.clone()),
            role: role.filter(|_| self.is_trusted(run)),
            prefix: prefix(external, &run.id, platform),
            id: run.id.clone(),
            platform,
            repository,
        })
    }

    /// Whether the code of the run, and of this process, is the repository's own.
    fn is_trusted(&self, run: &RunReference) -> bool {
        let event = self.environment.event;
        self.origin(run) != Some(RunOrigin::Fork)
            && event.is_none_or(|event| {
                event.origin == RunOrigin::Own && event.repository == RunOrigin::Own
            })
    }

    /// Whose code the run builds, as far as that is known. The event tells of this run only.
    fn origin(&self, run: &RunReference) -> Option<RunOrigin> {
        if let Some(facts) = &self.run {
            return Some(facts.origin);
        }
        let is_this_run = self.environment.run_id.is_some() && !self.is_another_run(run);
        is_this_run.then_some(
            self.environment
                .event
                .map_or(RunOrigin::Own, |event| event.origin),
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
#[cfg(test)]
mod tests;
