//! Finds the packages of a place that `check` reads: by its pages if it has any, otherwise by
//! listing its directory.

use std::{collections::BTreeSet, mem, path::Path};

use super::{
    package::{PackageFile, is_package, is_wheel},
    place::{Address, PlaceKind, SetPlace},
    promised::Promised,
    published::PublishedFacts,
};
use crate::{
    error::{Hint as _, Result, bail},
    index::Layout,
    store::Depth,
    version::Version,
};

/// The packages found at a place, and what its pages say.
#[derive(Debug, Default)]
pub struct PublishedSet {
    pub packages: Vec<PackageFile>,
    /// `None` for a directory of packages without pages.
    pub published: Option<PublishedFacts>,
    /// The version that was selected, if the index has several.
    pub chosen: Option<Version>,
}

/// How to find the packages of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceDepth {
    /// List the directory of packages (by default `dist/` if it exists) and ignore the pages, which
    /// are about to be written.
    Packages(Option<Layout>),
    /// Follow the pages, if the place has any.
    Pages,
}

/// Finds the packages of a place, sorted by name, and what its pages say if `look` asks for it.
pub fn find(place: &SetPlace, look: PlaceDepth) -> Result<PublishedSet> {
    let mut found = match look {
        PlaceDepth::Packages(layout) => unpublished(place, lying(place, layout)?)?,
        PlaceDepth::Pages => match place.local() {
            Some(root) if !has_pages(root) => unpublished(place, lying(place, None)?)?,
            local => {
                let mut found = find_published(place)?;
                if local.is_some() {
                    // A local directory is checked as a whole, also packages of families that no
                    // page names.
                    let known: BTreeSet<String> =
                        found.packages.iter().map(|it| it.name().into()).collect();
                    let lying = lying(place, Some(Layout::Dist))?.into_iter();
                    let others = lying.filter(|it| it.name().contains('/'));
                    found
                        .packages
                        .extend(others.filter(|it| !known.contains(it.name())));
                }
                found
            }
        },
    };
    found
        .packages
        .sort_by(|one, other| one.name().cmp(other.name()));
    Ok(found)
}

/// Reads the pages of a place, and finds the files that they lead to.
pub fn find_published(place: &SetPlace) -> Result<PublishedSet> {
    let mut promised = Promised::read(place)?;
    if promised.promises.is_empty() {
        // No page names a package: check the packages beside the pages.
        let packages = lying(place, None)?;
        if !promised.is_of_a_set(!packages.is_empty()) {
            return unpublished(place, packages);
        }
        let published = promised.into_published(BTreeSet::new());
        return Ok(PublishedSet {
            packages,
            published: Some(published),
            chosen: None,
        });
    }
    let mut found = PublishedSet {
        chosen: promised.chosen.take(),
        ..PublishedSet::default()
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
fn unpublished(place: &SetPlace, packages: Vec<PackageFile>) -> Result<PublishedSet> {
    if !packages.is_empty() {
        return Ok(PublishedSet {
            packages,
            ..PublishedSet::default()
        });
    }
    let what = || -> Result<PublishedSet> {
        match place.kind() {
            PlaceKind::Directory(_) => bail!("no wheel or sdist in `{place}`"),
            PlaceKind::Web => bail!("no index and no link to a package: `{place}`"),
            PlaceKind::Bucket(_) => bail!("no wheel or sdist, and no index: `{place}`"),
        }
    };
    what().hint(match place.local() {
        Some(_) => "pass the directory that `rocwheel build` wrote to",
        None => {
            "pass what holds `simple/`, `set.json` or `dist/`, or the address of a page with links"
        }
    })
}

/// Lists the packages, with those in the directories of families. Without a `layout`, they are in
/// `dist/` if it exists. A web server cannot be listed, so the result is empty.
fn lying(place: &SetPlace, layout: Option<Layout>) -> Result<Vec<PackageFile>> {
    if *place.kind() == PlaceKind::Web {
        return Ok(Vec::new());
    }
    let layout = layout.map_or_else(|| place.layout(), Ok)?;
    let files = place.files(layout)?.into_iter();
    let packages = files.filter(|file| is_package(&file.name)).map(|file| {
        let key = place.key(&file.path(layout))?;
        let package = PackageFile::object(place.store(), &key, file.stamp.size);
        Ok(match file.family {
            Some(family) => package.in_directory(family.as_str()),
            None => package,
        })
    });
    packages.collect()
}

/// Packages that exist but that no page names.
fn unlisted(place: &SetPlace, names: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for below in ["dist/", ""] {
        if *place.kind() == PlaceKind::Web {
            break;
        }
        for (path, _) in place.list(below, Depth::Children)? {
            let name = path.rsplit('/').next().unwrap_or_default();
            if is_package(name) && !names.contains(name) {
                found.insert(name.to_owned());
            }
        }
    }
    Ok(found)
}

/// Whether a local directory has any page of an index.
fn has_pages(place: &Path) -> bool {
    ["set.json", "simple", "SHA256SUMS", "index.html"]
        .iter()
        .any(|name| place.join(name).exists())
}
