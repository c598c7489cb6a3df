//! What a place promises, and the packages that are there.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    package::{Package, is_package, is_wheel},
    pages::{self, Leads, Link},
    shelf::{Address, Shelf, ShelfKind},
};
use crate::{
    audit::{Listing, Promise, Published},
    error::{Hint as _, Result, bail, one_line},
    index::SetJson,
    version::Version,
    wheel::{DistName, SdistFilename, WheelFilename},
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

/// What pages say, before anybody looked.
#[derive(Debug, Default)]
pub(super) struct Promised {
    pub(super) promises: Vec<Promise>,
    /// Where each file is.
    addresses: BTreeMap<String, Address>,
    bad_pages: Vec<(String, String)>,
    chosen: Option<Version>,
    /// All names, of whatever version.
    names: BTreeSet<String>,
}

/// Looks at the pages of a place and then at the files that they lead to.
pub(super) fn find(shelf: &Shelf) -> Result<Found> {
    let promised = Promised::read(shelf)?;
    if promised.promises.is_empty() && promised.bad_pages.is_empty() {
        return unpublished(shelf);
    }
    let mut found = Found {
        chosen: promised.chosen,
        ..Found::default()
    };
    let mut published = Published {
        bad_pages: promised.bad_pages,
        unlisted: unlisted(shelf, &promised.names)?,
        ..Published::default()
    };
    let with_metadata = promised.promises.iter();
    let with_metadata = with_metadata.filter(|it| it.metadata.is_some());
    let with_metadata: BTreeSet<&str> = with_metadata.map(|it| it.file.as_str()).collect();
    for (name, address) in &promised.addresses {
        match shelf.package(address)? {
            Some(package) => found.packages.push(match name.split_once('/') {
                Some((family, _)) => package.in_directory(family),
                None => package,
            }),
            None => _ = published.gone.insert(name.clone()),
        }
        if is_wheel(name) && with_metadata.contains(name.as_str()) {
            let sidecar = Address {
                path: format!("{}.metadata", address.path),
                ..address.clone()
            };
            let bytes = shelf.bytes(&sidecar)?;
            published.sidecars.insert(name.clone(), bytes);
        }
    }
    published.promises = promised.promises;
    found.published = Some(published);
    Ok(found)
}

/// The packages of a directory without pages.
fn unpublished(shelf: &Shelf) -> Result<Found> {
    let mut found = Found::default();
    for below in ["dist/", ""] {
        for path in shelf.list(below)?.unwrap_or_default() {
            let name = path.rsplit('/').next().unwrap_or_default();
            if is_package(name) {
                let origin = None;
                found
                    .packages
                    .extend(shelf.package(&Address { origin, path })?);
            }
        }
        if !found.packages.is_empty() {
            return Ok(found);
        }
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

/// Packages that lie there and that no page names.
fn unlisted(shelf: &Shelf, names: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for below in ["dist/", ""] {
        for path in shelf.list(below)?.unwrap_or_default() {
            let name = path.rsplit('/').next().unwrap_or_default();
            if is_package(name) && !names.contains(name) {
                found.insert(name.to_owned());
            }
        }
    }
    Ok(found)
}

impl Promised {
    /// Reads whatever pages there are.
    pub(super) fn read(place: &Shelf) -> Result<Self> {
        let mut this = Self::default();
        this.set_json(place)?;
        let page = place.path("index.html");
        this.pages(place, "", place.page().unwrap_or(&page))?;
        for family in this.families() {
            let below = format!("{family}/");
            this.pages(place, &below, &place.path(&format!("{below}index.html")))?;
        }
        this.checksums(place)?;
        this.names = this.addresses.keys().cloned().collect();
        this.choose();
        Ok(this)
    }

    fn set_json(&mut self, place: &Shelf) -> Result<()> {
        let path = place.path("set.json");
        let Some(text) = place.text(&path)? else {
            return Ok(());
        };
        match SetJson::parse(&text) {
            Err(error) => self.bad(place, &path, &error),
            Ok(set) => {
                for file in set.files() {
                    let address = Address {
                        origin: None,
                        path: place.path(file.path()),
                    };
                    self.promise(place, (address, &path), Listing::SetJson, |promise| {
                        promise.size = Some(file.size);
                        promise.sha256 = Some(file.sha256);
                    });
                }
            }
        }
        Ok(())
    }

    /// The directories of families that there are.
    fn families(&self) -> BTreeSet<String> {
        let names = self.addresses.keys();
        let families = names.filter_map(|name| name.split_once('/'));
        families.map(|(family, _)| family.to_owned()).collect()
    }

    /// The pages of the whole, or those of a family, which are below its directory.
    fn pages(&mut self, place: &Shelf, below: &str, find_links: &str) -> Result<()> {
        self.simple(place, &place.path(&format!("{below}simple/")))?;
        self.simple_json(place, &place.path(&format!("{below}simple/_json/")))?;
        self.find_links(place, find_links)
    }

    fn simple(&mut self, place: &Shelf, root: &str) -> Result<()> {
        let Some(text) = page(place, root, "index.html")? else {
            return Ok(());
        };
        let mut projects = BTreeSet::new();
        for link in pages::html_links(&text) {
            match pages::resolve(root, &link.href) {
                Ok(Leads::Within(path)) => {
                    let below = path.strip_prefix(root).unwrap_or_default();
                    let is_project = below.trim_end_matches('/').split('/').count() == 1;
                    if is_project && is_ours(below.trim_end_matches('/')) {
                        projects.insert(format!("{}/", path.trim_end_matches('/')));
                    }
                }
                Ok(Leads::Elsewhere(..)) => {}
                Err(error) => self.bad(place, root, &error),
            }
        }
        for project in projects {
            match page(place, &project, "index.html")? {
                None => self.missing(place, &project, root),
                Some(text) => {
                    let links = pages::html_links(&text);
                    self.links(place, &project, Listing::Simple, links);
                }
            }
        }
        Ok(())
    }

    fn simple_json(&mut self, place: &Shelf, root: &str) -> Result<()> {
        let Some(text) = page(place, root, "index.json")? else {
            return Ok(());
        };
        let projects = match pages::json_projects(&text) {
            Ok(projects) => projects,
            Err(error) => {
                self.bad(place, root, &error);
                return Ok(());
            }
        };
        for project in projects.iter().filter(|name| is_ours(name)) {
            let path = format!("{root}{project}/");
            let Some(text) = page(place, &path, "index.json")? else {
                self.missing(place, &path, root);
                continue;
            };
            match pages::json_links(&text) {
                Ok(links) => self.links(place, &path, Listing::SimpleJson, links),
                Err(error) => self.bad(place, &path, &error),
            }
        }
        Ok(())
    }

    fn find_links(&mut self, place: &Shelf, path: &str) -> Result<()> {
        let mut text = place.text(path)?;
        if text.is_none() && *place.kind() == ShelfKind::Web {
            // A directory that a web server lists.
            text = place.text(&place.path(""))?;
        }
        if let Some(text) = text {
            let links = pages::html_links(&text);
            self.links(place, path, Listing::FindLinks, links);
        }
        Ok(())
    }

    fn checksums(&mut self, place: &Shelf) -> Result<()> {
        let path = place.path("SHA256SUMS");
        let Some(text) = place.text(&path)? else {
            return Ok(());
        };
        match pages::checksums(&text) {
            Err(error) => self.bad(place, &path, &error),
            Ok(lines) => {
                for (sha256, below) in lines {
                    let origin = None;
                    let address = Address {
                        origin,
                        path: place.path(&below),
                    };
                    self.promise(place, (address, &path), Listing::Checksums, |promise| {
                        promise.sha256 = Some(sha256);
                    });
                }
            }
        }
        Ok(())
    }

    fn links(&mut self, place: &Shelf, page: &str, listing: Listing, links: Vec<Link>) {
        for link in links {
            let address = match pages::resolve(page, &link.href) {
                Ok(Leads::Within(path)) => Address { origin: None, path },
                Ok(Leads::Elsewhere(origin, path)) => Address {
                    origin: Some(origin),
                    path,
                },
                Err(error) => {
                    self.bad(place, page, &error);
                    continue;
                }
            };
            self.promise(place, (address, page), listing, |promise| {
                promise.sha256 = link.sha256;
                promise.size = link.size;
                promise.metadata = link.metadata;
            });
        }
    }

    /// Anything that is no package is passed over: pages link to other things as well.
    fn promise(
        &mut self,
        place: &Shelf,
        (address, page): (Address, &str),
        listing: Listing,
        facts: impl FnOnce(&mut Promise),
    ) {
        let file = name_of(place, &address);
        let named = identity(&file);
        if !is_package(&file) || named.is_some_and(|(name, _)| !is_ours(name.normalized())) {
            return;
        }
        let mut promise = Promise {
            page: place.shown(page).to_owned(),
            listing,
            file: file.clone(),
            size: None,
            sha256: None,
            metadata: None,
        };
        facts(&mut promise);
        self.promises.push(promise);
        self.addresses.entry(file).or_insert(address);
    }

    /// An index keeps many versions; a set is one of them, here the newest.
    fn choose(&mut self) {
        let versions = |name: &str| identity(name).map(|(_, version)| version);
        let all: BTreeSet<Version> = self
            .addresses
            .keys()
            .filter_map(|it| versions(it))
            .collect();
        let Some(newest) = all.last().filter(|_| all.len() > 1) else {
            return;
        };
        // What a set.json names belongs together, whatever its versions.
        if self
            .promises
            .iter()
            .any(|it| it.listing == Listing::SetJson)
        {
            return;
        }
        let is_it = |name: &str| versions(name).is_none_or(|version| version == *newest);
        self.promises.retain(|promise| is_it(&promise.file));
        self.addresses.retain(|name, _| is_it(name));
        self.chosen = Some(newest.clone());
    }

    fn missing(&mut self, place: &Shelf, page: &str, root: &str) {
        let (page, root) = (place.shown(page), place.shown(root));
        let why = format!("`{root}` names it, and it is not there");
        self.bad_pages.push((page.to_owned(), why));
    }

    fn bad(&mut self, place: &Shelf, page: &str, error: &crate::error::Error) {
        self.bad_pages
            .push((place.shown(page).to_owned(), one_line(error)));
    }
}

/// The page of a directory, under either of its names.
fn page(shelf: &Shelf, path: &str, file: &str) -> Result<Option<String>> {
    match shelf.text(path)? {
        // Some servers hold an empty object where a directory is, and others list what is in it.
        Some(text) if !text.is_empty() && text.starts_with('<') == file.ends_with("html") => {
            Ok(Some(text))
        }
        text => {
            let text = text.filter(|text| !text.is_empty());
            Ok(shelf.text(&format!("{path}{file}"))?.or(text))
        }
    }
}

/// What a file is called among the others: in the directory of a family, with that.
fn name_of(place: &Shelf, address: &Address) -> String {
    let (directory, name) = address.path.rsplit_once('/').unwrap_or(("", &address.path));
    let dist = place.path("dist/");
    let family = directory.strip_prefix(&dist);
    let family = family.filter(|it| address.origin.is_none() && !it.contains('/'));
    match family {
        Some(family) => format!("{family}/{name}"),
        None => name.to_owned(),
    }
}

/// An index may hold what ROCm packages depend on as well.
fn is_ours(project: &str) -> bool {
    project == "rocm" || project.starts_with("rocm-") || project.starts_with("rocm_")
}

/// The project and the version that a file name tells.
pub(super) fn identity(file: &str) -> Option<(DistName, Version)> {
    let file = file.rsplit('/').next()?;
    if is_wheel(file) {
        let name: WheelFilename = file.parse().ok()?;
        Some((name.name().clone(), name.version().clone()))
    } else {
        let name: SdistFilename = file.parse().ok()?;
        Some((name.name().clone(), name.version().clone()))
    }
}
