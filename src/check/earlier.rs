//! Reads the inventory of another set, the baseline, from its index and the directories of its
//! wheels.

use std::{collections::BTreeMap, num::NonZeroUsize};

use super::read;
use crate::{
    check::PackageInventory,
    console::World,
    digest::Sha256,
    error::{Context as _, Result},
    set::{self, PackageFile, PublishedFacts, SetPlace, identity},
};

/// The inventory of a set: a directory, `set.json`, `s3://…` or the URL of an index.
///
/// Only the end of each wheel is read, for its list of files. For a wheel that is missing, only the
/// facts of the index are known.
pub fn inventory(place: &SetPlace, jobs: NonZeroUsize, world: &World) -> Result<PackageInventory> {
    let read = || -> Result<PackageInventory> {
        let found = set::find_published(place)?;
        let mut inventory = PackageInventory::default();
        let wheels: Vec<&PackageFile> = found.packages.iter().filter(|it| it.is_wheel()).collect();
        let outlines = read::outlines(&wheels, jobs, world)?;
        for (package, outline) in wheels.iter().zip(&outlines) {
            if let Some((project, _)) = identity(package.name()) {
                inventory.add_wheel(&project, Some(package.size()), outline);
            }
        }
        for package in found.packages.iter().filter(|it| !it.is_wheel()) {
            if let Some((project, _)) = identity(package.name()) {
                inventory.add_package(&project, Some(package.size()));
            }
        }
        for (file, size) in found
            .published
            .iter()
            .flat_map(PublishedFacts::promised_and_gone)
        {
            if let Some((project, _)) = identity(file) {
                inventory.add_package(&project, size);
            }
        }
        Ok(inventory)
    };
    read().with_context(|| format!("failed to read the baseline `{place}`"))
}

/// The digests of the sdists of another set.
pub fn sdists(place: &SetPlace) -> Result<BTreeMap<String, Sha256>> {
    let read = || -> Result<BTreeMap<String, Sha256>> {
        let found = set::find_published(place)?;
        let sdists = found.packages.iter().filter(|it| !it.is_wheel());
        let digests = sdists.map(|package| {
            let (sha256, _) = Sha256::of_reader(package.stream(0..package.size())?)?;
            Ok((package.name().to_owned(), sha256))
        });
        digests.collect()
    };
    read().with_context(|| format!("failed to read the set to compare with, `{place}`"))
}
