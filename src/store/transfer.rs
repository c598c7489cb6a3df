//! Many transfers at once: each is tried, every failure is told, and a wish to stop is heard.
//!
//! How much memory they take together is for the store to bound; how many run at once is said here.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use crate::error::{Error, Exit, No, Result, Stop, anyhow, causes, hinted, hints, message};

/// Does `work` for each item, at most so many at once, and tells of each that is done as soon as it
/// is, on the thread of the caller.
///
/// A failure does not keep the others from being done. A single one is the answer itself, with its
/// causes and hints; several are one error with a line for each, and with the hints of all.
pub fn each<I: Sync, T: Send>(
    items: &[I],
    at_once: NonZeroUsize,
    stop: &Stop,
    work: impl Fn(&I) -> Result<T> + Sync,
    mut done: impl FnMut(&I, T),
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let (sender, answers) = mpsc::channel();
    let mut failed: Vec<(usize, Error)> = Vec::new();
    thread::scope(|scope| {
        for _ in 0..at_once.get().min(items.len()) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while stop.check().is_ok() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    // The caller listens until the last worker has gone.
                    let _ = sender.send((at, item, work(item)));
                }
            });
        }
        drop(sender);
        for (at, item, answer) in answers {
            match answer {
                Ok(answer) => done(item, answer),
                Err(error) => failed.push((at, error)),
            }
        }
    });
    // Whatever failed then failed for that.
    stop.check()?;
    told(failed, items.len())
}

fn told(mut failed: Vec<(usize, Error)>, tried: usize) -> Result<()> {
    failed.sort_by_key(|(at, _)| *at);
    match failed.len() {
        0 => Ok(()),
        1 => failed.pop().map_or(Ok(()), |(_, error)| Err(error)),
        _ => Err(together(&failed, tried)),
    }
}

/// How many portions there are for each thread, so that none waits long for another, and how many
/// items one has at most.
const PORTIONS: usize = 64;
const LONGEST_PORTION: usize = 64;

/// The same for work that takes no time to speak of: the answers come together at the end, in the
/// order of the items, so that no thread wakes another for each.
pub fn all<I: Sync, T: Send>(
    items: &[I],
    at_once: NonZeroUsize,
    stop: &Stop,
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let len = (items.len() / at_once.get() / PORTIONS).clamp(1, LONGEST_PORTION);
    let portions: Vec<(usize, &[I])> = items.chunks(len).enumerate().collect();
    let portion = |(_, items): &(usize, &[I])| {
        let answers = items.iter().map(|item| {
            stop.check()?;
            Ok(work(item))
        });
        answers.collect::<Result<Vec<_>>>()
    };
    let mut answers = BTreeMap::new();
    each(&portions, at_once, stop, portion, |(number, _), some| {
        answers.insert(*number, some);
    })?;
    let (mut done, mut failed) = (Vec::with_capacity(items.len()), Vec::new());
    for (at, answer) in answers.into_values().flatten().enumerate() {
        match answer {
            Ok(answer) => done.push(answer),
            Err(error) => failed.push((at, error)),
        }
    }
    told(failed, items.len())?;
    Ok(done)
}

fn together(failed: &[(usize, Error)], tried: usize) -> Error {
    let mut text = format!("{} of {tried} failed", failed.len());
    for (_, error) in failed {
        text.push_str("\n  ");
        text.push_str(&line(error));
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

/// An error and its causes in one line.
fn line(error: &Error) -> String {
    let mut line = message(error);
    for cause in causes(error) {
        line.push_str(": ");
        line.push_str(&cause);
    }
    line
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;
    use crate::error::{Context as _, Hint as _, render};

    const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

    fn fail(number: u32) -> Result<u32> {
        let answer: Result<u32> = Err(anyhow!("access denied")).hint("try `--profile`");
        answer.with_context(|| format!("put `{number}`"))
    }

    #[test]
    fn every_item_is_done_and_told() {
        let mut told = Vec::new();
        let items: Vec<u32> = (0..100).collect();
        let work = |item: &u32| Ok(item * 2);
        each(&items, TWO, &Stop::default(), work, |item, answer| {
            told.push((*item, answer));
        })
        .unwrap();
        told.sort_unstable();
        assert_eq!(told, items.iter().map(|i| (*i, i * 2)).collect::<Vec<_>>());
        each(&[], TWO, &Stop::default(), work, |_, _| ()).unwrap();
    }

    #[test]
    fn all_answers_come_in_the_order_of_the_items() {
        for count in [0, 1, 127, 128, 129, 10_000] {
            let items: Vec<u32> = (0..count).collect();
            let stop = Stop::default();
            let answers = all(&items, TWO, &stop, |item| Ok(item * 2)).unwrap();
            assert_eq!(answers, items.iter().map(|i| i * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn all_failures_are_told_and_the_rest_is_done() {
        let items: Vec<u32> = (0..1_000).collect();
        let done = Mutex::new(0);
        let work = |item: &u32| {
            *done.lock().unwrap() += 1;
            if item % 400 == 1 { fail(*item) } else { Ok(0) }
        };
        let failed = all(&items, TWO, &Stop::default(), work).unwrap_err();
        assert_eq!(*done.lock().unwrap(), 1_000);
        insta::assert_snapshot!(render(&failed), @"
        error: 3 of 1000 failed
          put `1`: access denied
          put `401`: access denied
          put `801`: access denied

        hint: try `--profile`
        ");
        let stop = Stop::default();
        let work = |_: &u32| {
            stop.flag().store(true, Ordering::Relaxed);
            *done.lock().unwrap() += 1;
            Ok(())
        };
        let stopped = all(&items, TWO, &stop, work).unwrap_err();
        assert_eq!(Exit::of(&stopped), Exit::Interrupted);
        assert!(*done.lock().unwrap() <= 1_002);
    }

    #[test]
    fn as_many_as_are_allowed_run_at_once_and_no_more() {
        // Each pair waits for its other half; a third one would be counted.
        let (pair, running) = (Barrier::new(2), Mutex::new((0, 0)));
        let work = |_: &u32| {
            {
                let mut running = running.lock().unwrap();
                running.0 += 1;
                running.1 = running.1.max(running.0);
            }
            pair.wait();
            running.lock().unwrap().0 -= 1;
            Ok(())
        };
        each(&[0; 20], TWO, &Stop::default(), work, |_, ()| ()).unwrap();
        assert_eq!(running.lock().unwrap().1, 2);
    }

    #[test]
    fn several_failures_are_told_one_line_each() {
        let mut done = Vec::new();
        let work = |item: &u32| {
            if item.is_multiple_of(2) {
                fail(*item)
            } else {
                Ok(*item)
            }
        };
        let failed = each(&[0, 1, 2, 3], TWO, &Stop::default(), work, |_, item| {
            done.push(item);
        });
        done.sort_unstable();
        assert_eq!(done, [1, 3]);
        insta::assert_snapshot!(render(&failed.unwrap_err()), @"
        error: 2 of 4 failed
          put `0`: access denied
          put `2`: access denied

        hint: try `--profile`
        ");
    }

    #[test]
    fn a_single_failure_keeps_its_causes_and_its_exit() {
        let alone = each(
            &[0, 1],
            TWO,
            &Stop::default(),
            |item: &u32| match item {
                0 => fail(0),
                item => Ok(*item),
            },
            |_, _| (),
        );
        insta::assert_snapshot!(render(&alone.unwrap_err()), @"
        error: put `0`
          caused by: access denied

        hint: try `--profile`
        ");
        let no = |_: &u32| Err::<(), _>(Error::new(No("other bytes".to_owned())));
        for items in [&[0][..], &[0, 1]] {
            let error = each(items, TWO, &Stop::default(), no, |_, ()| ()).unwrap_err();
            assert_eq!(Exit::of(&error), Exit::No);
        }
    }

    #[test]
    fn a_stop_keeps_further_items_from_being_begun() {
        let (stop, begun) = (Stop::default(), AtomicUsize::new(0));
        let work = |_: &u32| {
            begun.fetch_add(1, Ordering::Relaxed);
            stop.flag().store(true, Ordering::Relaxed);
            fail(0)
        };
        let error = each(&[0; 100], TWO, &stop, work, |_, _| ()).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Interrupted);
        assert!(begun.load(Ordering::Relaxed) <= 2);
    }
}
