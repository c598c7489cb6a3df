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
    digest::Sha256,
    error::{Context as _, Hint as _, No, Result, anyhow, bail},
    index::{Layout, PackageFile},
    io::Tap,
    parallel,
    place::{self, IndexOptions, Indexed, KnownPackages, Plan, SetPlace},
    store::{Span, Store as _, http::HttpStore},
};

/// The files of a lock that the environments of `deps.toml` may install, and the place that gets them.
pub struct Mirror<'a> {
    wheels: Vec<(PackageFile, &'a LockedWheel)>,
    place: &'a SetPlace,
    world: &'a World,
}

impl<'a> Mirror<'a> {
    pub fn new(
        lock: &'a Lock,
        wishes: &Wishes,
        place: &'a SetPlace,
        world: &'a World,
    ) -> Result<Self> {
        let environments = wishes.environments().into_iter();
        let wheels = environments.cartesian_product(&lock.packages);
        let wheels = wheels.flat_map(|(environment, it)| it.wheels_for(environment));
        let wheels: BTreeMap<String, &LockedWheel> =
            wheels.map(|it| Ok((it.name()?.to_string(), it))).collect::<Result<_>>()?;
        let wheels = wheels.into_iter().map(|(name, wheel)| {
            let path = format!("{}{name}", Layout::Dist.files());
            // A registry need not say the size. The download does.
            let file = PackageFile::named(path, wheel.size.unwrap_or(0), wheel.sha256())?;
            Ok((file, wheel))
        });
        Ok(Self { wheels: wheels.collect::<Result<_>>()?, place, world })
    }

    /// Compares the files with those of the place.
    pub fn plan(&self) -> Result<Plan> {
        let packages = self.wheels.iter().map(|it| it.0.clone()).collect_vec();
        place::plan_mirror(&packages, self.place, self.world)
    }

    /// Copies what is missing, each file whole or not at all, and writes the index.
    pub fn carry_out(&self, jobs: NonZeroUsize) -> Result<Indexed> {
        let (place, world) = (self.place, self.world);
        let plan = self.plan()?;
        if let Some(refusal) = plan.refusal() {
            return Err(refusal)
                .hint("mirror to another place: a file of a base index is never replaced");
        }
        let missing: Vec<&str> = plan.missing().collect();
        let is_missing = |it: &&(PackageFile, &LockedWheel)| {
            missing.iter().any(|path| path.ends_with(&it.0.path))
        };
        let missing: Vec<_> = self.wheels.iter().filter(is_missing).collect();
        let work = tempfile::tempdir()?;
        let bytes: u64 = missing.iter().map(|it| it.0.size).sum();
        let progress = world.console.progress("Fetching", place, bytes);
        let fetched = parallel::try_map(&missing, jobs, &world.stop, |(package, wheel)| {
            let size = wheel
                .fetch(&work.path().join(package.name()), &progress, world)
                .with_context(|| format!("failed to download `{}`", wheel.url))?;
            Ok(PackageFile { size, ..package.clone() })
        })?;
        place::mirror(&fetched, work.path(), place, world)?;
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
