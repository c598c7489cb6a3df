//! [`KnownFacts`]: what need not be read again of the packages of a place.
//!
//! Of a directory, the [`DigestCache`] beside `set.json` knows digests and metadata. Of a bucket,
//! `set.json` does: it has the `ETag` of each file, which changes with the bytes.

use std::collections::HashMap;

use itertools::Itertools as _;

use super::{
    package_files::ListedPackage,
    place::SetPlace,
    set_json::{Identity, PART, SetFile, SetJson, SetStamp, is_wheel},
};
use crate::{
    digest::Sha256,
    error::{Context as _, Hint as _, Result},
    io::{CachedFile, DigestCache, FileIdentity},
    run::ArtifactGroup,
};

/// What an earlier command knows of each file.
#[derive(Debug, Default)]
pub(super) struct KnownFacts {
    pub(super) identity: Identity,
    /// What `set.json` says of the files.
    pub(super) files: HashMap<String, SetFile>,
    /// The packages that this process has just written, by path.
    pub(super) made: HashMap<String, MadeFile>,
    /// Of a directory.
    pub(super) cache: Option<DigestCache>,
}

/// What the process that wrote a package knows of it.
#[derive(Clone, Debug)]
pub(super) struct MadeFile {
    pub(super) size: u64,
    /// The file that it wrote. `None` on systems without inodes.
    pub(super) identity: Option<FileIdentity>,
    pub(super) sha256: Sha256,
    /// METADATA of a wheel, PKG-INFO of an sdist.
    pub(super) metadata: Vec<u8>,
}

/// A file on this disk that had to be read.
#[derive(Debug)]
pub(super) struct OpenedFile {
    pub(super) path: String,
    pub(super) identity: FileIdentity,
    pub(super) file: CachedFile,
}

impl KnownFacts {
    /// Reads `set.json`, and `part.json` if a part was uploaded since: the parts of a set replace
    /// what was there before, such as a set of others only.
    pub(super) fn read(place: &SetPlace) -> Result<Self> {
        let document = |name| -> Result<_> {
            let Some((text, written)) = place.document(name)? else {
                return Ok(None);
            };
            let document = SetJson::parse(&text)
                .with_context(|| format!("failed to read `{}`", place.shown_in_full(name)))
                .hint("remove it, so that it is written again")?;
            Ok(Some((document, written)))
        };
        let (set, part) = (document("set.json")?, document(PART)?);
        let newer = part.as_ref().filter(|(_, part)| {
            let set = set.as_ref().map(|(_, written)| written);
            set.is_some_and(|set| part > set)
        });
        let identity = newer.map(|(part, _)| part.identity.clone());
        let mut known = match set.or(part) {
            Some((document, _)) => Self::new(document),
            None => Self::default(),
        };
        known.identity = identity.unwrap_or(known.identity);
        known.cache = place.local().map(DigestCache::read);
        Ok(known)
    }

    pub(super) fn new(document: SetJson) -> Self {
        let by_path = |file: SetFile| (file.path.clone(), file);
        Self {
            files: document.files.into_iter().map(by_path).collect(),
            identity: document.identity,
            ..Self::default()
        }
    }

    /// The families of an earlier index, whose pages may exist.
    pub(super) fn families(&self) -> Vec<ArtifactGroup> {
        let families = self.files.values().filter_map(SetFile::family);
        families.sorted().dedup().collect()
    }

    /// The digest and the metadata of a file on disk, if `found` is the file that was written or read.
    pub(super) fn on_disk(
        &self,
        listed: &ListedPackage,
        found: Option<FileIdentity>,
    ) -> Option<(Sha256, Vec<u8>)> {
        if let Some(made) = self.made.get(&listed.path) {
            let is_same = made.size == listed.stamp.size && made.identity == found;
            return is_same.then(|| (made.sha256, made.metadata.clone()));
        }
        let file = self.cache.as_ref()?.get(&listed.path, found?)?;
        Some((file.sha256, file.metadata.clone()?.into_bytes()))
    }

    /// Adds files that were read to the cache, and removes those that are not listed any more.
    pub(super) fn remember(
        &mut self,
        read: Vec<OpenedFile>,
        is_listed: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let Some(cache) = &mut self.cache else {
            return Ok(());
        };
        for OpenedFile {
            path,
            identity,
            file,
        } in read
        {
            cache.insert(&path, identity, file);
        }
        cache.retain(is_listed);
        Ok(cache.write()?)
    }

    /// The digest of an object, if it is unchanged.
    pub(super) fn sha256(&self, listed: &ListedPackage) -> Option<Sha256> {
        self.same(listed).map(|file| file.sha256)
    }

    /// Everything known about an object, if it and its sidecar are both unchanged.
    pub(super) fn all(
        &self,
        listed: &ListedPackage,
        sidecar: Option<&SetStamp>,
    ) -> Option<SetFile> {
        let file = self.same(listed)?;
        let remembered = file.remembered.as_ref()?;
        let is_wheel = is_wheel(&listed.name);
        let is_same = remembered.sidecar.as_ref() == sidecar
            && is_wheel == sidecar.is_some()
            && is_wheel == remembered.sidecar_sha256.is_some();
        is_same.then(|| SetFile {
            size: listed.stamp.size,
            metadata: remembered.sidecar_sha256,
            requires_python: remembered.requires_python.clone(),
            ..file.clone()
        })
    }

    /// Equal stamps prove equal bytes only with an `ETag`, which depends on the bytes.
    fn same(&self, listed: &ListedPackage) -> Option<&SetFile> {
        let file = self.files.get(&listed.path)?;
        let is_same = file.remembered.as_ref()?.file == listed.stamp;
        (is_same && listed.stamp.etag.is_some()).then_some(file)
    }
}
