//! Downloads artifacts. GitHub redirects to a storage server for the bytes, and that server must
//! never see the token.

use std::{io::Read, ops::Range};

use bytes::Bytes;
use reqwest::{
    Response,
    header::{CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, ETAG, RANGE},
};

use super::{
    runs::RunArtifact,
    transport::{ApiFailureKind, GitHub},
};
use crate::{
    error::{Context as _, Error, Result, last_cause},
    location::percent_decode,
    retry::{ChunkReader, Download, Failures, RangeSource},
    run::Repository,
};

const ZIP_TYPES: [&str; 3] = [
    "application/zip",
    "application/x-zip-compressed",
    "application/zip-compressed",
];

/// The version of an artifact that is downloaded.
struct Blob<'a> {
    github: &'a GitHub<'a>,
    /// The API route that redirects to the bytes. The target URL expires after a minute, so each
    /// new request asks for it again.
    route: String,
    size: u64,
    content: ArtifactBlob,
    etag: Option<String>,
}

/// Wraps the error as a *source*, because `io::Error::other` would print it but hide it from
/// `source()`.
#[derive(Debug, thiserror::Error)]
#[error("the download broke off")]
struct Broken(#[source] Error);

/// The form of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactBlob {
    Zip,
    /// A single file that was uploaded without a zip, with its name.
    File(String),
}

impl GitHub<'_> {
    /// Opens a range of an artifact. The range must not be empty. If a response breaks off, reading
    /// resumes where it ended, as long as the artifact has not changed.
    pub fn open(
        &self,
        repository: &Repository,
        artifact: &RunArtifact,
        mut span: Range<u64>,
    ) -> Result<(ArtifactBlob, Box<dyn Read + Send + '_>)> {
        let (id, name) = (artifact.id.to_string(), &artifact.name);
        let mut source = Blob {
            github: self,
            route: self.route(repository, &["actions", "artifacts", &id, "zip"], ""),
            size: artifact.size,
            content: ArtifactBlob::File(name.clone()),
            etag: None,
        };
        let body = self
            .wait(source.open(&mut span))
            .with_context(|| format!("failed to open artifact `{name}` of `{repository}`"))?;
        let content = source.content.clone();
        let mut download = Download {
            source,
            range: span,
            body: Some(body),
            backoff: self.settings.patience.backoff,
            failures: Failures::default(),
        };
        let next = move || {
            let bytes = self.wait(download.next()).map_err(Broken)?;
            if download.range.start > download.range.end {
                let error = download.source.failed("more came than was asked for");
                return Err(Broken(error));
            }
            Ok(bytes)
        };
        let ready = Bytes::new();
        Ok((content, Box::new(ChunkReader { next, ready })))
    }
}

impl RangeSource for Blob<'_> {
    type Body = Response;
    type Error = Error;

    async fn open(&mut self, span: &mut Range<u64>) -> Result<Response> {
        let patience = self.github.settings.patience.backoff;
        let mut failures = Failures::default();
        loop {
            let place = self.github.locate(&self.route).await?;
            let range = format!("bytes={}-{}", span.start, span.end.saturating_sub(1));
            let request = self.github.keepers.get(place.reveal());
            let (backoff, cause) = match request.header(RANGE, range).send().await {
                Ok(answer) => {
                    self.github.keepers_answered.note(true);
                    let status = answer.status().as_u16();
                    let refusal = format!("the server that keeps it answers {status}");
                    match status {
                        206 => return self.accept(span, answer),
                        // The server ignored the range, but the whole artifact was wanted.
                        200 if *span == (0..self.size) => return self.accept(span, answer),
                        200 => {
                            return Err(self.failed("the server that keeps it has no parts of it"));
                        }
                        // The URL may have expired before it was used; `locate` returns a new one.
                        403 | 404 | 408 | 429 | 500.. => (patience, refusal),
                        416 => return Err(self.failed("it is smaller than GitHub says")),
                        _ => return Err(self.failed(&refusal)),
                    }
                }
                Err(error) => {
                    // The URL is a secret.
                    let error = error.without_url();
                    let host = &self.github.keepers_answered;
                    (host.patience(patience, &error), last_cause(&error))
                }
            };
            let error = self.broken(false, cause);
            failures.sleep(&backoff, error).await?;
        }
    }

    async fn chunk(answer: &mut Response) -> Result<Option<Bytes>, String> {
        let bytes = answer.chunk().await;
        bytes.map_err(|error| last_cause(&error.without_url()))
    }

    fn broken(&self, _: bool, cause: String) -> Error {
        self.github
            .refused(ApiFailureKind::Unavailable, &self.route, &cause)
    }
}

impl Blob<'_> {
    fn accept(&mut self, span: &Range<u64>, answer: Response) -> Result<Response> {
        let header = |name| answer.headers().get(name)?.to_str().ok();
        if let Some(range) = header(CONTENT_RANGE) {
            let last = span.end.saturating_sub(1);
            let expected = format!("bytes {}-{last}/{}", span.start, self.size);
            if range != expected {
                return Err(self.failed(&format!("`{range}` came instead of `{expected}`")));
            }
        }
        let etag = header(ETAG).map(str::to_owned);
        if self.etag.is_some() && self.etag != etag {
            return Err(self.failed("it was replaced while it was read"));
        }
        if self.etag.is_none()
            && let ArtifactBlob::File(name) = &self.content
        {
            let kind = header(CONTENT_TYPE).unwrap_or_default();
            let disposition = header(CONTENT_DISPOSITION).unwrap_or_default();
            self.content = content(kind, answer.url().path(), disposition, name);
        }
        self.etag = etag;
        Ok(answer)
    }

    fn failed(&self, cause: &str) -> Error {
        self.github
            .refused(ApiFailureKind::Unreadable, &self.route, cause)
    }
}

/// Decides by the response headers and the URL whether an artifact is a zip file.
fn content(kind: &str, path: &str, disposition: &str, name: &str) -> ArtifactBlob {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let told = file_name(disposition);
    let is_zip_type = ZIP_TYPES.iter().any(|zip| kind.eq_ignore_ascii_case(zip));
    let is_zip = |name: &str| name.to_ascii_lowercase().ends_with(".zip");
    if is_zip_type || is_zip(path) || told.as_deref().is_some_and(is_zip) {
        ArtifactBlob::Zip
    } else {
        ArtifactBlob::File(told.unwrap_or_else(|| name.to_owned()))
    }
}

/// The file name in a `Content-Disposition` header, without directories. The encoded form
/// ([RFC 8187](https://www.rfc-editor.org/rfc/rfc8187)) takes precedence: `a+b` for
/// `attachment; filename*=UTF-8''a%2Bb; filename="a b"`.
fn file_name(disposition: &str) -> Option<String> {
    let parameter = |wanted: &str| {
        let mut parameters = disposition
            .split(';')
            .filter_map(|it| it.trim().split_once('='));
        parameters.find_map(|(name, value)| {
            name.trim()
                .eq_ignore_ascii_case(wanted)
                .then_some(value.trim())
        })
    };
    let encoded = parameter("filename*").and_then(|value| {
        let (charset, rest) = value.split_once('\'')?;
        let (_, text) = rest.split_once('\'')?;
        charset
            .eq_ignore_ascii_case("utf-8")
            .then(|| percent_decode(text))
            .flatten()
    });
    let plain = || Some(parameter("filename")?.trim_matches('"').to_owned());
    let name = encoded.or_else(plain)?;
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    (!last.is_empty()).then(|| last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zip_file_is_known_by_its_type_or_its_name() {
        let none = "";
        for (kind, path, disposition) in [
            ("application/zip", "/x", none),
            ("Application/X-Zip-Compressed; charset=x", "/x", none),
            ("application/octet-stream", "/a/b.zip", none),
            (
                "application/octet-stream",
                "/x",
                "attachment; filename=\"logs.ZIP\"",
            ),
        ] {
            assert_eq!(
                content(kind, path, disposition, "logs"),
                ArtifactBlob::Zip,
                "{kind} {path}"
            );
        }
        let file = content("application/zstd", "/x/y", none, "a.tar.zst");
        assert_eq!(file, ArtifactBlob::File("a.tar.zst".into()));
    }

    #[test]
    fn the_name_of_a_file_is_the_last_of_its_path_and_nothing_else() {
        let table = [
            (
                "attachment; filename=\"a_lib_gfx942.tar.zst\"",
                Some("a_lib_gfx942.tar.zst"),
            ),
            (
                "attachment; filename=x; filename*=UTF-8''a%2Bb%C3%A9",
                Some("a+bé"),
            ),
            ("attachment; FileName* = utf-8'en'x", Some("x")),
            ("attachment; filename*=latin1''x; filename=y", Some("y")),
            ("attachment; filename*=UTF-8''%zz; filename=y", Some("y")),
            (
                "attachment; filename*=UTF-8''..%2F..%2Fetc%2Fpasswd",
                Some("passwd"),
            ),
            ("attachment; filename=\"c:\\x\\y\"", Some("y")),
            ("attachment; filename=\"a/\"", None),
            ("attachment", None),
            ("", None),
        ];
        for (disposition, expected) in table {
            assert_eq!(file_name(disposition).as_deref(), expected, "{disposition}");
        }
    }
}
