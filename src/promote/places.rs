//! [`ReleasePlaces`]: the directories of release places, and which versions their buckets take.

use std::{collections::BTreeMap, sync::LazyLock};

use itertools::Itertools as _;
use serde::Deserialize;

use crate::{
    error::{Hint as _, No, Result, anyhow},
    glob::Glob,
    location::Location,
    set::{ProductDirectories, SetJson},
    version::{ReleaseStream, Version},
};

static BUILTIN: LazyLock<ReleasePlaces> = LazyLock::new(|| {
    toml::from_str(include_str!("places.toml")).expect("a test reads the built-in policy")
});

/// What `places.toml` says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasePlaces {
    directory: String,
    products: Vec<Product>,
    streams: Vec<StreamBuckets>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Product {
    name: String,
    projects: Vec<Glob>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamBuckets {
    buckets: Glob,
    takes: ReleaseStream,
}

impl ReleasePlaces {
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// The directory of each project of a set. With `wanted`, only those of these products. A project
    /// of no product is refused.
    pub fn directories(&self, set: &SetJson, wanted: &[String]) -> Result<ProductDirectories> {
        let known = || self.products.iter().map(|it| it.name.as_str());
        if let Some(other) = wanted.iter().find(|it| !known().contains(it.as_str())) {
            return Err(anyhow!("no such product: `{other}`"))
                .hint(format!("the products are {}", known().join(", ")));
        }
        let (mut found, mut lost) = (BTreeMap::new(), Vec::new());
        for file in &set.files {
            let name = file.project.normalized();
            let mut products = self.products.iter();
            let product = products.find(|it| it.projects.iter().any(|it| it.matches(name)));
            match product {
                None => lost.push(name),
                Some(it) if wanted.is_empty() || wanted.contains(&it.name) => {
                    let directory = self.directory.replace("{product}", &it.name);
                    found.insert(file.project.clone(), directory);
                }
                Some(_) => {}
            }
        }
        if lost.is_empty() {
            return Ok(found);
        }
        let lost = lost.iter().unique().join("`, `");
        let error = anyhow!(No(format!("projects of no product: `{lost}`")));
        Err(error).hint("promote a directory without their packages")
    }

    /// Fails if a bucket takes versions of another stream.
    pub fn ensure_takes(&self, place: &Location, version: &Version) -> Result<()> {
        let bucket = place.bucket.to_string();
        let mut streams = self.streams.iter();
        let Some(stream) = streams.find(|it| it.buckets.matches(&bucket)) else {
            return Ok(());
        };
        let own = version.stream();
        if own == stream.takes {
            return Ok(());
        }
        let takes = stream.takes;
        Err(anyhow!(No(format!(
            "`{bucket}` takes versions of the stream `{takes}`, and {version} is of `{own}`"
        ))))
        .hint("name the bucket of that stream")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_take_the_versions_of_their_stream() {
        let places = ReleasePlaces::builtin();
        let take = |bucket: &str, version: &str| {
            let place = format!("s3://{bucket}/v5").parse().unwrap();
            places.ensure_takes(&place, &version.parse().unwrap())
        };
        for (bucket, version) in [
            ("therock-repo-amd-rc-core", "7.14.0rc1"),
            ("therock-repo-amd-nightly-core", "7.14.0a20260811"),
            ("therock-repo-amd-bkc-core", "7.14.0a20260811+bkc.20260813"),
            ("therock-repo-amd-dev-core", "7.14.0.dev0+a1047feb"),
            ("my-own-bucket", "7.14.0"),
        ] {
            take(bucket, version).unwrap();
        }
        let said = take("therock-repo-amd-rc-core", "7.14.0").unwrap_err();
        insta::assert_snapshot!(said, @"`therock-repo-amd-rc-core` takes versions of the stream `rc`, and 7.14.0 is of `stable`");
    }
}
