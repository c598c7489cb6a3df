//! Errors of the API, classified by what the user can do about them.

use std::{
    error::Error as StdError,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::HeaderMap;
use serde_json::Value;

use crate::error::{Error, anyhow, hinted};

/// Longer error messages of GitHub are cut.
const MOST_OF_A_MESSAGE: usize = 200;
/// How long GitHub asks clients to wait if a response names no time.
const UNNAMED: Duration = Duration::from_mins(1);

/// The classes of API errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ApiFailureKind {
    /// The token is not valid, or it, or an anonymous user, lacks a permission.
    #[error("GitHub denies access")]
    Denied,
    /// It does not exist, or is private.
    #[error("GitHub has no such thing")]
    NotFound,
    /// It existed, but has expired.
    #[error("GitHub does not have it any more")]
    Gone,
    /// The rate limit is exceeded; with the time until it is lifted.
    #[error("GitHub's rate limit is spent for {} min", .0.as_secs().div_ceil(60))]
    Limited(Duration),
    /// No usable response, even after retries.
    #[error("GitHub does not answer now")]
    Unavailable,
    /// No connection, even after retries.
    #[error("GitHub cannot be reached")]
    Unreachable,
    /// The response is not what the API promises.
    #[error("not an answer of GitHub's API")]
    Unexpected,
}

impl ApiFailureKind {
    /// `None` if the answer is a success, or the redirect that was asked for.
    pub(super) fn of_answer(status: u16, headers: &HeaderMap, message: &str) -> Option<Self> {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.parse().ok();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        if let Some(wait) = limit(status, message, number, now) {
            return Some(Self::Limited(wait));
        }
        Some(match status {
            200..300 | 302 => return None,
            401 | 403 => Self::Denied,
            // 422: not a commit; 409: the repository is empty.
            404 | 409 | 422 => Self::NotFound,
            410 => Self::Gone,
            408 | 500.. => Self::Unavailable,
            _ => Self::Unexpected,
        })
    }

    /// The error for a request, with the cause that was told and a hint.
    pub(super) fn error(self, route: &str, cause: &str, has_token: bool) -> Error {
        let path = route.split('?').next().unwrap_or_default();
        let message = format!("{self}: `{path}`");
        let error = if cause.is_empty() {
            anyhow!(message)
        } else {
            anyhow!("{cause}").context(message)
        };
        hinted(error, self.hint(has_token))
    }

    fn hint(self, has_token: bool) -> &'static str {
        match self {
            Self::Denied if has_token => {
                "renew the token, or give it `actions: read` and `contents: read` for this repository; public ones need none"
            }
            Self::Denied => {
                "pass `--github-token`, set `GITHUB_TOKEN` or `GH_TOKEN`, or log in with `gh auth login`"
            }
            Self::NotFound if has_token => {
                "check `--repository` and the name that was looked up; the token may not know a private repository"
            }
            Self::NotFound => {
                "check `--repository` and the name that was looked up; a private repository needs `--github-token`"
            }
            Self::Gone => "what a run kept has expired: take a newer run, or `--bucket`",
            Self::Limited(_) if has_token => {
                "try again when the limit is lifted, or use another token"
            }
            Self::Limited(_) => {
                "pass `--github-token`, or set `GITHUB_TOKEN`: with a token far more may be asked"
            }
            Self::Unavailable => {
                "look at https://www.githubstatus.com and at the proxy, and try again"
            }
            Self::Unreachable => {
                "check the network, the proxy (`HTTPS_PROXY`) and `--github-api-url`, and try again"
            }
            Self::Unexpected => "look at `--github-api-url`",
        }
    }
}

/// The kind of an error without a usable answer.
pub(super) fn without_answer(error: &(dyn StdError + 'static)) -> ApiFailureKind {
    let mut causes = anyhow::Chain::new(error);
    match causes.find_map(|it| it.downcast_ref::<reqwest::Error>()) {
        Some(error) if error.is_connect() => ApiFailureKind::Unreachable,
        Some(_) => ApiFailureKind::Unavailable,
        // It was answered, with something else than the API promises.
        None => ApiFailureKind::Unexpected,
    }
}

/// GitHub's error message in the body of an answer. Empty if there is none.
pub(super) fn message(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = value.get("message").and_then(Value::as_str);
    message.unwrap_or_default().to_owned()
}

/// A message as one short line; none of a web page.
pub(super) fn one_short_line(message: &str) -> String {
    let line = message.lines().next().filter(|it| !it.starts_with('<'));
    let line = line.unwrap_or_default().chars();
    line.take(MOST_OF_A_MESSAGE).collect()
}

/// How long to wait, if a response was refused because of a rate limit. `number` reads a header,
/// and `now` is in seconds since the Unix epoch.
fn limit(
    status: u16,
    message: &str,
    number: impl Fn(&str) -> Option<u64>,
    now: u64,
) -> Option<Duration> {
    let retry_after = number("retry-after");
    let is_spent = number("x-ratelimit-remaining") == Some(0);
    let is_told = message.to_ascii_lowercase().contains("rate limit");
    if status != 429 && !(status == 403 && (is_spent || is_told || retry_after.is_some())) {
        return None;
    }
    // One second more, because both times are rounded down.
    let until = number("x-ratelimit-reset").filter(|_| is_spent);
    let wait = until.map(|reset| Duration::from_secs(reset.saturating_sub(now) + 1));
    retry_after
        .map(Duration::from_secs)
        .or(wait)
        .or(Some(UNNAMED))
}

#[cfg(test)]
mod tests;
