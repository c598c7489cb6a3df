//! [`ReleasePlaces`]: the directories of release places, and which versions their buckets take.

use std::{str::FromStr, sync::LazyLock};

use derive_more::{Deref, Display};
use itertools::Itertools as _;
use serde::Deserialize;

use crate::{index::SetJson, place::ProductDirectories};
use rocwheel_base::{
    error::{Context as _, Hint as _, Invalid, No, Result, anyhow},
    glob::Glob,
    version::{ReleaseStream, ReleaseType, Version},
};
use rocwheel_store::location::Location;
use rocwheel_wheel::DistName;

static BUILTIN: LazyLock<ReleasePlaces> = LazyLock::new(|| {
    toml::from_str(include_str!("places.toml")).expect("a test reads the built-in policy")
});

/// What `places.toml` says: the products, and where each of them is published. In the four texts,
/// `{product}` and `{stream}` stand for names.
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
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_allowed) {
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

    fn product_names(&self) -> impl Iterator<Item = &str> {
        self.products.iter().map(|product| product.name.as_str())
    }

    fn ensure_known(&self, product: &str) -> Result<()> {
        if self.product_names().contains(product) {
            return Ok(());
        }
        let known = self.product_names().join(", ");
        Err(anyhow!("no such product: `{product}`")).hint(format!("the products are {known}"))
    }

    /// The product whose row names a project.
    fn product_of(&self, project: &DistName) -> Option<&str> {
        let has_project =
            |product: &&Product| product.projects.iter().any(|it| it.matches(project.normalized()));
        self.products.iter().find(has_project).map(|product| product.name.as_str())
    }

    /// The directory of a product: `rocm/pytorch/whl-next`.
    pub fn directory_of(&self, product: &str) -> String {
        self.directory.replace("{product}", product)
    }

    /// Where builds of a release type publish a product.
    pub fn place(&self, product: &str, release: ReleaseType) -> Result<ProductPlace> {
        self.ensure_known(product)?;
        let stream = release
            .stream()
            .with_context(|| format!("no bucket takes packages of builds of the type `{release}`"))
            .hint("pass `--release-type nightly`, or another type whose builds are published")?;
        let fill = |text: &str| {
            text.replace("{stream}", &stream.to_string()).replace("{product}", product)
        };
        Ok(ProductPlace {
            address: fill(&self.address).parse()?,
            directory: fill(&self.directory),
            role: fill(&self.role),
            index: fill(&self.index),
        })
    }

    /// The directory of each project of a set of frameworks, all of which must belong to one product. A
    /// product without a row takes every project that is in no row.
    pub fn directories_of(&self, set: &SetJson, product: &str) -> Result<ProductDirectories> {
        let has_row = self.product_names().contains(product);
        let mut directories = ProductDirectories::new();
        let mut refused = Vec::new();
        for project in projects_of(set) {
            let belongs = match self.product_of(project) {
                Some(product_of_row) => product_of_row == product,
                None => !has_row,
            };
            if belongs {
                directories.insert(project.clone(), self.directory_of(product));
            } else {
                refused.push(format!("`{project}`"));
            }
        }
        if refused.is_empty() {
            return Ok(directories);
        }
        let projects = refused.join(", ");
        let error = anyhow!(No(format!("not of the product `{product}`: {projects}")));
        Err(error).hint("upload a directory without their packages, or name another `--product`")
    }

    /// The directory of each project of a set; with `wanted`, only the projects of these products. A project
    /// of no product is refused, also if only some products are wanted: it is a mistake in the set.
    pub fn directories(&self, set: &SetJson, wanted: &[String]) -> Result<ProductDirectories> {
        for product in wanted {
            self.ensure_known(product)?;
        }
        let is_wanted =
            |product: &str| wanted.is_empty() || wanted.iter().any(|it| it.as_str() == product);
        let mut directories = ProductDirectories::new();
        let mut refused = Vec::new();
        for project in projects_of(set) {
            match self.product_of(project) {
                Some(product) if is_wanted(product) => {
                    directories.insert(project.clone(), self.directory_of(product));
                }
                Some(_) => {}
                None => refused.push(project.normalized()),
            }
        }
        if refused.is_empty() {
            return Ok(directories);
        }
        let projects = refused.join("`, `");
        let error = anyhow!(No(format!("projects of no product: `{projects}`")));
        Err(error).hint("promote a directory without their packages")
    }

    /// Fails if a bucket takes versions of another stream. A bucket that is in no policy takes every version.
    pub fn ensure_takes(place: &Location, version: &Version) -> Result<()> {
        let bucket = place.bucket.to_string();
        let Some(accepted) = ReleaseStream::of_bucket(&bucket) else {
            return Ok(());
        };
        let stream = version.stream();
        if stream == accepted {
            return Ok(());
        }
        Err(anyhow!(No(format!(
            "`{bucket}` takes versions of the stream `{accepted}`, and {version} is of `{stream}`"
        ))))
        .hint("name the bucket of that stream")
    }
}

fn projects_of(set: &SetJson) -> impl Iterator<Item = &DistName> {
    set.files.iter().map(|file| &file.project).unique()
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
