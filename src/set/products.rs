//! Publishes packages to a release place, which has a directory for each project:
//! `rocm/core/whl-next/rocm-sdk-core/{file}`, with a page beside the files.
//!
//! Many versions are in one directory, and several jobs publish there. So a page keeps what it lists,
//! and is written only if no other job has changed it since it was read.

mod index;

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

pub use self::index::{IndexedProducts, index_products, plan_index_products};
use super::{
    local::LocalSet,
    package_cache::KnownFacts,
    package_files::ListedPackage,
    pages::{Phase, directory_page, directory_root},
    parse::html_links,
    place::SetPlace,
    read_packages::{ReadFiles, Reading},
    set_json::{Layout, SIDECAR, SetFile, identity, is_package},
    split_projects,
    sync::{Changes, Existing, Guard, Item, Listing, Plan, REQUESTS, Sync},
};
use crate::{
    console::{World, many},
    error::Result,
    location::decode_component,
    wheel::DistName,
};

/// The directory of the documents that are published with a set.
pub(super) const RECORDS: &str = "promotions";

/// A directory of projects, for each project of a set: `rocm/core/whl-next`.
pub type ProductDirectories = BTreeMap<DistName, String>;

/// What was published, in objects.
#[derive(Clone, Copy, Debug)]
pub struct PublishedProducts {
    pub uploaded: usize,
    pub unchanged: usize,
}

/// Publishes the packages of a set to the directories of their projects. Projects without a directory
/// are left out.
pub fn publish_products(
    local: &LocalSet,
    directories: &ProductDirectories,
    destination: &SetPlace,
    world: &World,
) -> Result<PublishedProducts> {
    let sync = sync(local, destination, world);
    let (done, ()) = sync.run(|listing| decide(local, directories, listing, world))?;
    let total = many(done.written + done.unchanged, "object");
    let facts = format!(
        "{total} in {destination}, {} of them unchanged",
        done.unchanged
    );
    world.console.status("Published", facts);
    Ok(PublishedProducts {
        uploaded: done.written,
        unchanged: done.unchanged,
    })
}

/// Says what [`publish_products`] would do.
pub fn plan_products(
    local: &LocalSet,
    directories: &ProductDirectories,
    destination: &SetPlace,
    world: &World,
) -> Result<Plan> {
    let sync = sync(local, destination, world);
    Ok(sync
        .plan(|listing| decide(local, directories, listing, world))?
        .0)
}

fn sync<'a>(local: &'a LocalSet, destination: &'a SetPlace, world: &'a World) -> Sync<'a> {
    Sync::of_packages(
        destination,
        &local.root,
        Guard::Pages,
        Existing::Keep,
        world,
    )
}

fn decide(
    local: &LocalSet,
    directories: &ProductDirectories,
    listing: &mut Listing<'_>,
    world: &World,
) -> Result<(Changes, ())> {
    let known = local.metadata.iter();
    split_projects::ensure_one_form(known.map(|(path, text)| (&**path, &**text)))?;
    for directory in directories.values().unique() {
        listing.add(directory)?;
    }
    let (mut items, mut files) = (Vec::new(), Vec::new());
    for file in &local.document.files {
        let Some(directory) = directories.get(&file.project) else {
            continue;
        };
        let to = SetFile {
            path: format!("{directory}/{}/{}", file.project, file.name()),
            yanked: None,
            remembered: None,
            ..file.clone()
        };
        items.extend(local.package(file, &to));
        files.push(to);
    }
    let identity = &local.document.identity;
    for text in local.documents.values() {
        let of = identity.version.iter().map(ToString::to_string);
        let of = of.chain(identity.platform.iter().map(ToString::to_string));
        let path = format!("{RECORDS}/{}.json", of.format("-"));
        items.push(Item::here(path, Phase::Sidecar, text.as_bytes()));
    }
    let pages = ProductPages { listing, world };
    items.extend(pages.pages(&files)?);
    let changes = Changes {
        items,
        ..Changes::default()
    };
    Ok((changes, ()))
}

struct ProductPages<'a> {
    listing: &'a Listing<'a>,
    world: &'a World,
}

impl ProductPages<'_> {
    /// The pages of the projects of some new files, and those of their products.
    fn pages(&self, files: &[SetFile]) -> Result<Vec<Item>> {
        let mut products: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut items = Vec::new();
        let by_directory = files
            .iter()
            .into_group_map_by(|file| directory_of(&file.path));
        for (directory, new) in by_directory.into_iter().sorted_by_key(|it| it.0) {
            let (product, project) = directory.rsplit_once('/').unwrap_or(("", directory));
            let (all, sidecars) = self.all(directory, &new)?;
            items.extend(sidecars);
            let all: Vec<&SetFile> = all.iter().collect();
            let page = directory_page(project, &all, &format!("{directory}/"));
            items.extend(Item::directory_page(
                &format!("{directory}/"),
                Phase::Project,
                &page,
            ));
            products
                .entry(product)
                .or_default()
                .insert(project.to_owned());
        }
        for (product, mut projects) in products {
            let top = format!("{product}/");
            let listed = self
                .listing
                .objects
                .keys()
                .filter(|path| is_package_path(path));
            let listed = listed.filter_map(|path| path.strip_prefix(&top)?.split_once('/'));
            projects.extend(listed.map(|(project, _)| project.to_owned()));
            let page = directory_root(&projects);
            items.extend(Item::directory_page(&top, Phase::Root, &page));
        }
        Ok(items)
    }

    /// The files of a directory: the new ones, and those that are there. What the page says of these
    /// is kept; those that it does not list are read, and get the sidecars that they lack.
    fn all(&self, directory: &str, new: &[&SetFile]) -> Result<(Vec<SetFile>, Vec<Item>)> {
        let mut files: Vec<SetFile> = new.iter().map(|file| (*file).clone()).collect();
        let mut listed = self
            .listing
            .place
            .listed_below(directory, &self.listing.objects);
        let of_page = self.listed_files(directory)?;
        listed.retain(|package| {
            let is_new = files.iter().any(|file| file.path == package.path);
            let is_misplaced = package_directory(&package.path).is_none();
            if is_new || is_misplaced {
                return false;
            }
            let known = of_page.get(&package.path).filter(|known| {
                let has_sidecar = self.listing.objects.contains_key(&known.sidecar_path());
                known.size == package.stamp.size && has_sidecar == known.metadata.is_some()
            });
            files.extend(known.cloned());
            known.is_none()
        });
        let mut sidecars = Vec::new();
        if !listed.is_empty() {
            let read = self.read(listed)?;
            files.extend(read.files.into_iter().map(|file| SetFile {
                yanked: of_page.get(&file.path).and_then(|it| it.yanked.clone()),
                ..file
            }));
            let lacking = read.metadata.into_iter();
            let lacking = lacking.filter(|(path, _)| !self.listing.objects.contains_key(path));
            sidecars.extend(lacking.map(|(path, bytes)| Item::here(path, Phase::Sidecar, bytes)));
        }
        files.sort_by(|one, other| (&one.version, one.name()).cmp(&(&other.version, other.name())));
        Ok((files, sidecars))
    }

    fn read(&self, listed: Vec<ListedPackage>) -> Result<ReadFiles> {
        let reading = Reading {
            place: self.listing.place,
            layouts: vec![Layout::Flat],
            known: &KnownFacts::default(),
            at_once: REQUESTS,
            world: self.world,
            progress: &self
                .world
                .console
                .progress("Reading", self.listing.place, None),
        };
        reading.others(listed)
    }

    /// What the page of a directory says about its files, by path.
    fn listed_files(&self, directory: &str) -> Result<BTreeMap<String, SetFile>> {
        let page = format!("{directory}/index.html");
        let mut files = BTreeMap::new();
        if !self.listing.objects.contains_key(&page) {
            return Ok(files);
        }
        let text = self
            .listing
            .place
            .text(self.listing.place.key(&page)?.as_str())?;
        for link in html_links(&text.unwrap_or_default()) {
            let name = link.href.split(['#', '?']).next().unwrap_or_default();
            let name = decode_component(name).filter(|it| is_package(it));
            let of_name = name.as_deref().and_then(identity);
            let (Some(name), Some((project, version))) = (name, of_name) else {
                continue;
            };
            if let (Some(sha256), Some(size)) = (link.sha256, link.size) {
                let path = format!("{directory}/{name}");
                let file = SetFile {
                    path: path.clone(),
                    project,
                    version,
                    size,
                    sha256,
                    yanked: link.yanked,
                    remembered: None,
                    device_extras: Vec::new(),
                    upload_time: None,
                    metadata: link.metadata,
                    requires_python: link.requires_python,
                };
                files.insert(path, file);
            }
        }
        Ok(files)
    }
}

/// The directory of a package, if that has the name of its project.
pub(super) fn package_directory(path: &str) -> Option<&str> {
    let (directory, name) = path.rsplit_once('/')?;
    let (project, _) = identity(name).filter(|_| is_package(name))?;
    let last = directory.rsplit('/').next()?;
    (last == project.normalized()).then_some(directory)
}

fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn is_package_path(path: &str) -> bool {
    !path.ends_with(SIDECAR) && is_package(path.rsplit('/').next().unwrap_or(path))
}
