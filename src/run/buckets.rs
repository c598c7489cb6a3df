//! The buckets there are and who may write to them: `buckets.toml`, read once and checked.

use std::{fmt, sync::LazyLock};

use crate::error::{Hint, Result, anyhow};
use crate::location::{Bucket, Location};
use crate::run::{Repository, RunFacts, RunOrigin, UtcTime};
use crate::version::ReleaseType;

mod load;
#[cfg(test)]
mod tests;

static BUILTIN: LazyLock<Buckets> = LazyLock::new(|| {
    Buckets::parse(include_str!("../buckets.toml")).expect("a test reads the built-in buckets")
});

/// The rules of which outputs go to which bucket.
#[derive(Debug)]
pub struct Buckets {
    home: Repository,
    dependencies: Location,
    known: Vec<BucketFacts>,
    releases: Vec<ReleaseBuckets>,
    legacy: Legacy,
    publication: Templates,
    region: String,
}

/// What is known of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketFacts {
    pub name: Bucket,
    pub region: String,
    /// Who may write to it; nobody from here when there is none.
    pub role: Option<Role>,
    /// Whether runs of several repositories share it, so that each needs its own prefix.
    pub external: bool,
}

/// The name of a role to take on, `arn:aws:iam::{account}:role/{name}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role(String);

/// What of a release a bucket holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Packages,
    Python,
    Tarball,
}

/// What the final repositories are split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    Core,
    Pytorch,
    Jax,
}

/// Where a release type's product is finally published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    pub bucket: BucketFacts,
    /// The index of all products: `--index-url`.
    pub index_url: String,
}

#[derive(Debug)]
struct ReleaseBuckets {
    kind: ReleaseType,
    artifacts: Option<Bucket>,
    external: Option<Bucket>,
    published: Option<String>,
    stream: Option<String>,
}

/// Names with `{stream}` and `{product}` in them.
#[derive(Debug)]
struct Templates {
    bucket: String,
    role: String,
    account: String,
    index: String,
}

#[derive(Debug)]
struct Legacy {
    until: UtcTime,
    artifacts: Bucket,
    external: Bucket,
}

impl Buckets {
    /// The rules this program was built with.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// The repository whose runs need no prefix.
    pub fn home(&self) -> &Repository {
        &self.home
    }

    /// The index of what ROCm's packages need from others.
    pub fn dependencies(&self) -> &Location {
        &self.dependencies
    }

    /// What is known of a bucket, if it is one of ours.
    pub fn find(&self, bucket: &Bucket) -> Option<&BucketFacts> {
        self.known.iter().find(|facts| facts.name == *bucket)
    }

    /// Where the runs of a release type keep what they build.
    pub fn artifacts(
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

    /// Whether the place of a home run's artifacts depends on whose code the run builds.
    pub(super) fn tells_forks_apart(&self, kind: ReleaseType) -> bool {
        self.release(kind).is_ok_and(|it| it.external.is_some())
    }

    /// Where a part of a release was published before there were final repositories.
    pub fn published(&self, kind: ReleaseType, channel: Channel) -> Result<&BucketFacts> {
        let published = self.release(kind)?.published.as_ref();
        let template =
            published.ok_or_else(|| anyhow!("nothing is published of release type `{kind}`"))?;
        self.listed(&template.replace("{channel}", channel.as_str()).parse()?)
    }

    /// Where a product of a release type is finally published.
    pub fn publication(&self, kind: ReleaseType, product: Product) -> Result<Publication> {
        let stream = self.release(kind)?.stream.as_ref();
        let stream = stream.ok_or_else(|| anyhow!("no stream publishes release type `{kind}`"))?;
        let fill = |template: &str| {
            template
                .replace("{stream}", stream)
                .replace("{product}", product.as_str())
        };
        let templates = &self.publication;
        Ok(Publication {
            bucket: BucketFacts {
                name: fill(&templates.bucket).parse()?,
                region: self.region.clone(),
                role: Some(Role::new(&templates.account, &fill(&templates.role))),
                external: false,
            },
            index_url: fill(&templates.index),
        })
    }

    fn release(&self, kind: ReleaseType) -> Result<&ReleaseBuckets> {
        self.releases
            .iter()
            .find(|release| release.kind == kind)
            .ok_or_else(|| anyhow!("no rule for release type `{kind}`"))
    }

    fn listed(&self, bucket: &Bucket) -> Result<&BucketFacts> {
        self.find(bucket)
            .ok_or_else(|| anyhow!("a bucket that is not listed: `{bucket}`"))
    }
}

impl Role {
    fn new(account: &str, name: &str) -> Self {
        Self(format!("arn:aws:iam::{account}:role/{name}"))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Channel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Packages => "packages",
            Self::Python => "python",
            Self::Tarball => "tarball",
        }
    }
}

impl Product {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Pytorch => "pytorch",
            Self::Jax => "jax",
        }
    }
}
