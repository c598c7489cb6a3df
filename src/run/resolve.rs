//! Decides which bucket and prefix the outputs of a run have, from the flags, the environment and
//! the answer of GitHub's API.

use crate::error::{Context, Hint, Result, anyhow, ensure};
use crate::location::{Bucket, Key, Location};
use crate::run::{
    ArtifactGroup, Buckets, Event, Platform, Repository, Role, RunFacts, RunId, RunOrigin,
    RunReference,
};
use crate::version::ReleaseType;

/// The flags that the user passed. They have precedence over everything else.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    pub repository: Option<Repository>,
    pub release_type: Option<ReleaseType>,
    pub bucket: Option<Bucket>,
}

/// The environment of the run that this process is part of.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub repository: Option<Repository>,
    pub release_type: Option<ReleaseType>,
    pub run_id: Option<RunId>,
    pub event: Option<Event>,
}

impl Environment {
    /// Parses the variables that GitHub sets: `GITHUB_REPOSITORY`, `RELEASE_TYPE`, `GITHUB_RUN_ID`,
    /// and the contents of the file at `GITHUB_EVENT_PATH`. An empty value counts as unset.
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
                .context("failed to read `GITHUB_REPOSITORY`")?,
            release_type: set(release_type)
                .map(str::parse)
                .transpose()
                .context("failed to read `RELEASE_TYPE`")?,
            run_id: set(run_id)
                .map(str::parse)
                .transpose()
                .context("failed to read `GITHUB_RUN_ID`")?,
            event: set(payload).map(Event::parse).transpose()?,
        })
    }
}

/// A CI run with its repository and the place of its outputs.
///
/// It is resolved once, and all commands use the same value. So `fetch` and `summary` read where
/// `upload` and `pipeline` write, and where `place` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    pub repository: Repository,
    pub platform: Platform,
    pub bucket: Bucket,
    /// The region of the bucket; `None` if the bucket is not in `buckets.toml`.
    pub region: Option<String>,
    /// The role that may write to the bucket; always `None` for code of a fork.
    pub role: Option<Role>,
    prefix: Key,
}

/// The flags, the environment and the facts that decide where a run keeps its outputs.
#[derive(Clone, Debug, Default)]
pub struct RunContext {
    choices: Choices,
    environment: Environment,
    /// The answer of GitHub's API about the run, once it was asked.
    run: Option<RunFacts>,
}

impl Run {
    /// `{owner-repo/}{run}-{platform}`, without a trailing `/`. All attempts of a run share it.
    pub fn prefix(&self) -> &Key {
        &self.prefix
    }

    /// The location of a set of Python packages: `{prefix}/python/{group}/`.
    pub fn python(&self, group: &ArtifactGroup) -> Location {
        let path = match group.as_str() {
            "" => "python/".to_owned(),
            group => format!("python/{group}/"),
        };
        Location::new(self.bucket.clone(), key(&format!("{}/{path}", self.prefix)))
    }
}

/// The prefix of a run in its bucket. `external` is the repository of the run if the bucket is
/// shared by several repositories.
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

    /// Whether the user named the bucket, instead of leaving it to the table.
    pub fn names_a_bucket(&self) -> bool {
        self.choices.bucket.is_some()
    }

    /// Decides where a run keeps its outputs. `lookup` asks GitHub's API about the run; it is
    /// called only if the place depends on whose code the run built.
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

    /// The repository of the run: from its URL, the flags or the environment, or else the home
    /// repository. GitHub is not asked.
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

    /// The release type: from the flags, or from the environment if `run` is the current run, or
    /// else `ci`.
    ///
    /// The environment says how the current run is released. That does not apply to another run
    /// that it reads from.
    fn release_type(&self, run: &RunReference) -> ReleaseType {
        let chosen = self.choices.release_type;
        let said = self.environment.release_type;
        chosen
            .or(said.filter(|_| !self.is_another_run(run)))
            .unwrap_or(ReleaseType::Ci)
    }

    /// Whether GitHub's API has to be asked before [`RunContext::place`].
    fn needs_lookup(&self, run: &RunReference) -> Result<bool> {
        let buckets = Buckets::builtin();
        Ok(self.choices.bucket.is_none()
            && !run.id.is_local()
            && buckets.tells_forks_apart(self.release_type(run))
            && self.repository(run)? == *buckets.home()
            && self.origin(run).is_none())
    }

    /// The run with its bucket, prefix and role.
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
                // It is unknown only if the place does not depend on it, so any value will do.
                origin: self.origin(run).unwrap_or(RunOrigin::Own),
                updated_at: self.run.as_ref().and_then(|run| run.updated_at.clone()),
            };
            let known = buckets.artifacts(self.release_type(run), &repository, &facts)?;
            (&known.name, Some(known))
        };
        let is_shared = match known {
            Some(known) => known.external,
            // The table does not list this bucket, so it is unknown which repositories use it.
            // Other repositories than home get a prefix of their own, as in a shared bucket.
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

    /// Whether the code of the run, and that of the current process, is the repository's own.
    fn is_trusted(&self, run: &RunReference) -> bool {
        let event = self.environment.event;
        self.origin(run) != Some(RunOrigin::Fork)
            && event.is_none_or(|event| {
                event.origin == RunOrigin::Own && event.repository == RunOrigin::Own
            })
    }

    /// Whose code the run builds, if that is known. The event describes only the current run.
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

#[cfg(test)]
mod tests;
