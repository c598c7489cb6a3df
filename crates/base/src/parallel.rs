//! Parallel work on threads that end before the call returns, and that stop when a [`Stop`] is set.
//! Results come in the order of the items.

mod ahead;
mod ordered;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    future::Future,
    num::NonZeroUsize,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tokio::runtime::{Builder, Runtime};

pub use self::{
    ahead::ahead,
    ordered::{Limits, ordered},
};
use crate::error::{
    Error, Exit, Interrupted, No, Result, Stop, advise, anyhow, full_disk, hinted, hints,
    last_cause, message, one_line,
};

/// Each thread takes about this many portions of the items, so that the threads finish at about the
/// same time; and the largest number of items in a portion.
const PORTIONS: usize = 64;
const LONGEST_PORTION: usize = 64;
/// How many failures with the same cause are listed.
const MOST_ALIKE: usize = 3;

/// Applies `work` to each item. The results are in the order of the items.
///
/// The first failure ends the work. If several items fail, the error of the earliest item is returned,
/// so that the same input always fails with the same error.
pub fn map<I: Sync, T: Send>(
    items: &[I],
    jobs: NonZeroUsize,
    stop: &Stop,
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (done, failed) = collect(items, jobs, stop, true, work)?;
    failed.into_iter().next().map_or(Ok(done), Err)
}

/// Like [`map`], but tries all items even if some fail.
///
/// A single failure is returned as it is, with its causes and hints. Several are combined into one
/// error, with a line for each and with the hints of all.
pub fn try_map<I: Sync, T: Send>(
    items: &[I],
    jobs: NonZeroUsize,
    stop: &Stop,
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (done, failed) = collect(items, jobs, stop, false, work)?;
    all_failures(failed, items.len())?;
    Ok(done)
}

/// Like [`try_map`], for long-running work: passes each result to `done` as soon as it is
/// available, on the thread of the caller; of thousands of items, several results together.
pub fn try_each<I: Sync, T: Send>(
    items: &[I],
    jobs: NonZeroUsize,
    stop: &Stop,
    work: impl Fn(&I) -> Result<T> + Sync,
    mut done: impl FnMut(&I, T),
) -> Result<()> {
    let done = |at: usize, result| done(&items[at], result);
    let failed = run(items, jobs, stop, false, work, done)?;
    all_failures(failed, items.len())
}

/// Runs the work, and returns the results and the failures, both in the order of the items.
fn collect<I: Sync, T: Send>(
    items: &[I],
    jobs: NonZeroUsize,
    stop: &Stop,
    ends_early: bool,
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<(Vec<T>, Vec<Error>)> {
    let mut done = Vec::with_capacity(items.len());
    let take = |at, result| done.push((at, result));
    let failed = run(items, jobs, stop, ends_early, work, take)?;
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok((done.into_iter().map(|(_, result)| result).collect(), failed))
}

/// The loop behind the other functions. Workers take the next portion of items until none is left,
/// `stop` is set or, if a failure ends the work early, an earlier item has failed. Returns the
/// failures in the order of the items.
///
/// The results of a portion are sent together: for items that take microseconds, waking the
/// receiver for each of them would take longer than the work.
fn run<I: Sync, T: Send>(
    items: &[I],
    jobs: NonZeroUsize,
    stop: &Stop,
    ends_early: bool,
    work: impl Fn(&I) -> Result<T> + Sync,
    mut done: impl FnMut(usize, T),
) -> Result<Vec<Error>> {
    let portion = (items.len() / jobs.get() / PORTIONS).clamp(1, LONGEST_PORTION);
    let next = AtomicUsize::new(0);
    let end = AtomicUsize::new(items.len());
    let is_due = |at: usize| at < end.load(Ordering::Relaxed) && stop.check().is_ok();
    let attempt = |at: usize| {
        let result = work(&items[at]);
        if ends_early && result.is_err() {
            end.fetch_min(at, Ordering::Relaxed);
        }
        (at, result)
    };
    let mut failed = Vec::new();
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(items.len().div_ceil(portion)) {
            // Each thread has its own sender, and borrows the rest.
            let sender = sender.clone();
            let next = &next;
            let is_due = &is_due;
            let attempt = &attempt;
            scope.spawn(move || {
                loop {
                    let from = next.fetch_add(portion, Ordering::Relaxed);
                    if !is_due(from) {
                        return;
                    }
                    let due = (from..items.len().min(from + portion)).take_while(|at| is_due(*at));
                    // Cannot fail: the caller receives until the last worker has ended.
                    let _ = sender.send(due.map(attempt).collect::<Vec<_>>());
                }
            });
        }
        drop(sender);
        for (at, result) in results.into_iter().flatten() {
            match result {
                Ok(result) => done(at, result),
                Err(error) => failed.push((at, error)),
            }
        }
    });
    // An interrupted item can fail in many ways. Report the interruption instead.
    stop.check()?;
    failed.sort_unstable_by_key(|(at, _)| *at);
    Ok(failed.into_iter().map(|(_, error)| error).collect())
}

/// Combines several failures into one error.
fn all_failures(mut failed: Vec<Error>, tried: usize) -> Result<()> {
    if failed.len() < 2 {
        return failed.pop().map_or(Ok(()), Err);
    }
    let advised: Vec<Error> = failed.into_iter().map(advise).collect();
    let headline = format!("{} of {tried} failed{}", advised.len(), in_words(&advised));
    let advice: BTreeSet<String> = advised.iter().flat_map(hints).collect();
    let is_no = advised.iter().any(|error| Exit::of(error) == Exit::No);
    let error = if is_no { Error::new(No(headline)) } else { anyhow!(headline) };
    Err(advice.into_iter().fold(error, hinted))
}

/// What failed, and why. One full disk or one wrong key fails many items: then its words come once,
/// before the items.
fn in_words(failed: &[Error]) -> String {
    let cause = |error: &Error| full_disk(error).unwrap_or_else(|| last_cause(error.as_ref()));
    let alike = |a: &Error, b: &Error| cause(a) == cause(b);
    let mut text = String::new();
    let is_one = failed.windows(2).all(|pair| alike(&pair[0], &pair[1]));
    if is_one {
        let _ = write!(text, ": {}", failed.first().map(cause).unwrap_or_default());
    }
    for alike in failed.chunk_by(alike) {
        for error in alike.iter().take(MOST_ALIKE) {
            let words = if is_one { message(error) } else { one_line(error) };
            let _ = write!(text, "\n  {words}");
        }
        if let Some(more @ 1..) = alike.len().checked_sub(MOST_ALIKE) {
            let _ = write!(text, "\n  and {more} more, which failed like the last one");
        }
    }
    text
}

/// The threads of the only asynchronous runtime of the process. Requests mostly wait for the network,
/// so a few threads serve all of them.
const THREADS: usize = 4;
/// How soon a waiting thread notices that the user asked to stop.
const NOTICE: Duration = Duration::from_millis(50);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("network")
        .enable_all()
        .build()
        .expect("threads can be started")
});

/// The one runtime of the process, made at the first call. It is never shut down.
pub fn runtime() -> &'static Runtime {
    &RUNTIME
}

/// Runs a future until it ends or the user interrupts.
pub fn wait<T>(stop: &Stop, future: impl Future<Output = T>) -> Result<T, Interrupted> {
    RUNTIME.block_on(async {
        let stopped = async {
            while stop.check().is_ok() {
                tokio::time::sleep(NOTICE).await;
            }
        };
        tokio::select! {
            biased;
            done = future => Ok(done),
            () = stopped => Err(Interrupted),
        }
    })
}

/// Sleeps until the time is over or the user interrupts.
pub fn sleep(stop: &Stop, time: Duration) -> Result<(), Interrupted> {
    // A timer can only be made inside of the runtime.
    wait(stop, async { tokio::time::sleep(time).await })
}

#[cfg(test)]
mod tests;
