//! Retries: how often, and with which pauses.

use std::{
    error::Error,
    hash::{BuildHasher as _, RandomState},
    time::{Duration, Instant},
};

use crate::error::{Interrupted, Stop};

/// How soon a sleeping thread notices an interruption.
const NOTICE: Duration = Duration::from_millis(50);

/// The number of attempts and the pauses between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The number of attempts, including the first.
    pub attempts: u32,
    /// The pause after the first failure is between one and two times this. Each further pause is
    /// twice as long as the one before, up to 32 times this.
    pub pause: Duration,
}

/// Counts the consecutive failures of one request.
///
/// ```
/// # use std::time::Duration;
/// # use rocwheel::{error::{Stop, anyhow}, retry::{Backoff, Failures, sleep}};
/// # let (backoff, stop) = (Backoff { attempts: 3, pause: Duration::ZERO }, Stop::default());
/// # let request = || Err::<(), _>(anyhow!("no answer"));
/// let mut failures = Failures::default();
/// let answer = loop {
///     let error = match request() {
///         Ok(answer) => break Ok(answer),
///         Err(error) => error,
///     };
///     match failures.pause(&backoff) {
///         Some(pause) => sleep(pause, &stop)?,
///         None => break Err(error),
///     }
/// };
/// # assert!(answer.is_err());
/// # Ok::<(), rocwheel::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Failures(u32);

impl Failures {
    /// Counts a failure. Returns the pause before the next attempt, or `None` if it was the last
    /// one.
    pub fn pause(&mut self, backoff: &Backoff) -> Option<Duration> {
        self.0 = self.0.saturating_add(1);
        (self.0 < backoff.attempts).then(|| backoff.pause(self.0))
    }

    /// Resets the count. Call it after a success, because only consecutive failures count.
    pub fn forget(&mut self) {
        self.0 = 0;
    }
}

impl Backoff {
    /// The attempts for a request that failed in this way. If a host name does not resolve, there is
    /// mostly no network, or the name is wrong: both stay so for longer than the pauses.
    #[must_use]
    pub fn after(self, error: &(dyn Error + 'static)) -> Self {
        let mut causes = anyhow::Chain::new(error);
        let is_unresolved = causes.any(|cause| cause.to_string().contains("dns error"));
        let attempts = if is_unresolved {
            self.attempts.min(2)
        } else {
            self.attempts
        };
        Self { attempts, ..self }
    }

    /// The pause after this many failures. It is random: without that, all clients of a server that
    /// failed would retry at the same moment and overload it again.
    fn pause(&self, failures: u32) -> Duration {
        let longest = self.pause.saturating_mul(1 << failures.min(5));
        let random = RandomState::new().hash_one(failures) % 1024;
        longest / 2 + longest / 2048 * u32::try_from(random).unwrap_or(0)
    }
}

/// Sleeps. Returns early if the user interrupts.
pub fn sleep(time: Duration, stop: &Stop) -> Result<(), Interrupted> {
    let start = Instant::now();
    loop {
        stop.check()?;
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(NOTICE));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn pauses_grow_and_have_a_bound() {
        let pause = Duration::from_millis(100);
        let backoff = Backoff {
            attempts: 40,
            pause,
        };
        let mut failures = Failures::default();
        for count in 1..40 {
            let longest = pause * (1 << count.min(5));
            let pause = failures.pause(&backoff).unwrap();
            assert!(
                (longest / 2..=longest).contains(&pause),
                "{count}: {pause:?}"
            );
        }
        assert_eq!(failures.pause(&backoff), None);
        failures.forget();
        assert!(failures.pause(&backoff).is_some());
    }

    #[test]
    fn a_name_that_does_not_resolve_is_asked_for_twice() {
        let backoff = Backoff {
            attempts: 5,
            pause: Duration::ZERO,
        };
        let after = |text: &'static str| {
            let error = anyhow::anyhow!(text).context("client error (Connect)");
            backoff.after(error.as_ref()).attempts
        };
        assert_eq!([after("dns error"), after("connection refused")], [2, 5]);
    }

    #[test]
    fn sleep_ends_when_the_user_stops() {
        let stop = Stop::default();
        assert!(sleep(Duration::ZERO, &stop).is_ok());
        stop.flag().store(true, Ordering::Relaxed);
        assert!(sleep(Duration::from_hours(1), &stop).is_err());
    }
}
