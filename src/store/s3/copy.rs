//! Copies an object within a server, while it is the one that was seen.

use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedPart, CopyPartResult, MetadataDirective};

use super::{
    S3Store, SHA256,
    connection::upload_timeouts,
    failure::plain,
    multipart::{MultipartUpload, conditions},
};
use crate::{
    location::{Key, encode_path},
    store::{CopySource, PutOptions, Store as _, StoreError, StoreFailureKind},
};

/// How many parts of an object the server copies at the same time.
const AT_ONCE: u64 = 8;

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
    let upload = match MultipartUpload::begin(store, key, from.size, options) {
        Err(error) if error.kind() == StoreFailureKind::Exists => return Err(error),
        Err(_) => return Ok(false),
        Ok(upload) => upload,
    };
    let parts = upload.send(store.limits.copied, |number, range| {
        // A copied part needs no memory here. This bounds how many the server copies at a time.
        let turn = store.room(store.limits.memory / AT_ONCE)?;
        let request = upload
            .client
            .upload_part_copy()
            .bucket(store.bucket.as_str())
            .key(key.as_str())
            .upload_id(&upload.id)
            .part_number(number)
            .copy_source(address(from))
            .copy_source_if_match(format!("\"{}\"", from.etag))
            .copy_source_range(format!("bytes={}-{}", range.start, range.end - 1));
        Ok(async move {
            let _until_copied = turn;
            let request = request.customize().config_override(upload_timeouts());
            let copied = request.send().await.map_err(plain)?.copy_part_result;
            let copied = copied.unwrap_or_else(|| CopyPartResult::builder().build());
            Ok(CompletedPart::builder()
                .set_checksum_crc64_nvme(copied.checksum_crc64_nvme)
                .set_e_tag(copied.e_tag))
        })
    });
    let Ok(parts) = parts else {
        return Ok(false);
    };
    is_copied(upload.complete(parts), store, key)
}
