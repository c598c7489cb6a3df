//! Copies the locked files to a place, and writes the pages of its index. Other files of the place stay
//! as they are.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    num::NonZeroUsize,
    path::Path,
};

use fs_err::File;
use itertools::Itertools as _;

use super::{
    lock::{Lock, LockedWheel},
    wishes::Wishes,
};
use crate::{
    console::{Progress, World},
    index::{Layout, PackageFile},
    place::{self, IndexOptions, Indexed, KnownPackages, Plan, SetPlace},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Hint as _, No, Result, anyhow, bail},
    io::Tap,
    parallel,
};
use rocwheel_store::{Span, Store as _, http::HttpStore};

/// The files of a lock that the environments of `deps.toml` may install, and the place that gets them.
pub struct Mirror<'a> {
    wheels: Vec<MirroredWheel<'a>>,
    place: &'a SetPlace,
    world: &'a World,
}

/// A wheel of the lock, and the file that the place gets.
struct MirroredWheel<'a> {
    file: PackageFile,
    locked: &'a LockedWheel,
}

impl<'a> Mirror<'a> {
    pub fn new(
        lock: &'a Lock,
        wishes: &Wishes,
        place: &'a SetPlace,
        world: &'a World,
    ) -> Result<Self> {
        // Several environments may install the same wheel, which is mirrored once.
        let mut by_name: BTreeMap<String, &LockedWheel> = BTreeMap::new();
        for environment in wishes.environments() {
            for wheel in lock.packages.iter().flat_map(|package| package.wheels_for(environment)) {
                by_name.insert(wheel.name()?.to_string(), wheel);
            }
        }
        let mut wheels = Vec::new();
        for (name, locked) in by_name {
            let path = format!("{}{name}", Layout::Dist.files());
            // A registry need not say the size, which is then known after the download.
            let file = PackageFile::named(path, locked.size.unwrap_or(0), locked.sha256())?;
            wheels.push(MirroredWheel { file, locked });
        }
        Ok(Self { wheels, place, world })
    }

    /// Compares the files with the files of the place.
    pub fn plan(&self) -> Result<Plan> {
        let files = self.wheels.iter().map(|wheel| wheel.file.clone()).collect_vec();
        place::plan_mirror(&files, self.place, self.world)
    }

    /// Copies what is missing, each file whole or not at all, and writes the index.
    pub fn carry_out(&self, jobs: NonZeroUsize) -> Result<Indexed> {
        let place = self.place;
        let world = self.world;
        let plan = self.plan()?;
        if let Some(refusal) = plan.refusal() {
            return Err(refusal)
                .hint("mirror to another place: a file of a base index is never replaced");
        }
        // The plan has full paths of the place, and a wheel has its path below the place.
        let missing_paths: Vec<&str> = plan.missing().collect();
        let is_missing = |wheel: &&MirroredWheel<'_>| {
            missing_paths.iter().any(|path| path.ends_with(&wheel.file.path))
        };
        let missing = self.wheels.iter().filter(is_missing).collect_vec();
        let downloads = tempfile::tempdir()?;
        let bytes: u64 = missing.iter().map(|wheel| wheel.file.size).sum();
        let progress = world.console.progress("Fetching", place, bytes);
        let fetched = parallel::try_map(&missing, jobs, &world.stop, |wheel| {
            let MirroredWheel { file, locked } = wheel;
            let size = locked
                .fetch(&downloads.path().join(file.name()), &progress, world)
                .with_context(|| format!("failed to download `{}`", locked.url))?;
            Ok(PackageFile { size, ..file.clone() })
        })?;
        place::mirror(&fetched, downloads.path(), place, world)?;
        let options = IndexOptions { read: KnownPackages::new(), jobs };
        place::index(place, &options, world)
    }
}

impl LockedWheel {
    /// Downloads a file, and compares it with the lock. A download that breaks off is resumed. Returns the
    /// size of the file.
    fn fetch(&self, to: &Path, progress: &Progress, world: &World) -> Result<u64> {
        let (store, key) = HttpStore::of_url(&self.url, &world.stop)?;
        let count = |bytes| progress.inc(bytes);
        let reader = Tap::new(store.get(&key, Span::Whole)?, &world.stop, &count);
        let most = self.size.unwrap_or(u64::MAX - 1);
        // One byte more than the lock says is enough to refuse the file.
        io::copy(&mut reader.take(most + 1), &mut File::create(to)?)?;
        let (sha256, size) = Sha256::of_reader(File::open(to)?)?;
        let why = if size > most {
            format!("it has more than {most} bytes")
        } else if sha256 != self.sha256() {
            format!("its SHA-256 is {sha256}, and not {}", self.sha256())
        } else {
            return Ok(size);
        };
        bail!(anyhow!(No(format!("it is not what was locked: {why}"))))
    }
}
