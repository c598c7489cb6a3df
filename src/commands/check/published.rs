//! What a place promises, and the packages that are there.

use std::{collections::BTreeSet, mem};

use super::{
    package::{Package, is_package, is_wheel},
    promised::Promised,
    shelf::{Address, Shelf, ShelfKind},
};
use crate::{
    check::Published,
    error::{Hint as _, Result, bail},
    store::Depth,
    version::Version,
};

/// A set where it lies: its packages, and its pages if it has any.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) packages: Vec<Package>,
    /// `None` for packages that lie in a directory and nowhere else.
    pub(super) published: Option<Published>,
    /// Of several versions, the one that is looked at.
    pub(super) chosen: Option<Version>,
}

/// Reads the pages of a place, and finds the files that they lead to.
pub(super) fn find(shelf: &Shelf) -> Result<Found> {
    let mut promised = Promised::read(shelf)?;
    if promised.promises.is_empty() {
        // Pages that name nothing promise what lies beside them.
        let packages = lying(shelf)?;
        if !promised.is_of_a_set(!packages.is_empty()) {
            return unpublished(shelf, packages);
        }
        let published = promised.into_published(BTreeSet::new());
        return Ok(Found {
            packages,
            published: Some(published),
            chosen: None,
        });
    }
    let mut found = Found {
        chosen: promised.chosen.take(),
        ..Found::default()
    };
    let addresses = mem::take(&mut promised.addresses);
    let unlisted = unlisted(shelf, &promised.names)?;
    let mut published = promised.into_published(unlisted);
    let with_metadata = published.promises.iter();
    let with_metadata = with_metadata.filter(|it| it.metadata.is_some());
    let with_metadata: BTreeSet<String> = with_metadata.map(|it| it.file.clone()).collect();
    for (name, address) in &addresses {
        match shelf.package(address)? {
            Some(package) => found.packages.push(match name.split_once('/') {
                Some((family, _)) => package.in_directory(family),
                None => package,
            }),
            None => _ = published.gone.insert(name.clone()),
        }
        if is_wheel(name) && with_metadata.contains(name) {
            let sidecar = Address {
                path: format!("{}.metadata", address.path),
                ..address.clone()
            };
            let bytes = shelf.bytes(&sidecar)?;
            published.sidecars.insert(name.clone(), bytes);
        }
    }
    found.published = Some(published);
    Ok(found)
}

/// The packages of a directory without pages.
pub(super) fn unpublished(shelf: &Shelf, packages: Vec<Package>) -> Result<Found> {
    if !packages.is_empty() {
        return Ok(Found {
            packages,
            ..Found::default()
        });
    }
    let what = || -> Result<Found> {
        match shelf.kind() {
            ShelfKind::Web => bail!("no index and no link to a package: `{shelf}`"),
            _ => bail!("no wheel or sdist, and no index: `{shelf}`"),
        }
    };
    what().hint(
        "pass what holds `simple/`, `set.json` or `dist/`, or the address of a page with links",
    )
}

/// The packages in `dist` and in the families' directories in it, or else in the place itself, where
/// it can be listed.
pub(super) fn lying(shelf: &Shelf) -> Result<Vec<Package>> {
    let mut found = Vec::new();
    for (below, depth) in [("dist/", Depth::All), ("", Depth::Children)] {
        let directory = shelf.path(below);
        for path in shelf.list(below, depth)?.unwrap_or_default() {
            let file = path.strip_prefix(&directory).unwrap_or(&path).to_owned();
            let (family, name) = file.rsplit_once('/').unwrap_or(("", &file));
            if !is_package(name) || family.contains('/') {
                continue;
            }
            let package = shelf.package(&Address { origin: None, path })?;
            found.extend(package.map(|package| match family {
                "" => package,
                family => package.in_directory(family),
            }));
        }
        if !found.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Packages that lie there and that no page names.
fn unlisted(shelf: &Shelf, names: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for below in ["dist/", ""] {
        for path in shelf.list(below, Depth::Children)?.unwrap_or_default() {
            let name = path.rsplit('/').next().unwrap_or_default();
            if is_package(name) && !names.contains(name) {
                found.insert(name.to_owned());
            }
        }
    }
    Ok(found)
}
