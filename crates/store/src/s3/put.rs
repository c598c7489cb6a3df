//! Writes an object: a small one with one request, a larger one in several parts.

use std::{
    cell::Cell,
    io::{Read, Write as _},
};

use aws_sdk_s3::{
    Client,
    primitives::ByteStream,
    types::{ChecksumAlgorithm, CompletedPart},
};
use bytes::Bytes;

use super::{
    S3Store, SHA256,
    connection::answer_timeout,
    failure::read_status,
    multipart::{MultipartUpload, conditions},
    strip_quotes,
};
use crate::{Body, Condition, PutOptions, Store as _, StoreError, StoreFailureKind, location::Key};
use rocwheel_base::{
    digest::{Hasher, Sha256},
    retry::Failures,
};

const NO_DIRECTORY_PAGES: &str = "where a server takes no keys that end in `/`, pass `--no-directory-pages`, and install with `--find-links`";

/// Reads a body in order and hashes it.
struct BodyReader<'a> {
    place: &'a str,
    reader: Box<dyn Read + Send + 'a>,
    hasher: Hasher,
    /// The number of bytes that were not read yet.
    left: u64,
}

impl<'a> BodyReader<'a> {
    fn open(place: &'a str, body: &'a dyn Body) -> Result<Self, StoreError> {
        Ok(Self {
            place,
            reader: body.read_from(0).map_err(|error| StoreError::failed(place, error))?,
            hasher: Hasher::default(),
            left: body.size(),
        })
    }

    /// The next `wanted` bytes, or all that are left.
    fn take(&mut self, wanted: u64) -> Result<Bytes, StoreError> {
        let wanted = wanted.min(self.left);
        // `read_exact` would need a zeroed buffer.
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(usize::MAX));
        self.reader
            .by_ref()
            .take(wanted)
            .read_to_end(&mut bytes)
            .and_then(|_| self.hasher.write_all(&bytes))
            .map_err(|error| StoreError::failed(self.place, error))?;
        if (bytes.len() as u64) < wanted {
            return Err(self.differs("it is shorter than it was said to be"));
        }
        self.left -= wanted;
        Ok(bytes.into())
    }

    /// Checks that the body has ended and has the promised digest. Returns its digest.
    fn finish(&mut self, promised: Option<Sha256>) -> Result<Sha256, StoreError> {
        let surplus =
            self.reader.read(&mut [0]).map_err(|error| StoreError::failed(self.place, error))?;
        if surplus > 0 {
            return Err(self.differs("it is longer than it was said to be"));
        }
        let (sha256, _) = std::mem::take(&mut self.hasher).finish();
        match promised {
            Some(promised) if promised != sha256 => {
                Err(self.differs(&format!("promised was {promised}, found was {sha256}")))
            }
            _ => Ok(sha256),
        }
    }

    fn differs(&self, cause: &str) -> StoreError {
        StoreError::new(StoreFailureKind::Differs, self.place).caused_by(cause)
    }
}

/// Writes an object. Repeats the write while the server refuses it because another write of the key is in
/// progress.
///
/// S3 answers 409 then, to one request or to the completion of an upload, before it is known how the other
/// write ends. A 412 does not prove that there is an object either: a write that ended without an object may
/// have caused it. So the answer is that the object exists only if a request sees the object.
pub(super) fn put(
    store: &S3Store,
    key: &Key,
    body: &dyn Body,
    options: &PutOptions,
) -> Result<Option<String>, StoreError> {
    let place = store.place(key);
    let mut failures = Failures::default();
    loop {
        let written = if body.size() <= store.limits.part {
            put_whole(store, key, body, options)
        } else {
            put_in_parts(store, key, body, options)
        };
        let error = match written {
            Ok(etag) => return Ok(etag),
            Err(error) => error,
        };
        let may_pass = match error.kind() {
            StoreFailureKind::Conflict => true,
            StoreFailureKind::Exists => options.condition == Condition::IfAbsent,
            _ => false,
        };
        if !may_pass {
            return Err(error);
        }
        if options.condition == Condition::IfAbsent {
            match store.head(key) {
                Ok(_) => return Err(StoreError::new(StoreFailureKind::Exists, &place)),
                Err(head) if head.kind() == StoreFailureKind::NotFound => {}
                Err(_) => return Err(error),
            }
        }
        let Some(pause) = failures.pause(&store.limits.backoff) else {
            return Err(match error.kind() {
                StoreFailureKind::Exists => StoreError::new(StoreFailureKind::Conflict, &place)
                    .caused_by("the server says that an object is there, and has none"),
                _ => error,
            });
        };
        store.connection.wait(&place, async {
            tokio::time::sleep(pause).await;
            Ok(())
        })?;
    }
}

/// Writes an object with one request.
fn put_whole(
    store: &S3Store,
    key: &Key,
    body: &dyn Body,
    options: &PutOptions,
) -> Result<Option<String>, StoreError> {
    let place = store.place(key);
    let _until_written = store.reserve_memory(body.size())?;
    let mut source = BodyReader::open(&place, body)?;
    let bytes = source.take(u64::MAX)?;
    let sha256 = source.finish(options.sha256)?;
    let (if_none_match, if_match) = conditions(&options.condition);
    let last_status = Cell::new(None);
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
            .body(ByteStream::from(bytes.clone()))
            .customize()
            .config_override(answer_timeout(body.size()));
        let answer = if store.connection.is_private {
            request.disable_payload_signing().send().await
        } else {
            request.send().await
        };
        answer.inspect_err(|error| last_status.set(read_status(error)))
    });
    written.map(|answer| answer.e_tag().map(strip_quotes)).map_err(|error| {
        // A server that keeps objects in files refuses the key of a directory, or fails with 500. Other
        // failures do not come from the key: the server is busy, or a connection broke.
        let may_come_from_key = match error.kind() {
            StoreFailureKind::Failed | StoreFailureKind::Unusable => true,
            StoreFailureKind::Unavailable => last_status.get() == Some(500),
            _ => false,
        };
        if key.is_directory() && may_come_from_key {
            error.advised(NO_DIRECTORY_PAGES)
        } else {
            error
        }
    })
}

/// Writes an object in several parts. They are read on this thread, and sent at once within the memory
/// limit of the store.
fn put_in_parts(
    store: &S3Store,
    key: &Key,
    body: &dyn Body,
    options: &PutOptions,
) -> Result<Option<String>, StoreError> {
    let place = store.place(key);
    let mut source = BodyReader::open(&place, body)?;
    let upload = MultipartUpload::begin(store, key, body.size(), options)?;
    upload.send(|number, range| {
        let len = range.end - range.start;
        let permit = store.reserve_memory(len)?;
        let bytes = source.take(len)?;
        // The digest is compared before the last part is sent, so that no upload of wrong bytes is completed.
        if range.end == upload.size {
            source.finish(options.sha256)?;
        }
        let store = store.clone();
        let key = key.clone();
        let id = upload.id.clone();
        Ok(async move {
            let _until_sent = permit;
            let place = store.place(&key);
            let request = async |client: Client| {
                let request = client
                    .upload_part()
                    .bucket(store.bucket.as_str())
                    .key(key.as_str())
                    .upload_id(&id)
                    .part_number(number)
                    .checksum_algorithm(ChecksumAlgorithm::Crc64Nvme)
                    .body(ByteStream::from(bytes.clone()))
                    .customize()
                    .config_override(answer_timeout(len));
                if store.connection.is_private {
                    request.disable_payload_signing().send().await
                } else {
                    request.send().await
                }
            };
            let answer = store.connection.write_async(&place, &request).await?;
            Ok(CompletedPart::builder()
                .set_checksum_crc64_nvme(answer.checksum_crc64_nvme)
                .set_e_tag(answer.e_tag))
        })
    })
}
