//! A range of one version of an object. If a response breaks off, reading resumes where it ended.

use std::{ops::Range, sync::Arc};

use aws_sdk_s3::{
    error::SdkError,
    operation::get_object::{GetObjectError, GetObjectOutput},
    primitives::ByteStream,
};
use bytes::Bytes;

use super::{S3StoreInner, failure::status};
use crate::{
    error::last_cause,
    location::Key,
    retry::Failures,
    store::{StoreError, StoreFailureKind},
};

/// The range of an object that is still to be read.
pub(super) struct ObjectRange {
    store: Arc<S3StoreInner>,
    key: Key,
    /// Of the version that is read. A server may send none.
    etag: Option<String>,
    /// Offset of the next byte in the object.
    at: u64,
    end: u64,
    /// `None` before the first request, and after a response broke off.
    body: Option<ByteStream>,
    /// Failures since the last byte arrived.
    failures: Failures,
}

impl ObjectRange {
    pub(super) fn new(
        store: &Arc<S3StoreInner>,
        key: &Key,
        etag: Option<&str>,
        range: Range<u64>,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            key: key.clone(),
            etag: etag.map(str::to_owned),
            at: range.start,
            end: range.end,
            body: None,
            failures: Failures::default(),
        }
    }

    /// Continues with a response that has already begun.
    pub(super) fn begun(mut self, body: ByteStream) -> Self {
        self.body = Some(body);
        self
    }

    /// The next bytes; empty at the end. After the last byte the body is polled once more, because
    /// the SDK reports a checksum mismatch only then.
    pub(super) async fn next(&mut self) -> Result<Bytes, StoreError> {
        loop {
            let broken = match &mut self.body {
                None if self.at >= self.end => return Ok(Bytes::new()),
                None => {
                    self.ask().await?;
                    continue;
                }
                Some(body) => match body.try_next().await {
                    Ok(Some(bytes)) if bytes.is_empty() => continue,
                    Ok(Some(bytes)) => {
                        self.at = self.at.saturating_add(bytes.len() as u64);
                        self.failures.forget();
                        return Ok(bytes);
                    }
                    Ok(None) if self.at >= self.end => {
                        self.body = None;
                        continue;
                    }
                    Ok(None) => "the answer ended too early".to_owned(),
                    Err(error) => last_cause(&error),
                },
            };
            self.body = None;
            self.bear(broken).await?;
        }
    }

    /// Pauses after a broken response. Fails if all bytes had arrived, as then the checksum is
    /// wrong, or if there were too many failures in a row.
    async fn bear(&mut self, broken: String) -> Result<(), StoreError> {
        let failure = |kind, cause: String| {
            StoreError::new(kind, self.store.place(&self.key)).caused_by(cause)
        };
        if self.at >= self.end {
            return Err(failure(StoreFailureKind::Differs, broken));
        }
        let Some(pause) = self.failures.pause(&self.store.limits.backoff) else {
            return Err(failure(StoreFailureKind::Unavailable, broken));
        };
        tokio::time::sleep(pause).await;
        Ok(())
    }

    async fn ask(&mut self) -> Result<(), StoreError> {
        let range = format!("bytes={}-{}", self.at, self.end.saturating_sub(1));
        let etag = self.etag.as_deref();
        let answer = match ask(&self.store, &self.key, Some(&range), etag).await {
            Err(error) if error.kind() == StoreFailureKind::Exists => None,
            answer => answer?,
        };
        let Some(answer) = answer.filter(|answer| self.continues(answer)) else {
            let cause = "the object was replaced while it was read";
            let place = self.store.place(&self.key);
            return Err(StoreError::new(StoreFailureKind::Differs, place).caused_by(cause));
        };
        self.body = Some(answer.body);
        Ok(())
    }

    /// Whether a response starts at the right byte of the same version. A server may ignore a
    /// range.
    fn continues(&self, answer: &GetObjectOutput) -> bool {
        let start = format!("bytes {}-", self.at);
        let range = answer.content_range().unwrap_or_default();
        range.starts_with(&start) && answer.e_tag() == self.etag.as_deref()
    }
}

/// Requests an object or a range. `None` if the range starts after the end of the object (416).
pub(super) async fn ask(
    store: &S3StoreInner,
    key: &Key,
    range: Option<&str>,
    etag: Option<&str>,
) -> Result<Option<GetObjectOutput>, StoreError> {
    let place = store.place(key);
    let request = async |client: aws_sdk_s3::Client| {
        let request = client
            .get_object()
            .bucket(store.bucket.as_str())
            .key(key.as_str())
            .set_range(range.map(str::to_owned))
            .set_if_match(etag.map(str::to_owned));
        let answer: Result<GetObjectOutput, SdkError<GetObjectError>> = request.send().await;
        match answer {
            Err(error) if status(&error) == Some(416) => Ok(None),
            answer => answer.map(Some),
        }
    };
    store.connection.reading(&place, &request).await
}
