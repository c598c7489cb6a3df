//! Packages of others at a place: the files of a base index. Other files of the place stay as they are.

use std::path::Path;

use super::{
    pages::{Phase, content_type},
    place::SetPlace,
    set_json::Layout,
    sync::{Changes, Existing, Guard, Item, ItemBytes, Listing, Plan, REQUESTS, Sync, immutable},
};
use crate::{
    console::World,
    digest::Sha256,
    error::{Context as _, Result},
    parallel,
    store::{Condition, PutOptions},
};

/// A package that a place is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredPackage {
    pub name: String,
    pub size: u64,
    pub sha256: Sha256,
}

impl MirroredPackage {
    fn path(&self) -> String {
        format!("{}{}", Layout::Dist.files(), self.name)
    }
}

/// Compares packages with those of a place.
pub fn plan_mirror(packages: &[MirroredPackage], place: &SetPlace, world: &World) -> Result<Plan> {
    let sync = sync(place, "".as_ref(), world);
    let (plan, ()) = sync.plan(|listing| decide(listing, packages, "".as_ref()))?;
    Ok(plan)
}

/// Writes packages that are in a directory to a place. A file of the place with other bytes is an error.
pub fn mirror(
    packages: &[MirroredPackage],
    source: &Path,
    place: &SetPlace,
    world: &World,
) -> Result<()> {
    sync(place, source, world).run(|listing| decide(listing, packages, source))?;
    Ok(())
}

/// Has a bucket copy packages onto themselves, each while it is the one that is there: then they are new to a
/// lifecycle rule. Returns how many were copied.
pub fn refresh(packages: &[&MirroredPackage], place: &SetPlace, world: &World) -> Result<usize> {
    let copy = |package: &&MirroredPackage| -> Result<bool> {
        let path = package.path();
        let options = PutOptions {
            content_type: content_type(&path).to_owned(),
            cache_control: Some(immutable().to_owned()),
            condition: Condition::Always,
            sha256: Some(package.sha256),
        };
        let (store, key) = (&place.store, place.key(&path)?);
        let copied = match store.copy_source(&key)? {
            Some(itself) => store.copy(&key, &itself, &options),
            None => Ok(false),
        };
        copied.with_context(|| format!("failed to refresh `{path}` of `{place}`"))
    };
    let copied = parallel::try_map(packages, REQUESTS, &world.stop, copy)?;
    Ok(copied.into_iter().filter(|it| *it).count())
}

fn sync<'a>(place: &'a SetPlace, source: &'a Path, world: &'a World) -> Sync<'a> {
    Sync {
        verb: "Mirroring",
        ..Sync::of_packages(place, source, Guard::Packages, Existing::Keep, world)
    }
}

fn decide(
    listing: &mut Listing<'_>,
    packages: &[MirroredPackage],
    source: &Path,
) -> Result<(Changes, ())> {
    listing.add("dist")?;
    let items = packages.iter().map(|package| Item {
        path: package.path(),
        phase: Phase::File,
        size: package.size,
        sha256: package.sha256,
        bytes: ItemBytes::OnDisk(source.join(&package.name), None),
        copy: None,
        replaces: false,
    });
    let changes = Changes {
        items: items.collect(),
        ..Changes::default()
    };
    Ok((changes, ()))
}
