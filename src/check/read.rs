//! Reads packages on several threads: wheels in portions, the largest pieces of work first.

use std::{
    cmp::Reverse,
    collections::HashMap,
    io::{self, BufReader, Read},
    num::NonZeroUsize,
    ops::Range,
    sync::Arc,
};

use crate::{
    check::{
        ObserveProgress, Outline, PackageReader, Portion, PortionFacts, SdistFile, SetFacts,
        read_sdist,
    },
    console::World,
    digest::Sha256,
    error::{Result, Stop},
    parallel,
    set::PackageFile,
};

impl PackageReader for PackageFile {
    fn len(&self) -> u64 {
        self.size()
    }

    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + '_>> {
        Self::stream(self, range)
    }
}

/// How wheels are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// In portions, by several threads.
    Portions,
    /// In portions, by several threads, one of which hashes the whole file.
    Hashed,
    /// In one stream, and hashed at the same time.
    Whole,
}

/// A piece of work for one thread.
struct ReadJob<'a> {
    package: &'a PackageFile,
    /// The index of the package among the wheels; 0 for an sdist.
    index: usize,
    task: CheckTask<'a>,
}

enum CheckTask<'a> {
    Portion(&'a Outline, Portion),
    Hash,
    Sdist,
}

enum FinishedCheck {
    Portion(PortionFacts),
    Hash((Sha256, u64)),
    Sdist(Box<SdistFile>),
}

/// The facts of all packages, in the order of `packages` for any number of threads.
pub(super) fn read(
    packages: &[PackageFile],
    pass: Pass,
    jobs: NonZeroUsize,
    title: &str,
    world: &World,
) -> Result<SetFacts> {
    let total = packages.iter().map(PackageFile::len).sum::<u64>();
    let progress = world.console.progress("Checking", title, total);
    let watch = ObserveProgress {
        stop: &world.stop,
        progress: &|bytes| progress.inc(bytes),
    };
    let wheels: Vec<&PackageFile> = packages.iter().filter(|it| it.is_wheel()).collect();
    let outlines = outlines(&wheels, jobs, world)?;
    let mut pieces = pieces(&wheels, &outlines, pass);
    let sdists = packages.iter().filter(|it| !it.is_wheel());
    pieces.extend(sdists.map(|package| ReadJob {
        package,
        index: 0,
        task: CheckTask::Sdist,
    }));
    // The longest work first. If it started last, all other threads would wait for it.
    pieces.sort_by_key(|piece| Reverse(piece.weight()));
    let mut set = SetFacts::default();
    let mut portions: HashMap<usize, Vec<PortionFacts>> = HashMap::new();
    let mut digests: HashMap<usize, (Sha256, u64)> = HashMap::new();
    let work = |piece: &ReadJob<'_>| piece.work(&watch);
    parallel::try_each(&pieces, jobs, &world.stop, work, |piece, done| match done {
        FinishedCheck::Portion(facts) => portions.entry(piece.index).or_default().push(facts),
        FinishedCheck::Hash(digest) => _ = digests.insert(piece.index, digest),
        FinishedCheck::Sdist(sdist) => set.sdists.push(Arc::new(*sdist)),
    })?;
    drop(pieces);
    for package in packages {
        package.outcome()?;
    }
    for (index, outline) in outlines.into_iter().enumerate() {
        let mut wheel = outline.finish(portions.remove(&index).unwrap_or_default());
        wheel.digest = wheel.digest.or(digests.remove(&index));
        set.wheels.push(Arc::new(wheel));
    }
    set.sdists.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(set)
}

fn pieces<'a>(wheels: &[&'a PackageFile], outlines: &'a [Outline], pass: Pass) -> Vec<ReadJob<'a>> {
    let mut pieces = Vec::new();
    for (index, (package, outline)) in wheels.iter().zip(outlines).enumerate() {
        let mut push = |task| {
            pieces.push(ReadJob {
                package,
                index,
                task,
            });
        };
        let portions = match pass {
            Pass::Portions | Pass::Hashed => outline.portions(),
            Pass::Whole => vec![outline.whole(*package)],
        };
        for portion in portions {
            push(CheckTask::Portion(outline, portion));
        }
        if pass == Pass::Hashed {
            push(CheckTask::Hash);
        }
    }
    pieces
}

impl ReadJob<'_> {
    fn weight(&self) -> u64 {
        match &self.task {
            CheckTask::Portion(_, portion) => portion.weight(),
            // Hashing is about four times as fast as inflating.
            CheckTask::Hash => self.package.len() / 4,
            CheckTask::Sdist => self.package.len(),
        }
    }

    fn work(&self, watch: &ObserveProgress<'_>) -> Result<FinishedCheck> {
        let package = self.package;
        let whole = || package.stream(0..package.len());
        Ok(match &self.task {
            CheckTask::Portion(outline, portion) => {
                FinishedCheck::Portion(outline.read_portion(package, portion, watch)?)
            }
            CheckTask::Hash => {
                let stream = Stopping(whole()?, watch.stop);
                let stream = BufReader::with_capacity(1 << 20, stream);
                FinishedCheck::Hash(Sha256::of_reader(stream)?)
            }
            CheckTask::Sdist => {
                let sdist = read_sdist(package.name(), whole()?, watch)?;
                FinishedCheck::Sdist(Box::new(sdist))
            }
        })
    }
}

/// Reads the directory at the end of each wheel.
pub(super) fn outlines(
    wheels: &[&PackageFile],
    jobs: NonZeroUsize,
    world: &World,
) -> Result<Vec<Outline>> {
    let indexed: Vec<(usize, &&PackageFile)> = wheels.iter().enumerate().collect();
    let mut found: Vec<(usize, Outline)> = Vec::new();
    let work = |(index, package): &(usize, &&PackageFile)| -> Result<(usize, Outline)> {
        Ok((*index, Outline::read(package.name(), **package)))
    };
    parallel::try_each(&indexed, jobs, &world.stop, work, |_, outline| {
        found.push(outline);
    })?;
    for package in wheels {
        package.outcome()?;
    }
    found.sort_by_key(|(index, _)| *index);
    Ok(found.into_iter().map(|(_, outline)| outline).collect())
}

/// A reader that fails when the user interrupts.
struct Stopping<'a, R>(R, &'a Stop);

impl<R: Read> Read for Stopping<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1.check().map_err(io::Error::other)?;
        self.0.read(buffer)
    }
}
