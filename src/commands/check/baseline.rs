//! What another set holds, read from its index and from the directories of its wheels.

use std::{collections::BTreeMap, path::Path};

use super::{
    package::{self, Package},
    published, read,
    shelf::Shelf,
};
use crate::{
    check::{Inventory, Published, Source as _},
    commands::{
        World,
        args::{AccessArgs, Jobs},
    },
    digest::Sha256,
    error::{Context as _, Result},
};

/// The inventory of a set: a directory, `set.json`, `s3://…` or the address of an index.
///
/// Of wheels that are there the files are known, of others what the index says. Of a wheel no more
/// is read than its end.
pub fn inventory(
    place: &Path,
    access: &AccessArgs,
    jobs: &Jobs,
    world: &World,
) -> Result<Inventory> {
    let shown = place.display();
    let read = || -> Result<Inventory> {
        let shelf = Shelf::open(place, access, &world.stop)?;
        let found = published::find(&shelf)?;
        let mut inventory = Inventory::default();
        let wheels: Vec<&Package> = found.packages.iter().filter(|it| it.is_wheel()).collect();
        let outlines = read::outlines(&wheels, jobs.count(), world)?;
        for (package, outline) in wheels.iter().zip(&outlines) {
            if let Some((project, _)) = package::identity(package.name()) {
                inventory.add_wheel(&project, Some(package.len()), outline);
            }
        }
        for package in found.packages.iter().filter(|it| !it.is_wheel()) {
            if let Some((project, _)) = package::identity(package.name()) {
                inventory.add_package(&project, Some(package.len()));
            }
        }
        for (file, size) in found
            .published
            .iter()
            .flat_map(Published::promised_and_gone)
        {
            if let Some((project, _)) = package::identity(file) {
                inventory.add_package(&project, size);
            }
        }
        Ok(inventory)
    };
    read().with_context(|| format!("read the baseline `{shown}`"))
}

/// The digests of the sdists of another set.
pub(super) fn sdists(
    place: &Path,
    access: &AccessArgs,
    world: &World,
) -> Result<BTreeMap<String, Sha256>> {
    let read = || -> Result<BTreeMap<String, Sha256>> {
        let shelf = Shelf::open(place, access, &world.stop)?;
        let found = published::find(&shelf)?;
        let sdists = found.packages.iter().filter(|it| !it.is_wheel());
        let digests = sdists.map(|package| {
            let (sha256, _) = Sha256::of_reader(package.stream(0..package.len())?)?;
            Ok((package.name().to_owned(), sha256))
        });
        digests.collect()
    };
    read().with_context(|| format!("read the set to compare with, `{}`", place.display()))
}
