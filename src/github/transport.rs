//! Sends requests to GitHub's API: retries, rate limits and pagination.

use std::{
    fmt,
    future::Future,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use octocrab::Octocrab;
use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, HeaderMap, HeaderName, USER_AGENT},
    redirect::Policy,
};
use serde::de::DeserializeOwned;

use super::{
    failure::{ApiFailureKind, GitHubError, Token},
    model,
    route::{ApiUrl, next_page},
    wait_policy::{LimitFacts, WaitPolicy},
};
use crate::{
    error::{Context as _, Result, Secret, Stop, last_cause},
    parallel,
    retry::{self, Failures},
};

const CONNECT: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_mins(1);
/// Longer error messages of GitHub are cut.
const MOST_OF_A_MESSAGE: usize = 200;
const AGENT: &str = concat!("rocwheel/", env!("CARGO_PKG_VERSION"));

/// The API to use, and how to use it.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    pub api: ApiUrl,
    /// Sent to this API and to no other host.
    pub token: Option<Secret>,
    pub patience: WaitPolicy,
}

/// A connection to GitHub's API.
pub struct GitHub<'a> {
    settings: ApiSettings,
    crab: Octocrab,
    /// The HTTP client for storage servers. It has no token.
    keepers: Client,
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
        let crab = {
            // octocrab spawns a task when it is built, which needs a runtime.
            let _inside = parallel::runtime().enter();
            open(&settings).context("failed to prepare to ask GitHub")?
        };
        Ok(Self {
            keepers: keepers(&settings)?,
            settings,
            crab,
            stop,
            announce: Box::new(announce),
        })
    }

    pub(super) fn api(&self) -> &ApiUrl {
        &self.settings.api
    }

    pub(super) fn get<T: DeserializeOwned>(&self, route: &str) -> Result<T> {
        self.page(route).map(|(value, _)| value)
    }

    /// Requests a page. Returns it with the URL of the next one.
    pub(super) fn page<T: DeserializeOwned>(&self, route: &str) -> Result<(T, Option<String>)> {
        let answer = self.ask(route, |status| (200..300).contains(&status))?;
        let value = model::parse(&answer.text)
            .map_err(|error| self.failed(ApiFailureKind::Strange, route).caused_by(error))
            .map_err(|error| error.advise(self.token()))?;
        let next = answer.header("link").and_then(next_page);
        // A response must not make us send the token to another host.
        let next = next.filter(|next| self.settings.api.has(next));
        Ok((value, next.map(str::to_owned)))
    }

    /// The URL that a route redirects to. Anyone can use it for the next minute, so it is a secret.
    pub(super) fn locate(&self, route: &str) -> Result<Secret> {
        let answer = self.ask(route, |status| status == StatusCode::FOUND.as_u16())?;
        let place = answer
            .header("location")
            .filter(|it| it.starts_with("http"));
        place.map(Secret::new).ok_or_else(|| {
            self.refused(
                ApiFailureKind::Strange,
                route,
                "it has no target".to_owned(),
            )
        })
    }

    /// Sends one request to a storage server. Errors do not contain the URL, as it is a secret.
    pub(super) fn get_from(
        &self,
        place: &Secret,
        (name, value): (HeaderName, &str),
    ) -> Result<Result<Response, String>> {
        let request = self.keepers.get(place.reveal()).header(name, value);
        // `send` is called inside the runtime, because its timeouts need one.
        let answer = self.wait(async { request.send().await })?;
        Ok(answer.map_err(|error| last_cause(&error.without_url())))
    }

    pub(super) fn patience(&self) -> &WaitPolicy {
        &self.settings.patience
    }

    fn ask(&self, route: &str, is_good: impl Fn(u16) -> bool) -> Result<ApiResponse> {
        let mut failures = Failures::default();
        loop {
            let (kind, said) = match self.once(route)? {
                Ok(answer) if is_good(answer.status) => return Ok(answer),
                Ok(answer) => (answer.judge(self.token()), answer.message()),
                Err(error) => (ApiFailureKind::Unavailable, last_cause(&error)),
            };
            let patience = &self.settings.patience;
            let pause = failures.pause(&patience.backoff);
            let wait = match (kind, pause) {
                (ApiFailureKind::Limited(wait), Some(_)) if wait <= patience.longest => wait,
                (ApiFailureKind::Unavailable, Some(pause)) => pause,
                _ => return Err(self.refused(kind, route, said)),
            };
            let why = match kind {
                ApiFailureKind::Limited(_) => "its rate limit is spent",
                _ => "it does not answer",
            };
            let seconds = wait.as_secs_f32().ceil();
            (self.announce)(&format!("asking GitHub again in {seconds} s: {why}"));
            self.sleep(wait)?;
        }
    }

    fn once(&self, route: &str) -> Result<Result<ApiResponse, octocrab::Error>> {
        let asking = async {
            let answer = self.crab._get(route).await?;
            let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
            let text = self.crab.body_to_string(answer).await?;
            Ok(ApiResponse {
                status,
                headers,
                text,
            })
        };
        self.wait(asking)
    }

    fn failed(&self, kind: ApiFailureKind, route: &str) -> GitHubError {
        let path = route.strip_prefix(self.settings.api.as_str());
        GitHubError::new(kind, path.unwrap_or(route))
    }

    pub(super) fn refused(
        &self,
        kind: ApiFailureKind,
        route: &str,
        said: String,
    ) -> crate::error::Error {
        let error = self.failed(kind, route);
        let error = if said.is_empty() {
            error
        } else {
            error.caused_by(said)
        };
        error.advise(self.token())
    }

    /// Whether requests carry a token, and so have a far higher rate limit.
    pub fn token(&self) -> Token {
        match self.settings.token {
            Some(_) => Token::Sent,
            None => Token::None,
        }
    }

    /// Sleeps until the time is over or the user interrupts.
    pub fn sleep(&self, wait: Duration) -> Result<()> {
        Ok(retry::sleep(wait, &self.stop)?)
    }

    /// Runs a future until it ends or the user interrupts.
    pub(super) fn wait<T>(&self, something: impl Future<Output = T>) -> Result<T> {
        Ok(parallel::wait(&self.stop, something)?)
    }
}

fn open(settings: &ApiSettings) -> Result<Octocrab> {
    let client = Client::builder()
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
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
        }))
        .build()?;
    let mut builder = Octocrab::builder()
        .base_uri(settings.api.as_str())?
        .add_header(USER_AGENT, AGENT.to_owned())
        .add_header(ACCEPT, "application/vnd.github+json".to_owned())
        .add_header(
            HeaderName::from_static("x-github-api-version"),
            "2022-11-28".to_owned(),
        );
    if let Some(token) = &settings.token {
        builder = builder.personal_token(token.reveal());
    }
    Ok(builder.build_with_reqwest(client)?)
}

/// The client for storage servers: without a token, and HTTPS only if the API uses HTTPS.
fn keepers(settings: &ApiSettings) -> Result<Client> {
    let client = Client::builder()
        .user_agent(AGENT)
        .connect_timeout(CONNECT)
        .read_timeout(settings.patience.silence)
        .redirect(Policy::limited(5))
        .https_only(settings.api.as_str().starts_with("https:"))
        .build();
    client.context("failed to prepare to ask for artifacts")
}

impl ApiResponse {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn judge(&self, token: Token) -> ApiFailureKind {
        let number = |name| self.header(name).and_then(|text| text.parse().ok());
        let limits = LimitFacts {
            retry_after: number("retry-after"),
            remaining: number("x-ratelimit-remaining"),
            reset: number("x-ratelimit-reset"),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        let message = self.message();
        match (limits.wait(self.status, &message, now), self.status) {
            (Some(wait), _) => ApiFailureKind::Limited(wait),
            (None, 401) if token == Token::Sent => ApiFailureKind::Token,
            (None, 401 | 403) => ApiFailureKind::Denied,
            // 422: not a commit; 409: the repository is empty.
            (None, 404 | 409 | 422) => ApiFailureKind::NotFound,
            (None, 410) => ApiFailureKind::Gone,
            (None, 408 | 500..) => ApiFailureKind::Unavailable,
            (None, _) => ApiFailureKind::Strange,
        }
    }

    /// GitHub's error message, on one short line.
    fn message(&self) -> String {
        let value: serde_json::Value = model::parse(&self.text).unwrap_or_default();
        let message = value.get("message").and_then(serde_json::Value::as_str);
        let line = message
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or_default();
        line.chars().take(MOST_OF_A_MESSAGE).collect()
    }
}

impl fmt::Debug for GitHub<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHub")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
