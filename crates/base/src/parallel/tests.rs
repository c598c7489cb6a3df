//! Results that must not depend on the order in which threads run.

use std::{
    io,
    num::NonZeroUsize,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{map, try_each, try_map};
use crate::error::{Context as _, Error, Exit, Hint as _, No, Result, Stop, anyhow, render};

fn jobs(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

#[test]
fn results_come_in_the_order_of_the_items() {
    let items: Vec<u32> = (0..1000).collect();
    for count in [1, 2, 8, 5000] {
        let stop = Stop::default();
        let doubled = map(&items, jobs(count), &stop, |item| {
            // The first item is not the first to finish.
            if *item == 0 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            Ok(item * 2)
        });
        let doubled = doubled.unwrap();
        assert!(doubled.iter().zip(&items).all(|(two, one)| *two == one * 2));
        assert_eq!(doubled.len(), items.len());
    }
    let none: Vec<u32> = map(&[], jobs(4), &Stop::default(), |item| Ok(*item)).unwrap();
    assert!(none.is_empty());
}

#[test]
fn the_first_error_in_order_is_the_error() {
    let items: Vec<u32> = (0..1000).collect();
    for _ in 0..50 {
        let result = map(&items, jobs(4), &Stop::default(), |item| {
            // The earlier error takes longer.
            if *item == 70 {
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
            if *item >= 70 { Err(anyhow!("{item}")) } else { Ok(()) }
        });
        assert_eq!(result.unwrap_err().to_string(), "70");
    }
}

#[test]
fn a_stop_ends_a_map() {
    let stop = Stop::default();
    stop.flag().store(true, Ordering::Relaxed);
    let result = map(&[1, 2], jobs(2), &stop, |_| Ok(()));
    assert_eq!(Exit::of(&result.unwrap_err()), Exit::Interrupted);
}

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn fail(number: u32) -> Result<u32> {
    let answer: Result<u32> = Err(anyhow!("access denied")).hint("try `--profile`");
    answer.with_context(|| format!("failed to put `{number}`"))
}

#[test]
fn every_item_is_done_and_told() {
    let mut told = Vec::new();
    let items: Vec<u32> = (0..100).collect();
    let work = |item: &u32| Ok(item * 2);
    try_each(&items, TWO, &Stop::default(), work, |item, answer| {
        told.push((*item, answer));
    })
    .unwrap();
    told.sort_unstable();
    assert_eq!(told, items.iter().map(|i| (*i, i * 2)).collect::<Vec<_>>());
    try_each(&[], TWO, &Stop::default(), work, |_, _| ()).unwrap();
}

#[test]
fn try_map_has_its_results_in_order() {
    for count in [0, 1, 127, 128, 129, 10_000] {
        let items: Vec<u32> = (0..count).collect();
        let stop = Stop::default();
        let answers = try_map(&items, TWO, &stop, |item| Ok(item * 2)).unwrap();
        assert_eq!(answers, items.iter().map(|i| i * 2).collect::<Vec<_>>());
    }
}

#[test]
fn all_failures_are_reported_and_the_rest_is_done() {
    let items: Vec<u32> = (0..1_000).collect();
    let done = Mutex::new(0);
    let work = |item: &u32| {
        *done.lock().unwrap() += 1;
        if item % 400 == 1 { fail(*item) } else { Ok(0) }
    };
    let failed = try_map(&items, TWO, &Stop::default(), work).unwrap_err();
    assert_eq!(*done.lock().unwrap(), 1_000);
    insta::assert_snapshot!(render(&failed), @"
    error: 3 of 1000 failed: access denied
      failed to put `1`
      failed to put `401`
      failed to put `801`

    hint: try `--profile`
    ");
    let all = try_map(&items[..9], TWO, &Stop::default(), |item| fail(*item)).unwrap_err();
    insta::assert_snapshot!(render(&all), @"
    error: 9 of 9 failed: access denied
      failed to put `0`
      failed to put `1`
      failed to put `2`
      and 6 more, which failed like the last one

    hint: try `--profile`
    ");
    let stop = Stop::default();
    let work = |_: &u32| {
        stop.flag().store(true, Ordering::Relaxed);
        *done.lock().unwrap() += 1;
        Ok(())
    };
    let stopped = try_map(&items, TWO, &stop, work).unwrap_err();
    assert_eq!(Exit::of(&stopped), Exit::Interrupted);
    assert!(*done.lock().unwrap() <= 1_002);
}

#[test]
fn as_many_as_are_allowed_run_at_once_and_no_more() {
    // The barrier makes two workers wait for each other, and the maximum shows a third one.
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
    try_each(&[0; 20], TWO, &Stop::default(), work, |_, ()| ()).unwrap();
    assert_eq!(running.lock().unwrap().1, 2);
}

#[test]
fn several_failures_have_one_line_each() {
    let mut done = Vec::new();
    let work = |item: &u32| {
        if item.is_multiple_of(2) { fail(*item) } else { Ok(*item) }
    };
    let failed = try_each(&[0, 1, 2, 3], TWO, &Stop::default(), work, |_, item| {
        done.push(item);
    });
    done.sort_unstable();
    assert_eq!(done, [1, 3]);
    insta::assert_snapshot!(render(&failed.unwrap_err()), @"
    error: 2 of 4 failed: access denied
      failed to put `0`
      failed to put `2`

    hint: try `--profile`
    ");
}

#[test]
fn a_full_disk_is_one_cause_of_different_messages() {
    let full = |number: &u32| -> Result<()> {
        let text = format!("failed to write to file `.{number}.part`: No space left on device");
        let full = io::Error::new(io::ErrorKind::StorageFull, text);
        Err(full).with_context(|| format!("failed to put `{number}`"))
    };
    let failed = try_map(&[0, 1], TWO, &Stop::default(), full).unwrap_err();
    insta::assert_snapshot!(render(&failed), @"
    error: 2 of 2 failed: no storage space
      failed to put `0`
      failed to put `1`

    hint: free disk space, or choose another directory
    ");
}

#[test]
fn a_single_failure_keeps_its_causes_and_its_exit() {
    let alone = try_each(
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
    error: failed to put `0`
      caused by: access denied

    hint: try `--profile`
    ");
    let no = |_: &u32| Err::<(), _>(Error::new(No("other bytes".to_owned())));
    for items in [&[0][..], &[0, 1]] {
        let error = try_each(items, TWO, &Stop::default(), no, |_, ()| ()).unwrap_err();
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
    let error = try_each(&[0; 100], TWO, &stop, work, |_, _| ()).unwrap_err();
    assert_eq!(Exit::of(&error), Exit::Interrupted);
    assert!(begun.load(Ordering::Relaxed) <= 2);
}
