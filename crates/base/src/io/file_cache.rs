//! [`FileCache`]: what commands know of files, so that a later command does not find it out again.
//!
//! The caches are files of their own, because they belong to different directories:
//!
//! | file | beside | an entry says |
//! |---|---|---|
//! | `.rocwheel-digests.json` | `set.json` | SHA-256 and metadata of a package, see [`DigestCache`](super::DigestCache) |
//! | `.rocwheel-checked.json` | `set.json` | what `check` said about the set |
//! | `.rocwheel-unpacked.json` | the unpacked artifacts | what an archive was unpacked to |
//! | `.rocwheel-sources.json` | `dist` | the SHA-256 of what a wheel gets of a source |
//! | `.rocwheel-built.json` | `dist` | what the bytes of a wheel follow from |
//!
//! Each works like the index of git: an entry holds while the [`Proof`] of its file is the same. A cache saves
//! work and decides nothing: without it, or with one that cannot be read, everything is found out again.
//!
//! A further one, `served-digests.json`, is in the cache directory of the user: the SHA-256 of files on servers, which
//! are trusted as they were first read. This one decides: a file that is another one later is refused.
//!
//! Facts about the objects of a bucket are no such cache. They are published with them, in `set.json`, and hold
//! while the `ETag` of the object is the same.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    path::PathBuf,
    time::SystemTime,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::FileIdentity;
use crate::{atomic, digest::Sha256};

/// The longest cache that is read. The digests of 100,000 wheels have about 200 MiB.
const LIMIT: u64 = 1 << 30;

/// By what a later command knows that a file is still the same.
pub trait Proof: Copy + PartialEq + Serialize + DeserializeOwned {
    /// Whether each change of the file after this moment gives it another proof.
    fn is_settled(&self, at: SystemTime) -> bool;
}

/// A copy is another file. To ask for the identity opens no file.
impl Proof for FileIdentity {
    fn is_settled(&self, at: SystemTime) -> bool {
        self.is_settled(at)
    }
}

/// A copy on any machine is the same file. To ask for the digest reads all of it.
impl Proof for Sha256 {
    fn is_settled(&self, _: SystemTime) -> bool {
        true
    }
}

/// Facts about files by their names, which may be paths, and the proofs with which they hold.
#[derive(Debug)]
pub struct FileCache<T, P = FileIdentity> {
    /// Where it is kept.
    path: PathBuf,
    schema: String,
    opened: SystemTime,
    entries: BTreeMap<String, CacheEntry<T, P>>,
    is_changed: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct CacheEntry<T, P> {
    proof: P,
    facts: T,
}

/// The file, as it is read. It is written from references.
#[derive(Deserialize)]
struct CacheDocument<T, P> {
    schema: String,
    files: BTreeMap<String, CacheEntry<T, P>>,
}

impl<T: PartialEq + Serialize + DeserializeOwned, P: Proof> FileCache<T, P> {
    /// An empty cache, which replaces the one at this path when it is written.
    ///
    /// `schema` names what the facts mean: their format and, if other programs would find other facts, the
    /// program.
    pub fn new(path: PathBuf, schema: impl Into<String>) -> Self {
        Self {
            path,
            schema: schema.into(),
            opened: SystemTime::now(),
            entries: BTreeMap::new(),
            is_changed: true,
        }
    }

    /// Reads a cache. It is empty if there is none, if it cannot be read, or if it has another schema.
    ///
    /// **Contract:** it is opened before the first of its files is read, because [`insert`](Self::insert)
    /// compares the changes of the files with this moment.
    pub fn open(path: PathBuf, schema: impl Into<String>) -> Self {
        let read = || -> io::Result<CacheDocument<T, P>> {
            let mut bytes = Vec::new();
            let file = fs_err::File::open(&path)?;
            file.take(LIMIT).read_to_end(&mut bytes)?;
            Ok(serde_json::from_slice(&bytes)?)
        };
        let document = read().ok();
        let cache = Self::new(path, schema);
        let document = document.filter(|document| document.schema == cache.schema);
        let entries = document.map(|document| document.files).unwrap_or_default();
        Self { entries, is_changed: false, ..cache }
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is known of a file that has this proof now.
    pub fn get(&self, name: &str, proof: P) -> Option<&T> {
        let entry = self.entries.get(name)?;
        (entry.proof == proof).then_some(&entry.facts)
    }

    /// What was known of the file that had this name, which may be another file now.
    pub fn get_earlier(&self, name: &str) -> Option<&T> {
        self.entries.get(name).map(|entry| &entry.facts)
    }

    /// Remembers what was found out about a file. The proof is the one from before its first byte was read: a
    /// file that another program changes meanwhile has another one afterwards. If a command wrote the file
    /// itself, it is the proof of the handle that it wrote.
    ///
    /// A file that changed right before the cache was opened, or later, is not remembered: a further change
    /// might not show.
    pub fn insert(&mut self, name: &str, proof: P, facts: T) {
        if !proof.is_settled(self.opened) {
            self.is_changed |= self.entries.remove(name).is_some();
            return;
        }
        let entry = CacheEntry { proof, facts };
        if self.entries.get(name) != Some(&entry) {
            self.entries.insert(name.to_owned(), entry);
            self.is_changed = true;
        }
    }

    /// Forgets the files for which `is_kept` is false, such as those that do not exist any more.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|name, _| is_kept(name));
        self.is_changed |= self.entries.len() != before;
    }

    /// Writes the cache to its path, if it has changed.
    pub fn write(&self) -> io::Result<()> {
        #[derive(Serialize)]
        struct Document<'a, T, P> {
            schema: &'a str,
            files: &'a BTreeMap<String, CacheEntry<T, P>>,
        }
        if !self.is_changed {
            return Ok(());
        }
        let document = Document { schema: &self.schema, files: &self.entries };
        atomic::write(&self.path, serde_json::to_vec(&document)?)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{path::Path, thread::sleep, time::Duration};

    use tempfile::TempDir;

    use super::*;

    const FILE: &str = "a.whl";
    const SCHEMA: &str = "facts-v1";

    fn open(directory: &Path) -> FileCache<u32> {
        FileCache::open(directory.join("cache.json"), SCHEMA)
    }

    fn identity_of(directory: &Path) -> FileIdentity {
        FileIdentity::of(&directory.join(FILE)).unwrap()
    }

    /// A directory with a file that has been there for a while, and its cache.
    fn remembered() -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs_err::write(directory.path().join(FILE), "a wheel").unwrap();
        // The time of a change of the inode cannot be set, so time has to pass.
        sleep(Duration::from_millis(100));
        let mut cache = open(directory.path());
        cache.insert(FILE, identity_of(directory.path()), 7);
        cache.write().unwrap();
        directory
    }

    fn known(directory: &Path) -> Option<u32> {
        open(directory).get(FILE, identity_of(directory)).copied()
    }

    #[test]
    fn a_file_is_known_until_it_changes_in_any_way() {
        let place = remembered();
        let path = place.path().join(FILE);
        let directory = place.path();
        assert_eq!(known(directory), Some(7));
        // Other bytes of the same length, with the old time.
        let modified = fs_err::metadata(&path).unwrap().modified().unwrap();
        fs_err::write(&path, "a whale").unwrap();
        let opened = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
        opened.file().set_modified(modified).unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().modified().unwrap(), modified);
        assert_eq!(known(directory), None);
        // A copy is another file, also with the cache of the first.
        let copy = tempfile::tempdir().unwrap();
        fs_err::write(copy.path().join(FILE), "a wheel").unwrap();
        fs_err::copy(directory.join("cache.json"), copy.path().join("cache.json")).unwrap();
        assert_eq!(known(copy.path()), None);
    }

    #[test]
    fn a_digest_proves_copies_too_and_no_other_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let open = || FileCache::open(directory.path().join("cache.json"), SCHEMA);
        let wheel = Sha256::of(b"a wheel");
        let mut cache: FileCache<u32, Sha256> = open();
        cache.insert(FILE, wheel, 7);
        cache.write().unwrap();
        assert_eq!(open().get(FILE, wheel), Some(&7));
        assert_eq!(open().get(FILE, Sha256::of(b"a whale")), None);
    }

    #[test]
    fn a_file_that_changed_after_the_cache_was_opened_is_not_remembered() {
        let place = remembered();
        let directory = place.path();
        let mut cache = open(directory);
        fs_err::write(directory.join(FILE), "a whale").unwrap();
        let identity = identity_of(directory);
        // That time passes until its facts are known changes nothing.
        sleep(Duration::from_millis(100));
        assert!(identity.is_settled(SystemTime::now()));
        cache.insert(FILE, identity, 8);
        cache.write().unwrap();
        assert_eq!(known(directory), None);
        assert!(open(directory).is_empty());
        let mut cache = open(directory);
        cache.insert(FILE, identity, 8);
        cache.write().unwrap();
        assert_eq!(known(directory), Some(8));
    }

    #[test]
    fn a_cache_that_cannot_be_read_is_empty() {
        let place = remembered();
        let directory = place.path();
        let path = directory.join("cache.json");
        let text = fs_err::read_to_string(&path).unwrap();
        for damaged in [
            text.replace(SCHEMA, "another"),
            text.replace("\"facts\":7", "\"facts\":\"7\""),
            text[..text.len() / 2].to_owned(),
            String::new(),
        ] {
            assert_ne!(damaged, text);
            fs_err::write(&path, damaged).unwrap();
            assert_eq!(known(directory), None);
        }
        fs_err::write(&path, text).unwrap();
        assert_eq!(known(directory), Some(7));
    }

    #[test]
    fn what_is_not_kept_is_forgotten_and_a_new_cache_replaces_the_old_one() {
        let place = remembered();
        let directory = place.path();
        let mut cache = open(directory);
        cache.retain(|name| name != FILE);
        assert_eq!(known(directory), Some(7), "it was not written");
        cache.write().unwrap();
        assert_eq!(known(directory), None);
        drop(cache);
        let place = remembered();
        let directory = place.path();
        let cache: FileCache<u32> = FileCache::new(directory.join("cache.json"), SCHEMA);
        cache.write().unwrap();
        assert_eq!(known(directory), None);
    }
}
