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
    item::{Action, ExistingObject, Item, ItemBytes},
};
use crate::{
    console::{Progress, World},
    digest::Sha256,
    error::{Context as _, Error, No, Result, advise, bail, ensure, negative},
    io::{FileIdentity, Tap},
    location::Key,
    parallel,
    set::{
        pages::{Phase, content_type, directory_of},
        parse::is_directory_list,
        place::SetPlace,
    },
    store::{Body, Condition, PutOptions, Span, StoreError, StoreFailureKind},
};

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
    /// Whether a write failed because another writer changed the object. Errors of parallel writes
    /// are joined into one text, in which this could no longer be found.
    pub(super) overtaken: AtomicBool,
}

impl Writer<'_> {
    /// Writes objects, which are sorted by phase, and reads them back. Calls `done` with each of
    /// them.
    ///
    /// A phase begins only when the one before it is complete, so that readers, who may come at any
    /// time, never follow a link to a missing file. `set.json` is the last one, and says that the set
    /// is complete, so everything else is read back before.
    pub(super) fn carry_out(
        &self,
        actions: &[(Item, Action)],
        mut done: impl FnMut(&Item, WriteOutcome),
    ) -> Result<()> {
        let mut lost = None;
        let is_document = |(item, _): &(Item, Action)| item.phase == Phase::Whole;
        for actions in actions.chunk_by(|a, b| is_document(a) == is_document(b)) {
            for phase in actions.chunk_by(|(a, _), (b, _)| a.phase == b.phase) {
                self.write_phase(phase, &mut done)?;
            }
            lost = lost.or(self.verify(actions)?);
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

    /// Deletes pages and sidecars.
    pub(super) fn remove(&self, paths: &[String]) -> Result<()> {
        for path in paths {
            self.world.stop.check()?;
            // Delete the key that ends in `/` first. Stale pages are found by their file names in a
            // listing, so an interrupted run leaves the name by which the next one finds both.
            let has_key = self.to.has_directory_keys();
            let directory = directory_of(path).filter(|_| has_key);
            for path in directory.into_iter().chain([path.as_str()]) {
                let deleted = self.to.store.delete(&self.to.key(path)?);
                deleted.with_context(|| format!("failed to remove `{path}`"))?;
            }
        }
        Ok(())
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
        // File names first if they have a condition: it is that of the keys which end in `/` too.
        let is_after =
            |(item, _): &&(Item, Action)| self.guard == Guard::Pages && item.is_directory();
        let (directories, files): (Vec<_>, Vec<_>) = phase.iter().partition(is_after);
        for mut steps in [files, directories] {
            // The largest first. A large file that starts last would upload alone at the end.
            steps.sort_by_key(|(item, _)| Reverse(item.size));
            let act = |step: &&(Item, Action)| act(step);
            let stop = &self.world.stop;
            parallel::try_each(
                &steps,
                self.to.requests(),
                stop,
                act,
                |(item, _), outcome| {
                    done(item, outcome);
                },
            )?;
        }
        Ok(())
    }

    /// Writes an object. Another writer may have written the same bytes meanwhile.
    fn write(&self, item: &Item, action: &Action) -> Result<WriteOutcome> {
        let condition = self.condition(item, action);
        let options = PutOptions {
            content_type: content_type(&item.path).to_owned(),
            cache_control: Some(item.cache_control().to_owned()),
            condition: condition.clone(),
            sha256: Some(item.sha256),
        };
        let (store, key, size) = (&self.to.store, self.to.key(&item.path)?, item.size);
        let put = |body: &dyn Body| {
            let put = store.put(&key, body, &options);
            put.map(|()| WriteOutcome::Written)
        };
        let copied = match &item.copy {
            Some(from) => store.copy(&key, from, &options),
            None => Ok(false),
        };
        let answer = match &item.bytes {
            _ if !matches!(copied, Ok(false)) => copied.map(|_| {
                self.progress.inc(size);
                WriteOutcome::Copied
            }),
            ItemBytes::Here(bytes) => put(&&**bytes),
            ItemBytes::OnDisk(path, file) => match self.link(&key, path, *file, &condition) {
                Ok(true) => Ok(WriteOutcome::Linked),
                Ok(false) => {
                    let writer = self;
                    put(&OnDisk { path, size, writer })
                }
                Err(error) => Err(error),
            },
        };
        match answer {
            Ok(outcome) => Ok(outcome),
            Err(error) if is_conflict(&error, &condition) => {
                let there = ExistingObject::find(self.to, &item.path)?;
                if there
                    .as_ref()
                    .is_some_and(|it| it.sha256 == Some(item.sha256))
                {
                    return Ok(WriteOutcome::Unchanged);
                }
                // An upload is tried again for `set.json`, but not for a package: one with other
                // bytes is an error each time.
                let is_page = self.guard == Guard::Pages || item.phase == Phase::Whole;
                self.overtaken.fetch_or(is_page, Ordering::Relaxed);
                let others = "another writer came first, with other bytes";
                let conflict = item.conflict(&there.context(error)?);
                bail!(No(format!("{others}: {conflict}")));
            }
            Err(error) => {
                self.world.stop.check()?;
                Err(failed(error))
            }
        }
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
        // An upload lists what other jobs published. Of two uploads at the same time, the one that
        // does not know the packages of the other must fail at `set.json`, and be repeated. The pages
        // have no condition, because the bucket's own indexer may replace them at any time.
        let is_other_page = item.is_page() && item.phase != Phase::Whole;
        match (self.guard, action) {
            // A key that ends in `/` has no ETag from the listing. It needs no condition: the same
            // page was just written under its file name, with the condition.
            _ if item.is_directory() => Condition::Always,
            (Guard::Packages, Action::New) if !is_other_page => Condition::IfAbsent,
            (Guard::Pages, Action::New) => Condition::IfAbsent,
            (Guard::Packages, Action::Replace(_)) if is_other_page => Condition::Always,
            (Guard::Packages, Action::Replace(_)) if !item.is_page() => Condition::Always,
            (Guard::Packages | Guard::Pages, Action::Replace(there)) => {
                let etag = there.etag.clone();
                etag.map_or(Condition::Always, Condition::IfSame)
            }
            _ => Condition::Always,
        }
    }

    /// Reads back what was written, and compares it. An upload also reads back what was there: a set is complete
    /// only with all of it. The pages of an index in a directory need no such check.
    ///
    /// Returns a key ending in `/` that is empty, if there is one: some servers treat such a key as a
    /// directory and drop the bytes. This is no error, because the page also exists under its file
    /// name.
    fn verify<'i>(&self, actions: &'i [(Item, Action)]) -> Result<Option<&'i str>> {
        let is_index = self.guard == Guard::Pages && self.to.local().is_some();
        let look = |(item, action): &(Item, Action)| {
            if is_index && item.phase != Phase::File
                || self.guard == Guard::Pages && *action == Action::Same
            {
                return Ok(true);
            }
            let is_there = self.is_there(item);
            is_there.with_context(|| format!("failed to read back `{}`", item.path))
        };
        let is_there = parallel::try_map(actions, self.to.requests(), &self.world.stop, look)?;
        let lost = actions
            .iter()
            .zip(is_there)
            .filter(|(_, is_there)| !is_there);
        Ok(lost.map(|((item, _), _)| item.path.as_str()).min())
    }

    /// Whether an object has its bytes. `false` for an empty key that ends in `/`.
    fn is_there(&self, item: &Item) -> Result<bool> {
        let (store, key) = (&self.to.store, self.to.key(&item.path)?);
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
        if sha256 != item.sha256 && is_read && item.path.ends_with("index.html") {
            let page = self.to.text(key.as_str())?;
            if page.is_some_and(|page| is_directory_list(&page)) {
                return Ok(true);
            }
        }
        let there = ExistingObject {
            twin: None,
            size,
            sha256: Some(sha256),
            etag: None,
        };
        ensure!(
            there.size == item.size && sha256 == item.sha256,
            No(format!("not what was written: {}", item.conflict(&there)))
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
        let (stop, progress) = (&self.writer.world.stop, &self.writer.progress);
        Ok(Box::new(Tap::new(source, stop, move |count| {
            progress.inc(count);
        })))
    }
}
