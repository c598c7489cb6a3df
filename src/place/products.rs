//! Publishes packages to a release place, which has a directory for each project:
//! `rocm/core/whl-next/rocm-sdk-core/{file}`, with a page beside the files. Also writes the pages of a
//! release place from the files that it has, after other programs added or removed some.
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
    index::{
        Layout,
        package_file::{PackageFile, SIDECAR, identity, is_package},
        pages::{Phase, directory_page, directory_root},
        parse::html_links,
        projects,
    },
    run::TarballName,
};
use rocwheel_base::{
    error::{Hint as _, No, Result, anyhow},
    io::FileIdentity,
    parallel,
    quantity::many,
};
use rocwheel_store::location::decode_component;
use rocwheel_wheel::{DistName, PackageFilename};

/// The directory of all products.
const TOP: &str = "rocm";
/// Directories that are read at the same time, with several requests each.
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// The directory of the records that are published with sets, one for each version and platform.
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
            // The format of their documents is not final, and a release place keeps its files.
            if file.label().is_some() {
                let refusal = format!(
                    "a variant wheel, which a release place does not take: `{}`",
                    file.path
                );
                return Err(anyhow!(No(refusal)))
                    .hint("promote the set without its variant wheels");
            }
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
        if let Some(record) = &local.record {
            let version = identity.version.iter().map(ToString::to_string);
            let platform = identity.platform.iter().map(ToString::to_string);
            let path = format!("{RECORDS}/{}.json", version.chain(platform).format("-"));
            items.push(Item::here(path, Phase::Sidecar, record.text.clone()));
        }
        let mut new_files: BTreeMap<&str, Vec<&PackageFile>> = BTreeMap::new();
        for file in &files {
            new_files.entry(directory_of(&file.path)).or_default().push(file);
        }
        let pages = ProductPages { listing, world }.render(&new_files)?;
        items.extend(pages.items);
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
        let why = if is_variant(name_of(path)) {
            "a release place takes no variant wheel"
        } else {
            "its directory is for another project"
        };
        let path = place.shown_in_full(path);
        world.console.warn(format!("`{path}` is on no page: {why}"));
    }
    if directories.is_empty() {
        let error = anyhow!("no package in the directory of its project below `{place}/{TOP}`");
        return Err(error).hint("name the directory above `rocm`, such as `s3://bucket/v5`");
    }
    // A product may be inside another one, so that equal directories are not always neighbours.
    let products = directories
        .iter()
        .map(|directory| directory_of(directory))
        .unique()
        .map(str::to_owned)
        .collect();
    let no_new_files = directories.into_iter().map(|directory| (directory, Vec::new())).collect();
    let pages = ProductPages { listing, world }.render(&no_new_files)?;
    let indexed = IndexedProducts { products, files: pages.files, changed: 0 };
    Ok((Changes::of(pages.items), indexed))
}

/// The directories of projects, sorted, and the packages that are on no page: variant wheels, and packages in the
/// directory of another project.
fn directories_of_projects<'a>(listing: &'a Listing<'_>) -> (Vec<&'a str>, Vec<&'a str>) {
    let top = format!("{TOP}/");
    let keys = listing.objects.keys().map(String::as_str);
    let paths: Vec<&str> = keys.filter(|path| path.starts_with(&top)).sorted().collect();
    // A release place has tarballs too, whose names look like names of sdists.
    let is_tarball = |name: &str| name.parse::<TarballName>().is_ok();
    let is_package = |path: &&str| is_package(name_of(path)) && !is_tarball(name_of(path));
    let packages = paths.iter().copied().filter(is_package);
    let (placed, misplaced): (Vec<&str>, Vec<&str>) =
        packages.partition(|path| package_directory(path).is_some());
    let with_packages: BTreeSet<&str> = placed.into_iter().map(directory_of).collect();
    let products: BTreeSet<&str> =
        with_packages.iter().map(|directory| directory_of(directory)).collect();
    // A project whose last file is gone still has its page.
    let with_pages = paths.iter().filter_map(|path| path.strip_suffix("/index.html"));
    let with_page_only = with_pages.filter(|directory| {
        let above = directory_of(directory);
        products.contains(above) && !with_packages.contains(above)
    });
    (with_packages.iter().copied().chain(with_page_only).sorted().dedup().collect(), misplaced)
}

struct ProductPages<'a> {
    listing: &'a Listing<'a>,
    world: &'a World,
}

/// The pages of some directories, and the sidecars of packages that lack one.
struct RenderedPages {
    items: Vec<Item>,
    /// The number of packages on the pages.
    files: usize,
}

/// The packages of one directory.
struct DirectoryFiles {
    /// Sorted by version and name.
    files: Vec<PackageFile>,
    /// The sidecars of packages that lack one.
    sidecars: Vec<Item>,
}

impl ProductPages<'_> {
    /// Renders the pages of directories of projects, each with the new files that it gets, and the pages
    /// of the products above.
    fn render(&self, new_files: &BTreeMap<&str, Vec<&PackageFile>>) -> Result<RenderedPages> {
        let directories: Vec<&str> = new_files.keys().copied().collect();
        let files_of = |directory: &&str| self.files_of(directory, &new_files[directory]);
        let read = parallel::try_map(&directories, AT_ONCE, &self.world.stop, files_of)?;
        let mut products: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut pages = RenderedPages { items: Vec::new(), files: 0 };
        for (directory, DirectoryFiles { files, sidecars }) in directories.into_iter().zip(read) {
            let (product, project) = directory.rsplit_once('/').unwrap_or(("", directory));
            let files: Vec<&PackageFile> = files.iter().collect();
            let top = format!("{directory}/");
            let page = directory_page(project, &files, &top);
            pages.items.extend(sidecars);
            pages.items.extend(Item::directory_page(&top, Phase::Project, &page));
            pages.files += files.len();
            let projects = products.entry(product).or_default();
            // The page of a product does not lead to a project without a file.
            if !files.is_empty() {
                projects.insert(project.to_owned());
            }
        }
        for (product, mut projects) in products {
            let top = format!("{product}/");
            let directories =
                self.listing.objects.keys().filter_map(|path| package_directory(path));
            let names = directories.filter_map(|directory| directory.strip_prefix(&top));
            projects.extend(names.map(str::to_owned));
            let page = directory_root(&projects);
            pages.items.extend(Item::directory_page(&top, Phase::Root, &page));
        }
        Ok(pages)
    }

    /// The new files of a directory, and the files that it has. The page describes these; a file that
    /// it does not list is read, and gets a sidecar if it lacks one.
    fn files_of(&self, directory: &str, new_files: &[&PackageFile]) -> Result<DirectoryFiles> {
        let mut files: Vec<PackageFile> = new_files.iter().map(|file| (*file).clone()).collect();
        let mut listed = self.listing.place.listed_below(directory, &self.listing.objects);
        let on_page = self.files_on_page(directory)?;
        listed.retain(|package| {
            let is_new = files.iter().any(|file| file.path == package.path);
            // `decide_pages` says so.
            let is_on_no_page = package_directory(&package.path).is_none();
            if is_new || is_on_no_page {
                return false;
            }
            let known = on_page.get(&package.path).filter(|known| {
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
                let earlier = on_page.get(&file.path);
                if earlier.is_some_and(|it| it.sha256 != file.sha256) {
                    let path = &file.path;
                    self.world.console.warn(format!(
                        "`{path}` has other bytes than its page said: somebody replaced a published file"
                    ));
                }
                let yanked = earlier.and_then(|it| it.yanked.clone());
                files.push(PackageFile { yanked, ..file });
            }
            for (package, facts) in read.facts {
                let path = package + SIDECAR;
                if let Some(metadata) = facts.sidecar()
                    && !self.listing.objects.contains_key(&path)
                {
                    sidecars.push(Item::here(path, Phase::Sidecar, metadata.clone()));
                }
            }
        }
        files.sort_by(|first, second| {
            (&first.version, first.name()).cmp(&(&second.version, second.name()))
        });
        Ok(DirectoryFiles { files, sidecars })
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
    fn files_on_page(&self, directory: &str) -> Result<BTreeMap<String, PackageFile>> {
        let page = format!("{directory}/index.html");
        let mut files = BTreeMap::new();
        if !self.listing.objects.contains_key(&page) {
            return Ok(files);
        }
        let place = self.listing.place;
        let html = place.text(place.key(&page)?.as_str())?;
        for link in html_links(&html.unwrap_or_default()) {
            let Some(name) = decode_component(link.path()).filter(|it| is_package(it)) else {
                continue;
            };
            let Some((project, version)) = identity(&name) else {
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

fn is_variant(name: &str) -> bool {
    name.parse::<PackageFilename>().is_ok_and(|name| name.label.is_some())
}

/// The directory of a package, if the directory is named after its project and the package may be on its page.
fn package_directory(path: &str) -> Option<&str> {
    let (directory, name) = path.rsplit_once('/')?;
    // What its label means would have to stand beside it, in a format that is not final.
    let (project, _) = identity(name).filter(|_| is_package(name) && !is_variant(name))?;
    (name_of(directory) == project.normalized()).then_some(directory)
}

fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
