//! [`ObjectMemory`]: what this machine knows of the objects of a place in a bucket, so that no command asks for it again.
//!
//! A listing says the size, the `ETag` and the time of each object, and neither its digest nor its headers. To ask for
//! those costs a request for each object. So they are remembered, with the [`ListedIdentity`] that the object had: each
//! write of an object gives it another time, also a write that only changes its headers. An object with another identity
//! is asked for as if nothing were known of it.
//!
//! It is a [`FileCache`] in the directory of the user's caches, one for each place. It saves requests and decides nothing.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::stored_package::stamp_of;
use crate::{
    console::World,
    index::package_file::{PackageFile, Remembered, is_wheel},
};
use rocwheel_base::{
    digest::Sha256,
    io::{FileCache, Proof},
};
use rocwheel_store::Object;

const FILE: &str = "objects.json";
const SCHEMA: &str = "rocwheel-objects-v1";
const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// By what a listing shows that an object is still the same.
///
/// An `ETag` alone does not: most servers make it of the bytes, and then it stays when the headers change. Nor does it
/// say the bytes: for objects in parts and for some encryption it is no digest of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListedIdentity {
    size: u64,
    /// The digest of the text of its `ETag`, because a proof has no text.
    etag: Sha256,
    /// When it was written, in nanoseconds since 1970.
    written: u64,
}

impl ListedIdentity {
    /// `None` if a listing does not say enough.
    pub(super) fn of(object: &Object) -> Option<Self> {
        Some(Self {
            size: object.size,
            etag: Sha256::of(object.etag.as_ref()?.as_bytes()),
            written: written(object)?,
        })
    }

    /// Whether an answer about one object is about the listed one. Its time has whole seconds.
    pub(super) fn is_of_answer(self, answer: &Object) -> bool {
        Self::of(answer).is_some_and(|it| {
            let is_of_time = it.written / SECOND == self.written / SECOND;
            is_of_time && it.size == self.size && it.etag == self.etag
        })
    }

    /// Whether each later write of the object shows in its time. A second write of the same bytes does not show if it
    /// comes before the clock of the server goes on, which mostly says whole seconds: `newest` is the last time by that
    /// clock that is known. A server refuses a machine whose clock is 15 minutes off, so an older object is settled
    /// anyway.
    fn is_settled_at(self, newest: u64) -> bool {
        const SKEW: Duration = Duration::from_mins(16);
        let step = if self.written.is_multiple_of(SECOND) { SECOND } else { MILLISECOND };
        let is_old = || {
            let written = UNIX_EPOCH + Duration::from_nanos(self.written);
            SystemTime::now().duration_since(written).is_ok_and(|age| age > SKEW)
        };
        newest >= self.written.saturating_add(step) || is_old()
    }
}

/// The time of the object that was written last, in nanoseconds since 1970.
pub(super) fn newest<'a>(objects: impl IntoIterator<Item = &'a Object>) -> u64 {
    let times = objects.into_iter().filter_map(written);
    times.max().unwrap_or(0)
}

fn written(object: &Object) -> Option<u64> {
    object.modified?.duration_since(UNIX_EPOCH).ok()?.as_nanos().try_into().ok()
}

/// [`ObjectMemory::insert`] knows the clock that decides.
impl Proof for ListedIdentity {
    fn is_settled(&self, _: SystemTime) -> bool {
        true
    }
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ObjectFacts {
    pub(super) sha256: Sha256,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) cache_control: Option<String>,
    /// What an index says of a package, so that it need not be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) package: Option<Box<PackageFile>>,
}

/// The facts of the objects of one place, by their paths in it.
///
/// A key that ends in `/` may be in no listing. It has an entry only if the server has dropped its bytes: then the
/// identity is that of the page under its file name, and the digest is of the bytes that were dropped.
#[derive(Debug)]
pub(super) struct ObjectMemory {
    directory: PathBuf,
    cache: OnceLock<Mutex<FileCache<ObjectFacts, ListedIdentity>>>,
}

impl ObjectMemory {
    /// What is kept in a directory of caches, which need not exist.
    pub(super) fn in_directory(directory: PathBuf) -> Self {
        Self { directory, cache: OnceLock::new() }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn cache(&self) -> MutexGuard<'_, FileCache<ObjectFacts, ListedIdentity>> {
        let open = || Mutex::new(FileCache::open(self.directory.join(FILE), SCHEMA));
        self.cache.get_or_init(open).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a listed object.
    pub(super) fn get(&self, path: &str, listed: &Object) -> Option<ObjectFacts> {
        self.cache().get(path, ListedIdentity::of(listed)?).cloned()
    }

    /// Remembers what is known of an object as it is listed, if a later write of it will show. `newest` is the last time
    /// in that listing.
    pub(super) fn insert(&self, path: &str, listed: &Object, facts: ObjectFacts, newest: u64) {
        if let Some(identity) = ListedIdentity::of(listed).filter(|it| it.is_settled_at(newest)) {
            self.cache().insert(path, identity, facts);
        }
    }

    /// Adds what an index says of packages to what is known of their objects.
    pub(super) fn insert_packages(&self, files: &[PackageFile], listed: &HashMap<String, Object>) {
        let mut cache = self.cache();
        for file in files {
            let Some(object) = listed.get(&file.path) else { continue };
            let Some(identity) = ListedIdentity::of(object) else { continue };
            let Some(facts) = cache.get(&file.path, identity) else { continue };
            if facts.sha256 != file.sha256 {
                continue;
            }
            let sidecar = listed.get(&file.sidecar_path()).filter(|_| is_wheel(file.name()));
            let remembered = Remembered {
                file: stamp_of(object),
                sidecar: sidecar.map(stamp_of),
                sidecar_sha256: file.metadata,
                requires_python: file.requires_python.clone(),
            };
            // `set.json` says the rest, and it may change while the object stays the same.
            let package = PackageFile {
                remembered: Some(Box::new(remembered)),
                yanked: None,
                run_attempt: None,
                upload_time: None,
                metadata: None,
                requires_python: None,
                ..file.clone()
            };
            let facts = ObjectFacts { package: Some(Box::new(package)), ..facts.clone() };
            cache.insert(&file.path, identity, facts);
        }
    }

    /// Forgets the objects that are gone, and writes the rest. A command whose facts cannot be remembered has done its
    /// work nevertheless.
    pub(super) fn write(&self, is_kept: impl Fn(&str) -> bool, world: &World) {
        let mut cache = self.cache();
        cache.retain(is_kept);
        let written = fs_err::create_dir_all(&self.directory).and_then(|()| cache.write());
        if let Err(error) = written {
            world.console.debug(format!("what is known of the place is not remembered: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(written: Duration) -> Object {
        Object {
            key: "a.whl".parse().unwrap(),
            size: 1,
            sha256: None,
            checksum: None,
            content_type: None,
            cache_control: None,
            etag: Some("0cc175b9c0f1b6a831c399e269772661".to_owned()),
            modified: Some(UNIX_EPOCH + written),
        }
    }

    #[test]
    fn an_object_is_remembered_only_when_the_next_write_will_show() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let at = |seconds, milliseconds| {
            object(Duration::from_secs(seconds) + Duration::from_millis(milliseconds))
        };
        let is_known = |object: &Object, last: &Object| {
            let directory = tempfile::tempdir().unwrap();
            let memory = ObjectMemory::in_directory(directory.path().to_owned());
            let sha256 = Sha256::of(b"a");
            let facts =
                ObjectFacts { sha256, content_type: None, cache_control: None, package: None };
            memory.insert("a.whl", object, facts, newest([object, last]));
            memory.get("a.whl", object).is_some()
        };
        assert!(!is_known(&at(now, 0), &at(now, 0)));
        assert!(is_known(&at(now, 0), &at(now + 1, 0)));
        // A server with a finer clock.
        assert!(!is_known(&at(now, 5), &at(now, 5)));
        assert!(is_known(&at(now, 5), &at(now, 6)));
        // It was written long ago, so no other clock is needed.
        assert!(is_known(&at(now - 3600, 0), &at(now - 3600, 0)));
    }
}
