//! Copies an object within a server, while it is the one that was seen.

use std::ops::Range;

use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedPart, MetadataDirective};
use tokio::task::JoinSet;

use super::{
    S3Store, SHA256,
    connection::upload_timeouts,
    failure::{failure, plain},
    put::{MultipartUpload, conditions, ensure_absent, part_size},
};
use crate::{
    location::{Key, encode_path},
    parallel::runtime,
    store::{CopySource, PutOptions, Store as _, StoreError, StoreFailureKind},
};

/// Parts of an object that the server copies at the same time.
const AT_ONCE: usize = 8;

/// `false` if the server does not copy it: it may not know the request, or these credentials may read
/// the source only by other means.
///
/// The digest is written beside the copy, and not compared: the source has the `ETag` of the moment
/// before it was read here.
pub(super) fn copy(
    store: &S3Store,
    key: &Key,
    from: &CopySource,
    options: &PutOptions,
) -> Result<bool, StoreError> {
    if from.size > store.limits.copied {
        return copy_in_parts(store, key, from, options);
    }
    let place = store.place(key);
    let source = address(from);
    let (if_none_match, if_match) = conditions(&options.condition);
    let copied = store.connection.write(&place, async |client| {
        let request = client
            .copy_object()
            .bucket(store.bucket.as_str())
            .key(key.as_str())
            .copy_source(&source)
            .copy_source_if_match(format!("\"{}\"", from.etag))
            .metadata_directive(MetadataDirective::Replace)
            .content_type(&options.content_type)
            .set_cache_control(options.cache_control.clone())
            .set_if_none_match(if_none_match.clone())
            .set_if_match(if_match.clone())
            .checksum_algorithm(ChecksumAlgorithm::Crc64Nvme);
        match options.sha256 {
            Some(sha256) => request.metadata(SHA256, sha256.to_string()).send().await,
            None => request.send().await,
        }
    });
    is_copied(copied.map(drop), store, key)
}

/// Whether the object has to be sent, or why that would fail too.
fn is_copied(
    copied: Result<(), StoreError>,
    store: &S3Store,
    key: &Key,
) -> Result<bool, StoreError> {
    match copied {
        Ok(()) => Ok(true),
        // The condition of the source or that of the copy does not hold.
        Err(error) if error.kind() == StoreFailureKind::Exists => match store.head(key) {
            Err(head) if head.kind() == StoreFailureKind::NotFound => Ok(false),
            _ => Err(error),
        },
        Err(error) if error.kind() == StoreFailureKind::Unavailable => Err(error),
        Err(_) => Ok(false),
    }
}

/// The value of the header `x-amz-copy-source`.
fn address(from: &CopySource) -> String {
    let source = &from.location;
    format!("{}/{}", source.bucket, encode_path(source.key.as_str()))
}

/// Copies an object that is too large for one request. If a part fails, the object has to be sent:
/// the server may not know such requests, or the source may have changed.
fn copy_in_parts(
    store: &S3Store,
    key: &Key,
    from: &CopySource,
    options: &PutOptions,
) -> Result<bool, StoreError> {
    ensure_absent(store, key, options)?;
    let Ok(upload) = MultipartUpload::begin(store, key, from.size, options) else {
        return Ok(false);
    };
    let mut parts = JoinSet::new();
    let Ok(copied) = upload.copy(from, &mut parts) else {
        // Parts still under way would arrive after the abort, and stay in the bucket.
        runtime().block_on(parts.shutdown());
        upload.abandon();
        return Ok(false);
    };
    let ended = upload.complete(copied);
    if ended.is_err() {
        upload.abandon();
    }
    is_copied(ended, store, key)
}

type CopiedPart = Result<CompletedPart, StoreError>;

impl MultipartUpload<'_> {
    fn copy(
        &self,
        from: &CopySource,
        parts: &mut JoinSet<CopiedPart>,
    ) -> Result<Vec<CompletedPart>, StoreError> {
        let part = part_size(from.size, self.store.limits.copied);
        let count = i32::try_from(from.size.div_ceil(part)).unwrap_or(i32::MAX);
        let panicked = |error| StoreError::failed(&self.place, error);
        let mut done = Vec::new();
        let mut start = 0;
        self.store.connection.wait(&self.place, async {
            for number in 1..=count {
                let end = from.size.min(start + part);
                parts.spawn(self.copied_part(from, number, start..end));
                start = end;
                if parts.len() == AT_ONCE
                    && let Some(part) = parts.join_next().await
                {
                    done.push(part.map_err(panicked)??);
                }
            }
            while let Some(part) = parts.join_next().await {
                done.push(part.map_err(panicked)??);
            }
            Ok(())
        })?;
        Ok(done)
    }

    /// Copies one part, if the source is still the one that was seen. The SDK retries it.
    fn copied_part(
        &self,
        from: &CopySource,
        number: i32,
        bytes: Range<u64>,
    ) -> impl Future<Output = CopiedPart> + Send + 'static {
        let signer = self.store.connection.signer;
        let place = self.place.clone();
        let request = self
            .client
            .upload_part_copy()
            .bucket(self.store.bucket.as_str())
            .key(self.key.as_str())
            .upload_id(&self.id)
            .part_number(number)
            .copy_source(address(from))
            .copy_source_if_match(format!("\"{}\"", from.etag))
            .copy_source_range(format!("bytes={}-{}", bytes.start, bytes.end - 1));
        async move {
            let request = request.customize().config_override(upload_timeouts());
            let answer = request.send().await;
            let answer = answer.map_err(|error| failure(&place, signer, &plain(error)))?;
            let copied = answer.copy_part_result.filter(|it| it.e_tag.is_some());
            let nameless = || StoreError::failed(&place, "a part without an `ETag`");
            let copied = copied.ok_or_else(nameless)?;
            let part = CompletedPart::builder().part_number(number);
            let part = part.set_checksum_crc64_nvme(copied.checksum_crc64_nvme);
            Ok(part.set_e_tag(copied.e_tag).build())
        }
    }
}
