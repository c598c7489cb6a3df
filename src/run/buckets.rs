//! The table of buckets, `buckets.toml`: which outputs go to which bucket, and which role may write
//! to it. It is parsed and validated once.

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

/// The rules for choosing a bucket.
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

/// One bucket of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketFacts {
    pub name: Bucket,
    pub region: String,
    /// The role that may write to it; `None` if CI runs may not write to it.
    pub role: Option<Role>,
    /// Whether runs of several repositories share it. Each repository then has its own prefix.
    pub external: bool,
}

/// An IAM role that a run assumes, `arn:aws:iam::{account}:role/{name}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role(String);

/// The kind of files of a release in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Packages,
    Python,
    Tarball,
}

/// The product that a final repository is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    Core,
    Pytorch,
    Jax,
}

/// The final repository of one product of a release type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    pub bucket: BucketFacts,
    /// URL of the index with all products, for `--index-url`.
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

/// Names that contain `{stream}` and `{product}`.
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
    /// The table that is compiled into this program.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// The repository whose runs need no prefix in their bucket.
    pub fn home(&self) -> &Repository {
        &self.home
    }

    /// The index of the third-party packages that the packages of ROCm depend on.
    pub fn dependencies(&self) -> &Location {
        &self.dependencies
    }

    /// The entry of a bucket, if it is in the table.
    pub fn find(&self, bucket: &Bucket) -> Option<&BucketFacts> {
        self.known.iter().find(|facts| facts.name == *bucket)
    }

    /// The bucket for the artifacts of a run.
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

    /// Whether forks have another bucket, so that the place of artifacts depends on whose code a
    /// run of the home repository builds.
    pub(super) fn tells_forks_apart(&self, kind: ReleaseType) -> bool {
        self.release(kind).is_ok_and(|it| it.external.is_some())
    }

    /// The bucket that a release was published to before there were final repositories.
    pub fn published(&self, kind: ReleaseType, channel: Channel) -> Result<&BucketFacts> {
        let published = self.release(kind)?.published.as_ref();
        let template =
            published.ok_or_else(|| anyhow!("nothing is published of release type `{kind}`"))?;
        self.listed(&template.replace("{channel}", channel.as_str()).parse()?)
    }

    /// The final repository for a product of a release type.
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
