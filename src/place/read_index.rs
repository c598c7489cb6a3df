//! [`PublishedSet`]: the packages that are found at a place, by its pages if it has any, and what
//! the pages say about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter, mem,
    path::Path,
};

use itertools::Itertools as _;

use super::{
    read_packages::KnownFacts,
    set_place::{PackageDirectories, PlaceKind, SetPlace},
    stored_package::{StoredPackage, is_family},
};
use crate::index::{
    Layout,
    package_file::{
        SIDECAR, identity, is_of_others, is_ours, is_package, is_variants_json, is_wheel,
    },
    pages::is_place_page,
    parse::{self, Address, DirectoryKey, FileClaim, PageLink},
    set_json::SetJson,
};
use rocwheel_base::{
    digest::Sha256,
    error::{Hint as _, Result, anyhow, one_line},
    quantity::few,
    version::Version,
};
use rocwheel_store::Depth;

/// The packages found at a place, and what its pages say.
#[derive(Debug, Default)]
pub struct PublishedSet {
    pub packages: Vec<StoredPackage>,
    /// `None` for a directory of packages without pages. If the pages are about to be written again, it has
    /// the claims of `set.json` only.
    pub published: Option<PublishedFacts>,
    /// The version that was selected, if the index has several.
    pub chosen: Option<Version>,
}

impl PublishedSet {
    /// That the newest of several versions was taken, without having been named.
    pub fn choice_note(&self, place: &SetPlace) -> Option<String> {
        let version = self.chosen.as_ref().filter(|_| place.version.is_none())?;
        Some(format!(
            "the index has several versions, and {version} is the newest: the others are ignored"
        ))
    }

    /// The digests that pages and documents say of a file.
    pub(super) fn claimed_digests(&self, file: &str) -> impl Iterator<Item = Sha256> {
        let claims = self.published.iter().flat_map(|facts| &facts.claims);
        claims.filter(move |it| it.file == file).filter_map(|it| it.claim.sha256)
    }

    /// Whether a `set.json` names its files.
    pub(super) fn is_described(&self) -> bool {
        let mut claims = self.published.iter().flat_map(|facts| &facts.claims);
        claims.any(|it| it.listing.listing == Listing::SetJson)
    }
}

/// How to find the packages of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlaceDepth {
    /// List the directories of packages, with the digests in `set.json`, and ignore the pages, which are
    /// about to be written.
    Packages(PackageDirectories),
    /// Follow the pages, if the place has any.
    #[default]
    Pages,
}

/// Finds the packages of a place, sorted by name, and what its pages say if `look` asks for it.
pub fn find(place: &SetPlace, look: PlaceDepth) -> Result<PublishedSet> {
    let mut set = match (look, place.local()) {
        (PlaceDepth::Packages(directories), _) => {
            let mut set = unpublished(place, place.packages(directories)?)?;
            set.published = described(place, &set.packages)?;
            set
        }
        (_, Some(root)) if !has_pages(root) => {
            unpublished(place, place.packages(PackageDirectories::Built)?)?
        }
        (_, None) => find_published(place)?,
        (_, Some(_)) => {
            let mut set = find_published(place)?;
            // A local directory is checked as a whole, as `index` would: also packages that no page
            // names, and packages of other projects. Other versions of an index that keeps several
            // are no part of the set.
            let known: BTreeSet<String> = set.packages.iter().map(|it| it.name.clone()).collect();
            let facts = set.published.as_ref();
            let is_asked = |file: &str| {
                let is_chosen =
                    |chosen: &Version| identity(file).is_none_or(|(_, version)| version == *chosen);
                let is_unlisted = facts.is_none_or(|it| it.unlisted.contains(file));
                file.contains('/')
                    || is_of_others(file)
                    || (is_unlisted && set.chosen.as_ref().is_none_or(is_chosen))
            };
            let mut more = place.packages(PackageDirectories::Built)?;
            more.retain(|it| !known.contains(&it.name) && is_asked(&it.name));
            set.packages.extend(more);
            set
        }
    };
    set.packages.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(set)
}

/// Reads the pages of a place, and finds the files that they lead to.
fn find_published(place: &SetPlace) -> Result<PublishedSet> {
    let mut pages = PageReader {
        place,
        has_keys: false,
        torn: Vec::new(),
        facts: PublishedFacts::default(),
        addresses: BTreeMap::new(),
        variant_addresses: BTreeMap::new(),
        of_families: Vec::new(),
    };
    pages.read()?;
    pages.find_missing();
    let mut packages = Vec::new();
    let mut chosen = None;
    if pages.facts.claims.is_empty() {
        // No page names a package: check the packages beside the pages. Any web server has an
        // `index.html`; it counts only if there are packages beside it.
        packages = place.packages(PackageDirectories::Built)?;
        let facts = &pages.facts;
        let has_index = facts.listings.iter().any(|it| it.listing != Listing::FindLinks);
        let is_beside_packages = !packages.is_empty() && !facts.listings.is_empty();
        if !has_index && !is_beside_packages && facts.bad_pages.is_empty() {
            return unpublished(place, packages);
        }
    } else {
        pages.find_unlisted()?;
        chosen = pages.choose()?;
    }
    if packages.is_empty() {
        let is_read = |it: &StoredPackage| pages.addresses.contains_key(&it.name);
        let is_asked = |it: &StoredPackage| {
            let version = identity(&it.name).map(|(_, version)| version);
            chosen.is_none() || version.is_none() || version == chosen
        };
        let unnamed = pages.of_families.into_iter().filter(|it| is_asked(it) && !is_read(it));
        packages.extend(unnamed);
    }
    let mut facts = pages.facts;
    for (name, address) in pages.variant_addresses {
        facts.variant_indexes.insert(name, place.bytes(&address)?);
    }
    let claims = facts.claims.iter().filter(|it| it.claim.has_metadata);
    let with_metadata: BTreeSet<String> = claims.map(|it| it.file.clone()).collect();
    for (name, address) in pages.addresses {
        match place.package(&name, &address)? {
            Some(package) => packages.push(package),
            None => _ = facts.gone.insert(name.clone()),
        }
        if is_wheel(&name) && with_metadata.contains(&name) {
            let path = address.path + SIDECAR;
            let sidecar = place.bytes(&Address { path, ..address })?;
            facts.sidecars.insert(name, sidecar);
        }
    }
    Ok(PublishedSet { packages, published: Some(facts), chosen })
}

/// What `set.json` says of packages of which the pages are about to be written again: other bytes under
/// the name of a package of the set are not what was built. Packages of others are not ours to judge.
fn described(place: &SetPlace, packages: &[StoredPackage]) -> Result<Option<PublishedFacts>> {
    let mut known = KnownFacts::of_documents(place, None)?;
    let ours = packages.iter().filter(|it| !is_of_others(&it.name));
    let of_document = ours.filter_map(|package| {
        let described = known.files.remove(&place.below_set(package.path()))?;
        Some(PageClaim {
            page: "set.json".to_owned(),
            listing: Listing::SetJson.of(None),
            file: package.name.clone(),
            claim: FileClaim::from(&described),
        })
    });
    let claims: Vec<PageClaim> = of_document.collect();
    let is_described = !claims.is_empty() && !known.has_later_parts;
    Ok(is_described.then(|| PublishedFacts {
        claims,
        unshipped: known.identity.unshipped,
        ..PublishedFacts::default()
    }))
}

/// The packages of a directory without pages.
fn unpublished(place: &SetPlace, packages: Vec<StoredPackage>) -> Result<PublishedSet> {
    if !packages.is_empty() {
        return Ok(PublishedSet { packages, ..PublishedSet::default() });
    }
    let (what, hint) = match &place.kind {
        PlaceKind::Directory(_) => ("no wheel or sdist in", place.hint_for_no_packages()),
        PlaceKind::Web => ("no index and no link to a package:", PASS_A_SET.into()),
        PlaceKind::Bucket(_) => ("no wheel or sdist, and no index:", PASS_A_SET.into()),
    };
    Err(anyhow!("{what} `{place}`")).hint(hint)
}

const PASS_A_SET: &str =
    "pass what holds `simple/`, `set.json` or `dist/`, or the address of a page with links";

/// Whether a local directory has any page of an index.
fn has_pages(place: &Path) -> bool {
    let names = ["set.json", "simple", "SHA256SUMS", "index.html", "dist/index.html"];
    names.iter().any(|name| place.join(name).exists())
}

/// Reads the pages of a place.
struct PageReader<'a> {
    place: &'a SetPlace,
    /// Whether any page has contents under its key that ends in `/`.
    has_keys: bool,
    /// The pages whose two keys differ, and how.
    torn: Vec<(String, String)>,
    facts: PublishedFacts,
    /// The address of each file, by name.
    addresses: BTreeMap<String, Address>,
    /// The same of files that say what the labels of variant wheels mean.
    variant_addresses: BTreeMap<String, Address>,
    /// The packages in the directories of families, of a place that can be listed and has no `set.json`.
    of_families: Vec<StoredPackage>,
}

impl PageReader<'_> {
    /// Reads all pages that exist.
    fn read(&mut self) -> Result<()> {
        let place = self.place;
        let document = place.path("set.json");
        let mut layout = None;
        if let Some(text) = place.text(&document)? {
            match SetJson::parse(&text) {
                Ok(set) => {
                    layout = (!set.files.is_empty()).then(|| set.layout());
                    self.described(&document, &set);
                    self.facts.unshipped = set.identity.unshipped;
                }
                Err(error) => self.bad(&document, one_line(&error)),
            }
        }
        let layout = if let Some(layout) = layout {
            layout
        } else {
            self.list_families()?;
            self.layout()?
        };
        let page = |below: &str| place.path(&format!("{}{below}index.html", layout.files()));
        let named = match &place.page {
            Some(named) if !place.text(named)?.is_some_and(|text| is_place_page(&text)) => {
                Some(named)
            }
            _ => None,
        };
        self.pages(None, named.unwrap_or(&page("")))?;
        for family in self.families() {
            let ours = place.path(&format!("{}{family}.html", layout.files()));
            // TheRock's uploader makes only the page in the directory of the family.
            let theirs = page(&format!("{family}/"));
            let has_ours = place.text(&ours)?.is_some();
            self.pages(Some(&family), if has_ours { &ours } else { &theirs })?;
        }
        let sums = place.path("SHA256SUMS");
        if let Some(text) = place.text(&sums)? {
            let links = parse::checksums(&text);
            self.links(&sums, &Listing::Checksums.of(None), links);
        }
        Ok(())
    }

    /// Lists the directories of families. Pages that another program wrote for a place need not lead there: the page of
    /// TheRock's uploader has the packages beside it only.
    fn list_families(&mut self) -> Result<()> {
        let packages = self.place.packages(PackageDirectories::Built)?;
        let (mut of_families, common): (Vec<_>, Vec<_>) =
            packages.into_iter().partition(|package| package.name.contains('/'));
        let common: BTreeSet<String> = common.into_iter().map(|package| package.name).collect();
        // A directory that has a package for all families too is a set by itself.
        let sets: BTreeSet<String> = of_families
            .iter()
            .filter_map(|package| package.name.split_once('/'))
            .filter(|(_, name)| common.contains(*name))
            .map(|(directory, _)| directory.to_owned())
            .collect();
        of_families.retain(|package| {
            package.name.split_once('/').is_some_and(|(directory, _)| !sets.contains(directory))
        });
        self.of_families = of_families;
        Ok(())
    }

    /// The layout of a place without a `set.json`, by its find-links page.
    fn layout(&self) -> Result<Layout> {
        let path = format!("{}index.html", Layout::Dist.files());
        // Not `head`: a server that makes its pages need not know their sizes.
        let page = self.place.text(&self.place.path(&path))?;
        Ok(page.map_or(Layout::Flat, |_| Layout::Dist))
    }

    /// Reports missing pages of a published set. `upload` writes `set.json` last, so a set that has
    /// it must also have the pages.
    fn find_missing(&mut self) {
        // `build` writes `set.json` beside its packages, but no pages.
        let is_built = self.facts.listings.len() == 1 && self.place.local().is_some();
        let listings = &self.facts.listings;
        if is_built || !listings.contains(&Listing::SetJson.of(None)) {
            // Then the page of the set is not known to have replaced one of ours. The list of a family's directory has
            // only the packages beside it, in any place.
            self.facts.replaced_listings.retain(|listing| listing.family.is_some());
            return;
        }
        // Some servers drop the contents of keys that end in `/`, and `--no-directory-pages` writes
        // none: if no page of the set has one with contents, the set was published like that.
        if self.has_keys {
            self.facts.torn_pages = mem::take(&mut self.torn);
        }
        let families = self.families();
        let missing = iter::once(None)
            .chain(families.iter().map(|it| Some(it.as_str())))
            .cartesian_product([Listing::Simple, Listing::FindLinks])
            .map(|(family, listing)| listing.of(family))
            .chain([Listing::Checksums.of(None)])
            .filter(|page| !listings.contains(page));
        let why = "`set.json` is there, and this page is not";
        self.facts.bad_pages.extend(missing.map(|page| (page.name(), why.to_owned())));
    }

    /// Reports packages that exist but that no page names.
    fn find_unlisted(&mut self) -> Result<()> {
        if self.place.kind == PlaceKind::Web {
            return Ok(());
        }
        let mut unlisted = BTreeSet::new();
        for below in ["dist/", ""] {
            for (path, _) in self.place.list(below, Depth::Children)? {
                let name = path.rsplit('/').next().unwrap_or_default();
                let is_named =
                    self.addresses.contains_key(name) || self.facts.foreign.contains(name);
                if is_package(name) && !is_named {
                    unlisted.insert(name.to_owned());
                }
            }
        }
        let linked = self.linked_by_others(&unlisted)?;
        let is_linked = |name: &String| linked.contains(name) && is_of_others(name);
        let (foreign, unlisted) = unlisted.into_iter().partition(is_linked);
        self.facts.foreign.extend::<BTreeSet<String>>(foreign);
        self.facts.unlisted = unlisted;
        Ok(())
    }

    /// The files among `files` to which the page of a project of others links.
    fn linked_by_others(&self, files: &BTreeSet<String>) -> Result<BTreeSet<String>> {
        let pages: BTreeSet<String> = files
            .iter()
            .filter_map(|file| Some(identity(file)?.0))
            .filter(|project| !is_ours(project))
            .map(|project| format!("simple/{}/index.html", project.normalized()))
            .collect();
        let mut linked = BTreeSet::new();
        for page in pages.iter().map(|page| self.place.path(page)) {
            let html = self.place.text(&page)?.unwrap_or_default();
            let links = parse::html_links(&html).into_iter();
            let addresses = links.filter_map(|link| parse::resolve(&page, &link.href).ok());
            linked.extend(addresses.map(|address| self.name_of(&address)));
        }
        Ok(linked)
    }

    /// The families that have a directory of packages.
    fn families(&self) -> BTreeSet<String> {
        let listed = self.of_families.iter().map(|package| package.name.as_str());
        let names = self.addresses.keys().map(String::as_str).chain(listed);
        let families = names.filter_map(|name| name.split_once('/'));
        families.map(|(family, _)| family.to_owned()).collect()
    }

    /// Reads the pages of the whole set, or those below the directory of a family.
    fn pages(&mut self, family: Option<&str>, find_links: &str) -> Result<()> {
        let below = family.map_or(String::new(), |family| format!("{family}/"));
        let root = self.place.path(&format!("{below}simple/"));
        if let Some(text) = self.page(&root)? {
            self.index(&root, &text, &Listing::Simple.of(family))?;
        } else if family.is_none() && self.index_of_others()? {
            return Ok(());
        }
        let mut text = match find_links.strip_suffix("index.html") {
            Some(directory) => self.keys(directory)?.1,
            None => self.place.text(find_links)?,
        };
        if text.is_none() && self.place.kind == PlaceKind::Web {
            // The web server may generate a page that lists the directory.
            text = self.place.text(&self.place.path(""))?;
        }
        // The page at the top of a place stands for no other one that is missing.
        if let Some(text) = text.filter(|text| !is_place_page(text)) {
            let listing = Listing::FindLinks.of(family);
            let links = parse::html_links(&text);
            if parse::is_directory_list(&text) {
                self.facts.replaced_listings.insert(listing.clone());
            }
            self.links(find_links, &listing, Ok(links));
        }
        Ok(())
    }

    /// Reads the index that a web server has at the address of the place, as the streams of ROCm have it: without a
    /// `simple/`. Returns whether there is one.
    fn index_of_others(&mut self) -> Result<bool> {
        if self.place.kind != PlaceKind::Web || self.place.page.is_some() {
            return Ok(false);
        }
        let root = self.place.path("");
        let Some(text) = self.page(&root)? else {
            return Ok(false);
        };
        let has_project = |project: &String| project.parse().is_ok_and(|name| is_ours(&name));
        let is_index = match parse::json_projects(&text) {
            Ok(projects) => projects.iter().any(has_project),
            Err(_) => parse::html_links(&text)
                .iter()
                .filter_map(|link| parse::linked_project(&root, link).ok()?)
                .any(|project| has_project(&project)),
        };
        if is_index {
            self.index(&root, &text, &Listing::Simple.of(None))?;
        }
        Ok(is_index)
    }

    /// Reads the pages of our projects in an index, whose root page is given.
    fn index(&mut self, root: &str, text: &str, listing: &ListingPlace) -> Result<()> {
        // The listing exists, even if it names no package.
        self.facts.listings.insert(listing.clone());
        let projects = if parse::is_json(text) {
            parse::json_projects(text).unwrap_or_else(|error| {
                self.bad(root, one_line(&error));
                Vec::new()
            })
        } else {
            self.linked_projects(root, text)
        };
        // Links to other projects are not followed.
        for project in projects {
            if !project.parse().is_ok_and(|name| is_ours(&name)) {
                continue;
            }
            let path = format!("{root}{project}/");
            let Some(text) = self.page(&path)? else {
                let why = format!("`{}` names it, and it is not there", self.place.below_set(root));
                self.bad(&path, why);
                continue;
            };
            let links = parse::links(&text).map(|mut links| {
                // A page may link to files of another project. Installers ignore such files.
                links.retain(|link| {
                    let file = parse::resolve(&path, &link.href).ok();
                    let named = file.and_then(|file| identity(&file.path));
                    named.is_none_or(|(name, _)| name.normalized() == project)
                });
                links
            });
            if links.as_ref().is_ok_and(Vec::is_empty) {
                let page = self.place.below_set(&path);
                self.facts.empty_pages.push((page, project));
            }
            self.links(&path, listing, links);
        }
        Ok(())
    }

    /// The directories below a root page to which it links, sorted.
    fn linked_projects(&mut self, root: &str, text: &str) -> Vec<String> {
        let mut projects = BTreeSet::new();
        for link in parse::html_links(text) {
            match parse::linked_project(root, &link) {
                Ok(project) => projects.extend(project),
                Err(error) => self.bad(root, one_line(&error)),
            }
        }
        projects.into_iter().collect()
    }

    /// Records what `set.json` says, and that it exists, even if it names no package.
    fn described(&mut self, document: &str, set: &SetJson) {
        let listing = Listing::SetJson.of(None);
        self.facts.listings.insert(listing.clone());
        for file in &set.files {
            let address = Address::here(self.place.path(&file.path));
            self.claim(document, &listing, address, FileClaim::from(file));
        }
    }

    /// Records what a page says, and that its listing exists, even if it names no package.
    fn links(&mut self, page: &str, listing: &ListingPlace, links: Result<Vec<PageLink>>) {
        let links = match links {
            Ok(links) => links,
            Err(error) => return self.bad(page, one_line(&error)),
        };
        self.facts.listings.insert(listing.clone());
        for link in links {
            match parse::resolve(page, &link.href) {
                Ok(address) => self.claim(page, listing, address, link.claim),
                Err(error) => {
                    // The directory listing of a web server links to its parent directory, which
                    // may be outside. Only a bad link to a package is an error.
                    if is_package(link.path()) {
                        self.bad(page, one_line(&error));
                    }
                }
            }
        }
    }

    /// Records a claim about a package. Links to other files are ignored.
    fn claim(&mut self, page: &str, listing: &ListingPlace, address: Address, claim: FileClaim) {
        let file = self.name_of(&address);
        if is_variants_json(&file) {
            self.variant_addresses.insert(file.clone(), address);
            let page = self.place.below_set(page);
            let listing = listing.clone();
            return self.facts.variant_claims.push(PageClaim { page, listing, file, claim });
        }
        if !is_package(&file) {
            return;
        }
        if identity(&file).is_some_and(|(name, _)| !is_ours(&name)) {
            self.facts.foreign.insert(file);
            return;
        }
        self.facts.claims.push(PageClaim {
            page: self.place.below_set(page),
            listing: listing.clone(),
            file: file.clone(),
            claim,
        });
        self.addresses.entry(file).or_insert(address);
    }

    /// Selects the version of the place, or else the newest if there are several. An index may keep many versions, but a set
    /// is only one of them.
    fn choose(&mut self) -> Result<Option<Version>> {
        let version = |name: &str| identity(name).map(|(_, version)| version);
        let versions: BTreeSet<Version> =
            self.addresses.keys().filter_map(|it| version(it)).collect();
        // All files in a `set.json` belong to one set, even if their versions differ.
        let has_document =
            self.facts.claims.iter().any(|it| it.listing.listing == Listing::SetJson);
        let has_choice = versions.len() > 1 && !has_document;
        if let Some(wanted) = &self.place.version
            && !versions.contains(wanted)
        {
            let place = self.place;
            return Err(anyhow!("`{place}` has no packages of version {wanted}")).hint(format!(
                "it has {}",
                few(versions.into_iter().rev().map(|it| it.to_string()))
            ));
        }
        let newest = versions.into_iter().next_back().filter(|_| has_choice);
        let Some(chosen) = self.place.version.clone().or(newest) else {
            return Ok(None);
        };
        let is_it = |name: &str| version(name).is_none_or(|version| version == chosen);
        self.facts.claims.retain(|claim| is_it(&claim.file));
        self.addresses.retain(|name, _| is_it(name));
        Ok(Some(chosen))
    }

    fn bad(&mut self, page: &str, why: String) {
        self.facts.bad_pages.push((self.place.below_set(page), why));
    }

    /// The page of a directory, under the key that ends in `/` or under its file name.
    fn page(&mut self, path: &str) -> Result<Option<String>> {
        let (text, named) = self.keys(path)?;
        // Some servers return an empty object for the key that ends in `/`.
        Ok(text.filter(|text| !text.is_empty()).or(named))
    }

    /// Reads both keys of the page of a directory: that which ends in `/`, and its file name.
    fn keys(&mut self, path: &str) -> Result<(Option<String>, Option<String>)> {
        let page = format!("{path}index.html");
        let named = self.place.text(&page)?;
        let is_replaced = named.as_deref().is_some_and(parse::is_directory_list);
        if self.place.local().is_some() {
            return Ok((None, named));
        }
        let text = self.place.text_of_key(path, named.is_some())?;
        for (key, page) in [(path, &text), (&*page, &named)] {
            if page.as_ref().is_some_and(|page| !page.is_empty()) {
                self.look_at_type(key);
            }
        }
        if is_replaced && text.as_deref().is_some_and(|text| !text.is_empty()) {
            // Installers request the key that ends in `/`, which other programs leave alone.
            self.has_keys = true;
            return Ok((text, named));
        }
        let is_web = self.place.kind == PlaceKind::Web;
        if let Some(key) = DirectoryKey::compare(text.as_deref(), named.as_deref(), is_web) {
            self.has_keys |= key.has_contents();
            let torn = key.defect().map(|why| (self.place.below_set(path), why.to_owned()));
            self.torn.extend(torn);
        }
        Ok((text, named))
    }

    /// Notes the type of a page if installers refuse it. A server that does not say it for a page that was just read
    /// leaves the type unknown.
    fn look_at_type(&mut self, path: &str) {
        let head = path.parse().ok().and_then(|key| self.place.store.head(&key).ok());
        if let Some(content_type) = head.and_then(|object| object.content_type)
            && !is_taken_by_installers(&content_type)
        {
            self.facts.refused_pages.push((self.place.below_set(path), content_type));
        }
    }

    /// The name of a file in the set, with the directory of its family if it has one.
    fn name_of(&self, address: &Address) -> String {
        let (directory, name) = address.path.rsplit_once('/').unwrap_or(("", &address.path));
        let families = [Layout::Dist, Layout::Flat].into_iter().filter_map(|layout| {
            let family = directory.strip_prefix(&self.place.path(layout.files()))?;
            (address.origin.is_none() && is_family(family, layout)).then_some(family)
        });
        match families.last() {
            Some(family) => format!("{family}/{name}"),
            None => name.to_owned(),
        }
    }
}

/// Whether pip and uv read a page of this type.
fn is_taken_by_installers(content_type: &str) -> bool {
    let name = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let json_or_html = name.strip_prefix("application/vnd.pypi.simple.v1+").unwrap_or_default();
    name == "text/html" || matches!(json_or_html, "json" | "html")
}

/// The facts about a published set, besides the facts about its packages.
#[derive(Clone, Debug, Default)]
pub struct PublishedFacts {
    pub claims: Vec<PageClaim>,
    /// The artifacts that ship nowhere, according to `set.json`.
    pub unshipped: Vec<String>,
    /// The listings that exist. One without a claim in `claims` names no package.
    pub listings: BTreeSet<ListingPlace>,
    /// Project pages that name no package of their project: page and project.
    pub empty_pages: Vec<(String, String)>,
    /// Files that a page names and that do not exist, by name.
    pub gone: BTreeSet<String>,
    /// The sidecar of each wheel for which a page claims one. `None` if it does not exist.
    pub sidecars: BTreeMap<String, Option<Vec<u8>>>,
    /// The files that say what the labels of variant wheels mean. `None` if one does not exist.
    pub variant_indexes: BTreeMap<String, Option<Vec<u8>>>,
    /// What pages say about these files.
    pub variant_claims: Vec<PageClaim>,
    /// Files of other projects that the pages name. They are not read.
    pub foreign: BTreeSet<String>,
    /// Packages that no page names. Empty for places that cannot be listed.
    pub unlisted: BTreeSet<String>,
    /// The find-links pages that another program replaced by lists of their directories. Such a list has only the
    /// packages beside it.
    pub replaced_listings: BTreeSet<ListingPlace>,
    /// Pages of which the two keys differ, and how.
    pub torn_pages: Vec<(String, String)>,
    /// Pages that are missing or cannot be parsed, and why.
    pub bad_pages: Vec<(String, String)>,
    /// Pages whose `Content-Type` installers refuse, and the type.
    pub refused_pages: Vec<(String, String)>,
}

/// What one page says about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageClaim {
    pub page: String,
    /// The listing that the page belongs to.
    pub listing: ListingPlace,
    /// The name of the file, with the directory of its family if it has one.
    pub file: String,
    pub claim: FileClaim,
}

/// A kind of list of the files of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum Listing {
    #[strum(serialize = "set.json")]
    SetJson,
    #[strum(serialize = "simple/")]
    Simple,
    #[strum(serialize = "index.html")]
    FindLinks,
    #[strum(serialize = "SHA256SUMS")]
    Checksums,
}

/// A listing of the whole set, or of one family that has pages of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListingPlace {
    pub family: Option<String>,
    pub listing: Listing,
}

impl Listing {
    fn of(self, family: Option<&str>) -> ListingPlace {
        ListingPlace { family: family.map(str::to_owned), listing: self }
    }
}

impl ListingPlace {
    /// `simple/`, or `gfx94X-dcgpu/simple/`.
    pub fn name(&self) -> String {
        let name: &str = self.listing.into();
        match &self.family {
            Some(family) => format!("{family}/{name}"),
            None => name.to_owned(),
        }
    }

    /// Whether the listing must name a file. `set.json` and SHA256SUMS name every file; the pages
    /// of a family name the common packages and the packages of the family.
    pub fn concerns(&self, file: &str) -> bool {
        let is_of_all = matches!(self.listing, Listing::SetJson | Listing::Checksums);
        let family = file.split_once('/').map(|(family, _)| family);
        is_of_all || family.is_none() || family == self.family.as_deref()
    }
}

impl PublishedFacts {
    /// The files that a listing names.
    pub fn named(&self, place: &ListingPlace) -> BTreeSet<&str> {
        let claims = self.claims.iter().filter(|it| it.listing == *place);
        claims.map(|claim| claim.file.as_str()).collect()
    }
}
