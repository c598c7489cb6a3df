//! Writes the objects of a plan in phases, and reads them back.

use std::{
    cmp::Reverse,
    collections::HashMap,
    io::{self, Read, Seek as _, SeekFrom},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use fs_err as fs;
use itertools::Itertools as _;

use super::{
    Guard, Plan,
    item::{Action, ExistingObject, Item, ItemBytes, Removal, page_of_directory},
    listing::{ListedObjects, has_bytes_of},
};
use crate::{
    console::{Progress, World},
    index::{
        package_file::SIDECAR,
        pages::{Phase, content_type, directory_of},
    },
    place::set_place::{SetPlace, failure},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Error, No, Result, advise, bail, ensure, negative, one_line},
    io::{FileIdentity, Tap},
    parallel,
    quantity::sum,
};
use rocwheel_store::{
    Body, Condition, CopySource, Object, PutOptions, Span, StoreError, StoreFailureKind,
    location::Key,
};

/// How often a page is written again at once because the bucket's own indexer came first.
const MOST_INDEXED: u32 = 5;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
pub(super) enum WriteOutcome {
    /// The place has the same bytes.
    Unchanged,
    #[strum(serialize = "Uploaded")]
    Written,
    /// The server copied another object.
    Copied,
    /// The object shares the bytes of a file on disk.
    Linked,
}

pub(super) struct Writer<'a> {
    pub(super) to: &'a SetPlace,
    pub(super) guard: Guard,
    pub(super) world: &'a World,
    pub(super) progress: Progress,
    /// Whether another writer changed an object that this one writes or has written. Errors of parallel
    /// writes are joined into one text, in which this could no longer be found.
    pub(super) overtaken: AtomicBool,
    /// The `ETag` that the store gave to each object that it took, by path.
    pub(super) etags: Mutex<HashMap<String, String>>,
}

/// What was seen after a plan was carried out.
#[derive(Debug)]
pub(super) struct Carried {
    /// The objects of the place at the end. `None` if nothing was written, or if the place is on this disk.
    pub(super) listed: Option<ListedObjects>,
    /// The keys that end in `/` and are empty: some servers treat such a key as a directory and drop the bytes.
    pub(super) lost: Vec<String>,
}

impl Writer<'_> {
    /// Writes objects, which are sorted by phase, and verifies them. Calls `done` with each of them.
    ///
    /// A phase begins only when the one before it is complete, so that readers, who may come at any
    /// time, never follow a link to a missing file. Only a sidecar does not wait for all packages, but for
    /// its own. `set.json` is the last one, and says that the set is complete, so everything else is
    /// verified, and what goes is removed, before.
    pub(super) fn carry_out(
        &self,
        plan: &Plan,
        mut done: impl FnMut(&Item, WriteOutcome),
    ) -> Result<Carried> {
        let Plan { steps, removed, .. } = plan;
        // The plan has just looked at all of it.
        let is_same = |(_, action): &(Item, Action)| *action == Action::Same;
        if removed.is_empty() && steps.iter().all(is_same) {
            for (item, _) in steps {
                done(item, WriteOutcome::Unchanged);
            }
            return Ok(Carried { listed: None, lost: plan.dropped.iter().cloned().collect() });
        }
        let end = steps.partition_point(|(item, _)| item.phase < Phase::Whole);
        let (actions, documents) = steps.split_at(end);
        let files = actions.partition_point(|(item, _)| item.phase <= Phase::Sidecar);
        let (files, pages) = actions.split_at(files);
        self.write_packages(files, &mut done)?;
        for phase in pages.chunk_by(|(a, _), (b, _)| a.phase == b.phase) {
            self.write_phase(phase, &mut done)?;
        }
        let mut listed = self.list(plan);
        let lost = self.verify(actions, plan, listed.as_ref())?;
        self.remove(removed)?;
        self.write_phase(documents, &mut done)?;
        let is_described = documents.iter().any(|(_, action)| action.is_written());
        if is_described {
            listed = self.list(plan);
        }
        self.verify(documents, plan, listed.as_ref())?;
        // A job that brings back what this one has removed may find its own `set.json` unchanged, and write none.
        // But it has written its pages before it looked, so they are there now.
        if is_described {
            let roots = actions.partition_point(|(item, _)| item.phase < Phase::Root);
            self.verify(&actions[roots..], plan, listed.as_ref())?;
        }
        Ok(Carried { listed, lost: lost.into_iter().map(str::to_owned).collect() })
    }

    /// What a bucket has by now. `None` if that cannot be listed: then each object is asked for, and the errors of that
    /// say more.
    fn list(&self, plan: &Plan) -> Option<ListedObjects> {
        if self.to.local().is_some() {
            return None;
        }
        let listed = plan.before.again(self.to);
        listed.inspect_err(|error| self.world.console.debug(one_line(error))).ok()
    }

    /// Deletes pages and sidecars, each as it was when the place was listed. One that another job has written
    /// since belongs to packages that this job does not know.
    fn remove(&self, removals: &[Removal]) -> Result<()> {
        for Removal { path, etag } in removals {
            self.world.stop.check()?;
            // Delete the key that ends in `/` first. Stale pages are found by their file names in a
            // listing, so an interrupted run leaves the name by which the next one finds both. A listing
            // has no mark of this key; if another job has written both names since, this job fails at the
            // file name, plans again, and writes the page of the directory once more.
            let has_key = self.to.has_directory_keys();
            if let Some(directory) = directory_of(path).filter(|_| has_key) {
                self.delete(directory, &Condition::Always)?;
            }
            self.delete(path, &etag.clone().map_or(Condition::Always, Condition::IfSame))?;
        }
        Ok(())
    }

    fn delete(&self, path: &str, condition: &Condition) -> Result<()> {
        let deleted = self.to.store.delete(&self.to.key(path)?, condition);
        if let Err(error) = &deleted
            && error.kind() == StoreFailureKind::Exists
        {
            self.overtaken.store(true, Ordering::Relaxed);
        }
        deleted.with_context(|| format!("failed to remove `{path}`"))
    }

    /// Writes the packages, each with its sidecar right after it, and then what says that they are there, such as
    /// `part.json`. The sidecars of a server that is far away would cost as long as the packages if they had to wait for
    /// all of these.
    fn write_packages(
        &self,
        steps: &[(Item, Action)],
        mut done: impl FnMut(&Item, WriteOutcome),
    ) -> Result<()> {
        let is_of_package =
            |(item, _): &&(Item, Action)| item.phase == Phase::File || item.path.ends_with(SIDECAR);
        let (of_packages, records): (Vec<_>, Vec<_>) = steps.iter().partition(is_of_package);
        // A package comes before its sidecar, because the steps are in the order of their phases.
        let packages = of_packages.into_iter().into_group_map_by(|(item, _)| item.package());
        self.write_chains(packages.into_values().collect(), &mut done)?;
        self.write_chains(records.into_iter().map(|step| vec![step]).collect(), &mut done)
    }

    /// Writes the objects of one phase in parallel: none of them links to another one.
    fn write_phase(
        &self,
        phase: &[(Item, Action)],
        mut done: impl FnMut(&Item, WriteOutcome),
    ) -> Result<()> {
        // The file name of a page comes before its key that ends in `/`: the condition of the first write protects the
        // second one too.
        let page = |(item, _): &&(Item, Action)| {
            if item.is_directory() { page_of_directory(&item.path) } else { item.path.clone() }
        };
        let pages = phase.iter().into_group_map_by(page).into_values();
        let file_name_first = pages.map(|mut chain| {
            chain.sort_by_key(|(item, _)| item.is_directory());
            chain
        });
        self.write_chains(file_name_first.collect(), &mut done)
    }

    /// Writes objects in parallel, and the objects of each chain one after the other.
    fn write_chains(
        &self,
        mut chains: Vec<Vec<&(Item, Action)>>,
        done: &mut impl FnMut(&Item, WriteOutcome),
    ) -> Result<()> {
        let act = |(item, action): &(Item, Action)| match action {
            Action::Same => Ok(WriteOutcome::Unchanged),
            Action::Refuse(there) => bail!(No(item.conflict(there))),
            action => {
                let written = self.write(item, action);
                written.with_context(|| format!("failed to write `{}`", item.path))
            }
        };
        // The largest first. A large file that starts last would upload alone at the end.
        chains.sort_by_key(|chain| {
            let path = chain.first().map(|(item, _)| item.path.as_str());
            (Reverse(sum(chain.iter().map(|(item, _)| item.size))), path)
        });
        let write = |chain: &Vec<&(Item, Action)>| {
            chain.iter().map(|step| act(step)).collect::<Result<Vec<WriteOutcome>>>()
        };
        let stop = &self.world.stop;
        parallel::try_each(&chains, self.to.requests(), stop, write, |chain, outcomes| {
            for ((item, _), outcome) in chain.iter().zip(outcomes) {
                done(item, outcome);
            }
        })
    }

    /// Writes an object. Another writer may have written the same bytes meanwhile.
    fn write(&self, item: &Item, action: &Action) -> Result<WriteOutcome> {
        let mut condition = self.condition(item, action);
        // An object that has the bytes already is copied onto itself, with the headers that it should have.
        let from_itself = match action {
            Action::Replace(existing) if existing.has_bytes_of(item) => {
                self.to.store.copy_source(&self.to.key(&item.path)?)?
            }
            _ => None,
        };
        let copy = item.copy.as_ref().or(from_itself.as_ref());
        let mut indexed = 0;
        loop {
            let error = match self.write_if(item, copy, &condition) {
                Err(error) if is_conflict(&error, &condition) => error,
                answer => {
                    return answer.map_err(|error| match self.world.stop.check() {
                        Err(interrupted) => interrupted.into(),
                        Ok(()) => failed(error),
                    });
                }
            };
            let existing = ExistingObject::find(self.to, &item.path)?;
            if existing.as_ref().is_some_and(|existing| existing.has_bytes_of(item)) {
                return Ok(WriteOutcome::Unchanged);
            }
            // The bucket's own indexer may replace a page at any time, and lists no packages that this job does
            // not know.
            if let Some(ExistingObject { etag: Some(etag), .. }) = &existing
                && indexed < MOST_INDEXED
                && self.is_indexers(item)?
            {
                indexed += 1;
                condition = Condition::IfSame(etag.clone());
                continue;
            }
            // A page is planned again. A package with other bytes is an error each time.
            let is_page = self.guard == Guard::Pages || item.is_page();
            self.overtaken.fetch_or(is_page, Ordering::Relaxed);
            let conflict = item.conflict(&existing.context(error)?);
            bail!(No(format!("another writer came first, with other bytes: {conflict}")));
        }
    }

    /// Writes an object, links it or has it copied, if a condition holds.
    fn write_if(
        &self,
        item: &Item,
        copy: Option<&CopySource>,
        condition: &Condition,
    ) -> Result<WriteOutcome, StoreError> {
        let options = PutOptions {
            content_type: content_type(&item.path).to_owned(),
            cache_control: Some(item.cache_control(self.to.run_place().is_some()).to_owned()),
            condition: condition.clone(),
            sha256: Some(item.sha256),
        };
        let key = self.to.key(&item.path).map_err(|error| StoreError::failed(&item.path, error))?;
        let store = &self.to.store;
        let size = item.size;
        let put = |body: &dyn Body| {
            let etag = store.put(&key, body, &options)?;
            if let Some(etag) = etag {
                let mut etags = self.etags.lock().unwrap_or_else(PoisonError::into_inner);
                etags.insert(item.path.clone(), etag);
            }
            Ok(WriteOutcome::Written)
        };
        if let Some(from) = copy
            && store.copy(&key, from, &options)?
        {
            self.progress.inc(size);
            return Ok(WriteOutcome::Copied);
        }
        match &item.bytes {
            ItemBytes::There => Ok(WriteOutcome::Unchanged),
            ItemBytes::Here(bytes) => put(&&**bytes),
            ItemBytes::OnDisk(path, file) => {
                if self.link(&key, path, *file, condition)? {
                    return Ok(WriteOutcome::Linked);
                }
                let writer = self;
                put(&OnDisk { path, size, writer })
            }
        }
    }

    /// Whether a page is there that the bucket's own indexer wrote.
    fn is_indexers(&self, item: &Item) -> Result<bool> {
        if !item.path.ends_with("index.html") {
            return Ok(false);
        }
        let page = self.to.text(self.to.key(&item.path)?.as_str())?;
        Ok(page.is_some_and(|page| item.is_replaced_by_indexer(&page)))
    }

    /// Links a file to a place on the same disk. A file that changed since it was read, or that was
    /// not read, is not linked: copying it compares its bytes with their digest, and the old object
    /// stays if they differ.
    fn link(
        &self,
        key: &Key,
        path: &Path,
        file: Option<FileIdentity>,
        condition: &Condition,
    ) -> Result<bool, StoreError> {
        let Some(file) = file.filter(|_| self.to.local().is_some()) else {
            return Ok(false);
        };
        let store = &self.to.store;
        let is_linked = store.link(key, path, &|path| file.is_at(path), condition)?;
        if is_linked {
            self.progress.inc(file.len);
        }
        Ok(is_linked)
    }

    fn condition(&self, item: &Item, action: &Action) -> Condition {
        // If two jobs publish at the same time, the job that does not know the packages of the other must fail
        // at the first page that both write, and plan again: its page would leave them out.
        match action {
            // A key that ends in `/` has no ETag from the listing. It needs no condition: the same
            // page was just written under its file name, with the condition.
            _ if item.is_directory() => Condition::Always,
            Action::New => Condition::IfAbsent,
            Action::Replace(existing)
                if self.guard == Guard::Packages
                    && !item.is_page()
                    && !existing.has_bytes_of(item) =>
            {
                Condition::Always
            }
            Action::Replace(there) => {
                let etag = there.etag.clone();
                etag.map_or(Condition::Always, Condition::IfSame)
            }
            _ => Condition::Always,
        }
    }

    /// Verifies what was written. An upload also verifies what was there: a set is complete only with all of it. An
    /// index looks at the pages that list all packages in any case, because other jobs change them. The pages of an
    /// index in a directory need no such check.
    ///
    /// A listing proves most objects of a bucket. What it does not prove is asked for.
    ///
    /// Returns the keys ending in `/` that are empty.
    fn verify<'i>(
        &self,
        actions: &'i [(Item, Action)],
        plan: &Plan,
        listed: Option<&ListedObjects>,
    ) -> Result<Vec<&'i str>> {
        let is_index = self.guard == Guard::Pages && self.to.local().is_some();
        let look = |(item, action): &(Item, Action)| {
            let is_known =
                self.guard == Guard::Pages && *action == Action::Same && item.phase < Phase::Root;
            if is_known || is_index && item.phase != Phase::File {
                return Ok(true);
            }
            if plan.dropped.contains(&item.path) {
                return Ok(false);
            }
            if listed.is_some_and(|listed| self.is_shown(item, action, plan, listed)) {
                return Ok(true);
            }
            let is_there = self.is_there(item).inspect_err(|error| {
                // Another writer has replaced or removed a page since.
                let is_page = item.is_page()
                    && !matches!(failure(error), Some(it) if it != StoreFailureKind::NotFound);
                self.overtaken.fetch_or(is_page, Ordering::Relaxed);
            });
            is_there.with_context(|| format!("failed to read back `{}`", item.path))
        };
        let is_there = parallel::try_map(actions, self.to.requests(), &self.world.stop, look)?;
        let lost = actions.iter().zip(is_there).filter(|(_, is_there)| !is_there);
        Ok(lost.map(|((item, _), _)| item.path.as_str()).collect())
    }

    /// Whether a listing proves that an object is as it was planned.
    fn is_shown(&self, item: &Item, action: &Action, plan: &Plan, listed: &ListedObjects) -> bool {
        let is_untouched = *action == Action::Same && listed.has_same(&item.path, &plan.before);
        let object = listed.objects.get(&item.path);
        is_untouched || object.is_some_and(|object| self.is_as_written(item, object))
    }

    /// Whether a listed object is the one that this job wrote.
    ///
    /// The `ETag` of small objects is mostly the MD5 of their bytes, which are here for all but packages. The store
    /// verified a package when it arrived, and then said its `ETag`: an object with this one is that object. A page
    /// has to have the bytes themselves.
    pub(super) fn is_as_written(&self, item: &Item, listed: &Object) -> bool {
        if let Some(sha256) = listed.sha256 {
            return sha256 == item.sha256 && listed.size == item.size;
        }
        let is_object_of_answer = || {
            let etags = self.etags.lock().unwrap_or_else(PoisonError::into_inner);
            let etag = etags.get(&item.path);
            listed.size == item.size && etag.is_some() && etag == listed.etag.as_ref()
        };
        has_bytes_of(item, listed) || !item.is_page() && is_object_of_answer()
    }

    /// Whether an object has its bytes. `false` for an empty key that ends in `/`.
    fn is_there(&self, item: &Item) -> Result<bool> {
        let store = &self.to.store;
        let key = self.to.key(&item.path)?;
        let root = self.to.local();
        if root.is_some_and(|root| item.is_file_of(root, &item.path)) {
            return Ok(true);
        }
        let download = || -> Result<(Sha256, u64)> {
            let reader = store.get(&key, Span::Whole).map_err(failed)?;
            Ok(Sha256::of_reader(reader)?)
        };
        // The store verified a package when it arrived, so it is not downloaded again; without a
        // recorded digest, only its size is compared. An upload downloads its pages, each under its
        // file name only.
        let is_read = item.is_page() && !item.is_directory() && self.guard == Guard::Packages;
        let (sha256, size) = if is_read {
            download()?
        } else {
            let object = store.head(&key).map_err(failed)?;
            match object.sha256 {
                _ if object.size == 0 && item.size > 0 && item.is_directory() => return Ok(false),
                Some(sha256) => (sha256, object.size),
                None if item.phase == Phase::File => (item.sha256, object.size),
                None => download()?,
            }
        };
        // The bucket's own indexer may have come between the writing and this.
        if sha256 != item.sha256 && is_read && self.is_indexers(item)? {
            return Ok(true);
        }
        let existing = ExistingObject { size, sha256: Some(sha256), ..ExistingObject::default() };
        ensure!(
            size == item.size && sha256 == item.sha256,
            No(format!("not what was written: {}", item.conflict(&existing)))
        );
        Ok(true)
    }
}

fn is_conflict(error: &StoreError, condition: &Condition) -> bool {
    match error.kind() {
        StoreFailureKind::Exists => true,
        // The other writer may also have deleted the object that this one replaces.
        StoreFailureKind::NotFound => matches!(condition, Condition::IfSame(_)),
        _ => false,
    }
}

/// Converts the error of a store. Missing access and a full disk are errors of the environment; any
/// other failure is a failed transfer, which has its own exit code ([`No`]).
pub(super) fn failed(error: StoreError) -> Error {
    let is_tried = !matches!(
        error.kind(),
        StoreFailureKind::Denied | StoreFailureKind::Full | StoreFailureKind::Unusable
    );
    let error = advise(error.into());
    if is_tried { negative(error) } else { error }
}

/// A file on disk as the body of a request.
struct OnDisk<'a> {
    path: &'a Path,
    size: u64,
    writer: &'a Writer<'a>,
}

impl Body for OnDisk<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        let mut source = fs::File::open(self.path)?;
        source.seek(SeekFrom::Start(offset))?;
        let stop = &self.writer.world.stop;
        let progress = &self.writer.progress;
        Ok(Box::new(Tap::new(source, stop, move |count| {
            progress.inc(count);
        })))
    }
}
