//! Packages of others at a place: the files of a base index. Other files of the place stay as they are.

use std::path::Path;

use super::{
    set_place::SetPlace,
    sync::{Changes, Existing, Guard, Item, Listing, Plan, Sync},
};
use crate::{console::World, error::Result, index::PackageFile};

/// Compares packages with those of a place.
pub fn plan_mirror(packages: &[PackageFile], place: &SetPlace, world: &World) -> Result<Plan> {
    let sync = sync(place, "".as_ref(), world);
    let (plan, ()) = sync.plan(|listing| decide(listing, packages, "".as_ref()))?;
    Ok(plan)
}

/// Writes packages that are in a directory to a place. A file of the place with other bytes is an error.
pub fn mirror(
    packages: &[PackageFile],
    source: &Path,
    place: &SetPlace,
    world: &World,
) -> Result<()> {
    sync(place, source, world).run(|listing| decide(listing, packages, source))?;
    Ok(())
}

fn sync<'a>(place: &'a SetPlace, source: &'a Path, world: &'a World) -> Sync<'a> {
    Sync {
        verb: "Mirroring",
        ..Sync::of_packages(place, source, Guard::Packages, Existing::Keep, world)
    }
}

fn decide(
    listing: &mut Listing<'_>,
    packages: &[PackageFile],
    source: &Path,
) -> Result<(Changes, ())> {
    listing.add("dist")?;
    let items = packages.iter().map(|file| Item::file(file, source.join(file.name()), None));
    Ok((Changes::of(items.collect()), ()))
}
