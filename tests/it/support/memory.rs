//! A store as S3 is one: exact keys, types as they were put, and `a/` another object than
//! `a/index.html`. Unit tests of `place` have it too.

use std::{
    collections::BTreeMap,
    fmt,
    io::{Cursor, Read},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use rocwheel_base::digest::{Checksum, Sha256};
use rocwheel_store::{
    Body, Condition, Depth, Object, PutOptions, Span, Store, StoreError, StoreFailureKind,
    location::Key,
};

/// Puts an object there, whatever is there.
pub(crate) fn put(store: &dyn Store, key: &str, kind: &str, bytes: &[u8]) {
    let options = PutOptions {
        content_type: kind.to_owned(),
        cache_control: None,
        condition: Condition::Always,
        sha256: None,
    };
    store.put(&key.parse().unwrap(), &bytes, &options).unwrap();
}

/// Every copy is the same store.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryStore(Arc<Mutex<BTreeMap<Key, Kept>>>);

#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) content_type: String,
    pub(crate) cache_control: Option<String>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) modified: SystemTime,
}

impl MemoryStore {
    pub(crate) fn find(&self, key: &str) -> Option<Kept> {
        self.0.lock().unwrap().get(&key.parse::<Key>().ok()?).cloned()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().map(Key::to_string).collect()
    }

    fn kept(&self, key: &Key) -> Result<Kept, StoreError> {
        let found = self.0.lock().unwrap().get(key).cloned();
        found.ok_or_else(|| StoreError::new(StoreFailureKind::NotFound, key))
    }

    /// The clock of this store goes on with each write, so no two objects have the same time, however fast they come.
    fn keep(&self, key: &Key, mut kept: Kept, condition: Condition) -> Result<(), StoreError> {
        let mut all = self.0.lock().unwrap();
        if let Some(newest) = all.values().map(|it| it.modified).max() {
            kept.modified = kept.modified.max(newest + Duration::from_millis(1));
        }
        let there = all.get(key).map(|kept| Checksum::etag_of(&kept.bytes));
        let holds = match condition {
            Condition::Always => true,
            Condition::IfAbsent => there.is_none(),
            Condition::IfSame(etag) => there == Some(etag),
        };
        if !holds {
            return Err(StoreError::new(StoreFailureKind::Exists, key));
        }
        all.insert(key.clone(), kept);
        Ok(())
    }
}

fn object(key: &Key, kept: &Kept) -> Object {
    Object {
        key: key.clone(),
        size: kept.bytes.len() as u64,
        sha256: Some(Sha256::of(&kept.bytes)),
        checksum: None,
        content_type: Some(kept.content_type.clone()),
        cache_control: kept.cache_control.clone(),
        etag: Some(Checksum::etag_of(&kept.bytes)),
        modified: Some(kept.modified),
    }
}

impl Store for MemoryStore {
    fn list(&self, directory: Option<&Key>, depth: Depth) -> Result<Vec<Object>, StoreError> {
        let prefix = directory.map_or_else(String::new, |key| key.directory().to_string());
        let all = self.0.lock().unwrap();
        let inside = all.iter().filter(|(key, _)| {
            let rest = key.as_str().strip_prefix(&prefix);
            rest.is_some_and(|rest| depth == Depth::All || !rest.contains('/'))
        });
        Ok(inside.map(|(key, kept)| object(key, kept)).collect())
    }

    fn head(&self, key: &Key) -> Result<Object, StoreError> {
        Ok(object(key, &self.kept(key)?))
    }

    fn get(&self, key: &Key, span: Span) -> Result<Box<dyn Read + Send>, StoreError> {
        let bytes = self.kept(key)?.bytes;
        let (from, to) = match span {
            Span::Whole => (0, u64::MAX),
            Span::From(from) => (from, u64::MAX),
            Span::Between(range) => (range.start, range.end),
        };
        let at = |place: u64| bytes.len().min(usize::try_from(place).unwrap_or(usize::MAX));
        Ok(Box::new(Cursor::new(bytes[at(from)..at(to)].to_vec())))
    }

    fn put(
        &self,
        key: &Key,
        body: &dyn Body,
        options: &PutOptions,
    ) -> Result<Option<String>, StoreError> {
        let failed = |error| StoreError::from_io(key, error);
        let mut bytes = Vec::new();
        let mut reader = body.read_from(0).map_err(failed)?;
        reader.read_to_end(&mut bytes).map_err(failed)?;
        let differs = |sha256| sha256 != Sha256::of(&bytes);
        if bytes.len() as u64 != body.size() || options.sha256.is_some_and(differs) {
            return Err(StoreError::new(StoreFailureKind::Differs, key));
        }
        let kept = Kept {
            modified: SystemTime::now(),
            content_type: options.content_type.clone(),
            cache_control: options.cache_control.clone(),
            bytes,
        };
        let etag = object(key, &kept).etag;
        self.keep(key, kept, options.condition.clone())?;
        Ok(etag)
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        if let Condition::IfSame(seen) = condition
            && self.kept(key).is_ok_and(|kept| object(key, &kept).etag.as_ref() != Some(seen))
        {
            return Err(StoreError::new(StoreFailureKind::Exists, key));
        }
        self.0.lock().unwrap().remove(key);
        Ok(())
    }
}

impl fmt::Display for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory:")
    }
}
