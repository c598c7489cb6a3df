//! Places that keep objects under keys: the trait and its words. `tests/it/store.rs` is its contract.
//!
//! A store is narrow on purpose. What can be said in terms of these six verbs is said above it, so
//! that two stores cannot disagree about it.

mod failure;
pub mod http;
pub mod local;
mod ranged;
pub mod s3;

use std::{
    fmt,
    io::{self, Read},
    ops::Range,
    time::SystemTime,
};

pub use self::{
    failure::{StoreError, StoreFailureKind},
    ranged::{FIRST as FIRST_PIECE, Ranged},
};

use crate::{
    digest::{Checksum, Sha256},
    location::Key,
};

/// Something with objects under keys.
///
/// - A put is atomic: a reader sees the old object, the new one or none, and never a part of one.
/// - What was put can be read at once (read-after-write), by key and by listing.
/// - A key that ends in `/` is the page of a directory: what a web server answers for that address.
pub trait Store: fmt::Debug + fmt::Display + Send + Sync {
    /// The objects in a directory, or in the whole store, by key.
    ///
    /// `1-linux` never finds `1-linux-debug/`. Nothing there is an empty list. A store may leave
    /// out pages of directories.
    fn list(&self, directory: Option<&Key>, depth: Depth) -> Result<Vec<Object>, StoreError>;

    fn head(&self, key: &Key) -> Result<Object, StoreError>;

    /// The bytes of an object, or as many of the wanted ones as it has.
    fn get(&self, key: &Key, span: Span) -> Result<Box<dyn Read + Send>, StoreError>;

    fn put(&self, key: &Key, body: &dyn Body, options: &PutOptions) -> Result<(), StoreError>;

    /// Afterwards there is no such object; that there was none is no error.
    fn delete(&self, key: &Key) -> Result<(), StoreError>;
}

/// How far below a directory to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only what lies in the directory itself.
    Children,
    All,
}

/// What a store says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub key: Key,
    pub size: u64,
    /// If the store keeps one; a directory does not.
    pub sha256: Option<Sha256>,
    /// Another checksum that the store keeps of the bytes. A listing has none.
    pub checksum: Option<Checksum>,
    pub content_type: Option<String>,
    /// A mark that changes with the bytes, without quotes.
    pub etag: Option<String>,
    /// When the bytes came.
    pub modified: Option<SystemTime>,
}

/// Which bytes of an object to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// In one answer, whose checksum counts if the store tells one.
    Whole,
    /// Perhaps in several answers at once, as what follows is where it is long.
    From(u64),
    Between(Range<u64>),
}

/// Bytes to put: of known length, and readable again from any offset, so that a failed transfer
/// can be repeated and a large one cut into parts.
pub trait Body: Sync {
    fn size(&self) -> u64;

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>>;
}

impl Body for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..));
        Ok(Box::new(rest.unwrap_or_default()))
    }
}

/// What goes with the bytes.
#[derive(Clone, Debug)]
pub struct PutOptions {
    pub content_type: String,
    pub cache_control: Option<String>,
    pub condition: Condition,
    /// What the bytes must be; a store refuses others, and leaves what was there.
    pub sha256: Option<Sha256>,
}

/// When to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Always,
    /// Only where nothing is: of two writers exactly one succeeds.
    IfAbsent,
    /// Only where what has this mark still is, so that no other writer's work is lost.
    IfSame(String),
}

/// The digest of an object: what the store says, or else of the bytes it has.
pub fn digest(store: &dyn Store, key: &Key) -> Result<Sha256, StoreError> {
    if let Some(sha256) = store.head(key)?.sha256 {
        return Ok(sha256);
    }
    let reader = store.get(key, Span::Whole)?;
    let (sha256, _) = Sha256::of_reader(reader)
        .map_err(|error| StoreError::new(StoreFailureKind::Failed, key).caused_by(error))?;
    Ok(sha256)
}
