//! [`Stop`] ends work early: because the user interrupted, or because a time limit has passed.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::error::{Exit, Result};

/// The user interrupted the work. No incomplete file has a final name.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Work exceeded its time limit.
#[derive(Debug, thiserror::Error)]
#[error("the time is over")]
pub struct TimeOver;

/// A flag that a signal handler sets when the user interrupts. Work checks it between two steps.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// The deadline of [`Stop::within`].
    until: Arc<RwLock<Option<Instant>>>,
}

impl Stop {
    /// The flag itself, for the signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// Fails once the user has interrupted, or once the deadline of [`Stop::within`] has passed.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.asked.load(Ordering::Relaxed) || self.is_late() { Err(Interrupted) } else { Ok(()) }
    }

    /// Runs work with a time limit. If the work checks this `Stop` after the limit, it ends with
    /// [`TimeOver`]. Within the work of another limit, the earlier one counts.
    pub fn within<T>(&self, time: Duration, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let outer = *self.until.read().unwrap_or_else(PoisonError::into_inner);
        let inner = Instant::now().checked_add(time);
        self.set_end(outer.into_iter().chain(inner).min());
        let done = work();
        let late = self.is_late();
        self.set_end(outer);
        match done {
            Err(error) if late && self.check().is_ok() && Exit::of(&error) == Exit::Interrupted => {
                Err(TimeOver.into())
            }
            done => done,
        }
    }

    fn set_end(&self, end: Option<Instant>) {
        *self.until.write().unwrap_or_else(PoisonError::into_inner) = end;
    }

    fn is_late(&self) -> bool {
        let until = self.until.read().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|end| Instant::now() >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::bail;

    #[test]
    fn a_stop_shows_in_every_copy_of_it() {
        let stop = Stop::default();
        let seen_by_a_worker = stop.clone();
        assert!(seen_by_a_worker.check().is_ok());
        stop.flag().store(true, Ordering::Relaxed);
        assert!(seen_by_a_worker.check().is_err());
    }

    #[test]
    fn work_that_takes_too_long_stops_and_the_next_does_not() {
        let stop = Stop::default();
        let seen_by_a_worker = stop.clone();
        let work = || Ok(seen_by_a_worker.check()?);
        let error = stop.within(Duration::ZERO, work).unwrap_err();
        assert!(error.is::<TimeOver>());
        stop.within(Duration::from_hours(1), work).unwrap();
        work().unwrap();
        // Other errors, and an interruption by the user, are returned unchanged.
        let broken = || -> Result<()> { bail!("the disk is full") };
        let error = stop.within(Duration::ZERO, broken).unwrap_err();
        assert_eq!(error.to_string(), "the disk is full");
        stop.flag().store(true, Ordering::Relaxed);
        let error = stop.within(Duration::ZERO, work).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Interrupted);
    }

    #[test]
    fn a_limit_in_the_work_of_another_ends_with_it() {
        let stop = Stop::default();
        let inner = || {
            stop.within(Duration::from_hours(1), || Ok(()))?;
            // The outer limit still counts after the inner one.
            stop.check()?;
            Ok(())
        };
        let error = stop.within(Duration::ZERO, inner).unwrap_err();
        assert!(error.is::<TimeOver>(), "{error:#}");
        assert!(stop.check().is_ok());
    }
}
