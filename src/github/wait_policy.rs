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

/// What the headers of a response say about rate limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LimitFacts {
    pub(super) retry_after: Option<u64>,
    pub(super) remaining: Option<u64>,
    /// In seconds since the Unix epoch.
    pub(super) reset: Option<u64>,
}

/// How long GitHub asks clients to wait if a response names no time.
const UNNAMED: Duration = Duration::from_mins(1);

impl LimitFacts {
    /// How long to wait, if a response was refused because of a rate limit.
    pub(super) fn wait(self, status: u16, message: &str, now: u64) -> Option<Duration> {
        let spent = self.remaining == Some(0);
        let said = message.to_ascii_lowercase().contains("rate limit");
        if status != 429 && !(status == 403 && (spent || said || self.retry_after.is_some())) {
            return None;
        }
        if let Some(seconds) = self.retry_after {
            return Some(Duration::from_secs(seconds));
        }
        // One second more, because both times are rounded down.
        let until = self.reset.filter(|_| spent);
        let wait = until.map(|reset| Duration::from_secs(reset.saturating_sub(now) + 1));
        Some(wait.unwrap_or(UNNAMED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_from_a_denial_and_says_how_long() {
        let facts = |retry_after, remaining, reset| LimitFacts {
            retry_after,
            remaining,
            reset,
        };
        let none = LimitFacts::default();
        let table = [
            (429, "", none, Some(60)),
            (429, "", facts(Some(7), None, None), Some(7)),
            (403, "", facts(Some(7), Some(0), Some(1100)), Some(7)),
            (403, "", facts(None, Some(0), Some(1100)), Some(101)),
            (403, "", facts(None, Some(0), Some(900)), Some(1)),
            (403, "", facts(None, Some(0), None), Some(60)),
            (
                403,
                "You have exceeded a secondary Rate Limit",
                none,
                Some(60),
            ),
            (
                403,
                "Resource not accessible by integration",
                facts(None, Some(9), Some(1100)),
                None,
            ),
            (404, "rate limit", facts(Some(1), Some(0), None), None),
            (200, "", facts(None, Some(0), Some(1100)), None),
        ];
        for (status, message, facts, expected) in table {
            let wait = facts.wait(status, message, 1000);
            assert_eq!(
                wait.map(|it| it.as_secs()),
                expected,
                "{status} {message} {facts:?}"
            );
        }
    }
}
