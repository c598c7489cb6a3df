//! A [`Store`] in a bucket of Amazon S3 or of a server with the same API.
//!
//! Request bodies are sent from memory. Streamed bodies would need a checksum trailer, which
//! several servers refuse. One semaphore per store bounds the memory of all parts that are in
//! flight.

mod access;
mod connection;
mod copy;
mod credentials;
mod failure;
mod get;
mod multipart;
mod put;
mod retries;

use std::{
    collections::HashSet,
    io::Read,
    sync::Arc,
    time::{Duration, SystemTime},
};

use aws_sdk_s3::{
    operation::head_object::HeadObjectOutput,
    primitives::DateTime,
    types::{self, ChecksumMode, ChecksumType, ServerSideEncryption},
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use access::{Access, Keys, Profile, S3Region, Signing};

use self::{connection::Connection, failure::Signer, multipart::conditions};
use crate::{
    Body, Condition, CopySource, Depth, Object, PutOptions, Span, Store, StoreError,
    StoreFailureKind, is_to_delete,
    location::{Bucket, Key, Location},
};
use rocwheel_base::{
    digest::{Checksum, Sha256},
    error::Stop,
    retry::{ATTEMPTS, Backoff},
};

/// The metadata entry in which we keep an object's digest.
const SHA256: &str = "sha256";
/// The metadata entry in which other uploaders of ROCm packages keep the digest.
const OTHER_SHA256: &str = "checksum-sha256";
const MIB: u64 = 1 << 20;

/// Limits of memory, concurrency and retries.
#[derive(Clone, Debug)]
pub struct S3Limits {
    /// The largest object that is sent in one request. A larger object is sent in parts of this size, or in
    /// larger parts if it would take more than 10,000 parts. S3 requires at least 5 MiB.
    pub part: u64,
    /// Memory for all parts that are in flight, of all objects.
    pub memory: u64,
    /// How many parts of one object are prefetched while an earlier part is read.
    pub ahead: usize,
    /// Retries of one request, and consecutive resumptions of one broken response.
    pub backoff: Backoff,
    /// How long a response may stall before it counts as broken.
    pub stall: Duration,
}

impl Default for S3Limits {
    fn default() -> Self {
        Self {
            part: 16 * MIB,
            memory: 256 * MIB,
            ahead: 3,
            backoff: Backoff { attempts: ATTEMPTS, pause: Duration::from_millis(500) },
            stall: Duration::from_secs(20),
        }
    }
}

/// A bucket as a [`Store`]. Clones share one connection and one memory limit. The `Debug` form has no
/// credentials.
#[derive(Clone, derive_more::Debug, derive_more::Display)]
#[debug("S3Store({bucket})")]
#[display("s3://{bucket}")]
pub struct S3Store {
    bucket: Bucket,
    connection: Arc<Connection>,
    limits: S3Limits,
    /// Permits of 1 MiB each.
    memory: Arc<Semaphore>,
}

impl S3Store {
    /// Looks up credentials, which may take a moment, but does not contact the bucket yet.
    pub fn connect(bucket: Bucket, access: &Access, stop: Stop) -> Result<Self, StoreError> {
        Self::with_limits(bucket, access, stop, S3Limits::default())
    }

    /// Like [`connect`](Self::connect), with other limits than the default.
    pub fn with_limits(
        bucket: Bucket,
        access: &Access,
        stop: Stop,
        limits: S3Limits,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            connection: Arc::new(Connection::new(&bucket, access, &limits, stop)?),
            memory: Arc::new(Semaphore::new(permits_for(limits.memory) as usize)),
            bucket,
            limits,
        })
    }

    /// The id of the key that was found for this bucket.
    pub fn key_id(&self) -> Option<&str> {
        self.connection.key_id.as_deref()
    }

    /// Whether the bucket has denied a read with the credentials and allowed it without them.
    pub fn reads_unsigned(&self) -> bool {
        self.connection.reads_unsigned()
    }

    fn place(&self, key: &Key) -> String {
        format!("s3://{}/{key}", self.bucket)
    }

    /// Waits until the store's memory limit has room for this many bytes. Dropping the permit frees them.
    fn reserve_memory(&self, bytes: u64) -> Result<OwnedSemaphorePermit, StoreError> {
        // More permits than the semaphore has would never be free.
        let permits = permits_for(bytes).min(permits_for(self.limits.memory));
        self.connection.wait(&self.bucket, async {
            Arc::clone(&self.memory)
                .acquire_many_owned(permits)
                .await
                .map_err(|error| StoreError::failed(&self.bucket, error))
        })
    }
}

impl Store for S3Store {
    fn list(&self, directory: Option<&Key>, depth: Depth) -> Result<Vec<Object>, StoreError> {
        let directory = directory.map(Key::directory);
        let prefix = directory.as_ref().map_or("", Key::as_str);
        let place = format!("{self}/{prefix}");
        let mut objects = Vec::new();
        let mut token = None;
        let mut seen_tokens = HashSet::new();
        loop {
            let page = self.connection.read(&place, async |client| {
                let request = client
                    .list_objects_v2()
                    .bucket(self.bucket.as_str())
                    .set_prefix((!prefix.is_empty()).then(|| prefix.to_owned()))
                    .set_delimiter((depth == Depth::Children).then(|| "/".to_owned()))
                    .set_continuation_token(token.clone());
                request.send().await
            })?;
            objects.extend(page.contents().iter().filter_map(object_of_listing));
            let next_token = page.next_continuation_token;
            if !page.is_truncated.unwrap_or(next_token.is_some()) {
                break;
            }
            // Callers take an object that is not in the list for a deleted object, so a list that may lack
            // objects is an error. A token that comes again begins a circle.
            if next_token.as_ref().is_none_or(|token| !seen_tokens.insert(token.clone())) {
                let cause =
                    "the listing is not complete, and the server does not say where it goes on";
                return Err(StoreError::failed(&place, cause));
            }
            token = next_token;
        }
        // Some servers sort by other rules than Amazon.
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(objects)
    }

    fn head(&self, key: &Key) -> Result<Object, StoreError> {
        let head = self.connection.read(&self.place(key), async |client| {
            client
                .head_object()
                .bucket(self.bucket.as_str())
                .key(key.as_str())
                .checksum_mode(ChecksumMode::Enabled)
                .send()
                .await
        })?;
        Ok(Object {
            key: key.clone(),
            size: size(head.content_length()),
            sha256: read_sha256(&head),
            checksum: read_checksum(&head),
            content_type: head.content_type().map(str::to_owned),
            cache_control: head.cache_control().map(str::to_owned),
            etag: head.e_tag().map(strip_quotes),
            modified: head.last_modified().and_then(system_time),
        })
    }

    fn get(&self, key: &Key, span: Span) -> Result<Box<dyn Read + Send>, StoreError> {
        get::open(self, key, span)
    }

    fn put(
        &self,
        key: &Key,
        body: &dyn Body,
        options: &PutOptions,
    ) -> Result<Option<String>, StoreError> {
        put::put(self, key, body, options)
    }

    fn copy(&self, key: &Key, from: &CopySource, options: &PutOptions) -> Result<bool, StoreError> {
        copy::copy(self, key, from, options)
    }

    fn copy_source(&self, key: &Key) -> Result<Option<CopySource>, StoreError> {
        let Object { size, etag, .. } = self.head(key)?;
        Ok(etag.map(|etag| CopySource {
            location: Location::new(self.bucket.clone(), key.clone()),
            size,
            etag,
        }))
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        // Few servers know the condition of a delete, and the others ignore it.
        if !is_to_delete(self, key, condition)? {
            return Ok(());
        }
        let (_, if_match) = conditions(condition);
        let deleted = self.connection.write(&self.place(key), async |client| {
            let request = client.delete_object().bucket(self.bucket.as_str()).key(key.as_str());
            request.set_if_match(if_match.clone()).send().await
        });
        match deleted {
            Err(error) if error.kind() != StoreFailureKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn has_credentials(&self) -> bool {
        self.connection.signer == Signer::Known
    }

    fn ensure_writable(&self) -> Result<(), StoreError> {
        self.connection.ensure_writable(&self.to_string())
    }
}

/// An object of a listing. `None` for an empty directory page, because some servers list directories in this form,
/// too; and for a name that is no key, which nothing of ours has.
fn object_of_listing(object: &types::Object) -> Option<Object> {
    let key: Key = object.key().unwrap_or_default().parse().ok()?;
    let size = size(object.size());
    (!key.is_directory() || size > 0).then(|| Object {
        key,
        size,
        sha256: None,
        checksum: None,
        content_type: None,
        cache_control: None,
        etag: object.e_tag().map(strip_quotes),
        modified: object.last_modified().and_then(system_time),
    })
}

/// The SHA-256 of the whole object, as the uploader or the server recorded it. The server's
/// checksum of a multipart upload is usually composite, a digest of the digests of the parts, and
/// is not used.
fn read_sha256(head: &HeadObjectOutput) -> Option<Sha256> {
    let of_uploader = |name: &str| head.metadata()?.get(name)?.parse().ok();
    let of_server = || {
        let is_composite = head.checksum_type() == Some(&ChecksumType::Composite);
        let sha256: [u8; 32] = decode_base64(head.checksum_sha256()?)?;
        (!is_composite).then_some(sha256.into())
    };
    of_uploader(SHA256).or_else(|| of_uploader(OTHER_SHA256)).or_else(of_server)
}

/// Another checksum of the whole object: CRC-64/NVME, or the MD5 in the `ETag`.
fn read_checksum(head: &HeadObjectOutput) -> Option<Checksum> {
    if let Some(crc) = head.checksum_crc64_nvme().and_then(decode_base64) {
        return Some(Checksum::Crc64Nvme(u64::from_be_bytes(crc)));
    }
    // The ETag is not an MD5 if the object is encrypted with a key that the server does not own.
    let is_md5 = matches!(head.server_side_encryption(), None | Some(ServerSideEncryption::Aes256))
        && head.sse_customer_algorithm().is_none();
    Checksum::of_etag(&strip_quotes(head.e_tag()?)).filter(|_| is_md5)
}

fn decode_base64<const N: usize>(text: &str) -> Option<[u8; N]> {
    BASE64_STANDARD.decode(text).ok()?.try_into().ok()
}

/// Removes the quotes around an `ETag`. Some servers send none.
fn strip_quotes(etag: &str) -> String {
    etag.trim_matches('"').to_owned()
}

fn system_time(time: &DateTime) -> Option<SystemTime> {
    SystemTime::try_from(*time).ok()
}

fn size(length: Option<i64>) -> u64 {
    length.and_then(|length| u64::try_from(length).ok()).unwrap_or(0)
}

/// The number of semaphore permits for this many bytes: at least one, and not more than a semaphore can have.
fn permits_for(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(MIB)).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_taken_only_where_it_is_of_the_whole_object() {
        let head = HeadObjectOutput::builder;
        let md5 = "\"25f9e794323b453885f5181f1b624d0b\"";
        let shown = [
            head().checksum_crc64_nvme("rosUhgp5mIg=").e_tag(md5),
            head().e_tag(md5),
            head().e_tag(md5).server_side_encryption(ServerSideEncryption::Aes256),
            head().e_tag(md5).server_side_encryption(ServerSideEncryption::AwsKms),
            head().e_tag(md5).sse_customer_algorithm("AES256"),
            head().e_tag("\"25f9e794323b453885f5181f1b624d0b-2\""),
            head().e_tag("\"+5f9e794323b453885f5181f1b624d0b-\""),
            head().e_tag("x"),
            head().checksum_crc64_nvme("?"),
            head(),
        ]
        .map(|head| match read_checksum(&head.build()) {
            Some(Checksum::Crc64Nvme(crc)) => format!("crc {crc:x}"),
            Some(Checksum::Md5(md5)) => format!("md5 {:x}", u128::from_be_bytes(md5)),
            None => "none".to_owned(),
        });
        insta::assert_snapshot!(shown.join("\n"), @"
        crc ae8b14860a799888
        md5 25f9e794323b453885f5181f1b624d0b
        md5 25f9e794323b453885f5181f1b624d0b
        none
        none
        none
        none
        none
        none
        none
        ");
    }
}
