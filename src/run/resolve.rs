//! Decides which bucket and prefix the outputs of a run have, from the flags, the environment, the
//! answer of GitHub's API, and the table of buckets, `buckets.toml`: which outputs go to which
//! bucket, and which role may write to it.

use std::{str::FromStr, sync::LazyLock};

use itertools::Itertools as _;
use serde::Deserialize;

use crate::run::{
    ArtifactGroup, Event, Platform, Repository, RunAttempt, RunFacts, RunId, RunOrigin,
    RunReference,
};
use rocwheel_base::{
    error::{Context as _, Error, Exit, Hint as _, Result, anyhow, ensure, one_line},
    version::{ReleaseStream, ReleaseType},
};
use rocwheel_store::location::{Bucket, Key, Location};

/// What a user can do who knows more about a run than GitHub tells.
const UNASKED: &str = "pass `--bucket` to say where its outputs are";

/// The bucket of a local run, which has none: only its directories are used.
const LOCAL: &str = "local";

/// The environment of the run that this process is part of.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub repository: Option<Repository>,
    pub release_type: Option<ReleaseType>,
    pub run_id: Option<RunId>,
    pub run_attempt: Option<RunAttempt>,
    pub event: Option<Event>,
}

/// A CI run with its repository and the place of its outputs.
///
/// It is resolved once, and all commands use the same value. So `fetch` and `summary` read where
/// `upload` and `pipeline` write, and where `place` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    /// The attempt that this process is part of. `None` for another run.
    pub attempt: Option<RunAttempt>,
    pub repository: Repository,
    pub platform: Platform,
    pub bucket: Bucket,
    /// The region of the bucket; `None` if the bucket is not in `buckets.toml`.
    pub region: Option<String>,
    /// The role that may write to the bucket; always `None` for code of a fork.
    pub role: Option<String>,
    /// Whether the credentials of the runner may be used if there is no role: [`Buckets::takes_forks`].
    pub takes_runner_credentials: bool,
    /// `{owner-repo/}{run}-{platform}`, without a trailing `/`. All attempts of a run share it.
    pub prefix: Key,
    /// What decided the place, and neither the user nor GitHub has said.
    pub assumed: Vec<Assumption>,
}

/// What is taken as true about a run because nothing says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Assumption {
    #[display("run {_0} has release type `{_1}`; pass `--release-type` if it has another")]
    ReleaseType(RunId, ReleaseType),
    #[display("run {_0} did not build the code of a fork")]
    OwnCode(RunId),
    /// With the reason why GitHub did not say so.
    #[display("run {_0} built the code of a fork, so that no role may write its packages{_1}")]
    ForeignCode(RunId, String),
    /// With the reason why GitHub did not say so, if it was asked.
    #[display("run {_0} is from after {_1}{_2}")]
    AfterMove(RunId, String, String),
}

/// The flags and the environment, which decide where a run keeps its outputs. The flags have
/// precedence over everything else.
#[derive(Clone, Debug, Default)]
pub struct RunContext {
    pub repository: Option<Repository>,
    pub release_type: Option<ReleaseType>,
    pub bucket: Option<Bucket>,
    /// Whether GitHub must not be asked.
    pub is_offline: bool,
    /// Whether the role is what the caller wants: then it must be known whose code the run built, also where the
    /// place does not depend on it.
    pub wants_role: bool,
    pub environment: Environment,
}

impl Environment {
    /// Parses the variables that GitHub sets: `GITHUB_REPOSITORY`, `RELEASE_TYPE`, `GITHUB_RUN_ID`,
    /// `GITHUB_RUN_ATTEMPT`, `GITHUB_EVENT_NAME`, and the contents of the file at `GITHUB_EVENT_PATH`. An empty
    /// variable counts as unset.
    pub fn parse(variable: impl Fn(&str) -> Option<String>, payload: Option<&str>) -> Result<Self> {
        Ok(Self {
            repository: parse_set(&variable, "GITHUB_REPOSITORY")?,
            release_type: parse_set(&variable, "RELEASE_TYPE")?,
            run_id: parse_set(&variable, "GITHUB_RUN_ID")?,
            run_attempt: parse_set(&variable, "GITHUB_RUN_ATTEMPT")?,
            event: Event::of(&variable("GITHUB_EVENT_NAME").unwrap_or_default(), payload)?,
        })
    }
}

fn parse_set<T: FromStr<Err: Into<Error>>>(
    variable: impl Fn(&str) -> Option<String>,
    name: &str,
) -> Result<Option<T>> {
    let value = variable(name).unwrap_or_default();
    match value.trim() {
        "" => Ok(None),
        set => {
            let parsed = set.parse().map_err(Into::into);
            parsed.map(Some).with_context(|| format!("failed to read `{name}`"))
        }
    }
}

fn key(text: &str) -> Key {
    text.parse().expect("made of names that are segments")
}

impl Run {
    /// Fails for a local run for which the user named no bucket.
    pub fn ensure_bucket(&self) -> Result<()> {
        let has_one = !self.id.is_local() || self.bucket.as_str() != LOCAL;
        has_one
            .then_some(())
            .context("a local run has no bucket")
            .hint("pass `--bucket`, or the id of a run as `--run-id`")
    }

    /// Why no role may write the outputs of the run; `None` if one may.
    pub fn no_role(&self) -> Option<String> {
        if self.role.is_some() {
            return None;
        }
        let bucket = &self.bucket;
        Some(match Buckets::builtin().find(bucket) {
            None => format!("`{bucket}` is no bucket of TheRock"),
            Some(known) if known.role.is_none() => format!("no run may write to `{bucket}`"),
            Some(_) => "the run builds the code of a fork".to_owned(),
        })
    }

    /// The location of a set of Python packages: `{prefix}/python/{group}/`, or `{prefix}/python/`
    /// for a group that is for all families.
    pub fn python(&self, group: &ArtifactGroup) -> Location {
        let path =
            if group.is_for_all() { "python/".to_owned() } else { format!("python/{group}/") };
        Location::new(self.bucket.clone(), key(&format!("{}/{path}", self.prefix)))
    }
}

impl RunContext {
    /// Decides where a run keeps its outputs. `lookup` asks GitHub's API about the run; it is
    /// called only if the answer depends on whose code the run built, or when.
    pub fn resolve(
        &self,
        run: &RunReference,
        platform: Platform,
        lookup: impl FnOnce(&Repository) -> Result<RunFacts>,
    ) -> Result<Run> {
        let repository = self.repository(run)?;
        let buckets = Buckets::builtin();
        let kind = self.release_type(run);
        let is_local = run.id.is_local();
        let mut assumed = Vec::new();
        if self.bucket.is_none() && !is_local && self.is_type_assumed(run) {
            assumed.push(Assumption::ReleaseType(run.id.clone(), kind));
        }
        let has_role = || match &self.bucket {
            Some(bucket) => buckets.find(bucket).is_some_and(|known| known.role.is_some()),
            None => true,
        };
        let is_place_open = self.bucket.is_none() && buckets.tells_runs_apart(kind);
        let facts = match self.origin(run) {
            Some(origin) => RunFacts { origin, ..RunFacts::default() },
            None if !is_local && (is_place_open || self.wants_role && has_role()) => {
                let (facts, more) = self.facts(run, &repository, kind, lookup)?;
                assumed.extend(more);
                facts
            }
            // Nothing depends on it, so any value will do.
            None => RunFacts::default(),
        };
        let (bucket, known) = match &self.bucket {
            Some(bucket) => (bucket.clone(), buckets.find(bucket)),
            None if is_local => (LOCAL.parse()?, None),
            None => {
                let known = buckets.artifacts(kind, &repository, &facts)?;
                (known.name.clone(), Some(known))
            }
        };
        // Neither the run nor the current process may have been built from the code of a fork.
        let is_trusted =
            facts.origin != RunOrigin::Fork && self.environment.event.is_none_or(Event::is_trusted);
        let prefix = prefix(known, &repository, &run.id, platform);
        Ok(Run {
            region: known.map(|known| known.region.clone()),
            role: known.and_then(|known| known.role.clone()).filter(|_| is_trusted),
            takes_runner_credentials: is_trusted || buckets.takes_forks(&bucket),
            bucket,
            prefix,
            assumed,
            id: run.id.clone(),
            attempt: self.environment.run_attempt.filter(|_| self.is_this_run(run)),
            platform,
            repository,
        })
    }

    /// The flags that name the other buckets where the run may keep its outputs, if its release type was
    /// assumed: `--release-type nightly`, `--bucket therock-artifacts`.
    pub fn other_buckets(&self, reference: &RunReference, run: &Run) -> Vec<String> {
        if self.bucket.is_some() || reference.id.is_local() || !self.is_type_assumed(reference) {
            return Vec::new();
        }
        let buckets = Buckets::builtin();
        // Jobs of forks may write to external buckets. No run that builds the code of the home
        // repository keeps its outputs there, so files there under its id are not from it.
        let is_own = run.repository == *buckets.home()
            && buckets.find(&run.bucket).is_some_and(|it| !it.external);
        buckets
            .of_runs(&run.repository)
            .filter(|(known, _)| known.name != run.bucket && !(is_own && known.external))
            .map(|(_, flag)| flag)
            .collect()
    }

    /// What GitHub reports about another run, or what has to be assumed. In the home repository the place of most
    /// runs depends on whose code they built: then no answer is an error. Elsewhere only the place of old runs
    /// depends on GitHub, and a role: without an answer there is none.
    fn facts(
        &self,
        run: &RunReference,
        repository: &Repository,
        kind: ReleaseType,
        lookup: impl FnOnce(&Repository) -> Result<RunFacts>,
    ) -> Result<(RunFacts, Vec<Assumption>)> {
        let buckets = Buckets::builtin();
        let is_place_open = self.bucket.is_none() && buckets.tells_runs_apart(kind);
        let is_needed = is_place_open && repository == buckets.home();
        let id = &run.id;
        let mut facts = RunFacts::default();
        let mut assumed = Vec::new();
        let mut why = String::new();
        if self.is_offline {
            if is_needed || self.wants_role {
                assumed.push(Assumption::OwnCode(id.clone()));
            }
        } else {
            match lookup(repository) {
                Err(error) if !is_needed && Exit::of(&error) != Exit::Interrupted => {
                    why = format!(": {}", one_line(&error));
                }
                told => return Ok((told.hint(UNASKED)?, Vec::new())),
            }
            if self.wants_role {
                facts.origin = RunOrigin::Fork;
                assumed.push(Assumption::ForeignCode(id.clone(), why.clone()));
            }
        }
        let legacy = buckets.legacy(kind).filter(|_| is_place_open);
        assumed.extend(
            legacy.map(|legacy| Assumption::AfterMove(id.clone(), legacy.until.clone(), why)),
        );
        Ok((facts, assumed))
    }

    /// The repository of the run: from its URL, the flags or the environment, or else the home
    /// repository. GitHub is not asked.
    pub fn repository(&self, run: &RunReference) -> Result<Repository> {
        let chosen = self.repository.as_ref();
        if let (Some(told), Some(chosen)) = (&run.repository, chosen) {
            ensure!(told == chosen, "the run belongs to `{told}`, not to `{chosen}`");
        }
        let repository =
            run.repository.as_ref().or(chosen).or(self.environment.repository.as_ref());
        // The prefix of a shared bucket has the name as GitHub writes it.
        let home = Buckets::builtin().home();
        Ok(repository.filter(|it| *it != home).unwrap_or(home).clone())
    }

    /// The release type: from the flags, or from the environment if `run` is the current run, or
    /// else `ci`.
    ///
    /// The environment says how the current run is released. That does not apply to another run
    /// that it reads from.
    fn release_type(&self, run: &RunReference) -> ReleaseType {
        let of_current_run = self.environment.release_type.filter(|_| !self.is_another_run(run));
        self.release_type.or(of_current_run).unwrap_or(ReleaseType::Ci)
    }

    /// Whether neither the user nor the environment has said which release type the run has. A run
    /// of CI that says nothing about itself is of the default type.
    fn is_type_assumed(&self, run: &RunReference) -> bool {
        let is_said = self.environment.release_type.is_some() && !self.is_another_run(run);
        self.release_type.is_none() && !is_said && !self.is_this_run(run)
    }

    /// Whose code the run builds, if the environment tells. The event describes only the current
    /// run.
    fn origin(&self, run: &RunReference) -> Option<RunOrigin> {
        let event = self.environment.event;
        let is_this_run = self.is_this_run(run);
        is_this_run.then(|| event.map_or(RunOrigin::Own, |event| event.origin))
    }

    /// Whether this process is part of the run.
    fn is_this_run(&self, run: &RunReference) -> bool {
        self.environment.run_id.is_some() && !self.is_another_run(run)
    }

    fn is_another_run(&self, run: &RunReference) -> bool {
        let current = &self.environment;
        let is_other_id = current.run_id.as_ref().is_some_and(|id| *id != run.id);
        let told = run.repository.as_ref().or(self.repository.as_ref());
        let is_elsewhere =
            told.zip(current.repository.as_ref()).is_some_and(|(told, current)| told != current);
        is_other_id || is_elsewhere
    }
}

/// The directory of a run in a bucket, `{owner-repo/}{run}-{platform}`. A bucket that the table does
/// not list belongs to the user, who has named it, and is not shared.
fn prefix(
    bucket: Option<&BucketFacts>,
    repository: &Repository,
    run: &RunId,
    platform: Platform,
) -> Key {
    let name = format!("{run}-{platform}");
    if bucket.is_some_and(|bucket| bucket.external) {
        return key(&format!("{}-{}/{name}", repository.owner(), repository.name()));
    }
    key(&name)
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
    legacy: Vec<LegacyBuckets>,
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
    name: ReleaseType,
    until: String,
    artifacts: Bucket,
    external: Option<Bucket>,
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

    /// The region of all buckets of TheRock.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The repository whose runs need no prefix in their bucket.
    pub fn home(&self) -> &Repository {
        &self.home
    }

    /// The bucket of TheRock's own CI runs.
    pub fn of_ci(&self) -> Option<&Bucket> {
        let mut types = self.release_types.iter();
        let ci = types.find(|it| it.name == ReleaseType::Ci)?;
        ci.artifacts.as_ref()
    }

    /// The entry of a bucket, if it is in the table.
    pub fn find(&self, bucket: &Bucket) -> Option<&BucketFacts> {
        self.known.iter().find(|facts| facts.name == *bucket)
    }

    /// Whether the code of a fork may be written to a bucket, with any credentials: to a bucket that forks
    /// share, and to a bucket that is not TheRock's.
    pub fn takes_forks(&self, bucket: &Bucket) -> bool {
        let is_shared = self.find(bucket).is_none_or(|known| known.external);
        is_shared && ReleaseStream::of_bucket(bucket.as_str()).is_none()
    }

    /// Fails if a bucket takes no code of a fork. `whose` says why the code is of a fork.
    pub fn ensure_takes_forks(&self, bucket: &Bucket, whose: &str) -> Result<()> {
        if self.takes_forks(bucket) {
            return Ok(());
        }
        Err(anyhow!("`{bucket}` takes no code of a fork, and {whose}"))
            .hint("publish to a directory, or to a bucket of your own: the packages of a fork stay with its run")
    }

    /// The release types of the runs that keep their artifacts in a bucket.
    pub fn release_types(&self, bucket: &Bucket) -> Vec<ReleaseType> {
        let is_its =
            |it: &&ReleaseBuckets| [&it.artifacts, &it.external].contains(&&Some(bucket.clone()));
        let releases = self.release_types.iter().filter(is_its);
        releases.map(|it| it.name).collect()
    }

    /// The bucket for the artifacts of a run.
    fn artifacts(
        &self,
        kind: ReleaseType,
        repository: &Repository,
        run: &RunFacts,
    ) -> Result<&BucketFacts> {
        let release = self.release(kind)?;
        let current = release
            .artifacts
            .as_ref()
            .with_context(|| format!("no run keeps artifacts for release type `{kind}`"))
            .hint("pass `--bucket`, or the release type that was promoted")?;
        let is_before = |legacy: &&LegacyBuckets| {
            let updated_at = run.updated_at.as_ref();
            updated_at.is_some_and(|at| *at <= legacy.until)
        };
        let (own, external) = match self.legacy(kind).filter(is_before) {
            Some(legacy) => (&legacy.artifacts, &legacy.external),
            None => (current, &release.external),
        };
        let is_own = *repository == self.home && run.origin == RunOrigin::Own;
        self.listed(external.as_ref().filter(|_| !is_own).unwrap_or(own))
    }

    /// The buckets that runs of a repository may use for artifacts, each with the flag that selects
    /// it: `--release-type`, or `--bucket` where the release type does not decide alone.
    fn of_runs(&self, repository: &Repository) -> impl Iterator<Item = (&BucketFacts, String)> {
        let of_types = self.release_types.iter().filter_map(|release| {
            let is_only = release.external.is_none();
            let flag = is_only.then(|| format!("--release-type {}", release.name));
            Some((release.artifacts.as_ref()?, flag))
        });
        let external = self.release_types.iter().filter_map(|release| release.external.as_ref());
        let legacy =
            self.legacy.iter().flat_map(|it| [Some(&it.artifacts), it.external.as_ref()]).flatten();
        let only_by_name = external.chain(legacy).map(|bucket| (bucket, None));
        let is_home = *repository == self.home;
        of_types.chain(only_by_name).unique_by(|(bucket, _)| *bucket).filter_map(
            move |(bucket, type_flag)| {
                let known = self.find(bucket)?;
                let is_possible = type_flag.is_some() || known.external || is_home;
                let flag = type_flag.unwrap_or_else(|| format!("--bucket {bucket}"));
                is_possible.then_some((known, flag))
            },
        )
    }

    /// Whether forks or old runs have other buckets, so that the place of artifacts depends on whose
    /// code a run built, or when.
    fn tells_runs_apart(&self, kind: ReleaseType) -> bool {
        let has_external = self.release(kind).is_ok_and(|it| it.external.is_some());
        has_external || self.legacy(kind).is_some()
    }

    fn legacy(&self, kind: ReleaseType) -> Option<&LegacyBuckets> {
        self.legacy.iter().find(|it| it.name == kind)
    }

    fn release(&self, kind: ReleaseType) -> Result<&ReleaseBuckets> {
        let mut releases = self.release_types.iter();
        let release = releases.find(|release| release.name == kind);
        release.with_context(|| format!("no rule for release type `{kind}`"))
    }

    fn listed(&self, bucket: &Bucket) -> Result<&BucketFacts> {
        self.find(bucket).with_context(|| format!("a bucket that is not listed: `{bucket}`"))
    }
}

#[cfg(test)]
mod tests;
