//! A store that may not be asked: it counts as empty, and takes nothing.

use std::{fmt, io::Read};

use super::{
    Body, Condition, Depth, Object, PutOptions, Span, Store, StoreError, StoreFailureKind,
};
use crate::location::Key;

/// Stands for another store in plans that are made without the network.
#[derive(Debug)]
pub struct UnseenStore {
    /// What the other store is called: `s3://bucket`.
    name: String,
}

impl UnseenStore {
    /// Has the name of the other store, so that messages are about it.
    pub fn in_place_of(store: &dyn Store) -> Self {
        Self { name: store.to_string() }
    }

    fn missing(&self, key: &Key) -> StoreError {
        StoreError::new(StoreFailureKind::NotFound, format!("{self}/{key}"))
    }

    fn refused(&self, key: &Key) -> StoreError {
        StoreError::new(StoreFailureKind::Unavailable, format!("{self}/{key}"))
            .caused_by("the store is not asked")
    }
}

impl Store for UnseenStore {
    fn list(&self, _: Option<&Key>, _: Depth) -> Result<Vec<Object>, StoreError> {
        Ok(Vec::new())
    }

    fn head(&self, key: &Key) -> Result<Object, StoreError> {
        Err(self.missing(key))
    }

    fn get(&self, key: &Key, _: Span) -> Result<Box<dyn Read + Send>, StoreError> {
        Err(self.missing(key))
    }

    fn put(&self, key: &Key, _: &dyn Body, _: &PutOptions) -> Result<Option<String>, StoreError> {
        Err(self.refused(key))
    }

    fn delete(&self, key: &Key, _: &Condition) -> Result<(), StoreError> {
        Err(self.refused(key))
    }
}

impl fmt::Display for UnseenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
