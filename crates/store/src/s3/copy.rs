//! Copies an object within a server, while it is the one that was seen.

use aws_sdk_s3::types::{ChecksumAlgorithm, MetadataDirective};

use super::{S3Store, SHA256, connection::answer_timeout, multipart::conditions};
use crate::{
    CopySource, PutOptions, StoreError, StoreFailureKind,
    location::{Key, encode_path},
};

/// The largest object that S3 copies with one request: 5 GiB.
const MOST: u64 = 5 << 30;

/// Copies an object. `false` if the server does not copy it, and the bytes have to be sent: the object may be too
/// large, the server may not know the request, these credentials may read the source only by other means, or a
/// condition does not hold.
///
/// The digest is written beside the copy, and not compared with its bytes: the caller read the `ETag` of the
/// source before it hashed the source, and the server copies only an object with this `ETag`.
pub(super) fn copy(
    store: &S3Store,
    key: &Key,
    from: &CopySource,
    options: &PutOptions,
) -> Result<bool, StoreError> {
    if from.size > MOST {
        return Ok(false);
    }
    let place = store.place(key);
    let source = copy_source_header(from);
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
        let with_digest = match options.sha256 {
            Some(sha256) => request.metadata(SHA256, sha256.to_string()),
            None => request,
        };
        // The response comes after the copy, which may take minutes.
        with_digest.customize().config_override(answer_timeout(from.size)).send().await
    });
    match copied {
        Ok(_) => Ok(true),
        // A put to a server that does not answer would fail as well.
        Err(error) if error.kind() == StoreFailureKind::Unavailable => Err(error),
        // After a 412, the source has changed or another writer came first, and the answer does not say which. A
        // put has the same condition, and tells.
        Err(_) => Ok(false),
    }
}

/// The value of the header `x-amz-copy-source`.
fn copy_source_header(from: &CopySource) -> String {
    let source = &from.location;
    format!("{}/{}", source.bucket, encode_path(source.key.as_str()))
}
