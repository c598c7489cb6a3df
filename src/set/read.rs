//! Reads the packages of a place, several at a time. Files that `known` proves unchanged are not
//! opened; of others only the needed ranges are read, if the store has their digest.

use std::{
    collections::HashMap,
    io::{self, Cursor, Read},
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
};

use super::{
    facts,
    files::{ListedPackage, Opened},
    known::KnownFacts,
    package::is_package,
    place::SetPlace,
};
use crate::{
    digest::Sha256,
    error::{Context as _, Hint as _, No, Result, Stop, bail, ensure},
    index::{Layout, PackageSet, Remembered, SIDECAR, SetFile, SetStamp, Sidecar, UploadTime},
    parallel,
};

/// Progress display and interruption while reading.
pub(super) struct SetReadProgress<'a> {
    pub(super) stop: &'a Stop,
    pub(super) progress: &'a (dyn Fn(u64) + Sync),
}

/// Called with a wheel, the stamp of its sidecar in the listing, and its metadata. Returns the
/// stamp of the sidecar afterwards, if it is known.
pub(super) type Keep<'a> =
    &'a (dyn Fn(&SetFile, Option<&SetStamp>, Vec<u8>) -> Result<Option<SetStamp>> + Sync);

/// Whether to read the metadata of a wheel that is known to be unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetadataDepth {
    /// Not if its sidecar is unchanged too.
    Remembered,
    /// Always; the caller needs the bytes of every sidecar.
    Wanted,
}

/// The packages of a place, and what to store in the next `set.json`.
pub(super) struct ReadPackages {
    pub(super) set: PackageSet,
    /// The stamps and facts for `set.json`, by path.
    pub(super) remembered: HashMap<String, Remembered>,
    /// The number of packages that were unchanged and not opened.
    pub(super) untouched: usize,
    /// Sidecars whose wheels are gone, by path.
    pub(super) orphans: Vec<String>,
}

/// How to read the packages of a place.
pub(super) struct Reading<'a> {
    pub(super) place: &'a SetPlace,
    pub(super) layout: Layout,
    pub(super) known: &'a KnownFacts,
    pub(super) metadata: MetadataDepth,
    pub(super) at_once: NonZeroUsize,
    pub(super) watch: SetReadProgress<'a>,
    pub(super) keep: Keep<'a>,
}

/// One package, and the stamp of its sidecar if it exists.
struct ReadTask {
    package: ListedPackage,
    sidecar: Option<SetStamp>,
}

impl Reading<'_> {
    pub(super) fn run(&self) -> Result<ReadPackages> {
        let listed = self.place.files(self.layout)?;
        let (tasks, orphans) = tasks(listed, self.layout);
        let check = || -> Result<()> {
            let shown = self.shown(self.layout.files());
            ensure!(!tasks.is_empty(), "no wheel or sdist in `{shown}`");
            Ok(())
        };
        check().hint("pass the directory that `rocwheel build` wrote to")?;
        let mut files = Vec::with_capacity(tasks.len());
        let (mut remembered, mut untouched) = (HashMap::with_capacity(tasks.len()), 0);
        let reading = |task: &ReadTask| {
            let path = task.package.path(self.layout);
            let (file, facts, is_known) = self
                .one(task, &path)
                .with_context(|| format!("failed to read `{}`", self.shown(&path)))?;
            Ok((file, (path, facts), is_known))
        };
        let read = parallel::try_map(&tasks, self.at_once, self.watch.stop, reading)?;
        for (file, facts, is_known) in read {
            files.push(file);
            remembered.extend([facts]);
            untouched += usize::from(is_known);
        }
        Ok(ReadPackages {
            set: PackageSet::new(files)?,
            remembered,
            untouched,
            orphans,
        })
    }

    /// Lists the place again, to get the stamps of the sidecars written since the first listing. In
    /// a bucket a listing costs one request for a thousand files instead of one for each.
    pub(super) fn remember_sidecars(&self, found: &mut ReadPackages) -> Result<()> {
        let lacks = |facts: &Remembered| facts.sidecar.is_some() != facts.sidecar_sha256.is_some();
        if !found.remembered.values().any(lacks) {
            return Ok(());
        }
        let listed = self.place.files(self.layout)?;
        let stamps = listed
            .into_iter()
            .map(|it| (it.path(self.layout), it.stamp));
        let mut stamps: HashMap<String, SetStamp> = stamps.collect();
        for (path, facts) in &mut found.remembered {
            facts.sidecar = stamps.remove(&format!("{path}{SIDECAR}"));
            ensure!(
                !lacks(facts),
                No(format!(
                    "the metadata of `{}` was written and is not there",
                    self.shown(path)
                ))
            );
        }
        Ok(())
    }

    /// For messages: the full path of a file of the set.
    fn shown(&self, path: &str) -> String {
        self.place.shown_in_full(path)
    }

    /// Reads one package. Returns it, what to remember about it, and whether it was not opened.
    fn one(&self, task: &ReadTask, path: &str) -> Result<(SetFile, Remembered, bool)> {
        let (listed, sidecar) = (&task.package, task.sidecar.as_ref());
        let upload_time = listed.uploaded.and_then(UploadTime::of);
        let (yanked, name) = (self.known.yanked(path), listed.name.parse()?);
        let family = listed.family.clone();
        if self.metadata == MetadataDepth::Remembered
            && let Some((file, facts, sidecar)) = self.known.all(listed, sidecar, self.layout)
        {
            let file = SetFile {
                family,
                name,
                project: file.project.clone(),
                version: file.version.clone(),
                size: listed.stamp.size,
                sha256: file.sha256,
                upload_time,
                metadata: sidecar,
                requires_python: facts.requires_python.clone(),
                yanked,
            };
            return Ok((file, facts.clone(), true));
        }
        let (sha256, facts) = self.examine(listed)?;
        let file = SetFile {
            family,
            name,
            project: facts.project,
            version: facts.version,
            size: listed.stamp.size,
            sha256,
            upload_time,
            metadata: facts.sidecar.as_deref().map(Sidecar::of),
            requires_python: facts.requires_python,
            yanked,
        };
        let kept = match facts.sidecar {
            Some(bytes) => (self.keep)(&file, sidecar, bytes)?,
            None => task.sidecar.clone(),
        };
        let remembered = Remembered {
            file: listed.stamp.clone(),
            sidecar: kept,
            sidecar_sha256: file.metadata.map(|sidecar| sidecar.sha256),
            requires_python: file.requires_python.clone(),
        };
        Ok((file, remembered, false))
    }

    /// The digest and the facts of a package. The digest comes from an earlier run, from the store,
    /// or from reading the whole file, in this order.
    fn examine(&self, listed: &ListedPackage) -> Result<(Sha256, facts::PackageFacts)> {
        let known = match self.known.sha256(listed, self.layout) {
            None => self.place.kept_digest(listed, self.layout)?,
            known => known,
        };
        match self.place.open_file(listed, self.layout)? {
            Opened::Whole(bytes) => {
                if bytes.len() as u64 != listed.stamp.size {
                    bail!("it changed while it was read");
                }
                let sha256 = known.unwrap_or_else(|| {
                    (self.watch.progress)(bytes.len() as u64);
                    Sha256::of(&bytes)
                });
                Ok((sha256, facts::read(Cursor::new(bytes), &listed.name)?))
            }
            Opened::Far(reader) => {
                // Parse first: a file that is not a valid package fails without a full download.
                let facts = facts::read(io::BufReader::new(reader), &listed.name)?;
                let sha256 = known.map_or_else(|| self.hash(listed), Ok)?;
                Ok((sha256, facts))
            }
        }
    }

    fn hash(&self, listed: &ListedPackage) -> Result<Sha256> {
        let watched = SetFileReader {
            source: self.place.stream(listed, self.layout)?,
            watch: &self.watch,
        };
        let answer = Sha256::of_reader(io::BufReader::with_capacity(1 << 20, watched));
        // After an interruption the reader fails too. Return the interruption, not its error.
        self.watch.stop.check()?;
        let (sha256, size) = answer?;
        ensure!(size == listed.stamp.size, "it changed while it was read");
        Ok(sha256)
    }
}

/// Pairs each package with its sidecar, in order. Also returns the sidecars without a package.
fn tasks(listed: Vec<ListedPackage>, layout: Layout) -> (Vec<ReadTask>, Vec<String>) {
    let (mut packages, others): (Vec<ListedPackage>, Vec<ListedPackage>) = listed
        .into_iter()
        .partition(|listed| is_package(&listed.name));
    packages.sort_by(|a, b| (&a.family, &a.name).cmp(&(&b.family, &b.name)));
    let others = others.into_iter();
    let mut sidecars: HashMap<String, SetStamp> = others
        .map(|listed| (listed.path(layout), listed.stamp))
        .collect();
    let task = |package: ListedPackage| ReadTask {
        sidecar: sidecars.remove(&format!("{}{SIDECAR}", package.path(layout))),
        package,
    };
    let tasks = packages.into_iter().map(task).collect();
    let mut orphans: Vec<String> = sidecars.into_keys().collect();
    orphans.sort_unstable();
    (tasks, orphans)
}

struct SetFileReader<'a> {
    source: Box<dyn Read + Send>,
    watch: &'a SetReadProgress<'a>,
}

impl Read for SetFileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watch.stop.check().map_err(io::Error::other)?;
        let count = self.source.read(buffer)?;
        (self.watch.progress)(count as u64);
        Ok(count)
    }
}

/// Collects the bytes of sidecars by path, from several threads.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<HashMap<String, Vec<u8>>>);

impl Kept {
    pub(super) fn keep(&self, path: String, bytes: Vec<u8>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(path, bytes);
    }

    pub(super) fn into_inner(self) -> HashMap<String, Vec<u8>> {
        let kept = self.0.into_inner();
        kept.unwrap_or_else(PoisonError::into_inner)
    }
}
