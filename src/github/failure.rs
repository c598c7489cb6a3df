//! Errors of the API, classified by what the user can do about them.

use std::{
    error::Error as StdError,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, header::RETRY_AFTER};

use super::waits::UnreadAnswer;
use rocwheel_base::{
    error::{Error, anyhow, hinted, negative},
    retry::parse_retry_after,
};

/// Longer error messages of GitHub are cut.
const MOST_OF_A_MESSAGE: usize = 200;
/// How long GitHub asks clients to wait if a response names no time.
const DEFAULT_WAIT: Duration = Duration::from_mins(1);

/// The classes of API errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ApiFailureKind {
    /// The token is not valid, or lacks a permission. Without a token, an anonymous user lacks it.
    #[error("GitHub denies access")]
    Denied,
    /// It does not exist, or is private.
    #[error("GitHub has no such thing")]
    NotFound,
    /// It existed, but has expired.
    #[error("GitHub does not have it any more")]
    Gone,
    /// The rate limit is exceeded. The duration is the time until it is lifted.
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
        // GitHub answers 403 both to a spent limit and to a missing permission. The headers tell the primary
        // limit, and only the message tells some secondary limits.
        let retry_after = read_retry_after(headers);
        let is_spent = number("x-ratelimit-remaining") == Some(0);
        let names_limit = message.to_ascii_lowercase().contains("rate limit");
        let is_limited = status == 429 || is_spent || names_limit || retry_after.is_some();
        Some(match status {
            200..300 | 302 => return None,
            403 | 429 if is_limited => {
                // The reset of a limit that is not spent says nothing about this answer.
                let reset = number("x-ratelimit-reset").filter(|_| is_spent);
                Self::Limited(retry_after.or_else(|| time_until(reset?)).unwrap_or(DEFAULT_WAIT))
            }
            401 | 403 => Self::Denied,
            // 422: not a commit; 409: the repository is empty.
            404 | 409 | 422 => Self::NotFound,
            410 => Self::Gone,
            408 | 500.. => Self::Unavailable,
            _ => Self::Unexpected,
        })
    }

    /// The kind of a failure without a usable answer.
    pub(super) fn without_answer(error: &(dyn StdError + 'static)) -> Self {
        let causes = || anyhow::Chain::new(error);
        if let Some(unread) = causes().find_map(|cause| cause.downcast_ref::<UnreadAnswer>()) {
            return match unread {
                UnreadAnswer::TooLong => Self::Unexpected,
                UnreadAnswer::TooSlow(_) => Self::Unavailable,
            };
        }
        match causes().find_map(|cause| cause.downcast_ref::<reqwest::Error>()) {
            Some(error) if error.is_connect() => Self::Unreachable,
            Some(_) => Self::Unavailable,
            // The server answered, but not what the API promises.
            None => Self::Unexpected,
        }
    }

    /// The error for a request, with the cause that was told and a hint.
    pub(super) fn error(self, route: &str, cause: &str) -> Error {
        let path = route.split('?').next().unwrap_or_default();
        let error = anyhow!("{cause}").context(format!("{self}: `{path}`"));
        let error = hinted(error, self.hint());
        match self {
            // GitHub was asked, and its answer is no.
            Self::NotFound | Self::Gone => negative(error),
            _ => error,
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Denied => {
                "pass a token that is valid and has `actions: read` and `contents: read` for this repository (`GITHUB_TOKEN`, `GH_TOKEN`, `gh auth login`); public repositories need none"
            }
            Self::NotFound => {
                "check `--repository` and the name that was looked up; a private repository needs a token that can read it (`GITHUB_TOKEN`)"
            }
            Self::Gone => "what a run kept has expired: take a newer run, or `--bucket`",
            Self::Limited(_) => {
                "try again when the limit is lifted, or pass another token (`GITHUB_TOKEN`): without one, far less may be asked"
            }
            Self::Unavailable => {
                "look at https://www.githubstatus.com and at the proxy, and try again"
            }
            Self::Unreachable => {
                "check the network, the proxy (`HTTPS_PROXY`), the certificates (`SSL_CERT_FILE`) and `GITHUB_API_URL`, and try again"
            }
            Self::Unexpected => {
                "set `GITHUB_API_URL` to the address of the API, which ends in `/api/v3` on a GitHub Enterprise server"
            }
        }
    }
}

/// The pause that an answer asks for.
pub(super) fn read_retry_after(headers: &HeaderMap) -> Option<Duration> {
    parse_retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?)
}

/// The time until a second since the Unix epoch, and one second more, because GitHub rounds it down.
fn time_until(second: u64) -> Option<Duration> {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(second))?;
    let left = time.duration_since(SystemTime::now()).unwrap_or_default();
    Some(left + Duration::from_secs(1))
}

/// The message of an answer as one short line.
pub(super) fn one_short_line(message: &str) -> String {
    match message.lines().next() {
        Some(line) if !line.starts_with('<') => line.chars().take(MOST_OF_A_MESSAGE).collect(),
        _ => "it answered with a web page or nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests;
