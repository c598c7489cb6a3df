//! Sends requests to GitHub's API: retries, rate limits and pages. Errors are classified by what the
//! user can do about them.

use std::{
    future::Future,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use reqwest::{
    Client, ClientBuilder, StatusCode,
    header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue},
    redirect::Policy,
};
use serde_json::Value;

use super::route::ApiUrl;
use crate::{
    error::{Context as _, Error, Result, Secret, Stop, anyhow, hinted, last_cause},
    parallel,
    retry::{Backoff, Failures, HasAnswered},
    run::Repository,
};

const CONNECT: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_mins(1);
/// Longer error messages of GitHub are cut.
const MOST_OF_A_MESSAGE: usize = 200;
const AGENT: &str = concat!("rocwheel/", env!("CARGO_PKG_VERSION"));
/// How long GitHub asks clients to wait if a response names no time.
const UNNAMED: Duration = Duration::from_mins(1);

/// The API to use, and how to use it.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    pub api: ApiUrl,
    /// Sent to this API and to no other host.
    pub token: Option<Secret>,
    pub patience: WaitPolicy,
}

/// How long and how often to wait for GitHub.
#[derive(Clone, Debug)]
pub struct WaitPolicy {
    /// Attempts of one request and the pauses between them.
    pub backoff: Backoff,
    /// How long a storage server may send nothing before the request is repeated.
    pub silence: Duration,
    /// The longest wait for a rate limit. A longer one is an error at once.
    pub longest: Duration,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self {
            backoff: Backoff {
                attempts: 5,
                pause: Duration::from_secs(1),
            },
            silence: Duration::from_secs(20),
            longest: Duration::from_mins(10),
        }
    }
}

/// The classes of API errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ApiFailureKind {
    #[error("GitHub does not accept the token")]
    Token,
    /// The token, or an anonymous user, lacks a permission.
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
    Strange,
    /// The storage server does not have the bytes that GitHub's API describes.
    #[error("GitHub has it, and it cannot be read")]
    Unreadable,
}

/// A connection to GitHub's API.
pub struct GitHub<'a> {
    pub(super) settings: ApiSettings,
    /// The HTTP client for the API. It sends the token.
    client: Client,
    /// The HTTP client for storage servers: without a token, and HTTPS only if the API uses HTTPS.
    pub(super) keepers: Client,
    api_answered: HasAnswered,
    pub(super) keepers_answered: HasAnswered,
    stop: Stop,
    announce: Box<dyn Fn(&str) + Send + Sync + 'a>,
}

/// A response of any status, read completely.
struct ApiResponse {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl<'a> GitHub<'a> {
    /// Creates the clients; sends no request. `announce` gets a message for the user before each
    /// wait.
    pub fn connect(
        settings: ApiSettings,
        stop: Stop,
        announce: impl Fn(&str) + Send + Sync + 'a,
    ) -> Result<Self> {
        Ok(Self {
            client: client(&settings).context("failed to prepare to ask GitHub")?,
            keepers: builder(settings.patience.silence)
                .redirect(Policy::limited(5))
                .https_only(settings.api.as_str().starts_with("https:"))
                .build()
                .context("failed to prepare to ask for artifacts")?,
            settings,
            api_answered: HasAnswered::default(),
            keepers_answered: HasAnswered::default(),
            stop,
            announce: Box::new(announce),
        })
    }

    /// The same connection for a question that may stay unanswered: it is asked once, without a
    /// wait and without a word to the user.
    #[must_use]
    pub fn impatient(&self) -> GitHub<'static> {
        let mut settings = self.settings.clone();
        settings.patience.backoff.attempts = 1;
        GitHub {
            settings,
            client: self.client.clone(),
            keepers: self.keepers.clone(),
            api_answered: self.api_answered.clone(),
            keepers_answered: self.keepers_answered.clone(),
            stop: self.stop.clone(),
            announce: Box::new(|_| {}),
        }
    }

    /// The URL of something in a repository.
    pub(super) fn route(&self, repository: &Repository, segments: &[&str], query: &str) -> String {
        let mut path = vec!["repos", repository.owner(), repository.name()];
        path.extend_from_slice(segments);
        self.settings.api.route(&path, query)
    }

    /// Requests a JSON document.
    pub(super) fn document(&self, route: &str) -> Result<Value> {
        let is_good = |status| (200..300).contains(&status);
        let answer = self.wait(self.ask(route, is_good))?;
        let value = serde_json::from_str(&answer.text);
        value.map_err(|error| self.strange(route, &error.to_string()))
    }

    /// Asks whether the API accepts the token, or an anonymous user. Returns the number of requests
    /// that it still answers within this hour, if it has a limit.
    pub fn remaining_requests(&self) -> Result<Option<u64>> {
        let route = format!("{}/", self.settings.api.as_str().trim_end_matches('/'));
        let is_good = |status| (200..300).contains(&status);
        let answer = self.wait(self.ask(&route, is_good))?;
        let remaining = answer.header("x-ratelimit-remaining");
        Ok(remaining.and_then(|number| number.parse().ok()))
    }

    /// The URL that a route redirects to. Anyone can use it for the next minute, so it is a secret.
    pub(super) async fn locate(&self, route: &str) -> Result<Secret> {
        let is_good = |status| status == StatusCode::FOUND.as_u16();
        let answer = self.ask(route, is_good).await?;
        let place = answer.header("location");
        let place = place.filter(|it| it.starts_with("http")).map(Secret::new);
        place.ok_or_else(|| self.strange(route, "it has no target"))
    }

    async fn ask(&self, route: &str, is_good: impl Fn(u16) -> bool) -> Result<ApiResponse> {
        let mut failures = Failures::default();
        loop {
            let mut backoff = self.settings.patience.backoff;
            let (kind, said) = match self.once(route).await {
                Ok(answer) if is_good(answer.status) => return Ok(answer),
                Ok(answer) => (answer.judge(self.has_token()), answer.message()),
                Err(error) => {
                    backoff = self.api_answered.patience(backoff, &error);
                    let kind = if error.is_connect() {
                        ApiFailureKind::Unreachable
                    } else {
                        ApiFailureKind::Unavailable
                    };
                    (kind, last_cause(&error))
                }
            };
            let (wait, why) = match (kind, failures.pause(&backoff)) {
                (ApiFailureKind::Limited(wait), Some(_))
                    if wait <= self.settings.patience.longest =>
                {
                    (wait, "its rate limit is spent")
                }
                (ApiFailureKind::Unavailable | ApiFailureKind::Unreachable, Some(pause)) => {
                    (pause, "it does not answer")
                }
                _ => return Err(self.refused(kind, route, &said)),
            };
            let seconds = wait.as_secs_f32().ceil();
            (self.announce)(&format!("asking GitHub again in {seconds} s: {why}"));
            tokio::time::sleep(wait).await;
        }
    }

    async fn once(&self, route: &str) -> Result<ApiResponse, reqwest::Error> {
        let answer = self.client.get(route).send().await?;
        self.api_answered.note(true);
        Ok(ApiResponse {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            text: answer.text().await?,
        })
    }

    /// The error for a request that was refused, with the cause that was told and a hint.
    pub(super) fn refused(&self, kind: ApiFailureKind, route: &str, said: &str) -> Error {
        let path = route.strip_prefix(self.settings.api.as_str());
        let path = path.unwrap_or(route).split('?').next().unwrap_or_default();
        let message = format!("{kind}: `{path}`");
        let error = if said.is_empty() {
            anyhow!(message)
        } else {
            anyhow!("{said}").context(message)
        };
        hinted(error, kind.hint(path, self.has_token()))
    }

    /// The error for an answer that is not what the API promises.
    pub(super) fn strange(&self, route: &str, said: &str) -> Error {
        self.refused(ApiFailureKind::Strange, route, said)
    }

    /// Whether requests carry a token, and so have a far higher rate limit.
    pub fn has_token(&self) -> bool {
        self.settings.token.is_some()
    }

    /// Sleeps until the time is over or the user interrupts.
    pub fn sleep(&self, wait: Duration) -> Result<()> {
        Ok(parallel::sleep(&self.stop, wait)?)
    }

    /// Runs a future until it ends or the user interrupts.
    pub(super) fn wait<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        parallel::wait(&self.stop, future)?
    }
}

fn builder(silence: Duration) -> ClientBuilder {
    Client::builder()
        .user_agent(AGENT)
        .connect_timeout(CONNECT)
        .read_timeout(silence)
}

/// The client for the API.
fn client(settings: &ApiSettings) -> Result<Client> {
    let mut headers = HeaderMap::new();
    let accept = HeaderValue::from_static("application/vnd.github+json");
    headers.insert(ACCEPT, accept);
    let version = HeaderValue::from_static("2022-11-28");
    headers.insert("x-github-api-version", version);
    if let Some(token) = &settings.token {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    let client = builder(SILENCE)
        .default_headers(headers)
        .redirect(Policy::custom(|attempt| {
            // Follow a renamed repository, as long as it stays on this server. Do not follow the
            // redirect of an artifact (302): its target is the answer, and another host must not
            // get the token.
            let same =
                attempt.previous().last().map(reqwest::Url::origin) == Some(attempt.url().origin());
            if same && attempt.status() != StatusCode::FOUND && attempt.previous().len() < 5 {
                attempt.follow()
            } else {
                attempt.stop()
            }
        }));
    Ok(client.build()?)
}

impl ApiResponse {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn judge(&self, has_token: bool) -> ApiFailureKind {
        let number = |name: &str| self.header(name)?.parse().ok();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        if let Some(wait) = limit(self.status, &self.message(), number, now) {
            return ApiFailureKind::Limited(wait);
        }
        match self.status {
            401 if has_token => ApiFailureKind::Token,
            401 | 403 => ApiFailureKind::Denied,
            // 422: not a commit; 409: the repository is empty.
            404 | 409 | 422 => ApiFailureKind::NotFound,
            410 => ApiFailureKind::Gone,
            408 | 500.. => ApiFailureKind::Unavailable,
            _ => ApiFailureKind::Strange,
        }
    }

    /// GitHub's error message, on one short line.
    fn message(&self) -> String {
        let value: Value = serde_json::from_str(&self.text).unwrap_or_default();
        let message = value.get("message").and_then(Value::as_str);
        let line = message.and_then(|message| message.lines().next());
        line.unwrap_or_default()
            .chars()
            .take(MOST_OF_A_MESSAGE)
            .collect()
    }
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

impl ApiFailureKind {
    fn hint(self, path: &str, has_token: bool) -> String {
        let hint = match self {
            Self::Token => {
                "renew the token in `--github-token`, `GITHUB_TOKEN` or `GH_TOKEN`, or do without: public repositories need none"
            }
            Self::Denied if !has_token => {
                "pass `--github-token`, set `GITHUB_TOKEN` or `GH_TOKEN`, or log in with `gh auth login`"
            }
            Self::Denied => {
                "the token needs `actions: read` and `contents: read` for this repository"
            }
            Self::NotFound => return not_found(path, has_token),
            Self::Gone => "what a run kept has expired: take a newer run, or `--bucket`",
            Self::Limited(_) if !has_token => {
                "pass `--github-token`, or set `GITHUB_TOKEN`: with a token far more may be asked"
            }
            Self::Limited(_) => "try again when the limit is lifted, or use another token",
            Self::Unavailable => {
                "look at https://www.githubstatus.com and at the proxy, and try again"
            }
            Self::Unreachable => {
                "check the network, the proxy (`HTTPS_PROXY`) and `--github-api-url`, and try again"
            }
            Self::Strange => "look at `--github-api-url`",
            Self::Unreadable => "try again; if it is the same, its job has to upload it again",
        };
        hint.to_owned()
    }
}

/// The hint for something that was not found: the flag that named it.
fn not_found(path: &str, has_token: bool) -> String {
    let flags = [
        ("/actions/runs/", " and `--run-id`"),
        ("/actions/workflows/", " and `--workflow`"),
        ("/commits/", " and `--commit`"),
        ("/pulls/", " and `--pr`"),
    ];
    let flag = flags.iter().find(|(part, _)| path.contains(part));
    let flag = flag.map_or("", |(_, flag)| flag);
    let private = if has_token {
        "of a private repository, the token may not know"
    } else {
        "a private repository needs `--github-token`"
    };
    format!("look at `--repository`{flag}; {private}")
}

#[cfg(test)]
mod tests;
