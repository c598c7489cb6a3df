//! An object in several parts, which are sent at once. It appears at the end as a whole.

use std::{ops::Range, time::Duration};

use aws_sdk_s3::{
    Client,
    error::{ProvideErrorMetadata as _, SdkError},
    types::{
        ChecksumAlgorithm, ChecksumType, CompletedMultipartUpload, CompletedPart,
        builders::CompletedPartBuilder,
    },
};
use tokio::{task::JoinSet, time::timeout};

use super::{
    MIB, S3Store, SHA256,
    connection::answer_timeout,
    failure::{store_error, to_failure},
    strip_quotes,
};
use crate::{Condition, PutOptions, Store as _, StoreError, location::Key};
use rocwheel_base::parallel::runtime;

/// The maximum number of parts that S3 allows.
const PARTS: u64 = 10_000;

/// The headers `If-None-Match` and `If-Match` of a condition.
pub(super) fn conditions(condition: &Condition) -> (Option<String>, Option<String>) {
    match condition {
        Condition::Always => (None, None),
        Condition::IfAbsent => (Some("*".to_owned()), None),
        Condition::IfSame(etag) => (None, Some(format!("\"{etag}\""))),
    }
}

/// An upload in several parts. It must be completed or aborted, because S3 charges for the stored
/// parts.
pub(super) struct MultipartUpload<'a> {
    store: &'a S3Store,
    key: &'a Key,
    options: &'a PutOptions,
    place: String,
    pub(super) id: String,
    client: Client,
    pub(super) size: u64,
}

/// The part size for an object: the usual one, or larger if the object has too many parts for it.
fn part_size(size: u64, usual: u64) -> u64 {
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
            let answer = match options.sha256 {
                Some(sha256) => request.metadata(SHA256, sha256.to_string()).send().await,
                None => request.send().await,
            };
            // Some servers begin the upload and name it in an answer that is not one of S3's.
            if let Err(SdkError::ServiceError(error)) = &answer
                && let Some(id) = error.raw().body().bytes().and_then(find_upload_id)
            {
                abort(&client, store, key, &id).await;
            }
            answer
        })?;
        Ok(Self {
            id: begun
                .upload_id
                .ok_or_else(|| StoreError::failed(&place, "an upload without a name"))?,
            client: store.connection.client(),
            store,
            key,
            options,
            place,
            size,
        })
    }

    /// Sends all parts, then makes the object of the parts. `start` gets the number and the range of a part,
    /// reads its bytes on this thread, and returns the request that sends the part. Returns the `ETag` of the object.
    pub(super) fn send<F>(
        &self,
        start: impl FnMut(i32, Range<u64>) -> Result<F, StoreError>,
    ) -> Result<Option<String>, StoreError>
    where
        F: Future<Output = Result<CompletedPartBuilder, StoreError>> + Send + 'static,
    {
        let mut in_flight = JoinSet::new();
        self.send_parts(start, &mut in_flight).and_then(|sent| self.complete(sent)).inspect_err(
            |_| {
                // Parts still in flight would arrive after the abort, and stay in the bucket.
                runtime().block_on(in_flight.shutdown());
                self.abort();
            },
        )
    }

    /// Sends all parts. After an error, `in_flight` has the parts that were not answered.
    fn send_parts<F>(
        &self,
        mut start: impl FnMut(i32, Range<u64>) -> Result<F, StoreError>,
        in_flight: &mut JoinSet<(i32, Result<CompletedPartBuilder, StoreError>)>,
    ) -> Result<Vec<CompletedPart>, StoreError>
    where
        F: Future<Output = Result<CompletedPartBuilder, StoreError>> + Send + 'static,
    {
        let mut sent = Vec::new();
        let mut add_sent = |joined: Result<(i32, Result<CompletedPartBuilder, _>), _>| {
            let (number, part) = joined.map_err(|error| StoreError::failed(&self.place, error))?;
            sent.push(part?.part_number(number).build());
            Ok(())
        };
        let part_size = part_size(self.size, self.store.limits.part);
        let mut number = 0;
        let mut at = 0;
        while at < self.size {
            let end = self.size.min(at.saturating_add(part_size));
            number += 1;
            let request = start(number, at..end)?;
            in_flight.spawn_on(async move { (number, request.await) }, runtime().handle());
            at = end;
            // A part that failed ends the upload before further parts are read.
            while let Some(joined) = in_flight.try_join_next() {
                add_sent(joined)?;
            }
        }
        self.store.connection.wait(&self.place, async {
            while let Some(joined) = in_flight.join_next().await {
                add_sent(joined)?;
            }
            Ok(())
        })?;
        Ok(sent)
    }

    /// Makes the object of its parts. Returns its `ETag`, which is no digest of its bytes.
    fn complete(&self, mut parts: Vec<CompletedPart>) -> Result<Option<String>, StoreError> {
        parts.sort_by_key(CompletedPart::part_number);
        let part_list = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let (if_none_match, if_match) = conditions(&self.options.condition);
        let completed = self.store.connection.write(&self.place, async |client| {
            let request = client
                .complete_multipart_upload()
                .bucket(self.store.bucket.as_str())
                .key(self.key.as_str())
                .upload_id(&self.id)
                .multipart_upload(part_list.clone())
                .set_if_none_match(if_none_match.clone())
                .set_if_match(if_match.clone());
            match request.customize().config_override(answer_timeout(self.size)).send().await {
                // `NoSuchUpload` may mean that an earlier attempt has completed the upload and only
                // its response was lost. So the object is compared with what was sent.
                Err(error) if error.code() == Some("NoSuchUpload") => Ok(Err(error)),
                answer => answer.map(Ok),
            }
        })?;
        match completed {
            Err(error) if !self.is_in_bucket() => {
                let signer = self.store.connection.signer;
                let cause = store_error(&self.place, signer, &to_failure(error));
                Err(StoreError::failed(&self.place, cause))
            }
            answer => Ok(answer.ok().and_then(|it| it.e_tag().map(strip_quotes))),
        }
    }

    /// Whether the object in the bucket is the object of this upload. Without a digest this is unknown, and
    /// the answer is no.
    fn is_in_bucket(&self) -> bool {
        let sha256 = self.options.sha256;
        sha256.is_some()
            && self
                .store
                .head(self.key)
                .is_ok_and(|object| object.sha256 == sha256 && object.size == self.size)
    }

    /// Aborts the upload, even if the user has interrupted. An error here is ignored: the caller
    /// reports the first failure, and a lifecycle rule of the bucket removes leftover parts.
    fn abort(&self) {
        runtime().block_on(abort(&self.client, self.store, self.key, &self.id));
    }
}

async fn abort(client: &Client, store: &S3Store, key: &Key, id: &str) {
    let request = client
        .abort_multipart_upload()
        .bucket(store.bucket.as_str())
        .key(key.as_str())
        .upload_id(id);
    let _ = timeout(Duration::from_secs(20), request.send()).await;
}

/// The name of an upload in the text of an answer.
fn find_upload_id(body: &[u8]) -> Option<String> {
    let text = str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("<UploadId>")?;
    let (id, _) = rest.split_once("</UploadId>")?;
    (!id.is_empty()).then(|| id.to_owned())
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
