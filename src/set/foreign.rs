//! What a place has besides a set: packages of other projects ([`Others`]), and objects that nothing
//! lists.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    package_cache::KnownFacts,
    read_packages::Reading,
    set_json::{Identity, Layout, SIDECAR, SetFile, SetJson, is_of_others, is_package},
    sync::{Item, Listing, REQUESTS},
};
use crate::{console::World, digest::Sha256, error::Result};

/// The packages at the destination of an upload that stay. Jobs that build on ROCm add theirs to the
/// place of its packages. The index of a new set lists the packages of other projects too, and that
/// of an upload of such packages also the set.
#[derive(Debug, Default)]
pub(super) struct Others {
    pub(super) files: Vec<SetFile>,
    /// What `set.json` says of the set that stays.
    pub(super) identity: Option<Identity>,
    /// The METADATA of wheels, by the paths of their sidecars.
    pub(super) metadata: BTreeMap<String, Vec<u8>>,
    /// Why files of the set that is there are yanked, by path in any layout and by digest.
    yanks: HashMap<(String, Sha256), String>,
}

impl Others {
    /// Reads those that are listed, in any layout. One that the set has too, by its
    /// name, is left to the upload.
    pub(super) fn read(
        listing: &mut Listing<'_>,
        set: &SetJson,
        layout: Layout,
        world: &World,
    ) -> Result<Self> {
        let place = listing.place;
        let known = &KnownFacts::read(place)?;
        let is_set = set.others() < set.files.len();
        for family in known.families() {
            listing.add(family.as_str())?;
        }
        let mut listed = place.listed_packages(layout, &listing.objects);
        // The index of a family lists what is for all families too, so only a name in two families
        // means two packages.
        let mut own: HashMap<&str, Vec<&str>> = HashMap::new();
        for file in &set.files {
            own.entry(file.name())
                .or_default()
                .push(family_of(&file.path));
        }
        listed.retain(|file| {
            let package = |text: &'_ str| text.strip_suffix(SIDECAR).unwrap_or(text).to_owned();
            // Packages of ours that no `set.json` lists are parts of an upload that is not complete,
            // or of an earlier set.
            let is_of_set = || !is_set && known.files.contains_key(&package(&file.path));
            let family = family_of(&file.path);
            let is_own = own.get(&*package(&file.name)).is_some_and(|families| {
                let mut families = families.iter();
                family.is_empty() || families.any(|it| it.is_empty() || *it == family)
            });
            !is_own && (is_of_others(&file.name) || is_of_set())
        });
        let yanks = known.files.values().filter_map(|file| {
            let of = (file.below().to_owned(), file.sha256);
            Some((of, file.yanked.clone()?))
        });
        let yanks = yanks.collect();
        if listed.is_empty() {
            return Ok(Self {
                yanks,
                ..Self::default()
            });
        }
        let reading = Reading {
            place,
            layouts: match layout {
                Layout::Dist => vec![Layout::Dist, Layout::Flat],
                Layout::Flat => vec![Layout::Flat, Layout::Dist],
            },
            known,
            at_once: REQUESTS,
            world,
            progress: &world.console.progress("Reading", place, None),
        };
        let read = reading.others(listed)?;
        let identity = Some(known.identity.clone());
        Ok(Self {
            files: read.files,
            identity: identity.filter(|it| !is_set && *it != Identity::default()),
            metadata: read.metadata.into_iter().collect(),
            yanks,
        })
    }

    /// Why a file of the new set is yanked: a yank belongs to the bytes, and not to the upload.
    pub(super) fn yank(&self, file: &SetFile) -> Option<String> {
        let of = (file.below().to_owned(), file.sha256);
        file.yanked.clone().or_else(|| self.yanks.get(&of).cloned())
    }

    /// The paths of the packages and of their sidecars.
    pub(super) fn paths(&self) -> HashSet<String> {
        let files = self.files.iter();
        let paths = files.flat_map(|file| [file.path.clone(), file.sidecar_path()]);
        paths.collect()
    }
}

/// The family in whose directory a package is; empty for a package of all families.
fn family_of(path: &str) -> &str {
    let (_, below) = Layout::of(path);
    below.rsplit_once('/').map_or("", |(family, _)| family)
}

/// The listed files and pages that do not belong to a set, sorted.
pub(super) fn strangers(items: &[Item], mut listed: Vec<String>) -> Vec<String> {
    let ours: HashSet<&str> = items.iter().map(|item| &*item.path).collect();
    // A server that keeps files lists the page of `simple/rocm/` as `simple/rocm`. SeaweedFS lists
    // it as `simple/rocm/rocm`.
    let has_page = |directory: &str| {
        let mut pages = ["index.html", "index.json"].iter();
        pages.any(|page| ours.contains(&*format!("{directory}/{page}")))
    };
    // Directories of other groups may be stored here too. Their files are not strangers.
    let is_of_a_set = |path: &str| match path.split_once('/') {
        Some((directory, _)) => ["dist", "simple"].contains(&directory),
        None => is_package(path.strip_suffix(SIDECAR).unwrap_or(path)),
    };
    listed.retain(|path| {
        let (directory, name) = path.rsplit_once('/').unwrap_or_default();
        let is_twice = directory.rsplit('/').next() == Some(name);
        let is_ours = ours.contains(&**path) || has_page(path);
        let is_twin = is_twice && has_page(directory);
        is_of_a_set(path) && !is_ours && !is_twin
    });
    listed.sort_unstable();
    listed
}
