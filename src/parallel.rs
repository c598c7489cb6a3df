//! Parallel work on threads that end before the call returns, and that stop when a [`Stop`] is set.
//! Results come in the order of the items.

mod parts;

use std::{
    collections::BTreeSet,
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

pub use self::parts::{Divide, in_parts};
use crate::error::{Error, Exit, Interrupted, No, Result, Stop, anyhow, hinted, hints, one_line};

/// Each thread takes about this many portions of the items, so that the threads finish at about the
/// same time; and the largest number of items in a portion.
const PORTIONS: usize = 64;
const LONGEST_PORTION: usize = 64;

/// Applies `work` to each item. The results are in the order of the items.
///
/// The first failure ends the work. If several items fail, the error is that of the earliest one,
/// so that the same input always fails with the same error.
pub fn map<I: Sync, T: Send>(
    items: &[I],
    jobs: NonZeroUsize,
    stop: &Stop,
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let end = AtomicUsize::new(items.len());
    let work = |at: usize, item: &I| {
        let result = work(item);
        if result.is_err() {
            end.fetch_min(at, Ordering::Relaxed);
        }
        result
    };
    let (done, failed) = collect(items, (jobs, stop), &end, work)?;
    failed
        .into_iter()
        .next()
        .map_or(Ok(done), |(_, it)| Err(it))
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
    let end = AtomicUsize::new(items.len());
    let (done, failed) = collect(items, (jobs, stop), &end, |_, item| work(item))?;
    all_failures(failed, items.len())?;
    Ok(done)
}

/// Like [`try_map`], for long-running work: passes each result to `done` as soon as it is
/// available, on the thread of the caller.
pub fn try_each<I: Sync, T: Send>(
    items: &[I],
    jobs: NonZeroUsize,
    stop: &Stop,
    work: impl Fn(&I) -> Result<T> + Sync,
    mut done: impl FnMut(&I, T),
) -> Result<()> {
    let end = AtomicUsize::new(items.len());
    let mut failed = Vec::new();
    let work = |_: usize, item: &I| work(item);
    run(items, 1, (jobs, stop), &end, work, |at, result| {
        match (items.get(at), result) {
            (Some(item), Ok(result)) => done(item, result),
            (_, Err(error)) => failed.push((at, error)),
            (None, _) => {}
        }
    });
    stop.check()?;
    failed.sort_by_key(|(at, _)| *at);
    all_failures(failed, items.len())
}

type Failures = Vec<(usize, Error)>;

/// Runs the work, and returns the results and the failures, both in the order of the items.
fn collect<I: Sync, T: Send>(
    items: &[I],
    (jobs, stop): (NonZeroUsize, &Stop),
    end: &AtomicUsize,
    work: impl Fn(usize, &I) -> Result<T> + Sync,
) -> Result<(Vec<T>, Failures)> {
    let portion = (items.len() / jobs.get() / PORTIONS).clamp(1, LONGEST_PORTION);
    let mut all = Vec::with_capacity(items.len());
    run(items, portion, (jobs, stop), end, work, |at, result| {
        all.push((at, result));
    });
    // An interrupted item can fail in many ways. Report the interruption instead.
    stop.check()?;
    all.sort_unstable_by_key(|(at, _)| *at);
    let (mut done, mut failed) = (Vec::with_capacity(all.len()), Vec::new());
    for (at, result) in all {
        match result {
            Ok(result) => done.push(result),
            Err(error) => failed.push((at, error)),
        }
    }
    Ok((done, failed))
}

/// The loop behind the other functions. Workers take the next portion of items until they reach
/// `end` or `stop` is set.
///
/// The results of a portion are sent together: for items that take microseconds, waking the
/// receiver for each of them would take longer than the work.
fn run<I: Sync, T: Send>(
    items: &[I],
    portion: usize,
    (jobs, stop): (NonZeroUsize, &Stop),
    end: &AtomicUsize,
    work: impl Fn(usize, &I) -> Result<T> + Sync,
    mut done: impl FnMut(usize, Result<T>),
) {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(items.len().div_ceil(portion)) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let from = next.fetch_add(portion, Ordering::Relaxed);
                    let is_due =
                        |at: usize| at < end.load(Ordering::Relaxed) && stop.check().is_ok();
                    if !is_due(from) {
                        return;
                    }
                    let items = items.iter().enumerate().skip(from).take(portion);
                    let due = items.take_while(|(at, _)| is_due(*at));
                    let results: Vec<_> = due.map(|(at, item)| (at, work(at, item))).collect();
                    // Cannot fail: the caller receives until the last worker has ended.
                    let _ = sender.send(results);
                }
            });
        }
        drop(sender);
        for (at, result) in results.into_iter().flatten() {
            done(at, result);
        }
    });
}

fn all_failures(mut failed: Failures, tried: usize) -> Result<()> {
    match failed.len() {
        0 => Ok(()),
        1 => failed.pop().map_or(Ok(()), |(_, error)| Err(error)),
        _ => Err(together(&failed, tried)),
    }
}

/// Combines several failures into one error.
fn together(failed: &Failures, tried: usize) -> Error {
    let mut text = format!("{} of {tried} failed", failed.len());
    for (_, error) in failed {
        text.push_str("\n  ");
        text.push_str(&one_line(error));
    }
    let advice: BTreeSet<String> = failed.iter().flat_map(|(_, error)| hints(error)).collect();
    let is_no = failed.iter().any(|(_, error)| Exit::of(error) == Exit::No);
    let error = if is_no {
        Error::new(No(text))
    } else {
        anyhow!(text)
    };
    advice.into_iter().fold(error, hinted)
}

/// The threads of the only asynchronous runtime of the process. Requests mostly wait for the network,
/// so a few threads serve all of them.
const THREADS: usize = 4;
/// How soon a waiting thread notices that the user asked to stop.
const NOTICE: Duration = Duration::from_millis(50);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(THREADS).thread_name("network");
    builder
        .enable_all()
        .build()
        .expect("threads can be started")
});

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

#[cfg(test)]
mod tests;
