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
        facts::UnreadPackage,
        observe::{ObserveProgress, Outline, PackageReader, Portion, read_sdist},
    },
    console::World,
    error::Result,
    index::is_of_others,
    io::FileIdentity,
    parallel,
    place::{self, PlaceDepth, SetPlace, StoredPackage},
};

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
    let found = place::find(place, look)?;
    if let Some(version) = &found.chosen {
        world.console.note(format!(
            "the index has several versions, and {version} is the newest: the others are ignored"
        ));
    }
    // A wheel of which only the members count is read in portions, by several threads. Its digest
    // is needed too if pages tell of it. A wheel in a store is then read in one stream.
    let is_hashed = found.published.is_some();
    let is_split = !is_hashed || place.local().is_some();
    let unread = unread_packages(place, &found.packages)?;
    let mut set = read(place, &found.packages, (is_hashed, is_split), jobs, world)?;
    set.read = set.known_packages(&unread);
    if let Some(published) = found.published {
        set.unshipped.clone_from(&published.unshipped);
        set.published = Some(Arc::new(published));
    }
    Ok(set)
}

/// The packages on this disk before they are read, by name. Without those that have just changed: they may change
/// again without another identity, so the next step reads them itself.
fn unread_packages(
    place: &SetPlace,
    packages: &[StoredPackage],
) -> Result<HashMap<String, UnreadPackage>> {
    let Some(root) = place.local() else {
        return Ok(HashMap::new());
    };
    let mut unread = HashMap::new();
    for package in packages {
        let path = place.shown(package.path());
        let identity = FileIdentity::of(&root.join(&path))?;
        if identity.is_settled(SystemTime::now()) {
            unread.insert(package.name.clone(), UnreadPackage { path, identity });
        }
    }
    Ok(unread)
}

/// The facts of all packages, in the order of `packages` for any number of threads.
fn read(
    place: &SetPlace,
    packages: &[StoredPackage],
    (is_hashed, is_split): (bool, bool),
    jobs: NonZeroUsize,
    world: &World,
) -> Result<SetFacts> {
    let total = packages.iter().map(|it| it.size).sum::<u64>();
    let progress = world.console.progress("Checking", place.to_string(), total);
    let watch = &ObserveProgress {
        stop: &world.stop,
        binaries: None,
        progress: &|bytes| progress.inc(bytes),
    };
    let (wheels, sdists): (Vec<_>, Vec<_>) = packages.iter().partition(|it| it.is_wheel());
    let outlines = outlines(&wheels, jobs, world)?;
    let mut work: Vec<(usize, Portion)> = Vec::new();
    for (index, outline) in outlines.iter().enumerate() {
        let portions = if is_of_others(&wheels[index].name) && place.local().is_none() {
            // One of them may have gigabytes, and it was read from end to end before it was published.
            outline.descriptions()
        } else if is_split {
            outline.portions(is_hashed)
        } else {
            vec![outline.whole()]
        };
        work.extend(portions.into_iter().map(|it| (index, it)));
    }
    // The longest work first. If it started last, all other threads would wait for it.
    work.sort_by_key(|(_, portion)| Reverse(portion.weight()));
    let read = parallel::map(&work, jobs, &world.stop, |(index, portion)| {
        Ok(outlines[*index].read_portion(wheels[*index], portion, watch)?)
    })?;
    let mut sdists = parallel::map(&sdists, jobs, &world.stop, |package| {
        let stream = package.stream(0..package.size)?;
        Ok(Arc::new(read_sdist(&package.name, stream, watch)?))
    })?;
    for package in packages {
        package.outcome()?;
    }
    sdists.sort_by(|one, other| one.package.file.cmp(&other.package.file));
    let read = work.iter().map(|(index, _)| *index).zip(read);
    let mut portions = read.into_group_map();
    let wheels = outlines.into_iter().enumerate().map(|(index, outline)| {
        let portions = portions.remove(&index).unwrap_or_default();
        Arc::new(outline.finish(portions))
    });
    Ok(SetFacts { wheels: wheels.collect(), sdists, ..SetFacts::default() })
}

/// Reads the directory at the end of each wheel.
fn outlines(wheels: &[&StoredPackage], jobs: NonZeroUsize, world: &World) -> Result<Vec<Outline>> {
    let read = |package: &&StoredPackage| Ok(Outline::read(&package.name, *package));
    let outlines = parallel::map(wheels, jobs, &world.stop, read)?;
    for package in wheels {
        package.outcome()?;
    }
    Ok(outlines)
}
