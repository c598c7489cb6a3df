//! Reads the packages of a place, several at a time. Files that [`KnownFacts`] prove unchanged since
//! an earlier run wrote `set.json` are not opened; of others only the needed ranges are read, if the
//! store has their digest.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    io::{self, BufReader, Read, Seek, SeekFrom},
    num::NonZeroUsize,
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use flate2::read::GzDecoder;
use itertools::Itertools as _;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    files::ListedPackage,
    known::KnownFacts,
    place::{Address, SetPlace},
    set_json::{
        Layout, Remembered, SIDECAR, SetFile, SetJson, SetStamp, identity, is_of_others, is_ours,
        is_package, is_wheel,
    },
};

use crate::{
    artifact::{FileIdentity, FileStamp},
    console::{Progress, World},
    digest::Sha256,
    error::{Context as _, Hint as _, No, Result, Stop, anyhow, bail, ensure, one_line},
    location::Key,
    parallel,
    store::{Ranged, Span},
    wheel::{self, Metadata, PackageFilename},
};

/// The largest METADATA or PKG-INFO that is read.
const LONGEST_METADATA: u64 = 16 << 20;
/// The uncompressed bytes of an sdist that are searched for PKG-INFO, which is among its first
/// members. The limit stops a small archive that unpacks to any size.
const LONGEST_SEARCH: u64 = 1 << 30;

/// A reader that counts its bytes, and that fails once the user asks to stop.
pub(super) struct Watched<'a, R> {
    pub(super) source: R,
    pub(super) stop: &'a Stop,
    pub(super) progress: &'a Progress,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        let count = self.source.read(buffer)?;
        self.progress.inc(count as u64);
        Ok(count)
    }
}

/// A reader that notes whether its source failed. A parser that reads through it reports such a
/// failure like damage in the file.
struct FailureNote<R> {
    source: R,
    has_failed: bool,
}

impl<R> FailureNote<R> {
    fn of(source: R) -> Self {
        let has_failed = false;
        Self { source, has_failed }
    }
}

impl<R: Read> Read for FailureNote<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let answer = self.source.read(buffer);
        self.has_failed |= answer.is_err();
        answer
    }
}

impl<R: Seek> Seek for FailureNote<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.source.seek(to)
    }
}

/// How to read the packages of a place.
pub(super) struct Reading<'a> {
    pub(super) place: &'a SetPlace,
    /// Where the packages are. Of two copies of a file, that in the first of them is taken.
    pub(super) layouts: Vec<Layout>,
    pub(super) known: &'a KnownFacts,
    pub(super) at_once: NonZeroUsize,
    pub(super) world: &'a World,
    pub(super) progress: &'a Progress,
    /// Whether files that have not changed are not opened, and what the next `set.json` remembers of
    /// each file is returned. The metadata of such files is then not returned.
    pub(super) is_index: bool,
}

/// The packages of a place.
pub(super) struct ReadPackages {
    pub(super) set: SetJson,
    /// The METADATA of each wheel, by the path of its sidecar. For an index, only of those that an
    /// earlier index does not know.
    pub(super) metadata: HashMap<String, Vec<u8>>,
    /// The stamp that each file had before its digest was taken, by path, if it is on a local disk.
    /// Not for an index, and not if only an earlier index says that it has this digest.
    pub(super) stamps: HashMap<String, FileStamp>,
    /// Whether no package was opened.
    pub(super) is_unchanged: bool,
    /// Sidecars whose wheels are gone, by path.
    pub(super) orphans: Vec<String>,
}

/// Some packages that were read.
pub(super) struct ReadFiles {
    pub(super) files: Vec<SetFile>,
    pub(super) metadata: HashMap<String, Vec<u8>>,
    stamps: HashMap<String, FileStamp>,
    is_unchanged: bool,
}

/// A package that was read, or whose facts were known.
struct ReadFile {
    file: SetFile,
    /// The METADATA of a wheel, if it is wanted.
    metadata: Option<Vec<u8>>,
    stamp: Option<FileStamp>,
    is_opened: bool,
}

impl Reading<'_> {
    /// Reads the listed packages of the set, and those of other projects wherever they are.
    pub(super) fn run(&self, listed: Vec<ListedPackage>) -> Result<ReadPackages> {
        let (tasks, mut orphans) = tasks(listed);
        // What others put there is not ours to remove.
        orphans.retain(|path| {
            let package = path.strip_suffix(SIDECAR).unwrap_or(path);
            !is_of_others(path) || self.known.files.contains_key(package)
        });
        if tasks.is_empty() {
            let layout = self.layouts.first().copied().unwrap_or_default();
            let shown = self.place.shown_in_full(layout.files());
            return Err(anyhow!("no wheel or sdist in `{shown}`"))
                .hint(self.place.where_packages_are());
        }
        let read = self.read(&tasks)?;
        let files = self.without_copies(read.files)?;
        Ok(ReadPackages {
            set: SetJson::new(self.known.identity.clone(), files)?,
            metadata: read.metadata,
            stamps: read.stamps,
            is_unchanged: read.is_unchanged,
            orphans,
        })
    }

    /// Leaves out the second of two files that would be on one page under one name: one in `dist/`
    /// and one beside it, or one for all families and one of a family. Fails if their bytes differ.
    fn without_copies(&self, mut files: Vec<SetFile>) -> Result<Vec<SetFile>> {
        let rank = |file: &SetFile| self.layouts.iter().position(|it| *it == file.layout());
        files.sort_by_cached_key(|file| (file.name().to_owned(), file.family(), rank(file)));
        let mut kept: Vec<SetFile> = Vec::with_capacity(files.len());
        for file in files {
            let mut of_name = kept.iter().rev();
            let mut of_name = of_name.take_while_ref(|it| it.name() == file.name());
            let is_copy = |it: &&SetFile| it.family().is_none() || it.family() == file.family();
            match of_name.find(is_copy) {
                None => kept.push(file),
                Some(other) if other.sha256 == file.sha256 || is_of_others(file.name()) => {}
                Some(other) => {
                    let (one, two) = (&other.path, &file.path);
                    return Err(anyhow!(No(format!(
                        "two files of one name with different bytes: `{one}` and `{two}`"
                    ))))
                    .hint("remove the one that is not of this set");
                }
            }
        }
        Ok(kept)
    }

    /// Reads some packages, each once.
    pub(super) fn others(&self, listed: Vec<ListedPackage>) -> Result<ReadFiles> {
        let read = self.read(&tasks(listed).0)?;
        Ok(ReadFiles {
            files: self.without_copies(read.files)?,
            ..read
        })
    }

    fn read(&self, tasks: &[(ListedPackage, Option<SetStamp>)]) -> Result<ReadFiles> {
        let reading = |(listed, sidecar): &&(ListedPackage, Option<SetStamp>)| {
            let package = self.one(listed, sidecar.as_ref());
            package.with_context(|| {
                let shown = self.place.shown_in_full(&listed.path);
                format!("failed to read `{shown}`")
            })
        };
        // The largest first: one that comes last is read alone.
        let tasks = tasks.iter().sorted_by_key(|(it, _)| Reverse(it.stamp.size));
        let tasks: Vec<_> = tasks.collect();
        let read = parallel::try_map(&tasks, self.at_once, &self.world.stop, reading)?;
        let (mut files, mut metadata) = (Vec::with_capacity(read.len()), HashMap::new());
        let (mut stamps, mut is_unchanged) = (HashMap::new(), true);
        for read in read {
            is_unchanged &= !read.is_opened;
            let of_sidecar = |bytes| (read.file.sidecar_path(), bytes);
            metadata.extend(read.metadata.map(of_sidecar));
            stamps.extend(read.stamp.map(|stamp| (read.file.path.clone(), stamp)));
            files.push(read.file);
        }
        Ok(ReadFiles {
            files,
            metadata,
            stamps,
            is_unchanged,
        })
    }

    /// Gets the stamps of the sidecars that were written since the listing. In a bucket another
    /// listing costs one request for a thousand files instead of one for each.
    pub(super) fn remember_sidecars(
        &self,
        files: &mut [SetFile],
        written: &HashSet<String>,
    ) -> Result<()> {
        let is_local = self.place.local().is_some();
        let mut stamps: HashMap<String, SetStamp> = HashMap::new();
        if !is_local {
            let listed = self.place.files(&self.layouts)?.into_iter();
            stamps.extend(listed.map(|it| (it.path, it.stamp)));
        }
        for file in files {
            let path = file.sidecar_path();
            if is_local && !written.contains(&path) {
                continue;
            }
            let sidecar = if is_local {
                self.place.stamp(&path)?
            } else {
                stamps.remove(&path)
            };
            // A package of others that could not be read may have a sidecar all the same.
            let is_known = file.metadata.is_some() || !is_of_others(file.name());
            if is_known && sidecar.is_some() != file.metadata.is_some() {
                let shown = self.place.shown_in_full(&file.path);
                bail!(No(format!(
                    "the metadata of `{shown}` was written and is not there"
                )));
            }
            if let Some(remembered) = &mut file.remembered {
                remembered.sidecar = sidecar;
            }
        }
        Ok(())
    }

    fn one(&self, listed: &ListedPackage, sidecar: Option<&SetStamp>) -> Result<ReadFile> {
        let local = self.place.local();
        let found = local.map(|root| fs_err::metadata(root.join(&listed.path)));
        let found = found.transpose()?;
        let identity = found.as_ref().and_then(FileIdentity::from_metadata);
        let stamp = found.filter(|_| !self.is_index);
        let stamp = stamp.map(|found| FileStamp::from_metadata(&found));
        let known = self.recall(listed, sidecar, identity)?;
        let is_opened = known.is_none();
        let (mut file, metadata) = match known {
            Some(known) => known,
            None => self.examine(listed)?,
        };
        let is_hearsay = self.known.is_hearsay(listed, file.sha256, identity);
        let stamp = stamp.filter(|_| !is_hearsay);
        file.upload_time = listed.uploaded.and_then(in_utc);
        file.remembered = self.is_index.then(|| Remembered {
            file: listed.stamp.clone(),
            sidecar: sidecar.cloned(),
            sidecar_sha256: file.metadata,
            requires_python: file.requires_python.clone(),
        });
        Ok(ReadFile {
            file,
            metadata,
            stamp,
            is_opened,
        })
    }

    /// A package that need not be opened, from an earlier index or from the build that made it, and
    /// the METADATA of a wheel if it is wanted. `found` is the file that is there.
    fn recall(
        &self,
        listed: &ListedPackage,
        sidecar: Option<&SetStamp>,
        found: Option<FileIdentity>,
    ) -> Result<Option<(SetFile, Option<Vec<u8>>)>> {
        if let Some(file) = self.known.all(listed, sidecar) {
            let Some(digest) = file.metadata.filter(|_| !self.is_index) else {
                return Ok(Some((file, None)));
            };
            let path = self.place.path(&file.sidecar_path());
            let address = Address { origin: None, path };
            let bytes = self.place.bytes(&address)?;
            if let Some(bytes) = bytes.filter(|bytes| Sha256::of(bytes) == digest) {
                return Ok(Some((file, Some(bytes))));
            }
        }
        let Some(made) = self.known.made(listed, found) else {
            return Ok(None);
        };
        let (facts, sidecar) = named_metadata(made.metadata.clone(), &listed.name)?;
        let file = self.described(listed, made.sha256, facts, sidecar.as_deref());
        Ok(Some((file, sidecar)))
    }

    fn described(
        &self,
        listed: &ListedPackage,
        sha256: Sha256,
        facts: Metadata,
        sidecar: Option<&[u8]>,
    ) -> SetFile {
        let earlier = self.known.files.get(&listed.path);
        let extras = facts.provides_extra.iter();
        let extras = extras.filter_map(|it| it.strip_prefix("device-")?.parse().ok());
        let device_extras = extras.filter(|_| !is_ours(&facts.name)).collect();
        SetFile {
            path: listed.path.clone(),
            project: facts.name,
            version: facts.version,
            size: listed.stamp.size,
            sha256,
            yanked: earlier.and_then(|file| file.yanked.clone()),
            remembered: None,
            device_extras,
            upload_time: None,
            metadata: sidecar.map(Sha256::of),
            requires_python: facts.requires_python,
        }
    }

    /// Reads a package and, of a wheel, its METADATA. The digest comes from an earlier run, from the
    /// store, or from reading the whole file, in this order.
    fn examine(&self, listed: &ListedPackage) -> Result<(SetFile, Option<Vec<u8>>)> {
        let (store, key) = (&self.place.store, self.place.key(&listed.path)?);
        let size = listed.stamp.size;
        let known = match self.known.sha256(listed) {
            // A directory keeps no digests.
            None if self.place.local().is_none() => store.head(&key)?.sha256,
            known => known.or_else(|| self.known.claimed.get(&listed.path).copied()),
        };
        // Parse first: a file that is not a valid package fails without a full download.
        let mut far = FailureNote::of(Ranged::of(Arc::clone(store), key.clone(), size));
        let answer = package_metadata(BufReader::new(&mut far), &listed.name);
        let (facts, sidecar) = match answer {
            Ok(found) => found,
            // The package may be good: the store could not deliver it.
            Err(error) if far.has_failed => return Err(error),
            Err(error) => {
                // A package of others does not stop ours. Its page needs no more than its name.
                let other = identity(&listed.name).filter(|(it, _)| !is_ours(it));
                let Some((name, version)) = other else {
                    return Err(error);
                };
                let shown = self.place.shown_in_full(&listed.path);
                let why = one_line(&error);
                self.world.console.warn(format!(
                    "`{shown}` is listed without its metadata, which cannot be read: {why}"
                ));
                let facts = Metadata {
                    name,
                    version,
                    requires_python: None,
                    requires_dist: Vec::new(),
                    provides_extra: Vec::new(),
                };
                (facts, None)
            }
        };
        let sha256 = known.map_or_else(|| self.hash(&key, size), Ok)?;
        let file = self.described(listed, sha256, facts, sidecar.as_deref());
        Ok((file, sidecar))
    }

    fn hash(&self, key: &Key, listed: u64) -> Result<Sha256> {
        let watched = Watched {
            source: self.place.store.get(key, Span::Whole)?,
            stop: &self.world.stop,
            progress: self.progress,
        };
        let answer = Sha256::of_reader(BufReader::with_capacity(1 << 20, watched));
        // After an interruption the reader fails too. Return the interruption, not its error.
        self.world.stop.check()?;
        let (sha256, size) = answer?;
        ensure!(size == listed, "it changed while it was read");
        Ok(sha256)
    }
}

/// Pairs each package with the stamp of its sidecar, in order. Also returns the sidecars without a
/// package.
fn tasks(listed: Vec<ListedPackage>) -> (Vec<(ListedPackage, Option<SetStamp>)>, Vec<String>) {
    let (mut packages, others): (Vec<ListedPackage>, Vec<ListedPackage>) = listed
        .into_iter()
        .partition(|listed| is_package(&listed.name));
    packages.sort_by(|a, b| a.path.cmp(&b.path));
    let others = others.into_iter().map(|listed| (listed.path, listed.stamp));
    let mut sidecars: HashMap<String, SetStamp> = others.collect();
    let tasks = packages.into_iter().map(|package| {
        let sidecar = sidecars.remove(&format!("{}{SIDECAR}", package.path));
        (package, sidecar)
    });
    let tasks = tasks.collect();
    let mut orphans: Vec<String> = sidecars.into_keys().collect();
    orphans.sort_unstable();
    (tasks, orphans)
}

/// `2026-03-01T12:00:05Z`. `None` for a time that no calendar has.
fn in_utc(time: SystemTime) -> Option<String> {
    let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let time = OffsetDateTime::from_unix_timestamp(seconds.try_into().ok()?).ok()?;
    time.format(&Rfc3339).ok()
}

/// Reads the metadata of a package: METADATA of a wheel
/// ([PEP 427](https://peps.python.org/pep-0427/)), PKG-INFO of an sdist
/// ([PEP 625](https://peps.python.org/pep-0625/)); and the bytes of its sidecar, of wheels only. The
/// metadata of an sdist may differ from that of the wheel built from it.
///
/// The file name must say the same project and version, because installers choose a file by its
/// name.
pub fn package_metadata(file: impl Read + Seek, name: &str) -> Result<(Metadata, Option<Vec<u8>>)> {
    let outside: PackageFilename = name.parse()?;
    let text = if is_wheel(name) {
        wheel::read_metadata(file, LONGEST_METADATA).context("failed to read METADATA")?
    } else {
        sdist_metadata(file, outside.top()).context("failed to read PKG-INFO")?
    };
    named_metadata(text, name)
}

/// METADATA of a wheel on this disk, or PKG-INFO of an sdist.
pub(super) fn metadata_of(file: &Path) -> Result<Vec<u8>> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let outside: PackageFilename = name.parse()?;
    let source = BufReader::new(fs_err::File::open(file)?);
    if is_wheel(&name) {
        wheel::read_metadata(source, LONGEST_METADATA).context("failed to read METADATA")
    } else {
        sdist_metadata(source, outside.top()).context("failed to read PKG-INFO")
    }
}

/// What a package says of itself, if that agrees with its name; and the bytes of its sidecar.
pub fn named_metadata(text: Vec<u8>, name: &str) -> Result<(Metadata, Option<Vec<u8>>)> {
    let outside: PackageFilename = name.parse()?;
    let inside = Metadata::parse(&text)?;
    ensure!(
        inside.name == outside.name,
        "its metadata is that of another project: `{}`",
        inside.name
    );
    ensure!(
        inside.version == outside.version,
        "its metadata is that of another version: `{}`",
        inside.version
    );
    Ok((inside, is_wheel(name).then_some(text)))
}

fn sdist_metadata(file: impl Read, top: &str) -> Result<Vec<u8>> {
    let wanted = format!("{top}/PKG-INFO");
    let mut archive = tar::Archive::new(GzDecoder::new(file).take(LONGEST_SEARCH));
    for entry in archive.entries()? {
        let entry = entry?;
        if *entry.path_bytes() == *wanted.as_bytes() {
            let mut bytes = Vec::new();
            entry.take(LONGEST_METADATA + 1).read_to_end(&mut bytes)?;
            ensure!(
                bytes.len() as u64 <= LONGEST_METADATA,
                "more than {LONGEST_METADATA} bytes"
            );
            return Ok(bytes);
        }
    }
    bail!("no `{wanted}`")
}

#[cfg(test)]
mod tests;
