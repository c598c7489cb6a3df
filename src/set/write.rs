//! Writes an index: sidecars, then pages of projects, then roots, each only where it differs.

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

/// Files are immutable: another file would have another name.
pub(super) const FOREVER: &str = "public, max-age=31536000, immutable";
/// Pages change; a cache may keep them but has to ask.
pub(super) const ASK_FIRST: &str = "no-cache";

/// What is done with a path, and why.
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
    /// Below the directory of the set.
    pub path: String,
    pub size: u64,
}

/// Whether changes are made, or only told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    Make,
    Tell,
}

/// Which keys a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serving {
    /// A directory's page is a file in it, and two processes that index it are one user's affair.
    Files,
    /// Exact keys, and other writers: a page is written only over what was seen.
    Keys,
}

/// Somebody else changed the index meanwhile.
#[derive(Debug, thiserror::Error)]
#[error("another writer changed `{0}` meanwhile")]
pub(super) struct Overtaken(String);

pub(super) struct Writer<'a> {
    to: &'a SetPlace,
    serving: Serving,
    mode: WriteMode,
    stop: &'a Stop,
    /// What was there before the packages were listed, by path.
    before: HashMap<String, Object>,
    /// Where all was looked at.
    watched: Vec<String>,
    /// Whether pages have the keys too that end in `/`.
    directory_pages: bool,
    made: Mutex<WrittenIndex>,
}

#[derive(Default)]
struct WrittenIndex {
    changes: Vec<IndexChange>,
    /// Every page that belongs to this index, changed or not.
    pages: HashSet<String>,
    /// Where another writer came first.
    overtaken: Option<String>,
    /// What was written, and has to be there afterwards.
    written: Vec<(String, Sha256, u64)>,
}

impl<'a> Writer<'a> {
    /// Looks at what is there, before anybody lists the packages: what changes later, another
    /// writer changed.
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

    /// Metadata beside its wheel. Where a listing had none, nobody need look.
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

    /// A page that is written even if it is the same: its own time counts.
    pub(super) fn anew(&self, page: &IndexPage) -> Result<()> {
        self.own(page);
        let there = match self.serving {
            Serving::Files => ExistingPage::Other(None),
            Serving::Keys => return self.page(page),
        };
        self.write(&page.path, page.kind, page.body.as_bytes(), there)
    }

    /// A page, under each of its keys. The one with the name of a file goes first: it is listed,
    /// so that another writer is noticed there.
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
        there.with_context(|| format!("look at `{}`", shown(path)))
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
            // Whoever may write the page may write its twin.
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
        write().with_context(|| format!("write `{}`", shown(path)))
    }

    fn there(&self, path: &str, bytes: &[u8]) -> Result<ExistingPage> {
        let key = &self.to.key(path)?;
        let object = match (self.before.get(path), self.serving) {
            // If another writer has put something there since, the condition will say so.
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
        let before = self.before.get(path).unwrap_or(&object);
        Ok(ExistingPage::Other(before.etag.clone()))
    }

    /// Whether a path would have been listed. A listing leaves out pages of directories.
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
            // What was to be replaced can be gone as well.
            Err(error) if is_conflict(&error, condition) => bail!(self.overtaken(path)),
            done => done?,
        }
        if let Some(sha256) = sha256 {
            let written = (path.to_owned(), sha256, bytes.len() as u64);
            self.note(|made| made.written.push(written));
        }
        Ok(())
    }

    /// Noted apart, because several failures at once are told as one text.
    fn overtaken(&self, path: &str) -> Overtaken {
        self.note(|made| made.overtaken = Some(path.to_owned()));
        Overtaken(path.to_owned())
    }

    /// Pages of projects and of families that were there before and do not belong to this index.
    pub(super) fn stale(&self, families: &[ArtifactGroup]) -> Vec<String> {
        let paths = self.before.keys().map(String::as_str);
        self.note(|made| stale::find(paths, families, |path| made.pages.contains(path)))
    }

    /// Where another writer came first, if one did.
    pub(super) fn is_overtaken(&self) -> Option<Overtaken> {
        self.note(|made| made.overtaken.clone().map(Overtaken))
    }

    /// Removes what an index writes and this one did not write.
    pub(super) fn remove(&self, paths: Vec<String>) -> Result<()> {
        for path in paths {
            self.stop.check()?;
            if self.mode == WriteMode::Make {
                let page = path.strip_suffix("index.html");
                let page = page.or_else(|| path.strip_suffix("index.json"));
                let page = page.filter(|_| self.directory_pages);
                for path in page.into_iter().chain([path.as_str()]) {
                    let deleted = self.to.store().delete(&self.to.key(path)?);
                    deleted.with_context(|| format!("remove `{path}`"))?;
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

    /// Asks for everything that was written so far. Says which pages of directories are empty, as
    /// they are on servers that take such a key for a directory.
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
            look().with_context(|| format!("read back `{}`", shown(path)))
        };
        parallel::try_each(&written, at_once, self.stop, look, |(path, ..), kept| {
            if !kept {
                lost.push(path.clone());
            }
        })?;
        lost.sort_unstable();
        Ok(lost)
    }

    /// Every change, in the order of their making; of those that are made at once, by path.
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
    /// With this mark, where marks count.
    Other(Option<String>),
}

fn cache_control(path: &str) -> &'static str {
    if path.ends_with(SIDECAR) {
        FOREVER
    } else {
        ASK_FIRST
    }
}

/// Whether a path is that of a directory's page; that of the set itself is empty.
fn is_directory(path: &str) -> bool {
    path.is_empty() || path.ends_with('/')
}

/// The page of the set's own directory has no name.
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
