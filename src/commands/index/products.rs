//! `index --layout product`: the pages of a release place.

use serde::Serialize;

use super::{IndexPlan, World};
use crate::{
    console::many,
    error::Result,
    set::{self, SetPlace},
};

/// Writes the pages of what is there, and says where they are.
pub(super) fn run(place: &SetPlace, is_dry_run: bool, world: &World) -> Result<()> {
    let indexed = set::index_products(place, is_dry_run, world)?;
    if is_dry_run {
        let plan = IndexPlan::of(place, &indexed.changes);
        return world.console.answer(&plan);
    }
    let (files, changed) = (indexed.files, indexed.changes.len());
    let facts = format!("{}, {}", many(files, "file"), many(changed, "change"));
    world.console.status("Indexed", facts);
    let urls = place.urls()?;
    let products = indexed.products.iter();
    world.console.answer(&IndexedAnswer {
        schema: "rocwheel-indexed-products-v1",
        pages: products.map(|it| urls.path(&format!("{it}/"))).collect(),
        files,
        changed,
    })
}

#[derive(Debug, derive_more::Display, Serialize)]
#[display("{}", pages.join("\n"))]
struct IndexedAnswer {
    schema: &'static str,
    /// The pages of the products.
    pages: Vec<String>,
    files: usize,
    /// The number of objects that were written.
    changed: usize,
}
