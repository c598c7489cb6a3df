//! Makes a place equal to what a function decides from its listing: [`Sync`].
//!
//! Every command that publishes works this way. It lists what the place has, decides ([`Changes`]), compares
//! ([`Plan`]), and either prints the plan or carries it out: in phases, each write with a condition, then read
//! back. If another job has written there meanwhile, everything is decided again from a new listing, after a
//! random pause: two jobs that go on at the same moment would overtake each other again.

mod item;
mod listing;
mod write;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    path::Path,
    sync::Mutex,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use self::{
    item::page_of_directory,
    item::{Action, ExistingObject},
    listing::{ListedObjects, has_bytes_of},
    write::{Carried, WriteOutcome, Writer},
};
pub(super) use self::{
    item::{Item, Removal},
    listing::Listing,
};
use super::{earlier_set, local::because, object_memory::newest, set_place::SetPlace};
use crate::{
    console::World,
    index::{
        Layout, PackageFile,
        pages::{Phase, content_type},
    },
};
use rocwheel_base::{
    error::{Context as _, Error, Hint as _, Result, one_line},
    parallel,
    quantity::{many, size},
    retry::{Backoff, Failures},
};
use rocwheel_store::Object;

/// Attempts before giving up, if other jobs write to the place each time.
const BACKOFF: Backoff = Backoff { attempts: 8, pause: Duration::from_millis(250) };
/// The most files that an error names.
const MOST_REFUSED: usize = 10;

/// What is to become of a place.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The objects that the place has afterwards, in any order.
    pub(super) items: Vec<Item>,
    /// Pages and sidecars that go, and packages of an earlier attempt of the run, before `set.json` is written: a
    /// job that adds one of them meanwhile has listed the earlier `set.json`. So it fails when it writes its own,
    /// or this job does, and looks again.
    pub(super) removed: Vec<Removal>,
    /// The packages among the items, to remember what an index says of them.
    pub(super) packages: Vec<PackageFile>,
}

impl Changes {
    /// Objects to write, and nothing else.
    pub(super) fn of(items: Vec<Item>) -> Self {
        Self { items, ..Self::default() }
    }
}

/// Which writes have a condition, so that no other writer's object is lost. A page always replaces only the
/// version that this writer has seen: of two jobs at the same time, one has to know the packages of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// An upload. A package must not replace one that another job uploaded after the destination was listed.
    Packages,
    /// An index, which writes pages, and sidecars as they do.
    Pages,
}

/// What happens to a file that is there with other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Replace,
    /// It is an error, and the user may say otherwise with `--overwrite`.
    Refuse,
    /// It is an error, always: the place has releases.
    Keep,
}

/// How a command publishes at a place.
pub(super) struct Sync<'a> {
    pub(super) place: &'a SetPlace,
    pub(super) guard: Guard,
    pub(super) existing: Existing,
    /// The directory of the packages. They are linked if the place is on the same disk.
    pub(super) source: Option<&'a Path>,
    /// What the command does, for the progress bar: `Uploading`.
    pub(super) verb: &'static str,
    pub(super) world: &'a World,
}

impl<'a> Sync<'a> {
    /// A command that writes pages, and replaces what it finds.
    pub(super) fn of_pages(place: &'a SetPlace, world: &'a World) -> Self {
        Self {
            place,
            guard: Guard::Pages,
            existing: Existing::Replace,
            source: None,
            verb: "Indexing",
            world,
        }
    }

    /// A command that publishes the packages of a directory.
    pub(super) fn of_packages(
        place: &'a SetPlace,
        source: &'a Path,
        guard: Guard,
        existing: Existing,
        world: &'a World,
    ) -> Self {
        Self {
            guard,
            existing,
            source: Some(source),
            verb: "Uploading",
            ..Self::of_pages(place, world)
        }
    }

    /// Decides once, and compares with the place.
    pub(super) fn plan<T>(
        &self,
        mut decide: impl FnMut(&mut Listing<'a>) -> Result<(Changes, T)>,
    ) -> Result<(Plan, T)> {
        let mut listing = Listing::nothing(self.place);
        let (changes, value) = decide(&mut listing)?;
        let plan = self.compare(changes, &listing)?;
        Ok((Plan { before: listing.into_objects(), ..plan }, value))
    }

    /// Decides, compares and writes, until no other job has written to the place meanwhile.
    pub(super) fn run<T>(
        &self,
        mut decide: impl FnMut(&mut Listing<'a>) -> Result<(Changes, T)>,
    ) -> Result<(Synced, T)> {
        let mut failures = Failures::default();
        loop {
            let (plan, value) = self.plan(&mut decide)?;
            let overtaken = match self.carry_out(&plan)? {
                Attempt::Done(mut done) => {
                    done.listed.get_or_insert(plan.before.objects);
                    return Ok((done, value));
                }
                Attempt::Overtaken(error) => error,
            };
            let Some(pause) = failures.pause(&BACKOFF) else {
                let place = self.place;
                let attempts = BACKOFF.attempts;
                let headline =
                    format!("other jobs published meanwhile in all {attempts} attempts: `{place}`");
                return Err(overtaken.context(headline))
                    .hint("repeat the command when they are done");
            };
            let note = "another job published at the same place meanwhile: planning again";
            self.world.console.note(note);
            self.world.console.debug(one_line(&overtaken));
            parallel::sleep(&self.world.stop, pause)?;
        }
    }

    fn compare(&self, mut changes: Changes, listing: &Listing<'_>) -> Result<Plan> {
        let place = self.place;
        let reading = || format!("failed to read `{place}`");
        let note = listing.give_way(&mut changes).with_context(reading)?;
        let mut items = changes.items;
        items.retain(|item| place.has_directory_keys() || !item.is_directory());
        items.sort_by(|one, other| (one.phase, &one.path).cmp(&(other.phase, &other.path)));
        let links = self.source.is_some_and(|it| place.is_on_disk_of(it));
        let replaces = self.existing == Existing::Replace;
        let dropped = listing.dropped(&items).with_context(reading)?;
        let stop = &self.world.stop;
        let actions =
            listing.actions(&items, replaces, links, &dropped, stop).with_context(reading)?;
        let plan = Plan {
            place: place.to_string(),
            is_of_run: place.run_place().is_some(),
            steps: items.into_iter().zip(actions).collect(),
            removed: changes.removed,
            before: ListedObjects::default(),
            dropped,
            packages: changes.packages,
        };
        if let Some(note) = note.filter(|_| plan.refusal().is_none()) {
            self.world.console.note(note);
        }
        Ok(plan)
    }

    /// Writes everything, and reads it back.
    fn carry_out(&self, plan: &Plan) -> Result<Attempt> {
        if let Some(refusal) = plan.refusal() {
            return Err(refusal).hint(self.way_out(plan));
        }
        let to = self.place;
        let world = self.world;
        if plan.changes() > 0 {
            to.store.ensure_writable()?;
        }
        let written = plan.steps.iter().filter(|(_, it)| it.is_written());
        let bytes: u64 = written.map(|(item, _)| item.size).sum();
        let console = &world.console;
        let writer = Writer {
            to,
            guard: self.guard,
            world,
            progress: console.progress_in_parts(self.verb, to, plan.steps.len(), bytes),
            overtaken: AtomicBool::new(false),
            etags: Mutex::default(),
        };
        let mut written = 0;
        let mut linked = Vec::new();
        let done = |item: &Item, outcome: WriteOutcome| {
            written += usize::from(outcome != WriteOutcome::Unchanged);
            writer.progress.finish_part();
            if outcome == WriteOutcome::Linked {
                linked.push(item.size);
            }
            if item.phase == Phase::File && outcome != WriteOutcome::Linked {
                console.item(outcome.into(), format!("{}: {}", item.path, size(item.size)));
            } else {
                console.debug(format!("{outcome} {}", item.path));
            }
        };
        let answer = writer.carry_out(plan, done);
        let carried = match answer.with_context(|| format!("failed to write to `{to}`")) {
            Err(error) if writer.overtaken.load(Ordering::Relaxed) => {
                return Ok(Attempt::Overtaken(error));
            }
            answer => answer?,
        };
        self.say_dropped(&carried.lost)?;
        self.remember(plan, &carried, &writer);
        if !linked.is_empty() {
            let bytes = linked.iter().sum();
            let facts = format!("{} ({})", many(linked.len(), "package"), size(bytes));
            console.status("Linked", facts);
        }
        for removal in &plan.removed {
            console.status("Removed", &removal.path);
        }
        Ok(Attempt::Done(Synced {
            written,
            linked: linked.len(),
            unchanged: plan.steps.len() - written,
            removed: plan.removed.iter().map(|it| it.path.clone()).collect(),
            listed: carried.listed.map(|it| it.objects),
        }))
    }

    /// Warns of a server that drops the pages of directories. This is no error, because each page also exists under its
    /// file name.
    fn say_dropped(&self, lost: &[String]) -> Result<()> {
        let Some(path) = lost.iter().min() else {
            return Ok(());
        };
        let key = self.place.key(path)?;
        self.world.console.warn(format!(
            "this server drops the pages of directories, such as `{key}`: install with `--find-links` and \
             the address of the `index.html` beside the packages"
        ));
        Ok(())
    }

    /// Remembers what the place has now, so that the next command on this machine need not ask for it.
    fn remember(&self, plan: &Plan, carried: &Carried, writer: &Writer<'_>) {
        let Some(memory) = self.place.memory() else {
            return;
        };
        let listed = carried.listed.as_ref().unwrap_or(&plan.before);
        let newest = newest(listed.objects.values());
        for (item, action) in &plan.steps {
            let Some(object) = listed.objects.get(&item.path) else { continue };
            // The bytes of a sidecar are mostly shown by its `ETag`, and its headers do not matter.
            let is_known = item.phase == Phase::Sidecar && has_bytes_of(item, object);
            if action.is_written() && !is_known && writer.is_as_written(item, object) {
                memory.insert(&item.path, object, item.facts(plan.is_of_run), newest);
            }
        }
        let lost = plan.steps.iter().filter(|(item, _)| carried.lost.contains(&item.path));
        for (item, _) in lost {
            if let Some(page) = listed.objects.get(&page_of_directory(&item.path)) {
                memory.insert(&item.path, page, item.facts(plan.is_of_run), newest);
            }
        }
        memory.insert_packages(&plan.packages, &listed.objects);
        memory.write(|path| listed.may_have(path), self.world);
    }

    /// What to do about files that exist with other bytes.
    fn way_out(&self, plan: &Plan) -> String {
        let mut refused = plan.refused();
        let twin = refused.find_map(|(_, there)| there.twin.as_deref());
        match (self.existing, twin, self.place.run_place()) {
            (Existing::Keep, ..) => {
                "publish under another version: a file of this place is never replaced".into()
            }
            (_, Some(twin), _) => format!(
                "build under another version, or replace the files there with `rocwheel upload --layout {} --overwrite`",
                Layout::of(twin).0
            ),
            (_, None, Some(run)) => earlier_set::way_out(&run),
            (_, None, None) => {
                "build under another version, or replace the files with `rocwheel upload --overwrite`".into()
            }
        }
    }
}

/// What [`Sync`] would do, or does.
#[derive(Debug)]
pub struct Plan {
    place: String,
    /// Whether the place is among the outputs of a run.
    is_of_run: bool,
    /// Every object, in the order of writing.
    steps: Vec<(Item, Action)>,
    removed: Vec<Removal>,
    /// What the place had.
    before: ListedObjects,
    /// The keys that end in `/` whose pages the server is known to drop. Each is among the steps, with nothing to do.
    dropped: HashSet<String>,
    packages: Vec<PackageFile>,
}

/// How an attempt to carry out a plan ended.
#[derive(Debug)]
enum Attempt {
    Done(Synced),
    /// Another job changed what the plan is made from. It is the error for the last attempt.
    Overtaken(Error),
}

/// What was done, in objects.
#[derive(Clone, Debug)]
pub struct Synced {
    pub written: usize,
    /// How many of them are hard links to packages.
    pub linked: usize,
    pub unchanged: usize,
    pub removed: Vec<String>,
    /// The objects of the place afterwards, as far as it was listed. `None` if they are those before.
    pub(super) listed: Option<HashMap<String, Object>>,
}

impl Plan {
    /// The number of objects that are written or removed.
    pub fn changes(&self) -> usize {
        let written = self.steps.iter().filter(|(_, it)| it.is_written());
        written.count() + self.removed.len()
    }

    /// The paths of the objects that the place does not have.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        let steps = self.steps.iter().filter(|(_, it)| *it == Action::New);
        steps.map(|(item, _)| item.path.as_str())
    }

    fn refused(&self) -> impl Iterator<Item = (&Item, &ExistingObject)> {
        self.steps.iter().filter_map(|(item, action)| match action {
            Action::Refuse(there) => Some((item, there)),
            _ => None,
        })
    }

    /// The error for files that exist with other bytes, with one cause for each of them.
    pub fn refusal(&self) -> Option<Error> {
        let mut lines: Vec<String> =
            self.refused().map(|(item, there)| item.conflict(there)).collect();
        let count = lines.len();
        let noun = if count == 1 { "file is" } else { "files are" };
        if count > MOST_REFUSED {
            lines.truncate(MOST_REFUSED);
            lines.push(format!("and {} more", count - MOST_REFUSED));
        }
        let headline = format!(
            "{count} {noun} in `{}` already, with other bytes; nothing was changed",
            self.place
        );
        because(headline, lines)
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let steps = self.steps.iter().map(|(item, action)| {
            let mut object = json!({
                "action": action.to_string(),
                "path": item.path,
                "size": item.size,
                "sha256": item.sha256,
                "content-type": content_type(&item.path),
                "cache-control": item.cache_control(self.is_of_run),
            });
            if let Action::Replace(there) | Action::Refuse(there) = action {
                object["there"] = json!({ "size": there.size, "sha256": there.sha256 });
                if let Some(path) = &there.twin {
                    object["there"]["path"] = json!(path);
                }
            }
            object
        });
        let removals = self.removed.iter().map(|it| json!({ "action": "remove", "path": it.path }));
        let plan = json!({
            "schema": "rocwheel-plan-v1",
            "place": self.place,
            "actions": steps.chain(removals).collect::<Vec<Value>>(),
        });
        plan.serialize(serializer)
    }
}

/// One line for each object that is written or removed, and a line of totals.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "to {}", self.place)?;
        for (item, action) in &self.steps {
            if *action != Action::Same {
                // As strings, because only a string takes a width.
                let verb = action.to_string();
                let size = size(item.size).to_string();
                writeln!(f, "{verb:<7} {size:>10}  {}", item.path)?;
            }
        }
        for removal in &self.removed {
            writeln!(f, "{:<7} {:>10}  {}", "remove", "", removal.path)?;
        }
        let total = |action: &str, what: &str| {
            let steps = self.steps.iter().filter(|(_, it)| it.to_string() == action);
            let sizes: Vec<u64> = steps.map(|(item, _)| item.size).collect();
            format!("{} {what} ({})", sizes.len(), size(sizes.iter().sum()))
        };
        write!(f, "{}, {}", total("new", "new"), total("replace", "to replace"))?;
        if !self.removed.is_empty() {
            write!(f, ", {} to remove", self.removed.len())?;
        }
        if self.refused().next().is_some() {
            write!(f, ", {}", total("refuse", "refused"))?;
        }
        writeln!(f, ", {}", total("same", "there already"))
    }
}

impl SetPlace {
    /// Whether pages are also stored under keys that end in `/`. A directory has `index.html` for them.
    pub(super) fn has_directory_keys(&self) -> bool {
        self.directory_pages && self.local().is_none()
    }

    /// Fails if it is clear without a request that nothing may be written.
    pub fn ensure_writable(&self) -> Result<()> {
        Ok(self.store.ensure_writable()?)
    }
}

#[cfg(test)]
mod tests;
