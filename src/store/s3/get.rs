//! Reading an object, taken up again where an answer breaks off.

use std::{
    hash::{BuildHasher as _, RandomState},
    io::{self, Read},
    sync::Arc,
    time::Duration,
};

use aws_sdk_s3::{
    error::SdkError,
    operation::get_object::{GetObjectError, GetObjectOutput},
    primitives::ByteStream,
};

use super::{
    Inner,
    failure::{last_cause, status},
};
use crate::{
    location::Key,
    store::{Kind, Span, StoreError},
};

/// What is left of an object: reads on after a broken answer, as long as the object is the same.
struct Reader {
    store: Arc<Inner>,
    key: Key,
    etag: Option<String>,
    /// Where the next byte of `body` lies in the object.
    at: u64,
    end: u64,
    body: ByteStream,
    /// What was taken from `body` and not yet handed on.
    ready: io::Cursor<Vec<u8>>,
    /// Breaks since the last byte that came.
    breaks: u32,
}

pub(super) fn open(
    store: &Arc<Inner>,
    key: &Key,
    span: Span,
) -> Result<Box<dyn Read + Send>, StoreError> {
    let (start, range) = match span {
        Span::Whole => (0, None),
        Span::From(start) => (start, Some(format!("bytes={start}-"))),
        Span::Between(span) if span.is_empty() => {
            store.head(key)?;
            return Ok(Box::new(io::empty()));
        }
        Span::Between(span) => {
            let last = span.end.saturating_sub(1);
            (span.start, Some(format!("bytes={}-{last}", span.start)))
        }
    };
    let Some(answer) = ask(store, key, range.as_deref(), None)? else {
        return Ok(Box::new(io::empty()));
    };
    let length = super::size(answer.content_length());
    Ok(Box::new(Reader {
        store: Arc::clone(store),
        key: key.clone(),
        etag: answer.e_tag().map(str::to_owned),
        at: start,
        end: start.saturating_add(length),
        body: answer.body,
        ready: io::Cursor::default(),
        breaks: 0,
    }))
}

/// Nothing, where the object ends before the range begins.
fn ask(
    store: &Inner,
    key: &Key,
    range: Option<&str>,
    etag: Option<&str>,
) -> Result<Option<GetObjectOutput>, StoreError> {
    store.connection.read(&store.place(key), async |client| {
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
    })
}

impl Reader {
    /// The next bytes, or none at the end. The end is one only once the answer says so too: a
    /// checksum that does not fit is told after the last byte.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let (place, body) = (self.store.place(&self.key), &mut self.body);
            let next = async { Ok(body.try_next().await) };
            let broken = match self
                .store
                .connection
                .wait(&place, next)
                .map_err(io::Error::other)?
            {
                Ok(Some(bytes)) if bytes.is_empty() => continue,
                Ok(Some(bytes)) => {
                    self.at = self.at.saturating_add(bytes.len() as u64);
                    self.breaks = 0;
                    return Ok(bytes.into());
                }
                Ok(None) if self.at >= self.end => return Ok(Vec::new()),
                Ok(None) => "the answer ended too early".to_owned(),
                Err(error) => last_cause(&error),
            };
            self.take_up(&place, broken).map_err(io::Error::other)?;
        }
    }

    fn take_up(&mut self, place: &str, broken: String) -> Result<(), StoreError> {
        if self.at >= self.end {
            return Err(StoreError::new(Kind::Differs, place).caused_by(broken));
        }
        self.breaks += 1;
        if self.breaks >= self.store.limits.attempts {
            return Err(StoreError::new(Kind::Unavailable, place).caused_by(broken));
        }
        let pause = pause(self.store.limits.pause, self.breaks);
        let sleep = async {
            tokio::time::sleep(pause).await;
            Ok(())
        };
        self.store.connection.wait(place, sleep)?;
        let range = format!("bytes={}-{}", self.at, self.end.saturating_sub(1));
        let answer = match ask(&self.store, &self.key, Some(&range), self.etag.as_deref()) {
            Err(error) if error.kind() == Kind::Exists => None,
            answer => answer?,
        };
        let Some(answer) = answer.filter(|answer| self.continues(answer)) else {
            let cause = "the object was replaced while it was read";
            return Err(StoreError::new(Kind::Differs, place).caused_by(cause));
        };
        self.body = answer.body;
        Ok(())
    }

    /// Whether an answer has the bytes that are missing, and no others. A server may ignore a range.
    fn continues(&self, answer: &GetObjectOutput) -> bool {
        let range = answer.content_range().unwrap_or_default();
        let start = format!("bytes {}-", self.at);
        range.starts_with(&start) && answer.e_tag() == self.etag.as_deref()
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let count = self.ready.read(buffer)?;
        if count > 0 {
            return Ok(count);
        }
        self.ready = io::Cursor::new(self.next()?);
        self.ready.read(buffer)
    }
}

/// Twice as long each time, and between half of that and all of it, so that many do not come back
/// at once.
fn pause(first: Duration, breaks: u32) -> Duration {
    let doubled = first.saturating_mul(1 << breaks.min(5));
    let random = RandomState::new().hash_one(breaks) % 1024;
    doubled / 2 + doubled / 2048 * u32::try_from(random).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_have_a_bound() {
        let first = Duration::from_millis(100);
        for breaks in 1..40 {
            let longest = first * (1 << breaks.min(5));
            let pause = pause(first, breaks);
            assert!(
                (longest / 2..=longest).contains(&pause),
                "{breaks}: {pause:?}"
            );
        }
    }
}
