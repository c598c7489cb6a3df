//! Copies the locked files to a place, and writes the pages of its index. Other files of the place stay
//! as they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{self, Read, Write as _},
    num::NonZeroUsize,
};

use serde::Serialize;

use super::{
    lock::{Lock, LockedWheel},
    wishes::Wishes,
};
use crate::{
    console::{Progress, World, size},
    digest::{Hasher, Sha256},
    error::{Context as _, No, Result, anyhow, bail, ensure},
    parallel,
    set::{IndexOptions, Indexed, Layout, PackageDirectories, SetPlace, index},
    spool::Spool,
    store::{Body, Object, Span, Store as _, http::HttpStore},
};

/// The bytes of a file that are kept in memory; of a larger one, in a temporary file.
const IN_MEMORY: usize = 8 << 20;
const DIRECTORY: &str = "dist/";

/// What has to be done so that a place has the files of a lock.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MirrorPlan {
    schema: &'static str,
    place: String,
    files: Vec<PlannedCopy>,
}

/// What happens to a locked file.
#[derive(Debug, Serialize)]
struct PlannedCopy {
    action: CopyAction,
    path: String,
    size: Option<u64>,
    sha256: Sha256,
    url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
enum CopyAction {
    New,
    Same,
}

impl MirrorPlan {
    /// Compares the files of a lock that the environments of `deps.toml` may install with a place.
    /// Fails if the place has other bytes under a locked name.
    pub fn of(
        lock: &Lock,
        wishes: &Wishes,
        place: &SetPlace,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Self> {
        let mut wheels: BTreeMap<String, &LockedWheel> = BTreeMap::new();
        for environment in wishes.environments() {
            for wheel in lock
                .packages
                .iter()
                .flat_map(|it| it.wheels_for(environment))
            {
                wheels.insert(wheel.name()?.to_string(), wheel);
            }
        }
        let there: BTreeMap<String, Object> = place.files_below(DIRECTORY)?.into_iter().collect();
        let wheels: Vec<(String, &LockedWheel)> = wheels.into_iter().collect();
        let compare = |(name, wheel): &(String, &LockedWheel)| -> Result<PlannedCopy> {
            let path = format!("{DIRECTORY}{name}");
            let is_there = there.contains_key(&path);
            ensure!(
                !is_there || place.digest(&path)? == Some(wheel.sha256()),
                No(format!(
                    "`{path}` of `{place}` has other bytes than the lock says"
                ))
            );
            Ok(PlannedCopy {
                action: if is_there {
                    CopyAction::Same
                } else {
                    CopyAction::New
                },
                path,
                size: wheel.size,
                sha256: wheel.sha256(),
                url: wheel.url.clone(),
            })
        };
        Ok(Self {
            schema: "rocwheel-deps-mirror-plan-v2",
            place: place.to_string(),
            files: parallel::try_map(&wheels, jobs, &world.stop, compare)?,
        })
    }

    /// Copies what is missing, each file whole or not at all, and writes the index.
    pub fn carry_out(
        &self,
        place: &SetPlace,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Indexed> {
        let missing: Vec<&PlannedCopy> = self.of_action(CopyAction::New).collect();
        if !missing.is_empty() {
            place.ensure_writable()?;
        }
        let bytes: u64 = missing.iter().filter_map(|it| it.size).sum();
        let progress = world.console.progress("Mirroring", place, bytes);
        let copy = |copy: &&PlannedCopy| -> Result<()> {
            let body = copy.receive(&progress, world);
            let body = body.with_context(|| format!("failed to download `{}`", copy.url))?;
            place.add(&copy.path, &body, copy.sha256)
        };
        let done = |copy: &&PlannedCopy, ()| world.console.status("Mirrored", &copy.path);
        parallel::try_each(&missing, jobs, &world.stop, copy, done)?;
        let options = IndexOptions {
            directories: PackageDirectories::Only(Layout::Dist),
            without: BTreeSet::new(),
            yank: None,
            jobs,
        };
        index(place, &options, world)
    }

    fn of_action(&self, action: CopyAction) -> impl Iterator<Item = &PlannedCopy> {
        self.files.iter().filter(move |it| it.action == action)
    }
}

impl fmt::Display for MirrorPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "to {}", self.place)?;
        for copy in &self.files {
            let bytes = copy
                .size
                .map_or_else(String::new, |it| size(it).to_string());
            writeln!(f, "{:<5} {bytes:>10}  {}", copy.action, copy.path)?;
        }
        let total = |action, what| {
            let sizes: Vec<u64> = self
                .of_action(action)
                .map(|it| it.size.unwrap_or(0))
                .collect();
            format!("{} {what} ({})", sizes.len(), size(sizes.iter().sum()))
        };
        let new = total(CopyAction::New, "new");
        writeln!(f, "{new}, {}", total(CopyAction::Same, "there already"))
    }
}

impl PlannedCopy {
    /// Downloads a file, and compares it with the lock before anybody sees it. A download that breaks
    /// off is resumed.
    fn receive(&self, progress: &Progress, world: &World) -> Result<VerifiedDownload> {
        let (store, key) = HttpStore::of_url(&self.url, &world.stop)?;
        let mut reader = store.get(&key, Span::Whole)?;
        let (mut spool, mut hashing) = (Spool::new(IN_MEMORY), Hasher::default());
        let mut buffer = vec![0; 1 << 18];
        let changed = |why: String| anyhow!(No(format!("it is not what was locked: {why}")));
        loop {
            world.stop.check()?;
            let count = reader.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            hashing.write_all(&buffer[..count])?;
            spool.push(&buffer[..count])?;
            progress.inc(count as u64);
            if let Some(size) = self.size.filter(|it| spool.size() > *it) {
                bail!(changed(format!("it has more than {size} bytes")));
            }
        }
        let (sha256, _) = hashing.finish();
        if sha256 != self.sha256 {
            bail!(changed(format!(
                "its SHA-256 is {sha256}, and not {}",
                self.sha256
            )));
        }
        Ok(VerifiedDownload(spool))
    }
}

/// A file that was received, and has the locked digest.
struct VerifiedDownload(Spool);

impl Body for VerifiedDownload {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        let spool = &self.0;
        Ok(Box::new(SpoolReader { spool, offset }))
    }
}

struct SpoolReader<'a> {
    spool: &'a Spool,
    offset: u64,
}

impl Read for SpoolReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.spool.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}
