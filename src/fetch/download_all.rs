//! Downloads all due parcels, several at once. A failed parcel does not end the others; all
//! failures are reported together at the end.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use itertools::Itertools as _;

use super::{
    download::{Ground, Received, receive},
    output::{OutputDir, OutputForm},
    plan::FetchPlan,
    source::{ArchiveSource, Parcel},
    state::{FetchState, Sufficiency},
};
use crate::{
    atomic,
    console::{World, few, many, size, took},
    error::{Error, No, Result, anyhow, hinted, hints, one_line},
    parallel,
};

/// Unpacked artifacts of ROCm are three to five times as large as their archives.
const USUALLY: u64 = 4;

/// Carries out a plan: downloads what is due and, with `--flatten`, merges it into one tree.
pub(super) fn deliver(
    source: &dyn ArchiveSource,
    plan: &FetchPlan,
    (output, enough): (&OutputDir, &Sufficiency),
    jobs: NonZeroUsize,
    world: &World,
) -> Result<()> {
    let mut due = plan.due();
    if !due.is_empty() {
        check_space(output, plan.size(), world)?;
    }
    let mut state = output.state.clone();
    state.begin(&plan.from, plan.wanted(), &plan.due_names(), enough)?;
    if !due.is_empty() {
        // Start the largest first: if one of them started last, it would run alone at the end.
        due.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
        download(source, &due, (output, &mut state), jobs, world)?;
    }
    if output.form == OutputForm::Merged {
        output.merge(&plan.wanted(), &mut state, jobs, world)?;
    }
    state.end(enough)
}

/// Fails if the archives alone do not fit. If only the estimate for their contents does not fit, it
/// is a warning, because the exact size is known only after unpacking.
fn check_space(output: &OutputDir, needed: u64, world: &World) -> Result<()> {
    let place = output.root.display();
    // Some systems do not report the free space. Try then: a full disk fails later anyway.
    let free = atomic::free_space(&output.root).unwrap_or(u64::MAX);
    let is_packed = output.form == OutputForm::Packed;
    let (needs, has) = (size(needed), size(free));
    if needed > free {
        let more = if is_packed {
            ""
        } else {
            " for the archives and more unpacked"
        };
        let error = anyhow!("not enough space for `{place}`: needs {needs}{more}, has {has}");
        return Err(hinted(
            error,
            "choose another `--output-dir`, or fetch less",
        ));
    }
    if !is_packed && needed.saturating_mul(USUALLY) > free {
        world.console.warn(format!("`{place}` may be too small: needs {needs} for the archives and several times as much unpacked, has {has}"));
    }
    Ok(())
}

fn download(
    source: &dyn ArchiveSource,
    due: &[&Parcel],
    (output, state): (&OutputDir, &mut FetchState),
    jobs: NonZeroUsize,
    world: &World,
) -> Result<()> {
    let start = Instant::now();
    let bytes: u64 = due.iter().map(|parcel| parcel.size).sum();
    let (mut failures, mut unverified) = (Vec::new(), BTreeSet::new());
    {
        let progress = world.console.progress("Fetching", source, Some(bytes));
        let work = |parcel: &&Parcel| {
            let start = Instant::now();
            let console = &world.console;
            let part = console.progress_of_part("Fetching", &parcel.id, parcel.size);
            let ground = Ground {
                directory: &output.work,
                kept: output.form,
                stop: &world.stop,
                progress: &|bytes| {
                    part.inc(bytes);
                    progress.inc(bytes);
                },
            };
            Ok((receive(source, parcel, &ground), start.elapsed()))
        };
        // `done` runs on one thread, because recording waits for the disk. The workers continue to
        // download meanwhile.
        let done = |parcel: &&Parcel, (received, time): (Result<Received>, Duration)| {
            let recorded = received.and_then(|received| {
                let extents = received.artifacts.iter().filter_map(|(_, it)| it.extent);
                let files: usize = extents.map(|extent| extent.files).sum();
                state.record(received.artifacts)?;
                unverified.extend(received.unverified);
                Ok(many(files, "file"))
            });
            match recorded {
                Ok(files) => {
                    let (id, speed) = (&parcel.id, speed(parcel.size, time));
                    let facts = format!("{id}: {}, {files} {speed}", size(parcel.size));
                    world.console.status("Fetched", facts);
                }
                Err(error) => failures.push(error),
            }
        };
        parallel::try_each(due, jobs, &world.stop, work, done)?;
    }
    if !unverified.is_empty() {
        let count = many(unverified.len(), "archive");
        let names = few(unverified.iter().map(|name| format!("`{name}`")));
        world.console.warn(format!(
            "{count} fetched without any checksum, so damage would not be detected: {names}"
        ));
    }
    if !failures.is_empty() {
        return Err(together(&failures, due.len()));
    }
    let (count, all) = (many(due.len(), "archive"), size(bytes));
    let speed = speed(bytes, start.elapsed());
    world
        .console
        .status("Finished", format!("{count}, {all} {speed}"));
    Ok(())
}

/// `in 2.0 s, 5.00 MiB/s`; only the time if there is nothing to measure.
fn speed(bytes: u64, time: Duration) -> String {
    let rate = u128::from(bytes) * 1000;
    match rate.checked_div(time.as_millis()) {
        Some(rate) if time >= Duration::from_secs(1) => {
            let rate = size(u64::try_from(rate).unwrap_or(u64::MAX));
            format!("in {}, {rate}/s", took(time))
        }
        _ => format!("in {}", took(time)),
    }
}

/// One error for all failed parcels, with one line for each.
fn together(failures: &[Error], tried: usize) -> Error {
    let lines: BTreeSet<String> = failures.iter().map(one_line).collect();
    let mut advice: BTreeSet<String> = failures.iter().flat_map(hints).collect();
    advice.insert("run it again: what is whole is kept".to_owned());
    let (failed, tried) = (failures.len(), many(tried, "archive"));
    let lines = lines.iter().join("\n  ");
    let text = format!("{failed} of {tried} not fetched\n  {lines}");
    advice.into_iter().fold(Error::new(No(text)), hinted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_said_once_it_can_be_measured() {
        let second = Duration::from_secs(1);
        assert_eq!(speed(5 << 20, second / 2), "in 0.5 s");
        assert_eq!(speed(10 << 20, 2 * second), "in 2.0 s, 5.00 MiB/s");
        assert_eq!(speed(u64::MAX, Duration::ZERO), "in 0.0 s");
    }
}
