//! Reads packages on all threads: wheels in portions, the largest first.

use std::{
    cmp::Reverse,
    collections::HashMap,
    io::{self, BufReader, Read},
    num::NonZeroUsize,
    ops::Range,
    sync::Arc,
};

use crate::{
    check::{Outline, Portion, PortionFacts, SdistFile, SetFacts, Source, Watch, read_sdist},
    console::World,
    digest::Sha256,
    error::{Result, Stop},
    parallel,
    set::Package,
};

impl Source for Package {
    fn len(&self) -> u64 {
        self.size()
    }

    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + '_>> {
        Self::stream(self, range)
    }
}

/// How a package is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// By several threads at once.
    Portions,
    /// By several threads, one of which takes the hash of the whole.
    Hashed,
    /// From its first byte to its last, and hashed on the way.
    Whole,
}

/// A piece of work.
struct Piece<'a> {
    package: &'a Package,
    /// Of the package among the wheels.
    index: usize,
    task: Task<'a>,
}

enum Task<'a> {
    Portion(&'a Outline, Portion),
    Hash,
    Sdist,
}

enum Done {
    Portion(PortionFacts),
    Hash((Sha256, u64)),
    Sdist(Box<SdistFile>),
}

/// The facts of all packages, in their order, whatever the number of threads.
pub(super) fn read(
    packages: &[Package],
    pass: Pass,
    jobs: NonZeroUsize,
    title: &str,
    world: &World,
) -> Result<SetFacts> {
    let total = packages.iter().map(Package::len).sum::<u64>();
    let progress = world.console.progress("Checking", title, total);
    let watch = Watch {
        stop: &world.stop,
        progress: &|bytes| progress.inc(bytes),
    };
    let wheels: Vec<&Package> = packages.iter().filter(|it| it.is_wheel()).collect();
    let outlines = outlines(&wheels, jobs, world)?;
    let mut pieces = pieces(&wheels, &outlines, pass);
    let sdists = packages.iter().filter(|it| !it.is_wheel());
    pieces.extend(sdists.map(|package| Piece {
        package,
        index: 0,
        task: Task::Sdist,
    }));
    // What takes longest must not begin last.
    pieces.sort_by_key(|piece| Reverse(piece.weight()));
    let mut set = SetFacts::default();
    let mut portions: HashMap<usize, Vec<PortionFacts>> = HashMap::new();
    let mut digests: HashMap<usize, (Sha256, u64)> = HashMap::new();
    let work = |piece: &Piece<'_>| piece.work(&watch);
    parallel::try_each(&pieces, jobs, &world.stop, work, |piece, done| match done {
        Done::Portion(facts) => portions.entry(piece.index).or_default().push(facts),
        Done::Hash(digest) => _ = digests.insert(piece.index, digest),
        Done::Sdist(sdist) => set.sdists.push(Arc::new(*sdist)),
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

fn pieces<'a>(wheels: &[&'a Package], outlines: &'a [Outline], pass: Pass) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    for (index, (package, outline)) in wheels.iter().zip(outlines).enumerate() {
        let mut push = |task| {
            pieces.push(Piece {
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
            push(Task::Portion(outline, portion));
        }
        if pass == Pass::Hashed {
            push(Task::Hash);
        }
    }
    pieces
}

impl Piece<'_> {
    fn weight(&self) -> u64 {
        match &self.task {
            Task::Portion(_, portion) => portion.weight(),
            // Hashing is four times as fast as inflating.
            Task::Hash => self.package.len() / 4,
            Task::Sdist => self.package.len(),
        }
    }

    fn work(&self, watch: &Watch<'_>) -> Result<Done> {
        let package = self.package;
        let whole = || package.stream(0..package.len());
        Ok(match &self.task {
            Task::Portion(outline, portion) => {
                Done::Portion(outline.read_portion(package, portion, watch)?)
            }
            Task::Hash => {
                let stream = Stopping(whole()?, watch.stop);
                let stream = BufReader::with_capacity(1 << 20, stream);
                Done::Hash(Sha256::of_reader(stream)?)
            }
            Task::Sdist => {
                let sdist = read_sdist(package.name(), whole()?, watch)?;
                Done::Sdist(Box::new(sdist))
            }
        })
    }
}

/// What the end of each wheel says.
pub(super) fn outlines(
    wheels: &[&Package],
    jobs: NonZeroUsize,
    world: &World,
) -> Result<Vec<Outline>> {
    let indexed: Vec<(usize, &&Package)> = wheels.iter().enumerate().collect();
    let mut found: Vec<(usize, Outline)> = Vec::new();
    let work = |(index, package): &(usize, &&Package)| -> Result<(usize, Outline)> {
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

/// Ends when the user asks to.
struct Stopping<'a, R>(R, &'a Stop);

impl<R: Read> Read for Stopping<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1.check().map_err(io::Error::other)?;
        self.0.read(buffer)
    }
}
