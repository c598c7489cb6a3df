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

use bytes::Bytes;
use reqwest::{
    Client, RequestBuilder, Response,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE},
    redirect::Policy,
};

use super::s3::Endpoint;
use crate::{
    error::{Context as _, Result, Stop, last_cause},
    location::{Key, encode_path, percent_decode},
    parallel,
    retry::{Backoff, ChunkReader, Download, Failures, HasAnswered, RangeSource},
    store::{
        Body, Depth, Object, PutOptions, Span, Store, StoreError, StoreFailureKind, content_range,
    },
};

const CONNECT: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_mins(1);
/// As browsers do.
const MOST_REDIRECTS: usize = 10;
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
    /// What the client asks for, if the server has several forms of an object.
    accept: Option<&'static str>,
    has_answered: HasAnswered,
    stop: Stop,
}

impl HttpStore {
    /// Creates the client. Sends no request.
    pub fn connect(origin: Endpoint, stop: Stop) -> Result<Self, StoreError> {
        let client = Client::builder()
            .user_agent(concat!("rocwheel/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .redirect(redirects())
            .build()
            .map_err(|error| StoreError::failed(&origin, error))?;
        Ok(Self {
            origin,
            client,
            accept: None,
            has_answered: HasAnswered::default(),
            stop,
        })
    }

    /// The server of an address, and the key of its path.
    pub fn of_url(url: &str, stop: &Stop) -> Result<(Self, Key)> {
        let parts = || {
            let (scheme, rest) = url.split_once("://")?;
            let (host, path) = rest.split_once('/')?;
            Some((format!("{scheme}://{host}"), percent_decode(path)?))
        };
        let parts = parts().with_context(|| format!("not the address of a file: `{url}`"));
        let (server, path) = parts?;
        let store = Self::connect(server.parse()?, stop.clone())?;
        Ok((store, path.parse()?))
    }

    /// Asks for one of these media types, as in the header `Accept`.
    #[must_use]
    pub fn accepting(self, types: &'static str) -> Self {
        Self {
            accept: Some(types),
            ..self
        }
    }

    fn url(&self, key: &Key) -> String {
        format!("{}/{}", self.origin, encode_path(key.as_str()))
    }

    fn read_only(&self, key: &Key) -> StoreError {
        StoreError::new(StoreFailureKind::Denied, self.url(key))
            .caused_by("a web server is only read")
    }

    /// Sends a request, and retries it if the failure may be temporary.
    async fn ask(
        &self,
        key: &Key,
        request: impl Fn(&Client, &str) -> RequestBuilder,
    ) -> Result<Response, StoreError> {
        let url = self.url(key);
        let mut failures = Failures::default();
        loop {
            let mut backoff = BACKOFF;
            let mut request = request(&self.client, &url);
            if let Some(types) = self.accept {
                request = request.header(ACCEPT, types);
            }
            let answer = request.send().await;
            self.has_answered.note(answer.is_ok());
            let (kind, cause) = match answer {
                Ok(answer) if answer.status().is_success() => return Ok(answer),
                Ok(answer) => {
                    let kind = match answer.status().as_u16() {
                        404 | 410 => return Err(StoreError::new(StoreFailureKind::NotFound, url)),
                        401 | 403 => StoreFailureKind::Denied,
                        408 | 429 | 500.. => StoreFailureKind::Unavailable,
                        _ => StoreFailureKind::Failed,
                    };
                    (kind, format!("the server answers {}", answer.status()))
                }
                Err(error) if error.is_redirect() => (StoreFailureKind::Failed, last_cause(&error)),
                Err(error) => {
                    backoff = self.has_answered.patience(backoff, &error);
                    (StoreFailureKind::Unavailable, last_cause(&error))
                }
            };
            let error = StoreError::new(kind, &url).caused_by(cause);
            if kind != StoreFailureKind::Unavailable {
                return Err(error);
            }
            failures.sleep(&backoff, error).await?;
        }
    }

    /// Runs a future until it ends or the user interrupts.
    fn wait<T>(
        &self,
        key: &Key,
        future: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        parallel::wait(&self.stop, future)
            .unwrap_or_else(|stopped| Err(StoreError::failed(self.url(key), stopped)))
    }
}

/// Follows redirects within http and https, and from http to https. One from https to http would let
/// others on the way change what arrives.
fn redirects() -> Policy {
    Policy::custom(|attempt| {
        let before = attempt.previous().last();
        let from = before.map_or("", |it| it.scheme()).to_owned();
        let to = attempt.url().scheme().to_owned();
        if !is_as_safe(&from, &to) {
            return attempt.error(format!("it is redirected from {from} to {to}"));
        }
        if attempt.previous().len() > MOST_REDIRECTS {
            return attempt.error("too many redirects");
        }
        attempt.follow()
    })
}

fn is_as_safe(from: &str, to: &str) -> bool {
    from == to || (from, to) == ("http", "https")
}

fn header<'a>(answer: &'a Response, name: &reqwest::header::HeaderName) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

impl Store for HttpStore {
    fn list(&self, directory: Option<&Key>, _: Depth) -> Result<Vec<Object>, StoreError> {
        let place = directory.map_or_else(|| self.to_string(), |key| self.url(key));
        let cause = "a web server has no list of what it has";
        Err(StoreError::new(StoreFailureKind::Unusable, place).caused_by(cause))
    }

    fn head(&self, key: &Key) -> Result<Object, StoreError> {
        let length = |answer: &Response| header(answer, &CONTENT_LENGTH)?.parse::<u64>().ok();
        let asked = match self.wait(key, self.ask(key, |client, url| client.head(url))) {
            Ok(answer) => length(&answer).map(|size| (size, answer)),
            Err(error) if error.kind() == StoreFailureKind::NotFound => return Err(error),
            Err(_) => None,
        };
        let (size, answer) = if let Some(asked) = asked {
            asked
        } else {
            // Pre-signed URLs may be valid for GET but not for HEAD.
            let first = |client: &Client, url: &str| client.get(url).header(RANGE, "bytes=0-0");
            let answer = self.wait(key, self.ask(key, first))?;
            let size = match header(&answer, &CONTENT_RANGE).and_then(content_range) {
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
        let mut range = span.range();
        if range.is_empty() {
            return Ok(Box::new(io::empty()));
        }
        let (start, len) = (range.start, range.end - range.start);
        let mut source = HttpObject {
            store: self.clone(),
            key: key.clone(),
            etag: None,
        };
        let body = match self.wait(key, source.open(&mut range)) {
            // A range that starts at or after the end of the object is empty. Servers answer it
            // with an error (416), so that only the size tells it from a real failure.
            Err(error)
                if start > 0
                    && error.kind() == StoreFailureKind::Failed
                    && self.head(key)?.size <= start =>
            {
                return Ok(Box::new(io::empty()));
            }
            body => body?,
        };
        let mut download = Download {
            source,
            range,
            body: Some(body),
            backoff: BACKOFF,
            failures: Failures::default(),
        };
        let (store, key) = (self.clone(), key.clone());
        let reader = ChunkReader {
            next: move || store.wait(&key, download.next()),
            ready: Bytes::new(),
        };
        Ok(Box::new(reader.take(len)))
    }

    fn put(&self, key: &Key, _: &dyn Body, _: &PutOptions) -> Result<(), StoreError> {
        Err(self.read_only(key))
    }

    fn delete(&self, key: &Key) -> Result<(), StoreError> {
        Err(self.read_only(key))
    }
}

/// The version of an object that is read.
struct HttpObject {
    store: HttpStore,
    key: Key,
    etag: Option<String>,
}

impl RangeSource for HttpObject {
    /// With the number of bytes before the range that the response begins with.
    type Body = (Response, u64);
    type Error = StoreError;

    async fn open(&mut self, span: &mut Range<u64>) -> Result<Self::Body, StoreError> {
        let range = match (span.start, span.end) {
            (0, u64::MAX) => None,
            (start, u64::MAX) => Some(format!("bytes={start}-")),
            (start, end) => Some(format!("bytes={start}-{}", end.saturating_sub(1))),
        };
        let request = |client: &Client, url: &str| {
            let headers = [(RANGE, &range), (IF_RANGE, &self.etag)];
            let headers = headers
                .into_iter()
                .filter_map(|(name, it)| Some((name, it.as_ref()?)));
            headers.fold(client.get(url), |request, (name, it)| {
                request.header(name, it)
            })
        };
        let answer = self.store.ask(&self.key, request).await?;
        let start = header(&answer, &CONTENT_RANGE).and_then(content_range);
        let start = start.map_or(0, |(start, _)| start);
        let etag = header(&answer, &ETAG).map(str::to_owned);
        let skip = span.start.checked_sub(start);
        let skip = skip.filter(|_| self.etag.is_none() || self.etag == etag);
        let skip = skip.ok_or_else(|| {
            let cause = "the object was replaced while it was read";
            let url = self.store.url(&self.key);
            StoreError::new(StoreFailureKind::Differs, url).caused_by(cause)
        })?;
        self.etag = etag;
        if let Some(length) = answer.content_length() {
            let end = span.end.min(start.saturating_add(length));
            span.end = end.max(span.start);
        }
        Ok((answer, skip))
    }

    async fn chunk((answer, skip): &mut Self::Body) -> Result<Option<Bytes>, String> {
        let bytes = answer.chunk().await.map_err(|error| last_cause(&error))?;
        Ok(bytes.map(|mut bytes| {
            let skipped = usize::try_from(*skip).map_or(bytes.len(), |it| it.min(bytes.len()));
            *skip -= skipped as u64;
            bytes.split_off(skipped)
        }))
    }

    fn broken(&self, _: bool, cause: String) -> StoreError {
        StoreError::new(StoreFailureKind::Unavailable, self.store.url(&self.key)).caused_by(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_does_not_leave_tls() {
        assert!(is_as_safe("https", "https") && is_as_safe("http", "https"));
        for (from, to) in [("https", "http"), ("http", "ftp"), ("", "http")] {
            assert!(!is_as_safe(from, to), "{from} {to}");
        }
    }
}
