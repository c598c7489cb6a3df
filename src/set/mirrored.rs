//! Adds single packages to a place, and removes them: whether it has one, and writing one that it does not
//! have.

use super::{
    items::immutable,
    pages::content_type,
    place::{SetPlace, found},
    write::failed,
};
use crate::{
    digest::Sha256,
    error::{Context as _, No, Result, anyhow},
    store::{Body, Condition, Depth, Object, PutOptions, Span, StoreFailureKind},
};

impl SetPlace {
    /// The files below a directory of the set, each with its path. A place that does not exist has
    /// none.
    pub fn files_below(&self, directory: &str) -> Result<Vec<(String, Object)>> {
        self.list(directory, Depth::Children)
    }

    /// The digest of a file. Reads the file if the store does not keep its digest.
    pub fn digest(&self, path: &str) -> Result<Option<Sha256>> {
        let key = self.key(path)?;
        let read = || -> Result<Option<Sha256>> {
            let Some(object) = found(self.store.head(&key))? else {
                return Ok(None);
            };
            if object.sha256.is_some() {
                return Ok(object.sha256);
            }
            let (sha256, _) = Sha256::of_reader(self.store.get(&key, Span::Whole)?)?;
            Ok(Some(sha256))
        };
        read().with_context(|| format!("failed to read `{path}` of `{self}`"))
    }

    /// Writes a package, unless there is one: then it must have the same bytes. Another writer may
    /// come first at any moment.
    pub fn add(&self, path: &str, body: &dyn Body, sha256: Sha256) -> Result<()> {
        let options = PutOptions {
            content_type: content_type(path).to_owned(),
            cache_control: Some(immutable().to_owned()),
            condition: Condition::IfAbsent,
            sha256: Some(sha256),
        };
        match self.store.put(&self.key(path)?, body, &options) {
            Err(error) if error.kind() == StoreFailureKind::Exists => {
                let there = self.digest(path)?;
                (there == Some(sha256))
                    .then_some(())
                    .ok_or_else(|| anyhow!(No(format!("`{path}` of `{self}` has other bytes"))))
            }
            Err(error) => Err(failed(error)).with_context(|| format!("failed to write `{path}`")),
            Ok(()) => Ok(()),
        }
    }

    /// Removes a file of a listing, if it is still the one that was listed.
    pub fn remove(&self, path: &str, listed: &Object) -> Result<()> {
        match self
            .store
            .delete_same(&self.key(path)?, listed.etag.as_deref())
        {
            // Another job has just written it, and knows why.
            Err(error) if error.kind() == StoreFailureKind::Exists => Ok(()),
            deleted => deleted.with_context(|| format!("failed to remove `{path}` of `{self}`")),
        }
    }

    /// Fails if it is clear without a request that nothing may be written.
    pub fn ensure_writable(&self) -> Result<()> {
        Ok(self.store.ensure_writable()?)
    }
}
