//! Writes the objects of a set: packages, sidecars and pages.
//!
//! `upload` and `index` compare each [`Item`] with what the place has ([`Before`]), decide what to
//! do with it ([`Action`]), and then write them all in phases and read them back ([`Writer`]).

use std::{
    cmp::Reverse,
    collections::HashMap,
    io::{self, Read, Seek as _, SeekFrom},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fs_err as fs;

use super::{
    packages::{Layout, PackageSet, SetFile},
    pages::{IndexPage, Phase, TOP, content_type, document, pages},
    place::{SetPlace, found},
    read::{Watch, Watched},
    set_json::SetJson,
};
use crate::{
    console::{Progress, World},
    digest::Sha256,
    error::{Context as _, Error, No, Result, Stop, bail, ensure, hinted, hints, one_line},
    parallel,
    run::ArtifactGroup,
    store::{Body, Condition, Depth, Object, PutOptions, Span, StoreError, StoreFailureKind},
};

/// Requests at the same time. They mostly wait for the network; the store bounds the memory of all
/// of them together.
pub(super) const REQUESTS: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// One object of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Relative to the directory of the set: `dist/rocm-7.13.0.tar.gz`, `simple/rocm/`.
    pub(super) path: String,
    pub(super) phase: Phase,
    pub(super) size: u64,
    pub(super) sha256: Sha256,
    pub(super) bytes: ItemBytes,
}

/// Where the bytes of an object are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemBytes {
    OnDisk(PathBuf),
    Here(Arc<[u8]>),
}

impl Item {
    /// A wheel or sdist on disk.
    pub(super) fn file(file: &SetFile, layout: Layout, on_disk: PathBuf) -> Self {
        Self {
            path: file.path(layout),
            phase: Phase::File,
            size: file.size,
            sha256: file.sha256,
            bytes: ItemBytes::OnDisk(on_disk),
        }
    }

    pub(super) fn here(path: String, phase: Phase, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self {
            path,
            phase,
            size: bytes.len() as u64,
            sha256: Sha256::of(&bytes),
            bytes: ItemBytes::Here(bytes),
        }
    }

    /// A page under its file name and, if it is the page of a directory, under the key that ends in
    /// `/`: installers request `simple/rocm/`, and S3 answers only to exact keys.
    ///
    /// The file name comes first. Listings contain it, so its `ETag` is known and a conflict with
    /// another writer shows there. A listing may leave out the key that ends in `/`.
    pub(super) fn page(page: &IndexPage) -> Vec<Self> {
        let item = Self::here(String::new(), page.phase, page.body().into_bytes());
        let paths = page.paths().map(|path| Self {
            path: path.to_owned(),
            ..item.clone()
        });
        paths.collect()
    }

    pub(super) fn content_type(&self) -> &'static str {
        content_type(&self.path)
    }

    /// The names of packages and sidecars contain the version, so their bytes never change. A cache
    /// may keep a page, but must revalidate it.
    pub(super) fn cache_control(&self) -> &'static str {
        if self.is_page() {
            "no-cache"
        } else {
            "public, max-age=31536000, immutable"
        }
    }

    pub(super) fn is_page(&self) -> bool {
        self.phase >= Phase::Project
    }

    fn is_directory(&self) -> bool {
        self.path.ends_with('/')
    }

    /// All pages of a set, and its `set.json`. They are rendered in parallel, because root pages have
    /// a line for every file.
    pub(super) fn pages(
        set: &PackageSet,
        set_json: &SetJson,
        layout: Layout,
        world: &World,
    ) -> Result<Vec<Self>> {
        let views = set.views();
        let mut pages = pages(set, &views, layout);
        pages.push(document(set_json));
        let render = |page: &IndexPage| Ok(Self::page(page));
        let items = parallel::map(&pages, world.jobs(), &world.stop, render)?;
        Ok(items.concat())
    }

    /// Describes a conflict: size and digest of the item and of the existing object.
    pub(super) fn conflict(&self, there: &ExistingObject) -> String {
        format!(
            "`{}`: here {} bytes with sha256 {}, there {} bytes with sha256 {}",
            self.path, self.size, self.sha256, there.size, there.sha256
        )
    }
}

/// An object that a place already has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingObject {
    pub size: u64,
    pub sha256: Sha256,
    pub etag: Option<String>,
}

impl ExistingObject {
    /// An object with the bytes of an item.
    pub(super) fn same(item: &Item) -> Self {
        Self {
            size: item.size,
            sha256: item.sha256,
            etag: None,
        }
    }

    /// `None` if there is no such object. One without a recorded digest is read.
    fn find(place: &SetPlace, path: &str) -> Result<Option<Self>> {
        let (store, key) = (&place.store, place.key(path)?);
        let Some(object) = found(store.head(&key))? else {
            return Ok(None);
        };
        let sha256 = match object.sha256 {
            Some(sha256) => sha256,
            None => Sha256::of_reader(store.get(&key, Span::Whole)?)?.0,
        };
        Ok(Some(Self {
            size: object.size,
            sha256,
            etag: object.etag,
        }))
    }
}

/// The objects that a place had before anything was written, from listings of some directories.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) objects: HashMap<String, Object>,
    /// The directories that were listed completely. An object below one of them, or directly in the
    /// set, that is not in `objects` did not exist.
    directories: Vec<String>,
}

impl Before {
    /// Lists the objects directly in the set, its packages, and its pages and those of `families`.
    pub(super) fn list(place: &SetPlace, families: &[ArtifactGroup]) -> Result<Self> {
        let mut directories = vec!["simple/".to_owned(), "dist/".to_owned()];
        directories.extend(families.iter().map(|family| format!("{family}/")));
        let mut objects = place.list("", Depth::Children)?;
        for directory in &directories {
            objects.extend(place.list(directory, Depth::All)?);
        }
        Ok(Self {
            objects: objects.into_iter().collect(),
            directories,
        })
    }

    /// Decides what to do with each item, in the order of the items.
    pub(super) fn actions(
        &self,
        place: &SetPlace,
        items: &[Item],
        overwrite: bool,
        stop: &Stop,
    ) -> Result<Vec<Action>> {
        parallel::try_map(items, REQUESTS, stop, |item| {
            Ok(Action::of(item, self.find(place, item)?, overwrite))
        })
    }

    /// The existing object of an item, if there is one.
    fn find(&self, place: &SetPlace, item: &Item) -> Result<Option<ExistingObject>> {
        let listed = self.objects.get(&item.path);
        if listed.is_none() && !self.is_likely(&item.path) {
            return Ok(None);
        }
        let there = ExistingObject::find(place, &item.path)
            .with_context(|| format!("failed to read `{}`", item.path))?;
        // The ETag of the listing, not of the request above. A page that another writer changed
        // between the two may name packages that this one does not know; the write has to fail.
        Ok(there.map(|there| ExistingObject {
            etag: listed.map_or(there.etag, |listed| listed.etag.clone()),
            ..there
        }))
    }

    /// Whether an object that was not listed may exist, so that it is worth a request. A listing may
    /// leave out keys that end in `/`, but contains the same page under its file name. If only the
    /// key that ends in `/` exists, it is written again, which does no harm.
    fn is_likely(&self, path: &str) -> bool {
        if path.ends_with('/') {
            let directory = path.strip_prefix(TOP).unwrap_or(path);
            let twins = ["index.html", "index.json"].map(|name| format!("{directory}{name}"));
            return twins.iter().any(|twin| self.objects.contains_key(twin));
        }
        let mut directories = self.directories.iter();
        path.contains('/') && !directories.any(|directory| path.starts_with(directory.as_str()))
    }
}

/// What is done with an object, and why.
#[derive(Clone, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Action {
    New,
    /// The place has the same bytes: nothing to do.
    Same,
    /// The place has other bytes, which are replaced: a page, or a file with `--overwrite`.
    Replace(ExistingObject),
    /// The place has other bytes, which must not be replaced. The upload fails.
    Refuse(ExistingObject),
    /// A page that the index no longer has.
    Remove,
}

impl Action {
    pub(super) fn of(item: &Item, there: Option<ExistingObject>, overwrite: bool) -> Self {
        match there {
            None => Self::New,
            Some(there) if there.sha256 == item.sha256 => Self::Same,
            Some(there) if item.is_page() || overwrite => Self::Replace(there),
            Some(there) => Self::Refuse(there),
        }
    }
}

/// Which writes have a condition, so that no other writer's object is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// An upload. A package must not replace one that another job uploaded after the destination
    /// was listed. Pages are always replaced.
    Packages,
    /// An index in a bucket. A page replaces only the version that this writer has seen.
    Pages,
    /// An index in a directory. Two processes that index it are not protected from each other.
    Nothing,
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
    pub(super) fn watch(&self) -> Watch<'_> {
        Watch {
            stop: &self.world.stop,
            progress: &self.progress,
        }
    }

    /// Writes objects, which are sorted by phase, and reads them back. Calls `done` with each of
    /// them, and whether it had to be written.
    ///
    /// A phase begins only when the one before it is complete, so that readers, who may come at any
    /// time, never follow a link to a missing file. `set.json` is the last one, and says that the set
    /// is complete, so everything else is read back before.
    pub(super) fn carry_out(
        &self,
        actions: &[(Item, Action)],
        mut done: impl FnMut(&Item, bool),
    ) -> Result<()> {
        let mut lost = Vec::new();
        let is_document = |(item, _): &(Item, Action)| item.phase == Phase::Whole;
        for actions in actions.chunk_by(|a, b| is_document(a) == is_document(b)) {
            for phase in actions.chunk_by(|(a, _), (b, _)| a.phase == b.phase) {
                self.write_phase(phase, &mut done)?;
            }
            lost.extend(self.verify(actions)?);
        }
        // See `verify`.
        if let Some(path) = lost.first() {
            let (key, url) = (self.to.key(path)?, self.to.urls()?.find_links());
            self.world.console.warn(format!(
                "this server drops the pages of directories, such as `{key}`: install with `--find-links {url}`"
            ));
        }
        Ok(())
    }

    /// Writes root pages one after the other, and the objects of any other phase in parallel.
    fn write_phase(
        &self,
        phase: &[(Item, Action)],
        mut done: impl FnMut(&Item, bool),
    ) -> Result<()> {
        let act = |(item, action): &(Item, Action)| match action {
            Action::Same => Ok(false),
            Action::Refuse(there) => bail!(No(item.conflict(there))),
            action => {
                let written = self.write(item, action);
                written.with_context(|| format!("failed to write `{}`", item.path))
            }
        };
        if phase.iter().any(|(item, _)| item.phase >= Phase::Root) {
            for step in phase {
                self.world.stop.check()?;
                done(&step.0, act(step)?);
            }
            return Ok(());
        }
        let (directories, files): (Vec<_>, Vec<_>) =
            phase.iter().partition(|(item, _)| item.is_directory());
        // File names first: their condition is that of the keys which end in `/` too.
        for mut steps in [files, directories] {
            // The largest first. A large file that starts last would upload alone at the end.
            steps.sort_by_key(|(item, _)| Reverse(item.size));
            let act = |step: &&(Item, Action)| act(step);
            let stop = &self.world.stop;
            parallel::try_each(&steps, REQUESTS, stop, act, |(item, _), is_written| {
                done(item, is_written);
            })?;
        }
        Ok(())
    }

    /// Writes an object. Returns whether it had to be written: another writer may have written the
    /// same bytes meanwhile.
    fn write(&self, item: &Item, action: &Action) -> Result<bool> {
        let condition = self.condition(item, action);
        let options = PutOptions {
            content_type: item.content_type().to_owned(),
            cache_control: Some(item.cache_control().to_owned()),
            condition: condition.clone(),
            sha256: Some(item.sha256),
        };
        let (store, key, size) = (&self.to.store, self.to.key(&item.path)?, item.size);
        let answer = match &item.bytes {
            ItemBytes::Here(bytes) => store.put(&key, &&**bytes, &options),
            ItemBytes::OnDisk(path) => {
                let watch = self.watch();
                store.put(&key, &OnDisk { path, size, watch }, &options)
            }
        };
        match answer {
            Ok(()) => Ok(true),
            Err(error) if is_conflict(&error, &condition) => {
                let there = ExistingObject::find(self.to, &item.path)?;
                if there.as_ref().is_some_and(|it| it.sha256 == item.sha256) {
                    return Ok(false);
                }
                self.overtaken.store(true, Ordering::Relaxed);
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

    fn condition(&self, item: &Item, action: &Action) -> Condition {
        match (self.guard, action) {
            // A key that ends in `/` has no ETag from the listing. It needs no condition: the same
            // page was just written under its file name, with the condition.
            _ if item.is_directory() => Condition::Always,
            (Guard::Packages, Action::New) if !item.is_page() => Condition::IfAbsent,
            (Guard::Pages, Action::New) => Condition::IfAbsent,
            (Guard::Pages, Action::Replace(there)) => {
                let etag = there.etag.clone();
                etag.map_or(Condition::Always, Condition::IfSame)
            }
            _ => Condition::Always,
        }
    }

    /// Reads back what was written, and compares it. An index in a directory needs no such check.
    ///
    /// Returns the keys ending in `/` that are empty: some servers treat such a key as a directory
    /// and drop the bytes. This is no error, because the page also exists under its file name.
    fn verify(&self, actions: &[(Item, Action)]) -> Result<Vec<String>> {
        let mut lost = Vec::new();
        if self.guard == Guard::Nothing {
            return Ok(lost);
        }
        let look = |(item, _): &(Item, Action)| {
            let is_there = self.is_there(item);
            is_there.with_context(|| format!("failed to read back `{}`", item.path))
        };
        let stop = &self.world.stop;
        parallel::try_each(actions, REQUESTS, stop, look, |(item, _), is_there| {
            if !is_there {
                lost.push(item.path.clone());
            }
        })?;
        lost.sort_unstable();
        Ok(lost)
    }

    /// Whether an object has its bytes. `false` for an empty key that ends in `/`.
    fn is_there(&self, item: &Item) -> Result<bool> {
        let (store, key) = (&self.to.store, self.to.key(&item.path)?);
        let object = store.head(&key).map_err(failed)?;
        if object.size == 0 && item.size > 0 && item.is_directory() {
            return Ok(false);
        }
        // The store verified a package when it arrived, so it is not downloaded again; without a
        // recorded digest, only its size is compared. An upload downloads its pages, each under its
        // file name only.
        let is_read = item.is_page() && !item.is_directory() && self.guard == Guard::Packages;
        let (sha256, size) = match object.sha256 {
            Some(sha256) if !is_read => (sha256, object.size),
            None if item.phase == Phase::File => (item.sha256, object.size),
            _ => Sha256::of_reader(store.get(&key, Span::Whole).map_err(failed)?)?,
        };
        let there = ExistingObject {
            size,
            sha256,
            etag: None,
        };
        ensure!(
            there.size == item.size && there.sha256 == item.sha256,
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

/// Converts the error of a store. Missing access stays an error of usage; any other failure is a
/// failed transfer, which has its own exit code ([`No`]).
fn failed(error: StoreError) -> Error {
    let is_tried = !matches!(
        error.kind(),
        StoreFailureKind::Denied | StoreFailureKind::Unusable
    );
    let error = Error::from(error);
    if !is_tried {
        return error;
    }
    let no = Error::new(No(one_line(&error)));
    hints(&error).into_iter().rev().fold(no, hinted)
}

/// A negative answer with a cause for each line. `None` without any.
pub(super) fn because(headline: String, mut causes: Vec<String>) -> Option<Error> {
    // The exit code depends on the type of the innermost cause, so that one has to be a `No`.
    let innermost = Error::from(No(causes.pop()?));
    let causes = causes.into_iter().rev();
    Some(causes.fold(innermost, Error::context).context(headline))
}

/// A file on disk as the body of a request.
struct OnDisk<'a> {
    path: &'a Path,
    size: u64,
    watch: Watch<'a>,
}

impl Body for OnDisk<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        let mut source = fs::File::open(self.path)?;
        source.seek(SeekFrom::Start(offset))?;
        let watch = self.watch;
        Ok(Box::new(Watched { source, watch }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_directory_may_be_there_when_its_twin_is() {
        let listed = |paths: &[&str]| {
            let object = |path: &&str| Object {
                key: path.parse().unwrap(),
                size: 1,
                sha256: None,
                checksum: None,
                content_type: None,
                etag: None,
                modified: None,
            };
            Before {
                objects: paths
                    .iter()
                    .map(|path| ((*path).to_owned(), object(path)))
                    .collect(),
                directories: vec!["dist/".into(), "simple/".into()],
            }
        };
        let before = listed(&["simple/a/index.html", "simple/_json/index.json"]);
        for path in ["simple/a/", "simple/_json/", "other/b.whl"] {
            assert!(before.is_likely(path), "{path}");
        }
        for path in [
            "dist/b.whl",
            "simple/b/",
            "simple/",
            "./",
            "simple/a",
            "SHA256SUMS",
        ] {
            assert!(!before.is_likely(path), "{path}");
        }
        assert!(listed(&["index.html"]).is_likely("./"));
    }
}
