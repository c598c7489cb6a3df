//! Decides which bucket and prefix the outputs of a run have, from the flags, the environment, the
//! answer of GitHub's API, and the table of buckets, `buckets.toml`: which outputs go to which
//! bucket, and which role may write to it.

use std::{str::FromStr, sync::LazyLock};

use serde::Deserialize;

use crate::{
    error::{Context as _, Error, Hint as _, Result, ensure},
    location::{Bucket, Key, Location},
    run::{ArtifactGroup, Event, Platform, Repository, RunFacts, RunId, RunOrigin, RunReference},
    version::ReleaseType,
};

/// The environment of the run that this process is part of.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub repository: Option<Repository>,
    pub release_type: Option<ReleaseType>,
    pub run_id: Option<RunId>,
    pub event: Option<Event>,
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
    pub role: Option<String>,
    /// Whether the credentials of the runner may be used if there is no role. The code of a fork
    /// may only write to a bucket that it shares with others.
    pub takes_runner_credentials: bool,
    /// `{owner-repo/}{run}-{platform}`, without a trailing `/`. All attempts of a run share it.
    pub prefix: Key,
}

/// The flags and the environment, which decide where a run keeps its outputs. The flags have
/// precedence over everything else.
#[derive(Clone, Debug, Default)]
pub struct RunContext {
    pub repository: Option<Repository>,
    pub release_type: Option<ReleaseType>,
    pub bucket: Option<Bucket>,
    pub environment: Environment,
}

impl Environment {
    /// Parses the variables that GitHub sets: `GITHUB_REPOSITORY`, `RELEASE_TYPE`, `GITHUB_RUN_ID`,
    /// and the contents of the file at `GITHUB_EVENT_PATH`. An empty value counts as unset.
    pub fn parse(variable: impl Fn(&str) -> Option<String>, payload: Option<&str>) -> Result<Self> {
        let payload = payload.map(str::trim).filter(|payload| !payload.is_empty());
        Ok(Self {
            repository: parse_set(&variable, "GITHUB_REPOSITORY")?,
            release_type: parse_set(&variable, "RELEASE_TYPE")?,
            run_id: parse_set(&variable, "GITHUB_RUN_ID")?,
            event: payload.map(Event::parse).transpose()?,
        })
    }
}

fn parse_set<T: FromStr<Err: Into<Error>>>(
    variable: impl Fn(&str) -> Option<String>,
    name: &str,
) -> Result<Option<T>> {
    let text = variable(name).unwrap_or_default();
    let parse = |text: &str| text.parse().map_err(Into::into);
    let set = Some(text.trim()).filter(|text| !text.is_empty());
    set.map(parse)
        .transpose()
        .with_context(|| format!("failed to read `{name}`"))
}

impl Run {
    /// The location of a set of Python packages: `{prefix}/python/{group}/`, or `{prefix}/python/`
    /// for a group that is for all families.
    pub fn python(&self, group: &ArtifactGroup) -> Location {
        let path = if group.is_for_all() {
            "python/".to_owned()
        } else {
            format!("python/{group}/")
        };
        Location::new(self.bucket.clone(), key(&format!("{}/{path}", self.prefix)))
    }
}

fn key(text: &str) -> Key {
    text.parse().expect("made of names that are segments")
}

impl RunContext {
    /// Decides where a run keeps its outputs. `lookup` asks GitHub's API about the run; it is
    /// called only if the place depends on whose code the run built.
    pub fn resolve(
        &self,
        run: &RunReference,
        platform: Platform,
        lookup: impl FnOnce(&Repository) -> Result<RunFacts>,
    ) -> Result<Run> {
        let repository = self.repository(run)?;
        let buckets = Buckets::builtin();
        let is_home = repository == *buckets.home();
        let mut origin = self.origin(run);
        let (bucket, known) = if let Some(bucket) = &self.bucket {
            (bucket.clone(), buckets.find(bucket))
        } else if run.id.is_local() {
            ("local".parse()?, None)
        } else {
            let kind = self.release_type(run);
            let facts = match origin {
                None if is_home && buckets.tells_forks_apart(kind) => lookup(&repository)?,
                // It is unknown only if the place does not depend on it, so any value will do.
                origin => RunFacts {
                    origin: origin.unwrap_or_default(),
                    ..RunFacts::default()
                },
            };
            origin = Some(facts.origin);
            let known = buckets.artifacts(kind, &repository, &facts)?;
            (known.name.clone(), Some(known))
        };
        let is_shared = match known {
            Some(known) => known.external,
            // The table does not list this bucket, so it is unknown which repositories use it.
            // Other repositories than home get a prefix of their own, as in a shared bucket.
            None => self.bucket.is_some() && !is_home,
        };
        let (owner, name) = (repository.owner(), repository.name());
        let shared = if is_shared {
            format!("{owner}-{name}/")
        } else {
            String::new()
        };
        // Neither the code of the run nor that of the current process may be that of a fork.
        let is_trusted =
            origin != Some(RunOrigin::Fork) && self.environment.event.is_none_or(Event::is_trusted);
        Ok(Run {
            bucket,
            region: known.map(|known| known.region.clone()),
            role: known
                .and_then(|known| known.role.clone())
                .filter(|_| is_trusted),
            takes_runner_credentials: is_trusted || known.is_none_or(|known| known.external),
            prefix: key(&format!("{shared}{}-{platform}", run.id)),
            id: run.id.clone(),
            platform,
            repository,
        })
    }

    /// The repository of the run: from its URL, the flags or the environment, or else the home
    /// repository. GitHub is not asked.
    pub fn repository(&self, run: &RunReference) -> Result<Repository> {
        let chosen = self.repository.as_ref();
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
        let said = self.environment.release_type;
        let said = said.filter(|_| !self.is_another_run(run));
        self.release_type.or(said).unwrap_or(ReleaseType::Ci)
    }

    /// Whose code the run builds, if the environment tells. The event describes only the current
    /// run.
    fn origin(&self, run: &RunReference) -> Option<RunOrigin> {
        let here = &self.environment;
        let is_this_run = here.run_id.is_some() && !self.is_another_run(run);
        is_this_run.then(|| here.event.map_or(RunOrigin::Own, |event| event.origin))
    }

    fn is_another_run(&self, run: &RunReference) -> bool {
        let here = &self.environment;
        let is_other_id = here.run_id.as_ref().is_some_and(|id| *id != run.id);
        let told = run.repository.as_ref().or(self.repository.as_ref());
        let is_elsewhere = told.zip(here.repository.as_ref());
        is_other_id || is_elsewhere.is_some_and(|(there, here)| there != here)
    }
}

static BUILTIN: LazyLock<Buckets> = LazyLock::new(|| {
    Buckets::parse(include_str!("../buckets.toml")).expect("a test reads the built-in buckets")
});

/// The rules for choosing a bucket.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buckets {
    home: Repository,
    region: String,
    account: String,
    #[serde(rename = "buckets")]
    known: Vec<BucketFacts>,
    release_types: Vec<ReleaseBuckets>,
    legacy: LegacyBuckets,
}

/// One bucket of the table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketFacts {
    pub name: Bucket,
    #[serde(skip)]
    pub region: String,
    /// The role that may write to it, `arn:aws:iam::{account}:role/{name}`; `None` if CI runs may
    /// not write to it.
    pub role: Option<String>,
    /// Whether runs of several repositories share it. Each repository then has its own prefix.
    #[serde(default)]
    pub external: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseBuckets {
    name: ReleaseType,
    artifacts: Option<Bucket>,
    external: Option<Bucket>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LegacyBuckets {
    until: String,
    artifacts: Bucket,
    external: Bucket,
}

impl Buckets {
    /// The table that is compiled into this program.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    fn parse(text: &str) -> Result<Self> {
        let mut table: Self = toml::from_str(text).context("failed to read the buckets")?;
        for bucket in &mut table.known {
            bucket.region.clone_from(&table.region);
            if let Some(role) = &mut bucket.role {
                *role = format!("arn:aws:iam::{}:role/{role}", table.account);
            }
        }
        Ok(table)
    }

    /// The repository whose runs need no prefix in their bucket.
    pub fn home(&self) -> &Repository {
        &self.home
    }

    /// The entry of a bucket, if it is in the table.
    pub fn find(&self, bucket: &Bucket) -> Option<&BucketFacts> {
        self.known.iter().find(|facts| facts.name == *bucket)
    }

    /// The bucket for the artifacts of a run.
    fn artifacts(
        &self,
        kind: ReleaseType,
        repository: &Repository,
        run: &RunFacts,
    ) -> Result<&BucketFacts> {
        let release = self.release(kind)?;
        let own = release
            .artifacts
            .as_ref()
            .with_context(|| format!("no run keeps artifacts for release type `{kind}`"))
            .hint("pass `--bucket`, or the release type that was promoted")?;
        let Some(external) = &release.external else {
            return self.listed(own);
        };
        let until = &self.legacy.until;
        let is_legacy = run.updated_at.as_ref().is_some_and(|at| at <= until);
        let is_own = *repository == self.home && run.origin == RunOrigin::Own;
        self.listed(match (is_legacy, is_own) {
            (false, true) => own,
            (false, false) => external,
            (true, true) => &self.legacy.artifacts,
            (true, false) => &self.legacy.external,
        })
    }

    /// Whether forks have another bucket, so that the place of artifacts depends on whose code a
    /// run of the home repository builds.
    fn tells_forks_apart(&self, kind: ReleaseType) -> bool {
        self.release(kind).is_ok_and(|it| it.external.is_some())
    }

    fn release(&self, kind: ReleaseType) -> Result<&ReleaseBuckets> {
        let mut releases = self.release_types.iter();
        let release = releases.find(|release| release.name == kind);
        release.with_context(|| format!("no rule for release type `{kind}`"))
    }

    fn listed(&self, bucket: &Bucket) -> Result<&BucketFacts> {
        self.find(bucket)
            .with_context(|| format!("a bucket that is not listed: `{bucket}`"))
    }
}

#[cfg(test)]
mod tests;
