//! Reads packages on all threads: wheels in portions, the largest first.

use std::{
    cmp::Reverse,
    collections::HashMap,
    io::{self, Read},
    num::NonZeroUsize,
    sync::Arc,
};

use super::package::Package;
use crate::{
    audit::{Outline, Portion, PortionFacts, SdistFile, SetFacts, Source as _, Watch, read_sdist},
    commands::World,
    digest::Sha256,
    error::{Result, Stop},
    store::transfer,
};

/// How a package is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// By several threads at once.
    Portions,
    /// By several threads, one of which takes the hash of the whole.
    Hashed,
    /// From its first byte to its last, and hashed as a whole.
    Whole,
}

/// A piece of work.
enum Piece<'a> {
    Wheel {
        index: usize,
        package: &'a Package,
        outline: &'a Outline,
        portion: Portion,
    },
    Hash {
        index: usize,
        package: &'a Package,
    },
    Sdist(&'a Package),
}

enum Done {
    Wheel(usize, PortionFacts),
    Hash(usize, (Sha256, u64)),
    Sdist(SdistFile),
}

impl Piece<'_> {
    fn weight(&self) -> u64 {
        match self {
            Self::Wheel { portion, .. } => portion.weight(),
            // Hashing is four times as fast as inflating.
            Self::Hash { package, .. } => package.len() / 4,
            Self::Sdist(package) => package.len(),
        }
    }
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
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for (index, (package, outline)) in wheels.iter().zip(&outlines).enumerate() {
        let portions = match pass {
            Pass::Portions | Pass::Hashed => outline.portions(),
            Pass::Whole => vec![outline.whole(*package)],
        };
        pieces.extend(portions.into_iter().map(|portion| Piece::Wheel {
            index,
            package,
            outline,
            portion,
        }));
    }
    if pass == Pass::Hashed {
        let wheels = wheels.iter().enumerate();
        pieces.extend(wheels.map(|(index, package)| Piece::Hash { index, package }));
    }
    let sdists = packages.iter().filter(|it| !it.is_wheel());
    pieces.extend(sdists.map(Piece::Sdist));
    // What takes longest must not begin last.
    pieces.sort_by_key(|piece| Reverse(piece.weight()));
    let mut set = SetFacts::default();
    let mut portions: Vec<Vec<PortionFacts>> = outlines.iter().map(|_| Vec::new()).collect();
    let mut digests: HashMap<usize, (Sha256, u64)> = HashMap::new();
    let work = |piece: &Piece<'_>| -> Result<Done> {
        Ok(match piece {
            Piece::Wheel {
                index,
                package,
                outline,
                portion,
            } => Done::Wheel(*index, outline.read_portion(*package, portion, &watch)?),
            Piece::Hash { index, package } => {
                let stream = package.stream(0..package.len())?;
                Done::Hash(*index, Sha256::of_reader(Stopping(stream, &world.stop))?)
            }
            Piece::Sdist(package) => {
                let stream = package.stream(0..package.len())?;
                Done::Sdist(read_sdist(package.name(), stream, &watch)?)
            }
        })
    };
    transfer::each(&pieces, jobs, &world.stop, work, |_, done| match done {
        Done::Wheel(index, facts) => {
            if let Some(all) = portions.get_mut(index) {
                all.push(facts);
            }
        }
        Done::Hash(index, digest) => _ = digests.insert(index, digest),
        Done::Sdist(sdist) => set.sdists.push(sdist),
    })?;
    drop(pieces);
    for package in packages {
        package.outcome()?;
    }
    for (index, (outline, facts)) in outlines.into_iter().zip(portions).enumerate() {
        let mut wheel = outline.finish(facts);
        wheel.digest = wheel.digest.or(digests.remove(&index));
        set.wheels.push(Arc::new(wheel));
    }
    set.sdists.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(set)
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
    transfer::each(&indexed, jobs, &world.stop, work, |_, outline| {
        found.push(outline)
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
