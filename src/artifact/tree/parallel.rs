//! Work on many things at once, with results in order and the first error in order.

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::error::{Error, Result, Stop};

/// `work` on each item, on `jobs` threads.
///
/// The error is that of the earliest item that has one, whatever the threads do.
pub fn in_parallel<T: Sync, R: Send>(
    jobs: NonZeroUsize,
    items: &[T],
    stop: &Stop,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    // No item from here on needs work any more.
    let end = AtomicUsize::new(items.len());
    let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let fail = |index, error| {
        end.fetch_min(index, Ordering::Relaxed);
        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|(other, _)| index < *other) {
            *failure = Some((index, error));
        }
    };
    let worker = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else {
                return done;
            };
            if index >= end.load(Ordering::Relaxed) {
                return done;
            }
            match stop.check().map_err(Error::from).and_then(|()| work(item)) {
                Ok(result) => done.push((index, result)),
                Err(error) => fail(index, error),
            }
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let jobs = jobs.get().min(items.len());
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .flat_map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, error)) = failure {
        return Err(error);
    }
    done.sort_unstable_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Exit, anyhow};

    fn jobs(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..1000).collect();
        for count in [1, 2, 8, 5000] {
            let stop = Stop::default();
            let doubled = in_parallel(jobs(count), &items, &stop, |item| {
                // The first is not the first to be done.
                if *item == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                Ok(item * 2)
            });
            let doubled = doubled.unwrap();
            assert!(doubled.iter().zip(&items).all(|(two, one)| *two == one * 2));
            assert_eq!(doubled.len(), items.len());
        }
        let none: Vec<u32> = in_parallel(jobs(4), &[], &Stop::default(), |item| Ok(*item)).unwrap();
        assert!(none.is_empty());
    }

    #[test]
    fn the_first_error_in_order_is_the_error() {
        let items: Vec<u32> = (0..1000).collect();
        for _ in 0..50 {
            let result = in_parallel(jobs(4), &items, &Stop::default(), |item| {
                // The earlier error takes longer.
                if *item == 70 {
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
                if *item >= 70 {
                    Err(anyhow!("{item}"))
                } else {
                    Ok(())
                }
            });
            assert_eq!(result.unwrap_err().to_string(), "70");
        }
    }

    #[test]
    fn a_stop_stops() {
        let stop = Stop::default();
        stop.flag().store(true, Ordering::Relaxed);
        let result = in_parallel(jobs(2), &[1, 2], &stop, |_| Ok(()));
        assert_eq!(Exit::of(&result.unwrap_err()), Exit::Interrupted);
    }
}
