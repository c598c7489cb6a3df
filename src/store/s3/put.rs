//! Writes an object with one `PutObject` request.

use std::io::{self, Read, Write as _};

use aws_sdk_s3::{primitives::ByteStream, types::ChecksumAlgorithm};
use bytes::Bytes;

use super::{
    S3StoreInner, SHA256,
    connection::{patient, retries},
};
use crate::{
    digest::Hasher,
    location::Key,
    store::{Body, Condition, PutOptions, StoreError, StoreFailureKind},
};

/// Reads a body in order and hashes it.
pub(super) struct BodyReader<'a> {
    place: &'a str,
    reader: Box<dyn Read + Send + 'a>,
    hasher: Hasher,
    left: u64,
}

impl<'a> BodyReader<'a> {
    pub(super) fn open(place: &'a str, body: &'a dyn Body) -> Result<Self, StoreError> {
        let reader = body.read_from(0).map_err(|error| unread(place, error))?;
        Ok(Self {
            place,
            reader,
            hasher: Hasher::default(),
            left: body.size(),
        })
    }

    /// The next `wanted` bytes, or all that are left.
    pub(super) fn take(&mut self, wanted: u64) -> Result<Bytes, StoreError> {
        let wanted = wanted.min(self.left);
        // `read_exact` would need a zeroed buffer.
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(usize::MAX));
        let read = self.reader.by_ref().take(wanted).read_to_end(&mut bytes);
        let read = read.and_then(|_| self.hasher.write_all(&bytes));
        read.map_err(|error| unread(self.place, error))?;
        if (bytes.len() as u64) < wanted {
            return Err(self.differs("it is shorter than it was said to be"));
        }
        self.left -= wanted;
        Ok(bytes.into())
    }

    /// Checks that the body has ended and has the promised digest. Returns its digest.
    pub(super) fn finish(mut self, options: &PutOptions) -> Result<String, StoreError> {
        let more = self.reader.read(&mut [0]);
        if more.map_err(|error| unread(self.place, error))? > 0 {
            return Err(self.differs("it is longer than it was said to be"));
        }
        let place = self.place;
        let (sha256, _) = self.hasher.finish();
        match options.sha256.filter(|promised| *promised != sha256) {
            None => Ok(sha256.to_string()),
            Some(promised) => {
                let cause = format!("promised was {promised}, found was {sha256}");
                Err(StoreError::new(StoreFailureKind::Differs, place).caused_by(cause))
            }
        }
    }

    fn differs(&self, cause: &'static str) -> StoreError {
        StoreError::new(StoreFailureKind::Differs, self.place).caused_by(cause)
    }
}

fn unread(place: &str, error: io::Error) -> StoreError {
    StoreError::new(StoreFailureKind::Failed, place).caused_by(error)
}

pub(super) fn put(
    store: &S3StoreInner,
    key: &Key,
    body: &dyn Body,
    options: &PutOptions,
) -> Result<(), StoreError> {
    let place = store.place(key);
    let _room = store.room(body.size())?;
    let mut source = BodyReader::open(&place, body)?;
    let bytes = source.take(u64::MAX)?;
    let sha256 = source.finish(options)?;
    // Servers that store objects as files refuse a key that ends in `/`, some with a status that
    // asks for a retry. Two attempts are enough to tell this from a busy server.
    let mut config = patient();
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
            .metadata(SHA256, &sha256)
            .set_if_none_match(unless_there(&options.condition))
            .set_if_match(while_there(&options.condition))
            .checksum_algorithm(ChecksumAlgorithm::Crc64Nvme)
            .body(ByteStream::from(bytes.clone()));
        let request = request.customize().config_override(config.clone());
        if store.connection.is_private {
            request.disable_payload_signing().send().await
        } else {
            request.send().await
        }
    });
    match written {
        Err(error) if key.is_directory() && is_refusal(error.kind()) => {
            Err(error.advised(NO_DIRECTORY_PAGES))
        }
        written => written.map(drop),
    }
}

const NO_DIRECTORY_PAGES: &str = "where a server takes no keys that end in `/`, pass `--no-directory-pages`, and install with `--find-links`";

fn is_refusal(kind: StoreFailureKind) -> bool {
    matches!(
        kind,
        StoreFailureKind::Unavailable | StoreFailureKind::Failed | StoreFailureKind::Unusable
    )
}

/// The `If-None-Match` header of a condition.
pub(super) fn unless_there(condition: &Condition) -> Option<String> {
    (*condition == Condition::IfAbsent).then(|| "*".to_owned())
}

/// The `If-Match` header of a condition.
pub(super) fn while_there(condition: &Condition) -> Option<String> {
    match condition {
        Condition::IfSame(etag) => Some(format!("\"{etag}\"")),
        _ => None,
    }
}
