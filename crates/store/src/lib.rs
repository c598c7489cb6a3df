#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod client;
mod download;
mod endpoint;
pub mod http;
pub mod local;
pub mod location;
mod ranged;
pub mod s3;
pub mod unseen;

use std::{
    error::Error,
    fmt::{self, Display},
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

pub use self::{
    endpoint::Endpoint,
    ranged::{FIRST as FIRST_PIECE, Ranged},
};

use rocwheel_base::{
    digest::{Checksum, Sha256},
    error::{Stop, anyhow, hinted},
};

use self::{
    http::HttpStore,
    local::LocalStore,
    location::{Bucket, Key, Location},
    s3::{Access, S3Store},
};

/// A collection of objects under keys.
///
/// - A put is atomic: a reader sees the old object, the new one or none, and never a part of one.
/// - After a put, the object can be read at once (read-after-write), by key and by listing.
/// - A key that ends in `/` is the page of a directory: what a web server returns for that URL.
pub trait Store: fmt::Debug + Display + Send + Sync {
    /// The objects in a directory, or in the whole store, sorted by key.
    ///
    /// Listing `1-linux` never returns objects of `1-linux-debug/`. A directory that does not exist
    /// has an empty list. A store may leave out the pages of directories.
    fn list(&self, directory: Option<&Key>, depth: Depth) -> Result<Vec<Object>, StoreError>;

    /// The metadata of an object.
    fn head(&self, key: &Key) -> Result<Object, StoreError>;

    /// The bytes of an object. A span that exceeds the object is cut to its size.
    fn get(&self, key: &Key, span: Span) -> Result<Box<dyn Read + Send>, StoreError>;

    /// Whether the store sends only the asked part of an object. The object must not be empty.
    fn sends_ranges(&self, _key: &Key) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Writes an object, if the condition in `options` holds. Returns the `ETag` of the new object, if the store says it
    /// in its answer.
    fn put(
        &self,
        key: &Key,
        body: &dyn Body,
        options: &PutOptions,
    ) -> Result<Option<String>, StoreError>;

    /// Makes a file of the same file system the object of a key by a hard link, without copying its
    /// bytes. `false` if the store cannot do that, or if the file is not the wanted file. The old object
    /// stays then, and the caller has to put the new object.
    ///
    /// `is_wanted` gets a path of the file that will be the object, before readers can see it.
    fn link(
        &self,
        _key: &Key,
        _file: &Path,
        _is_wanted: &dyn Fn(&Path) -> bool,
        _: &Condition,
    ) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Copies an object of the same server to a key, without its bytes passing through this machine. `false`
    /// if the store cannot do that, or if the source has changed since the caller has seen it. Then the
    /// caller has to put the object.
    fn copy(&self, _key: &Key, _from: &CopySource, _: &PutOptions) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Where an object is, for `copy` by another store.
    fn copy_source(&self, _key: &Key) -> Result<Option<CopySource>, StoreError> {
        Ok(None)
    }

    /// Deletes an object, if a condition holds. It is not an error if the object does not exist.
    ///
    /// [`Condition::IfSame`] is looked at right before. Only a server that knows conditions of deletes, as
    /// Amazon's does, leaves no moment between the look and the deletion.
    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError>;

    /// Whether there are credentials to write with.
    fn has_credentials(&self) -> bool {
        false
    }

    /// Fails if it is clear without a request that nothing may be written. Several writes would
    /// each say so.
    fn ensure_writable(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// What a whole store is: the directory, the bucket or the server that has the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A directory of this machine.
    Directory(PathBuf),
    /// A bucket of S3 or of a server that speaks its protocol.
    Bucket(Bucket),
    /// A web server, which is only read.
    Web(Endpoint),
}

/// Opens a store of any kind. Sends no request. `access` is for a bucket.
pub fn open(origin: &Origin, access: &Access, stop: &Stop) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match origin {
        Origin::Directory(root) => Arc::new(LocalStore::new(root)),
        Origin::Bucket(bucket) => Arc::new(S3Store::connect(bucket.clone(), access, stop.clone())?),
        Origin::Web(server) => Arc::new(HttpStore::connect(server.clone(), stop.clone())?),
    })
}

/// An object to copy. It is copied only if it still has this `ETag`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// Where the object is. It may be in another bucket.
    pub location: Location,
    /// Its size, which decides whether it is copied in parts.
    pub size: u64,
    /// The `ETag` that was seen, without quotes.
    pub etag: String,
}

/// How far below a directory to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only the objects directly in the directory.
    Children,
    /// All objects below the directory.
    All,
}

/// The metadata of an object, as far as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name in the store.
    pub key: Key,
    /// Its size in bytes.
    pub size: u64,
    /// The digest, if the store keeps it. A local directory keeps none.
    pub sha256: Option<Sha256>,
    /// Another checksum that the store keeps. Listings have none.
    pub checksum: Option<Checksum>,
    /// The media type, as the store says it; `None` if it says none.
    pub content_type: Option<String>,
    /// How long caches may keep it. Listings do not say it, and some servers keep none.
    pub cache_control: Option<String>,
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
    /// From one offset up to another, which is not read.
    Between(Range<u64>),
}

impl Span {
    /// The bytes to read, as far as the object has them.
    pub fn range(self) -> Range<u64> {
        // No object is so large, so the end stands for the end of the object.
        match self {
            Self::Whole => 0..u64::MAX,
            Self::From(start) => start..u64::MAX,
            Self::Between(range) => range,
        }
    }
}

/// The first byte and, unless it is `*`, the total length, from `bytes 5-9/20`.
fn content_range(header: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = header.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.parse().ok()?, total.parse().ok()))
}

/// Bytes to put. Their length is known and they can be read from any offset, more than once, so
/// that a failed transfer can be repeated and a large one split into parts.
pub trait Body: Sync {
    /// The number of bytes.
    fn size(&self) -> u64;

    /// Reads from an offset to the end. It is called again for each attempt, and from several threads.
    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>>;
}

impl Body for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.get(start..));
        Ok(Box::new(rest.unwrap_or_default()))
    }
}

/// Headers and conditions of a put.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// The media type that readers get.
    pub content_type: String,
    /// How long caches may keep it; `None` for what the store does without a word.
    pub cache_control: Option<String>,
    /// What must hold of the object that is there.
    pub condition: Condition,
    /// The expected digest. If the bytes differ, the put fails and the old object stays.
    pub sha256: Option<Sha256>,
}

/// When a put may write, and a delete may remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Whatever is there.
    Always,
    /// Only if there is no such object: of two writers exactly one succeeds.
    IfAbsent,
    /// Only if the object still has this `ETag`, so that no other writer's change is lost.
    IfSame(String),
}

/// Whether there is something to delete. Fails with [`StoreFailureKind::Exists`] if an object is not the one
/// that the delete is meant for.
fn is_to_delete(store: &dyn Store, key: &Key, condition: &Condition) -> Result<bool, StoreError> {
    let Condition::IfSame(seen) = condition else {
        return Ok(true);
    };
    match store.head(key) {
        Ok(object) if object.etag.as_ref() == Some(seen) => Ok(true),
        Ok(_) => Err(StoreError::new(StoreFailureKind::Exists, key)),
        Err(error) if error.kind() == StoreFailureKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The classes of store errors; each says what the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum StoreFailureKind {
    /// Continue without it.
    #[display("no such object")]
    NotFound,
    /// Compare it.
    #[display("an object is there already")]
    Exists,
    /// Another writer writes the object at this moment: write it again.
    #[display("another write is in progress")]
    Conflict,
    /// Other credentials, or an unsigned request, may help.
    #[display("access denied")]
    Denied,
    /// The disk is full: free space, or choose another one.
    #[display("no space left")]
    Full,
    /// This store cannot hold this key: choose another one.
    #[display("not a usable key")]
    Unusable,
    /// The bytes are not the promised ones: check their source.
    #[display("wrong contents")]
    Differs,
    /// Retrying later may help.
    #[display("the store does not answer")]
    Unavailable,
    /// Anything else; no remedy is known.
    #[display("the store failed")]
    Failed,
}

/// An error of a store with the place where it happened and, if known, the cause.
#[derive(Debug, thiserror::Error)]
#[error("{kind}: `{place}`")]
pub struct StoreError {
    kind: StoreFailureKind,
    place: String,
    #[source]
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error without a cause, about a place such as `s3://bucket/key`.
    pub fn new(kind: StoreFailureKind, place: impl Display) -> Self {
        Self { kind, place: place.to_string(), cause: None }
    }

    /// Adds what the store or the system said. It replaces an earlier cause.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// An error without a known remedy.
    pub fn failed(place: impl Display, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(StoreFailureKind::Failed, place).caused_by(cause)
    }

    /// Adds a hint that tells the user what to do.
    #[must_use]
    pub fn advised(self, hint: impl Display) -> Self {
        let cause = match &self.cause {
            Some(cause) => anyhow!("{cause}"),
            None => anyhow!("the server gave no reason"),
        };
        // A hint belongs to an `anyhow::Error`, and the cause of a store error is a plain one.
        let with_hint = hinted(cause, hint.to_string());
        self.caused_by(with_hint.reallocate_into_boxed_dyn_error_without_backtrace())
    }

    /// Classifies an I/O error.
    pub fn from_io(place: impl Display, error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreFailureKind::NotFound,
            io::ErrorKind::AlreadyExists => StoreFailureKind::Exists,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreFailureKind::Denied
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreFailureKind::Full,
            io::ErrorKind::InvalidFilename | io::ErrorKind::IsADirectory => {
                StoreFailureKind::Unusable
            }
            io::ErrorKind::TimedOut | io::ErrorKind::ResourceBusy => StoreFailureKind::Unavailable,
            _ => StoreFailureKind::Failed,
        };
        let failure = Self::new(kind, place);
        match kind {
            // "No such file" adds nothing to "no such object".
            StoreFailureKind::NotFound | StoreFailureKind::Exists => failure,
            _ => failure.caused_by(error),
        }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> StoreFailureKind {
        self.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::error::render;

    #[test]
    fn every_failure_has_its_words() {
        let kinds = [
            StoreFailureKind::NotFound,
            StoreFailureKind::Exists,
            StoreFailureKind::Conflict,
            StoreFailureKind::Denied,
            StoreFailureKind::Full,
            StoreFailureKind::Unusable,
            StoreFailureKind::Differs,
            StoreFailureKind::Unavailable,
            StoreFailureKind::Failed,
        ];
        let messages = kinds.map(|kind| StoreError::new(kind, "a/b").to_string());
        insta::assert_snapshot!(messages.join("\n"), @r"
        no such object: `a/b`
        an object is there already: `a/b`
        another write is in progress: `a/b`
        access denied: `a/b`
        no space left: `a/b`
        not a usable key: `a/b`
        wrong contents: `a/b`
        the store does not answer: `a/b`
        the store failed: `a/b`
        ");
    }

    #[test]
    fn the_answer_of_the_system_is_the_cause_where_it_adds_something() {
        let error =
            |kind, text: &str| StoreError::from_io("a", io::Error::new(kind, text.to_owned()));
        let denied = error(io::ErrorKind::PermissionDenied, "permission denied (os error 13)");
        let missing = error(io::ErrorKind::NotFound, "no such file or directory");
        assert_eq!(
            (denied.kind(), missing.kind()),
            (StoreFailureKind::Denied, StoreFailureKind::NotFound)
        );
        let shown = render(&denied.into()) + &render(&missing.into());
        insta::assert_snapshot!(shown, @r"
        error: access denied: `a`
          caused by: permission denied (os error 13)
        error: no such object: `a`
        ");
    }
}
