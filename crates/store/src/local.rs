//! A [`Store`] in a local directory, laid out like a bucket: a file's path below the root is its
//! key.
//!
//! The key `a/`, the page of a directory, is stored as `a/index.html`, or as `a/index.json` for
//! JSON. The content type is derived from the file extension, cache headers are dropped, and
//! symlinks are not objects unless the store follows links.

use std::{
    collections::BTreeSet,
    fs::Metadata,
    io::{self, BufRead as _, Read, Seek as _, SeekFrom, Write as _},
    ops::Range,
    path::{MAIN_SEPARATOR, Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use fs_err as fs;
use walkdir::{DirEntry, WalkDir};

use crate::{
    Body, Condition, Depth, Object, PutOptions, Span, Store, StoreError, StoreFailureKind,
    is_to_delete, location::Key,
};
use rocwheel_base::{
    atomic::{self, AtomicFile, AtomicLink},
    digest::{Hasher, Sha256},
    io::buffered,
};

/// The largest object that is read into memory before it is written.
const SMALL: u64 = 256 << 10;

/// Objects as files below one directory.
#[derive(Debug, derive_more::Display)]
#[display("{}", root.display())]
pub struct LocalStore {
    root: PathBuf,
    /// Whether a symlink to a file is read as that file. The store never writes through a symlink.
    follows_links: bool,
    /// Directories in which [`atomic::sweep`] has already removed the leftovers of killed writers.
    swept: Mutex<BTreeSet<PathBuf>>,
}

impl LocalStore {
    /// The directory need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), follows_links: false, swept: Mutex::default() }
    }

    /// A directory that belongs to the user, in which an object may be a symlink to a file.
    pub fn following_links(root: impl Into<PathBuf>) -> Self {
        Self { follows_links: true, ..Self::new(root) }
    }

    /// The directory that has the objects.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of an object to read. The page of a directory is its JSON page, or else its HTML page: the
    /// indexer of TheRock's buckets puts a list of the directory beside a JSON page.
    fn object_path(&self, key: &Key) -> Result<PathBuf, StoreError> {
        if !key.is_directory() {
            return self.path_to_read(key.as_str());
        }
        let json_page = self.path_to_read(&format!("{key}index.json"))?;
        match fs::symlink_metadata(&json_page) {
            Ok(_) => Ok(json_page),
            Err(_) => self.path_to_read(&format!("{key}index.html")),
        }
    }

    /// The path of a key whose file or directory is read. Fails if a symlink or a component such as `..`
    /// could lead out of the root.
    fn path_to_read(&self, key: &str) -> Result<PathBuf, StoreError> {
        let path = self.path_below_root(key)?;
        if !self.follows_links {
            refuse_link(&path, key)?;
        }
        Ok(path)
    }

    /// Like [`Self::path_to_read`], but the last component may be a symlink: for a file that will not be
    /// opened, only replaced or checked for existence.
    fn path_below_root(&self, key: &str) -> Result<PathBuf, StoreError> {
        if !key.split('/').all(is_plain) {
            return Err(StoreError::new(StoreFailureKind::Unusable, key));
        }
        let mut path = self.root.clone();
        let mut components = key.split('/').peekable();
        while let Some(component) = components.next() {
            path.push(component);
            if components.peek().is_some() {
                refuse_link(&path, key)?;
            }
        }
        Ok(path)
    }

    /// Creates the directory of a path.
    fn create_directory(&self, path: &Path, key: &Key) -> Result<(), StoreError> {
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.contains(directory) {
            return Ok(());
        }
        // In a new directory no killed writer has left anything.
        if fs::create_dir(directory).is_err() {
            fs::create_dir_all(directory).map_err(|error| match error.kind() {
                // A file exists where a directory is needed.
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                    StoreError::new(StoreFailureKind::Unusable, key).caused_by(error)
                }
                _ => StoreError::from_io(key, error),
            })?;
            atomic::sweep(directory);
        }
        swept.insert(directory.to_owned());
        Ok(())
    }

    /// Puts an object that fits into memory. The file of a small object is made at once, and the system is asked
    /// only what the write itself does not answer: an index of 10,000 packages has 11,000 small objects.
    fn put_small(
        &self,
        key: &Key,
        path: &Path,
        body: &dyn Body,
        options: &PutOptions,
    ) -> Result<(), StoreError> {
        let failed = |error| StoreError::from_io(key, error);
        self.create_directory(path, key)?;
        let size = body.size();
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        let reader = body.read_from(0).map_err(failed)?;
        reader.take(size + 1).read_to_end(&mut bytes).map_err(failed)?;
        let is_promised = options.sha256.is_none_or(|promised| promised == Sha256::of(&bytes));
        if bytes.len() as u64 != size || !is_promised {
            return Err(StoreError::new(StoreFailureKind::Differs, key));
        }
        if options.condition == Condition::IfAbsent {
            // This fails at whatever is there, also at a symlink. Then the cause is looked for.
            return atomic::create(path, bytes).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => ensure_allowed(&options.condition, key, path)
                    .err()
                    .unwrap_or_else(|| failed(error)),
                _ => failed(error),
            });
        }
        // As late as possible: see `put`.
        ensure_allowed(&options.condition, key, path)?;
        atomic::write(path, bytes).map_err(failed)
    }

    /// The object of a path, read through a symlink if the store follows links.
    fn read_object(&self, key: &Key, path: &Path) -> Result<Object, StoreError> {
        let metadata = match fs::metadata(path) {
            Ok(target) if self.follows_links => Ok(target),
            _ => fs::symlink_metadata(path),
        }
        .map_err(|error| StoreError::from_io(key, error))?;
        if metadata.is_file() {
            Ok(object_of(key.clone(), &metadata, path))
        } else {
            Err(StoreError::new(StoreFailureKind::NotFound, key))
        }
    }

    /// The object of a directory entry. `None` for a directory, and for a name that cannot be a key.
    fn object_of_entry(&self, entry: &DirEntry) -> io::Result<Option<Object>> {
        let mut metadata = entry.metadata()?;
        if self.follows_links && metadata.is_symlink() {
            match fs::metadata(entry.path()) {
                Ok(target) => metadata = target,
                Err(_) => return Ok(None),
            }
        }
        if !metadata.is_file() {
            return Ok(None);
        }
        let key = entry
            .path()
            .strip_prefix(&self.root)
            .ok()
            .and_then(Path::to_str)
            .and_then(|path| path.replace(MAIN_SEPARATOR, "/").parse().ok());
        Ok(key.map(|key| object_of(key, &metadata, entry.path())))
    }
}

impl Store for LocalStore {
    fn list(&self, directory: Option<&Key>, depth: Depth) -> Result<Vec<Object>, StoreError> {
        let (top, place) = match directory {
            Some(directory) => {
                let path = directory.to_path();
                (self.path_to_read(path.as_str())?, path.to_string())
            }
            None => (self.root.clone(), String::new()),
        };
        let max_depth = match depth {
            Depth::Children => 1,
            Depth::All => usize::MAX,
        };
        let mut objects = Vec::new();
        // A name that is not Unicode, or not plain, cannot be a key.
        let is_key = |entry: &DirEntry| {
            entry.depth() == 0 || entry.file_name().to_str().is_some_and(is_plain)
        };
        let entries =
            WalkDir::new(top).min_depth(1).max_depth(max_depth).into_iter().filter_entry(is_key);
        for entry in entries {
            let object = match entry.map_err(io::Error::from) {
                // The directory does not exist, or was deleted while it was listed.
                Err(error) if is_missing(&error) => continue,
                entry => entry.and_then(|entry| self.object_of_entry(&entry)),
            };
            objects.extend(object.map_err(|error| StoreError::from_io(&place, error))?);
        }
        objects.sort_by(|a: &Object, b| a.key.cmp(&b.key));
        Ok(objects)
    }

    fn head(&self, key: &Key) -> Result<Object, StoreError> {
        self.read_object(key, &self.object_path(key)?)
    }

    fn get(&self, key: &Key, span: Span) -> Result<Box<dyn Read + Send>, StoreError> {
        let path = self.object_path(key)?;
        // A directory can be opened, too. Only an object is read.
        self.read_object(key, &path)?;
        let Range { start, end } = span.range();
        let open = || {
            let mut file = fs::File::open(&path)?;
            if start > 0 {
                file.seek(SeekFrom::Start(start))?;
            }
            io::Result::Ok(file.take(end.saturating_sub(start)))
        };
        let reader = open().map_err(|error| StoreError::from_io(key, error))?;
        Ok(Box::new(reader))
    }

    fn put(
        &self,
        key: &Key,
        body: &dyn Body,
        options: &PutOptions,
    ) -> Result<Option<String>, StoreError> {
        let file_name = if !key.is_directory() {
            ""
        } else if options.content_type.contains("json") {
            "index.json"
        } else {
            "index.html"
        };
        let path = self.path_below_root(&format!("{key}{file_name}"))?;
        if body.size() <= SMALL {
            return self.put_small(key, &path, body, options).map(|()| None);
        }
        ensure_allowed(&options.condition, key, &path)?;
        let failed = |error| StoreError::from_io(key, error);
        self.create_directory(&path, key)?;
        let mut file = AtomicFile::beside(&path).map_err(failed)?;
        let (sha256, size) = copy_body(&mut file, body).map_err(failed)?;
        // The file has no name yet, so the old object stays.
        if size != body.size() || options.sha256.is_some_and(|promised| promised != sha256) {
            return Err(StoreError::new(StoreFailureKind::Differs, key));
        }
        match &options.condition {
            Condition::Always => file.replace(&path),
            Condition::IfAbsent => file.claim(&path),
            Condition::IfSame(_) => {
                // Writing took time, so check once more. This narrows the race but does not close
                // it: another writer can still come between this check and the rename, because file
                // systems have no conditional rename.
                ensure_allowed(&options.condition, key, &path)?;
                file.replace(&path)
            }
        }
        .map_err(failed)?;
        Ok(None)
    }

    fn link(
        &self,
        key: &Key,
        file: &Path,
        is_wanted: &dyn Fn(&Path) -> bool,
        condition: &Condition,
    ) -> Result<bool, StoreError> {
        let path = self.path_below_root(key.as_str())?;
        ensure_allowed(condition, key, &path)?;
        self.create_directory(&path, key)?;
        // A hard link to a symlink would be another symlink.
        let Ok(file) = fs::canonicalize(file) else {
            return Ok(false);
        };
        match hard_link(&file, &path, is_wanted, condition) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(StoreError::from_io(key, error))
            }
            // Another file system, a file of another user, or too many links.
            Err(_) => Ok(false),
            Ok(is_linked) => Ok(is_linked),
        }
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        if !is_to_delete(self, key, condition)? {
            return Ok(());
        }
        match fs::remove_file(self.object_path(key)?) {
            Err(error) if !is_missing(&error) => Err(StoreError::from_io(key, error)),
            _ => Ok(()),
        }
    }
}

/// Gives a file another name, if it is the wanted one.
///
/// `is_wanted` looks at the file under a temporary name. The name `file` may become another file while
/// `is_wanted` reads, and under the name `path` the file would have replaced the object already.
fn hard_link(
    file: &Path,
    path: &Path,
    is_wanted: &dyn Fn(&Path) -> bool,
    condition: &Condition,
) -> io::Result<bool> {
    let link = AtomicLink::to(file, path)?;
    if !is_wanted(link.path()) {
        return Ok(false);
    }
    match condition {
        Condition::IfAbsent => link.claim(path)?,
        _ => link.replace_link(path)?,
    }
    Ok(true)
}

/// Copies a whole body into a file. Returns its digest and its length.
fn copy_body(file: &mut AtomicFile, body: &dyn Body) -> io::Result<(Sha256, u64)> {
    let mut reader = buffered(body.read_from(0)?, body.size(), 1 << 20);
    let mut hasher = Hasher::default();
    loop {
        let bytes = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            return Ok(hasher.finish());
        }
        hasher.write_all(bytes)?;
        file.file().write_all(bytes)?;
        let count = bytes.len();
        reader.consume(count);
    }
}

/// The object that a file is.
fn object_of(key: Key, metadata: &Metadata, path: &Path) -> Object {
    let size = metadata.len();
    let modified = metadata.modified().ok();
    // Web servers make an `ETag` of the modification time and the size of a file, too.
    let etag = |time: SystemTime| {
        let since_epoch = time.duration_since(UNIX_EPOCH).ok()?;
        Some(format!("{:x}-{size:x}", since_epoch.as_nanos()))
    };
    Object {
        key,
        size,
        sha256: None,
        checksum: None,
        content_type: content_type(path).map(str::to_owned),
        cache_control: None,
        etag: modified.and_then(etag),
        modified,
    }
}

/// Checks that a write replaces nothing but a file, and that its condition holds. The check is not atomic with the
/// write that follows. `IfAbsent` is safe all the same, because `AtomicFile::claim` lets only one writer win.
fn ensure_allowed(condition: &Condition, key: &Key, path: &Path) -> Result<(), StoreError> {
    let metadata = fs::symlink_metadata(path).map_err(|error| StoreError::from_io(key, error));
    match &metadata {
        Ok(there) if there.is_symlink() => return Err(link_error(path, key.as_str())),
        // To a caller that lists objects, nothing is there, and no other writer has to be asked.
        Ok(there) if !there.is_file() => {
            return Err(unusable(path, key.as_str(), "a directory, or no regular file"));
        }
        _ => {}
    }
    let holds = match condition {
        Condition::Always => true,
        Condition::IfAbsent => metadata.is_err(),
        Condition::IfSame(etag) => {
            object_of(key.clone(), &metadata?, path).etag.as_ref() == Some(etag)
        }
    };
    if holds { Ok(()) } else { Err(StoreError::new(StoreFailureKind::Exists, key)) }
}

fn refuse_link(path: &Path, key: &str) -> Result<(), StoreError> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
        return Err(link_error(path, key));
    }
    Ok(())
}

fn link_error(path: &Path, key: &str) -> StoreError {
    unusable(path, key, "a symbolic link")
}

fn unusable(path: &Path, key: &str, what: &str) -> StoreError {
    let cause = format!("{what}: `{}`", path.display());
    StoreError::new(StoreFailureKind::Unusable, key)
        .caused_by(cause)
        .advised("remove it, or choose another directory")
}

/// Whether one component of a key is also a single path component, on this system and on Unix.
fn is_plain(component: &str) -> bool {
    let is_special = matches!(component, "" | "." | "..");
    let separators: &[char] = if cfg!(windows) {
        &['\\', '\0', ':', '<', '>', '"', '|', '?', '*']
    } else {
        &['\\', '\0']
    };
    !(is_special || component.starts_with(atomic::PREFIX) || component.contains(separators))
}

/// Whether the path does not exist, or one of its parents is a file.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn content_type(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "html" => Some("text/html; charset=utf-8"),
        "json" => Some("application/json"),
        "whl" | "zip" => Some("application/zip"),
        "gz" => Some("application/gzip"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
