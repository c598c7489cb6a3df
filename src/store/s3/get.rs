//! Reads an object. The rest of a large one is prefetched with several range requests, and the
//! bytes are handed on in order.

use std::{
    collections::VecDeque,
    io::{self, Read},
    sync::Arc,
};

use aws_sdk_s3::{
    error::SdkError,
    operation::get_object::{GetObjectError, GetObjectOutput},
    primitives::ByteStream,
};
use bytes::{Buf as _, Bytes};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    task::JoinSet,
};

use super::{S3Store, failure::status, units};
use crate::{
    error::last_cause,
    location::Key,
    parallel::runtime,
    retry::Failures,
    store::{Span, Store as _, StoreError, StoreFailureKind},
};

/// More messages than a piece of any size has.
const UNBOUNDED: usize = 1 << 20;

/// A reader of the rest of an object.
struct S3Reader {
    /// The pieces that are read now, in order. The first one is the current one.
    pieces: VecDeque<Piece>,
    /// What was not requested yet.
    rest: ObjectRange,
    /// Bytes that have arrived but were not read yet.
    ready: Bytes,
}

/// A piece of an object on its way. Dropping it ends the transfer.
///
/// A piece ahead of the current one is kept in memory, for which it has a permit. Prefetching never
/// waits for a permit: if each of two readers waited while holding permits, neither would go on.
/// Without a permit, a piece is requested only when it is next, and arrives at the pace of the
/// caller, so that it needs no memory of the store.
struct Piece {
    bytes: mpsc::Receiver<Result<Bytes, StoreError>>,
    _work: JoinSet<()>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Piece {
    fn start(mut range: ObjectRange, room: Option<OwnedSemaphorePermit>) -> Self {
        let capacity = if room.is_some() { UNBOUNDED } else { 1 };
        let (sender, bytes) = mpsc::channel(capacity);
        let mut work = JoinSet::new();
        let transfer = async move {
            loop {
                let next = range.next().await;
                let last = next.as_ref().map_or(true, Bytes::is_empty);
                if sender.send(next).await.is_err() || last {
                    return;
                }
            }
        };
        work.spawn_on(transfer, runtime().handle());
        Self {
            bytes,
            _work: work,
            _room: room,
        }
    }
}

pub(super) fn open(
    store: &S3Store,
    key: &Key,
    span: Span,
) -> Result<Box<dyn Read + Send>, StoreError> {
    let part = store.limits.part;
    // `Span::Whole` sends no range, because servers send the checksum only with the whole object.
    let (start, end) = match span {
        Span::Whole => (0, None),
        Span::From(start) => (start, Some(u64::MAX)),
        Span::Between(span) if span.is_empty() => {
            store.head(key)?;
            return Ok(Box::new(io::empty()));
        }
        Span::Between(span) => (span.start, Some(span.end)),
    };
    let first = end.map(|end| end.min(start.saturating_add(part)).saturating_sub(1));
    let range = first.map(|last| format!("bytes={start}-{last}"));
    let asking = ask(store, key, range.as_deref(), None);
    let Some(answer) = store.connection.wait(store.place(key), asking)? else {
        return Ok(Box::new(io::empty()));
    };
    let came = start.saturating_add(super::size(answer.content_length()));
    let end = match (end, told(&answer)) {
        (Some(end), Some((first, total))) if first == start => end.min(total),
        // A server without range support sends everything.
        (Some(end), None) if start == 0 => end.min(came),
        (None, _) => came,
        _ => {
            let cause = "the server sends other bytes than were asked for";
            return Err(StoreError::failed(store.place(key), cause));
        }
    };
    let mut rest = ObjectRange {
        store: store.clone(),
        key: key.clone(),
        etag: answer.e_tag().map(str::to_owned),
        at: start,
        end,
        body: None,
        failures: Failures::default(),
    };
    let mut first = rest.take(came.saturating_sub(start));
    first.body = Some(answer.body);
    Ok(Box::new(S3Reader {
        pieces: VecDeque::from([Piece::start(first, None)]),
        rest,
        ready: Bytes::new(),
    }))
}

/// The first byte of a response and the length of the object, from `bytes 0-9/100`.
fn told(answer: &GetObjectOutput) -> Option<(u64, u64)> {
    let range = answer.content_range()?.strip_prefix("bytes ")?;
    let (span, total) = range.split_once('/')?;
    let (first, _) = span.split_once('-')?;
    Some((first.parse().ok()?, total.parse().ok()?))
}

impl S3Reader {
    /// The next bytes, or none at the end.
    fn next(&mut self) -> Result<Bytes, StoreError> {
        let place = self.rest.store.place(&self.rest.key);
        loop {
            self.look_ahead();
            if self.pieces.is_empty() && self.rest.at < self.rest.end {
                let next = self.rest.take(self.rest.store.limits.part);
                self.pieces.push_back(Piece::start(next, None));
            }
            let Some(piece) = self.pieces.front_mut() else {
                return Ok(Bytes::new());
            };
            let bytes = self.rest.store.connection.wait(&place, async {
                piece.bytes.recv().await.unwrap_or_else(|| {
                    let cause = "a part was given up before its end";
                    Err(StoreError::failed(&place, cause))
                })
            })?;
            if !bytes.is_empty() {
                return Ok(bytes);
            }
            self.pieces.pop_front();
        }
    }

    /// Prefetches as many pieces as the limits and the memory allow.
    fn look_ahead(&mut self) {
        let (part, ahead) = (self.rest.store.limits.part, self.rest.store.limits.ahead);
        while self.rest.at < self.rest.end && (1..=ahead).contains(&self.pieces.len()) {
            let size = (self.rest.end - self.rest.at).min(part);
            let room = Arc::clone(&self.rest.store.memory);
            let Ok(room) = room.try_acquire_many_owned(units(size)) else {
                return;
            };
            let next = self.rest.take(part);
            self.pieces.push_back(Piece::start(next, Some(room)));
        }
    }
}

impl Read for S3Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.ready.is_empty() {
            self.ready = self.next().map_err(io::Error::other)?;
        }
        let count = self.ready.len().min(buffer.len());
        let (head, _) = buffer.split_at_mut(count);
        self.ready.copy_to_slice(head);
        Ok(count)
    }
}

/// The range of an object that is still to be read.
struct ObjectRange {
    store: S3Store,
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
    /// Takes the first bytes, before any was requested.
    fn take(&mut self, len: u64) -> Self {
        let start = self.at;
        self.at = self.end.min(start.saturating_add(len));
        Self {
            store: self.store.clone(),
            key: self.key.clone(),
            etag: self.etag.clone(),
            at: start,
            end: self.at,
            body: None,
            failures: Failures::default(),
        }
    }

    /// The next bytes; empty at the end. After the last byte the body is polled once more, because
    /// the SDK reports a checksum mismatch only then.
    async fn next(&mut self) -> Result<Bytes, StoreError> {
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
async fn ask(
    store: &S3Store,
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
