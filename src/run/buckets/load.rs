//! Parses `buckets.toml` and validates its rules.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::error::{Context, Result, ensure};
use crate::location::Bucket;
use crate::run::buckets::{
    BucketFacts, Buckets, Channel, Legacy, Product, ReleaseBuckets, Role, Templates,
};
use crate::version::ReleaseType;
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBuckets {
    home: String,
    dependencies: String,
    region: String,
    account: String,
    buckets: Vec<RawBucket>,
    release_types: Vec<RawRelease>,
    legacy: RawLegacy,
    publication: RawPublication,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBucket {
    name: String,
    role: Option<String>,
    #[serde(default)]
    external: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRelease {
    name: String,
    artifacts: Option<String>,
    external: Option<String>,
    published: Option<String>,
    stream: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLegacy {
    until: String,
    artifacts: String,
    external: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPublication {
    bucket: String,
    role: String,
    account: String,
    index: String,
}

impl Buckets {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let raw: RawBuckets = toml::from_str(text).context("failed to read the buckets")?;
        let is_account = |text: &str| text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit());
        for account in [&raw.account, &raw.publication.account] {
            ensure!(
                is_account(account),
                "not an account of 12 digits: `{account}`"
            );
        }
        let facts = |bucket: RawBucket| {
            Ok(BucketFacts {
                name: bucket.name.parse()?,
                region: raw.region.clone(),
                role: bucket.role.map(|role| Role::new(&raw.account, &role)),
                external: bucket.external,
            })
        };
        let buckets = Self {
            home: raw.home.parse()?,
            dependencies: raw.dependencies.parse()?,
            known: raw.buckets.into_iter().map(facts).collect::<Result<_>>()?,
            releases: raw
                .release_types
                .into_iter()
                .map(ReleaseBuckets::parse)
                .collect::<Result<_>>()?,
            legacy: Legacy {
                until: raw.legacy.until.parse()?,
                artifacts: raw.legacy.artifacts.parse()?,
                external: raw.legacy.external.parse()?,
            },
            publication: Templates {
                bucket: raw.publication.bucket,
                role: raw.publication.role,
                account: raw.publication.account,
                index: raw.publication.index,
            },
            region: raw.region,
        };
        buckets.check()?;
        Ok(buckets)
    }

    /// Checks that no name occurs twice, that every release type has a rule, and that every rule
    /// refers to a known bucket.
    fn check(&self) -> Result<()> {
        let names: BTreeSet<&Bucket> = self.known.iter().map(|facts| &facts.name).collect();
        ensure!(names.len() == self.known.len(), "a bucket listed twice");
        ensure!(
            self.releases.len() == ReleaseType::ALL.len(),
            "not one rule for each release type"
        );
        let mut own = vec![&self.legacy.artifacts];
        let mut external = vec![&self.legacy.external];
        for &kind in ReleaseType::ALL {
            let release = self.release(kind)?;
            own.extend(&release.artifacts);
            external.extend(&release.external);
            if release.published.is_some() {
                for channel in [Channel::Packages, Channel::Python, Channel::Tarball] {
                    self.published(kind, channel)?;
                }
            }
            if release.stream.is_some() {
                self.publication(kind, Product::Core)?;
            }
        }
        for (buckets, wanted) in [(own, false), (external, true)] {
            for bucket in buckets {
                ensure!(
                    self.listed(bucket)?.external == wanted,
                    "a bucket of the other kind: `{bucket}`"
                );
            }
        }
        Ok(())
    }
}

impl ReleaseBuckets {
    fn parse(raw: RawRelease) -> Result<Self> {
        let bucket = |name: Option<String>| name.map(|name| name.parse()).transpose();
        Ok(Self {
            kind: raw.name.parse()?,
            artifacts: bucket(raw.artifacts)?,
            external: bucket(raw.external)?,
            published: raw.published,
            stream: raw.stream,
        })
    }
}
