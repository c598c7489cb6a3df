//! Collects what the pages of a place say about its files. `found` then opens the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use super::{
    package::{identity, is_ours, is_package},
    pages::{self, Leads, PageLink},
    place::{Address, PlaceKind, SetPlace},
    published::{Listing, ListingPlace, PageClaim, PublishedFacts},
};
use crate::{
    error::{Result, one_line},
    index::SetJson,
    version::Version,
};

/// The claims of all pages of a place. The fields are explained at [`PublishedFacts`].
#[derive(Debug, Default)]
pub(super) struct Promised {
    without: Vec<String>,
    pub(super) promises: Vec<PageClaim>,
    listings: BTreeSet<ListingPlace>,
    empty_pages: Vec<(String, String)>,
    foreign: BTreeSet<String>,
    /// The address of each file, by name.
    pub(super) addresses: BTreeMap<String, Address>,
    bad_pages: Vec<(String, String)>,
    pub(super) chosen: Option<Version>,
    /// The names of all packages on the pages, of every version.
    pub(super) names: BTreeSet<String>,
}

impl Promised {
    /// Reads all pages that exist.
    pub(super) fn read(place: &SetPlace) -> Result<Self> {
        let mut this = Self::default();
        this.set_json(place)?;
        let page = place.path("index.html");
        this.pages(place, None, place.page().unwrap_or(&page))?;
        for family in this.families() {
            let page = place.path(&format!("{family}/index.html"));
            this.pages(place, Some(&family), &page)?;
        }
        this.checksums(place)?;
        this.missing_pages(place);
        this.choose();
        Ok(this)
    }

    /// Whether the pages are those of a set. Any web server has an `index.html`; it counts only if
    /// there are packages beside it.
    pub(super) fn is_of_a_set(&self, has_packages: bool) -> bool {
        let mut listings = self.listings.iter();
        let has_index = listings.any(|it| it.listing != Listing::FindLinks);
        let is_beside_packages = has_packages && !self.listings.is_empty();
        has_index || is_beside_packages || !self.bad_pages.is_empty()
    }

    pub(super) fn into_published(self, unlisted: BTreeSet<String>) -> PublishedFacts {
        PublishedFacts {
            without: self.without,
            promises: self.promises,
            listings: self.listings,
            empty_pages: self.empty_pages,
            bad_pages: self.bad_pages,
            unlisted,
            foreign: self.foreign,
            ..PublishedFacts::default()
        }
    }

    /// Reports missing pages of a published set. `upload` writes `set.json` last, so a set that has
    /// it must also have the pages.
    fn missing_pages(&mut self, place: &SetPlace) {
        let has = |this: &Self, family: Option<&String>, listing| {
            let family = family.cloned();
            this.listings.contains(&ListingPlace { family, listing })
        };
        // `build` writes `set.json` beside its packages, but no pages.
        let is_built = self.listings.len() == 1 && matches!(place.kind(), PlaceKind::Directory(_));
        if is_built || !has(self, None, Listing::SetJson) {
            return;
        }
        let families = self.families();
        for family in iter::once(None).chain(families.iter().map(Some)) {
            for listing in [Listing::Simple, Listing::FindLinks] {
                if !has(self, family, listing) {
                    let family = family.cloned();
                    let page = ListingPlace { family, listing }.name();
                    let why = "`set.json` is there, and this page is not".to_owned();
                    self.bad_pages.push((page, why));
                }
            }
        }
    }

    fn set_json(&mut self, place: &SetPlace) -> Result<()> {
        let path = place.path("set.json");
        let Some(text) = place.text(&path)? else {
            return Ok(());
        };
        match SetJson::parse(&text) {
            Err(error) => self.bad(place, &path, &error),
            Ok(set) => {
                self.without.clone_from(&set.identity.without);
                let listing = self.listing(None, Listing::SetJson);
                for file in set.files() {
                    let address = Address {
                        origin: None,
                        path: place.path(file.path()),
                    };
                    self.promise(place, (address, &path), &listing, |promise| {
                        promise.size = Some(file.size);
                        promise.sha256 = Some(file.sha256);
                    });
                }
            }
        }
        Ok(())
    }

    /// The families that have a directory of packages.
    fn families(&self) -> BTreeSet<String> {
        let names = self.addresses.keys();
        let families = names.filter_map(|name| name.split_once('/'));
        families.map(|(family, _)| family.to_owned()).collect()
    }

    /// Reads the pages of the whole set, or those below the directory of a family.
    fn pages(&mut self, place: &SetPlace, family: Option<&str>, find_links: &str) -> Result<()> {
        let below = family.map_or(String::new(), |family| format!("{family}/"));
        self.simple(place, family, &place.path(&format!("{below}simple/")))?;
        self.simple_json(place, family, &place.path(&format!("{below}simple/_json/")))?;
        self.find_links(place, family, find_links)
    }

    /// Records that a listing exists, even if it names no package.
    fn listing(&mut self, family: Option<&str>, listing: Listing) -> ListingPlace {
        let family = family.map(str::to_owned);
        let there = ListingPlace { family, listing };
        self.listings.insert(there.clone());
        there
    }

    fn simple(&mut self, place: &SetPlace, family: Option<&str>, root: &str) -> Result<()> {
        let Some(text) = page(place, root, "index.html")? else {
            return Ok(());
        };
        let listing = self.listing(family, Listing::Simple);
        let mut projects = BTreeSet::new();
        for link in pages::html_links(&text) {
            match pages::resolve(root, &link.href) {
                Ok(Leads::Within(path)) => {
                    let below = path.strip_prefix(root).unwrap_or_default();
                    let is_project = below.trim_end_matches('/').split('/').count() == 1;
                    if is_project && is_our_project(below.trim_end_matches('/')) {
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
                    self.project_links(place, &project, &listing, links);
                }
            }
        }
        Ok(())
    }

    fn simple_json(&mut self, place: &SetPlace, family: Option<&str>, root: &str) -> Result<()> {
        let Some(text) = page(place, root, "index.json")? else {
            return Ok(());
        };
        let listing = self.listing(family, Listing::SimpleJson);
        let projects = match pages::json_projects(&text) {
            Ok(projects) => projects,
            Err(error) => {
                self.bad(place, root, &error);
                return Ok(());
            }
        };
        for project in projects.iter().filter(|name| is_our_project(name)) {
            let path = format!("{root}{project}/");
            let Some(text) = page(place, &path, "index.json")? else {
                self.missing(place, &path, root);
                continue;
            };
            match pages::json_links(&text) {
                Ok(links) => self.project_links(place, &path, &listing, links),
                Err(error) => self.bad(place, &path, &error),
            }
        }
        Ok(())
    }

    fn find_links(&mut self, place: &SetPlace, family: Option<&str>, path: &str) -> Result<()> {
        let mut text = place.text(path)?;
        if text.is_none() && *place.kind() == PlaceKind::Web {
            // The web server may generate a page that lists the directory.
            text = place.text(&place.path(""))?;
        }
        if let Some(text) = text {
            let listing = self.listing(family, Listing::FindLinks);
            self.links(place, path, &listing, pages::html_links(&text));
        }
        Ok(())
    }

    fn checksums(&mut self, place: &SetPlace) -> Result<()> {
        let path = place.path("SHA256SUMS");
        let Some(text) = place.text(&path)? else {
            return Ok(());
        };
        match pages::checksums(&text) {
            Err(error) => self.bad(place, &path, &error),
            Ok(lines) => {
                let listing = self.listing(None, Listing::Checksums);
                for (sha256, below) in lines {
                    let origin = None;
                    let address = Address {
                        origin,
                        path: place.path(&below),
                    };
                    self.promise(place, (address, &path), &listing, |promise| {
                        promise.sha256 = Some(sha256);
                    });
                }
            }
        }
        Ok(())
    }

    /// Ignores files of other projects than that of the page, as installers do.
    fn project_links(
        &mut self,
        place: &SetPlace,
        page: &str,
        listing: &ListingPlace,
        mut links: Vec<PageLink>,
    ) {
        let project = page.trim_end_matches('/').rsplit('/').next();
        let project = project.unwrap_or_default().to_owned();
        links.retain(|link| {
            let file = pages::resolve(page, &link.href).map(Leads::into_path);
            let named = file.ok().and_then(|file| identity(&file));
            named.is_none_or(|(name, _)| name.normalized() == project)
        });
        if links.is_empty() {
            let page = place.shown(page).to_owned();
            self.empty_pages.push((page, project));
        } else {
            self.links(place, page, listing, links);
        }
    }

    fn links(
        &mut self,
        place: &SetPlace,
        page: &str,
        listing: &ListingPlace,
        links: Vec<PageLink>,
    ) {
        for link in links {
            let address = match pages::resolve(page, &link.href) {
                Ok(Leads::Within(path)) => Address { origin: None, path },
                Ok(Leads::Elsewhere(origin, path)) => Address {
                    origin: Some(origin),
                    path,
                },
                Err(error) => {
                    // The directory listing of a web server links to its parent directory, which
                    // may be outside. Only a bad link to a package is an error.
                    let path = link.href.split(['#', '?']).next().unwrap_or_default();
                    if is_package(path) {
                        self.bad(place, page, &error);
                    }
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

    /// Records a claim about a package. Links to other files are ignored.
    fn promise(
        &mut self,
        place: &SetPlace,
        (address, page): (Address, &str),
        listing: &ListingPlace,
        facts: impl FnOnce(&mut PageClaim),
    ) {
        let file = name_of(place, &address);
        if !is_package(&file) {
            return;
        }
        self.names.insert(file.clone());
        if identity(&file).is_some_and(|(name, _)| !is_ours(&name)) {
            self.foreign.insert(file);
            return;
        }
        let mut promise = PageClaim {
            page: place.shown(page).to_owned(),
            listing: listing.clone(),
            file: file.clone(),
            size: None,
            sha256: None,
            metadata: None,
        };
        facts(&mut promise);
        self.promises.push(promise);
        self.addresses.entry(file).or_insert(address);
    }

    /// Selects the newest version. An index may keep many versions, but a set is only one of them.
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
        // All files in a `set.json` belong to one set, even if their versions differ.
        if self
            .promises
            .iter()
            .any(|it| it.listing.listing == Listing::SetJson)
        {
            return;
        }
        let is_it = |name: &str| versions(name).is_none_or(|version| version == *newest);
        self.promises.retain(|promise| is_it(&promise.file));
        self.addresses.retain(|name, _| is_it(name));
        self.chosen = Some(newest.clone());
    }

    fn missing(&mut self, place: &SetPlace, page: &str, root: &str) {
        let (page, root) = (place.shown(page), place.shown(root));
        let why = format!("`{root}` names it, and it is not there");
        self.bad_pages.push((page.to_owned(), why));
    }

    fn bad(&mut self, place: &SetPlace, page: &str, error: &crate::error::Error) {
        self.bad_pages
            .push((place.shown(page).to_owned(), one_line(error)));
    }
}

/// The page of a directory, under the key that ends in `/` or under its file name.
fn page(place: &SetPlace, path: &str, file: &str) -> Result<Option<String>> {
    match place.text(path)? {
        // Some servers return an empty object for the key that ends in `/`, others generate an HTML
        // listing even where JSON is expected. Use the answer only if it has the expected format.
        Some(text) if !text.is_empty() && text.starts_with('<') == file.ends_with("html") => {
            Ok(Some(text))
        }
        text => {
            let text = text.filter(|text| !text.is_empty());
            Ok(place.text(&format!("{path}{file}"))?.or(text))
        }
    }
}

/// The name of a file in the set, with the directory of its family if it has one.
fn name_of(place: &SetPlace, address: &Address) -> String {
    let (directory, name) = address.path.rsplit_once('/').unwrap_or(("", &address.path));
    let dist = place.path("dist/");
    let family = directory.strip_prefix(&dist);
    let family = family.filter(|it| address.origin.is_none() && !it.contains('/'));
    match family {
        Some(family) => format!("{family}/{name}"),
        None => name.to_owned(),
    }
}

/// Whether a link on a root page names one of our projects. Other links are not followed.
fn is_our_project(project: &str) -> bool {
    project.parse().is_ok_and(|name| is_ours(&name))
}
