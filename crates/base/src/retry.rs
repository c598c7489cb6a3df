//! Retries: how often, and with which pauses.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::OnceLock,
    time::Duration,
};

/// How often a request is sent, to any server.
pub const ATTEMPTS: u32 = 6;
/// The next attempt waits no longer than this, even if the server asks for more.
const LONGEST: Duration = Duration::from_mins(1);

/// The number of attempts and the pauses between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The number of attempts, including the first.
    pub attempts: u32,
    /// The pause after the first failure is between one and two times this. Each further pause is
    /// twice as long as the one before, up to 32 times this.
    pub pause: Duration,
}

/// Counts the consecutive failures of one request. [`retry`] does it for attempts that are alike.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failures(u32);

impl Failures {
    /// Counts a failure. Returns the pause before the next attempt, or `None` if it was the last
    /// one.
    pub fn pause(&mut self, backoff: &Backoff) -> Option<Duration> {
        self.0 = self.0.saturating_add(1);
        (self.0 < backoff.attempts).then(|| backoff.pause(self.0))
    }

    /// As [`Self::pause`], and not before the server wants to be asked again, if it says so.
    pub fn pause_as_asked(
        &mut self,
        backoff: &Backoff,
        asked: Option<Duration>,
    ) -> Option<Duration> {
        Some(self.pause(backoff)?.max(asked.unwrap_or_default().min(LONGEST)))
    }

    /// Counts a failure, and sleeps until the next attempt. Fails with the error if it was the last
    /// one.
    pub async fn sleep<E>(&mut self, backoff: &Backoff, failed: Failed<E>) -> Result<(), E> {
        let Some(pause) = self.pause_as_asked(backoff, failed.asked) else {
            return Err(failed.error);
        };
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Resets the count. Call it after a success, because only consecutive failures count.
    pub fn forget(&mut self) {
        self.0 = 0;
    }
}

/// A failed attempt.
#[derive(Debug)]
pub struct Failed<E> {
    error: E,
    may_pass: bool,
    /// The pause that the server asks for.
    asked: Option<Duration>,
}

impl<E> Failed<E> {
    /// Another attempt would fail in the same way.
    pub fn lasting(error: E) -> Self {
        Self { error, may_pass: false, asked: None }
    }

    /// Another attempt may succeed.
    pub fn passing(error: E) -> Self {
        Self { error, may_pass: true, asked: None }
    }

    /// Takes the header `Retry-After` of the answer, if it has one.
    #[must_use]
    pub fn not_before(self, retry_after: Option<&str>) -> Self {
        Self { asked: retry_after.and_then(parse_retry_after), ..self }
    }
}

/// Parses the value of the header `Retry-After`. Servers that fail for a moment send seconds. A date, which the
/// standard also allows, would need a clock that is right.
pub fn parse_retry_after(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

/// Makes attempts until one succeeds, with pauses between them.
///
/// ```
/// # use std::time::Duration;
/// # use rocwheel_base::{error::{Result, anyhow}, parallel::runtime, retry::{Backoff, Failed, retry}};
/// # let backoff = Backoff { attempts: 3, pause: Duration::ZERO };
/// # let request = async || Err::<(), _>(anyhow!("no answer"));
/// let answer = runtime().block_on(retry(backoff, async || {
///     request().await.map_err(Failed::passing)
/// }));
/// # assert!(answer.is_err());
/// ```
pub async fn retry<T, E>(
    backoff: Backoff,
    mut attempt: impl AsyncFnMut() -> Result<T, Failed<E>>,
) -> Result<T, E> {
    let mut failures = Failures::default();
    loop {
        match attempt().await {
            Ok(it) => return Ok(it),
            Err(failed) if failed.may_pass => failures.sleep(&backoff, failed).await?,
            Err(failed) => return Err(failed.error),
        }
    }
}

impl Backoff {
    /// The pause after this many failures. It is random: without that, all clients of a server that
    /// failed would retry at the same moment and overload it again.
    fn pause(&self, failures: u32) -> Duration {
        let longest = self.pause.saturating_mul(1 << failures.min(5));
        let random = RandomState::new().hash_one(failures) % 1024;
        longest / 2 + longest / 2048 * u32::try_from(random).unwrap_or(0)
    }
}

type Announce = Box<dyn Fn(&str) + Send + Sync>;

static ANNOUNCE: OnceLock<Announce> = OnceLock::new();

/// Says what tells the user about waits of any store. Without it, waits are silent. The first call counts.
pub fn announce_by(announce: impl Fn(&str) + Send + Sync + 'static) {
    let _ = ANNOUNCE.set(Box::new(announce));
}

/// Tells the user about a wait.
pub fn announce(text: &str) {
    if let Some(announce) = ANNOUNCE.get() {
        announce(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_have_a_bound() {
        let pause = Duration::from_millis(100);
        let backoff = Backoff { attempts: 40, pause };
        let mut failures = Failures::default();
        for count in 1..40 {
            let longest = pause * (1 << count.min(5));
            let pause = failures.pause(&backoff).unwrap();
            assert!((longest / 2..=longest).contains(&pause), "{count}: {pause:?}");
        }
        assert_eq!(failures.pause(&backoff), None);
        failures.forget();
        let asked = [7, 3600].map(|seconds| {
            failures.pause_as_asked(&backoff, Some(Duration::from_secs(seconds))).unwrap()
        });
        assert_eq!(asked, [7, 60].map(Duration::from_secs));
        failures.forget();
        assert!(failures.pause(&backoff).is_some());
    }
}
