//! Which requests are sent again, after which pause, and how many are in flight: fewer while the
//! server throttles.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use aws_config::retry::ErrorKind;
use aws_sdk_s3::error::SdkError;
use tokio::sync::Notify;

use super::failure::{S3Failure, read_status};
use crate::client::is_untrusted;
use rocwheel_base::retry::{Backoff, Failures, parse_retry_after};

/// From here on the number of requests in flight is not limited any more. No command sends more at
/// once.
const UNLIMITED: usize = 256;
/// After a pause was announced, no other pause is announced for this time. Pauses of less than a second never are.
const SILENCE: Duration = Duration::from_secs(30);

/// The codes with which servers ask for fewer requests. Their status differs by server.
const THROTTLED: [&str; 5] =
    ["SlowDown", "ServiceUnavailable", "RequestLimitExceeded", "Throttling", "ThrottlingException"];

/// Why a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryReason {
    /// The server asks for fewer requests, and may say after how long.
    Throttled(Option<Duration>),
    /// No answer came in time.
    Late,
    /// The server failed, and may say after how long to ask again, or the connection broke.
    Broken(Option<Duration>),
}

impl RetryReason {
    /// `None` if another attempt would fail in the same way.
    pub(super) fn of(error: &S3Failure) -> Option<Self> {
        match error {
            SdkError::TimeoutError(_) => Some(Self::Late),
            SdkError::ResponseError(_) => Some(Self::Broken(None)),
            SdkError::DispatchFailure(failure) if failure.is_timeout() => Some(Self::Late),
            SdkError::DispatchFailure(failure) => {
                let error = failure.as_connector_error();
                let is_transient =
                    error.is_some_and(|error| error.as_other() == Some(ErrorKind::TransientError));
                let lasts = error.is_some_and(|error| is_untrusted(error));
                ((failure.is_io() || is_transient) && !lasts).then_some(Self::Broken(None))
            }
            SdkError::ServiceError(answer) => {
                let after = answer.raw().headers().get("retry-after");
                let status = read_status(error).unwrap_or_default();
                Self::of_answer(status, answer.err().code(), after)
            }
            _ => None,
        }
    }

    /// An answer with a good status may have the code of an error: a copy or a completion takes so long that the
    /// server sends the status before it is done. `retry_after` is the header, of which only seconds are read.
    fn of_answer(status: u16, code: Option<&str>, retry_after: Option<&str>) -> Option<Self> {
        let after = retry_after.and_then(parse_retry_after);
        match (status, code.unwrap_or_default()) {
            (429 | 503, _) => Some(Self::Throttled(after)),
            (_, code) if THROTTLED.contains(&code) => Some(Self::Throttled(after)),
            (_, "InternalError" | "RequestTimeout") | (500 | 502 | 504, _) => {
                Some(Self::Broken(after))
            }
            _ => None,
        }
    }
}

/// The attempts of all requests of one connection.
#[derive(Debug)]
pub(super) struct Retries {
    backoff: Backoff,
    flight: Mutex<Flight>,
    /// Wakes a request that waits until fewer requests are in flight.
    landed: Notify,
    /// Whether a request has failed in all its attempts, and no request was answered since. A server that is
    /// gone would otherwise keep thousands of requests waiting in turn, each for all its attempts.
    is_gone: AtomicBool,
    /// When the user last read about a pause.
    announced: Mutex<Option<Instant>>,
}

/// The requests that were sent and not answered yet.
#[derive(Debug)]
struct Flight {
    count: usize,
    /// The most that may be in flight.
    limit: usize,
    /// How often the limit was lowered. The answers to requests that were sent before the limit was lowered
    /// tell nothing about it.
    lowered: u64,
}

/// A request in flight. Dropping it lets another request be sent.
pub(super) struct Slot<'a> {
    retries: &'a Retries,
    /// [`Flight::lowered`] when the request was sent.
    lowered: u64,
}

impl Retries {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            flight: Mutex::new(Flight { count: 0, limit: usize::MAX, lowered: 0 }),
            landed: Notify::new(),
            is_gone: AtomicBool::new(false),
            announced: Mutex::default(),
        }
    }

    /// Waits until one more request may be sent.
    pub(super) async fn wait_for_slot(&self) -> Slot<'_> {
        loop {
            // The lock must not be held across the `await`.
            {
                let mut flight = self.flight();
                if flight.count < flight.limit {
                    flight.count += 1;
                    let lowered = flight.lowered;
                    // Several requests may have been answered before this request was woken, and `notify_one`
                    // wakes one request for all of them. So each request wakes the next.
                    if flight.count < flight.limit {
                        self.landed.notify_one();
                    }
                    return Slot { retries: self, lowered };
                }
            }
            self.landed.notified().await;
        }
    }

    /// Decides whether the user reads about this pause. If so, the next pauses are silent for `SILENCE`.
    pub(super) fn takes_turn_to_announce(&self, pause: Duration) -> bool {
        let now = Instant::now();
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let is_soon = announced.is_some_and(|last| now.duration_since(last) < SILENCE);
        if pause < Duration::from_secs(1) || is_soon {
            return false;
        }
        *announced = Some(now);
        true
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot<'_> {
    /// Notes that the server answered the request, also with an error.
    pub(super) fn note_answer(self) {
        self.retries.is_gone.store(false, Ordering::Relaxed);
        let mut flight = self.retries.flight();
        if flight.limit >= UNLIMITED {
            flight.limit = usize::MAX;
            // An answer to a request from before the limit was lowered does not show that the server bears more.
        } else if flight.lowered == self.lowered {
            flight.limit += 1;
            self.retries.landed.notify_one();
        }
    }

    /// Counts the failure of the request. Returns the pause before its next attempt, or `None` if it was the
    /// last one.
    pub(super) fn note_failure(
        self,
        reason: RetryReason,
        failures: &mut Failures,
    ) -> Option<Duration> {
        let Retries { backoff, is_gone, .. } = self.retries;
        let pause = match reason {
            RetryReason::Throttled(asked) => {
                self.lower_limit();
                failures.pause_as_asked(backoff, asked)
            }
            // The attempt counts twice: an attempt takes a minute, and users do not wait for six.
            RetryReason::Late => failures.pause(backoff).and_then(|_| failures.pause(backoff)),
            RetryReason::Broken(asked) => failures.pause_as_asked(backoff, asked),
        };
        if pause.is_none() {
            is_gone.store(true, Ordering::Relaxed);
        }
        if is_gone.load(Ordering::Relaxed) {
            return None;
        }
        pause
    }

    /// Halves the number of requests in flight, once for all requests that were sent at the same time.
    fn lower_limit(&self) {
        let mut flight = self.retries.flight();
        if flight.lowered == self.lowered {
            flight.limit = (flight.count.min(flight.limit) / 2).max(1);
            flight.lowered += 1;
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut flight = self.retries.flight();
        flight.count = flight.count.saturating_sub(1);
        self.retries.landed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::parallel::runtime;

    #[test]
    fn an_answer_says_whether_and_when_to_try_again() {
        let shown = [
            (429, None, None),
            (429, None, Some("2")),
            (503, Some("SlowDown"), Some(" 99999 ")),
            (429, None, Some("Wed, 21 Oct 2026 07:28:00 GMT")),
            (503, None, None),
            (200, Some("SlowDown"), None),
            (200, Some("InternalError"), None),
            (502, None, Some("2")),
            (400, Some("RequestTimeout"), None),
            (501, Some("NotImplemented"), None),
            (409, Some("ConditionalRequestConflict"), None),
            (404, None, Some("2")),
        ]
        .map(|(status, code, after)| format!("{:?}", RetryReason::of_answer(status, code, after)));
        insta::assert_snapshot!(shown.join("\n"), @"
        Some(Throttled(None))
        Some(Throttled(Some(2s)))
        Some(Throttled(Some(99999s)))
        Some(Throttled(None))
        Some(Throttled(None))
        Some(Throttled(None))
        Some(Broken(None))
        Some(Broken(Some(2s)))
        Some(Broken(None))
        None
        None
        None
        ");
    }

    fn retries(attempts: u32) -> Retries {
        let pause = Duration::from_millis(500);
        Retries::new(Backoff { attempts, pause })
    }

    fn slot(retries: &Retries) -> Slot<'_> {
        runtime().block_on(retries.wait_for_slot())
    }

    #[test]
    fn fewer_requests_are_in_flight_while_the_server_throttles() {
        let retries = retries(6);
        let throttled = RetryReason::Throttled(None);
        let limit = || retries.flight().limit;
        let mut sent: Vec<Slot<'_>> = (0..100).map(|_| slot(&retries)).collect();
        assert_eq!(limit(), usize::MAX);
        // Those that were sent together are throttled together.
        for slot in sent.drain(..) {
            slot.note_failure(throttled, &mut Failures::default());
        }
        assert_eq!(limit(), 50);
        for most in [25, 12, 6, 3, 1, 1] {
            sent.extend((0..limit()).map(|_| slot(&retries)));
            for slot in sent.drain(..) {
                slot.note_failure(throttled, &mut Failures::default());
            }
            assert_eq!(limit(), most);
        }
        // One at a time: the second waits for the first.
        let first = slot(&retries);
        let second = async {
            tokio::time::timeout(Duration::from_millis(50), retries.wait_for_slot()).await
        };
        assert!(runtime().block_on(second).is_err());
        first.note_answer();
        for most in [3, 4, 5] {
            slot(&retries).note_answer();
            assert_eq!(limit(), most);
        }
        while limit() != usize::MAX {
            slot(&retries).note_answer();
        }
    }

    #[test]
    fn a_request_is_tried_six_times_and_fewer_where_nothing_answers() {
        let retries = retries(6);
        let attempts = |reason| {
            let mut failures = Failures::default();
            let mut attempts = 1;
            while slot(&retries).note_failure(reason, &mut failures).is_some() {
                attempts += 1;
            }
            attempts
        };
        let reasons = [RetryReason::Broken(None), RetryReason::Throttled(None), RetryReason::Late];
        let answered = reasons.map(|reason| {
            slot(&retries).note_answer();
            attempts(reason)
        });
        assert_eq!(answered, [6, 6, 3]);
        // That one failed in all its attempts, so the others need not try as often.
        assert_eq!(reasons.map(attempts), [1, 1, 1]);
    }

    #[test]
    fn the_pause_is_at_least_what_the_server_asks_for() {
        let retries = retries(6);
        let pause = |seconds| {
            let reason = RetryReason::Throttled(Some(Duration::from_secs(seconds)));
            let pause = slot(&retries).note_failure(reason, &mut Failures::default());
            pause.unwrap()
        };
        assert!(pause(0) <= Duration::from_secs(1));
        assert_eq!([7, 3600].map(pause), [7, 60].map(Duration::from_secs));
    }
}
