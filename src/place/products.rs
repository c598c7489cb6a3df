//! Publishes packages to a release place, which has a directory for each project:
//! `rocm/core/whl-next/rocm-sdk-core/{file}`, with a page beside the files; and writes the pages of one from the
//! files that are there, also those that other programs put there or took away.
//!
//! Many versions are in one directory, and several jobs publish there. So a page keeps what it lists,
//! and is written only if no other job has changed it since it was read.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
};

use itertools::Itertools as _;

use super::{
    local::LocalSet,
    read_packages::{KnownFacts, Reading},
    set_place::SetPlace,
    sync::{Changes, Existing, Guard, Item, Listing, Plan, Sync, Synced},
};
use crate::{
    console::World,
    error::{Hint as _, Result, anyhow},
    index::{
        Layout,
        package_file::{PackageFile, SIDECAR, identity, is_package},
        pages::{Phase, directory_page, directory_root},
        parse::html_links,
        projects,
    },
    io::FileIdentity,
    location::decode_component,
    parallel,
    quantity::many,
    run::TarballName,
    wheel::DistName,
};

/// The directory of all products.
const TOP: &str = "rocm";
/// Directories that are read at the same time, with several requests each.
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// The directory of the documents that are published with a set.
pub(super) const RECORDS: &str = "promotions";

/// A directory of projects, for each project of a set: `rocm/core/whl-next`.
pub type ProductDirectories = BTreeMap<DistName, String>;

/// The packages of a set that are published to the directories of their projects. Projects without a
/// directory are left out.
#[derive(Clone, Copy)]
pub struct ProductUpload<'a> {
    pub set: &'a LocalSet,
    pub directories: &'a ProductDirectories,
    pub place: &'a SetPlace,
    pub world: &'a World,
}

impl ProductUpload<'_> {
    /// What [`ProductUpload::publish`] would do.
    pub fn plan(&self) -> Result<Plan> {
        Ok(self.sync().plan(|listing| self.decide(listing))?.0)
    }

    pub fn publish(&self) -> Result<Synced> {
        let (done, ()) = self.sync().run(|listing| self.decide(listing))?;
        let total = many(done.written + done.unchanged, "object");
        let place = self.place;
        let unchanged = done.unchanged;
        let facts = format!("{total} in {place}, {unchanged} of them unchanged");
        self.world.console.status("Published", facts);
        Ok(done)
    }

    fn sync(&self) -> Sync<'_> {
        let root = &self.set.root;
        let existing = Existing::Keep;
        Sync::of_packages(self.place, root, Guard::Pages, existing, self.world)
    }

    fn decide(&self, listing: &mut Listing<'_>) -> Result<(Changes, ())> {
        let Self { set: local, directories, world, .. } = *self;
        let code = local.document.identity.foreign_code.as_ref();
        self.place.ensure_takes(code)?;
        projects::ensure_one_form(local.metadata())?;
        for directory in directories.values().unique() {
            listing.add(directory)?;
        }
        let mut items = Vec::new();
        let mut files = Vec::new();
        for file in &local.document.files {
            let Some(directory) = directories.get(&file.project) else {
                continue;
            };
            let to = PackageFile {
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
            items.push(Item::here(path, Phase::Sidecar, text.clone()));
        }
        let by_directory = files.iter().into_group_map_by(|file| directory_of(&file.path));
        let by_directory: Vec<_> = by_directory.into_iter().sorted_by_key(|it| it.0).collect();
        items.extend(ProductPages { listing, world }.pages(&by_directory)?.0);
        Ok((Changes::of(items), ()))
    }
}

/// The pages of a release place.
#[derive(Debug)]
pub struct IndexedProducts {
    /// The directories of the products: `rocm/core/whl-next`.
    pub products: Vec<String>,
    /// The number of packages.
    pub files: usize,
    /// The number of objects that were written.
    pub changed: usize,
}

/// Writes the pages of all products of a place.
pub fn index_products(place: &SetPlace, world: &World) -> Result<IndexedProducts> {
    let sync = Sync::of_pages(place, world);
    let (done, indexed) = sync.run(|listing| decide_pages(listing, world))?;
    Ok(IndexedProducts { changed: done.written, ..indexed })
}

/// Says what [`index_products`] would write.
pub fn plan_index_products(place: &SetPlace, world: &World) -> Result<Plan> {
    let sync = Sync::of_pages(place, world);
    Ok(sync.plan(|listing| decide_pages(listing, world))?.0)
}

fn decide_pages(listing: &mut Listing<'_>, world: &World) -> Result<(Changes, IndexedProducts)> {
    listing.add(TOP)?;
    let place = listing.place;
    let (directories, misplaced) = directories_of_projects(listing);
    for path in misplaced {
        let shown = place.shown_in_full(path);
        let text = format!("`{shown}` is on no page: its directory is that of another project");
        world.console.warn(text);
    }
    if directories.is_empty() {
        let error = anyhow!("no package in the directory of its project below `{place}/{TOP}`");
        return Err(error).hint("name the directory above `rocm`, such as `s3://bucket/v5`");
    }
    let directories: Vec<(&str, Vec<&PackageFile>)> =
        directories.into_iter().map(|it| (it, Vec::new())).collect();
    let (items, files) = ProductPages { listing, world }.pages(&directories)?;
    let products = directories.iter().map(|it| directory_of(it.0)).dedup();
    let indexed =
        IndexedProducts { products: products.map(str::to_owned).collect(), files, changed: 0 };
    Ok((Changes::of(items), indexed))
}

/// The directories of projects, sorted, and the packages that are in the directory of another project.
fn directories_of_projects<'a>(listing: &'a Listing<'_>) -> (Vec<&'a str>, Vec<&'a str>) {
    let paths = listing.objects.keys().map(String::as_str).sorted();
    let paths: Vec<&str> = paths.filter(|it| it.starts_with("rocm/")).collect();
    // Release places have tarballs too, whose names look like those of sdists.
    let is_tarball = |path: &&str| name_of(path).parse::<TarballName>().is_ok();
    let packages = paths.iter().copied();
    let packages = packages.filter(|it| is_package(name_of(it)) && !is_tarball(it));
    let (placed, misplaced): (Vec<&str>, Vec<&str>) =
        packages.partition(|path| package_directory(path).is_some());
    let own: BTreeSet<&str> = placed.into_iter().map(directory_of).collect();
    // A project whose last file is gone still has its page.
    let products: BTreeSet<&str> = own.iter().map(|it| directory_of(it)).collect();
    let pages = paths.iter().filter_map(|path| path.strip_suffix("/index.html"));
    let left = pages.filter(|it| {
        let above = directory_of(it);
        products.contains(above) && !own.contains(above)
    });
    (own.iter().copied().chain(left).sorted().dedup().collect(), misplaced)
}

struct ProductPages<'a> {
    listing: &'a Listing<'a>,
    world: &'a World,
}

impl ProductPages<'_> {
    /// The pages of the directories of some projects, which get these new files, and those of their
    /// products. Also returns how many packages the directories have.
    fn pages(&self, directories: &[(&str, Vec<&PackageFile>)]) -> Result<(Vec<Item>, usize)> {
        let read = |(directory, new): &(&str, Vec<&PackageFile>)| self.all(directory, new);
        let read = parallel::try_map(directories, AT_ONCE, &self.world.stop, read)?;
        let mut products: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut items = Vec::new();
        let mut count = 0;
        for ((directory, _), (files, sidecars)) in directories.iter().zip(read) {
            let (product, project) = directory.rsplit_once('/').unwrap_or(("", directory));
            let files: Vec<&PackageFile> = files.iter().collect();
            let top = format!("{directory}/");
            let page = directory_page(project, &files, &top);
            items.extend(sidecars);
            items.extend(Item::directory_page(&top, Phase::Project, &page));
            let projects = products.entry(product).or_default();
            projects.extend((!files.is_empty()).then(|| project.to_owned()));
            count += files.len();
        }
        for (product, mut projects) in products {
            let top = format!("{product}/");
            let listed = self.listing.objects.keys();
            let listed = listed.filter_map(|path| package_directory(path)?.strip_prefix(&top));
            projects.extend(listed.map(str::to_owned));
            let page = directory_root(&projects);
            items.extend(Item::directory_page(&top, Phase::Root, &page));
        }
        Ok((items, count))
    }

    /// The files of a directory: the new ones, and those that are there. What the page says of these
    /// is kept; those that it does not list are read, and get the sidecars that they lack.
    fn all(&self, directory: &str, new: &[&PackageFile]) -> Result<(Vec<PackageFile>, Vec<Item>)> {
        let mut files: Vec<PackageFile> = new.iter().map(|file| (*file).clone()).collect();
        let mut listed = self.listing.place.listed_below(directory, &self.listing.objects);
        let of_page = self.listed_files(directory)?;
        listed.retain(|package| {
            let is_new = files.iter().any(|file| file.path == package.path);
            let is_misplaced = package_directory(&package.path).is_none();
            if is_new || is_misplaced {
                return false;
            }
            let known = of_page.get(&package.path).filter(|known| {
                let has_sidecar = self.listing.objects.contains_key(&known.sidecar_path());
                known.size == package.stamp.size
                    && has_sidecar == known.metadata.is_some()
                    && self.is_older_than_page(&package.path)
            });
            files.extend(
                known.map(|known| PackageFile {
                    upload_time: package.upload_time(),
                    ..known.clone()
                }),
            );
            known.is_none()
        });
        let mut sidecars = Vec::new();
        if !listed.is_empty() {
            let place = self.listing.place;
            let reading = Reading {
                place,
                layouts: vec![Layout::Flat],
                known: &KnownFacts::default(),
                at_once: place.requests(),
                world: self.world,
                progress: &self.world.console.progress("Reading", place, None),
            };
            let read = reading.run(listed)?;
            for file in read.files {
                let earlier = of_page.get(&file.path);
                if earlier.is_some_and(|it| it.sha256 != file.sha256) {
                    let path = &file.path;
                    self.world.console.warn(format!(
                        "`{path}` has other bytes than its page said: somebody replaced a published file"
                    ));
                }
                let yanked = earlier.and_then(|it| it.yanked.clone());
                files.push(PackageFile { yanked, ..file });
            }
            let metadata = read.facts.into_iter();
            let metadata =
                metadata.filter_map(|(path, it)| Some((path + SIDECAR, it.sidecar()?.clone())));
            let lacking = metadata.filter(|it| !self.listing.objects.contains_key(&it.0));
            sidecars.extend(lacking.map(|(path, bytes)| Item::here(path, Phase::Sidecar, bytes)));
        }
        files.sort_by(|one, other| (&one.version, one.name()).cmp(&(&other.version, other.name())));
        Ok((files, sidecars))
    }

    /// Whether a file is older than the page of its directory, which is written after its files. What the page
    /// says about a younger file may be said about the bytes that it replaced.
    fn is_older_than_page(&self, path: &str) -> bool {
        let page = format!("{}/index.html", directory_of(path));
        if let Some(root) = self.listing.place.local() {
            let changed_at =
                |path: &str| Some(FileIdentity::of(&root.join(path)).ok()?.changed_at());
            return changed_at(path).zip(changed_at(&page)).is_some_and(|(file, page)| file < page);
        }
        let modified = |path: &str| self.listing.objects.get(path)?.modified;
        modified(path).zip(modified(&page)).is_some_and(|(file, page)| file < page)
    }

    /// What the page of a directory says about its files, by path.
    fn listed_files(&self, directory: &str) -> Result<BTreeMap<String, PackageFile>> {
        let page = format!("{directory}/index.html");
        let mut files = BTreeMap::new();
        if !self.listing.objects.contains_key(&page) {
            return Ok(files);
        }
        let place = self.listing.place;
        let text = place.text(place.key(&page)?.as_str())?;
        for link in html_links(&text.unwrap_or_default()) {
            let name = decode_component(link.path()).filter(|it| is_package(it));
            let of_name = name.as_deref().and_then(identity);
            let (Some(name), Some((project, version))) = (name, of_name) else {
                continue;
            };
            if let (Some(sha256), Some(size)) = (link.claim.sha256, link.claim.size) {
                let path = format!("{directory}/{name}");
                let file = PackageFile {
                    yanked: link.claim.yanked,
                    metadata: link.claim.metadata,
                    requires_python: link.claim.requires_python,
                    ..PackageFile::new(path.clone(), project, version, size, sha256)
                };
                files.insert(path, file);
            }
        }
        Ok(files)
    }
}

/// The directory of a package, if that has the name of its project.
fn package_directory(path: &str) -> Option<&str> {
    let (directory, name) = path.rsplit_once('/')?;
    let (project, _) = identity(name).filter(|_| is_package(name))?;
    (name_of(directory) == project.normalized()).then_some(directory)
}

fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
