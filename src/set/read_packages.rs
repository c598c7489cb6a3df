//! Reads the packages of a place, several at a time. Files that [`KnownFacts`] prove unchanged since an
//! earlier run are not opened; of others only the needed ranges are read, if the store has their digest.

use std::{
    cmp::Reverse,
    collections::HashMap,
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
    package_cache::{KnownFacts, OpenedFile},
    package_files::ListedPackage,
    place::SetPlace,
    set_json::{
        Layout, Remembered, SIDECAR, SetFile, SetJson, SetStamp, identity, is_of_others, is_ours,
        is_package, is_wheel,
    },
};

use crate::{
    console::{Progress, World},
    digest::Sha256,
    error::{Context as _, Hint as _, No, Result, anyhow, bail, ensure, one_line},
    io::{CachedFile, FileIdentity, FileStamp, Tap},
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
}

/// The packages of a place.
pub(super) struct ReadPackages {
    pub(super) set: SetJson,
    /// The METADATA of each wheel, by the path of its sidecar. Of a bucket, only of wheels that an earlier
    /// index does not know.
    pub(super) metadata: HashMap<String, Vec<u8>>,
    /// The stamp that each file had before its digest was taken, by path, if it is on a local disk.
    pub(super) stamps: HashMap<String, FileStamp>,
    /// The files on a local disk that were opened, for the cache.
    pub(super) opened: Vec<OpenedFile>,
    /// Sidecars whose wheels are gone, by path.
    pub(super) orphans: Vec<String>,
}

/// Some packages that were read.
pub(super) struct ReadFiles {
    pub(super) files: Vec<SetFile>,
    pub(super) metadata: HashMap<String, Vec<u8>>,
    stamps: HashMap<String, FileStamp>,
    opened: Vec<OpenedFile>,
}

/// A package that was read, or whose facts were known.
struct ReadFile {
    file: SetFile,
    /// The METADATA of a wheel, if it is wanted.
    metadata: Option<Vec<u8>>,
    stamp: Option<FileStamp>,
    opened: Option<OpenedFile>,
}

/// A package that was opened.
struct Examined {
    file: SetFile,
    /// METADATA of a wheel, for the file beside it.
    sidecar: Option<Vec<u8>>,
    /// METADATA of a wheel or PKG-INFO of an sdist, if it can be read.
    text: Option<Vec<u8>>,
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
            opened: read.opened,
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
        let (mut stamps, mut opened) = (HashMap::new(), Vec::new());
        for read in read {
            opened.extend(read.opened);
            let of_sidecar = |bytes| (read.file.sidecar_path(), bytes);
            metadata.extend(read.metadata.map(of_sidecar));
            stamps.extend(read.stamp.map(|stamp| (read.file.path.clone(), stamp)));
            files.push(read.file);
        }
        Ok(ReadFiles {
            files,
            metadata,
            stamps,
            opened,
        })
    }

    fn one(&self, listed: &ListedPackage, sidecar: Option<&SetStamp>) -> Result<ReadFile> {
        match self.place.local() {
            Some(root) => self.one_on_disk(&root.join(&listed.path), listed),
            None => self.one_object(listed, sidecar),
        }
    }

    /// A file is opened only if it is not the one that an earlier command has read.
    fn one_on_disk(&self, path: &Path, listed: &ListedPackage) -> Result<ReadFile> {
        let (began, found) = (SystemTime::now(), fs_err::metadata(path)?);
        let (identity, stamp) = (
            FileIdentity::from_metadata(&found),
            Some(FileStamp::from_metadata(&found)),
        );
        if let Some((sha256, text)) = self.known.on_disk(listed, identity) {
            let (facts, metadata) = named_metadata(text, &listed.name)?;
            return Ok(ReadFile {
                file: self.described(listed, sha256, facts, metadata.as_deref()),
                metadata,
                stamp,
                opened: None,
            });
        }
        let Examined {
            file,
            sidecar,
            text,
        } = self.examine(listed)?;
        // Metadata and digest are read one after the other.
        let now = FileIdentity::of(path)?;
        // Another command may link the file into a place meanwhile, which changes no byte of it.
        let is_same = match (now, identity) {
            (Some(now), Some(before)) => now.is_but_for_ctime(before),
            (now, before) => now == before,
        };
        ensure!(is_same, "it changed while it was read");
        // Of a file that changed right before it was looked at, a further change may not show.
        let settled = identity.filter(|it| it.is_settled(began));
        let opened = settled.zip(text).map(|(identity, text)| OpenedFile {
            path: file.path.clone(),
            identity,
            file: CachedFile {
                sha256: file.sha256,
                metadata: String::from_utf8(text).ok(),
            },
        });
        Ok(ReadFile {
            file,
            metadata: sidecar,
            stamp,
            opened,
        })
    }

    fn one_object(&self, listed: &ListedPackage, sidecar: Option<&SetStamp>) -> Result<ReadFile> {
        let (mut file, metadata) = if let Some(known) = self.known.all(listed, sidecar) {
            (known, None)
        } else {
            let examined = self.examine(listed)?;
            (examined.file, examined.sidecar)
        };
        file.upload_time = listed.uploaded.and_then(in_utc);
        file.remembered = Some(Remembered {
            file: listed.stamp.clone(),
            sidecar: sidecar.cloned(),
            sidecar_sha256: file.metadata,
            requires_python: file.requires_python.clone(),
        });
        Ok(ReadFile {
            file,
            metadata,
            stamp: None,
            opened: None,
        })
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

    /// Reads a package. The digest comes from an earlier run, from the store, or from reading the whole
    /// file, in this order.
    fn examine(&self, listed: &ListedPackage) -> Result<Examined> {
        let (store, key) = (&self.place.store, self.place.key(&listed.path)?);
        let size = listed.stamp.size;
        let known = match self.known.sha256(listed) {
            // A directory keeps no digests.
            None if self.place.local().is_none() => store.head(&key)?.sha256,
            known => known,
        };
        // Parse first: a file that is not a valid package fails without a full download.
        let mut far = FailureNote::of(Ranged::of(Arc::clone(store), key.clone(), size));
        let answer = metadata_text(BufReader::new(&mut far), &listed.name)
            .and_then(|text| Ok((named_metadata(text.clone(), &listed.name)?, text)));
        let ((facts, sidecar), text) = match answer {
            Ok((found, text)) => (found, Some(text)),
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
                ((facts, None), None)
            }
        };
        let sha256 = known.map_or_else(|| self.hash(&key, size), Ok)?;
        let file = self.described(listed, sha256, facts, sidecar.as_deref());
        Ok(Examined {
            file,
            sidecar,
            text,
        })
    }

    fn hash(&self, key: &Key, listed: u64) -> Result<Sha256> {
        let source = self.place.store.get(key, Span::Whole)?;
        let source = Tap::new(source, &self.world.stop, |count| self.progress.inc(count));
        let answer = Sha256::of_reader(BufReader::with_capacity(1 << 20, source));
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
    named_metadata(metadata_text(file, name)?, name)
}

/// METADATA of a wheel, or PKG-INFO of an sdist.
fn metadata_text(file: impl Read + Seek, name: &str) -> Result<Vec<u8>> {
    let outside: PackageFilename = name.parse()?;
    if is_wheel(name) {
        wheel::read_metadata(file, LONGEST_METADATA).context("failed to read METADATA")
    } else {
        sdist_metadata(file, outside.top()).context("failed to read PKG-INFO")
    }
}

/// METADATA of a wheel on this disk, or PKG-INFO of an sdist.
pub(super) fn metadata_of(file: &Path) -> Result<Vec<u8>> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    metadata_text(BufReader::new(fs_err::File::open(file)?), &name)
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
