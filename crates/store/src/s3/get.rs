//! Reads an object. The rest of a large one is prefetched with several range requests, and the
//! bytes are handed on in order.

use std::{
    collections::VecDeque,
    io::{self, Read},
    ops::Range,
    sync::Arc,
};

use aws_sdk_s3::{
    error::SdkError,
    operation::get_object::{GetObjectError, GetObjectOutput},
    primitives::ByteStream,
};
use bytes::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    task::JoinSet,
};

use super::{S3Store, failure::read_status, permits_for};
use crate::{
    Span, Store as _, StoreError, StoreFailureKind, content_range,
    download::{ChunkReader, Download, RangeSource},
    location::Key,
};
use rocwheel_base::{error::last_cause, parallel::runtime, retry::Failures};

/// More messages than a piece of any size has.
const UNBOUNDED: usize = 1 << 20;

/// A reader of the rest of an object.
struct S3Reader {
    /// The pieces that were requested and not read to their end, in order. The caller reads the first piece.
    pieces: VecDeque<Piece>,
    object: S3Object,
    /// The bytes that were not requested yet.
    rest: Range<u64>,
}

/// A piece of an object on its way. Dropping it ends the transfer.
///
/// A piece that is prefetched is kept in memory, for which it has a permit. Prefetching never waits for a
/// permit: if each of two readers waited while holding permits, neither would go on. Without a permit, a
/// piece is requested only when the caller needs it, and arrives at the pace of the caller, so that it needs
/// no memory of the store.
struct Piece {
    chunks: mpsc::Receiver<Result<Bytes, StoreError>>,
    /// Aborts the transfer when it is dropped.
    _transfer: JoinSet<()>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Piece {
    fn start(mut download: Download<S3Object>, permit: Option<OwnedSemaphorePermit>) -> Self {
        let capacity = if permit.is_some() { UNBOUNDED } else { 1 };
        let (sender, chunks) = mpsc::channel(capacity);
        // The last message is an empty chunk or an error.
        let transfer = async move {
            loop {
                let chunk = download.next().await;
                let is_last = chunk.as_ref().map_or(true, Bytes::is_empty);
                if sender.send(chunk).await.is_err() || is_last {
                    return;
                }
            }
        };
        let mut tasks = JoinSet::new();
        tasks.spawn_on(transfer, runtime().handle());
        Self { chunks, _transfer: tasks, _permit: permit }
    }
}

/// Requests the first piece of an object. Its answer says how long the object is, and is the first of the
/// pieces of the reader.
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
    let range = end.map(|end| {
        let last = end.min(start.saturating_add(part)).saturating_sub(1);
        format!("bytes={start}-{last}")
    });
    let request = ask(store, key, range.as_deref(), None);
    let Some(answer) = store.connection.wait(store.place(key), request)? else {
        return Ok(Box::new(io::empty()));
    };
    let answer_end = start.saturating_add(super::size(answer.content_length()));
    let end = match (end, answer.content_range().and_then(content_range)) {
        (Some(end), Some((first, Some(total)))) if first == start => end.min(total),
        // A server without range support sends everything.
        (Some(end), None) if start == 0 => end.min(answer_end),
        (None, _) => answer_end,
        _ => {
            let cause = "the server sends other bytes than were asked for";
            return Err(StoreError::failed(store.place(key), cause));
        }
    };
    let mut reader = S3Reader {
        pieces: VecDeque::new(),
        object: S3Object {
            store: store.clone(),
            key: key.clone(),
            etag: answer.e_tag().map(str::to_owned),
        },
        rest: start..end,
    };
    reader.start_piece(answer_end.saturating_sub(start), Some(answer.body), None);
    Ok(Box::new(ChunkReader { next: move || reader.next(), ready: Bytes::new() }))
}

impl S3Reader {
    /// The next bytes, or none at the end.
    fn next(&mut self) -> Result<Bytes, StoreError> {
        let place = self.object.place();
        loop {
            self.prefetch();
            // No permit was free while the last piece was read, so the next piece is not on its way.
            if self.pieces.is_empty() && !self.rest.is_empty() {
                self.start_piece(self.object.store.limits.part, None, None);
            }
            let Some(piece) = self.pieces.front_mut() else {
                return Ok(Bytes::new());
            };
            let chunk = self.object.store.connection.wait(&place, async {
                piece.chunks.recv().await.unwrap_or_else(|| {
                    let cause = "a part was given up before its end";
                    Err(StoreError::failed(&place, cause))
                })
            })?;
            if !chunk.is_empty() {
                return Ok(chunk);
            }
            self.pieces.pop_front();
        }
    }

    /// Prefetches as many pieces as the limits and the memory allow, if there is a piece to read meanwhile.
    fn prefetch(&mut self) {
        let part = self.object.store.limits.part;
        let ahead = self.object.store.limits.ahead;
        while !self.rest.is_empty() && (1..=ahead).contains(&self.pieces.len()) {
            let size = (self.rest.end - self.rest.start).min(part);
            let memory = Arc::clone(&self.object.store.memory);
            let Ok(permit) = memory.try_acquire_many_owned(permits_for(size)) else {
                return;
            };
            self.start_piece(part, None, Some(permit));
        }
    }

    /// Starts to receive the next `len` bytes, from `body` if their request was answered already.
    fn start_piece(
        &mut self,
        len: u64,
        body: Option<ByteStream>,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let start = self.rest.start;
        self.rest.start = self.rest.end.min(start.saturating_add(len));
        let download = Download {
            source: self.object.clone(),
            range: start..self.rest.start,
            body,
            backoff: self.object.store.limits.backoff,
            failures: Failures::default(),
        };
        self.pieces.push_back(Piece::start(download, permit));
    }
}

/// The version of an object that is read.
#[derive(Clone)]
struct S3Object {
    store: S3Store,
    key: Key,
    /// The `ETag` of the first answer. `None` if the server sends none.
    etag: Option<String>,
}

impl S3Object {
    fn place(&self) -> String {
        self.store.place(&self.key)
    }
}

impl RangeSource for S3Object {
    type Body = ByteStream;
    type Error = StoreError;

    async fn open(&mut self, span: &mut Range<u64>) -> Result<ByteStream, StoreError> {
        let range = format!("bytes={}-{}", span.start, span.end.saturating_sub(1));
        let etag = self.etag.as_deref();
        let answer = match ask(&self.store, &self.key, Some(&range), etag).await {
            // The condition of the request, `If-Match`, does not hold: the object has another `ETag` now.
            Err(error) if error.kind() == StoreFailureKind::Exists => None,
            answer => answer?,
        };
        // A server may ignore the range or the condition.
        let start = format!("bytes {}-", span.start);
        let continues = |answer: &GetObjectOutput| {
            let range = answer.content_range().unwrap_or_default();
            range.starts_with(&start) && answer.e_tag() == etag
        };
        answer.filter(continues).map(|answer| answer.body).ok_or_else(|| {
            StoreError::new(StoreFailureKind::Differs, self.place())
                .caused_by("the object was replaced while it was read")
        })
    }

    async fn chunk(body: &mut ByteStream) -> Result<Option<Bytes>, String> {
        body.try_next().await.map_err(|error| last_cause(&error))
    }

    /// A body that breaks off after all its bytes has a wrong checksum.
    fn broken(&self, is_complete: bool, cause: String) -> StoreError {
        let kind =
            if is_complete { StoreFailureKind::Differs } else { StoreFailureKind::Unavailable };
        StoreError::new(kind, self.place()).caused_by(cause)
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
        let answer: Result<GetObjectOutput, SdkError<GetObjectError>> = client
            .get_object()
            .bucket(store.bucket.as_str())
            .key(key.as_str())
            .set_range(range.map(str::to_owned))
            .set_if_match(etag.map(str::to_owned))
            .send()
            .await;
        match answer {
            Err(error) if read_status(&error) == Some(416) => Ok(None),
            answer => answer.map(Some),
        }
    };
    store.connection.read_async(&place, &request).await
}
