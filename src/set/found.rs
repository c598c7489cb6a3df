//! What a place promises, and the packages that are there.

use std::{
    collections::BTreeSet,
    mem,
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::{
    package::{Package, is_package, is_wheel},
    promised::Promised,
    published::Published,
    source::{Address, PlaceKind, SetPlace},
};
use crate::{
    error::{Hint as _, Result, bail, ensure},
    index::Layout,
    store::Depth,
    version::Version,
};

/// A set where it lies: its packages, and its pages if it has any.
#[derive(Debug, Default)]
pub struct Found {
    pub packages: Vec<Package>,
    /// `None` for packages that lie in a directory and nowhere else.
    pub published: Option<Published>,
    /// Of several versions, the one that is looked at.
    pub chosen: Option<Version>,
}

/// What is looked at of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The packages where this layout has them, or by default in `dist` if it exists; the pages
    /// beside them are still to be written.
    Packages(Option<Layout>),
    /// What its pages lead to, if it has any.
    Pages,
}

/// The packages of a place by name, and what its pages say if that is wanted.
pub fn find(place: &SetPlace, look: Look) -> Result<Found> {
    let layout = match look {
        Look::Packages(layout) => layout,
        Look::Pages => None,
    };
    let mut found = match place.local() {
        Some(root) if look != Look::Pages || !has_pages(root) => Found {
            packages: directory(root, layout)?,
            ..Found::default()
        },
        _ if look != Look::Pages => unpublished(place, lying(place, layout)?)?,
        _ => find_published(place)?,
    };
    if let Some(root) = place.local()
        && layout != Some(Layout::Flat)
    {
        let known: BTreeSet<String> = found.packages.iter().map(|it| it.name().into()).collect();
        for (family, packages) in families(root)? {
            let packages = packages.into_iter().map(|it| it.in_directory(&family));
            let others = packages.filter(|it| !known.contains(it.name()));
            found.packages.extend(others);
        }
    }
    found
        .packages
        .sort_by(|one, other| one.name().cmp(other.name()));
    Ok(found)
}

/// Reads the pages of a place, and finds the files that they lead to.
pub fn find_published(place: &SetPlace) -> Result<Found> {
    let mut promised = Promised::read(place)?;
    if promised.promises.is_empty() {
        // Pages that name nothing promise what lies beside them.
        let packages = lying(place, None)?;
        if !promised.is_of_a_set(!packages.is_empty()) {
            return unpublished(place, packages);
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
    let unlisted = unlisted(place, &promised.names)?;
    let mut published = promised.into_published(unlisted);
    let with_metadata = published.promises.iter();
    let with_metadata = with_metadata.filter(|it| it.metadata.is_some());
    let with_metadata: BTreeSet<String> = with_metadata.map(|it| it.file.clone()).collect();
    for (name, address) in &addresses {
        match place.package(address)? {
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
            let bytes = place.bytes(&sidecar)?;
            published.sidecars.insert(name.clone(), bytes);
        }
    }
    found.published = Some(published);
    Ok(found)
}

/// The packages of a directory without pages.
fn unpublished(place: &SetPlace, packages: Vec<Package>) -> Result<Found> {
    if !packages.is_empty() {
        return Ok(Found {
            packages,
            ..Found::default()
        });
    }
    let what = || -> Result<Found> {
        match place.kind() {
            PlaceKind::Web => bail!("no index and no link to a package: `{place}`"),
            _ => bail!("no wheel or sdist, and no index: `{place}`"),
        }
    };
    what().hint(
        "pass what holds `simple/`, `set.json` or `dist/`, or the address of a page with links",
    )
}

/// The packages in `dist` and in the families' directories in it, or else in the place itself, where
/// it can be listed.
fn lying(place: &SetPlace, layout: Option<Layout>) -> Result<Vec<Package>> {
    let mut found = Vec::new();
    let (dist, flat) = (("dist/", Depth::All), ("", Depth::Children));
    let directories = match layout {
        None => vec![dist, flat],
        Some(Layout::Dist) => vec![dist],
        Some(Layout::Flat) => vec![flat],
    };
    for (below, depth) in directories {
        let directory = place.path(below);
        for path in place.list(below, depth)?.unwrap_or_default() {
            let file = path.strip_prefix(&directory).unwrap_or(&path).to_owned();
            let (family, name) = file.rsplit_once('/').unwrap_or(("", &file));
            if !is_package(name) || family.contains('/') {
                continue;
            }
            let package = place.package(&Address { origin: None, path })?;
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
fn unlisted(place: &SetPlace, names: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for below in ["dist/", ""] {
        for path in place.list(below, Depth::Children)?.unwrap_or_default() {
            let name = path.rsplit('/').next().unwrap_or_default();
            if is_package(name) && !names.contains(name) {
                found.insert(name.to_owned());
            }
        }
    }
    Ok(found)
}

/// Whether anything in a directory says what is in it.
fn has_pages(place: &Path) -> bool {
    place.is_file()
        || ["set.json", "simple", "SHA256SUMS", "index.html"]
            .iter()
            .any(|name| place.join(name).exists())
}

/// The packages of a directory or its `dist`, by name.
fn directory(place: &Path, layout: Option<Layout>) -> Result<Vec<Package>> {
    let directory = match layout {
        Some(layout) => place.join(layout.files()),
        None => dist(place),
    };
    let found = packages(&directory)?;
    let check = || -> Result<()> {
        ensure!(
            !found.is_empty(),
            "no wheel or sdist in `{}`",
            directory.display()
        );
        Ok(())
    };
    check().hint(ADVICE)?;
    Ok(found)
}

const ADVICE: &str = "pass the directory that `rocwheel build` wrote to";

fn dist(place: &Path) -> PathBuf {
    let dist = place.join("dist");
    if dist.is_dir() {
        dist
    } else {
        place.to_owned()
    }
}

fn packages(directory: &Path) -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(directory).hint(ADVICE)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // A link to a file will do.
        if is_package(&name) && path.is_file() {
            packages.push(Package::file(&path, &name)?);
        }
    }
    Ok(packages)
}

/// The packages of each family that has a directory of its own.
fn families(place: &Path) -> Result<Vec<(String, Vec<Package>)>> {
    let dist = place.join("dist");
    let mut found = Vec::new();
    if !dist.is_dir() {
        return Ok(found);
    }
    for entry in fs::read_dir(&dist)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('.') && path.is_dir() {
            let packages = packages(&path)?;
            if !packages.is_empty() {
                found.push((name.into_owned(), packages));
            }
        }
    }
    Ok(found)
}
