//! Reads the facts of a set at a place, on several threads: wheels in portions, the largest pieces
//! of work first.

use std::{
    cmp::Reverse,
    collections::HashMap,
    io::{self, Read},
    num::NonZeroUsize,
    ops::Range,
    sync::Arc,
};

use crate::{
    check::{
        SetFacts,
        facts::SdistFile,
        observe::{ObserveProgress, Outline, PackageReader, Portion, PortionFacts, read_sdist},
    },
    console::World,
    error::Result,
    parallel,
    set::{self, PackageFile, PlaceDepth, SetPlace, is_of_others},
};

impl PackageReader for PackageFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + Send + '_>> {
        Self::stream(self, range)
    }
}

/// The facts of every package of a place, and of its pages.
pub fn facts_of(
    place: &SetPlace,
    look: PlaceDepth,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<SetFacts> {
    let found = set::find(place, look)?;
    if let Some(version) = &found.chosen {
        world.console.note(format!(
            "the index has several versions, and {version} is the newest: the others are ignored"
        ));
    }
    // A wheel of which only the members count is read in portions, by several threads. Its digest
    // is needed too if pages tell of it. A wheel in a store is then read in one stream.
    let is_hashed = found.published.is_some();
    let is_split = !is_hashed || place.local().is_some();
    let title = place.to_string();
    let mut set = read(&found.packages, (is_hashed, is_split), jobs, &title, world)?;
    set.published = found.published.map(Arc::new);
    Ok(set)
}

/// A piece of work for one thread: a part of the wheel with this index, or an sdist.
enum ReadJob<'a> {
    Wheel(usize, Portion),
    Sdist(&'a PackageFile),
}

/// What a piece of work has read.
enum FinishedRead {
    Wheel(usize, PortionFacts),
    Sdist(SdistFile),
}

/// The facts of all packages, in the order of `packages` for any number of threads.
fn read(
    packages: &[PackageFile],
    (is_hashed, is_split): (bool, bool),
    jobs: NonZeroUsize,
    title: &str,
    world: &World,
) -> Result<SetFacts> {
    let total = packages.iter().map(|it| it.size).sum::<u64>();
    let progress = world.console.progress("Checking", title, total);
    let watch = &ObserveProgress {
        stop: &world.stop,
        binaries: None,
        progress: &|bytes| progress.inc(bytes),
    };
    let (wheels, sdists): (Vec<_>, Vec<_>) = packages.iter().partition(|it| it.is_wheel());
    let outlines = outlines(&wheels, jobs, world)?;
    let sdists = sdists.into_iter().map(ReadJob::Sdist);
    let mut work: Vec<ReadJob<'_>> = sdists.collect();
    for (index, outline) in outlines.iter().enumerate() {
        let portions = if is_of_others(&wheels[index].name) {
            // No rule is about the code in them, and one of them may have gigabytes.
            outline.descriptions()
        } else if is_split {
            outline.portions(is_hashed)
        } else {
            vec![outline.whole()]
        };
        work.extend(portions.into_iter().map(|it| ReadJob::Wheel(index, it)));
    }
    // The longest work first. If it started last, all other threads would wait for it.
    work.sort_by_key(|job| match job {
        ReadJob::Wheel(_, portion) => Reverse(portion.weight()),
        ReadJob::Sdist(package) => Reverse(package.size),
    });
    let run = |job: &ReadJob<'_>| match job {
        ReadJob::Wheel(index, portion) => {
            let facts = outlines[*index].read_portion(wheels[*index], portion, watch)?;
            Ok(FinishedRead::Wheel(*index, facts))
        }
        ReadJob::Sdist(package) => {
            let stream = package.stream(0..package.size)?;
            let sdist = read_sdist(&package.name, stream, watch)?;
            Ok(FinishedRead::Sdist(sdist))
        }
    };
    let mut set = SetFacts::default();
    let mut portions: HashMap<usize, Vec<PortionFacts>> = HashMap::new();
    parallel::try_each(&work, jobs, &world.stop, run, |_, done| match done {
        FinishedRead::Wheel(index, facts) => portions.entry(index).or_default().push(facts),
        FinishedRead::Sdist(sdist) => set.sdists.push(Arc::new(sdist)),
    })?;
    for package in packages {
        package.outcome()?;
    }
    for (index, outline) in outlines.into_iter().enumerate() {
        let portions = portions.remove(&index).unwrap_or_default();
        set.wheels.push(Arc::new(outline.finish(portions)));
    }
    set.sdists.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(set)
}

/// Reads the directory at the end of each wheel.
fn outlines(wheels: &[&PackageFile], jobs: NonZeroUsize, world: &World) -> Result<Vec<Outline>> {
    let read = |package: &&PackageFile| Ok(Outline::read(&package.name, *package));
    let outlines = parallel::map(wheels, jobs, &world.stop, read)?;
    for package in wheels {
        package.outcome()?;
    }
    Ok(outlines)
}
