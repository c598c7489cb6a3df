//! Retries and rate limits.

use std::time::Duration;

use crate::retry::Backoff;

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

/// How long GitHub asks clients to wait if a response names no time.
const UNNAMED: Duration = Duration::from_mins(1);

/// How long to wait, if a response was refused because of a rate limit. `number` reads a header,
/// and `now` is in seconds since the Unix epoch.
pub(super) fn limit(
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
    Some(
        retry_after
            .map(Duration::from_secs)
            .or(wait)
            .unwrap_or(UNNAMED),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_from_a_denial_and_says_how_long() {
        let none = [None; 3];
        let table = [
            (429, "", none, Some(60)),
            (429, "", [Some(7), None, None], Some(7)),
            (403, "", [Some(7), Some(0), Some(1100)], Some(7)),
            (403, "", [None, Some(0), Some(1100)], Some(101)),
            (403, "", [None, Some(0), Some(900)], Some(1)),
            (403, "", [None, Some(0), None], Some(60)),
            (
                403,
                "You have exceeded a secondary Rate Limit",
                none,
                Some(60),
            ),
            (
                403,
                "Resource not accessible by integration",
                [None, Some(9), Some(1100)],
                None,
            ),
            (404, "rate limit", [Some(1), Some(0), None], None),
            (200, "", [None, Some(0), Some(1100)], None),
        ];
        let names = ["retry-after", "x-ratelimit-remaining", "x-ratelimit-reset"];
        for (status, message, numbers, expected) in table {
            let number = |name: &str| numbers[names.iter().position(|it| *it == name).unwrap()];
            let wait = limit(status, message, number, 1000).map(|it| it.as_secs());
            assert_eq!(wait, expected, "{status} {message} {numbers:?}");
        }
    }
}
