//! Publishes packages to a release place, for `promote` and `upload`.

use std::fmt;

use itertools::Itertools as _;
use serde::Serialize;

use super::World;
use crate::{
    error::Result,
    set::{self, LocalSet, ProductDirectories, SetPlace},
};

/// Publishes the packages among those of other versions, and says where their pages are.
pub(super) fn publish(
    packages: &LocalSet,
    directories: &ProductDirectories,
    place: &SetPlace,
    world: &World,
) -> Result<()> {
    let published = set::publish_products(packages, directories, place, world)?;
    let urls = place.urls()?;
    let products = directories.values().unique();
    world.console.answer(&ProductsAnswer {
        schema: "rocwheel-published-products-v1",
        pages: products.map(|it| urls.path(&format!("{it}/"))).collect(),
        uploaded: published.uploaded,
        unchanged: published.unchanged,
    })
}

#[derive(Debug, Serialize)]
struct ProductsAnswer {
    schema: &'static str,
    /// The pages of the products.
    pages: Vec<String>,
    uploaded: usize,
    unchanged: usize,
}

impl fmt::Display for ProductsAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pages.iter().try_for_each(|page| writeln!(f, "{page}"))
    }
}
