//! A read-only [`Store`] over HTTP, for the places that pip also reads.
//!
//! A response that breaks off is resumed with a range request, as long as the object has not
//! changed. A server without range support sends the whole object again, and the reader skips what
//! it already has.

use std::{
    future::Future,
    io::{self, Read},
    ops::Range,
    time::Duration,
};

use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE},
};

use super::s3::Endpoint;
use crate::{
    error::{Stop, last_cause},
    location::Key,
    parallel,
    retry::{self, Backoff, Failures},
    store::{Body, Depth, Object, PutOptions, Span, Store, StoreError, StoreFailureKind},
};

const CONNECT: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_mins(1);
const BACKOFF: Backoff = Backoff {
    attempts: 5,
    pause: Duration::from_millis(400),
};

/// The objects of one web server. A key is the percent-decoded path of a URL.
#[derive(Clone, derive_more::Debug, derive_more::Display)]
#[debug("HttpStore({origin:?})")]
#[display("{origin}")]
pub struct HttpStore {
    origin: Endpoint,
    client: Client,
    stop: Stop,
}

impl HttpStore {
    /// Creates the client. Sends no request.
    pub fn connect(origin: Endpoint, stop: Stop) -> Result<Self, StoreError> {
        let client = Client::builder()
            .user_agent(concat!("rocwheel/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .build()
            .map_err(|error| StoreError::failed(&origin, error))?;
        Ok(Self {
            origin,
            client,
            stop,
        })
    }

    fn url(&self, key: &Key) -> String {
        format!("{}/{}", self.origin, key.encoded())
    }

    fn read_only(&self, key: &Key) -> StoreError {
        StoreError::new(StoreFailureKind::Denied, self.url(key))
            .caused_by("a web server is only read")
    }

    /// Sends a request, and retries it if the failure may be temporary.
    fn ask(
        &self,
        key: &Key,
        request: impl Fn(&Client, &str) -> RequestBuilder,
    ) -> Result<Response, StoreError> {
        let url = self.url(key);
        let mut failures = Failures::default();
        loop {
            // `send` is called inside the runtime, because its timers need one.
            let answer = self.wait(&url, async { request(&self.client, &url).send().await })?;
            let error = match answer {
                Ok(answer) if answer.status().is_success() => return Ok(answer),
                Ok(answer) => refusal(&url, answer.status()),
                Err(error) => unavailable(&url, &error),
            };
            self.pause(&url, error, &mut failures)?;
        }
    }

    /// Waits before the next attempt, or returns the error if a retry cannot help.
    fn pause(
        &self,
        url: &str,
        error: StoreError,
        failures: &mut Failures,
    ) -> Result<(), StoreError> {
        match failures.pause(&BACKOFF) {
            Some(pause) if error.kind() == StoreFailureKind::Unavailable => {
                retry::sleep(pause, &self.stop).map_err(|stopped| StoreError::failed(url, stopped))
            }
            _ => Err(error),
        }
    }

    /// Runs a future until it ends or the user interrupts.
    fn wait<T>(&self, url: &str, something: impl Future<Output = T>) -> Result<T, StoreError> {
        parallel::wait(&self.stop, something).map_err(|stopped| StoreError::failed(url, stopped))
    }
}

fn refusal(url: &str, status: StatusCode) -> StoreError {
    let kind = match status.as_u16() {
        404 | 410 => StoreFailureKind::NotFound,
        401 | 403 => StoreFailureKind::Denied,
        408 | 429 | 500.. => StoreFailureKind::Unavailable,
        _ => StoreFailureKind::Failed,
    };
    let error = StoreError::new(kind, url);
    match kind {
        StoreFailureKind::NotFound => error,
        _ => error.caused_by(format!("the server answers {status}")),
    }
}

fn unavailable(url: &str, error: &reqwest::Error) -> StoreError {
    StoreError::new(StoreFailureKind::Unavailable, url).caused_by(last_cause(error))
}

fn header<'a>(answer: &'a Response, name: &reqwest::header::HeaderName) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

/// The first byte and, unless it is `*`, the total length, from `bytes 5-9/20`.
fn content_range(answer: &Response) -> Option<(u64, Option<u64>)> {
    let (range, all) = header(answer, &CONTENT_RANGE)?
        .strip_prefix("bytes ")?
        .split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.parse().ok()?, all.parse().ok()))
}

impl Store for HttpStore {
    fn list(&self, directory: Option<&Key>, _: Depth) -> Result<Vec<Object>, StoreError> {
        let place = directory.map_or_else(|| self.to_string(), |key| self.url(key));
        let cause = "a web server has no list of what it has";
        Err(StoreError::new(StoreFailureKind::Unusable, place).caused_by(cause))
    }

    fn head(&self, key: &Key) -> Result<Object, StoreError> {
        let length = |answer: &Response| header(answer, &CONTENT_LENGTH)?.parse::<u64>().ok();
        let asked = match self.ask(key, |client, url| client.head(url)) {
            Ok(answer) => length(&answer).map(|size| (size, answer)),
            Err(error) if error.kind() == StoreFailureKind::NotFound => return Err(error),
            Err(_) => None,
        };
        let (size, answer) = if let Some(asked) = asked {
            asked
        } else {
            // Pre-signed URLs may be valid for GET but not for HEAD.
            let first = |client: &Client, url: &str| client.get(url).header(RANGE, "bytes=0-0");
            let answer = self.ask(key, first)?;
            let size = match content_range(&answer) {
                Some((_, size)) => size,
                None => length(&answer),
            };
            let cause = "the server does not say how many bytes it has";
            let unknown = || StoreError::failed(self.url(key), cause);
            (size.ok_or_else(unknown)?, answer)
        };
        Ok(Object {
            key: key.clone(),
            size,
            sha256: None,
            checksum: None,
            content_type: header(&answer, &CONTENT_TYPE).map(str::to_owned),
            etag: header(&answer, &ETAG).map(|etag| etag.trim_matches('"').to_owned()),
            modified: None,
        })
    }

    fn get(&self, key: &Key, span: Span) -> Result<Box<dyn Read + Send>, StoreError> {
        let Range { start, end } = span.range();
        let mut reader = HttpReader {
            store: self.clone(),
            key: key.clone(),
            etag: None,
            at: start,
            end,
            answer: None,
            ready: io::Cursor::default(),
            failures: Failures::default(),
        };
        if start < end {
            reader.open()?;
        }
        Ok(Box::new(reader))
    }

    fn put(&self, key: &Key, _: &dyn Body, _: &PutOptions) -> Result<(), StoreError> {
        Err(self.read_only(key))
    }

    fn delete(&self, key: &Key) -> Result<(), StoreError> {
        Err(self.read_only(key))
    }
}

/// A reader of the rest of an object.
struct HttpReader {
    store: HttpStore,
    key: Key,
    etag: Option<String>,
    /// Offset of the next byte that `read` returns.
    at: u64,
    end: u64,
    answer: Option<Response>,
    ready: io::Cursor<Vec<u8>>,
    /// Failures since the last byte arrived.
    failures: Failures,
}

impl HttpReader {
    /// Requests the rest of the object. If the server ignores the range, skips the bytes before
    /// `at`.
    fn open(&mut self) -> Result<(), StoreError> {
        let range = match (self.at, self.end) {
            (0, u64::MAX) => None,
            (at, u64::MAX) => Some(format!("bytes={at}-")),
            (at, end) => Some(format!("bytes={at}-{}", end.saturating_sub(1))),
        };
        let answer = self.store.ask(&self.key, |client, url| {
            let headers = [(RANGE, &range), (IF_RANGE, &self.etag)];
            let headers = headers
                .into_iter()
                .filter_map(|(name, it)| Some((name, it.as_ref()?)));
            headers.fold(client.get(url), |request, (name, it)| {
                request.header(name, it)
            })
        });
        let answer = match answer {
            Err(error) if self.at > 0 && error.kind() == StoreFailureKind::Failed => {
                return self.beyond(error);
            }
            answer => answer?,
        };
        let start = content_range(&answer).map_or(0, |(start, _)| start);
        let etag = header(&answer, &ETAG).map(str::to_owned);
        let same = self.etag.is_none() || self.etag == etag;
        if start > self.at || !same {
            let cause = "the object was replaced while it was read";
            let url = self.store.url(&self.key);
            return Err(StoreError::new(StoreFailureKind::Differs, url).caused_by(cause));
        }
        self.etag = etag;
        self.answer = Some(answer);
        let mut skip = self.at.saturating_sub(start);
        while skip > 0 {
            let Some(bytes) = self.chunk()? else { break };
            let len = bytes.len() as u64;
            let rest = usize::try_from(skip.min(len)).unwrap_or(0);
            skip = skip.saturating_sub(len);
            self.ready = io::Cursor::new(bytes.get(rest..).unwrap_or_default().to_vec());
        }
        Ok(())
    }

    /// Treats a range that starts at or after the end of the object as empty. Servers answer it
    /// with an error (416), so that only the size tells it from a real failure.
    fn beyond(&mut self, error: StoreError) -> Result<(), StoreError> {
        let size = self.store.head(&self.key)?.size;
        if size > self.at {
            return Err(error);
        }
        self.end = self.at;
        Ok(())
    }

    fn chunk(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let url = self.store.url(&self.key);
        let Some(answer) = &mut self.answer else {
            return Ok(None);
        };
        match self.store.wait(&url, answer.chunk())? {
            Ok(bytes) => Ok(bytes.map(Into::into)),
            Err(error) => Err(unavailable(&url, &error)),
        }
    }

    fn next(&mut self) -> Result<Vec<u8>, StoreError> {
        loop {
            let error = match self.chunk() {
                Ok(bytes) => return Ok(bytes.unwrap_or_default()),
                Err(error) => error,
            };
            let url = self.store.url(&self.key);
            self.store.pause(&url, error, &mut self.failures)?;
            self.open()?;
        }
    }
}

impl Read for HttpReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        if buffer.is_empty() || left == 0 {
            return Ok(0);
        }
        let most = buffer.len().min(left);
        let buffer = buffer.get_mut(..most).unwrap_or_default();
        let mut count = self.ready.read(buffer)?;
        while count == 0 {
            let bytes = self.next().map_err(io::Error::other)?;
            // A chunk is empty only at the end of the response.
            if bytes.is_empty() {
                self.answer = None;
                return Ok(0);
            }
            self.ready = io::Cursor::new(bytes);
            count = self.ready.read(buffer)?;
        }
        self.at = self.at.saturating_add(count as u64);
        self.failures.forget();
        Ok(count)
    }
}
