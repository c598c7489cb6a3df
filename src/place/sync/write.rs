//! Writes the objects of a plan in phases, and reads them back.

use std::{
    cmp::Reverse,
    io::{self, Read, Seek as _, SeekFrom},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use fs_err as fs;

use super::{
    Guard,
    item::{Action, ExistingObject, Item, ItemBytes, Removal},
};
use crate::{
    console::{Progress, World},
    index::pages::{Phase, content_type, directory_of},
    place::set_place::{SetPlace, failure},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Error, No, Result, advise, bail, ensure, negative},
    io::{FileIdentity, Tap},
    parallel,
};
use rocwheel_store::{
    Body, Condition, CopySource, PutOptions, Span, StoreError, StoreFailureKind, location::Key,
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
}

impl Writer<'_> {
    /// Writes objects, which are sorted by phase, and reads them back. Calls `done` with each of
    /// them.
    ///
    /// A phase begins only when the one before it is complete, so that readers, who may come at any
    /// time, never follow a link to a missing file. `set.json` is the last one, and says that the set
    /// is complete, so everything else is read back, and what goes is removed, before.
    pub(super) fn carry_out(
        &self,
        actions: &[(Item, Action)],
        removed: &[Removal],
        mut done: impl FnMut(&Item, WriteOutcome),
    ) -> Result<()> {
        // The plan has just looked at all of it.
        let is_same = |(_, action): &(Item, Action)| *action == Action::Same;
        if removed.is_empty() && actions.iter().all(is_same) {
            for (item, _) in actions {
                done(item, WriteOutcome::Unchanged);
            }
            return Ok(());
        }
        let end = actions.partition_point(|(item, _)| item.phase < Phase::Whole);
        let (actions, documents) = actions.split_at(end);
        for phase in actions.chunk_by(|(a, _), (b, _)| a.phase == b.phase) {
            self.write_phase(phase, &mut done)?;
        }
        let lost = self.verify(actions)?;
        self.remove(removed)?;
        self.write_phase(documents, &mut done)?;
        self.verify(documents)?;
        // A job that brings back what this one has removed may find its own `set.json` unchanged, and write none.
        // But it has written its pages before it looked, so they are there now.
        if documents.iter().any(|(_, action)| action.is_written()) {
            let roots = actions.partition_point(|(item, _)| item.phase < Phase::Root);
            self.verify(&actions[roots..])?;
        }
        // See `verify`.
        if let Some(path) = lost {
            let key = self.to.key(path)?;
            self.world.console.warn(format!(
                "this server drops the pages of directories, such as `{key}`: install with `--find-links` and \
                 the address of the `index.html` beside the packages"
            ));
        }
        Ok(())
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

    /// Writes the objects of one phase in parallel: none of them links to another one.
    fn write_phase(
        &self,
        phase: &[(Item, Action)],
        mut done: impl FnMut(&Item, WriteOutcome),
    ) -> Result<()> {
        let act = |(item, action): &(Item, Action)| match action {
            Action::Same => Ok(WriteOutcome::Unchanged),
            Action::Refuse(there) => bail!(No(item.conflict(there))),
            action => {
                let written = self.write(item, action);
                written.with_context(|| format!("failed to write `{}`", item.path))
            }
        };
        // File names first: their condition also protects the keys that end in `/`.
        let is_directory = |(item, _): &&(Item, Action)| item.is_directory();
        let (directories, files): (Vec<_>, Vec<_>) = phase.iter().partition(is_directory);
        for mut steps in [files, directories] {
            // The largest first. A large file that starts last would upload alone at the end.
            steps.sort_by_key(|(item, _)| Reverse(item.size));
            let act = |step: &&(Item, Action)| act(step);
            let stop = &self.world.stop;
            parallel::try_each(&steps, self.to.requests(), stop, act, |(item, _), outcome| {
                done(item, outcome);
            })?;
        }
        Ok(())
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
            let put = store.put(&key, body, &options);
            put.map(|()| WriteOutcome::Written)
        };
        if let Some(from) = copy
            && store.copy(&key, from, &options)?
        {
            self.progress.inc(size);
            return Ok(WriteOutcome::Copied);
        }
        match &item.bytes {
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

    /// Reads back what was written, and compares it. An upload also reads back what was there: a set is complete
    /// only with all of it. An index looks at the pages that list all packages in any case, because other jobs
    /// change them. The pages of an index in a directory need no such check.
    ///
    /// Returns a key ending in `/` that is empty, if there is one: some servers treat such a key as a
    /// directory and drop the bytes. This is no error, because the page also exists under its file
    /// name.
    fn verify<'i>(&self, actions: &'i [(Item, Action)]) -> Result<Option<&'i str>> {
        let is_index = self.guard == Guard::Pages && self.to.local().is_some();
        let look = |(item, action): &(Item, Action)| {
            let is_known =
                self.guard == Guard::Pages && *action == Action::Same && item.phase < Phase::Root;
            if is_known || is_index && item.phase != Phase::File {
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
        Ok(lost.map(|((item, _), _)| item.path.as_str()).min())
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
