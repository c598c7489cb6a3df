//! Copies the locked files from a registry to a place, and writes the pages of its index.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{self, Read, Write as _},
    num::NonZeroUsize,
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    lock::{DepsLock, LockedFile},
    registry::{Registry, RegistryFile},
    update::changed,
};
use crate::{
    console::{Progress, World, many, size},
    digest::Hasher,
    error::{Context as _, No, Result, bail, ensure},
    parallel,
    set::{IndexOptions, Indexed, Layout, PackageDirectories, SetPlace, YankList, index},
    spool::Spool,
    store::Body,
    wheel::PackageFilename,
};

/// The bytes of a file that are kept in memory; of a larger one, in a temporary file.
const IN_MEMORY: usize = 8 << 20;
const DIRECTORY: &str = "dist/";
/// Why a file is yanked that the lock does not have.
const NOT_LOCKED: &str = "not in deps.lock";

/// What has to be done to make a place equal to a lock.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MirrorPlan {
    schema: &'static str,
    place: String,
    files: Vec<PlannedCopy>,
    /// Files that the index yanks, each with the reason.
    yanked: BTreeMap<String, String>,
    #[serde(skip)]
    sources: BTreeMap<String, RegistryFile>,
}

/// What happens to a locked file.
#[derive(Debug, Serialize)]
struct PlannedCopy {
    action: CopyAction,
    path: String,
    size: u64,
    #[serde(skip)]
    locked: LockedFile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
enum CopyAction {
    New,
    Same,
}

impl MirrorPlan {
    /// Compares a lock with the registry and with the place. Fails if the registry has other bytes
    /// under a locked name, or the place has.
    pub fn of(
        lock: &DepsLock,
        registry: &Registry,
        place: &SetPlace,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Self> {
        lock.ensure_some()?;
        let sources = sources(lock, registry, jobs, world)?;
        let there = place.files_below(DIRECTORY)?;
        let there: BTreeMap<String, u64> = there
            .into_iter()
            .map(|(path, it)| (path, it.size))
            .collect();
        let compare = |file: &LockedFile| -> Result<PlannedCopy> {
            let path = format!("{DIRECTORY}{}", file.name);
            let action = if there.contains_key(&path) {
                ensure!(
                    place.digest(&path)? == Some(file.sha256),
                    No(format!(
                        "`{path}` of `{place}` has other bytes than the lock says"
                    ))
                );
                CopyAction::Same
            } else {
                CopyAction::New
            };
            let (size, locked) = (file.size, file.clone());
            Ok(PlannedCopy {
                action,
                path,
                size,
                locked,
            })
        };
        let files = parallel::try_map(&lock.files, jobs, &world.stop, compare)?;
        let yanked = lock.files.iter().filter_map(|file| {
            let why = sources.get(&file.name)?.yanked.clone()?;
            Some((file.name.clone(), why))
        });
        let mut yanked: BTreeMap<String, String> = yanked.collect();
        for (name, why) in &yanked {
            world
                .console
                .warn(format!("`{name}` is locked, and was yanked since: {why:?}"));
        }
        let locked: BTreeSet<&String> = lock.files.iter().map(|it| &it.name).collect();
        let names = there.keys().filter_map(|path| path.strip_prefix(DIRECTORY));
        let names = names.filter(|name| name.parse::<PackageFilename>().is_ok());
        let others = names
            .map(str::to_owned)
            .filter(|name| !locked.contains(name));
        yanked.extend(others.map(|name| (name, NOT_LOCKED.to_owned())));
        Ok(Self {
            schema: "rocwheel-deps-mirror-plan-v1",
            place: place.to_string(),
            files,
            yanked,
            sources,
        })
    }

    /// Copies what is missing, each file whole or not at all, and then writes the index.
    pub fn carry_out(
        &self,
        registry: &Registry,
        place: &SetPlace,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Indexed> {
        let missing: Vec<&PlannedCopy> = self.of_action(CopyAction::New).collect();
        if !missing.is_empty() {
            place.ensure_writable()?;
        }
        let bytes: u64 = missing.iter().map(|it| it.size).sum();
        let progress = world.console.progress("Mirroring", place, bytes);
        let copy = |copy: &&PlannedCopy| -> Result<()> {
            let name = &copy.locked.name;
            let source = self.sources.get(name).context("it has no source")?;
            let body = receive(&copy.locked, source, registry, &progress, world);
            let body = body.with_context(|| format!("failed to download `{name}`"))?;
            place.add(&copy.path, &body, copy.locked.sha256)
        };
        let done = |copy: &&PlannedCopy, ()| {
            let facts = format!("{}: {}", copy.path, size(copy.size));
            world.console.status("Mirrored", facts);
        };
        parallel::try_each(&missing, jobs, &world.stop, copy, done)?;
        index(place, &self.index_options(jobs)?, world)
    }

    fn index_options(&self, jobs: NonZeroUsize) -> Result<IndexOptions> {
        let lines = self.yanked.iter().map(|(name, why)| {
            let why: String = why
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            format!("{name} {why}\n")
        });
        Ok(IndexOptions {
            directories: PackageDirectories::Only(Layout::Dist),
            yank: Some(YankList::parse(&lines.collect::<String>())?),
            is_dry_run: false,
            is_from_bytes: false,
            jobs,
        })
    }

    fn of_action(&self, action: CopyAction) -> impl Iterator<Item = &PlannedCopy> {
        self.files.iter().filter(move |it| it.action == action)
    }
}

impl fmt::Display for MirrorPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "to {}", self.place)?;
        for copy in &self.files {
            writeln!(
                f,
                "{:<5} {:>10}  {}",
                copy.action,
                size(copy.size).to_string(),
                copy.path
            )?;
        }
        for (name, why) in &self.yanked {
            writeln!(f, "yank  {:>10}  {DIRECTORY}{name}  ({why})", "")?;
        }
        let total = |action, what| {
            let sizes: Vec<u64> = self.of_action(action).map(|it| it.size).collect();
            format!("{} {what} ({})", sizes.len(), size(sizes.iter().sum()))
        };
        let (new, same) = (
            total(CopyAction::New, "new"),
            total(CopyAction::Same, "there already"),
        );
        writeln!(
            f,
            "{new}, {same}, {} yanked",
            many(self.yanked.len(), "file")
        )
    }
}

/// The files of the registry that the lock means. A file of a locked name with another digest is an
/// attack or a fault of the registry.
fn sources(
    lock: &DepsLock,
    registry: &Registry,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<BTreeMap<String, RegistryFile>> {
    let projects: Vec<_> = lock.files.iter().map(|it| &it.project).unique().collect();
    let pages = parallel::try_map(&projects, jobs, &world.stop, |it| registry.project(it))?;
    let files = pages.into_iter().flatten().flat_map(|page| page.files);
    let mut found: BTreeMap<String, RegistryFile> =
        files.map(|file| (file.name.to_string(), file)).collect();
    let mut sources = BTreeMap::new();
    for locked in &lock.files {
        let name = &locked.name;
        let file = found.remove(name);
        let file = file.ok_or_else(|| changed(name, "the registry no longer has it"))?;
        if file.sha256 != locked.sha256 {
            let why = format!(
                "its sha256 was {}, and is {} now",
                locked.sha256, file.sha256
            );
            return Err(changed(name, why));
        }
        sources.insert(name.clone(), file);
    }
    Ok(sources)
}

/// A file that was received, and has the locked digest.
struct VerifiedDownload(Spool);

/// Downloads a file, and compares it with the lock.
fn receive(
    locked: &LockedFile,
    source: &RegistryFile,
    registry: &Registry,
    progress: &Progress,
    world: &World,
) -> Result<VerifiedDownload> {
    let mut reader = registry.open(source)?;
    let (mut spool, mut hashing) = (Spool::new(IN_MEMORY), Hasher::default());
    let mut buffer = vec![0; 1 << 18];
    loop {
        world.stop.check()?;
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hashing.write_all(&buffer[..count])?;
        spool.push(&buffer[..count])?;
        progress.inc(count as u64);
        if spool.size() > locked.size {
            bail!(changed(
                &locked.name,
                format!("it has more than {} bytes", locked.size)
            ));
        }
    }
    let (sha256, len) = hashing.finish();
    if len != locked.size {
        bail!(changed(
            &locked.name,
            format!("it has {len} bytes, and not {}", locked.size)
        ));
    }
    if sha256 != locked.sha256 {
        bail!(changed(
            &locked.name,
            format!(
                "its bytes have the sha256 {sha256}, and not {}",
                locked.sha256
            )
        ));
    }
    Ok(VerifiedDownload(spool))
}

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
