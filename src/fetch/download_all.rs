//! Downloads all due parcels, several at once. A failed parcel does not end the others; all
//! failures are reported together at the end.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use super::{
    download::{Ground, Received, receive},
    output::OutputDir,
    plan::FetchPlan,
    source::{ArchiveSource, Parcel},
    space,
    state::Sufficiency,
};
use crate::{
    console::{World, few, many, size, took},
    error::{Error, No, Result, hinted, hints, one_line},
    parallel,
};

/// Carries out a plan: downloads what is due and, with `--flatten`, merges it into one tree.
pub(super) fn deliver(
    source: &dyn ArchiveSource,
    plan: &FetchPlan,
    (output, enough): (&OutputDir, &Sufficiency),
    at_once: NonZeroUsize,
    world: &World,
) -> Result<()> {
    let mut due = plan.due();
    if !due.is_empty() {
        space::check(&output.root, output.form, plan.size(), world)?;
    }
    let (wanted, names) = (plan.wanted(), plan.due_names());
    output.state.begin(&plan.from, wanted, &names, enough)?;
    if !due.is_empty() {
        // Start the largest first: if one of them started last, it would run alone at the end.
        due.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
        read(source, &due, output, at_once, world)?;
    }
    merge(plan, output, at_once, world)
}

fn read(
    source: &dyn ArchiveSource,
    due: &[&Parcel],
    output: &OutputDir,
    at_once: NonZeroUsize,
    world: &World,
) -> Result<()> {
    let start = Instant::now();
    let bytes: u64 = due.iter().map(|parcel| parcel.size).sum();
    let (mut failures, mut unverified) = (Vec::new(), Vec::new());
    {
        let progress = world.console.progress("Fetching", source, Some(bytes));
        let work = |parcel: &&Parcel| {
            let start = Instant::now();
            let console = &world.console;
            let part = console.progress_of_part("Fetching", &parcel.id, parcel.size);
            let ground = Ground {
                directory: output.work(),
                kept: output.form,
                stop: &world.stop,
                progress: &|bytes| {
                    part.inc(bytes);
                    progress.inc(bytes);
                },
            };
            let received = receive(source, parcel, &ground);
            Ok((received, start.elapsed()))
        };
        // `done` runs on one thread, because recording waits for the disk. The workers continue to
        // download meanwhile.
        let done = |parcel: &&Parcel, (received, time): (Result<Received>, Duration)| {
            let recorded = received.and_then(|received| {
                let facts = facts(parcel, &received, time);
                output.state.record(received.artifacts)?;
                unverified.extend(received.unverified);
                Ok(facts)
            });
            match recorded {
                Ok(facts) => world.console.status("Fetched", facts),
                Err(error) => failures.push(error),
            }
        };
        parallel::try_each(due, at_once, &world.stop, work, done)?;
    }
    if !unverified.is_empty() {
        unverified.sort();
        let names = few(unverified.iter().map(|name| format!("`{name}`")));
        let count = many(unverified.len(), "archive");
        world.console.warn(format!(
            "{count} fetched without any checksum, so damage would not be detected: {names}"
        ));
    }
    if !failures.is_empty() {
        return Err(together(&failures, due.len()));
    }
    let (count, all) = (many(due.len(), "archive"), size(bytes));
    let time = start.elapsed();
    let facts = format!("{count}, {all} in {}{}", took(time), rate(bytes, time));
    world.console.status("Finished", facts);
    Ok(())
}

fn merge(plan: &FetchPlan, output: &OutputDir, jobs: NonZeroUsize, world: &World) -> Result<()> {
    let Some(merged) = &output.merged else {
        return Ok(());
    };
    let mut waiting = Vec::new();
    for name in plan.wanted() {
        let fetched = output.state.get(&name).filter(|it| it.extent.is_some());
        waiting.extend(fetched.map(|it| (name, it)));
    }
    if !waiting.is_empty() {
        let moved = merged.merge(&waiting, &output.state, jobs, world)?;
        let (count, files) = (many(waiting.len(), "artifact"), many(moved, "file"));
        let facts = format!("{count}, {files} into {}", output.root.display());
        world.console.status("Merged", facts);
    }
    merged.tidy(&output.state)
}

fn facts(parcel: &Parcel, received: &Received, time: Duration) -> String {
    let extents = received.artifacts.iter().filter_map(|(_, it)| it.extent);
    let files: u64 = extents.map(|extent| extent.files).sum();
    let files = many(usize::try_from(files).unwrap_or(usize::MAX), "file");
    let (size, took, rate) = (size(parcel.size), took(time), rate(parcel.size, time));
    format!("{}: {size}, {files} in {took}{rate}", parcel.id)
}

/// The rate as a suffix, `, 1.00 MiB/s`; empty if there is nothing to measure.
fn rate(bytes: u64, time: Duration) -> String {
    let rate = u128::from(bytes) * 1000;
    match rate.checked_div(time.as_millis()) {
        Some(rate) if time >= Duration::from_secs(1) => {
            format!(", {}/s", size(u64::try_from(rate).unwrap_or(u64::MAX)))
        }
        _ => String::new(),
    }
}

/// One error for all failed parcels, with one line for each.
fn together(failures: &[Error], tried: usize) -> Error {
    let mut lines = BTreeSet::new();
    let mut advice = BTreeSet::new();
    for error in failures {
        lines.insert(one_line(error));
        advice.extend(hints(error));
    }
    let lines: Vec<String> = lines.into_iter().collect();
    let text = format!(
        "{} of {} not fetched\n  {}",
        failures.len(),
        many(tried, "archive"),
        lines.join("\n  ")
    );
    advice.insert("run it again: what is whole is kept".to_owned());
    advice.into_iter().fold(Error::new(No(text)), hinted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_said_once_it_can_be_measured() {
        let second = Duration::from_secs(1);
        assert_eq!(rate(5 << 20, second / 2), "");
        assert_eq!(rate(10 << 20, 2 * second), ", 5.00 MiB/s");
        assert_eq!(rate(u64::MAX, Duration::ZERO), "");
    }
}
