//! Writes the pages of a release place from the files that are there, also those that other programs
//! put there or took away.
//!
//! The place remembers how each directory looked when its page was right ([`IndexedDirectories`]). If
//! the listing has not changed since, the page is not even read: thousands of files cost a listing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    num::NonZeroUsize,
};

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::{ProductPages, directory_of, package_directory};
use crate::{
    console::World,
    digest::{Checksum, Sha256},
    error::{Context as _, Hint as _, Result, anyhow},
    parallel,
    run::TarballName,
    set::{
        pages::{Phase, directory_page, directory_root},
        place::SetPlace,
        set_json::{SetFile, is_package},
        sync::{Changes, Item, ItemBytes, Listing, Plan, Sync},
    },
    store::Object,
};

/// The directory of all products.
const TOP: &str = "rocm";
/// What the place remembers.
const RECORD: &str = "indexed.json";
const SCHEMA: &str = "rocwheel-indexed-v1";
/// Directories that are read at the same time, with several requests each.
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(4).unwrap();

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
    let (done, indexed) = sync.run(|listing| decide(listing, world))?;
    Ok(IndexedProducts {
        changed: done.written,
        ..indexed
    })
}

/// Says what [`index_products`] would write.
pub fn plan_index_products(place: &SetPlace, world: &World) -> Result<Plan> {
    Ok(Sync::of_pages(place, world)
        .plan(|listing| decide(listing, world))?
        .0)
}

fn decide(listing: &mut Listing<'_>, world: &World) -> Result<(Changes, IndexedProducts)> {
    let place = listing.place;
    listing.add(TOP)?;
    listing.add_top()?;
    let listing = &*listing;
    let publishing = ProductPages { listing, world };
    let directories = ListedDirectories::of(&listing.objects);
    for path in &directories.misplaced {
        let shown = place.shown_in_full(path);
        let text = format!("`{shown}` is on no page: its directory is that of another project");
        world.console.warn(text);
    }
    if directories.objects.is_empty() {
        let error = anyhow!("no package in the directory of its project below `{place}/{TOP}`");
        return Err(error).hint("name the directory above `rocm`, such as `s3://bucket/v5`");
    }
    let remembered = IndexedDirectories::read(place)?;
    let changed = directories.objects.iter();
    let changed = changed.filter(|(directory, objects)| !remembered.has(directory, objects));
    let changed: Vec<&str> = changed.map(|(directory, _)| *directory).collect();
    let read = |directory: &&str| publishing.all(directory, &[]);
    let read = parallel::try_map(&changed, AT_ONCE, &world.stop, read)?;
    let (mut items, mut files) = (Vec::new(), 0);
    for (directory, (of_directory, sidecars)) in changed.iter().zip(read) {
        let (_, project) = directory.rsplit_once('/').unwrap_or(("", directory));
        let of_directory: Vec<&SetFile> = of_directory.iter().collect();
        let top = format!("{directory}/");
        let page = directory_page(project, &of_directory, &top);
        items.extend(sidecars);
        items.extend(Item::directory_page(&top, Phase::Project, &page));
    }
    let mut products: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for directory in directories.objects.keys() {
        let (product, project) = directory.rsplit_once('/').unwrap_or(("", directory));
        let projects = products.entry(product).or_default();
        let listed = directories.packages(directory).count();
        files += listed;
        projects.extend((listed > 0).then(|| project.to_owned()));
    }
    for (product, projects) in &products {
        let page = directory_root(projects);
        items.extend(Item::directory_page(
            &format!("{product}/"),
            Phase::Root,
            &page,
        ));
    }
    if place.local().is_none() {
        items.push(directories.remembered(&items)?);
    }
    let indexed = IndexedProducts {
        products: products.into_keys().map(str::to_owned).collect(),
        files,
        changed: 0,
    };
    let outcome = Changes {
        items,
        ..Changes::default()
    };
    Ok((outcome, indexed))
}

/// The directories of projects, with the objects that are directly in them.
struct ListedDirectories<'a> {
    objects: BTreeMap<&'a str, BTreeMap<&'a str, &'a Object>>,
    /// Packages in the directory of another project.
    misplaced: Vec<&'a str>,
}

impl<'a> ListedDirectories<'a> {
    fn of(objects: &'a HashMap<String, Object>) -> Self {
        let below = objects.keys().filter(|path| path.starts_with("rocm/"));
        // Release places have tarballs too, whose names look like those of sdists.
        let is_tarball = |name: &str| name.parse::<TarballName>().is_ok();
        let packages = below.filter(|path| is_package(name_of(path)) && !is_tarball(name_of(path)));
        let (placed, misplaced): (Vec<&str>, Vec<&str>) = packages
            .map(String::as_str)
            .sorted()
            .partition(|path| package_directory(path).is_some());
        let own: BTreeSet<&str> = placed.into_iter().map(directory_of).collect();
        let products: BTreeSet<&str> = own.iter().map(|it| directory_of(it)).collect();
        // A project whose last file is gone still has its page.
        let is_project = |directory: &str| {
            let above = directory_of(directory);
            own.contains(directory) || products.contains(above) && !own.contains(above)
        };
        let mut by_directory: BTreeMap<&str, BTreeMap<&str, &Object>> = BTreeMap::new();
        for (path, object) in objects {
            let directory = directory_of(path);
            if !path.ends_with('/') && is_project(directory) {
                let of_directory = by_directory.entry(directory).or_default();
                of_directory.insert(path, object);
            }
        }
        by_directory.retain(|directory, objects| {
            own.contains(directory) || objects.contains_key(&*format!("{directory}/index.html"))
        });
        Self {
            objects: by_directory,
            misplaced,
        }
    }

    fn packages(&self, directory: &str) -> impl Iterator<Item = &&'a str> {
        let objects = self.objects.get(directory).into_iter();
        let paths = objects.flat_map(BTreeMap::keys);
        paths.filter(|path| package_directory(path).is_some())
    }

    /// What the place remembers when these items are written.
    fn remembered(&self, items: &[Item]) -> Result<Item> {
        let written: HashMap<&str, Stamp> = items
            .iter()
            .filter_map(|item| match &item.bytes {
                ItemBytes::Here(bytes) => {
                    let etag = Checksum::etag_of(bytes);
                    Some((item.path.as_str(), (item.size, Some(etag))))
                }
                ItemBytes::OnDisk(..) => None,
            })
            .collect();
        let stamps = |directory: &str, objects: &BTreeMap<&str, &Object>| {
            let listed = objects.iter().map(|(path, object)| (*path, stamp(object)));
            let own = written.iter();
            let own = own.filter(|(path, _)| directory_of(path) == directory);
            let own = own.filter(|(path, _)| !path.ends_with('/'));
            let all = listed.chain(own.map(|(path, stamp)| (*path, stamp.clone())));
            look(&all.collect())
        };
        let all = self.objects.iter();
        let all =
            all.map(|(directory, objects)| ((*directory).to_owned(), stamps(directory, objects)));
        let record = IndexedDirectories {
            schema: SCHEMA.to_owned(),
            directories: all.collect(),
        };
        let text = serde_json::to_string_pretty(&record).context("failed to render JSON")?;
        let text = text + "\n";
        Ok(Item::here(RECORD.to_owned(), Phase::Root, text.as_bytes()))
    }
}

/// The size and the `ETag` of an object.
type Stamp = (u64, Option<String>);

fn stamp(object: &Object) -> Stamp {
    (object.size, object.etag.clone())
}

/// How a directory looks: a digest of what its objects are.
fn look(objects: &BTreeMap<&str, Stamp>) -> Sha256 {
    let line = |(path, (size, etag)): (&&str, &Stamp)| {
        format!("{path}\t{size}\t{}\n", etag.as_deref().unwrap_or_default())
    };
    let lines: String = objects.iter().map(line).collect();
    Sha256::of(lines.as_bytes())
}

/// How each directory looked when its page was right.
#[derive(Debug, Default, Serialize, Deserialize)]
struct IndexedDirectories {
    schema: String,
    directories: BTreeMap<String, Sha256>,
}

impl IndexedDirectories {
    /// An empty record if the place has none, or one that this program cannot read: it says nothing
    /// that the pages do not say.
    fn read(place: &SetPlace) -> Result<Self> {
        if place.local().is_some() {
            return Ok(Self::default());
        }
        let text = place.text(place.key(RECORD)?.as_str())?;
        let record = text.and_then(|it| serde_json::from_str::<Self>(&it).ok());
        let record = record.filter(|it| it.schema == SCHEMA);
        Ok(record.unwrap_or_default())
    }

    fn has(&self, directory: &str, objects: &BTreeMap<&str, &Object>) -> bool {
        let stamps = objects.iter().map(|(path, object)| (*path, stamp(object)));
        self.directories.get(directory) == Some(&look(&stamps.collect()))
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
