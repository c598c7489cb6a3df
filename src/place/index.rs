//! Writes the index of a place from the packages that are there.

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroUsize,
    path::Path,
};

use itertools::Itertools as _;

use super::{
    read_packages::{KnownFacts, KnownPackages, ReadFacts, ReadPackages, Reading, remember},
    set_place::{PackageDirectories, SetPlace},
    sync::{Changes, Item, Listing, Plan, Sync},
    variants_of_others::keep_variants_of_others,
};
use crate::{
    console::World,
    index::{
        Layout,
        package_file::{PackageFile, SIDECAR, SetStamp, is_variants_json},
        pages::Phase,
        parse::checksums,
        set_json::SetJson,
    },
    run::ArtifactGroup,
};
use rocwheel_base::{
    digest::{Checksum, Sha256},
    error::Result,
    io::DigestCache,
};
use rocwheel_store::location::encode_path;

/// The root pages in the directory of a family.
const FAMILY_ROOTS: [&str; 2] = ["index.html", "simple/index.html"];

/// Options of `rocwheel index`.
#[derive(Debug)]
pub struct IndexOptions {
    /// Packages that this process has read already.
    pub read: KnownPackages,
    pub jobs: NonZeroUsize,
}

/// An index that was written.
#[derive(Debug)]
pub struct Indexed {
    pub set: SetJson,
    /// The number of objects that were written or removed.
    pub changed: usize,
}

/// What an index is made of, besides the changes of the place.
struct NewIndex {
    set: SetJson,
    cache: Option<DigestCache>,
    facts: HashMap<String, ReadFacts>,
}

/// Says what [`index`] would write and remove.
pub fn plan_index(site: &SetPlace, options: &IndexOptions, world: &World) -> Result<Plan> {
    let sync = Sync::of_pages(site, world);
    Ok(sync.plan(|listing| decide(listing, options, world))?.0)
}

/// Updates the index of a place.
pub fn index(site: &SetPlace, options: &IndexOptions, world: &World) -> Result<Indexed> {
    let sync = Sync::of_pages(site, world);
    let (done, NewIndex { set, cache, facts }) =
        sync.run(|listing| decide(listing, options, world))?;
    site.tidy(&done.removed);
    cache.map_or(Ok(()), |cache| remember(cache, &facts, &set))?;
    Ok(Indexed { set, changed: done.written + done.removed.len() })
}

/// The sidecars and pages of the packages of a place, and what of its pages is stale.
///
/// The existing pages are listed before the packages, and before `set.json` is read. Suppose another
/// job adds a package after our list of packages, and writes its pages. Our pages lack that package.
/// They must not replace the new ones, and do not: the `ETag` from before our list no longer matches,
/// the write fails, and the index starts again.
fn decide(
    listing: &mut Listing<'_>,
    options: &IndexOptions,
    world: &World,
) -> Result<(Changes, NewIndex)> {
    let site = listing.place;
    listing.add_set()?;
    let mut known = KnownFacts::read(site, Some(listing))?;
    known.made.clone_from(&options.read);
    let families = known.families();
    for family in &families {
        listing.add(family.as_str())?;
    }
    let is_local = site.local().is_some();
    // All files of a directory were listed above. For a directory that does not exist, `package_files` gives the error.
    let (layouts, listed) = if site.local().is_some_and(Path::is_dir) {
        let layouts = site.layouts(PackageDirectories::All)?;
        let listed = site.files_among(&layouts, &listing.objects);
        (layouts, listed)
    } else {
        site.package_files(PackageDirectories::All)?
    };
    let reading = Reading {
        place: site,
        layouts,
        known: &known,
        at_once: if is_local { options.jobs } else { site.requests() },
        world,
        progress: &world.console.progress("Reading", site, None),
    };
    let ReadPackages { files, facts, orphans } = reading.run(listed)?;
    let mut set = SetJson::new(known.identity.clone(), files)?;
    keep_variants_of_others(&mut set, &known, listing, world)?;
    // What was known of thousands of files takes as much memory as their pages, and is not needed any more.
    let cache = known.cache.take();
    drop(known);
    remember_sidecars(&mut set.files, &facts);
    let sidecars = facts.iter().filter_map(|(path, facts)| {
        let bytes = facts.sidecar()?.clone();
        Some(Item::here(format!("{path}{SIDECAR}"), Phase::Sidecar, bytes))
    });
    let mut items: Vec<Item> = sidecars.collect();
    items.extend(Item::pages(&set, site.public_urls(), listing, options.jobs, &world.stop)?);
    let mut stale_pages = stale(listing, &items, &families);
    stale_pages.extend(stale_variants(listing, &items)?);
    let mut removed = listing.removals_of_pages(stale_pages, world)?;
    removed.extend(orphans.into_iter().map(|path| listing.removal(path)));
    let changes = Changes { items, removed, packages: Vec::new() };
    let new = NewIndex { set, cache, facts };
    Ok((changes, new))
}

/// Notes the stamps that new sidecars will have, for the next index of a bucket. Where the `ETag` of a small
/// object is not its MD5, the next index reads the package once more, and then knows the stamp of the listing.
fn remember_sidecars(files: &mut [PackageFile], facts: &HashMap<String, ReadFacts>) {
    for file in files {
        let bytes = facts.get(&file.path).and_then(ReadFacts::sidecar);
        let (Some(remembered), Some(bytes)) = (&mut file.remembered, bytes) else {
            continue;
        };
        let size = bytes.len() as u64;
        if remembered.sidecar.as_ref().is_none_or(|it| it.size != size) {
            let etag = Some(Checksum::etag_of(bytes));
            remembered.sidecar = Some(SetStamp { size, etag });
        }
    }
}

/// The existing pages of projects and families that do not belong to this index, sorted.
fn stale(listing: &Listing<'_>, items: &[Item], families: &[ArtifactGroup]) -> Vec<String> {
    let current: HashSet<&str> = items.iter().map(|item| &*item.path).collect();
    let is_ours = |path: &&String| {
        let below_layout = path.strip_prefix(Layout::Dist.files()).unwrap_or(path);
        let is_of_family = |family: &ArtifactGroup| {
            let rest = below_layout.strip_prefix(family.as_str());
            rest.is_some_and(|rest| match rest.strip_prefix('/') {
                // The roots of a family are removed with the family; the set always has its own roots.
                Some(page) => is_project_page(page) || FAMILY_ROOTS.contains(&page),
                // Its find-links page is beside its directory: `gfx94X-dcgpu.html`.
                None => rest == ".html",
            })
        };
        is_project_page(path) || families.iter().any(is_of_family)
    };
    let ours = listing.objects.keys().filter(is_ours);
    let mut stale: Vec<String> =
        ours.filter(|path| !current.contains(path.as_str())).cloned().collect();
    stale.sort_unstable();
    stale
}

/// The files about variant wheels that the last index has listed, for versions that have no such wheel any more. A file
/// that SHA256SUMS does not name with its digest may be somebody else's, and stays.
fn stale_variants(listing: &Listing<'_>, items: &[Item]) -> Result<Vec<String>> {
    let is_current = |path: &str| items.iter().any(|item| item.path == path);
    let paths = listing.objects.keys().filter(|path| is_variants_json(path) && !is_current(path));
    let candidates: Vec<&String> = paths.sorted().collect();
    if candidates.is_empty() || !listing.objects.contains_key("SHA256SUMS") {
        return Ok(Vec::new());
    }
    let sums = listing.page("SHA256SUMS")?.unwrap_or_default();
    // Sums that another program wrote, and that cannot be read, name no file of ours.
    let lines = checksums(&sums).unwrap_or_default();
    let is_listed = |path: &str, sha256: Sha256| {
        lines.iter().any(|line| line.href == encode_path(path) && line.claim.sha256 == Some(sha256))
    };
    let mut stale = Vec::new();
    for path in candidates {
        let document = listing.page(path)?;
        if document.is_some_and(|text| is_listed(path, Sha256::of(text.as_bytes()))) {
            stale.push(path.clone());
        }
    }
    Ok(stale)
}

/// Whether a path is `simple/{project}/index.html`.
fn is_project_page(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["simple", _, "index.html"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_projects_can_be_stale() {
        assert!(is_project_page("simple/rocm/index.html"));
        for path in
            ["simple/index.html", "simple/rocm/notes.html", "simple/a/b/index.html", "index.html"]
        {
            assert!(!is_project_page(path), "{path}");
        }
    }
}
