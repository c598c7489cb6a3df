//! Publishes the packages of a directory with their index.

use std::fmt;

use serde::Serialize;

use super::{
    foreign::{Others, strangers},
    local::LocalSet,
    pages::Phase,
    place::SetPlace,
    set_json::{Identity, Layout, PART, SetFile, SetJson},
    split_projects,
    sync::{Changes, Existing, Guard, Item, Listing, Plan, Sync},
    urls::{Addresses, Urls},
};
use crate::{
    console::{World, many},
    error::{Context as _, Error, Result, one_line},
    store::{StoreError, StoreFailureKind},
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

/// A set that is published at a place.
struct Upload<'a> {
    local: &'a LocalSet,
    identity: &'a Identity,
    options: UploadOptions,
    /// Whether nothing is written. Without permission to list the destination, a dry run takes the destination
    /// as empty, and still says what would be written.
    is_dry_run: bool,
    world: &'a World,
}

/// Says what [`publish`] would do.
pub fn plan_upload(
    local: &LocalSet,
    identity: &Identity,
    destination: &SetPlace,
    options: UploadOptions,
    world: &World,
) -> Result<Plan> {
    let upload = Upload {
        local,
        identity,
        options,
        is_dry_run: true,
        world,
    };
    let sync = upload.sync(destination);
    Ok(sync.plan(|listing| upload.decide(listing))?.0)
}

/// Publishes a set, with the packages of other projects that the destination has.
pub fn publish(
    local: &LocalSet,
    identity: &Identity,
    destination: &SetPlace,
    options: UploadOptions,
    world: &World,
) -> Result<PublishedUpload> {
    let upload = Upload {
        local,
        identity,
        options,
        is_dry_run: false,
        world,
    };
    let sync = upload.sync(destination);
    let (done, (set, unknown)) = sync.run(|listing| upload.decide(listing))?;
    let total = many(done.written + done.unchanged, "object");
    let facts = format!(
        "{total} in {destination}, {} of them unchanged",
        done.unchanged
    );
    world.console.status("Published", facts);
    if set.others() > 0 {
        world.console.status("Listed", set.counted());
    }
    if let Some(first) = unknown.first() {
        let count = many(unknown.len(), "object");
        world.console.warn(format!(
            "{count} not listed by the index, such as `{first}`: remove them if they are of an earlier set"
        ));
    }
    let urls = destination.urls()?.in_layout(set.layout());
    Ok(PublishedUpload {
        schema: "rocwheel-upload-v1",
        addresses: Addresses::new(&urls, &set.families()),
        uploaded: done.written,
        linked: done.linked,
        unchanged: done.unchanged,
        set,
        urls,
    })
}

impl Upload<'_> {
    fn sync<'p>(&'p self, destination: &'p SetPlace) -> Sync<'p> {
        let (source, existing) = (&self.local.root, self.options.existing);
        Sync {
            layout: Some(self.options.layout),
            ..Sync::of_packages(destination, source, Guard::Packages, existing, self.world)
        }
    }

    /// What the destination has afterwards: the packages, their sidecars, and all pages, which list the packages
    /// that stay there too. Also returns the set with those, and the objects that belong to nothing.
    fn decide(&self, listing: &mut Listing<'_>) -> Result<(Changes, (SetJson, Vec<String>))> {
        let (local, options) = (self.local, self.options);
        let identity = self.identity.clone();
        let mut set = local.document.published(identity, options.layout)?;
        let others = self.look(listing, &set)?;
        let known = local.metadata.iter().chain(&others.metadata);
        split_projects::ensure_one_form(known.map(|(path, text)| (&**path, &**text)))?;
        let of_others = others.paths();
        for file in &mut set.files {
            file.yanked = others.yank(file);
        }
        let mut items = local.items(&set);
        let sidecars = others.metadata.into_iter();
        items.extend(sidecars.map(|(path, bytes)| Item {
            // A job may have replaced its package since the last upload. The sidecar then has to follow.
            replaces: true,
            ..Item::here(path, Phase::Sidecar, bytes)
        }));
        set.identity = others.identity.unwrap_or(set.identity);
        let set = set.with(others.files)?;
        if !options.is_part {
            items.extend(Item::pages(&set, World::jobs(), &self.world.stop)?);
        } else if set.identity.version.is_some() {
            // All parts of a set write the same `part.json`, so other bytes at the destination mean
            // another build, and are refused. Only a set that `build` described has a version. Other
            // packages may come from different runs in each upload, so their `part.json` files would
            // differ.
            let bytes = set.part().into_bytes();
            items.push(Item::here(PART.to_owned(), Phase::Sidecar, bytes));
        }
        // Of a part, the other files at the destination belong to the other parts.
        let mut unknown = Vec::new();
        if !options.is_part {
            let listed = listing.objects.keys();
            let listed = listed.filter(|path| !of_others.contains(*path)).cloned();
            unknown = strangers(&items, listed.collect());
        }
        let changes = Changes {
            items,
            unknown: unknown.clone(),
            ..Changes::default()
        };
        Ok((changes, (set, unknown)))
    }

    /// Lists the destination, and reads its packages that stay.
    fn look(&self, listing: &mut Listing<'_>, set: &SetJson) -> Result<Others> {
        let mut look = || -> Result<_> {
            listing.add_set()?;
            for family in set.families() {
                listing.add(family.as_str())?;
            }
            // A part has no pages, which would have to list them.
            if self.options.is_part {
                return Ok(Others::default());
            }
            Others::read(listing, set, self.options.layout, self.world)
        };
        match look() {
            Err(error) if self.is_dry_run && is_closed(&error) => {
                let why = one_line(&error);
                self.world.console.warn(format!(
                    "existing objects could not be listed, so everything counts as new: {why}"
                ));
                listing.forget();
                Ok(Others::default())
            }
            seen => seen.with_context(|| format!("failed to read `{}`", listing.place)),
        }
    }
}

impl LocalSet {
    /// The packages with their sidecars, and the documents beside them, as `set` names them: its files are those
    /// of this set, in the same order.
    fn items(&self, set: &SetJson) -> Vec<Item> {
        let files = self.document.files.iter().zip(&set.files);
        let mut items: Vec<Item> = files
            .flat_map(|(here, file)| self.package(here, file))
            .collect();
        let documents = self.documents.iter();
        items.extend(
            documents.map(|(path, text)| Item::here(path.clone(), Phase::Sidecar, text.as_bytes())),
        );
        items
    }

    /// A package and its sidecar, under the path of `to`.
    pub(super) fn package(&self, here: &SetFile, to: &SetFile) -> impl Iterator<Item = Item> {
        let stamp = self.stamps.get(&here.path).copied();
        let package = Item {
            copy: self.copies.get(&here.path).cloned(),
            ..Item::file(to, self.root.join(&here.path), stamp)
        };
        let bytes = self.metadata.get(&here.sidecar_path());
        let sidecar = bytes.map(|it| Item::here(to.sidecar_path(), Phase::Sidecar, it.as_slice()));
        [Some(package), sidecar].into_iter().flatten()
    }
}

/// Whether a place could not be read for lack of rights or of a network.
fn is_closed(error: &Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    causes.next().is_some_and(|failure: &StoreError| {
        matches!(
            failure.kind(),
            StoreFailureKind::Denied | StoreFailureKind::Unavailable
        )
    })
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
    pub set: SetJson,
    #[serde(skip)]
    pub urls: Urls,
}

impl fmt::Display for PublishedUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses.fmt(f)
    }
}
