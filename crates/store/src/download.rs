//! A download from a server that can be read at any offset. When a response breaks off, the rest is requested
//! again.

use std::{
    error::Error,
    io::{self, Read},
    ops::Range,
};

use bytes::{Buf as _, Bytes};

use rocwheel_base::retry::{Backoff, Failed, Failures};

/// An object on a server that can be read from any offset.
pub(crate) trait RangeSource {
    /// The body of a response.
    type Body;
    type Error;

    /// Requests a range of the same version of the object as before, again and again if the failure
    /// may be temporary. Lowers the end of the range if the object ends before it.
    async fn open(&mut self, range: &mut Range<u64>) -> Result<Self::Body, Self::Error>;

    /// The next bytes of a response, or `None` at its end.
    async fn chunk(body: &mut Self::Body) -> Result<Option<Bytes>, String>;

    /// The error for a response that broke off. If `is_complete`, all bytes had arrived before.
    fn broken(&self, is_complete: bool, cause: String) -> Self::Error;
}

/// Receives a range of an object. If a response breaks off, the rest is requested again.
pub(crate) struct Download<S: RangeSource> {
    pub source: S,
    /// The bytes that have not arrived yet. The end is [`u64::MAX`] if no response has told it: then
    /// it is where the response ends.
    pub range: Range<u64>,
    /// `None` before the first request, and after a response broke off.
    pub body: Option<S::Body>,
    pub backoff: Backoff,
    /// Failures since the last byte arrived.
    pub failures: Failures,
}

impl<S: RangeSource> Download<S> {
    /// The next bytes; empty at the end. After the last byte the body is polled once more, because
    /// the AWS SDK reports a checksum mismatch only then.
    pub(crate) async fn next(&mut self) -> Result<Bytes, S::Error> {
        loop {
            let Some(body) = &mut self.body else {
                if self.range.is_empty() {
                    return Ok(Bytes::new());
                }
                self.body = Some(self.source.open(&mut self.range).await?);
                continue;
            };
            let cause = match S::chunk(body).await {
                Ok(Some(bytes)) if bytes.is_empty() => continue,
                Ok(Some(bytes)) => {
                    self.range.start = self.range.start.saturating_add(bytes.len() as u64);
                    self.failures.forget();
                    return Ok(bytes);
                }
                Ok(None) if self.range.is_empty() || self.range.end == u64::MAX => {
                    self.range.end = self.range.start;
                    self.body = None;
                    continue;
                }
                Ok(None) => "the answer ended too early".to_owned(),
                Err(cause) => cause,
            };
            self.body = None;
            let error = self.source.broken(self.range.is_empty(), cause);
            if self.range.is_empty() {
                return Err(error);
            }
            self.failures.sleep(&self.backoff, Failed::passing(error)).await?;
        }
    }
}

/// Reads the bytes that `next` returns; none are the end.
pub(crate) struct ChunkReader<F> {
    pub next: F,
    /// Bytes that have arrived but were not read yet.
    pub ready: Bytes,
}

impl<E, F> Read for ChunkReader<F>
where
    E: Into<Box<dyn Error + Send + Sync>>,
    F: FnMut() -> Result<Bytes, E>,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ready.is_empty() && !buffer.is_empty() {
            self.ready = (self.next)().map_err(io::Error::other)?;
        }
        let count = self.ready.len().min(buffer.len());
        self.ready.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
