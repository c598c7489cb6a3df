//! Parallel work whose results are used in the order of the items, with a bound on what is under way.

use std::{
    num::NonZeroUsize,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};

use crate::error::{Context as _, Result, Stop};

/// How much may be under way at the same time.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// How many threads work.
    pub jobs: NonZeroUsize,
    /// The cost of all items from when they are begun until their results are taken. An item that
    /// costs more is worked on alone.
    pub room: u64,
    /// Ends the work early when the user interrupts.
    pub stop: &'a Stop,
}

/// Does `work` on threads, each with a `state` of its own, and passes the results to `take` on this
/// thread, in the order of the items.
///
/// Each item comes with its cost. One thread at a time asks for the next item, so the iterator may
/// read a stream. The first failure, in the order of the items, ends the work.
pub fn ordered<I: Send, S, T: Send>(
    items: impl Iterator<Item = (u64, I)> + Send,
    limits: Limits<'_>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, I) -> Result<T> + Sync,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let Limits { jobs, room, stop } = limits;
    let items = Mutex::new(items);
    let room = Room::new(room);
    let (sender, tickets) = mpsc::channel();
    thread::scope(|scope| {
        // Ends the threads when this one returns, also with an error or by a panic.
        let _over = Over(&room);
        for _ in 0..jobs.get() {
            // Each thread has its own sender, and borrows the rest.
            let sender = sender.clone();
            let items = &items;
            let room = &room;
            let state = &state;
            let work = &work;
            let next = move |state: &mut S| {
                // Poisoned if the iterator panicked. The other threads then end as well.
                let mut items = items.lock().ok()?;
                stop.check().ok()?;
                let (cost, item) = items.next()?;
                room.take(cost)?;
                // Sent under the lock under which the item was taken, so that tickets are in the
                // order of the items, even if the results arrive in another order.
                let (reply, ticket) = mpsc::channel();
                sender.send((cost, ticket)).ok()?;
                drop(items);
                reply.send(work(state, item)).ok()
            };
            let run = move || {
                let mut state = state();
                while next(&mut state).is_some() {}
            };
            thread::Builder::new().spawn_scoped(scope, run).context("failed to start a thread")?;
        }
        drop(sender);
        for (cost, ticket) in tickets {
            // A thread that panicked sends nothing. The end of the scope passes the panic on.
            let Ok(done) = ticket.recv() else { break };
            // An interrupted item can fail in many ways. Report the interruption instead.
            stop.check()?;
            take(done?)?;
            room.give(cost);
        }
        Ok(stop.check()?)
    })
}

/// What is left of the bound.
struct Room {
    most: u64,
    /// What is used. `None` once the work is over.
    used: Mutex<Option<u64>>,
    change: Condvar,
}

impl Room {
    fn new(most: u64) -> Self {
        Self { most, used: Mutex::new(Some(0)), change: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<u64>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room. `None` if the work is over.
    ///
    /// Items are begun in order. So all before this one are on their way to be taken, and give their
    /// room back: no deadlock.
    fn take(&self, cost: u64) -> Option<()> {
        let mut used = self.lock();
        while let Some(now) = *used {
            let then = now.saturating_add(cost);
            if now == 0 || then <= self.most {
                *used = Some(then);
                return Some(());
            }
            let woken = self.change.wait(used);
            used = woken.unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn give(&self, cost: u64) {
        let mut used = self.lock();
        *used = used.map(|now| now.saturating_sub(cost));
        self.change.notify_all();
    }
}

struct Over<'a>(&'a Room);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
        self.0.change.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::error::{Exit, anyhow};

    /// Squares of these numbers, each of which costs itself; and the largest cost at one time.
    fn squares(
        items: &[u64],
        jobs: usize,
        room: u64,
        is_good: impl Fn(u64) -> bool + Sync,
    ) -> (Result<Vec<u64>>, u64) {
        let (open, most, mut taken) = (AtomicU64::new(0), AtomicU64::new(0), Vec::new());
        let done = ordered(
            items.iter().map(|item| (*item, *item)),
            Limits { jobs: NonZeroUsize::new(jobs).unwrap(), room, stop: &Stop::default() },
            || (),
            |(), item| {
                let now = open.fetch_add(item, Ordering::Relaxed) + item;
                most.fetch_max(now, Ordering::Relaxed);
                if item.is_multiple_of(3) {
                    thread::sleep(std::time::Duration::from_millis(1));
                }
                if is_good(item) { Ok(item) } else { Err(anyhow!("{item}")) }
            },
            |item| {
                open.fetch_sub(item, Ordering::Relaxed);
                taken.push(item * item);
                Ok(())
            },
        );
        (done.map(|()| taken), most.into_inner())
    }

    #[test]
    fn results_come_in_order_however_the_threads_are_scheduled() {
        let items = [3, 0, 5, 1, 0, 0, 7, 2, 9, 9, 1, 6];
        for jobs in [1, 2, 8] {
            for room in [0, 6, 1000] {
                let (taken, most) = squares(&items, jobs, room, |_| true);
                assert_eq!(taken.unwrap(), items.map(|item| item * item));
                assert!(most <= room.max(9), "{most} of {room}");
            }
        }
        assert!(squares(&[], 3, 9, |_| true).0.unwrap().is_empty());
    }

    #[test]
    fn the_earliest_error_is_the_error() {
        for _ in 0..50 {
            let (done, _) = squares(&[2, 6, 1, 8, 4], 4, 1000, |item| ![6, 4].contains(&item));
            assert_eq!(done.unwrap_err().to_string(), "6");
        }
    }

    #[test]
    fn who_takes_may_give_up_and_so_may_the_user() {
        let stop = Stop::default();
        let run = |take: &dyn Fn() -> Result<()>| {
            let limits = Limits { jobs: NonZeroUsize::new(3).unwrap(), room: 9, stop: &stop };
            let endless = std::iter::repeat((4, ()));
            ordered(endless, limits, || (), |(), ()| Ok(()), |()| take()).unwrap_err()
        };
        assert_eq!(run(&|| Err(anyhow!("full"))).to_string(), "full");
        let interrupt = || {
            stop.flag().store(true, Ordering::Relaxed);
            Ok(())
        };
        assert_eq!(Exit::of(&run(&interrupt)), Exit::Interrupted);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_leaves_no_one_waiting() {
        let _ = squares(&[1, 2, 3, 4, 5], 2, 4, |item| {
            assert!(item != 3, "this item panics");
            true
        });
    }
}
