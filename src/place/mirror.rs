//! Packages of others at a place: the files of a base index. Other files of the place stay as they are.

use std::path::Path;

use super::{
    set_place::SetPlace,
    sync::{Changes, Existing, Guard, Item, Listing, Plan, Sync},
};
use crate::{console::World, index::PackageFile};
use rocwheel_base::error::Result;

/// Compares packages with the packages of a place.
pub fn plan_mirror(packages: &[PackageFile], place: &SetPlace, world: &World) -> Result<Plan> {
    // A plan opens no package, so that it needs no directory of them.
    let source = Path::new("");
    let (plan, ()) =
        sync_of(place, source, world).plan(|listing| decide(listing, packages, source))?;
    Ok(plan)
}

/// Writes packages that are in a directory to a place. A file of the place with other bytes is an error.
pub fn mirror(
    packages: &[PackageFile],
    source: &Path,
    place: &SetPlace,
    world: &World,
) -> Result<()> {
    sync_of(place, source, world).run(|listing| decide(listing, packages, source))?;
    Ok(())
}

fn sync_of<'a>(place: &'a SetPlace, source: &'a Path, world: &'a World) -> Sync<'a> {
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
    // Nothing is known of the files on disk: each is verified while it is sent.
    let items = packages.iter().map(|file| Item::file(file, source.join(file.name()), None));
    Ok((Changes::of(items.collect()), ()))
}
