//! A read-only [`Store`] over HTTP, for the places that pip also reads.
//!
//! A response that breaks off is resumed with a range request, as long as the object has not
//! changed. A server without range support sends the whole object again, and the reader skips what
//! it already has.

use std::{
    future::Future,
    io::{self, Read},
    ops::Range,
    pin::Pin,
    time::Duration,
};

use bytes::Bytes;
use reqwest::{
    Client, Method, Response,
    header::{
        CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, IF_RANGE,
        RANGE, RETRY_AFTER,
    },
    redirect::Policy,
};

use super::Endpoint;
use crate::{
    Body, Condition, Depth, Object, PutOptions, Span, Store, StoreError, StoreFailureKind,
    client::{is_untrusted, web_client},
    content_range,
    download::{ChunkReader, Download, RangeSource},
    location::{Key, encode_path, percent_decode},
};
use rocwheel_base::{
    error::{Context as _, Result, Secret, Stop, last_cause},
    parallel,
    retry::{ATTEMPTS, Backoff, Failed, Failures, retry},
};

const SILENCE: Duration = Duration::from_mins(1);
/// As browsers do.
const MOST_REDIRECTS: usize = 10;
const BACKOFF: Backoff = Backoff { attempts: ATTEMPTS, pause: Duration::from_millis(400) };

/// A client of web servers.
#[derive(Clone, Debug)]
pub struct HttpClient {
    client: Client,
    backoff: Backoff,
    stop: Stop,
}

/// The objects of one web server. A key is the percent-decoded path of a URL.
#[derive(Clone, derive_more::Debug, derive_more::Display)]
#[debug("HttpStore({origin:?})")]
#[display("{origin}")]
pub struct HttpStore {
    origin: Endpoint,
    client: HttpClient,
}

/// Asks for the URL of an object, if the object has no fixed URL. The URL expires and is a secret, so each
/// request asks for it again. `None` if the name of the object is its URL.
type Locator<'a> = Option<Box<dyn Fn() -> Locating<'a> + Send + 'a>>;

/// The future of a URL.
pub type Locating<'a> = Pin<Box<dyn Future<Output = Result<Secret, StoreError>> + Send + 'a>>;

impl HttpClient {
    /// Sends no request. A response in which nothing arrives for as long as `silence` is repeated.
    pub fn new(backoff: Backoff, silence: Duration, stop: Stop) -> Result<Self, reqwest::Error> {
        let client = web_client(silence).redirect(redirects()).build()?;
        Ok(Self { client, backoff, stop })
    }

    /// Opens a range of an object of known size whose URL expires. The range must not be empty, and
    /// `name` stands for the URL in errors.
    pub fn open_expiring<'a>(
        &self,
        name: &str,
        size: u64,
        locate: impl Fn() -> Locating<'a> + Send + 'a,
        mut range: Range<u64>,
    ) -> Result<Box<dyn Read + Send + 'a>, StoreError> {
        let mut source = HttpObject {
            client: self.clone(),
            locator: Some(Box::new(locate)),
            name: name.to_owned(),
            size: Some(size),
            etag: None,
        };
        let body = self.wait(name, source.open(&mut range))?;
        Ok(source.read(range, body))
    }

    /// Sends a request, and retries it if the failure may be temporary.
    async fn ask(
        &self,
        name: &str,
        locator: &Locator<'_>,
        method: Method,
        headers: &[(HeaderName, Option<&str>)],
    ) -> Result<Response, StoreError> {
        retry(self.backoff, async || {
            let error = |kind| StoreError::new(kind, name);
            let expiring_url = match locator {
                Some(locate) => Some(locate().await.map_err(Failed::lasting)?),
                None => None,
            };
            let url = expiring_url.as_ref().map_or(name, Secret::reveal);
            let mut request = self.client.request(method.clone(), url);
            for (header, value) in headers {
                if let Some(value) = value {
                    request = request.header(header, *value);
                }
            }
            let mut retry_after = None;
            let mut lasts = false;
            // An error of `reqwest` shows the URL, which may be a secret.
            let (kind, cause) = match request.send().await.map_err(reqwest::Error::without_url) {
                Ok(answer) if answer.status().is_success() => return Ok(answer),
                Ok(answer) => {
                    let kind = match answer.status().as_u16() {
                        // The URL may have expired before it was used. The next attempt asks for a new URL.
                        403 | 404 if locator.is_some() => StoreFailureKind::Unavailable,
                        404 | 410 => {
                            return Err(Failed::lasting(error(StoreFailureKind::NotFound)));
                        }
                        401 | 403 => StoreFailureKind::Denied,
                        408 | 429 | 500.. => StoreFailureKind::Unavailable,
                        _ => StoreFailureKind::Failed,
                    };
                    retry_after = read_header(&answer, &RETRY_AFTER).map(str::to_owned);
                    (kind, format!("the server answers {}", answer.status()))
                }
                // A server that redirects to an unsafe place will do so again.
                Err(cause) if cause.is_redirect() => (StoreFailureKind::Failed, last_cause(&cause)),
                Err(cause) => {
                    lasts = is_untrusted(&cause);
                    (StoreFailureKind::Unavailable, last_cause(&cause))
                }
            };
            let error = error(kind).caused_by(cause);
            Err(if kind == StoreFailureKind::Unavailable && !lasts {
                Failed::passing(error).not_before(retry_after.as_deref())
            } else {
                Failed::lasting(error)
            })
        })
        .await
    }

    /// Runs a future until it ends or the user interrupts.
    fn wait<T>(
        &self,
        name: &str,
        future: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        parallel::wait(&self.stop, future)
            .unwrap_or_else(|stopped| Err(StoreError::failed(name, stopped)))
    }
}

impl HttpStore {
    /// Creates the client. Sends no request.
    pub fn connect(origin: Endpoint, stop: Stop) -> Result<Self, StoreError> {
        Ok(Self {
            client: HttpClient::new(BACKOFF, SILENCE, stop)
                .map_err(|error| StoreError::failed(&origin, error))?,
            origin,
        })
    }

    /// The server of an address, and the key of its path.
    pub fn of_url(url: &str, stop: &Stop) -> Result<(Self, Key)> {
        let split_url = || {
            let (scheme, rest) = url.split_once("://")?;
            let (host, path) = rest.split_once('/')?;
            Some((format!("{scheme}://{host}"), percent_decode(path)?))
        };
        let (server, path) =
            split_url().with_context(|| format!("not the address of a file: `{url}`"))?;
        let store = Self::connect(server.parse()?, stop.clone())?;
        Ok((store, path.parse()?))
    }

    fn url(&self, key: &Key) -> String {
        format!("{}/{}", self.origin, encode_path(key.as_str()))
    }

    /// The error for a write.
    fn read_only(&self, key: &Key) -> StoreError {
        StoreError::new(StoreFailureKind::Denied, self.url(key))
            .caused_by("a web server is only read")
    }

    fn ask_head(&self, key: &Key) -> Result<Response, StoreError> {
        let url = self.url(key);
        self.client.wait(&url, self.client.ask(&url, &None, Method::HEAD, &[]))
    }
}

/// Follows redirects within http and https, and from http to https. A redirect from https to http would
/// let machines on the network change what arrives.
fn redirects() -> Policy {
    Policy::custom(|attempt| {
        let from = attempt.previous().last().map_or("", |url| url.scheme()).to_owned();
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

fn read_header<'a>(answer: &'a Response, name: &HeaderName) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

impl Store for HttpStore {
    fn list(&self, directory: Option<&Key>, _: Depth) -> Result<Vec<Object>, StoreError> {
        let place = directory.map_or_else(|| self.to_string(), |key| self.url(key));
        let cause = "a web server has no list of what it has";
        Err(StoreError::new(StoreFailureKind::Unusable, place).caused_by(cause))
    }

    fn head(&self, key: &Key) -> Result<Object, StoreError> {
        let answer = self.ask_head(key)?;
        let size = read_header(&answer, &CONTENT_LENGTH)
            .and_then(|length| length.parse().ok())
            .ok_or_else(|| {
                StoreError::failed(self.url(key), "the server does not say how many bytes it has")
            })?;
        Ok(Object {
            key: key.clone(),
            size,
            sha256: None,
            checksum: None,
            content_type: read_header(&answer, &CONTENT_TYPE).map(str::to_owned),
            cache_control: read_header(&answer, &CACHE_CONTROL).map(str::to_owned),
            etag: read_header(&answer, &ETAG).map(|etag| etag.trim_matches('"').to_owned()),
            modified: None,
        })
    }

    fn get(&self, key: &Key, span: Span) -> Result<Box<dyn Read + Send>, StoreError> {
        let mut range = span.range();
        if range.is_empty() {
            return Ok(Box::new(io::empty()));
        }
        let start = range.start;
        let len = range.end - range.start;
        let url = self.url(key);
        let mut source = HttpObject {
            client: self.client.clone(),
            locator: None,
            name: url.clone(),
            size: None,
            etag: None,
        };
        let body = match self.client.wait(&url, source.open(&mut range)) {
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
        // A server without range support sends everything up to the end of the object.
        Ok(Box::new(source.read(range, body).take(len)))
    }

    fn sends_ranges(&self, key: &Key) -> Result<bool, StoreError> {
        let url = self.url(key);
        let headers = [(RANGE, Some("bytes=0-0"))];
        let answer = self.client.ask(&url, &None, Method::GET, &headers);
        // The body is not read: a server without range support would send all of it.
        Ok(read_header(&self.client.wait(&url, answer)?, &CONTENT_RANGE).is_some())
    }

    fn put(&self, key: &Key, _: &dyn Body, _: &PutOptions) -> Result<Option<String>, StoreError> {
        Err(self.read_only(key))
    }

    fn delete(&self, key: &Key, _: &Condition) -> Result<(), StoreError> {
        Err(self.read_only(key))
    }
}

/// The version of an object that is read.
struct HttpObject<'a> {
    client: HttpClient,
    locator: Locator<'a>,
    /// The URL of the object, or the name that stands for a secret URL in errors.
    name: String,
    /// The size that the object must have, if the caller knows it.
    size: Option<u64>,
    /// The `ETag` of the first response. `None` before it, and if the server sends none.
    etag: Option<String>,
}

/// The body of a response.
struct HttpBody {
    response: Response,
    /// How many bytes before the requested range the response begins with.
    skip: u64,
}

impl<'a> HttpObject<'a> {
    /// Reads the range: first the response that is open already, then what is missing of the range.
    fn read(self, range: Range<u64>, body: HttpBody) -> Box<dyn Read + Send + 'a> {
        let client = self.client.clone();
        let name = self.name.clone();
        let mut download = Download {
            backoff: client.backoff,
            source: self,
            range,
            body: Some(body),
            failures: Failures::default(),
        };
        Box::new(ChunkReader {
            next: move || client.wait(&name, download.next()),
            ready: Bytes::new(),
        })
    }

    fn differs(&self, cause: &str) -> StoreError {
        StoreError::new(StoreFailureKind::Differs, &self.name).caused_by(cause)
    }
}

impl RangeSource for HttpObject<'_> {
    type Body = HttpBody;
    type Error = StoreError;

    async fn open(&mut self, span: &mut Range<u64>) -> Result<HttpBody, StoreError> {
        let range = match (span.start, span.end) {
            (0, u64::MAX) => None,
            (start, u64::MAX) => Some(format!("bytes={start}-")),
            (start, end) => Some(format!("bytes={start}-{}", end.saturating_sub(1))),
        };
        let headers = [(RANGE, range.as_deref()), (IF_RANGE, self.etag.as_deref())];
        let response = self.client.ask(&self.name, &self.locator, Method::GET, &headers).await?;
        // A server without range support sends the whole object, and no `Content-Range`.
        let (start, total) = read_header(&response, &CONTENT_RANGE)
            .and_then(content_range)
            .unwrap_or((0, response.content_length()));
        if let (Some(size), Some(total)) = (self.size, total)
            && size != total
        {
            return Err(self.differs(&format!("it has {total} bytes and not {size}")));
        }
        let etag = read_header(&response, &ETAG).map(str::to_owned);
        let is_same = self.etag.is_none() || self.etag == etag;
        let skip = span
            .start
            .checked_sub(start)
            .filter(|_| is_same)
            .ok_or_else(|| self.differs("the object was replaced while it was read"))?;
        self.etag = etag;
        // The range may exceed the object. From here on it ends where the response ends, so that a response
        // which breaks off is told from the end of the object.
        if let Some(length) = response.content_length() {
            let end = span.end.min(start.saturating_add(length));
            span.end = end.max(span.start);
        }
        Ok(HttpBody { response, skip })
    }

    async fn chunk(body: &mut HttpBody) -> Result<Option<Bytes>, String> {
        let chunk =
            body.response.chunk().await.map_err(|error| last_cause(&error.without_url()))?;
        Ok(chunk.map(|mut bytes| {
            let skipped =
                usize::try_from(body.skip).map_or(bytes.len(), |skip| skip.min(bytes.len()));
            body.skip -= skipped as u64;
            bytes.split_off(skipped)
        }))
    }

    fn broken(&self, _: bool, cause: String) -> StoreError {
        StoreError::new(StoreFailureKind::Unavailable, &self.name).caused_by(cause)
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
