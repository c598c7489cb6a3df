//! [`LocalSet`]: the packages of a local directory and their metadata. Publishes them: compares them
//! with the destination, writes them in phases and reads them back.

use std::{
    fmt,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{
    items::{Action, Before, Item, ItemBytes},
    local::{LocalSet, because},
    others::{Others, keep_sidecars, strangers},
    pages::{Phase, content_type},
    place::SetPlace,
    set_json::{Identity, Layout, PART, SetJson},
    split_projects,
    urls::{Addresses, Urls},
    write::{Guard, WriteOutcome, Writer},
};
use crate::{
    console::{World, many, size},
    error::{Context as _, Error, Hint as _, No, Result, anyhow, one_line},
    package::assemble::UnchangedPackages,
    store::{StoreError, StoreFailureKind},
};

/// Attempts before giving up, if other jobs publish there each time.
const ATTEMPTS: u32 = 5;
/// The most files that an error names.
const MOST_REFUSED: usize = 10;

/// Options of `rocwheel upload`.
#[derive(Clone, Copy, Debug)]
pub struct UploadOptions {
    /// Whether several machines build the set, and this one has some of its packages. No pages are
    /// written, because they would list only these packages.
    pub is_part: bool,
    /// Where the files go.
    pub layout: Layout,
    /// Whether to replace existing files that have other bytes.
    pub overwrite: bool,
    /// Whether the plan is only printed. Without permission to list the destination, it then takes
    /// the destination as empty, and still says what would be written.
    pub is_dry_run: bool,
}

/// Plans an upload and carries it out. If another job publishes at the same place meanwhile, plans
/// again, with the packages of that job.
pub fn publish(
    local: &LocalSet,
    identity: &Identity,
    destination: &SetPlace,
    options: UploadOptions,
    world: &World,
) -> Result<PublishedUpload> {
    let files = local.root.join(local.document.layout().files());
    // A hard link changes the `ctime` of a package, and then the memory of the build is not used any
    // more. So compare the packages with it before the first is linked, and renew it afterwards.
    let links = destination.is_on_disk_of(&local.root);
    let known = links.then(|| UnchangedPackages::read(&files));
    let mut linked: Vec<PathBuf> = Vec::new();
    let attempt = || {
        let plan = PlannedUpload::plan(local, identity.clone(), destination, options, world)?;
        plan.carry_out(&mut linked, world)
    };
    let published = until_published(attempt, destination, world);
    // Also after an attempt that failed or was overtaken: what it has linked stays linked.
    let linked = linked.iter();
    let linked = linked.filter_map(|file| file.strip_prefix(&files).ok()?.to_str());
    let linked: Vec<String> = linked.map(|path| path.replace('\\', "/")).collect();
    if let Some(Err(error)) = known.map(|known| known.renew(&linked)) {
        let why = one_line(&error);
        let text = format!("the next command reads the packages again: {why}");
        world.console.warn(text);
    }
    published
}

/// Tries to publish until no other job has published at the same place meanwhile.
pub(super) fn until_published<T>(
    mut attempt: impl FnMut() -> Result<Option<T>>,
    destination: &SetPlace,
    world: &World,
) -> Result<T> {
    for _ in 0..ATTEMPTS {
        if let Some(published) = attempt()? {
            return Ok(published);
        }
        let note = "another job published at the same place meanwhile: planning again";
        world.console.note(note);
    }
    let text =
        format!("other jobs published meanwhile in all {ATTEMPTS} attempts: `{destination}`");
    Err(anyhow!(No(text))).hint("repeat the upload when they are done")
}

/// An upload that is decided but not started.
#[derive(Debug)]
pub struct PlannedUpload<'a> {
    destination: &'a SetPlace,
    /// The layout of the packages that are uploaded.
    layout: Layout,
    /// With the packages of other projects that the destination has.
    set: SetJson,
    /// Everything that the upload does, in order.
    actions: Vec<(Item, Action)>,
    /// Whether packages are linked: the destination is a directory on the same disk.
    links: bool,
    /// Existing files and pages that do not belong to this set. They stay.
    strangers: Vec<String>,
    guard: Guard,
}

impl<'a> PlannedUpload<'a> {
    /// Plans the upload of a set: compares the local packages with the destination.
    pub fn plan(
        local: &LocalSet,
        identity: Identity,
        destination: &'a SetPlace,
        options: UploadOptions,
        world: &World,
    ) -> Result<Self> {
        let set = local.document.published(identity, options.layout)?;
        let links = destination.is_on_disk_of(&local.root);
        let (mut before, others) = look(destination, &set, options, world)?;
        if let Some(before) = &mut before {
            before.links = links;
        }
        let known = local.metadata.iter().chain(&others.metadata);
        split_projects::ensure_one_form(known.map(|(path, text)| (&**path, &**text)))?;
        let of_others = others.paths();
        let (set, mut items) = items(local, set, others, options.is_part, world)?;
        items.retain(|item| destination.directory_pages || !item.path.ends_with('/'));
        items.sort_by_key(|item| item.phase);
        let (actions, listed) = match before {
            None => (vec![Action::New; items.len()], Vec::new()),
            Some(before) => {
                let actions = before.actions(&items, options.overwrite, &world.stop);
                let mut actions =
                    actions.with_context(|| format!("failed to read `{destination}`"))?;
                keep_sidecars(&of_others, &items, &mut actions);
                let listed = before.objects.into_keys();
                let listed = listed.filter(|path| !of_others.contains(path));
                (actions, listed.collect())
            }
        };
        // Of a part, the other files at the destination belong to the other parts.
        let strangers = if options.is_part {
            Vec::new()
        } else {
            strangers(&items, listed)
        };
        Ok(Self {
            destination,
            layout: options.layout,
            set,
            actions: items.into_iter().zip(actions).collect(),
            links,
            strangers,
            guard: Guard::Packages,
        })
    }

    /// A plan of objects that are decided already.
    pub(super) fn of(
        destination: &'a SetPlace,
        set: SetJson,
        actions: Vec<(Item, Action)>,
        (options, guard): (UploadOptions, Guard),
    ) -> Self {
        Self {
            destination,
            layout: options.layout,
            set,
            actions,
            links: false,
            strangers: Vec::new(),
            guard,
        }
    }

    /// Writes everything, reads it back, and returns the addresses of the published set. `None` if
    /// another job wrote `set.json` meanwhile: the pages lack its packages. Adds the packages that
    /// were linked to `linked_files`, even if a later step fails.
    pub(super) fn carry_out(
        self,
        linked_files: &mut Vec<PathBuf>,
        world: &World,
    ) -> Result<Option<PublishedUpload>> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal).hint(self.way_out());
        }
        let to = self.destination;
        let written = self.actions.iter().filter(|(_, it)| it.is_written());
        let sizes: Vec<u64> = written.map(|(item, _)| item.size).collect();
        if !sizes.is_empty() {
            to.store.ensure_writable()?;
        }
        let (objects, size_of_all) = (self.actions.len(), sizes.iter().sum());
        let writer = Writer {
            to,
            guard: self.guard,
            world,
            progress: (world.console).progress_in_parts("Uploading", to, objects, size_of_all),
            layout: (self.guard == Guard::Packages).then(|| self.set.layout()),
            overtaken: AtomicBool::new(false),
        };
        let (mut uploaded, mut linked) = (0, Vec::new());
        let done = |item: &Item, outcome| {
            let verb = match outcome {
                WriteOutcome::Unchanged => "Unchanged",
                WriteOutcome::Written => "Uploaded",
                WriteOutcome::Linked => "Linked",
                WriteOutcome::Copied => "Copied",
            };
            uploaded += usize::from(outcome != WriteOutcome::Unchanged);
            writer.progress.finish_part();
            if let (WriteOutcome::Linked, ItemBytes::OnDisk(path, _)) = (outcome, &item.bytes) {
                linked.push(item.size);
                linked_files.push(path.clone());
            }
            if item.phase == Phase::File && outcome != WriteOutcome::Linked {
                let facts = format!("{}: {}", item.path, size(item.size));
                world.console.item(verb, facts);
            } else {
                world.console.debug(format!("{verb} {}", item.path));
            }
        };
        let written = writer.carry_out(&self.actions, done);
        if written.is_err() && writer.overtaken.load(Ordering::Relaxed) {
            return Ok(None);
        }
        written.with_context(|| format!("failed to upload to `{to}`"))?;
        if !linked.is_empty() {
            let bytes = linked.iter().sum();
            let facts = format!("{} ({})", many(linked.len(), "package"), size(bytes));
            world.console.status("Linked", facts);
        }
        let (total, unchanged) = (self.actions.len(), self.actions.len() - uploaded);
        let total = many(total, "object");
        let facts = format!("{total} in {to}, {unchanged} of them unchanged");
        world.console.status("Published", facts);
        if self.set.others() > 0 {
            world.console.status("Listed", self.set.counted());
        }
        if let Some(first) = self.strangers.first() {
            let count = many(self.strangers.len(), "object");
            world.console.warn(format!(
                "{count} not listed by the index, such as `{first}`: remove them if they are of an earlier set"
            ));
        }
        let urls = to.urls()?.in_layout(self.set.layout());
        Ok(Some(PublishedUpload {
            schema: "rocwheel-upload-v1",
            addresses: Addresses::new(&urls, &self.set.families()),
            uploaded,
            linked: linked.len(),
            unchanged,
            set: self.set,
            urls,
        }))
    }

    /// Whether an object will be a hard link to a package, if the file system allows it.
    fn is_link(&self, item: &Item, action: &Action) -> bool {
        self.links && action.is_written() && item.is_proven_file()
    }

    /// What to do about files that exist with other bytes.
    fn way_out(&self) -> String {
        let mut actions = self.actions.iter();
        let is_twin = actions
            .any(|(_, action)| matches!(action, Action::Refuse(there) if there.twin.is_some()));
        if !is_twin {
            return "build under another version, or pass `--overwrite` to replace the files"
                .into();
        }
        let other = match self.layout {
            Layout::Dist => Layout::Flat,
            Layout::Flat => Layout::Dist,
        };
        format!(
            "build under another version, or replace the files there with `--layout {other} --overwrite`"
        )
    }

    /// The error for files that exist with other bytes, with one cause for each of them.
    fn refusal(&self) -> Option<Error> {
        let refused = self
            .actions
            .iter()
            .filter_map(|(item, action)| match action {
                Action::Refuse(there) => Some(item.conflict(there)),
                _ => None,
            });
        let mut lines: Vec<String> = refused.collect();
        let count = lines.len();
        let noun = if count == 1 { "file is" } else { "files are" };
        if count > MOST_REFUSED {
            lines.truncate(MOST_REFUSED);
            lines.push(format!("and {} more", count - MOST_REFUSED));
        }
        let headline = format!(
            "{count} {noun} in `{}` already, with other bytes; nothing was changed",
            self.destination
        );
        because(headline, lines)
    }
}

impl Serialize for PlannedUpload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let actions = self.actions.iter().map(|(item, action)| {
            let mut object = json!({
                "action": action.to_string(),
                "path": item.path,
                "size": item.size,
                "sha256": item.sha256,
                "content-type": content_type(&item.path),
                "cache-control": item.cache_control(),
            });
            if self.is_link(item, action) {
                object["link"] = json!(true);
            }
            if let Action::Replace(there) | Action::Refuse(there) = action {
                object["there"] = json!({ "size": there.size, "sha256": there.sha256 });
                if let Some(path) = &there.twin {
                    object["there"]["path"] = json!(path);
                }
            }
            object
        });
        let plan = json!({
            "schema": "rocwheel-upload-plan-v1",
            "destination": self.destination.to_string(),
            "actions": actions.collect::<Vec<Value>>(),
            "not-of-this-set": self.strangers,
        });
        plan.serialize(serializer)
    }
}

impl fmt::Display for PlannedUpload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "to {}", self.destination)?;
        for (item, action) in &self.actions {
            let size = size(item.size).to_string();
            let (kind, cache) = (content_type(&item.path), item.cache_control());
            let is_link = self.is_link(item, action);
            let link = if is_link { "; hard link" } else { "" };
            writeln!(
                f,
                "{action:<7} {size:>10}  {}  ({kind}; {cache}{link})",
                item.path
            )?;
        }
        for path in &self.strangers {
            writeln!(f, "leave   {:>10}  {path}  (not of this set)", "")?;
        }
        let total = |(action, what): (&str, &str)| {
            let items = self.actions.iter();
            let items: Vec<u64> = items
                .filter(|(_, it)| it.to_string() == action)
                .map(|(item, _)| item.size)
                .collect();
            format!("{} {what} ({})", items.len(), size(items.iter().sum()))
        };
        let totals = [
            ("new", "new"),
            ("replace", "to replace"),
            ("same", "there already"),
            ("refuse", "refused"),
        ];
        writeln!(f, "{}", totals.map(total).join(", "))?;
        let links = self.actions.iter();
        let links = links.filter(|(item, action)| self.is_link(item, action));
        let links: Vec<u64> = links.map(|(item, _)| item.size).collect();
        if !links.is_empty() {
            let (count, bytes) = (many(links.len(), "package"), size(links.iter().sum()));
            writeln!(f, "{count} as hard links ({bytes}), which take no space")?;
        }
        Ok(())
    }
}

/// The objects of the destination, and its packages that stay. Without permission to list them, a
/// dry run takes the destination as empty.
fn look<'a>(
    destination: &'a SetPlace,
    set: &SetJson,
    options: UploadOptions,
    world: &World,
) -> Result<(Option<Before<'a>>, Others)> {
    let look = || -> Result<_> {
        let mut before = Before::list(destination)?;
        for family in set.families() {
            before.add(family.as_str())?;
        }
        // A part has no pages, which would have to list them.
        let others = if options.is_part {
            Others::default()
        } else {
            Others::read(&mut before, set, options.layout, world)?
        };
        Ok((Some(before), others))
    };
    match look() {
        Err(error) if options.is_dry_run && is_closed(&error) => {
            let why = one_line(&error);
            world.console.warn(format!(
                "existing objects could not be listed, so everything counts as new: {why}"
            ));
            Ok((None, Others::default()))
        }
        seen => seen.with_context(|| format!("failed to read `{destination}`")),
    }
}

/// The objects of a set: its packages, their sidecars, and all pages, which list the packages that
/// stay at the destination too. Also returns the set with those.
fn items(
    local: &LocalSet,
    mut set: SetJson,
    others: Others,
    is_part: bool,
    world: &World,
) -> Result<(SetJson, Vec<Item>)> {
    let mut items = Vec::new();
    for file in &mut set.files {
        file.yanked = others.yank(file);
    }
    // The files of both are in the same order.
    for (here, file) in local.document.files.iter().zip(&set.files) {
        let stamp = local.stamps.get(&here.path).copied();
        items.push(Item::file(file, local.root.join(&here.path), stamp));
        let bytes = local.metadata.get(&here.sidecar_path());
        let sidecar =
            |bytes: &Vec<u8>| Item::here(file.sidecar_path(), Phase::Sidecar, bytes.as_slice());
        items.extend(bytes.map(sidecar));
    }
    let documents = local.documents.iter();
    items.extend(
        documents.map(|(path, text)| Item::here(path.clone(), Phase::Sidecar, text.as_bytes())),
    );
    let sidecars = others.metadata.into_iter();
    items.extend(sidecars.map(|(path, bytes)| Item::here(path, Phase::Sidecar, bytes)));
    set.identity = others.identity.unwrap_or(set.identity);
    let set = set.with(others.files)?;
    if !is_part {
        items.extend(Item::pages(&set, World::jobs(), &world.stop)?);
    } else if set.identity.version.is_some() {
        // All parts of a set write the same `part.json`, so other bytes at the destination mean
        // another build, and are refused. Only a set that `build` described has a version. Other
        // packages may come from different runs in each upload, so their `part.json` files would
        // differ.
        let bytes = set.part().into_bytes();
        items.push(Item::here(PART.to_owned(), Phase::Sidecar, bytes));
    }
    Ok((set, items))
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

#[cfg(test)]
mod tests;
