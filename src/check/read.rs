//! Reads the facts of a set at a place, on several threads: wheels in portions, the largest pieces
//! of work first.

use std::{
    cmp::Reverse,
    collections::HashMap,
    io::{self, Read},
    num::NonZeroUsize,
    ops::Range,
    sync::Arc,
    time::SystemTime,
};

use itertools::Itertools as _;

use crate::{
    check::{
        SetFacts,
        facts::{ReadAmount, UnreadPackage},
        observe::{Outline, PackageReader, Portion, ReadWatch, read_sdist},
    },
    console::World,
    index::is_of_others,
    place::{self, PlaceDepth, SetPlace, StoredPackage},
};
use rocwheel_base::{error::Result, io::FileIdentity, parallel, quantity::sum};

impl PackageReader for StoredPackage {
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
    read_facts(place, look, ReadDepth::Whole, jobs, world)
}

/// The same, but in the wheels only what describes them is read: the directory of each archive, its metadata and
/// the Python of our packages. The facts say of each other file that it is unread. No command that publishes or
/// installs may rely on them.
pub fn facts_without_contents(
    place: &SetPlace,
    look: PlaceDepth,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<SetFacts> {
    read_facts(place, look, ReadDepth::Descriptions, jobs, world)
}

/// How much of a wheel is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadDepth {
    Whole,
    Descriptions,
}

fn read_facts(
    place: &SetPlace,
    look: PlaceDepth,
    depth: ReadDepth,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<SetFacts> {
    let listed = place::find(place, look)?;
    if let Some(note) = listed.choice_note(place) {
        world.console.note(note);
    }
    // Pages may have the digest of a wheel, so the wheel is hashed too. In a store, hashing beside the
    // portions would download each byte twice.
    let reading = match &listed.published {
        _ if depth == ReadDepth::Descriptions && sends_ranges(&listed.packages, world)? => {
            WheelReading::Descriptions
        }
        None => WheelReading::Portions,
        Some(_) if place.local().is_some() => WheelReading::PortionsAndHash,
        Some(_) => WheelReading::OneStream,
    };
    let unread = unread_packages(place, &listed.packages)?;
    let mut set = read_packages(place, &listed.packages, reading, jobs, world)?;
    set.read = set.known_packages(&unread);
    if place.local().is_none() || reading == WheelReading::Descriptions {
        set.read_amount = Some(read_amount(&listed.packages, &set));
    }
    if let Some(published) = listed.published {
        set.unshipped.clone_from(&published.unshipped);
        set.published = Some(Arc::new(published));
    }
    Ok(set)
}

/// Whether every server sends the ranges of files that are asked for. A server that always sends whole files would
/// send each of them once for every range, so that reading parts would take longer than reading all.
fn sends_ranges(packages: &[StoredPackage], world: &World) -> Result<bool> {
    for package in place::one_of_each_store(packages) {
        if !package.is_sent_in_ranges()? {
            let server = package.store();
            world
                .console
                .note(format!("`{server}` sends whole files only, so they are read to their ends"));
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_amount(packages: &[StoredPackage], set: &SetFacts) -> ReadAmount {
    let our_wheels = set.wheels.iter().filter(|wheel| wheel.package.is_ours());
    ReadAmount {
        bytes: sum(packages.iter().map(|package| package.bytes_read().min(package.size))),
        of_bytes: sum(packages.iter().map(|package| package.size)),
        unread_files: our_wheels.map(|wheel| wheel.unread_members().count()).sum(),
    }
}

/// How the wheels of a place are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WheelReading {
    /// Only what describes them.
    Descriptions,
    /// In portions, by several threads. Only the members are hashed.
    Portions,
    /// In portions, and once more to hash the whole wheel.
    PortionsAndHash,
    /// From end to end, which hashes the whole wheel too.
    OneStream,
}

/// The packages on this disk before they are read, by name. A package that has just changed is left out: it
/// may change again without another identity, so the next step reads it itself.
fn unread_packages(
    place: &SetPlace,
    packages: &[StoredPackage],
) -> Result<HashMap<String, UnreadPackage>> {
    let Some(root) = place.local() else {
        return Ok(HashMap::new());
    };
    let mut unread = HashMap::new();
    for package in packages {
        let path = place.below_set(package.path());
        let identity = FileIdentity::of(&root.join(&path))?;
        if identity.is_settled(SystemTime::now()) {
            unread.insert(package.name.clone(), UnreadPackage { path, identity });
        }
    }
    Ok(unread)
}

/// A portion of a wheel, which one thread reads.
struct WheelPortion {
    /// The index of the wheel among all wheels.
    wheel: usize,
    portion: Portion,
}

/// Reads the facts of all packages, in the order of `packages` for any number of threads.
fn read_packages(
    place: &SetPlace,
    packages: &[StoredPackage],
    reading: WheelReading,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<SetFacts> {
    let total = sum(packages.iter().map(|it| it.size));
    let progress = world.console.progress("Checking", place.to_string(), total);
    let watch =
        &ReadWatch { stop: &world.stop, binaries: None, progress: &|bytes| progress.inc(bytes) };
    let (wheels, sdists): (Vec<_>, Vec<_>) = packages.iter().partition(|it| it.is_wheel());
    let outlines = read_outlines(&wheels, jobs, world)?;
    let mut work: Vec<WheelPortion> = Vec::new();
    for (wheel, outline) in outlines.iter().enumerate() {
        let portions = if is_of_others(&wheels[wheel].name) && place.local().is_none() {
            // Such a wheel may have gigabytes, and it was read from end to end before it was published.
            outline.descriptions()
        } else {
            match reading {
                WheelReading::Descriptions => outline.descriptions(),
                WheelReading::Portions => outline.portions(false),
                WheelReading::PortionsAndHash => outline.portions(true),
                WheelReading::OneStream => vec![outline.whole()],
            }
        };
        work.extend(portions.into_iter().map(|portion| WheelPortion { wheel, portion }));
    }
    // The longest work first. If it started last, all other threads would wait for it.
    work.sort_by_key(|work| Reverse(work.portion.weight()));
    let facts = parallel::map(&work, jobs, &world.stop, |work| {
        Ok(outlines[work.wheel].read_portion(wheels[work.wheel], &work.portion, watch)?)
    })?;
    let sdists = parallel::map(&sdists, jobs, &world.stop, |package| {
        let stream = package.stream(0..package.size)?;
        Ok(Arc::new(read_sdist(&package.name, stream, watch)?))
    })?;
    // A reader of a wheel takes a failed transfer for a damaged wheel. The package knows whether a transfer
    // failed.
    for package in packages {
        package.outcome()?;
    }
    let mut facts_by_wheel = work.iter().map(|work| work.wheel).zip(facts).into_group_map();
    let wheels = outlines.into_iter().enumerate().map(|(wheel, outline)| {
        Arc::new(outline.finish(facts_by_wheel.remove(&wheel).unwrap_or_default()))
    });
    Ok(SetFacts { wheels: wheels.collect(), sdists, ..SetFacts::default() })
}

/// Reads the directory at the end of each wheel.
fn read_outlines(
    wheels: &[&StoredPackage],
    jobs: NonZeroUsize,
    world: &World,
) -> Result<Vec<Outline>> {
    let outlines = parallel::map(wheels, jobs, &world.stop, |package| {
        Ok(Outline::read(&package.name, *package))
    })?;
    for package in wheels {
        package.outcome()?;
    }
    Ok(outlines)
}
