//! The table of buckets, `buckets.toml`: which outputs go to which bucket, and which role may write
//! to it.

use std::{fmt::Display, str::FromStr, sync::LazyLock};

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::{
    error::{Context as _, Hint as _, Result, anyhow},
    location::Bucket,
    run::{Repository, RunFacts, RunOrigin},
    version::ReleaseType,
};

static BUILTIN: LazyLock<Buckets> = LazyLock::new(|| {
    Buckets::parse(include_str!("../buckets.toml")).expect("a test reads the built-in buckets")
});

/// The rules for choosing a bucket.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buckets {
    #[serde(deserialize_with = "parsed")]
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
    #[serde(deserialize_with = "parsed")]
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
    #[serde(deserialize_with = "parsed")]
    name: ReleaseType,
    artifacts: Option<String>,
    external: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LegacyBuckets {
    until: String,
    artifacts: String,
    external: String,
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(D::Error::custom)
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
    pub(super) fn artifacts(
        &self,
        kind: ReleaseType,
        repository: &Repository,
        run: &RunFacts,
    ) -> Result<&BucketFacts> {
        let release = self.release(kind)?;
        let own = release
            .artifacts
            .as_ref()
            .ok_or_else(|| anyhow!("no run keeps artifacts for release type `{kind}`"))
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
    pub(super) fn tells_forks_apart(&self, kind: ReleaseType) -> bool {
        self.release(kind).is_ok_and(|it| it.external.is_some())
    }

    fn release(&self, kind: ReleaseType) -> Result<&ReleaseBuckets> {
        let mut releases = self.release_types.iter();
        let release = releases.find(|release| release.name == kind);
        release.with_context(|| format!("no rule for release type `{kind}`"))
    }

    fn listed(&self, bucket: &str) -> Result<&BucketFacts> {
        let mut buckets = self.known.iter();
        let found = buckets.find(|facts| facts.name.as_str() == bucket);
        found.with_context(|| format!("a bucket that is not listed: `{bucket}`"))
    }
}

#[cfg(test)]
mod tests;
