//! Multipart uploads: several parts are sent at once, and the object appears at the end as a whole.

use std::time::Duration;

use aws_sdk_s3::{
    Client,
    error::ProvideErrorMetadata as _,
    primitives::ByteStream,
    types::{ChecksumAlgorithm, ChecksumType, CompletedMultipartUpload, CompletedPart},
};
use bytes::Bytes;
use tokio::{
    sync::OwnedSemaphorePermit,
    task::{JoinError, JoinSet},
    time::timeout,
};

use super::{
    MIB, S3StoreInner, SHA256,
    connection::patient,
    failure::failure,
    put::{BodyReader, unless_there, while_there},
};
use crate::{
    location::Key,
    parallel::runtime,
    store::{Body, Condition, PutOptions, StoreError, StoreFailureKind},
};

/// The maximum number of parts that S3 allows.
const PARTS: u64 = 10_000;

/// An upload in progress. It must be completed or aborted, because S3 charges for the stored parts.
struct MultipartUpload<'a> {
    store: &'a S3StoreInner,
    key: &'a Key,
    place: String,
    id: String,
    client: Client,
    size: u64,
    sha256: Option<String>,
}

pub(super) fn put(
    store: &S3StoreInner,
    key: &Key,
    body: &dyn Body,
    options: &PutOptions,
) -> Result<(), StoreError> {
    // If the object already exists, fail before sending all its bytes in vain.
    if options.condition == Condition::IfAbsent && is_there(store, key)? {
        return Err(StoreError::new(StoreFailureKind::Exists, store.place(key)));
    }
    let upload = MultipartUpload::begin(store, key, body.size(), options)?;
    let sent = upload.send(body, options);
    let ended = sent.and_then(|parts| upload.complete(parts, &options.condition));
    if ended.is_err() {
        upload.abandon();
    }
    ended
}

fn is_there(store: &S3StoreInner, key: &Key) -> Result<bool, StoreError> {
    match store.head(key) {
        Ok(_) => Ok(true),
        // Credentials that may write need not be allowed to read.
        Err(error)
            if matches!(
                error.kind(),
                StoreFailureKind::NotFound | StoreFailureKind::Denied
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The part size for an object: the usual one, or larger if the object has too many parts for it.
fn part_size(size: u64, usual: u64) -> u64 {
    let least = size.div_ceil(PARTS).div_ceil(MIB).saturating_mul(MIB);
    usual.max(least)
}

impl<'a> MultipartUpload<'a> {
    fn begin(
        store: &'a S3StoreInner,
        key: &'a Key,
        size: u64,
        options: &PutOptions,
    ) -> Result<Self, StoreError> {
        let place = store.place(key);
        // Metadata must be sent before the bytes. `BodyReader::finish` checks the digest against
        // the bytes before the upload is completed.
        let sha256 = options.sha256.map(|sha256| sha256.to_string());
        let begun = store.connection.write(&place, async |client| {
            let request = client
                .create_multipart_upload()
                .bucket(store.bucket.as_str())
                .key(key.as_str())
                .content_type(&options.content_type)
                .set_cache_control(options.cache_control.clone())
                .checksum_algorithm(ChecksumAlgorithm::Crc64Nvme)
                .checksum_type(ChecksumType::FullObject);
            match &sha256 {
                Some(sha256) => request.metadata(SHA256, sha256).send().await,
                None => request.send().await,
            }
        })?;
        let id = begun.upload_id.ok_or_else(|| {
            StoreError::new(StoreFailureKind::Failed, &place).caused_by("an upload without a name")
        })?;
        Ok(Self {
            store,
            key,
            place,
            id,
            client: store.connection.client(),
            size,
            sha256,
        })
    }

    /// Reads the body on this thread and sends the parts concurrently, within the store's memory
    /// limit.
    fn send(
        &self,
        body: &dyn Body,
        options: &PutOptions,
    ) -> Result<Vec<CompletedPart>, StoreError> {
        let mut parts = JoinSet::new();
        let sent = self.read(body, options, &mut parts);
        if sent.is_err() {
            // Parts still in flight would arrive after the abort, and stay in the bucket.
            runtime().block_on(parts.shutdown());
        }
        sent
    }

    fn read(
        &self,
        body: &dyn Body,
        options: &PutOptions,
        parts: &mut JoinSet<Result<CompletedPart, StoreError>>,
    ) -> Result<Vec<CompletedPart>, StoreError> {
        let part = part_size(self.size, self.store.limits.part);
        let mut source = BodyReader::open(&self.place, body)?;
        let mut done = Vec::new();
        for number in 1..=i32::try_from(self.size.div_ceil(part)).unwrap_or(i32::MAX) {
            let room = self.store.room(part)?;
            let bytes = source.take(part)?;
            parts.spawn_on(self.part(number, bytes, room), runtime().handle());
            while let Some(part) = parts.try_join_next() {
                done.push(self.joined(part)?);
            }
        }
        source.finish(options)?;
        self.store.connection.wait(&self.place, async {
            while let Some(part) = parts.join_next().await {
                done.push(self.joined(part)?);
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
        let asker = self.store.connection.asker;
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
            let request = request.customize().config_override(patient());
            let answer = if is_private {
                request.disable_payload_signing().send().await
            } else {
                request.send().await
            };
            let answer = answer.map_err(|error| failure(&place, asker, &error))?;
            let part = CompletedPart::builder().part_number(number);
            let part = part.set_checksum_crc64_nvme(answer.checksum_crc64_nvme);
            Ok(part.set_e_tag(answer.e_tag).build())
        }
    }

    fn joined(
        &self,
        part: Result<Result<CompletedPart, StoreError>, JoinError>,
    ) -> Result<CompletedPart, StoreError> {
        part.map_err(|error| {
            StoreError::new(StoreFailureKind::Failed, &self.place).caused_by(error)
        })?
    }

    fn complete(
        &self,
        mut parts: Vec<CompletedPart>,
        condition: &Condition,
    ) -> Result<(), StoreError> {
        parts.sort_by_key(CompletedPart::part_number);
        let parts = CompletedMultipartUpload::builder()
            .set_parts(Some(parts))
            .build();
        let completed = self.store.connection.write(&self.place, async |client| {
            let request = client
                .complete_multipart_upload()
                .bucket(self.store.bucket.as_str())
                .key(self.key.as_str())
                .upload_id(&self.id)
                .multipart_upload(parts.clone())
                .set_if_none_match(unless_there(condition))
                .set_if_match(while_there(condition));
            match request.customize().config_override(patient()).send().await {
                // `NoSuchUpload` may mean that an earlier attempt has completed the upload and only
                // its response was lost. The caller compares the object with what was sent.
                Err(error) if error.code() == Some("NoSuchUpload") => Ok(Err(error)),
                answer => answer.map(Ok),
            }
        })?;
        match completed {
            Ok(_) => Ok(()),
            Err(_) if self.is_what_is_there() => Ok(()),
            Err(error) => {
                let asker = self.store.connection.asker;
                let failure = failure(&self.place, asker, &error);
                Err(StoreError::new(StoreFailureKind::Failed, &self.place).caused_by(failure))
            }
        }
    }

    /// Whether the object in the bucket is the one that was sent. Without a digest this is unknown,
    /// and the answer is no.
    fn is_what_is_there(&self) -> bool {
        let Ok(head) = self.store.head(self.key) else {
            return false;
        };
        let there = head.metadata().and_then(|metadata| metadata.get(SHA256));
        self.sha256.is_some()
            && there == self.sha256.as_ref()
            && super::size(head.content_length()) == self.size
    }

    /// Aborts the upload, even if the user has interrupted. An error here is ignored: the caller
    /// reports the first failure, and a lifecycle rule of the bucket removes leftover parts.
    fn abandon(&self) {
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
