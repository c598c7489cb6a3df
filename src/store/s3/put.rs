//! Writes an object: a small one with one request, a larger one in several parts.

use std::io::{Read, Write as _};

use aws_sdk_s3::{
    primitives::ByteStream,
    types::{ChecksumAlgorithm, CompletedPart},
};
use bytes::Bytes;

use super::{
    S3Store, SHA256,
    connection::{retries, upload_timeouts},
    failure::plain,
    multipart::{MultipartUpload, conditions},
};
use crate::{
    digest::{Hasher, Sha256},
    location::Key,
    store::{Body, PutOptions, StoreError, StoreFailureKind},
};

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
    fn finish(&mut self, promised: Option<Sha256>) -> Result<Sha256, StoreError> {
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

/// Writes an object in several parts. They are read on this thread, and sent at once within the memory
/// limit of the store.
pub(super) fn put_in_parts(
    store: &S3Store,
    key: &Key,
    body: &dyn Body,
    options: &PutOptions,
) -> Result<(), StoreError> {
    let place = store.place(key);
    let mut source = BodyReader::open(&place, body)?;
    let upload = MultipartUpload::begin(store, key, body.size(), options)?;
    let is_private = store.connection.is_private;
    upload.send(|number, range| {
        let len = range.end - range.start;
        let room = store.room(len)?;
        let bytes = source.take(len)?;
        if range.end == upload.size {
            source.finish(options.sha256)?;
        }
        let request = upload
            .client
            .upload_part()
            .bucket(store.bucket.as_str())
            .key(key.as_str())
            .upload_id(&upload.id)
            .part_number(number)
            .checksum_algorithm(ChecksumAlgorithm::Crc64Nvme)
            .body(ByteStream::from(bytes));
        Ok(async move {
            let _until_sent = room;
            let request = request.customize().config_override(upload_timeouts());
            let answer = if is_private {
                request.disable_payload_signing().send().await
            } else {
                request.send().await
            };
            let answer = answer.map_err(plain)?;
            Ok(CompletedPart::builder()
                .set_checksum_crc64_nvme(answer.checksum_crc64_nvme)
                .set_e_tag(answer.e_tag))
        })
    })
}
