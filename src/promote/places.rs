//! [`ReleasePlaces`]: the directories of release places, and which versions their buckets take.

use std::{str::FromStr, sync::LazyLock};

use derive_more::{Deref, Display};
use itertools::Itertools as _;
use serde::Deserialize;

use crate::{
    error::{Context as _, Hint as _, Invalid, No, Result, anyhow},
    glob::Glob,
    index::SetJson,
    location::Location,
    place::ProductDirectories,
    version::{ReleaseStream, ReleaseType, Version},
    wheel::DistName,
};

static BUILTIN: LazyLock<ReleasePlaces> = LazyLock::new(|| {
    toml::from_str(include_str!("places.toml")).expect("a test reads the built-in policy")
});

/// What `places.toml` says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasePlaces {
    address: String,
    directory: String,
    role: String,
    index: String,
    products: Vec<Product>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Product {
    name: String,
    projects: Vec<Glob>,
}

/// The name of a product: `pytorch`. It is a directory, and a part of the names of buckets.
#[derive(Clone, Debug, PartialEq, Eq, Display, Deref)]
pub struct ProductName(#[deref(forward)] Box<str>);

impl FromStr for ProductName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let is_known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_known) {
            return Ok(Self(text.into()));
        }
        Err(Invalid::new(
            "not a name of lower case letters, digits and `-` that begins with a letter",
            text,
        ))
    }
}

/// Where the packages of a product are published.
#[derive(Clone, Debug)]
pub struct ProductPlace {
    /// What [`ProductDirectories`] are below.
    pub address: Location,
    pub directory: String,
    /// The role that may write there.
    pub role: String,
    /// The URL of the index to install from.
    pub index: String,
}

impl ReleasePlaces {
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.products.iter().map(|it| it.name.as_str())
    }

    fn unknown(&self, product: &str) -> Result<()> {
        let known = self.names().join(", ");
        Err(anyhow!("no such product: `{product}`")).hint(format!("the products are {known}"))
    }

    /// The product of a project.
    fn product_of(&self, project: &str) -> Option<&str> {
        let mut products = self.products.iter();
        let product = products.find(|it| it.projects.iter().any(|it| it.matches(project)));
        product.map(|it| it.name.as_str())
    }

    /// Where builds of a release type publish a product.
    pub fn place(&self, product: &str, release: ReleaseType) -> Result<ProductPlace> {
        if !self.names().contains(product) {
            self.unknown(product)?;
        }
        let stream = release
            .stream()
            .with_context(|| format!("no bucket takes packages of builds of the type `{release}`"));
        let stream = stream
            .hint("pass `--release-type nightly`, or another type whose builds are published")?;
        let filled = |text: &str| {
            text.replace("{stream}", &stream.to_string()).replace("{product}", product)
        };
        Ok(ProductPlace {
            address: filled(&self.address).parse()?,
            directory: filled(&self.directory),
            role: filled(&self.role),
            index: filled(&self.index),
        })
    }

    /// The directory of each project of a set of frameworks. All of them are of one product. A product
    /// that has no row takes every project that is of no other one.
    pub fn directories_of(&self, set: &SetJson, product: &str) -> Result<ProductDirectories> {
        let is_known = self.names().contains(product);
        let (found, others) = self.placed(set, |of| {
            (of == Some(product) || (of.is_none() && !is_known)).then_some(product)
        });
        let others = others.iter().map(|it| format!("`{it}`")).join(", ");
        if others.is_empty() {
            return Ok(found);
        }
        let error = anyhow!(No(format!("not of the product `{product}`: {others}")));
        Err(error).hint("upload a directory without their packages, or name another `--product`")
    }

    /// The directory of each project of a set. With `wanted`, only those of these products. A project of
    /// no product is refused.
    pub fn directories(&self, set: &SetJson, wanted: &[String]) -> Result<ProductDirectories> {
        if let Some(other) = wanted.iter().find(|it| !self.names().contains(it.as_str())) {
            self.unknown(other)?;
        }
        let (mut found, others) = self.placed(set, |of| of);
        let is_wanted = |it: &DistName| {
            let of = self.product_of(it.normalized());
            wanted.is_empty() || wanted.iter().any(|one| of == Some(one))
        };
        found.retain(|project, _| is_wanted(project));
        if others.is_empty() {
            return Ok(found);
        }
        let lost = others.iter().map(DistName::normalized).join("`, `");
        let error = anyhow!(No(format!("projects of no product: `{lost}`")));
        Err(error).hint("promote a directory without their packages")
    }

    /// The directories of the projects for which `product` names one, by the product of their row; and the
    /// other projects.
    fn placed<'a>(
        &'a self,
        set: &SetJson,
        product: impl Fn(Option<&'a str>) -> Option<&'a str>,
    ) -> (ProductDirectories, Vec<DistName>) {
        let (mut found, mut others) = (ProductDirectories::new(), Vec::new());
        for project in set.files.iter().map(|file| &file.project).unique() {
            match product(self.product_of(project.normalized())) {
                Some(product) => {
                    let directory = self.directory.replace("{product}", product);
                    found.insert(project.clone(), directory);
                }
                None => others.push(project.clone()),
            }
        }
        (found, others)
    }

    /// Fails if a bucket takes versions of another stream.
    pub fn ensure_takes(place: &Location, version: &Version) -> Result<()> {
        let bucket = place.bucket.to_string();
        let Some(takes) = ReleaseStream::of_bucket(&bucket) else {
            return Ok(());
        };
        let own = version.stream();
        if own == takes {
            return Ok(());
        }
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
        let take = |bucket: &str, version: &str| {
            let place = format!("s3://{bucket}/v5").parse().unwrap();
            ReleasePlaces::ensure_takes(&place, &version.parse().unwrap())
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
