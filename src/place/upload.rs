//! Publishes the packages of a directory with their index.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use bytes::Bytes;
use itertools::Itertools as _;
use serde::Serialize;

use super::{
    earlier_set::{EarlierSet, leftovers},
    local::LocalSet,
    read_packages::{KnownFacts, ReadFacts, Reading},
    set_place::SetPlace,
    stored_package::{each_once, state_among},
    sync::{Changes, Existing, Guard, Item, Listing, Plan, Sync},
    variants_of_others::keep_variants_of_others,
};
use crate::{
    console::World,
    index::{
        Addresses, Layout, Urls,
        package_file::{PackageFile, SIDECAR, is_of_others, is_ours, is_package},
        pages::Phase,
        projects,
        set_json::{Identity, PART, SetJson},
    },
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Hint as _, No, Result, anyhow},
    quantity::many,
};

/// Options of `rocwheel upload`.
#[derive(Clone, Copy, Debug)]
pub struct UploadOptions {
    /// Whether several machines build the set, and this one has some of its packages. No pages are
    /// written, because they would list only these packages.
    pub is_part: bool,
    /// Where the files go.
    pub layout: Layout,
    /// What happens to files that have other bytes.
    pub existing: Existing,
}

/// A set that is published at a place, with the packages of other projects that the place has.
#[derive(Clone, Copy)]
pub struct Upload<'a> {
    pub set: &'a LocalSet,
    pub identity: &'a Identity,
    pub place: &'a SetPlace,
    pub options: UploadOptions,
    pub world: &'a World,
}

impl Upload<'_> {
    /// What [`Upload::publish`] would do.
    pub fn plan(&self) -> Result<Plan> {
        Ok(self.sync().plan(|listing| self.decide(listing))?.0)
    }

    /// Publishes the set.
    pub fn publish(&self) -> Result<PublishedUpload> {
        let place = self.place;
        let console = &self.world.console;
        let (done, set) = self.sync().run(|listing| self.decide(listing))?;
        place.tidy(&done.removed);
        let total = many(done.written + done.unchanged, "object");
        let facts = format!("{total} in {place}, {} of them unchanged", done.unchanged);
        console.status("Published", facts);
        if set.others() > 0 {
            console.status("Listed", set.counted());
        }
        let urls = place.urls()?.in_layout(set.layout());
        let listed = done.listed.unwrap_or_default();
        let state = state_among(&listed, Some(&set)).filter(|_| {
            let layouts = [Layout::Dist, Layout::Flat];
            let files = place.files_among(&layouts, &listed).into_iter();
            let packages = files.filter(|file| is_package(&file.name)).map(|file| file.path);
            packages.sorted().eq(set.files.iter().map(|file| file.path.clone()).sorted())
        });
        Ok(PublishedUpload {
            state,
            schema: "rocwheel-upload-v1",
            addresses: Addresses::new(&urls, &set.families()),
            uploaded: done.written,
            linked: done.linked,
            unchanged: done.unchanged,
            set,
            urls,
        })
    }

    fn sync(&self) -> Sync<'_> {
        let source = &self.set.root;
        let existing = self.options.existing;
        Sync::of_packages(self.place, source, Guard::Packages, existing, self.world)
    }

    /// What the destination has afterwards: the packages, their sidecars, and all pages, which list the packages
    /// that stay there too. Also returns the set with those.
    fn decide(&self, listing: &mut Listing<'_>) -> Result<(Changes, SetJson)> {
        let code = self.identity.foreign_code.as_ref();
        self.place.ensure_takes(code)?;
        let local = self.set;
        let options = self.options;
        let files = local.document.in_layout(options.layout)?.files;
        let mut set = SetJson::new(self.identity.clone(), files)?;
        let reading = || format!("failed to read `{}`", self.place);
        let known = self.look(listing, &set).with_context(reading)?;
        let earlier =
            EarlierSet { place: self.place, known: &known, new: &set, existing: options.existing };
        let is_replaced = earlier.is_replaced(listing, options.is_part)?;
        // A part has no pages, which would have to list them.
        let others = if options.is_part {
            Others::default()
        } else {
            Others::read(listing, &set, options.layout, &known, self.world).with_context(reading)?
        };
        let of_others = others.metadata.iter();
        projects::ensure_one_form(local.metadata().chain(of_others.map(|it| (&**it.0, &**it.1))))?;
        let mut items = local.items(&set);
        for item in &mut items {
            item.replaces = is_replaced && !is_of_others(&item.path)
                || earlier.is_of_earlier_attempt(item.package());
        }
        for file in &mut set.files {
            file.yanked = others.yank(file);
            let is_of_others = !is_ours(&file.project) && self.place.run_place().is_some();
            file.run_attempt = self.identity.run_attempt.filter(|_| is_of_others);
        }
        let sidecars = others.metadata.into_iter();
        items.extend(sidecars.map(|(path, bytes)| Item {
            // A job may have replaced its package since the last upload. The sidecar then has to follow.
            replaces: true,
            ..Item::here(path + SIDECAR, Phase::Sidecar, bytes)
        }));
        set.identity = others.identity.unwrap_or(set.identity);
        if !is_replaced {
            // The same set again, from a process that is no part of the run.
            set.identity.run_attempt = set.identity.run_attempt.or(known.identity.run_attempt);
        }
        let mut set = set.with(others.files)?;
        ensure_one_rocm(&set, self.place)?;
        keep_variants_of_others(&mut set, &known, listing, self.world)?;
        if !options.is_part {
            let address = self.place.public_urls();
            items.extend(Item::pages(&set, address, listing, World::jobs(), &self.world.stop)?);
        } else if set.identity.version.is_some() {
            // All parts of a set write the same `part.json`, so other bytes at the destination mean
            // another build, and are refused. Only a set that `build` described has a version. Other
            // packages may come from different runs in each upload, so their `part.json` files would
            // differ.
            let bytes = set.part().into_bytes();
            let before = known.identity.run_attempt;
            items.push(Item {
                replaces: is_replaced && before < set.identity.run_attempt,
                ..Item::here(PART.to_owned(), Phase::Sidecar, bytes)
            });
        }
        let removed = if is_replaced && !options.is_part {
            leftovers(&known, listing, &items, self.world)?
        } else {
            Vec::new()
        };
        // The new set may have them in the other layout, with other bytes.
        for removal in &removed {
            listing.objects.remove(&removal.path);
        }
        let packages = set.files.clone();
        Ok((Changes { items, removed, packages }, set))
    }

    /// Lists the destination, and reads what its documents say.
    fn look(&self, listing: &mut Listing<'_>, set: &SetJson) -> Result<KnownFacts> {
        listing.add_set()?;
        let known = KnownFacts::read(self.place, Some(listing))?;
        for family in set.families().into_iter().chain(known.families()) {
            listing.add(family.as_str())?;
        }
        Ok(known)
    }
}

impl LocalSet {
    /// The METADATA of each wheel, by its path.
    pub(super) fn metadata(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let facts = self.facts.iter();
        facts.filter_map(|(path, facts)| Some((&**path, &**facts.sidecar()?)))
    }

    /// The packages with their sidecars, and the record beside them, as `set` names them: its files are those
    /// of this set, in the same order.
    fn items(&self, set: &SetJson) -> Vec<Item> {
        let files = self.document.files.iter().zip(&set.files);
        let mut items: Vec<Item> =
            files.flat_map(|(here, file)| self.package(here, file)).collect();
        let record = self.record.iter();
        items.extend(record.map(|it| Item::here(it.path.clone(), Phase::Sidecar, it.text.clone())));
        items
    }

    /// A package and its sidecar, under the path of `to`.
    pub(super) fn package(
        &self,
        here: &PackageFile,
        to: &PackageFile,
    ) -> impl Iterator<Item = Item> {
        let facts = self.facts.get(&here.path);
        let identity = facts.and_then(|it| it.identity);
        let package = Item {
            copy: self.copies.get(&here.path).cloned(),
            ..Item::file(to, self.root.join(&here.path), identity)
        };
        let bytes = facts.and_then(ReadFacts::sidecar).cloned();
        let sidecar = bytes.map(|it| Item::here(to.sidecar_path(), Phase::Sidecar, it));
        [Some(package), sidecar].into_iter().flatten()
    }
}

/// The result of an upload that was read back.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PublishedUpload {
    schema: &'static str,
    #[serde(flatten)]
    addresses: Addresses,
    /// The number of objects written: packages, sidecars, and pages under each of their keys.
    pub uploaded: usize,
    /// How many of them are hard links to the packages.
    linked: usize,
    pub unchanged: usize,
    /// See [`SetPlace::state_in_bucket`]. `None` if the place has other packages than the set.
    #[serde(skip)]
    pub state: Option<Sha256>,
    pub set: SetJson,
    #[serde(skip)]
    pub urls: Urls,
}

impl fmt::Display for PublishedUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses.fmt(f)
    }
}

/// The packages at the destination of an upload that stay. Jobs that build on ROCm add theirs to the
/// place of its packages. The index of a new set lists the packages of other projects too, and that
/// of an upload of such packages also the set.
#[derive(Debug, Default)]
struct Others {
    files: Vec<PackageFile>,
    /// What `set.json` says of the set that stays.
    identity: Option<Identity>,
    /// The METADATA of wheels, by the paths of the wheels.
    metadata: BTreeMap<String, Bytes>,
    /// Why files of the set that is there are yanked, by path in any layout and by digest.
    yanks: HashMap<(String, Sha256), String>,
}

impl Others {
    /// Reads those that are listed, in any layout. One that the set has too, by its
    /// name, is left to the upload.
    fn read(
        listing: &Listing<'_>,
        set: &SetJson,
        layout: Layout,
        known: &KnownFacts,
        world: &World,
    ) -> Result<Self> {
        let place = listing.place;
        let is_set = set.others() < set.files.len();
        let files = place.files_among(&[Layout::Dist, Layout::Flat], &listing.objects);
        let mut listed = each_once(files, layout);
        // The index of a family lists what is for all families too, so only a name in two families
        // means two packages.
        let mut families_of: HashMap<&str, Vec<&str>> = HashMap::new();
        for file in &set.files {
            families_of.entry(file.name()).or_default().push(family_of(&file.path));
        }
        listed.retain(|file| {
            let package = |text: &'_ str| text.strip_suffix(SIDECAR).unwrap_or(text).to_owned();
            // Packages of ours that no `set.json` lists are parts of an upload that is not complete,
            // or of an earlier set.
            let is_of_set = || !is_set && known.files.contains_key(&package(&file.path));
            let family = family_of(&file.path);
            let is_in_new_set = families_of.get(&*package(&file.name)).is_some_and(|families| {
                family.is_empty() || families.iter().any(|it| it.is_empty() || *it == family)
            });
            !is_in_new_set && (is_of_others(&file.name) || is_of_set())
        });
        let yanked_files = known.files.values().filter_map(|file| {
            let of = (file.below().to_owned(), file.sha256);
            Some((of, file.yanked.clone()?))
        });
        let yanks = yanked_files.collect();
        if !listed.iter().any(|it| is_package(&it.name)) {
            return Ok(Self { yanks, ..Self::default() });
        }
        let reading = Reading {
            place,
            layouts: match layout {
                Layout::Dist => vec![Layout::Dist, Layout::Flat],
                Layout::Flat => vec![Layout::Flat, Layout::Dist],
            },
            known,
            at_once: place.requests(),
            world,
            progress: &world.console.progress("Reading", place, None),
        };
        let read = reading.run(listed)?;
        let sidecars = read
            .facts
            .into_iter()
            .filter_map(|(path, facts)| Some((path, facts.sidecar()?.clone())));
        let identity = Some(known.identity.clone());
        Ok(Self {
            files: read.files,
            identity: identity.filter(|it| !is_set && *it != Identity::default()),
            metadata: sidecars.collect(),
            yanks,
        })
    }

    /// Why a file of the new set is yanked: a yank belongs to the bytes, and not to the upload.
    fn yank(&self, file: &PackageFile) -> Option<String> {
        let of = (file.below().to_owned(), file.sha256);
        file.yanked.clone().or_else(|| self.yanks.get(&of).cloned())
    }
}

/// Fails if a package of others has ROCm in it, and another project at the place brings ROCm too: each one would overwrite
/// the files of the other in an environment.
fn ensure_one_rocm(set: &SetJson, place: &SetPlace) -> Result<()> {
    let Some(bundling) = set.files.iter().find(|file| file.has_rocm) else {
        return Ok(());
    };
    let brings_rocm = |file: &&PackageFile| is_ours(&file.project) || file.has_rocm;
    let mut others = set.files.iter().filter(|file| file.project != bundling.project);
    let Some(other) = others.find(brings_rocm) else {
        return Ok(());
    };
    let bundling = bundling.name();
    let other = other.name();
    let refusal = format!(
        "`{bundling}` has ROCm in it, and `{place}` would have `{other}` beside it, with the same files"
    );
    Err(anyhow!(No(refusal)))
        .hint(format!("publish `{bundling}` at a place without other packages of ROCm"))
}

/// The family in whose directory a package is; empty for a package of all families.
fn family_of(path: &str) -> &str {
    let (_, below) = Layout::of(path);
    below.rsplit_once('/').map_or("", |(family, _)| family)
}
