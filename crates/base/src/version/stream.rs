//! [`ReleaseStream`]: versions of one kind, which are published at the same places. `streams.toml` says
//! everything about streams; no code spells their names.

use std::{str::FromStr, sync::LazyLock};

use derive_more::Display;
use itertools::Itertools as _;
use pep440_rs::PrereleaseKind;
use serde::{Deserialize, Serialize, Serializer};

use super::{ReleaseType, Version};
use crate::error::Invalid;

static STREAMS: LazyLock<Streams> = LazyLock::new(|| {
    toml::from_str(include_str!("../streams.toml")).expect("a test reads the built-in policy")
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Streams {
    streams: Vec<StreamFacts>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct StreamFacts {
    name: String,
    versions: VersionForm,
    #[serde(default)]
    release_types: Vec<ReleaseType>,
    /// How the names of its buckets begin.
    buckets: Option<String>,
    places: Vec<StreamPlace>,
}

/// What tells the versions of a stream from the versions of other streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum VersionForm {
    Dev,
    Based,
    Candidate,
    Nightly,
    Final,
}

/// A stream: `nightly`.
#[derive(Clone, Copy, Debug, Display)]
#[display("{}", _0.name)]
pub struct ReleaseStream(&'static StreamFacts);

/// Where versions of a stream are published.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StreamPlace {
    /// The address of the index to install from.
    pub index: String,
    /// Only versions below this one are here, by their first two numbers. A release candidate of
    /// 10.1 is no version below 10.1, although Python compares it so.
    before: Option<Version>,
    /// Only nightlies of earlier days than this one are here.
    before_date: Option<u64>,
}

impl ReleaseStream {
    /// The streams in the order of `streams.toml`.
    pub fn all() -> impl Iterator<Item = Self> {
        STREAMS.streams.iter().map(Self)
    }

    /// The stream whose versions a bucket takes, and no others.
    pub fn of_bucket(bucket: &str) -> Option<Self> {
        let begins = |it: &Self| it.0.buckets.as_ref().is_some_and(|it| bucket.starts_with(it));
        Self::all().find(begins)
    }

    /// The places that may have a version, or the newest one. The version of a build of one commit
    /// does not say when that was.
    pub fn places(self, version: Option<&Version>) -> Vec<&'static StreamPlace> {
        let side = |place: &StreamPlace| version.and_then(|it| place.has(it));
        let is_known = self.0.places.iter().any(|it| side(it) == Some(true));
        let places = self.0.places.iter();
        places
            .filter(|place| match side(place) {
                None => !is_known,
                Some(is_on_side) => is_on_side,
            })
            .collect()
    }

    /// The addresses of these places, on a mirror if there is one, which has a directory for each host.
    pub fn addresses(self, version: Option<&Version>, mirror: Option<&str>) -> Vec<String> {
        let places = self.places(version).into_iter();
        let addresses = places.map(|place| match mirror {
            Some(mirror) => place.mirrored(mirror),
            None => place.index.clone(),
        });
        addresses.collect()
    }
}

impl StreamPlace {
    /// Whether a version is on this side of the boundary. `None` without a boundary, and for a version
    /// that does not tell.
    fn has(&self, version: &Version) -> Option<bool> {
        if let Some(before) = &self.before {
            return Some(version.minor().parse::<Version>().ok()? < *before);
        }
        Some(version.nightly_date()? < self.before_date?)
    }

    /// Which versions are here, if not all: `before 10.0`.
    pub fn limit(&self) -> Option<String> {
        let version = self.before.as_ref().map(Version::to_string);
        let limit = version.or_else(|| self.before_date.map(|date| date.to_string()))?;
        Some(format!("before {limit}"))
    }

    fn mirrored(&self, mirror: &str) -> String {
        let path = self.index.trim_start_matches("https://");
        format!("{}/{path}", mirror.trim_end_matches('/'))
    }
}

impl Version {
    /// The stream that versions of this form belong to.
    #[expect(clippy::missing_panics_doc, reason = "a test finds a stream for each form")]
    pub fn stream(&self) -> ReleaseStream {
        let form = match self.0.pre().map(|it| it.kind) {
            _ if self.0.is_dev() => VersionForm::Dev,
            _ if !self.0.local().is_empty() => VersionForm::Based,
            Some(PrereleaseKind::Rc) => VersionForm::Candidate,
            Some(_) => VersionForm::Nightly,
            None => VersionForm::Final,
        };
        ReleaseStream::all()
            .find(|it| it.0.versions == form)
            .expect("a test finds a stream for each form of versions")
    }
}

impl ReleaseType {
    /// The stream that builds of this type are published to, if they are.
    pub fn stream(self) -> Option<ReleaseStream> {
        ReleaseStream::all().find(|it| it.0.release_types.contains(&self))
    }
}

impl PartialEq for ReleaseStream {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ReleaseStream {}

impl FromStr for ReleaseStream {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::all().find(|it| it.0.name == text).ok_or_else(|| {
            let known = Self::all().join(", ");
            Invalid::new(format!("not a stream ({known})"), text)
        })
    }
}

impl Serialize for ReleaseStream {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.name)
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;

    #[test]
    fn a_version_tells_where_it_is_published() {
        let versions = [
            "7.13.1",
            "9.9.0.post1",
            "10.0.0",
            "10.0.0rc3",
            "7.14.0rc1",
            "10.1.0rc1",
            "7.15.0a20260728",
            "10.1.0a20260822",
            "10.1.0a20260823",
            "10.1.0a20260823+bkc.20260901",
            "7.10.0.dev0+efed3c",
        ];
        let lines = versions.map(|text| {
            let version: Version = text.parse().unwrap();
            let places = version.stream().places(Some(&version));
            let places = places.iter().map(|it| it.index.as_str()).join(" ");
            format!("{text} {places}")
        });
        insta::assert_snapshot!(lines.join("\n"), @"
        7.13.1 https://repo.amd.com/rocm/whl-multi-arch/
        9.9.0.post1 https://repo.amd.com/rocm/whl-multi-arch/
        10.0.0 https://stable.repo.amd.com/rocm/whl-next/
        10.0.0rc3 https://rocm.prereleases.amd.com/whl-multi-arch/
        7.14.0rc1 https://rocm.prereleases.amd.com/whl-multi-arch/
        10.1.0rc1 https://rc.repo.amd.com/rocm/whl-next/
        7.15.0a20260728 https://rocm.nightlies.amd.com/whl-multi-arch/
        10.1.0a20260822 https://rocm.nightlies.amd.com/whl-multi-arch/
        10.1.0a20260823 https://nightly.repo.amd.com/rocm/whl-next/
        10.1.0a20260823+bkc.20260901 https://bkc.repo.amd.com/rocm/whl-next/
        7.10.0.dev0+efed3c https://dev.repo.amd.com/rocm/whl-next/ https://rocm.devreleases.amd.com/whl-multi-arch/
        ");
    }

    #[test]
    fn the_newest_version_is_at_the_present_place_unless_there_is_none() {
        let stream: ReleaseStream = "nightly".parse().unwrap();
        let indexes = stream.addresses(None, Some("http://mirror/x/"));
        insta::assert_snapshot!(indexes.join("\n"), @"
        http://mirror/x/nightly.repo.amd.com/rocm/whl-next/
        http://mirror/x/rocm.nightlies.amd.com/whl-multi-arch/
        ");
    }

    #[test]
    fn builds_of_a_type_are_published_in_one_stream_at_most() {
        let lines = ReleaseType::VARIANTS.iter().map(|it| {
            let stream = it.stream().map_or("-".to_owned(), |it| it.to_string());
            format!("{it} {stream}")
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
        ci -
        dev dev
        dev-bkc bkc
        nightly nightly
        nightly-bkc bkc
        prerelease rc
        release -
        ");
        let bucket = ReleaseStream::of_bucket("therock-repo-amd-rc-core");
        assert_eq!(bucket, Some("rc".parse().unwrap()));
        assert!("weekly".parse::<ReleaseStream>().is_err());
    }
}
