//! Reads an object. The rest of a large one is prefetched with several range requests, and the
//! bytes are handed on in order.

use std::{
    collections::VecDeque,
    io::{self, Read},
    sync::Arc,
};

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use bytes::{Buf as _, Bytes};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    task::AbortHandle,
};

use super::{
    S3StoreInner,
    piece::{ObjectRange, ask},
    units,
};
use crate::{
    location::Key,
    parallel::runtime,
    store::{Span, StoreError, StoreFailureKind},
};

/// A reader of the rest of an object.
struct S3Reader {
    store: Arc<S3StoreInner>,
    key: Key,
    etag: Option<String>,
    /// The current source; `None` after the end.
    now: Option<Flow>,
    /// Prefetched pieces in order. Together they cover the bytes from the end of `now` to `next`.
    ahead: VecDeque<Ahead>,
    /// Offset of the first byte not yet requested.
    next: u64,
    end: u64,
    /// Bytes that have arrived but were not read yet.
    ready: Bytes,
}

/// A source of bytes.
enum Flow {
    /// A response that is read at the pace of the caller, so it needs no memory of the store.
    Direct(Box<ObjectRange>),
    Ahead(Ahead),
}

/// A piece that is prefetched into memory. Prefetching never waits for a permit: if each of two
/// readers waited while holding permits, neither would go on. Without a permit, a piece is
/// requested only when it is next.
struct Ahead {
    bytes: mpsc::UnboundedReceiver<Result<Bytes, StoreError>>,
    work: AbortHandle,
    _room: OwnedSemaphorePermit,
}

pub(super) fn open(
    store: &Arc<S3StoreInner>,
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
            return Err(
                StoreError::new(StoreFailureKind::Failed, store.place(key)).caused_by(cause)
            );
        }
    };
    let etag = answer.e_tag().map(str::to_owned);
    let came = came.min(end);
    let piece = ObjectRange::new(store, key, etag.as_deref(), start..came).begun(answer.body);
    Ok(Box::new(S3Reader {
        store: Arc::clone(store),
        key: key.clone(),
        etag,
        now: Some(Flow::Direct(Box::new(piece))),
        ahead: VecDeque::new(),
        next: came,
        end,
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
        self.look_ahead();
        while let Some(now) = &mut self.now {
            let place = self.store.place(&self.key);
            let bytes = self.store.connection.wait(&place, now.next())?;
            if !bytes.is_empty() {
                return Ok(bytes);
            }
            self.now = match self.ahead.pop_front() {
                Some(ahead) => Some(Flow::Ahead(ahead)),
                None if self.next < self.end => Some(Flow::Direct(Box::new(self.piece()))),
                None => None,
            };
            self.look_ahead();
        }
        Ok(Bytes::new())
    }

    /// Takes the first piece not yet requested.
    fn piece(&mut self) -> ObjectRange {
        let end = self
            .end
            .min(self.next.saturating_add(self.store.limits.part));
        let range = std::mem::replace(&mut self.next, end)..end;
        ObjectRange::new(&self.store, &self.key, self.etag.as_deref(), range)
    }

    /// Prefetches as many pieces as the limits and the memory allow.
    fn look_ahead(&mut self) {
        while self.next < self.end && self.ahead.len() < self.store.limits.ahead {
            let size = (self.end - self.next).min(self.store.limits.part);
            let room = Arc::clone(&self.store.memory);
            let Ok(room) = room.try_acquire_many_owned(units(size)) else {
                return;
            };
            let mut piece = self.piece();
            let (sender, bytes) = mpsc::unbounded_channel();
            let work = async move {
                loop {
                    let next = piece.next().await;
                    let last = next.as_ref().map_or(true, Bytes::is_empty);
                    if sender.send(next).is_err() || last {
                        return;
                    }
                }
            };
            self.ahead.push_back(Ahead {
                bytes,
                work: runtime().spawn(work).abort_handle(),
                _room: room,
            });
        }
    }
}

impl Flow {
    async fn next(&mut self) -> Result<Bytes, StoreError> {
        match self {
            Self::Direct(piece) => piece.next().await,
            Self::Ahead(ahead) => ahead.bytes.recv().await.unwrap_or_else(|| {
                let gone = StoreError::new(StoreFailureKind::Failed, "a part of an object");
                Err(gone.caused_by("it was given up before its end"))
            }),
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.work.abort();
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
