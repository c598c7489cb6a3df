//! [`DigestCache`]: the SHA-256 and the metadata of the packages of a directory, so that a command does
//! not read again what an earlier one has read.

use std::{ops::Not, path::Path};

use serde::{Deserialize, Serialize};

use super::FileCache;
use crate::digest::{HashedStart, Sha256};

/// The name of the file. Programs that list a directory mostly leave such names out.
const FILE: &str = ".rocwheel-digests.json";
const SCHEMA: &str = "rocwheel-digests-v3";

/// The packages of a directory by their paths, which have `/` on all systems: `dist/rocm-7.13.0.tar.gz`.
pub type DigestCache = FileCache<CachedPackage>;

/// What is remembered of a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedPackage {
    /// The digest of the whole file.
    pub sha256: Sha256,
    /// METADATA of a wheel, PKG-INFO of an sdist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// The beginning of a wheel that `build` made, for `promote`, which changes only the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<HashedStart>,
    /// Whether it is a wheel of others that has ROCm in it.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub has_rocm: bool,
}

impl DigestCache {
    /// The cache of a directory, which is beside `set.json`.
    pub fn of_directory(directory: &Path) -> Self {
        Self::open(directory.join(FILE), SCHEMA)
    }
}
