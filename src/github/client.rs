//! The connection to GitHub's API.

use std::{future::Future, sync::Arc, time::Duration};

use http::{
    HeaderValue, StatusCode, Uri,
    header::{ACCEPT, CONTENT_TYPE, LOCATION},
};
use octocrab::{
    AuthState, FromResponse, Octocrab, OctocrabBuilder,
    service::middleware::{
        auth_header::AuthHeaderLayer, base_uri::BaseUriLayer, extra_headers::ExtraHeadersLayer,
        reqwest_connector::ReqwestConnector,
    },
};
use reqwest::redirect::Policy;

use super::{
    failure::{ApiFailureKind, one_short_line},
    waits::{WaitPolicy, Waits},
};
use crate::run::{ApiUrl, Repository};
use rocwheel_base::{
    error::{Context as _, Error, Result, Secret, Stop, last_cause},
    parallel,
};
use rocwheel_store::client::web_client;

const SILENCE: Duration = Duration::from_mins(1);
const MOST_REDIRECTS: usize = 4;

/// The API to use, and how to use it.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    pub api: ApiUrl,
    /// Sent to this API and to no other host.
    pub token: Option<Secret>,
    pub waits: WaitPolicy,
}

/// A connection to GitHub's API.
#[derive(Clone)]
pub struct GitHub {
    settings: ApiSettings,
    crab: Octocrab,
    stop: Stop,
}

impl GitHub {
    /// Sends no request. `announce` gets a message for the user before each wait.
    pub fn connect(
        settings: ApiSettings,
        stop: Stop,
        announce: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self> {
        let crab = build_octocrab(&settings, Arc::new(announce))
            .context("failed to prepare to ask GitHub")?;
        Ok(Self { settings, crab, stop })
    }

    /// A connection with the same settings for a question that may stay unanswered: the question is asked
    /// once, without a wait and without a word to the user.
    pub fn single_attempt(&self) -> Result<Self> {
        let mut settings = self.settings.clone();
        settings.waits.backoff.attempts = 1;
        Self::connect(settings, self.stop.clone(), |_| ())
    }

    /// Asks whether the API accepts the token, or an anonymous user. Returns the number of requests
    /// that it still answers within this hour, if it has a limit.
    pub fn remaining_requests(&self) -> Result<Option<u64>> {
        self.wait(async {
            let request = async { octocrab::map_github_error(self.crab._get("/").await?).await };
            let answer = request.await.map_err(|error| api_error("/", &error))?;
            // A server that is no API answers with a page, such as the page to sign in.
            let content_type = answer
                .headers()
                .get(CONTENT_TYPE)
                .and_then(|value| value.to_str().ok())
                .unwrap_or("no type");
            if !content_type.contains("json") {
                let cause = format!("it answered with `{content_type}`");
                return Err(ApiFailureKind::Unexpected.error("/", &cause));
            }
            let remaining = answer.headers().get("x-ratelimit-remaining");
            Ok(remaining.and_then(|count| count.to_str().ok()?.parse().ok()))
        })
    }

    /// Requests a JSON document.
    pub(super) fn get<T: FromResponse>(&self, route: &str) -> Result<T> {
        self.wait(async {
            self.crab.get(route, None::<&()>).await.map_err(|error| api_error(route, &error))
        })
    }

    /// The address of the bytes of an artifact. Anyone can use it for the next minute, so it is a
    /// secret.
    pub async fn locate_artifact(&self, repository: &Repository, id: u64) -> Result<Secret> {
        let route = &format!("/repos/{repository}/actions/artifacts/{id}/zip");
        let to_error = |error: octocrab::Error| api_error(route, &error);
        let answer = self.crab._get(route).await.map_err(to_error)?;
        // An API that uses TLS must not lead to an address without TLS. A test server uses none.
        let is_safe = |url: &&str| {
            url.starts_with("https:")
                || url.starts_with("http:") && !self.settings.api.as_str().starts_with("https:")
        };
        if answer.status() != StatusCode::FOUND {
            octocrab::map_github_error(answer).await.map_err(to_error)?;
        } else if let Some(target) = answer.headers().get(LOCATION)
            && let Some(url) = target.to_str().ok().filter(is_safe)
        {
            return Ok(Secret::new(url));
        }
        Err(ApiFailureKind::Unexpected.error(route, "it has no target"))
    }

    /// Whether requests carry a token, and so have a far higher rate limit.
    pub fn has_token(&self) -> bool {
        self.settings.token.is_some()
    }

    /// How long and how often to wait for GitHub and its storage servers.
    pub fn waits(&self) -> &WaitPolicy {
        &self.settings.waits
    }

    /// Runs a future until it ends or the user interrupts.
    fn wait<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        parallel::wait(&self.stop, future)?
    }
}

/// The error for a request that failed in all its attempts.
fn api_error(route: &str, error: &octocrab::Error) -> Error {
    let octocrab::Error::GitHub { source, .. } = error else {
        return ApiFailureKind::without_answer(error).error(route, &last_cause(error));
    };
    let status = source.status_code.as_u16();
    let headers = source.headers.clone().unwrap_or_default();
    let target = headers.get(LOCATION).and_then(|target| target.to_str().ok());
    let cause = match target.filter(|_| source.status_code.is_redirection()) {
        // The query of an address may be a secret.
        Some(target) => format!("it leads to `{}`", target.split('?').next().unwrap_or_default()),
        None => one_short_line(&source.message),
    };
    ApiFailureKind::of_answer(status, &headers, &source.message)
        .unwrap_or(ApiFailureKind::Unexpected)
        .error(route, &cause)
}

fn build_octocrab(
    settings: &ApiSettings,
    announce: Arc<dyn Fn(&str) + Send + Sync>,
) -> Result<Octocrab> {
    let client = web_client(SILENCE)
        .redirect(Policy::custom(|attempt| {
            // Follow a renamed repository, as long as it stays on this server. Do not follow the
            // redirect of an artifact (302): its target is the answer, and another host must not
            // be asked.
            let last_origin = attempt.previous().last().map(reqwest::Url::origin);
            let is_same_server = last_origin == Some(attempt.url().origin());
            let may_go_on = attempt.previous().len() <= MOST_REDIRECTS;
            if is_same_server && may_go_on && attempt.status() != StatusCode::FOUND {
                attempt.follow()
            } else {
                attempt.stop()
            }
        }))
        .build()?;
    let base: Uri = settings.api.as_str().parse()?;
    let token = settings.token.as_ref().map(|token| -> Result<_> {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))?;
        bearer.set_sensitive(true);
        Ok(bearer)
    });
    let accept = HeaderValue::from_static("application/vnd.github+json");
    let server =
        Waits { server: ReqwestConnector::new(client), policy: settings.waits.clone(), announce };
    // octocrab starts a task, which needs a runtime.
    let _runtime = parallel::runtime().enter();
    let Ok(crab) = OctocrabBuilder::new_empty()
        .with_service(server)
        .with_layer(&ExtraHeadersLayer::new(Arc::new(vec![(ACCEPT, accept)])))
        .with_layer(&BaseUriLayer::new(base.clone()))
        .with_layer(&AuthHeaderLayer::new(token.transpose()?, base.clone(), base))
        .with_auth(AuthState::None)
        .build();
    Ok(crab)
}
