//! Publishes a set: `plan` decides what to write, `execute` writes it and reads it back.

mod execute;
mod plan;

use std::fmt;

use serde::Serialize;

use super::{LocalSet, SetPlace};
use crate::{
    console::{World, many, size},
    error::{Context as _, Hint as _, Result, Stop},
    index::{Addresses, Identity, IndexPage, Layout, SetJson, Urls, pages},
};

pub use execute::{Outcome, look, verify, write};
pub use plan::{
    Bytes, ExistingObject, Item, Others, Phase, RemoteListing, UploadPlan, UploadReason,
};

/// Whether the local packages are a whole set or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadExtent {
    Whole,
    /// Several machines build the set, and this one has some of its packages. No pages are written,
    /// because they would list only these packages.
    Part,
}

/// An upload that is decided but not started.
#[derive(Debug)]
pub struct PlannedUpload {
    pub plan: UploadPlan,
    destination: SetPlace,
    pages: Vec<IndexPage>,
    set: SetJson,
}

impl PlannedUpload {
    /// Plans the upload of a whole set: compares the local packages with the destination.
    pub fn plan(
        local: &LocalSet,
        identity: Identity,
        destination: SetPlace,
        others: Others,
        stop: &Stop,
    ) -> Result<Self> {
        let look = |destination: &_, items: &_| look(destination, items, stop);
        Self::decide(
            local,
            identity,
            destination,
            others,
            UploadExtent::Whole,
            look,
        )
    }

    pub fn decide(
        local: &LocalSet,
        identity: Identity,
        destination: SetPlace,
        others: Others,
        extent: UploadExtent,
        look: impl FnOnce(&SetPlace, &[Item]) -> Result<RemoteListing>,
    ) -> Result<Self> {
        let (packages, layout) = (&local.set, Layout::Dist);
        let set = SetJson::new(identity, packages, layout);
        let mut pages = match extent {
            UploadExtent::Whole => pages(packages, layout),
            UploadExtent::Part => Vec::new(),
        };
        if extent == UploadExtent::Whole {
            // `set.json` has to be the last page: readers take a set that has it as complete.
            pages.push(set.page());
        }
        let mut items = Vec::new();
        for file in packages.files() {
            items.push(Item::file(file, layout, local.path(file)));
            let metadata = local.metadata(file);
            items.extend(metadata.map(|bytes| Item::sidecar(file, layout, bytes)));
        }
        items.extend(pages.iter().flat_map(Item::page));
        if !destination.has_directory_pages() {
            items.retain(|item| !item.path.ends_with('/'));
        }
        // Only a set that `build` described has a version. Other packages may come from different
        // runs in each upload, so their `part.json` files would differ and be refused.
        if extent == UploadExtent::Part && set.identity.version.is_some() {
            items.push(Item::part(&set.part()));
        }
        let shown = destination.to_string();
        let seen =
            look(&destination, &items).with_context(|| format!("failed to read `{shown}`"))?;
        let mut plan = UploadPlan::new(shown, items, &seen, others);
        if extent == UploadExtent::Part {
            // The other files at the destination belong to the other parts.
            plan.strangers.clear();
        }
        Ok(Self {
            plan,
            destination,
            pages,
            set,
        })
    }

    /// Writes everything, reads it back, and returns the addresses of the published set.
    pub fn carry_out(self, world: &World) -> Result<PublishedUpload> {
        let Self {
            plan,
            destination,
            pages,
            set,
        } = self;
        if let Some(refusal) = plan.refusal() {
            let hint = "build under another version, or pass `--overwrite` to replace the files";
            return Err(refusal).hint(hint);
        }
        let shown = destination.to_string();
        let mut tally = Tally::default();
        write(&plan, &destination, world, &mut |item, outcome| {
            tally.count(item, outcome, world);
        })
        .with_context(|| format!("failed to upload to `{shown}`"))?;
        let lost = verify(&plan, &pages, &destination, &world.stop)
            .with_context(|| format!("failed to check what was uploaded to `{shown}`"))?;
        let urls = destination.urls()?;
        if let Some(path) = lost.first() {
            let (key, url) = (destination.key(path)?, urls.find_links());
            world.console.warn(format!(
                "this server drops the pages of directories, such as `{key}`: install with `--find-links {url}`"
            ));
        }
        tally.tell(&plan, world);
        Ok(PublishedUpload {
            schema: "rocwheel-upload-v1",
            addresses: Addresses::new(&urls, &set.families()),
            uploaded: tally.uploaded,
            unchanged: tally.unchanged,
            set,
            urls,
        })
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

#[derive(Default)]
struct Tally {
    uploaded: usize,
    unchanged: usize,
}

impl Tally {
    fn count(&mut self, item: &Item, outcome: Outcome, world: &World) {
        let verb = match outcome {
            Outcome::Uploaded => {
                self.uploaded += 1;
                "Uploaded"
            }
            Outcome::Unchanged => {
                self.unchanged += 1;
                "Unchanged"
            }
        };
        if item.phase == Phase::File {
            world
                .console
                .status(verb, format!("{}: {}", item.path, size(item.size)));
        } else {
            world.console.debug(format!("{verb} {}", item.path));
        }
    }

    fn tell(&self, plan: &UploadPlan, world: &World) {
        let total = many(plan.actions.len(), "object");
        let unchanged = self.unchanged;
        world.console.status(
            "Published",
            format!(
                "{total} in {}, {unchanged} of them unchanged",
                plan.destination
            ),
        );
        if let Some(first) = plan.strangers.first() {
            let count = many(plan.strangers.len(), "object");
            world.console.warn(format!(
                "{count} not listed by the index, such as `{first}`"
            ));
        }
    }
}
