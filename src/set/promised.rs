//! [`PublishedSet`]: the packages that are found at a place, by its pages if it has any, and what
//! the pages say about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    path::Path,
};

use super::{
    files::PackageFile,
    links::{self, PageLink},
    packages::{Layout, SIDECAR, identity, is_ours, is_package, is_wheel},
    place::{Address, PlaceKind, SetPlace},
    published::{Listing, ListingPlace, PageClaim, PublishedFacts, SidecarPromise},
    set_json::SetJson,
};
use crate::{
    digest::Sha256,
    error::{Error, Hint as _, Result, anyhow, one_line},
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
    let mut found = match (look, place.local()) {
        (PlaceDepth::Packages(layout), _) => unpublished(place, place.packages(layout)?)?,
        (_, Some(root)) if !has_pages(root) => unpublished(place, place.packages(None)?)?,
        (_, None) => find_published(place)?,
        (_, Some(_)) => {
            let mut found = find_published(place)?;
            // A local directory is checked as a whole, also packages of families that no page
            // names.
            let names = found.packages.iter().map(|it| it.name().to_owned());
            let known: BTreeSet<String> = names.collect();
            let mut others = place.packages(Some(Layout::Dist))?;
            others.retain(|it| it.name().contains('/') && !known.contains(it.name()));
            found.packages.extend(others);
            found
        }
    };
    let packages = &mut found.packages;
    packages.sort_by(|one, other| one.name().cmp(other.name()));
    Ok(found)
}

/// Reads the pages of a place, and finds the files that they lead to.
pub fn find_published(place: &SetPlace) -> Result<PublishedSet> {
    let Promised {
        mut facts,
        addresses,
        chosen,
        names,
        ..
    } = Promised::read(place)?;
    if facts.promises.is_empty() {
        // No page names a package: check the packages beside the pages. Any web server has an
        // `index.html`; it counts only if there are packages beside it.
        let packages = place.packages(None)?;
        let has_index = facts
            .listings
            .iter()
            .any(|it| it.listing != Listing::FindLinks);
        let is_beside_packages = !packages.is_empty() && !facts.listings.is_empty();
        if !has_index && !is_beside_packages && facts.bad_pages.is_empty() {
            return unpublished(place, packages);
        }
        return Ok(PublishedSet {
            packages,
            published: Some(facts),
            chosen: None,
        });
    }
    facts.unlisted = unlisted(place, &names)?;
    let promises = facts.promises.iter().filter(|it| it.metadata.is_some());
    let with_metadata: BTreeSet<String> = promises.map(|it| it.file.clone()).collect();
    let mut packages = Vec::new();
    for (name, address) in addresses {
        match place.package(&name, &address)? {
            Some(package) => packages.push(package),
            None => _ = facts.gone.insert(name.clone()),
        }
        if is_wheel(&name) && with_metadata.contains(&name) {
            let sidecar = Address {
                path: address.path + SIDECAR,
                ..address
            };
            facts.sidecars.insert(name, place.bytes(&sidecar)?);
        }
    }
    Ok(PublishedSet {
        packages,
        published: Some(facts),
        chosen,
    })
}

/// The packages of a directory without pages.
fn unpublished(place: &SetPlace, packages: Vec<PackageFile>) -> Result<PublishedSet> {
    if !packages.is_empty() {
        return Ok(PublishedSet {
            packages,
            ..PublishedSet::default()
        });
    }
    let (what, hint) = match &place.kind {
        PlaceKind::Directory(_) => (
            "no wheel or sdist in",
            "pass the directory that `rocwheel build` wrote to",
        ),
        PlaceKind::Web => ("no index and no link to a package:", PASS_A_SET),
        PlaceKind::Bucket(_) => ("no wheel or sdist, and no index:", PASS_A_SET),
    };
    Err(anyhow!("{what} `{place}`")).hint(hint)
}

const PASS_A_SET: &str =
    "pass what holds `simple/`, `set.json` or `dist/`, or the address of a page with links";

/// Packages that exist but that no page names.
fn unlisted(place: &SetPlace, names: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    if place.kind == PlaceKind::Web {
        return Ok(found);
    }
    for below in ["dist/", ""] {
        let listed = place.list(below, Depth::Children)?.into_iter();
        let names = listed.map(|(path, _)| path.rsplit('/').next().unwrap_or_default().to_owned());
        found.extend(names.filter(|name| is_package(name)));
    }
    found.retain(|name| !names.contains(name));
    Ok(found)
}

/// Whether a local directory has any page of an index.
fn has_pages(place: &Path) -> bool {
    ["set.json", "simple", "SHA256SUMS", "index.html"]
        .iter()
        .any(|name| place.join(name).exists())
}

/// What a page says about a file: its size, its digest, and its sidecar.
type Claims = (Option<u64>, Option<Sha256>, Option<SidecarPromise>);

/// Parses a document: files, by their paths in the set, and claims about them.
type ParseDocument = fn(&mut PublishedFacts, &str) -> Result<Vec<(String, Claims)>>;

/// The claims of all pages of a place.
struct Promised<'a> {
    place: &'a SetPlace,
    facts: PublishedFacts,
    /// The address of each file, by name.
    addresses: BTreeMap<String, Address>,
    chosen: Option<Version>,
    /// The names of all packages on the pages, of every version.
    names: BTreeSet<String>,
}

impl<'a> Promised<'a> {
    /// Reads all pages that exist.
    fn read(place: &'a SetPlace) -> Result<Self> {
        let mut this = Self {
            place,
            facts: PublishedFacts::default(),
            addresses: BTreeMap::new(),
            chosen: None,
            names: BTreeSet::new(),
        };
        this.document("set.json", Listing::SetJson, |facts, text| {
            let set = SetJson::parse(text)?;
            facts.without = set.identity.without;
            let files = set.files.into_iter();
            let claims = files.map(|file| (file.path, (Some(file.size), Some(file.sha256), None)));
            Ok(claims.collect())
        })?;
        let page = place.path("index.html");
        this.pages(None, place.page.as_deref().unwrap_or(&page))?;
        for family in this.families() {
            let page = place.path(&format!("{family}/index.html"));
            this.pages(Some(&family), &page)?;
        }
        this.document("SHA256SUMS", Listing::Checksums, |_, text| {
            let lines = links::checksums(text)?.into_iter();
            let claims = lines.map(|(sha256, path)| (path, (None, Some(sha256), None)));
            Ok(claims.collect())
        })?;
        this.missing_pages();
        this.choose();
        Ok(this)
    }

    /// Reports missing pages of a published set. `upload` writes `set.json` last, so a set that has
    /// it must also have the pages.
    fn missing_pages(&mut self) {
        let is_local = matches!(self.place.kind, PlaceKind::Directory(_));
        // `build` writes `set.json` beside its packages, but no pages.
        let is_built = self.facts.listings.len() == 1 && is_local;
        let document = ListingPlace {
            family: None,
            listing: Listing::SetJson,
        };
        if is_built || !self.facts.listings.contains(&document) {
            return;
        }
        for family in iter::once(None).chain(self.families().into_iter().map(Some)) {
            for listing in [Listing::Simple, Listing::FindLinks] {
                let page = ListingPlace {
                    family: family.clone(),
                    listing,
                };
                if !self.facts.listings.contains(&page) {
                    let why = "`set.json` is there, and this page is not".to_owned();
                    self.facts.bad_pages.push((page.name(), why));
                }
            }
        }
    }

    /// Reads a document that names files by their paths in the set.
    fn document(&mut self, name: &str, listing: Listing, parse: ParseDocument) -> Result<()> {
        let path = self.place.path(name);
        let Some(text) = self.place.text(&path)? else {
            return Ok(());
        };
        match parse(&mut self.facts, &text) {
            Err(error) => self.bad(&path, &error),
            Ok(files) => {
                let listing = self.listing(None, listing);
                for (file, claims) in files {
                    let address = Address {
                        origin: None,
                        path: self.place.path(&file),
                    };
                    self.promise(&path, &listing, address, claims);
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
    fn pages(&mut self, family: Option<&str>, find_links: &str) -> Result<()> {
        let below = family.map_or(String::new(), |family| format!("{family}/"));
        for (listing, directory, file) in [
            (Listing::Simple, "simple/", "index.html"),
            (Listing::SimpleJson, "simple/_json/", "index.json"),
        ] {
            let root = self.place.path(&format!("{below}{directory}"));
            if let Some(text) = self.page(&root, file)? {
                let listing = self.listing(family, listing);
                self.index(&root, file, &text, &listing)?;
            }
        }
        self.find_links(family, find_links)
    }

    /// Records that a listing exists, even if it names no package.
    fn listing(&mut self, family: Option<&str>, listing: Listing) -> ListingPlace {
        let family = family.map(str::to_owned);
        let there = ListingPlace { family, listing };
        self.facts.listings.insert(there.clone());
        there
    }

    /// Reads the pages of our projects in an index, whose root page is given.
    fn index(&mut self, root: &str, file: &str, text: &str, listing: &ListingPlace) -> Result<()> {
        let is_json = listing.listing == Listing::SimpleJson;
        let projects = if is_json {
            links::json_projects(text).unwrap_or_else(|error| {
                self.bad(root, &error);
                Vec::new()
            })
        } else {
            self.linked_projects(root, text)
        };
        for project in projects.iter().filter(|name| is_our_project(name)) {
            let path = format!("{root}{project}/");
            let links = self.page(&path, file)?.map(|text| {
                if is_json {
                    links::json_links(&text)
                } else {
                    Ok(links::html_links(&text))
                }
            });
            match links {
                Some(Ok(links)) => self.project_links(&path, listing, links),
                Some(Err(error)) => self.bad(&path, &error),
                None => {
                    let (page, root) = (self.place.shown(&path), self.place.shown(root));
                    let why = format!("`{root}` names it, and it is not there");
                    self.facts.bad_pages.push((page.to_owned(), why));
                }
            }
        }
        Ok(())
    }

    /// The directories below a root page to which it links, sorted.
    fn linked_projects(&mut self, root: &str, text: &str) -> Vec<String> {
        let mut projects = BTreeSet::new();
        for link in links::html_links(text) {
            match links::resolve(root, &link.href) {
                Ok(Address { origin: None, path }) => {
                    let below = path.trim_end_matches('/').strip_prefix(root);
                    projects.extend(below.map(str::to_owned));
                }
                Ok(_) => {}
                Err(error) => self.bad(root, &error),
            }
        }
        projects.into_iter().collect()
    }

    fn find_links(&mut self, family: Option<&str>, path: &str) -> Result<()> {
        let mut text = self.place.text(path)?;
        if text.is_none() && self.place.kind == PlaceKind::Web {
            // The web server may generate a page that lists the directory.
            text = self.place.text(&self.place.path(""))?;
        }
        if let Some(text) = text {
            let listing = self.listing(family, Listing::FindLinks);
            self.links(path, &listing, links::html_links(&text));
        }
        Ok(())
    }

    /// Ignores files of other projects than that of the page, as installers do.
    fn project_links(&mut self, page: &str, listing: &ListingPlace, mut links: Vec<PageLink>) {
        let project = page.trim_end_matches('/').rsplit('/').next();
        let project = project.unwrap_or_default().to_owned();
        links.retain(|link| {
            let file = links::resolve(page, &link.href);
            let named = file.ok().and_then(|file| identity(&file.path));
            named.is_none_or(|(name, _)| name.normalized() == project)
        });
        if links.is_empty() {
            let page = self.place.shown(page).to_owned();
            self.facts.empty_pages.push((page, project));
        } else {
            self.links(page, listing, links);
        }
    }

    fn links(&mut self, page: &str, listing: &ListingPlace, links: Vec<PageLink>) {
        for link in links {
            match links::resolve(page, &link.href) {
                Ok(address) => {
                    let claims = (link.size, link.sha256, link.metadata);
                    self.promise(page, listing, address, claims);
                }
                Err(error) => {
                    // The directory listing of a web server links to its parent directory, which
                    // may be outside. Only a bad link to a package is an error.
                    let path = link.href.split(['#', '?']).next().unwrap_or_default();
                    if is_package(path) {
                        self.bad(page, &error);
                    }
                }
            }
        }
    }

    /// Records a claim about a package. Links to other files are ignored.
    fn promise(
        &mut self,
        page: &str,
        listing: &ListingPlace,
        address: Address,
        (size, sha256, metadata): Claims,
    ) {
        let file = self.name_of(&address);
        if !is_package(&file) {
            return;
        }
        self.names.insert(file.clone());
        if identity(&file).is_some_and(|(name, _)| !is_ours(&name)) {
            self.facts.foreign.insert(file);
            return;
        }
        self.facts.promises.push(PageClaim {
            page: self.place.shown(page).to_owned(),
            listing: listing.clone(),
            file: file.clone(),
            size,
            sha256,
            metadata,
        });
        self.addresses.entry(file).or_insert(address);
    }

    /// Selects the newest version. An index may keep many versions, but a set is only one of them.
    fn choose(&mut self) {
        let version = |name: &str| identity(name).map(|(_, version)| version);
        let all = self.addresses.keys().filter_map(|it| version(it));
        let all: BTreeSet<Version> = all.collect();
        // All files in a `set.json` belong to one set, even if their versions differ.
        let mut promises = self.facts.promises.iter();
        let has_document = promises.any(|it| it.listing.listing == Listing::SetJson);
        let Some(newest) = all.last().filter(|_| all.len() > 1 && !has_document) else {
            return;
        };
        let is_it = |name: &str| version(name).is_none_or(|version| version == *newest);
        self.facts.promises.retain(|promise| is_it(&promise.file));
        self.addresses.retain(|name, _| is_it(name));
        self.chosen = Some(newest.clone());
    }

    fn bad(&mut self, page: &str, error: &Error) {
        let page = self.place.shown(page).to_owned();
        self.facts.bad_pages.push((page, one_line(error)));
    }

    /// The page of a directory, under the key that ends in `/` or under its file name.
    fn page(&self, path: &str, file: &str) -> Result<Option<String>> {
        match self.place.text(path)?.filter(|text| !text.is_empty()) {
            // Some servers return an empty object for the key that ends in `/`, others generate an
            // HTML listing even where JSON is expected. Use the answer only if it has the expected
            // format.
            Some(text) if text.starts_with('<') == file.ends_with("html") => Ok(Some(text)),
            text => Ok(self.place.text(&format!("{path}{file}"))?.or(text)),
        }
    }

    /// The name of a file in the set, with the directory of its family if it has one.
    fn name_of(&self, address: &Address) -> String {
        let (directory, name) = address.path.rsplit_once('/').unwrap_or(("", &address.path));
        let dist = self.place.path("dist/");
        let family = directory.strip_prefix(&dist);
        match family.filter(|it| address.origin.is_none() && !it.contains('/')) {
            Some(family) => format!("{family}/{name}"),
            None => name.to_owned(),
        }
    }
}

/// Whether a link on a root page names one of our projects. Other links are not followed.
fn is_our_project(project: &str) -> bool {
    project.parse().is_ok_and(|name| is_ours(&name))
}
