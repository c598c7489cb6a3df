//! [`DigestCache`]: the SHA-256 and the metadata of the files of a directory, so that a command does
//! not read again what an earlier one has read.
//!
//! It is a file in that directory, and works like the index of git: an entry holds for a file with the
//! same [`FileIdentity`] (device, inode, length, `mtime`, `ctime`). What was written, replaced, touched
//! or linked since has another one. A file that has just changed is not remembered, because a further
//! change might leave its times as they are.
//!
//! The cache saves work and decides nothing: without it, or with one that cannot be read, every file is
//! read.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::FileIdentity;
use crate::{atomic, digest::Sha256};

/// The name of the file. Programs that list a directory mostly leave such names out.
const FILE: &str = ".rocwheel-digests.json";
const SCHEMA: &str = "rocwheel-digests-v2";
/// The longest file that is read. 100,000 wheels have about 200 MiB.
const LIMIT: u64 = 1 << 30;

/// The digests of the files of a directory.
#[derive(Debug)]
pub struct DigestCache {
    /// Where it is kept.
    path: PathBuf,
    files: BTreeMap<String, CacheEntry>,
    is_changed: bool,
}

/// What is remembered of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedFile {
    pub sha256: Sha256,
    /// Of a wheel its METADATA, of an sdist its PKG-INFO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CacheEntry {
    identity: FileIdentity,
    #[serde(flatten)]
    file: CachedFile,
}

/// The file, as it is read. It is written from references.
#[derive(Deserialize)]
struct CacheDocument {
    schema: String,
    files: BTreeMap<String, CacheEntry>,
}

impl DigestCache {
    /// Reads the cache of a directory. It is empty if there is none, or none that can be read.
    pub fn read(directory: &Path) -> Self {
        Self::open(directory.join(FILE))
    }

    /// The same, for a cache that is kept elsewhere.
    pub fn open(path: PathBuf) -> Self {
        let read = || -> io::Result<CacheDocument> {
            let mut bytes = Vec::new();
            let file = fs_err::File::open(&path)?;
            file.take(LIMIT).read_to_end(&mut bytes)?;
            Ok(serde_json::from_slice(&bytes)?)
        };
        let found = read().ok().filter(|found| found.schema == SCHEMA);
        Self { files: found.map(|found| found.files).unwrap_or_default(), is_changed: false, path }
    }

    /// What is remembered of the file at a path below the directory, if `found` is the file that was
    /// read.
    pub fn get(&self, path: &str, found: FileIdentity) -> Option<&CachedFile> {
        let entry = self.files.get(path)?;
        (entry.identity == found).then_some(&entry.file)
    }

    /// Remembers a file that was read. `identity` is that of the handle that was read, taken before the
    /// first byte: a file that another program changes meanwhile has another one afterwards.
    pub fn insert(&mut self, path: &str, identity: FileIdentity, file: CachedFile) {
        if !identity.is_settled(SystemTime::now()) {
            self.is_changed |= self.files.remove(path).is_some();
            return;
        }
        let known = self.get(path, identity);
        if known != Some(&file) {
            let entry = CacheEntry { identity, file };
            self.files.insert(path.to_owned(), entry);
            self.is_changed = true;
        }
    }

    /// Forgets the files for which `is_kept` is false, such as those that do not exist any more.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        let before = self.files.len();
        self.files.retain(|path, _| is_kept(path));
        self.is_changed |= self.files.len() != before;
    }

    /// Writes the cache to its directory, if it has changed.
    pub fn write(&self) -> io::Result<()> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema: &'static str,
            files: &'a BTreeMap<String, CacheEntry>,
        }
        if !self.is_changed {
            return Ok(());
        }
        let document = Document { schema: SCHEMA, files: &self.files };
        let bytes = serde_json::to_vec(&document)?;
        atomic::write(&self.path, bytes)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::time::Duration;

    use super::*;

    const WHEEL: &str = "dist/a.whl";

    fn file() -> CachedFile {
        CachedFile { sha256: Sha256::of(b"a wheel"), metadata: Some("Name: a\n".to_owned()) }
    }

    fn identity_of(directory: &Path) -> FileIdentity {
        FileIdentity::of(&directory.join(WHEEL)).unwrap()
    }

    /// A directory with a file that has been there for a while, and its cache.
    fn remembered() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs_err::create_dir(directory.path().join("dist")).unwrap();
        fs_err::write(directory.path().join(WHEEL), "a wheel").unwrap();
        let mut cache = DigestCache::read(directory.path());
        // The time of a change of the inode cannot be set, so time has to pass.
        std::thread::sleep(Duration::from_millis(100));
        cache.insert(WHEEL, identity_of(directory.path()), file());
        cache.write().unwrap();
        directory
    }

    fn known(directory: &Path) -> Option<CachedFile> {
        let cache = DigestCache::read(directory);
        cache.get(WHEEL, identity_of(directory)).cloned()
    }

    #[test]
    fn a_file_is_known_until_it_changes_in_any_way() {
        let directory = remembered();
        let (directory, path) = (directory.path(), directory.path().join(WHEEL));
        assert_eq!(known(directory), Some(file()));
        // Other bytes of the same length, with the old time.
        let modified = fs_err::metadata(&path).unwrap().modified().unwrap();
        let text = fs_err::read_to_string(directory.join(FILE)).unwrap();
        fs_err::write(&path, "a whale").unwrap();
        let opened = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
        opened.file().set_modified(modified).unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().modified().unwrap(), modified);
        assert_eq!(known(directory), None);
        // A copy is another file, also with the cache of the first.
        let copy = tempfile::tempdir().unwrap();
        fs_err::create_dir(copy.path().join("dist")).unwrap();
        fs_err::write(copy.path().join(WHEEL), "a wheel").unwrap();
        fs_err::write(copy.path().join(FILE), text).unwrap();
        assert_eq!(known(copy.path()), None);
    }

    #[test]
    fn a_file_that_has_just_changed_is_not_remembered() {
        let directory = remembered();
        let directory = directory.path();
        let wheel = fs_err::File::create(directory.join(WHEEL)).unwrap();
        // So that it is still young if this test has to wait for the processor.
        let soon = SystemTime::now() + Duration::from_mins(1);
        wheel.file().set_modified(soon).unwrap();
        let mut cache = DigestCache::read(directory);
        cache.insert(WHEEL, identity_of(directory), file());
        cache.write().unwrap();
        assert_eq!(known(directory), None);
        assert!(DigestCache::read(directory).files.is_empty());
    }

    #[test]
    fn a_cache_that_cannot_be_read_is_empty() {
        let directory = remembered();
        let directory = directory.path();
        let path = directory.join(FILE);
        let text = fs_err::read_to_string(&path).unwrap();
        for damaged in
            [text.replace(SCHEMA, "another"), text[..text.len() / 2].to_owned(), String::new()]
        {
            fs_err::write(&path, damaged).unwrap();
            assert_eq!(known(directory), None);
        }
        fs_err::write(&path, text).unwrap();
        assert_eq!(known(directory), Some(file()));
        let mut cache = DigestCache::read(directory);
        cache.retain(|path| path != WHEEL);
        cache.write().unwrap();
        assert_eq!(known(directory), None);
    }
}
