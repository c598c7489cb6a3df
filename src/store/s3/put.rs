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
    failure::status,
    multipart::{MultipartUpload, conditions},
};
use crate::{
    digest::{Hasher, Sha256},
    location::Key,
    retry::Failures,
    store::{Body, Condition, PutOptions, Store as _, StoreError, StoreFailureKind},
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

/// Writes an object, and again while the server refuses it because another write of the key is in progress.
///
/// S3 answers 409 then, to one request or to the completion of an upload, before it is known how the other
/// write ends; and a write that ends without an object may have caused a 412. So only an object that can be
/// seen says that there is one.
pub(super) fn put(
    store: &S3Store,
    key: &Key,
    body: &dyn Body,
    options: &PutOptions,
) -> Result<(), StoreError> {
    let place = store.place(key);
    let mut failures = Failures::default();
    loop {
        let written = if body.size() <= store.limits.part {
            put_whole(store, key, body, options)
        } else {
            put_in_parts(store, key, body, options)
        };
        let Err(error) = written else { return Ok(()) };
        let is_refused = match error.kind() {
            StoreFailureKind::Conflict => true,
            StoreFailureKind::Exists => options.condition == Condition::IfAbsent,
            _ => false,
        };
        if !is_refused {
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
) -> Result<(), StoreError> {
    let place = store.place(key);
    let _room = store.room(body.size())?;
    let mut source = BodyReader::open(&place, body)?;
    let bytes = source.take(u64::MAX)?;
    let sha256 = source.finish(options.sha256)?;
    let (if_none_match, if_match) = conditions(&options.condition);
    let refused = Cell::new(None);
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
        let request = request.customize().config_override(answer_timeout(body.size()));
        let answer = if store.connection.is_private {
            request.disable_payload_signing().send().await
        } else {
            request.send().await
        };
        answer.inspect_err(|error| refused.set(status(error)))
    });
    written.map(drop).map_err(|error| {
        // A server that keeps objects in files fails for such a key, or refuses it. One that is busy, or whose
        // connections break, does that for every key.
        let is_of_key = match error.kind() {
            StoreFailureKind::Failed | StoreFailureKind::Unusable => true,
            StoreFailureKind::Unavailable => refused.get() == Some(500),
            _ => false,
        };
        if key.is_directory() && is_of_key { error.advised(NO_DIRECTORY_PAGES) } else { error }
    })
}

/// Writes an object in several parts. They are read on this thread, and sent at once within the memory
/// limit of the store.
fn put_in_parts(
    store: &S3Store,
    key: &Key,
    body: &dyn Body,
    options: &PutOptions,
) -> Result<(), StoreError> {
    let place = store.place(key);
    let mut source = BodyReader::open(&place, body)?;
    let upload = MultipartUpload::begin(store, key, body.size(), options)?;
    upload.send(|number, range| {
        let len = range.end - range.start;
        let room = store.room(len)?;
        let bytes = source.take(len)?;
        if range.end == upload.size {
            source.finish(options.sha256)?;
        }
        let (store, key, id) = (store.clone(), key.clone(), upload.id.clone());
        Ok(async move {
            let _until_sent = room;
            let place = store.place(&key);
            let request = async |client: Client| {
                let request = client
                    .upload_part()
                    .bucket(store.bucket.as_str())
                    .key(key.as_str())
                    .upload_id(&id)
                    .part_number(number)
                    .checksum_algorithm(ChecksumAlgorithm::Crc64Nvme)
                    .body(ByteStream::from(bytes.clone()));
                let request = request.customize().config_override(answer_timeout(len));
                if store.connection.is_private {
                    request.disable_payload_signing().send().await
                } else {
                    request.send().await
                }
            };
            let answer = store.connection.writing(&place, &request).await?;
            Ok(CompletedPart::builder()
                .set_checksum_crc64_nvme(answer.checksum_crc64_nvme)
                .set_e_tag(answer.e_tag))
        })
    })
}
