//! [`StreamPlaces`]: where the versions of a stream are published, as `buckets.toml` says.

use serde::Deserialize;

use crate::version::{ReleaseStream, Version};

/// The places of one stream, the present one first.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamPlaces {
    pub(super) name: ReleaseStream,
    places: Vec<StreamPlace>,
}

/// Where versions of a stream are published.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StreamPlace {
    /// The address of the index to install from.
    pub index: String,
    /// The address of the directory of tarballs.
    pub tarballs: String,
    /// Only versions below this one are here, by their first two numbers. A release candidate of
    /// 10.1 is no version below 10.1, although Python compares it so.
    before: Option<Version>,
    /// Only nightlies of earlier days than this one are here.
    before_date: Option<u64>,
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

    /// The same place on a mirror, which has a directory for each host.
    #[must_use]
    pub fn mirrored(&self, mirror: &str) -> Self {
        let mirrored = |url: &str| {
            let path = url.strip_prefix("https://").unwrap_or(url);
            format!("{}/{path}", mirror.trim_end_matches('/'))
        };
        Self {
            index: mirrored(&self.index),
            tarballs: mirrored(&self.tarballs),
            ..self.clone()
        }
    }
}

impl StreamPlaces {
    /// The places that may have a version, or the newest one. The version of a build of one commit
    /// does not say when that was.
    pub(super) fn of(&self, version: Option<&Version>) -> Vec<&StreamPlace> {
        let side = |place: &StreamPlace| version.and_then(|it| place.has(it));
        let is_known = self.places.iter().any(|it| side(it) == Some(true));
        let places = self.places.iter();
        let places = places.filter(|it| match side(it) {
            None => !is_known,
            Some(has) => has,
        });
        places.collect()
    }
}

#[cfg(test)]
mod tests {
    use itertools::Itertools as _;

    use crate::{run::Buckets, version::Version};

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
            let places = Buckets::builtin().stream(version.stream(), Some(&version));
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
        let version: Version = "10.1.0a20260823".parse().unwrap();
        let places = Buckets::builtin().stream(version.stream(), None);
        let tarballs = places
            .iter()
            .map(|it| it.mirrored("http://mirror/x/").tarballs);
        insta::assert_snapshot!(tarballs.collect::<Vec<_>>().join("\n"), @"
        http://mirror/x/nightly.repo.amd.com/rocm/core/tarball/
        http://mirror/x/rocm.nightlies.amd.com/tarball-multi-arch/
        ");
    }
}
