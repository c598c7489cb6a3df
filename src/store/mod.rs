//! Stores keep objects under keys: the trait [`Store`] and its types. The tests of
//! `tests/it/store.rs` are the contract that a store must keep.
//!
//! The trait has few methods on purpose. Everything that can be built from them is built on top of
//! it once, so that two stores cannot behave differently.

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

/// A collection of objects under keys.
///
/// - A put is atomic: a reader sees the old object, the new one or none, and never a part of one.
/// - After a put, the object can be read at once (read-after-write), by key and by listing.
/// - A key that ends in `/` is the page of a directory: what a web server returns for that URL.
pub trait Store: fmt::Debug + fmt::Display + Send + Sync {
    /// The objects in a directory, or in the whole store, sorted by key.
    ///
    /// Listing `1-linux` never returns objects of `1-linux-debug/`. A directory that does not exist
    /// has an empty list. A store may leave out the pages of directories.
    fn list(&self, directory: Option<&Key>, depth: Depth) -> Result<Vec<Object>, StoreError>;

    /// The metadata of an object.
    fn head(&self, key: &Key) -> Result<Object, StoreError>;

    /// The bytes of an object. A span that exceeds the object is cut to its size.
    fn get(&self, key: &Key, span: Span) -> Result<Box<dyn Read + Send>, StoreError>;

    /// Writes an object, if the condition in `options` holds.
    fn put(&self, key: &Key, body: &dyn Body, options: &PutOptions) -> Result<(), StoreError>;

    /// Deletes an object. It is not an error if the object does not exist.
    fn delete(&self, key: &Key) -> Result<(), StoreError>;
}

/// How far below a directory to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only the objects directly in the directory.
    Children,
    All,
}

/// The metadata of an object, as far as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub key: Key,
    pub size: u64,
    /// Only if the store keeps one; a local directory does not.
    pub sha256: Option<Sha256>,
    /// Another checksum that the store keeps. Listings do not contain it.
    pub checksum: Option<Checksum>,
    pub content_type: Option<String>,
    /// Changes whenever the bytes change. Without quotes.
    pub etag: Option<String>,
    /// When the object was last written.
    pub modified: Option<SystemTime>,
}

/// Which bytes of an object to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// The whole object in one response, so that a checksum sent by the server can be verified.
    Whole,
    /// From an offset to the end. A long rest may be fetched with several requests at once.
    From(u64),
    Between(Range<u64>),
}

impl Span {
    /// The bytes to read, as far as the object has them.
    pub fn range(self) -> Range<u64> {
        match self {
            Self::Whole => 0..u64::MAX,
            Self::From(start) => start..u64::MAX,
            Self::Between(range) => range,
        }
    }
}

/// Bytes to put. Their length is known and they can be read from any offset, more than once, so
/// that a failed transfer can be repeated and a large one split into parts.
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

/// Headers and conditions of a put.
#[derive(Clone, Debug)]
pub struct PutOptions {
    pub content_type: String,
    pub cache_control: Option<String>,
    pub condition: Condition,
    /// The expected digest. If the bytes differ, the put fails and the old object stays.
    pub sha256: Option<Sha256>,
}

/// When a put may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Always,
    /// Only if there is no such object: of two writers exactly one succeeds.
    IfAbsent,
    /// Only if the object still has this `ETag`, so that no other writer's change is lost.
    IfSame(String),
}
