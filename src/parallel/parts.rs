//! Parallel work on items that divide into parts, with a bound on the memory of all open items.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::error::{Error, Result, Stop};

/// Work on items, each of which opens into several parts, such as the code objects of a bundle.
///
/// The methods are called from several threads.
pub trait Divide: Sync {
    type Item: Sync;
    type Opened: Send + Sync;
    type Done: Send;

    /// The memory that an item needs, from when it is opened until its last part was taken.
    fn cost(&self, item: &Self::Item) -> u64;
    /// Opens an item. Returns it with the number of its parts.
    fn open(&self, item: &Self::Item) -> Result<(Self::Opened, usize)>;
    /// Processes one part of an open item.
    fn work(&self, item: &Self::Item, opened: &Self::Opened, part: usize) -> Result<Self::Done>;
}

/// The index of an item, and of a part in it.
type At = (usize, usize);

/// Opens items and processes their parts on `jobs` threads. Calls `take` on this thread with each
/// result, in order.
///
/// The open items cost at most `room` together; an item that costs more is opened alone. The error
/// is that of the earliest part that failed.
pub fn in_parts<D: Divide>(
    how: &D,
    items: &[D::Item],
    jobs: NonZeroUsize,
    room: u64,
    stop: &Stop,
    mut take: impl FnMut(usize, usize, D::Done) -> Result<()>,
) -> Result<()> {
    let shared = SharedParts {
        how,
        items,
        room,
        stop,
        state: Mutex::new(PartsState {
            unopened: 0,
            used: 0,
            ready: VecDeque::new(),
            done: BTreeMap::new(),
            parts: BTreeMap::new(),
            wanted: (0, 0),
            failure: None,
            closed: false,
        }),
        change: Condvar::new(),
    };
    thread::scope(|scope| {
        for _ in 0..jobs.get() {
            scope.spawn(|| shared.run_worker());
        }
        let _leave = Leave(&shared);
        while let Some((place, done)) = shared.next()? {
            take(place.0, place.1, done)?;
        }
        Ok(())
    })
}

struct SharedParts<'a, D: Divide> {
    how: &'a D,
    items: &'a [D::Item],
    room: u64,
    stop: &'a Stop,
    state: Mutex<PartsState<D>>,
    change: Condvar,
}

struct PartsState<D: Divide> {
    /// The first item that was not opened yet.
    unopened: usize,
    /// The cost of all open items.
    used: u64,
    /// Parts that are ready to be processed.
    ready: VecDeque<(At, Arc<D::Opened>)>,
    /// Results that were not taken yet.
    done: BTreeMap<At, D::Done>,
    /// The number of parts of each open item.
    parts: BTreeMap<usize, usize>,
    /// The part that is taken next.
    wanted: At,
    /// The failure of the earliest part that has failed so far.
    failure: Option<(At, Error)>,
    closed: bool,
}

impl<D: Divide> PartsState<D> {
    /// Whether no earlier part has failed, so that the result of this part can still be taken.
    fn counts(&self, place: At) -> bool {
        self.failure.as_ref().is_none_or(|(at, _)| place < *at)
    }

    fn fail(&mut self, place: At, error: Error) {
        if self.counts(place) {
            self.failure = Some((place, error));
        }
    }
}

impl<D: Divide> SharedParts<'_, D> {
    fn lock(&self) -> MutexGuard<'_, PartsState<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, PartsState<D>>) -> MutexGuard<'a, PartsState<D>> {
        let woken = self.change.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    fn run_worker(&self) {
        let _leave = Leave(self);
        while let Some((place, opened)) = self.task() {
            match opened {
                None => self.open(place.0),
                Some(opened) => {
                    let work = |item: &_| self.how.work(item, &opened, place.1);
                    if let Some(done) = self.attempt(place, work) {
                        self.lock().done.insert(place, done);
                    }
                }
            }
            self.change.notify_all();
        }
    }

    /// The next part to work on, or the next item to open; blocks until there is one. Parts come
    /// before new items, because finished items make room.
    fn task(&self) -> Option<(At, Option<Arc<D::Opened>>)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            while let Some((place, opened)) = state.ready.pop_front() {
                if state.counts(place) {
                    return Some((place, Some(opened)));
                }
            }
            // Items are opened in order. So all items before the one that `next` waits for are done
            // and have returned their memory, and that one can always be opened: no deadlock.
            let index = state.unopened;
            let item = self.items.get(index).filter(|_| state.counts((index, 0)));
            let cost = item.map_or(0, |item| self.how.cost(item));
            let fits = state.used == 0 || state.used.saturating_add(cost) <= self.room;
            if item.is_some() && fits {
                state.unopened += 1;
                state.used = state.used.saturating_add(cost);
                return Some(((index, 0), None));
            }
            state = self.wait(state);
        }
    }

    fn open(&self, index: usize) {
        let opened = self.attempt((index, 0), |item| self.how.open(item));
        let Some((opened, parts)) = opened else {
            return;
        };
        let opened = Arc::new(opened);
        let ready = (0..parts).map(|part| ((index, part), Arc::clone(&opened)));
        let mut state = self.lock();
        state.ready.extend(ready);
        state.parts.insert(index, parts);
    }

    /// Does a step, unless the user has interrupted, and keeps its failure.
    fn attempt<T>(&self, place: At, step: impl FnOnce(&D::Item) -> Result<T>) -> Option<T> {
        let item = self.items.get(place.0)?;
        let interrupted = self.stop.check().map_err(Error::from);
        let done = interrupted.and_then(|()| step(item));
        done.map_err(|error| self.lock().fail(place, error)).ok()
    }

    /// The next result in order; blocks until it is available. `None` after the last one.
    fn next(&self) -> Result<Option<(At, D::Done)>> {
        let mut state = self.lock();
        loop {
            let place = state.wanted;
            let Some(item) = self.items.get(place.0) else {
                return Ok(None);
            };
            if !state.counts(place) {
                return match state.failure.take() {
                    Some((_, error)) => Err(error),
                    None => Ok(None),
                };
            }
            if state.parts.get(&place.0) == Some(&place.1) {
                state.parts.remove(&place.0);
                state.used = state.used.saturating_sub(self.how.cost(item));
                state.wanted = (place.0 + 1, 0);
                self.change.notify_all();
                continue;
            }
            if let Some(done) = state.done.remove(&place) {
                state.wanted.1 += 1;
                return Ok(Some((place, done)));
            }
            // A worker panicked. The end of the thread scope propagates the panic.
            if state.closed {
                return Ok(None);
            }
            state = self.wait(state);
        }
    }
}

/// Ends all threads on drop: when the caller returns early, and when a worker panics.
struct Leave<'a, 'b, D: Divide>(&'a SharedParts<'b, D>);

impl<D: Divide> Drop for Leave<'_, '_, D> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.change.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::error::{Exit, anyhow};

    /// Numbers that open into as many parts; some fail.
    #[derive(Default)]
    struct Numbers {
        open: AtomicU64,
        most: AtomicU64,
        fail: Vec<At>,
    }

    impl Divide for Numbers {
        type Item = usize;
        type Opened = usize;
        type Done = usize;

        fn cost(&self, item: &usize) -> u64 {
            *item as u64
        }

        fn open(&self, item: &usize) -> Result<(usize, usize)> {
            let open = self.open.fetch_add(self.cost(item), Ordering::Relaxed) + self.cost(item);
            self.most.fetch_max(open, Ordering::Relaxed);
            Ok((*item, *item))
        }

        fn work(&self, item: &usize, opened: &usize, part: usize) -> Result<usize> {
            if (item + part).is_multiple_of(3) {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            if self.fail.contains(&(*item, part)) {
                return Err(anyhow!("{item}.{part}"));
            }
            Ok(opened * 100 + part)
        }
    }

    fn run(how: &Numbers, items: &[usize], jobs: usize, room: u64) -> Result<Vec<usize>> {
        let mut taken = Vec::new();
        let jobs = NonZeroUsize::new(jobs).unwrap();
        in_parts(
            how,
            items,
            jobs,
            room,
            &Stop::default(),
            |index, part, done| {
                taken.push(done);
                if part + 1 == items[index] {
                    how.open.fetch_sub(items[index] as u64, Ordering::Relaxed);
                }
                Ok(())
            },
        )
        .map(|()| taken)
    }

    #[test]
    fn parts_come_in_order_however_the_threads_are_scheduled() {
        let items = [3, 0, 5, 1, 0, 0, 7, 2, 9];
        let expected: Vec<usize> = items
            .iter()
            .flat_map(|item| (0..*item).map(move |part| item * 100 + part))
            .collect();
        for jobs in [1, 2, 8] {
            for room in [0, 6, 1000] {
                let how = Numbers::default();
                assert_eq!(run(&how, &items, jobs, room).unwrap(), expected);
                let most = how.most.load(Ordering::Relaxed);
                assert!(most <= room.max(9), "{most} of {room}");
            }
        }
        assert!(run(&Numbers::default(), &[], 3, 9).unwrap().is_empty());
    }

    #[test]
    fn the_earliest_error_is_the_error() {
        for _ in 0..50 {
            let how = Numbers {
                fail: vec![(6, 3), (8, 0), (6, 5)],
                ..Numbers::default()
            };
            let error = run(&how, &[2, 6, 1, 8, 4], 4, 1000).unwrap_err();
            assert_eq!(error.to_string(), "6.3");
        }
    }

    #[test]
    fn who_takes_may_give_up_and_so_may_the_user() {
        let jobs = NonZeroUsize::new(3).unwrap();
        let how = Numbers::default();
        let refuse = |_, _, _| Err(anyhow!("full"));
        let error = in_parts(&how, &[2, 3], jobs, 9, &Stop::default(), refuse).unwrap_err();
        assert_eq!(error.to_string(), "full");
        let stop = Stop::default();
        stop.flag().store(true, Ordering::Relaxed);
        let error = in_parts(&how, &[2, 3], jobs, 9, &stop, |_, _, _| Ok(())).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Interrupted);
    }
}
