//! Publishes a local set: compares it with the destination, writes it in phases and reads it back.

use std::{cmp::Reverse, fmt, sync::atomic::AtomicBool};

use serde::Serialize;

use super::{
    local::LocalSet,
    packages::Layout,
    pages::{Phase, document, pages},
    place::SetPlace,
    plan::{RemoteListing, UploadPlan},
    read::Watch,
    set_json::{Identity, PART, SetJson},
    urls::{Addresses, Urls},
    write::{Action, Before, Guard, Item, REQUESTS, Writer},
};
use crate::{
    console::{World, many, size},
    error::{Context as _, Error, Hint as _, No, Result, bail, one_line},
    parallel,
    store::{StoreError, StoreFailureKind},
};

/// Options of `rocwheel upload`.
#[derive(Clone, Copy, Debug)]
pub struct UploadOptions {
    /// Whether several machines build the set, and this one has some of its packages. No pages are
    /// written, because they would list only these packages.
    pub is_part: bool,
    /// Whether to replace existing files that have other bytes.
    pub overwrite: bool,
    /// Whether the plan is only printed. Without permission to list the destination, it then takes
    /// the destination as empty, and still says what would be written.
    pub is_dry_run: bool,
}

/// An upload that is decided but not started.
#[derive(Debug)]
pub struct PlannedUpload {
    pub plan: UploadPlan,
    destination: SetPlace,
    set: SetJson,
}

impl PlannedUpload {
    /// Plans the upload of a set: compares the local packages with the destination.
    pub fn plan(
        local: &LocalSet,
        identity: Identity,
        destination: SetPlace,
        options: UploadOptions,
        world: &World,
    ) -> Result<Self> {
        let set = SetJson::new(identity, &local.set, Layout::Dist);
        let mut items = items(local, &set, options.is_part);
        if !destination.directory_pages {
            items.retain(|item| !item.path.ends_with('/'));
        }
        let seen = match look(&destination, &items, world) {
            Err(error) if options.is_dry_run && is_closed(&error) => {
                let why = one_line(&error);
                world.console.warn(format!(
                    "existing objects could not be listed, so everything counts as new: {why}"
                ));
                RemoteListing::default()
            }
            seen => seen.with_context(|| format!("failed to read `{destination}`"))?,
        };
        let mut plan = UploadPlan::new(destination.to_string(), items, seen, options.overwrite);
        if options.is_part {
            // The other files at the destination belong to the other parts.
            plan.strangers.clear();
        }
        Ok(Self {
            plan,
            destination,
            set,
        })
    }

    /// Writes everything, reads it back, and returns the addresses of the published set.
    ///
    /// A phase begins only when the one before it is complete, so that readers, who may come at any
    /// time, never follow a link to a missing file. The root pages are written one after the other
    /// in the order of the plan. `set.json` is the last one, and says that the set is complete, so
    /// everything else is read back before.
    pub fn carry_out(self, world: &World) -> Result<PublishedUpload> {
        let (plan, set) = (self.plan, self.set);
        if let Some(refusal) = plan.refusal() {
            let hint = "build under another version, or pass `--overwrite` to replace the files";
            return Err(refusal).hint(hint);
        }
        let to = &plan.destination;
        let writer = Writer {
            to: &self.destination,
            guard: Guard::Packages,
            watch: Watch {
                stop: &world.stop,
                progress: &world.console.progress("Uploading", to, plan.size()),
            },
            overtaken: AtomicBool::new(false),
        };
        let (mut uploaded, mut lost) = (0, Vec::new());
        let mut verify = |actions: &[(Item, Action)]| -> Result<()> {
            let read = writer.verify(actions.iter().map(|(item, _)| item));
            lost.extend(
                read.with_context(|| format!("failed to check what was uploaded to `{to}`"))?,
            );
            Ok(())
        };
        let is_document = |(item, _): &(Item, Action)| item.phase == Phase::Whole;
        for actions in plan
            .actions
            .chunk_by(|a, b| is_document(a) == is_document(b))
        {
            for phase in actions.chunk_by(|(a, _), (b, _)| a.phase == b.phase) {
                uploaded += write(phase, &writer, world)
                    .with_context(|| format!("failed to upload to `{to}`"))?;
            }
            verify(actions)?;
        }
        writer.warn(&lost, &world.console)?;
        let unchanged = plan.actions.len() - uploaded;
        tell(&plan, unchanged, world);
        let urls = self.destination.urls()?;
        Ok(PublishedUpload {
            schema: "rocwheel-upload-v1",
            addresses: Addresses::new(&urls, &set.families()),
            uploaded,
            unchanged,
            set,
            urls,
        })
    }
}

/// The objects of a set: its packages, their sidecars, and all pages.
fn items(local: &LocalSet, set: &SetJson, is_part: bool) -> Vec<Item> {
    let (packages, layout) = (&local.set, Layout::Dist);
    let mut items = Vec::new();
    for file in packages.files() {
        items.push(Item::file(file, layout, local.path(file)));
        let sidecar = |bytes| Item::here(file.sidecar_path(layout), Phase::Sidecar, bytes);
        items.extend(local.metadata(file).map(sidecar));
    }
    if !is_part {
        let views = packages.views();
        items.extend(pages(packages, &views, layout).iter().flat_map(Item::page));
        items.extend(Item::page(&document(set)));
    } else if set.identity.version.is_some() {
        // All parts of a set write the same `part.json`, so other bytes at the destination mean
        // another build, and are refused. Only a set that `build` described has a version. Other
        // packages may come from different runs in each upload, so their `part.json` files would
        // differ.
        let bytes = set.part().into_bytes();
        items.push(Item::here(PART.to_owned(), Phase::Sidecar, bytes));
    }
    items
}

/// Finds the objects that the destination already has.
fn look(destination: &SetPlace, items: &[Item], world: &World) -> Result<RemoteListing> {
    let before = Before::list(destination, vec!["dist/".into(), "simple/".into()])?;
    let mut seen = RemoteListing::default();
    let find = |item: &Item| before.find(destination, item);
    parallel::try_each(items, REQUESTS, &world.stop, find, |item, there| {
        seen.there
            .extend(there.map(|there| (item.path.clone(), there)));
    })?;
    // Directories of other groups may be stored here too. Their files are not strangers.
    let listed = before.objects.into_keys();
    seen.paths = listed.filter(|path| path.contains('/')).collect();
    Ok(seen)
}

fn is_closed(error: &Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    causes.next().is_some_and(|failure: &StoreError| {
        matches!(
            failure.kind(),
            StoreFailureKind::Denied | StoreFailureKind::Unavailable
        )
    })
}

/// Writes one phase. Returns the number of objects that had to be written.
fn write(phase: &[(Item, Action)], writer: &Writer<'_>, world: &World) -> Result<usize> {
    let mut uploaded = 0;
    let mut done = |item: &Item, is_written: bool| {
        let verb = if is_written { "Uploaded" } else { "Unchanged" };
        uploaded += usize::from(is_written);
        if item.phase == Phase::File {
            let facts = format!("{}: {}", item.path, size(item.size));
            world.console.status(verb, facts);
        } else {
            world.console.debug(format!("{verb} {}", item.path));
        }
    };
    let act = |(item, action): &(Item, Action)| match action {
        Action::Same => Ok(false),
        Action::Refuse(there) => bail!(No(item.conflict(there))),
        action => {
            let written = writer.write(item, action);
            written.with_context(|| format!("failed to upload `{}`", item.path))
        }
    };
    if phase.iter().any(|(item, _)| item.phase >= Phase::Root) {
        for action in phase {
            world.stop.check()?;
            done(&action.0, act(action)?);
        }
    } else {
        // The largest first. A large file that starts last would upload alone at the end.
        let mut phase: Vec<&(Item, Action)> = phase.iter().collect();
        phase.sort_by_key(|(item, _)| Reverse(item.size));
        let act = |action: &&(Item, Action)| act(action);
        parallel::try_each(
            &phase,
            REQUESTS,
            &world.stop,
            act,
            |(item, _), is_written| {
                done(item, is_written);
            },
        )?;
    }
    Ok(uploaded)
}

fn tell(plan: &UploadPlan, unchanged: usize, world: &World) {
    let (total, to) = (many(plan.actions.len(), "object"), &plan.destination);
    let facts = format!("{total} in {to}, {unchanged} of them unchanged");
    world.console.status("Published", facts);
    if let Some(first) = plan.strangers.first() {
        let count = many(plan.strangers.len(), "object");
        world.console.warn(format!(
            "{count} not listed by the index, such as `{first}`"
        ));
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
