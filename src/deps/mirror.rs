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
    concern::{Concern, ConcernKind},
    leftovers::{LeftoverRule, Leftovers},
    lock::{DepsLock, LockedFile},
    page::RegistryFile,
    registry::Registry,
    update::{changed, ensure_locked},
};
use crate::{
    console::{Progress, World, many, size},
    digest::{Hasher, Sha256},
    error::{Context as _, No, Result, bail, ensure},
    parallel,
    set::{IndexOptions, Indexed, Layout, PackageDirectories, SIDECAR, SetPlace, YankList, index},
    spool::Spool,
    store::{Body, Object},
    wheel::PackageFilename,
};

/// The bytes of a file that are kept in memory; of a larger one, in a temporary file.
const IN_MEMORY: usize = 8 << 20;
const DIRECTORY: &str = "dist/";
/// What a registry attests of a file, beside the file.
const PROVENANCE: &str = ".provenance";

/// How a place is made equal to a lock.
#[derive(Debug)]
pub struct MirrorOptions {
    pub leftovers: LeftoverRule,
    pub deny: Vec<ConcernKind>,
    pub jobs: NonZeroUsize,
}

/// What has to be done to make a place equal to a lock.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MirrorPlan {
    schema: &'static str,
    place: String,
    files: Vec<PlannedCopy>,
    /// Files that the index yanks, each with the reason.
    yanked: BTreeMap<String, String>,
    /// Files that are removed: the lock has not had them for some time.
    removed: BTreeSet<String>,
    /// Attestations that the registry has of locked files, by path.
    #[serde(serialize_with = "keys")]
    provenance: BTreeMap<String, Vec<u8>>,
    /// What the place has.
    #[serde(skip)]
    there: BTreeMap<String, Object>,
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

fn keys<S: serde::Serializer>(map: &BTreeMap<String, Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(map.keys())
}

impl MirrorPlan {
    /// Compares a lock with the registry and with the place. Fails if the registry has other bytes
    /// under a locked name, or the place has.
    pub fn of(
        lock: &DepsLock,
        registry: &Registry,
        place: &SetPlace,
        options: &MirrorOptions,
        world: &World,
    ) -> Result<Self> {
        lock.ensure_some()?;
        let jobs = options.jobs;
        let sources = sources(lock, registry, jobs, world)?;
        let there: BTreeMap<String, Object> = place.files_below(DIRECTORY)?.into_iter().collect();
        let compare = |file: &LockedFile| PlannedCopy::of(file, place, &there);
        let files = parallel::try_map(&lock.files, jobs, &world.stop, compare)?;
        let (mut concerns, yanks) = yanks(lock, &sources);
        let lacking = lock.files.iter().filter(|it| {
            let path = provenance_path(&it.name);
            it.publisher.is_some() && !there.contains_key(&path)
        });
        let lacking: Vec<&LockedFile> = lacking.collect();
        let read = |file: &&LockedFile| attested(file, &sources, registry);
        let attested = parallel::try_map(&lacking, jobs, &world.stop, read)?;
        let mut provenance = BTreeMap::new();
        for AttestedFile {
            path,
            bytes,
            change,
        } in attested
        {
            provenance.extend(bytes.map(|it| (path, it)));
            concerns.extend(change);
        }
        Concern::tell(concerns, &options.deny, world)?;
        let names = there.keys().filter_map(|path| path.strip_prefix(DIRECTORY));
        let names: Vec<PackageFilename> = names.filter_map(|name| name.parse().ok()).collect();
        let Leftovers { yanked, removed } =
            options
                .leftovers
                .decide(&names, lock, &earlier_yanks(place));
        Ok(Self {
            schema: "rocwheel-deps-mirror-plan-v1",
            place: place.to_string(),
            files,
            yanked: yanks.into_iter().chain(yanked).collect(),
            removed,
            provenance,
            there,
            sources,
        })
    }

    /// Copies what is missing, each file whole or not at all, writes the index, and removes what it no
    /// longer names.
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
        for (path, bytes) in &self.provenance {
            place.add(path, &bytes.as_slice(), Sha256::of(bytes))?;
        }
        let indexed = index(place, &self.index_options(jobs)?, world)?;
        // No page names them any more.
        for name in &self.removed {
            self.remove(name, place)?;
            world
                .console
                .status("Removed", format!("{DIRECTORY}{name}"));
        }
        Ok(indexed)
    }

    /// Removes a file, and what is beside it. The file last: the others would not be found without it.
    fn remove(&self, name: &str, place: &SetPlace) -> Result<()> {
        for end in [SIDECAR, PROVENANCE, ""] {
            let path = format!("{DIRECTORY}{name}{end}");
            if let Some(object) = self.there.get(&path) {
                place.remove(&path, object)?;
            }
        }
        Ok(())
    }

    fn index_options(&self, jobs: NonZeroUsize) -> Result<IndexOptions> {
        let lines = self.yanked.iter().map(|(name, why)| {
            let why: String = why
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            format!("{name} {why}\n")
        });
        let removed = self.removed.iter();
        Ok(IndexOptions {
            directories: PackageDirectories::Only(Layout::Dist),
            without: removed.map(|name| format!("{DIRECTORY}{name}")).collect(),
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
        for path in self.provenance.keys() {
            writeln!(f, "{:<5} {:>10}  {path}", CopyAction::New, "")?;
        }
        for (name, why) in &self.yanked {
            writeln!(f, "yank  {:>10}  {DIRECTORY}{name}  ({why})", "")?;
        }
        for name in &self.removed {
            writeln!(f, "remove {:>9}  {DIRECTORY}{name}", "")?;
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
            "{new}, {same}, {} yanked, {} removed",
            many(self.yanked.len(), "file"),
            self.removed.len()
        )
    }
}

impl PlannedCopy {
    fn of(file: &LockedFile, place: &SetPlace, there: &BTreeMap<String, Object>) -> Result<Self> {
        let path = format!("{DIRECTORY}{}", file.name);
        let is_there = there.contains_key(&path);
        ensure!(
            !is_there || place.digest(&path)? == Some(file.sha256),
            No(format!(
                "`{path}` of `{place}` has other bytes than the lock says"
            ))
        );
        Ok(Self {
            action: if is_there {
                CopyAction::Same
            } else {
                CopyAction::New
            },
            path,
            size: file.size,
            locked: file.clone(),
        })
    }
}

/// The locked files that were yanked since, as concerns, and the reason for each.
fn yanks(
    lock: &DepsLock,
    sources: &BTreeMap<String, RegistryFile>,
) -> (Vec<Concern>, BTreeMap<String, String>) {
    let yanks = lock.files.iter().filter_map(|file| {
        let why = sources.get(&file.name)?.yanked.clone()?;
        Some((file.name.clone(), why))
    });
    let yanks: BTreeMap<String, String> = yanks.collect();
    let concern = |(name, why): (&String, &String)| Concern {
        kind: ConcernKind::Yanked,
        text: format!("`{name}` is locked, and was yanked since: {why:?}"),
    };
    (yanks.iter().map(concern).collect(), yanks)
}

/// The reasons for which the index of a place yanks its files. Without an index there are none, and
/// their times begin today.
fn earlier_yanks(place: &SetPlace) -> BTreeMap<String, String> {
    let files = place.set_json().map(|it| it.files).unwrap_or_default();
    let yanked = files.into_iter().filter_map(|it| {
        let name = it.name().to_owned();
        Some((name, it.yanked?))
    });
    yanked.collect()
}

fn provenance_path(name: &str) -> String {
    format!("{DIRECTORY}{name}{PROVENANCE}")
}

/// What the registry attests of a locked file.
struct AttestedFile {
    path: String,
    /// `None` if it attests nothing any more.
    bytes: Option<Vec<u8>>,
    /// If it names another publisher than the lock.
    change: Option<Concern>,
}

fn attested(
    locked: &LockedFile,
    sources: &BTreeMap<String, RegistryFile>,
    registry: &Registry,
) -> Result<AttestedFile> {
    let name = &locked.name;
    let source = sources.get(name).context("it has no source")?;
    let (bytes, publisher) = registry.provenance(source)?.unzip();
    let change = || {
        let what = format!("`{name}`");
        Concern::of_publisher(&what, publisher.as_ref(), locked.publisher.iter())
    };
    Ok(AttestedFile {
        path: provenance_path(name),
        bytes,
        change: (publisher != locked.publisher).then(change),
    })
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
        ensure_locked(locked, &file)?;
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
