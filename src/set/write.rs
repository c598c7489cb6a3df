//! Writes the objects of an index: sidecars, pages and `set.json`.
//!
//! [`Writer`] compares each object with what the place has, and writes it only if the bytes differ.
//! In a bucket every write has a condition, so that two jobs that index the same set cannot
//! overwrite each other's pages. `indexing` decides the order of the writes.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    io::Read as _,
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
};

use super::{place::SetPlace, stale};
use crate::{
    digest::Sha256,
    error::{Context as _, No, Result, Stop, bail, ensure},
    index::{IndexPage, PageKind, SIDECAR, SetStamp},
    location::Key,
    parallel,
    run::ArtifactGroup,
    store::{Condition, Depth, Object, PutOptions, Span, StoreError, StoreFailureKind},
};

/// `Cache-Control` of packages and sidecars. Their names contain the version, so their bytes never
/// change.
pub(super) const FOREVER: &str = "public, max-age=31536000, immutable";
/// `Cache-Control` of pages. A cache may keep a page, but must revalidate it.
pub(super) const ASK_FIRST: &str = "no-cache";

/// What the index does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    New,
    Replace,
    Remove,
}

/// One change to an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexChange {
    pub act: Act,
    /// Relative to the directory of the set.
    pub path: String,
    pub size: u64,
}

/// Whether to write the changes, or only to list them (`--dry-run`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    Make,
    Tell,
}

/// How the place stores pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serving {
    /// A local directory: a page is a file. Writes have no conditions; two processes that index
    /// the same directory are not protected from each other.
    Files,
    /// A bucket: exact keys, and other jobs may write too. A page replaces only the version that
    /// this writer has seen.
    Keys,
}

/// Another job changed the index since this one listed it. The index starts again.
#[derive(Debug, thiserror::Error)]
#[error("another writer changed `{0}` meanwhile")]
pub(super) struct Overtaken(String);

pub(super) struct Writer<'a> {
    to: &'a SetPlace,
    serving: Serving,
    mode: WriteMode,
    stop: &'a Stop,
    /// The pages that existed before the packages were listed, by path. The `ETag` of
    /// each is the condition of a later write.
    before: HashMap<String, Object>,
    /// Directories that were listed completely. A path below one of them that is not in `before`
    /// did not exist.
    watched: Vec<String>,
    /// Whether each page is also stored under its key that ends in `/`.
    directory_pages: bool,
    made: Mutex<WrittenIndex>,
}

#[derive(Default)]
struct WrittenIndex {
    changes: Vec<IndexChange>,
    /// Every page that belongs to this index, changed or not.
    pages: HashSet<String>,
    /// The path of a write that failed because another writer changed the object.
    overtaken: Option<String>,
    /// What was written since the last `verify`: path, digest and size.
    written: Vec<(String, Sha256, u64)>,
}

impl<'a> Writer<'a> {
    /// Lists the existing pages. Call this before listing the packages.
    ///
    /// The order matters. Suppose another job adds a package after our list of packages, and writes
    /// its pages. Our pages lack that package. They must not replace the new ones, and do not:
    /// the `ETag` from before our list no longer matches, the write fails, and the index starts
    /// again.
    pub(super) fn new(
        to: &'a SetPlace,
        mode: WriteMode,
        stop: &'a Stop,
        families: &[ArtifactGroup],
    ) -> Result<Self> {
        let serving = match to.local() {
            Some(_) => Serving::Files,
            None => Serving::Keys,
        };
        let mut watched = vec!["simple/".to_owned()];
        watched.extend(families.iter().map(|family| format!("{family}/")));
        let mut listed = match serving {
            Serving::Files => Vec::new(),
            Serving::Keys => to.list("", Depth::Children)?,
        };
        for directory in &watched {
            listed.extend(to.list(directory, Depth::All)?);
        }
        Ok(Self {
            to,
            serving,
            mode,
            stop,
            before: listed.into_iter().collect(),
            watched,
            directory_pages: to.has_directory_pages() && serving == Serving::Keys,
            made: Mutex::default(),
        })
    }

    /// Writes the `.metadata` file of a wheel. If the listing had none, it is written without a
    /// request to compare it first.
    pub(super) fn sidecar(
        &self,
        path: &str,
        listed: Option<&SetStamp>,
        bytes: &[u8],
    ) -> Result<()> {
        match listed {
            Some(_) => self.sync(path, PageKind::Text, bytes),
            None => self.write(path, PageKind::Text, bytes, ExistingPage::Nothing),
        }
    }

    /// Writes a page. In a directory it is written even if its bytes are the same: the modification
    /// time of `set.json` says when the stamps in it were recorded (see `KnownFacts`).
    pub(super) fn rewrite(&self, page: &IndexPage) -> Result<()> {
        self.own(page);
        let there = match self.serving {
            Serving::Files => ExistingPage::Other(None),
            Serving::Keys => return self.page(page),
        };
        self.write(&page.path, page.kind, page.body.as_bytes(), there)
    }

    /// Writes a page under each of its keys.
    ///
    /// The key with the file name (`simple/rocm/index.html`) comes first. Listings contain it, so
    /// its `ETag` is known and a conflict with another writer shows here. A listing may leave out the
    /// key that ends in `/`.
    pub(super) fn page(&self, page: &IndexPage) -> Result<()> {
        self.own(page);
        self.sync(&page.path, page.kind, page.body.as_bytes())?;
        match page.directory().filter(|_| self.directory_pages) {
            Some(directory) => self.sync(directory, page.kind, page.body.as_bytes()),
            None => Ok(()),
        }
    }

    fn sync(&self, path: &str, kind: PageKind, bytes: &[u8]) -> Result<()> {
        let there = self.look(path, bytes)?;
        self.write(path, kind, bytes, there)
    }

    fn look(&self, path: &str, bytes: &[u8]) -> Result<ExistingPage> {
        let there = self.there(path, bytes);
        there.with_context(|| format!("failed to read `{}`", shown(path)))
    }

    fn own(&self, page: &IndexPage) {
        self.note(|made| made.pages.insert(page.path.clone()));
    }

    fn write(&self, path: &str, kind: PageKind, bytes: &[u8], there: ExistingPage) -> Result<()> {
        let write = || -> Result<()> {
            let (act, condition) = match there {
                ExistingPage::Same => return Ok(()),
                ExistingPage::Nothing => (Act::New, Condition::IfAbsent),
                ExistingPage::Other(etag) => (
                    Act::Replace,
                    etag.map_or(Condition::Always, Condition::IfSame),
                ),
            };
            // A key that ends in `/` has no ETag from the listing. It needs no condition: the same
            // page was just written under its file name, with the condition.
            let condition = if is_directory(path) {
                Condition::Always
            } else {
                condition
            };
            if self.mode == WriteMode::Make {
                self.put(path, kind, bytes, &condition)?;
            }
            let (path, size) = (path.to_owned(), bytes.len() as u64);
            self.note(|made| made.changes.push(IndexChange { act, path, size }));
            Ok(())
        };
        write().with_context(|| format!("failed to write `{}`", shown(path)))
    }

    fn there(&self, path: &str, bytes: &[u8]) -> Result<ExistingPage> {
        let key = &self.to.key(path)?;
        let object = match (self.before.get(path), self.serving) {
            // The listing did not have it. If another writer has created it since, the condition
            // `IfAbsent` fails.
            (None, _) if self.is_watched(path) => return Ok(ExistingPage::Nothing),
            (Some(object), Serving::Files) => object.clone(),
            _ => match self.to.store().head(key) {
                Err(error) if error.kind() == StoreFailureKind::NotFound => {
                    return Ok(ExistingPage::Nothing);
                }
                object => object?,
            },
        };
        let is_same = object.size == bytes.len() as u64
            && match object.sha256 {
                Some(sha256) => sha256 == Sha256::of(bytes),
                None => self.read(key, object.size)? == bytes,
            };
        if is_same {
            return Ok(ExistingPage::Same);
        }
        // The ETag of the listing, not of the request above. A page that another writer changed
        // between the two may name packages that this index does not know; the write has to fail.
        let before = self.before.get(path).unwrap_or(&object);
        Ok(ExistingPage::Other(before.etag.clone()))
    }

    /// Whether the listing would contain this path if it existed. Listings may leave out keys that
    /// end in `/`.
    fn is_watched(&self, path: &str) -> bool {
        let in_listed = self
            .watched
            .iter()
            .any(|directory| path.starts_with(directory));
        let in_top = self.serving == Serving::Keys && !path.contains('/');
        !is_directory(path) && (in_listed || in_top)
    }

    fn read(&self, key: &Key, size: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).min(64 << 20) + 1);
        let reader = self.to.store().get(key, Span::Whole)?;
        reader
            .take(size.saturating_add(1))
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn put(&self, path: &str, kind: PageKind, bytes: &[u8], condition: &Condition) -> Result<()> {
        let (condition, sha256) = match self.serving {
            Serving::Files => (&Condition::Always, None),
            Serving::Keys => (condition, Some(Sha256::of(bytes))),
        };
        let options = PutOptions {
            content_type: kind.content_type().to_owned(),
            cache_control: Some(cache_control(path).to_owned()),
            condition: condition.clone(),
            sha256,
        };
        match self.to.store().put(&self.to.key(path)?, &bytes, &options) {
            // The other writer may also have deleted the object that this one replaces.
            Err(error) if is_conflict(&error, condition) => bail!(self.overtaken(path)),
            done => done?,
        }
        if let Some(sha256) = sha256 {
            let written = (path.to_owned(), sha256, bytes.len() as u64);
            self.note(|made| made.written.push(written));
        }
        Ok(())
    }

    /// Records the conflict separately: errors of parallel writes are joined into one text, in
    /// which the type `Overtaken` can no longer be found.
    fn overtaken(&self, path: &str) -> Overtaken {
        self.note(|made| made.overtaken = Some(path.to_owned()));
        Overtaken(path.to_owned())
    }

    /// Existing pages of projects and families that do not belong to this index.
    pub(super) fn stale(&self, families: &[ArtifactGroup]) -> Vec<String> {
        let paths = self.before.keys().map(String::as_str);
        self.note(|made| stale::find(paths, families, |path| made.pages.contains(path)))
    }

    /// The conflict with another writer, if there was one.
    pub(super) fn is_overtaken(&self) -> Option<Overtaken> {
        self.note(|made| made.overtaken.clone().map(Overtaken))
    }

    /// Deletes stale pages and sidecars.
    pub(super) fn remove(&self, paths: Vec<String>) -> Result<()> {
        for path in paths {
            self.stop.check()?;
            if self.mode == WriteMode::Make {
                // Delete the key that ends in `/` first. Stale pages are found by their file names
                // in a listing, so an interrupted run leaves the name by which the next one finds
                // both.
                let page = path.strip_suffix("index.html");
                let page = page.or_else(|| path.strip_suffix("index.json"));
                let page = page.filter(|_| self.directory_pages);
                for path in page.into_iter().chain([path.as_str()]) {
                    let deleted = self.to.store().delete(&self.to.key(path)?);
                    deleted.with_context(|| format!("failed to remove `{path}`"))?;
                }
            }
            self.note(|made| {
                made.changes.push(IndexChange {
                    act: Act::Remove,
                    path,
                    size: 0,
                });
            });
        }
        Ok(())
    }

    /// Reads back everything that was written since the last call, and compares it.
    ///
    /// Returns the keys ending in `/` that are empty: some servers treat such a key as a directory
    /// and drop the bytes. This is no error, because the page also exists under its file name.
    pub(super) fn verify(&self, at_once: NonZeroUsize) -> Result<Vec<String>> {
        let written = self.note(|made| std::mem::take(&mut made.written));
        let mut lost = Vec::new();
        let look = |(path, sha256, size): &(String, Sha256, u64)| {
            let look = || -> Result<bool> {
                let key = self.to.key(path)?;
                let object = self.to.store().head(&key)?;
                if object.size == 0 && *size > 0 && key.is_directory() {
                    return Ok(false);
                }
                let is = object
                    .sha256
                    .map_or_else(|| Ok(Sha256::of(&self.read(&key, *size)?)), Ok);
                let is: Result<Sha256> = is;
                let is_same = object.size == *size && is? == *sha256;
                ensure!(is_same, No("not what was written".to_owned()));
                Ok(true)
            };
            look().with_context(|| format!("failed to read back `{}`", shown(path)))
        };
        parallel::try_each(&written, at_once, self.stop, look, |(path, ..), kept| {
            if !kept {
                lost.push(path.clone());
            }
        })?;
        lost.sort_unstable();
        Ok(lost)
    }

    /// All changes in the order of the writes. Changes that were made in parallel are sorted by
    /// path, so that the output is the same each time.
    pub(super) fn into_changes(self) -> Vec<IndexChange> {
        let made = self.made.into_inner();
        let mut changes = made.unwrap_or_else(PoisonError::into_inner).changes;
        changes.sort_by_cached_key(|change| match change.act {
            Act::Remove => (3, String::new()),
            _ if change.path.ends_with(SIDECAR) => (0, change.path.clone()),
            _ if stale::is_project_page(&change.path) => (1, change.path.clone()),
            _ => (2, String::new()),
        });
        changes
    }

    fn note<T>(&self, change: impl FnOnce(&mut WrittenIndex) -> T) -> T {
        change(&mut self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

enum ExistingPage {
    Nothing,
    Same,
    /// Other bytes, with the `ETag` that the write requires, if the store has one.
    Other(Option<String>),
}

fn cache_control(path: &str) -> &'static str {
    if path.ends_with(SIDECAR) {
        FOREVER
    } else {
        ASK_FIRST
    }
}

/// Whether a path is the key of a directory. The key of the set's own directory is empty.
fn is_directory(path: &str) -> bool {
    path.is_empty() || path.ends_with('/')
}

/// The path for messages: `./` for the set's own directory, whose path is empty.
fn shown(path: &str) -> &str {
    if path.is_empty() { "./" } else { path }
}

fn is_conflict(error: &StoreError, condition: &Condition) -> bool {
    match error.kind() {
        StoreFailureKind::Exists => true,
        StoreFailureKind::NotFound => matches!(condition, Condition::IfSame(_)),
        _ => false,
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::New => "new",
            Self::Replace => "replace",
            Self::Remove => "remove",
        })
    }
}
