//! Observes what release places have: their packages, which pages name them, and what they require.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::BufReader,
};

use serde_json::Value;
use time::OffsetDateTime;

use super::plan::StoredPackage;
use crate::{
    console::World,
    error::{Context as _, Result},
    parallel,
    set::{
        items::REQUESTS,
        links::{PageLink, html_links, resolve},
        place::SetPlace,
        products::{RECORDS, package_directory},
        pruned::PruneRecord,
        read::package_metadata,
        set_json::{SIDECAR, identity, is_ours, is_package, is_wheel},
    },
    store::{Depth, Object},
    version::Version,
    wheel::{DistName, Metadata, RequirementLine},
};

/// The directory of the products and of their indexes.
const TOP: &str = "rocm";

/// A link to a package on the page of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageEntry {
    pub(super) name: String,
    pub(super) link: PageLink,
    /// Whether the file is beside the page.
    pub(super) is_beside: bool,
}

impl PageEntry {
    fn of(page: &str, link: PageLink) -> Option<Self> {
        let target = resolve(page, &link.href).ok()?;
        let (directory, name) = target.path.rsplit_once('/')?;
        let href = link.href.split('#').next().unwrap_or_default().to_owned();
        is_package(name).then(|| Self {
            name: name.to_owned(),
            is_beside: target.origin.is_none() && directory == parent(page),
            link: PageLink { href, ..link },
        })
    }
}

/// What a release place has.
pub(super) struct ObservedPlace<'a> {
    pub(super) place: &'a SetPlace,
    /// By path.
    pub(super) objects: HashMap<String, Object>,
    /// What the page of each directory with packages links to.
    pub(super) pages: BTreeMap<String, Vec<PageEntry>>,
    /// Pages of other indexes, by path, and what they link to.
    others: BTreeMap<String, Vec<PageLink>>,
    pub(super) record: PruneRecord,
}

impl<'a> ObservedPlace<'a> {
    /// The objects are listed before the pages are read: see `Aggregation::once`.
    pub(super) fn read(place: &'a SetPlace, world: &World) -> Result<Self> {
        let mut objects: HashMap<String, Object> = HashMap::new();
        objects.extend(place.list(&format!("{TOP}/"), Depth::All)?);
        objects.extend(place.list("", Depth::Children)?);
        let directories = objects.keys().filter_map(|it| package_directory(it));
        let directories: BTreeSet<String> = directories.map(str::to_owned).collect();
        let is_root = |path: &str| directories.iter().any(|it| parent(it) == parent(path));
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for path in objects.keys().filter(|it| !super::is_file(it)) {
            let is_page = path.ends_with("/index.html");
            if is_page && directories.contains(parent(path)) {
                own.push(path.clone());
            } else if !(is_page && is_root(path)) {
                others.push(path.clone());
            }
        }
        let read = |path: &String| {
            let text = place.text(place.key(path)?.as_str())?.unwrap_or_default();
            Ok((path.clone(), html_links(&text)))
        };
        let mut own = parallel::try_map(&own, REQUESTS, &world.stop, read)?;
        let others = parallel::try_map(&others, REQUESTS, &world.stop, read)?;
        // An interrupted run has left the page of a project without files.
        let is_left = |(path, links): &(String, Vec<PageLink>)| {
            path.ends_with("/index.html") && is_root(parent(path)) && links.is_empty()
        };
        let (left, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_left);
        own.extend(left);
        let pages = own.into_iter().map(|(path, links)| {
            let entries = links.into_iter();
            let entries = entries
                .filter_map(|link| PageEntry::of(&path, link))
                .collect();
            (parent(&path).to_owned(), entries)
        });
        Ok(Self {
            place,
            pages: pages.collect(),
            objects,
            others: others.into_iter().collect(),
            record: PruneRecord::read(place)?,
        })
    }

    /// The files that pages of other indexes name, each with such a page: those of this place by path,
    /// others by URL.
    fn named(&self) -> (HashMap<String, String>, HashMap<String, String>) {
        let (mut here, mut elsewhere) = (HashMap::new(), HashMap::new());
        for (page, links) in &self.others {
            let shown = self.place.shown_in_full(page);
            for link in links {
                match resolve(page, &link.href) {
                    Ok(target) => match target.origin {
                        None => here.insert(target.path, shown.clone()),
                        Some(origin) => {
                            elsewhere.insert(format!("{origin}/{}", target.path), shown.clone())
                        }
                    },
                    Err(_) => None,
                };
            }
        }
        (here, elsewhere)
    }

    /// The versions that its promotions were made of.
    pub(super) fn released(place: &SetPlace) -> Result<BTreeSet<Version>> {
        let mut released = BTreeSet::new();
        for (path, _) in place.list(&format!("{RECORDS}/"), Depth::Children)? {
            let text = place.text(place.key(&path)?.as_str())?.unwrap_or_default();
            let document: Value = serde_json::from_str(&text)
                .with_context(|| format!("failed to read `{}`", place.shown_in_full(&path)))?;
            let version = |key: &str| document[key].as_str()?.parse::<Version>().ok();
            let (from, to) = (version("from"), version("to"));
            released.extend(from.filter(|from| Some(from) != to.as_ref()));
        }
        Ok(released)
    }
}

/// The packages for a version of ROCm at all places.
pub(super) fn packages(places: &[ObservedPlace]) -> Vec<StoredPackage> {
    let named: Vec<_> = places.iter().map(ObservedPlace::named).collect();
    let mut packages = Vec::new();
    for (number, it) in places.iter().enumerate() {
        let links = it.pages.iter().flat_map(|(directory, links)| {
            let beside = links.iter().filter(|it| it.is_beside);
            beside.map(move |it| (format!("{directory}/{}", it.name), &it.link))
        });
        let links: HashMap<String, &PageLink> = links.collect();
        for (path, object) in &it.objects {
            let Some((_, (project, version))) = package_directory(path).zip(identity(path)) else {
                continue;
            };
            let Some(rocm) = rocm_of(&project, &version) else {
                continue;
            };
            let link = links.get(path);
            let sidecar = it.objects.get(&format!("{path}{SIDECAR}"));
            let url = it.place.urls().map(|it| it.path(path)).unwrap_or_default();
            let named_by = named[number].0.get(path).cloned();
            let by_url = named.iter().find_map(|(_, urls)| urls.get(&url).cloned());
            packages.push(StoredPackage {
                place: number,
                path: path.clone(),
                bytes: object.size + sidecar.map_or(0, |it| it.size),
                uploaded: object.modified.map(|it| OffsetDateTime::from(it).date()),
                is_listed: link.is_some(),
                is_yanked: link.is_some_and(|it| it.yanked.is_some()),
                named_by: named_by.or(by_url),
                unlisted: it.record.day(path),
                pins: Vec::new(),
                project,
                version,
                rocm,
            });
        }
    }
    packages.sort_by(|a, b| (a.place, &a.path).cmp(&(b.place, &b.path)));
    packages
}

/// Reads what packages of others require in one version only. Ours require their own version, and so
/// need not be read.
pub(super) fn read_pins(
    packages: &mut [StoredPackage],
    places: &[ObservedPlace],
    world: &World,
) -> Result<()> {
    let read = |package: &StoredPackage| {
        if is_ours(&package.project) || !is_wheel(&package.path) {
            return Ok(Vec::new());
        }
        let pins = pins_of(package, &places[package.place]);
        pins.with_context(|| {
            let place = places[package.place].place;
            format!("failed to read `{}`", place.shown_in_full(&package.path))
        })
    };
    let pins = parallel::try_map(packages, REQUESTS, &world.stop, read)?;
    for (package, pins) in packages.iter_mut().zip(pins) {
        package.pins = pins;
    }
    Ok(())
}

fn pins_of(package: &StoredPackage, at: &ObservedPlace) -> Result<Vec<(DistName, Version)>> {
    let sidecar = format!("{}{SIDECAR}", package.path);
    let metadata = if at.objects.contains_key(&sidecar) {
        let text = at.place.text(at.place.key(&sidecar)?.as_str())?;
        Metadata::parse(text.unwrap_or_default().as_bytes())?
    } else {
        let size = at.objects[&package.path].size;
        let file = BufReader::new(at.place.ranged(&package.path, size)?);
        let name = package.path.rsplit('/').next().unwrap_or_default();
        package_metadata(file, name)?.0
    };
    let pin = |line: &String| {
        let line = RequirementLine::parse(line)?;
        let mut clauses = line.specifier.split(',');
        let exact = clauses.find_map(|it| it.trim().strip_prefix("=="))?;
        let version = exact.trim_start_matches('=').trim().parse().ok()?;
        Some((line.name, version))
    };
    Ok(metadata.requires_dist.iter().filter_map(pin).collect())
}

/// The version of ROCm that a package is, or that it is for.
fn rocm_of(project: &DistName, version: &Version) -> Option<Version> {
    if is_ours(project) {
        return Some(version.clone());
    }
    version.of_rocm()
}

pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}
