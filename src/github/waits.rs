//! Sends requests again, a few times, after a pause that the user reads about.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use octocrab::{OctoBody, service::middleware::reqwest_connector::ReqwestConnector};
use tower::{BoxError, Service};

use super::failure::{ApiFailureKind, read_retry_after};
use rocwheel_base::retry::{ATTEMPTS, Backoff, Failures};

/// The longest answer of the API that is read. A page of a hundred runs has less than a tenth of this.
const MOST_OF_AN_ANSWER: usize = 16 << 20;
/// How much of an answer is searched for the words that tell a rate limit.
const MOST_OF_A_REFUSAL: usize = 4 << 10;

/// How long and how often to wait for GitHub.
#[derive(Clone, Debug)]
pub struct WaitPolicy {
    /// Attempts of one request and the pauses between them.
    pub backoff: Backoff,
    /// How long the API may take for a whole answer before the request is repeated.
    pub answer: Duration,
    /// How long a storage server may send nothing before the request is repeated.
    pub silence: Duration,
    /// The longest wait for a rate limit. A limit that lasts longer is an error at once.
    pub longest: Duration,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self {
            backoff: Backoff { attempts: ATTEMPTS, pause: Duration::from_secs(1) },
            answer: Duration::from_mins(2),
            silence: Duration::from_secs(20),
            longest: Duration::from_mins(10),
        }
    }
}

/// Sends a request without a body, until it is answered or there were too many attempts. Answers of the API
/// are small, so each answer is read completely, and an answer that breaks off is requested again.
#[derive(Clone)]
pub(super) struct Waits {
    pub(super) server: ReqwestConnector,
    pub(super) policy: WaitPolicy,
    /// Gets a message for the user before each wait.
    pub(super) announce: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Service<Request<OctoBody>> for Waits {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.server.poll_ready(context).map_err(BoxError::from)
    }

    fn call(&mut self, request: Request<OctoBody>) -> Self::Future {
        let mut waits = self.clone();
        let (parts, _) = request.into_parts();
        Box::pin(async move {
            let mut failures = Failures::default();
            loop {
                let request = Request::from_parts(parts.clone(), OctoBody::empty());
                let answer = waits.send_once(request).await;
                let Some(Wait { duration, reason }) = waits.decide_wait(&answer, &mut failures)
                else {
                    return answer.map(|response| response.map(Full::new));
                };
                let seconds = duration.as_secs_f32().ceil();
                (waits.announce)(&format!("asking GitHub again in {seconds} s: {reason}"));
                tokio::time::sleep(duration).await;
            }
        })
    }
}

/// Why an answer was not read to its end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum UnreadAnswer {
    #[error("its answer is longer than {} MiB", MOST_OF_AN_ANSWER >> 20)]
    TooLong,
    #[error("its answer took longer than {} s", .0.as_secs_f32())]
    TooSlow(Duration),
}

/// A wait before the next attempt.
struct Wait {
    duration: Duration,
    /// What the user reads.
    reason: &'static str,
}

impl Waits {
    /// Reads a whole answer. Its length and its time are limited: what answers may be no API, or may send
    /// one byte each minute, which the timeout of the client does not notice.
    async fn send_once(&mut self, request: Request<OctoBody>) -> Result<Response<Bytes>, BoxError> {
        let answer = async {
            let (parts, body) = self.server.call(request).await?.into_parts();
            let body = Limited::new(body, MOST_OF_AN_ANSWER).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() { UnreadAnswer::TooLong.into() } else { error }
            })?;
            Ok(Response::from_parts(parts, body.to_bytes()))
        };
        tokio::time::timeout(self.policy.answer, answer)
            .await
            .unwrap_or_else(|_| Err(UnreadAnswer::TooSlow(self.policy.answer).into()))
    }

    /// Decides how long to wait before the next attempt. `None` if the answer is final.
    fn decide_wait(
        &self,
        answer: &Result<Response<Bytes>, BoxError>,
        failures: &mut Failures,
    ) -> Option<Wait> {
        let mut backoff = self.policy.backoff;
        let kind = match answer {
            Ok(answer) => {
                let body = answer.body();
                let message = String::from_utf8_lossy(&body[..body.len().min(MOST_OF_A_REFUSAL)]);
                ApiFailureKind::of_answer(answer.status().as_u16(), answer.headers(), &message)?
            }
            Err(error) => ApiFailureKind::without_answer(&**error),
        };
        if kind == ApiFailureKind::Unreachable {
            // Mostly there is no network, or the name of the host is wrong, and that lasts.
            backoff.attempts = backoff.attempts.min(2);
        }
        let asked = answer.as_ref().ok().and_then(|answer| read_retry_after(answer.headers()));
        let pause = failures.pause_as_asked(&backoff, asked)?;
        match kind {
            ApiFailureKind::Limited(duration) if duration <= self.policy.longest => {
                Some(Wait { duration, reason: "its rate limit is spent" })
            }
            ApiFailureKind::Unavailable | ApiFailureKind::Unreachable => {
                Some(Wait { duration: pause, reason: "it does not answer" })
            }
            _ => None,
        }
    }
}
