//! Writes an object: a small one with one request, a larger one in several parts that are sent at
//! once. The object appears at the end as a whole.

use std::{
    io::{Read, Write as _},
    time::Duration,
};

use aws_sdk_s3::{
    Client,
    error::ProvideErrorMetadata as _,
    primitives::ByteStream,
    types::{ChecksumAlgorithm, ChecksumType, CompletedMultipartUpload, CompletedPart},
};
use bytes::Bytes;
use tokio::{sync::OwnedSemaphorePermit, task::JoinSet, time::timeout};

use super::{
    MIB, S3Store, SHA256,
    connection::{retries, upload_timeouts},
    failure::{failure, plain},
};
use crate::{
    digest::{Hasher, Sha256},
    location::Key,
    parallel::runtime,
    store::{Body, Condition, PutOptions, Store as _, StoreError, StoreFailureKind},
};

/// The maximum number of parts that S3 allows.
const PARTS: u64 = 10_000;

const NO_DIRECTORY_PAGES: &str = "where a server takes no keys that end in `/`, pass `--no-directory-pages`, and install with `--find-links`";

/// Reads a body in order and hashes it.
struct BodyReader<'a> {
    place: &'a str,
    reader: Box<dyn Read + Send + 'a>,
    hasher: Hasher,
    left: u64,
}

impl<'a> BodyReader<'a> {
    fn open(place: &'a str, body: &'a dyn Body) -> Result<Self, StoreError> {
        let reader = body.read_from(0);
        Ok(Self {
            place,
            reader: reader.map_err(|error| StoreError::failed(place, error))?,
            hasher: Hasher::default(),
            left: body.size(),
        })
    }

    /// The next `wanted` bytes, or all that are left.
    fn take(&mut self, wanted: u64) -> Result<Bytes, StoreError> {
        let wanted = wanted.min(self.left);
        // `read_exact` would need a zeroed buffer.
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(usize::MAX));
        let read = self.reader.by_ref().take(wanted).read_to_end(&mut bytes);
        let read = read.and_then(|_| self.hasher.write_all(&bytes));
        read.map_err(|error| StoreError::failed(self.place, error))?;
        if (bytes.len() as u64) < wanted {
            return Err(self.differs("it is shorter than it was said to be"));
        }
        self.left -= wanted;
        Ok(bytes.into())
    }

    /// Checks that the body has ended and has the promised digest. Returns its digest.
    fn finish(mut self, promised: Option<Sha256>) -> Result<Sha256, StoreError> {
        let more = self.reader.read(&mut [0]);
        if more.map_err(|error| StoreError::failed(self.place, error))? > 0 {
            return Err(self.differs("it is longer than it was said to be"));
        }
        let (sha256, _) = std::mem::take(&mut self.hasher).finish();
        match promised.filter(|promised| *promised != sha256) {
            None => Ok(sha256),
            Some(promised) => {
                Err(self.differs(&format!("promised was {promised}, found was {sha256}")))
            }
        }
    }

    fn differs(&self, cause: &str) -> StoreError {
        StoreError::new(StoreFailureKind::Differs, self.place).caused_by(cause)
    }
}

/// The headers `If-None-Match` and `If-Match` of a condition.
pub(super) fn conditions(condition: &Condition) -> (Option<String>, Option<String>) {
    match condition {
        Condition::Always => (None, None),
        Condition::IfAbsent => (Some("*".to_owned()), None),
        Condition::IfSame(etag) => (None, Some(format!("\"{etag}\""))),
    }
}

/// Writes an object with one request.
pub(super) fn put(
    store: &S3Store,
    key: &Key,
    body: &dyn Body,
    options: &PutOptions,
) -> Result<(), StoreError> {
    let place = store.place(key);
    let _room = store.room(body.size())?;
    let mut source = BodyReader::open(&place, body)?;
    let bytes = source.take(u64::MAX)?;
    let sha256 = source.finish(options.sha256)?;
    let (if_none_match, if_match) = conditions(&options.condition);
    // Servers that store objects as files refuse a key that ends in `/`, some with a status that
    // asks for a retry. Two attempts are enough to tell this from a busy server.
    let mut config = upload_timeouts();
    if key.is_directory() {
        config.set_retry_config(Some(retries(&store.limits).with_max_attempts(2)));
    }
    let written = store.connection.write(&place, async |client| {
        let request = client
            .put_object()
            .bucket(store.bucket.as_str())
            .key(key.as_str())
            .content_type(&options.content_type)
            .set_cache_control(options.cache_control.clone())
            .metadata(SHA256, sha256.to_string())
            .set_if_none_match(if_none_match.clone())
            .set_if_match(if_match.clone())
            .checksum_algorithm(ChecksumAlgorithm::Crc64Nvme)
            .body(ByteStream::from(bytes.clone()));
        let request = request.customize().config_override(config.clone());
        if store.connection.is_private {
            request.disable_payload_signing().send().await
        } else {
            request.send().await
        }
    });
    written.map(drop).map_err(|error| match error.kind() {
        StoreFailureKind::Unavailable | StoreFailureKind::Failed | StoreFailureKind::Unusable
            if key.is_directory() =>
        {
            error.advised(NO_DIRECTORY_PAGES)
        }
        _ => error,
    })
}

/// An upload in several parts. It must be completed or aborted, because S3 charges for the stored
/// parts.
pub(super) struct MultipartUpload<'a> {
    pub(super) store: &'a S3Store,
    pub(super) key: &'a Key,
    options: &'a PutOptions,
    pub(super) place: String,
    pub(super) id: String,
    pub(super) client: Client,
    size: u64,
}

/// Writes an object in several parts.
pub(super) fn put_in_parts(
    store: &S3Store,
    key: &Key,
    body: &dyn Body,
    options: &PutOptions,
) -> Result<(), StoreError> {
    ensure_absent(store, key, options)?;
    let upload = MultipartUpload::begin(store, key, body.size(), options)?;
    let mut parts = JoinSet::new();
    let sent = upload.send(body, &mut parts);
    if sent.is_err() {
        // Parts still in flight would arrive after the abort, and stay in the bucket.
        runtime().block_on(parts.shutdown());
    }
    let ended = sent.and_then(|parts| upload.complete(parts));
    if ended.is_err() {
        upload.abandon();
    }
    ended
}

/// If the object must not exist and does, fails before all bytes are sent in vain. Credentials that may
/// write need not be allowed to read.
pub(super) fn ensure_absent(
    store: &S3Store,
    key: &Key,
    options: &PutOptions,
) -> Result<(), StoreError> {
    if options.condition != Condition::IfAbsent {
        return Ok(());
    }
    match store.head(key).map_err(|error| (error.kind(), error)) {
        Ok(_) => Err(StoreError::new(StoreFailureKind::Exists, store.place(key))),
        Err((StoreFailureKind::NotFound | StoreFailureKind::Denied, _)) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

/// The part size for an object: the usual one, or larger if the object has too many parts for it.
pub(super) fn part_size(size: u64, usual: u64) -> u64 {
    let least = size.div_ceil(PARTS).div_ceil(MIB).saturating_mul(MIB);
    usual.max(least)
}

impl<'a> MultipartUpload<'a> {
    pub(super) fn begin(
        store: &'a S3Store,
        key: &'a Key,
        size: u64,
        options: &'a PutOptions,
    ) -> Result<Self, StoreError> {
        let place = store.place(key);
        let begun = store.connection.write(&place, async |client| {
            let request = client
                .create_multipart_upload()
                .bucket(store.bucket.as_str())
                .key(key.as_str())
                .content_type(&options.content_type)
                .set_cache_control(options.cache_control.clone())
                .checksum_algorithm(ChecksumAlgorithm::Crc64Nvme)
                .checksum_type(ChecksumType::FullObject);
            // Metadata must be sent before the bytes. `BodyReader::finish` checks the digest
            // against the bytes before the upload is completed.
            match options.sha256 {
                Some(sha256) => request.metadata(SHA256, sha256.to_string()).send().await,
                None => request.send().await,
            }
        })?;
        let nameless = || StoreError::failed(&place, "an upload without a name");
        Ok(Self {
            id: begun.upload_id.ok_or_else(nameless)?,
            client: store.connection.client(),
            store,
            key,
            options,
            place,
            size,
        })
    }

    /// Reads the body on this thread and sends the parts concurrently, within the store's memory
    /// limit.
    fn send(
        &self,
        body: &dyn Body,
        parts: &mut JoinSet<Result<CompletedPart, StoreError>>,
    ) -> Result<Vec<CompletedPart>, StoreError> {
        let part = part_size(self.size, self.store.limits.part);
        let mut source = BodyReader::open(&self.place, body)?;
        let mut done = Vec::new();
        let panicked = |error| StoreError::failed(&self.place, error);
        for number in 1..=i32::try_from(self.size.div_ceil(part)).unwrap_or(i32::MAX) {
            let room = self.store.room(part)?;
            let bytes = source.take(part)?;
            parts.spawn_on(self.part(number, bytes, room), runtime().handle());
            while let Some(part) = parts.try_join_next() {
                done.push(part.map_err(panicked)??);
            }
        }
        source.finish(self.options.sha256)?;
        self.store.connection.wait(&self.place, async {
            while let Some(part) = parts.join_next().await {
                done.push(part.map_err(panicked)??);
            }
            Ok(())
        })?;
        Ok(done)
    }

    /// Sends one part. The SDK retries it.
    fn part(
        &self,
        number: i32,
        bytes: Bytes,
        room: OwnedSemaphorePermit,
    ) -> impl Future<Output = Result<CompletedPart, StoreError>> + Send + 'static {
        let signer = self.store.connection.signer;
        let place = self.place.clone();
        let request = self
            .client
            .upload_part()
            .bucket(self.store.bucket.as_str())
            .key(self.key.as_str())
            .upload_id(&self.id)
            .part_number(number)
            .checksum_algorithm(ChecksumAlgorithm::Crc64Nvme)
            .body(ByteStream::from(bytes));
        let is_private = self.store.connection.is_private;
        async move {
            let _until_sent = room;
            let request = request.customize().config_override(upload_timeouts());
            let answer = if is_private {
                request.disable_payload_signing().send().await
            } else {
                request.send().await
            };
            let answer = answer.map_err(|error| failure(&place, signer, &plain(error)))?;
            let part = CompletedPart::builder().part_number(number);
            let part = part.set_checksum_crc64_nvme(answer.checksum_crc64_nvme);
            Ok(part.set_e_tag(answer.e_tag).build())
        }
    }

    pub(super) fn complete(&self, mut parts: Vec<CompletedPart>) -> Result<(), StoreError> {
        parts.sort_by_key(CompletedPart::part_number);
        let parts = CompletedMultipartUpload::builder()
            .set_parts(Some(parts))
            .build();
        let (if_none_match, if_match) = conditions(&self.options.condition);
        let completed = self.store.connection.write(&self.place, async |client| {
            let request = client
                .complete_multipart_upload()
                .bucket(self.store.bucket.as_str())
                .key(self.key.as_str())
                .upload_id(&self.id)
                .multipart_upload(parts.clone())
                .set_if_none_match(if_none_match.clone())
                .set_if_match(if_match.clone());
            match request
                .customize()
                .config_override(upload_timeouts())
                .send()
                .await
            {
                // `NoSuchUpload` may mean that an earlier attempt has completed the upload and only
                // its response was lost. So the object is compared with what was sent.
                Err(error) if error.code() == Some("NoSuchUpload") => Ok(Err(error)),
                answer => answer.map(Ok),
            }
        })?;
        match completed {
            Err(error) if !self.is_what_is_there() => {
                let signer = self.store.connection.signer;
                let failure = failure(&self.place, signer, &plain(error));
                Err(StoreError::failed(&self.place, failure))
            }
            _ => Ok(()),
        }
    }

    /// Whether the object in the bucket is the one that was sent. Without a digest this is unknown,
    /// and the answer is no.
    fn is_what_is_there(&self) -> bool {
        let sha256 = self.options.sha256;
        let there = self.store.head(self.key);
        sha256.is_some() && there.is_ok_and(|it| it.sha256 == sha256 && it.size == self.size)
    }

    /// Aborts the upload, even if the user has interrupted. An error here is ignored: the caller
    /// reports the first failure, and a lifecycle rule of the bucket removes leftover parts.
    pub(super) fn abandon(&self) {
        let request = self
            .client
            .abort_multipart_upload()
            .bucket(self.store.bucket.as_str())
            .key(self.key.as_str())
            .upload_id(&self.id);
        let patience = Duration::from_secs(20);
        // `timeout` needs the clock of the runtime, so it is called inside.
        let abandoning = async { timeout(patience, request.send()).await };
        let _ = runtime().block_on(abandoning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_the_usual_size_or_as_large_as_ten_thousand_need() {
        let usual = 16 * MIB;
        assert_eq!(part_size(17 * MIB, usual), usual);
        assert_eq!(part_size(160_000 * MIB, usual), usual);
        assert_eq!(part_size(160_000 * MIB + 1, usual), 17 * MIB);
        for size in [1, usual, 5 << 40, u64::MAX] {
            assert!(size.div_ceil(part_size(size, usual)) <= PARTS, "{size}");
        }
    }
}
