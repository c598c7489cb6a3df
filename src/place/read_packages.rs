//! Reads the packages of a place, several at a time. Files that [`KnownFacts`] prove unchanged since they
//! were read are not opened; of others only the needed ranges are read, if the store has their digest.
//!
//! For a directory, the [`DigestCache`] beside `set.json` has the digests and metadata. For a bucket,
//! `set.json` has them: it has the `ETag` of each file, which changes with the bytes.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    io::{self, BufReader, Cursor, Read, Seek},
    num::NonZeroUsize,
    path::Path,
};

use bytes::Bytes;
use flate2::read::GzDecoder;
use itertools::Itertools as _;
use memchr::memmem;

use super::{
    set_place::SetPlace,
    stored_package::{ListedPackage, StoredPackage, bundled_rocm},
    sync::Listing,
};
use crate::{
    console::{Progress, World},
    index::{
        Layout, TIE_RECORD,
        package_file::{
            PackageFile, Remembered, SIDECAR, SetStamp, identity, is_of_others, is_ours,
            is_package, is_wheel,
        },
        set_json::{Identity, PART, SetJson},
    },
    run::ArtifactGroup,
};
use rocwheel_base::{
    digest::{HashedStart, Sha256},
    error::{Context as _, Hint as _, No, Result, anyhow, bail, ensure, one_line},
    io::{CachedPackage, DigestCache, FileIdentity, Tap, buffered},
    parallel,
};
use rocwheel_store::{Span, location::Key};
use rocwheel_wheel::{DistName, Metadata, PackageFilename};

/// The largest package that is read at once, for its metadata and its digest.
const SMALL: u64 = 256 << 10;
/// The largest METADATA or PKG-INFO that is read.
const LONGEST_METADATA: u64 = 16 << 20;
/// The uncompressed bytes of an sdist that are searched for PKG-INFO, which is among its first
/// members. The limit stops a small archive that unpacks to any size.
const LONGEST_SEARCH: u64 = 1 << 30;

/// What an earlier command knows of each file.
#[derive(Debug, Default)]
pub(super) struct KnownFacts {
    pub(super) identity: Identity,
    /// What `set.json` says of the set; `None` if a place has none.
    pub(super) of_set: Option<Identity>,
    /// What `set.json` says of the files.
    pub(super) files: HashMap<String, PackageFile>,
    /// What this machine knows of packages of a bucket that `set.json` does not say, because an upload cannot know the
    /// `ETag` of what it is about to write. None of them need be of a set.
    pub(super) seen: HashMap<String, PackageFile>,
    /// The packages that this process has just written or read.
    pub(super) made: KnownPackages,
    /// Only a directory has one.
    pub(super) cache: Option<DigestCache>,
    /// Whether parts of a later build were uploaded since `set.json` was written.
    pub(super) has_later_parts: bool,
}

/// A package that this process has written, or read from end to end.
#[derive(Clone, Debug)]
pub struct KnownPackage {
    pub file: PackageFile,
    /// The file that it wrote or read. `None` if another one has its name since.
    pub identity: Option<FileIdentity>,
    /// METADATA of a wheel, PKG-INFO of an sdist.
    pub metadata: Vec<u8>,
    /// The beginning of a wheel that this process has packed.
    pub start: Option<HashedStart>,
}

/// The packages that this process knows, by their paths in the set.
pub type KnownPackages = HashMap<String, KnownPackage>;

impl KnownFacts {
    /// Reads `set.json`, and `part.json` if a part was uploaded since: the parts of a set replace
    /// what was there before, such as a set of others only. A listing says whether there are any.
    pub(super) fn read(place: &SetPlace, listing: Option<&Listing<'_>>) -> Result<Self> {
        Ok(Self {
            cache: place.local().map(DigestCache::of_directory),
            ..Self::of_documents(place, listing)?
        })
    }

    /// The same, without the cache of a directory.
    pub(super) fn of_documents(place: &SetPlace, listing: Option<&Listing<'_>>) -> Result<Self> {
        let document = |name| -> Result<_> {
            let is_listed = listing.map(|it| it.objects.contains_key(name));
            if is_listed == Some(false) {
                return Ok(None);
            }
            let document = place.find_document(name)?;
            ensure!(
                document.is_some() || is_listed.is_none(),
                No(format!("`{}` is listed, and cannot be found", place.shown_in_full(name)))
            );
            Ok(document)
        };
        let set = document("set.json")?;
        let part = document(PART)?;
        let newer = part.as_ref().filter(|(_, part_written)| {
            set.as_ref().is_some_and(|(_, set_written)| part_written > set_written)
        });
        let identity = newer.map(|(part, _)| part.identity.clone());
        let of_set = set.as_ref().map(|(document, _)| document.identity.clone());
        let mut known = match set.or(part) {
            Some((document, _)) => Self::new(document),
            None => Self::default(),
        };
        known.of_set = of_set;
        known.has_later_parts = identity.is_some();
        known.identity = identity.unwrap_or(known.identity);
        if let Some(listing) = listing {
            known.add_seen(listing);
        }
        Ok(known)
    }

    /// Adds what this machine knows of the listed packages.
    fn add_seen(&mut self, listing: &Listing<'_>) {
        let Some(memory) = listing.place.memory() else {
            return;
        };
        for (path, object) in listing.objects.iter().filter(|(path, _)| is_package(path)) {
            let Some(seen) = memory.get(path, object).and_then(|facts| facts.package) else {
                continue;
            };
            let described = self.files.get(path).filter(|file| file.sha256 == seen.sha256);
            let file = match described {
                Some(file) => PackageFile { remembered: seen.remembered, ..file.clone() },
                None => *seen,
            };
            self.seen.insert(path.clone(), file);
        }
    }

    pub(super) fn new(document: SetJson) -> Self {
        let by_path = |file: PackageFile| (file.path.clone(), file);
        Self {
            files: document.files.into_iter().map(by_path).collect(),
            identity: document.identity,
            ..Self::default()
        }
    }

    /// The families of an earlier index, whose pages may exist.
    pub(super) fn families(&self) -> Vec<ArtifactGroup> {
        let families = self.files.values().filter_map(PackageFile::family);
        families.sorted().dedup().collect()
    }

    /// What is known of a file on disk, if the file that was written or read is what it is `now`.
    pub(super) fn on_disk(&self, listed: &ListedPackage, now: FileIdentity) -> Option<KnownFile> {
        let cached = self.cache.as_ref().and_then(|cache| cache.get(&listed.path, now));
        let cached_start = cached.and_then(|file| file.start.as_ref());
        if let Some(made) = self.made.get(&listed.path) {
            let is_same = made.file.size == listed.stamp.size && made.identity == Some(now);
            return is_same.then(|| KnownFile {
                sha256: made.file.sha256,
                text: made.metadata.clone(),
                has_rocm: None,
                start: made.start.as_ref().or(cached_start).cloned(),
            });
        }
        let file = cached?;
        Some(KnownFile {
            sha256: file.sha256,
            text: file.metadata.clone()?.into_bytes(),
            has_rocm: Some(file.has_rocm),
            start: cached_start.cloned(),
        })
    }

    /// The digest of an object, if it is unchanged.
    pub(super) fn sha256(&self, listed: &ListedPackage) -> Option<Sha256> {
        self.same(listed).map(|file| file.sha256)
    }

    /// Everything known about an object, if it and its sidecar are both unchanged.
    pub(super) fn all(
        &self,
        listed: &ListedPackage,
        sidecar: Option<&SetStamp>,
    ) -> Option<PackageFile> {
        let file = self.same(listed)?;
        let remembered = file.remembered.as_ref()?;
        let is_wheel = is_wheel(&listed.name);
        let is_same = remembered.sidecar.as_ref() == sidecar
            && is_wheel == sidecar.is_some()
            && is_wheel == remembered.sidecar_sha256.is_some();
        is_same.then(|| PackageFile {
            size: listed.stamp.size,
            metadata: remembered.sidecar_sha256,
            requires_python: remembered.requires_python.clone(),
            ..file.clone()
        })
    }

    /// Equal stamps prove equal bytes only with an `ETag`, which depends on the bytes.
    fn same(&self, listed: &ListedPackage) -> Option<&PackageFile> {
        let is_same = |file: &&PackageFile| {
            let remembered = file.remembered.as_ref();
            remembered.is_some_and(|it| it.file == listed.stamp && it.file.etag.is_some())
        };
        let described = self.files.get(&listed.path).filter(is_same);
        described.or_else(|| self.seen.get(&listed.path).filter(is_same))
    }
}

/// What is known of a file on disk without opening it.
pub(super) struct KnownFile {
    sha256: Sha256,
    /// METADATA of a wheel, PKG-INFO of an sdist.
    text: Vec<u8>,
    /// See [`PackageFile::has_rocm`]. `None` if it was not looked for.
    has_rocm: Option<bool>,
    start: Option<HashedStart>,
}

/// Adds the files of a set that were read to the cache of its directory, and removes those that are not
/// of the set.
pub(super) fn remember(
    mut cache: DigestCache,
    read: &HashMap<String, ReadFacts>,
    set: &SetJson,
) -> Result<()> {
    for file in &set.files {
        if let Some(ReadFacts { text: Some(text), identity: Some(identity), start, .. }) =
            read.get(&file.path)
        {
            let package = CachedPackage {
                sha256: file.sha256,
                metadata: String::from_utf8(text.to_vec()).ok(),
                start: start.clone(),
                has_rocm: file.has_rocm,
            };
            cache.insert(&file.path, *identity, package);
        }
    }
    let listed: HashSet<&str> = set.files.iter().map(|it| &*it.path).collect();
    cache.retain(|path| listed.contains(path));
    Ok(cache.write()?)
}

/// How to read the packages of a place.
pub(super) struct Reading<'a> {
    pub(super) place: &'a SetPlace,
    /// Where the packages are. If several layouts have a file, the file of the first layout is taken.
    pub(super) layouts: Vec<Layout>,
    pub(super) known: &'a KnownFacts,
    pub(super) at_once: NonZeroUsize,
    pub(super) world: &'a World,
    pub(super) progress: &'a Progress,
}

/// The packages of a place.
pub(super) struct ReadPackages {
    pub(super) files: Vec<PackageFile>,
    /// What else was read of each file, by path.
    pub(super) facts: HashMap<String, ReadFacts>,
    /// Sidecars whose wheels are gone, by path.
    pub(super) orphans: Vec<String>,
}

/// What is known of a package besides what an index shows.
#[derive(Debug)]
pub(super) struct ReadFacts {
    /// METADATA of a wheel, PKG-INFO of an sdist. Of a bucket, only of packages that an earlier index does
    /// not know.
    text: Option<Bytes>,
    is_wheel: bool,
    /// What a file on this disk was before its digest was taken. `None` if it is in a bucket.
    pub(super) identity: Option<FileIdentity>,
    /// The beginning of a wheel of this disk that `build` made.
    pub(super) start: Option<HashedStart>,
}

impl ReadFacts {
    /// The METADATA of a wheel, which is published beside it.
    pub(super) fn sidecar(&self) -> Option<&Bytes> {
        self.text.as_ref().filter(|_| self.is_wheel)
    }
}

/// A package, with METADATA of a wheel or PKG-INFO of an sdist, if that can be read.
type Examined = (PackageFile, Option<Vec<u8>>);

impl Reading<'_> {
    /// Reads the listed packages of the set, and the packages of other projects wherever they are.
    pub(super) fn run(&self, listed: Vec<ListedPackage>) -> Result<ReadPackages> {
        let (mut tasks, mut orphans) = tasks(listed);
        // What others put there is not ours to remove.
        orphans.retain(|path| {
            let package = path.strip_suffix(SIDECAR).unwrap_or(path);
            !is_of_others(path) || self.known.files.contains_key(package)
        });
        if tasks.is_empty() {
            let layout = self.layouts.first().copied().unwrap_or_default();
            let shown = self.place.shown_in_full(layout.files());
            return Err(anyhow!("no wheel or sdist in `{shown}`"))
                .hint(self.place.hint_for_no_packages());
        }
        let reading = |(listed, sidecar): &(ListedPackage, Option<SetStamp>)| {
            let read = || -> Result<(PackageFile, ReadFacts)> {
                let (mut file, facts) = match self.place.local() {
                    Some(root) => self.file(&root.join(&listed.path), listed)?,
                    None => self.object(listed, sidecar.as_ref())?,
                };
                self.add_variant(&mut file, listed)?;
                Ok((file, facts))
            };
            read().with_context(|| {
                let shown = self.place.shown_in_full(&listed.path);
                format!("failed to read `{shown}`")
            })
        };
        // The largest first: a large package that comes last is read alone, while the other threads wait.
        tasks.sort_by_key(|(package, _)| Reverse(package.stamp.size));
        let read = parallel::try_map(&tasks, self.at_once, &self.world.stop, reading)?;
        let (files, facts): (Vec<PackageFile>, Vec<ReadFacts>) = read.into_iter().unzip();
        let paths = files.iter().map(|file| file.path.clone());
        Ok(ReadPackages {
            facts: paths.zip(facts).collect(),
            files: self.without_copies(files)?,
            orphans,
        })
    }

    /// Leaves out the second of two files that would be on one page under one name: one in `dist/`
    /// and one beside it, or one for all families and one of a family. Fails if their bytes differ.
    fn without_copies(&self, mut files: Vec<PackageFile>) -> Result<Vec<PackageFile>> {
        let rank = |file: &PackageFile| self.layouts.iter().position(|it| *it == file.layout());
        // Most names differ, and nothing else is asked for.
        files.sort_by(|a, b| {
            a.name()
                .cmp(b.name())
                .then_with(|| (a.directory(), rank(a)).cmp(&(b.directory(), rank(b))))
        });
        let mut kept: Vec<PackageFile> = Vec::with_capacity(files.len());
        for file in files {
            // Files of one name follow each other, because they were sorted.
            let mut of_name = kept.iter().rev().take_while(|it| it.name() == file.name());
            let is_copy = |it: &&PackageFile| it.family().is_none() || it.family() == file.family();
            match of_name.find(is_copy) {
                None => kept.push(file),
                Some(other) if other.sha256 == file.sha256 || is_of_others(file.name()) => {}
                Some(other) => {
                    return Err(anyhow!(No(format!(
                        "two files of one name with different bytes: `{}` and `{}`",
                        other.path, file.path
                    ))))
                    .hint("remove the one that is not of this set");
                }
            }
        }
        Ok(kept)
    }

    /// A file is opened only if it is not the one that an earlier command has read.
    fn file(&self, path: &Path, listed: &ListedPackage) -> Result<(PackageFile, ReadFacts)> {
        let identity = FileIdentity::of(path)?;
        let known = self.known.on_disk(listed, identity);
        let (file, text, start) = if let Some(known) = known {
            let KnownFile { sha256, text, has_rocm, start } = known;
            let facts = named_metadata(&text, &listed.name)?;
            let mut file = self.described(listed, sha256, facts, Some(&text));
            file.has_rocm = match has_rocm {
                Some(has_rocm) => has_rocm,
                None => self.has_rocm(listed, &file.project, None)?,
            };
            (file, Some(text), start)
        } else {
            let (file, text) = self.examine(listed)?;
            // Metadata and digest are read one after the other. Another command may link the file into
            // a place meanwhile, which changes no byte of it.
            let now = FileIdentity::of(path)?;
            let is_same = identity.but_for_links().is_same_as(&now);
            ensure!(is_same, "it changed while it was read");
            (file, text, None)
        };
        let facts = ReadFacts {
            text: text.map(Bytes::from),
            is_wheel: is_wheel(&listed.name),
            identity: Some(identity),
            start,
        };
        Ok((file, facts))
    }

    fn object(
        &self,
        listed: &ListedPackage,
        sidecar: Option<&SetStamp>,
    ) -> Result<(PackageFile, ReadFacts)> {
        let (mut file, text) = match self.known.all(listed, sidecar) {
            Some(known) => (known, None),
            None => self.examine(listed)?,
        };
        file.upload_time = listed.upload_time();
        file.remembered = Some(Box::new(Remembered {
            file: listed.stamp.clone(),
            sidecar: sidecar.cloned(),
            sidecar_sha256: file.metadata,
            requires_python: file.requires_python.clone(),
        }));
        let facts = ReadFacts {
            text: text.map(Bytes::from),
            is_wheel: is_wheel(&listed.name),
            identity: None,
            start: None,
        };
        Ok((file, facts))
    }

    /// `text` is METADATA or PKG-INFO.
    fn described(
        &self,
        listed: &ListedPackage,
        sha256: Sha256,
        facts: Metadata,
        text: Option<&Vec<u8>>,
    ) -> PackageFile {
        let earlier = self.known.files.get(&listed.path);
        // The field is for packages of others.
        let device_extras = if is_ours(&facts.name) {
            Vec::new()
        } else {
            let extras = facts.provides_extra.iter();
            extras.filter_map(|it| it.strip_prefix("device-")?.parse().ok()).collect()
        };
        let path = listed.path.clone();
        let size = listed.stamp.size;
        PackageFile {
            yanked: earlier.and_then(|file| file.yanked.clone()),
            run_attempt: earlier.and_then(|file| file.run_attempt),
            device_extras,
            metadata: text.filter(|_| is_wheel(&listed.name)).map(|it| Sha256::of(it)),
            requires_python: facts.requires_python,
            ..PackageFile::new(path, facts.name, facts.version, size, sha256)
        }
    }

    /// Reads a package. The digest comes from an earlier run, from the store, or from reading the whole
    /// file, in this order.
    fn examine(&self, listed: &ListedPackage) -> Result<Examined> {
        let store = &self.place.store;
        let key = self.place.key(&listed.path)?;
        let size = listed.stamp.size;
        let known = match self.known.sha256(listed) {
            // A directory keeps no digests.
            None if self.place.local().is_none() => store.head(&key)?.sha256,
            known => known,
        };
        let is_read_at_once = size <= SMALL && known.is_none();
        let bytes = is_read_at_once.then(|| self.whole(listed, &key)).transpose()?;
        let metadata = if let Some(bytes) = &bytes {
            metadata_text(Cursor::new(bytes), &listed.name)
        } else {
            // Parse first: a file that is not a valid package fails without a full download.
            let package = StoredPackage::new(listed.name.clone(), store, key.clone(), size);
            let metadata = package.metadata();
            // The package may be good, and the store could not deliver it.
            package.outcome()?;
            metadata
        };
        let answer =
            metadata.and_then(|text| Ok((named_metadata(&text, &listed.name)?, Some(text))));
        let (facts, text) = match answer {
            Ok(read) => read,
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
        let sha256 = match (&bytes, known) {
            (Some(bytes), _) => Sha256::of(bytes),
            (None, Some(known)) => known,
            (None, None) => self.hash(&key, size)?,
        };
        let mut file = self.described(listed, sha256, facts, text.as_ref());
        if text.is_some() {
            file.has_rocm = self.has_rocm(listed, &file.project, bytes.as_deref())?;
        }
        Ok((file, text))
    }

    /// Adds what a variant wheel says of its label. The digest cache of a directory does not have it, and the
    /// `set.json` of a bucket has it.
    fn add_variant(&self, file: &mut PackageFile, listed: &ListedPackage) -> Result<()> {
        let Some(label) = file.label().filter(|_| file.variant.is_none()) else {
            return Ok(());
        };
        let key = self.place.key(&listed.path)?;
        let name = listed.name.clone();
        let package = StoredPackage::new(name, &self.place.store, key, listed.stamp.size);
        let document = package.variant(&label);
        package.outcome()?;
        match document {
            Ok(document) => file.variant = Some(Box::new(document)),
            Err(error) if is_ours(&file.project) => return Err(error),
            // A package of others does not stop ours. Without the label in the index, no installer selects it.
            Err(error) => self.world.console.warn(format!(
                "`{}` is listed without its label, whose meaning cannot be read: {}",
                self.place.shown_in_full(&listed.path),
                one_line(&error)
            )),
        }
        Ok(())
    }

    /// Whether it is a wheel of others that has ROCm in it. A wheel that cannot be read does not say so. `bytes` are
    /// all of the wheel, if they were read.
    fn has_rocm(
        &self,
        listed: &ListedPackage,
        project: &DistName,
        bytes: Option<&[u8]>,
    ) -> Result<bool> {
        if !is_wheel(&listed.name) || is_ours(project) {
            return Ok(false);
        }
        if let Some(bytes) = bytes {
            // The directory of a zip has the names as they are, so that most wheels need not be read again.
            let may_say_so = memmem::find(bytes, TIE_RECORD.as_bytes()).is_some();
            return Ok(may_say_so && has_rocm_in(Cursor::new(bytes)));
        }
        let key = self.place.key(&listed.path)?;
        let name = listed.name.clone();
        let package = StoredPackage::new(name, &self.place.store, key, listed.stamp.size);
        let has_rocm = has_rocm_in(package.reader());
        package.outcome()?;
        Ok(has_rocm)
    }

    /// All bytes of a small package.
    fn whole(&self, listed: &ListedPackage, key: &Key) -> Result<Vec<u8>> {
        let size = listed.stamp.size;
        let mut source: Box<dyn Read> = match self.place.local() {
            // The caller compares the identities from before and after, which is all that the store would look at.
            Some(root) => Box::new(fs_err::File::open(root.join(&listed.path))?),
            None => self.place.store.get(key, Span::Whole)?,
        };
        let mut bytes = vec![0; usize::try_from(size)?];
        let is_whole = match source.read_exact(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
            read => read.map(|()| true)?,
        };
        // A file that became longer has another identity.
        let is_at_end = self.place.local().is_some() || source.read(&mut [0])? == 0;
        ensure!(is_whole && is_at_end, "it changed while it was read");
        self.progress.inc(size);
        Ok(bytes)
    }

    fn hash(&self, key: &Key, listed: u64) -> Result<Sha256> {
        let source = self.place.store.get(key, Span::Whole)?;
        let tap = Tap::new(source, &self.world.stop, |count| self.progress.inc(count));
        let answer = Sha256::of_reader(buffered(tap, listed, 1 << 20));
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
    let (mut packages, others): (Vec<ListedPackage>, Vec<ListedPackage>) =
        listed.into_iter().partition(|listed| is_package(&listed.name));
    packages.sort_by(|a, b| a.path.cmp(&b.path));
    let mut sidecars: HashMap<String, SetStamp> =
        others.into_iter().map(|listed| (listed.path, listed.stamp)).collect();
    let with_sidecar = packages.into_iter().map(|package| {
        let sidecar = sidecars.remove(&format!("{}{SIDECAR}", package.path));
        (package, sidecar)
    });
    let tasks = with_sidecar.collect();
    let mut orphans: Vec<String> = sidecars.into_keys().collect();
    orphans.sort_unstable();
    (tasks, orphans)
}

/// METADATA of a wheel ([PEP 427](https://peps.python.org/pep-0427/)), or PKG-INFO of an sdist
/// ([PEP 625](https://peps.python.org/pep-0625/)). The metadata of an sdist may differ from the metadata of
/// the wheel built from it.
pub(super) fn metadata_text(file: impl Read + Seek, name: &str) -> Result<Vec<u8>> {
    let outside: PackageFilename = name.parse()?;
    if is_wheel(name) {
        rocwheel_wheel::read_metadata(file, LONGEST_METADATA).context("failed to read METADATA")
    } else {
        sdist_metadata(file, outside.top()).context("failed to read PKG-INFO")
    }
}

fn has_rocm_in(wheel: impl Read + Seek) -> bool {
    bundled_rocm(wheel).is_ok_and(|bundled| bundled.is_some())
}

/// METADATA of a wheel on this disk, or PKG-INFO of an sdist.
pub(super) fn metadata_of(file: &Path) -> Result<Vec<u8>> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    metadata_text(BufReader::new(fs_err::File::open(file)?), &name)
}

/// What a package says of itself. Its file name must say the same project and version, because installers
/// choose a file by its name.
pub(super) fn named_metadata(text: &[u8], name: &str) -> Result<Metadata> {
    let outside: PackageFilename = name.parse()?;
    let inside = Metadata::parse(text)?;
    ensure!(inside.name == outside.name, "its metadata is of another project: `{}`", inside.name);
    ensure!(
        inside.version == outside.version,
        "its metadata is of another version: `{}`",
        inside.version
    );
    Ok(inside)
}

fn sdist_metadata(file: impl Read, top: &str) -> Result<Vec<u8>> {
    let wanted = format!("{top}/PKG-INFO");
    let mut archive = tar::Archive::new(GzDecoder::new(file).take(LONGEST_SEARCH));
    for next in archive.entries()? {
        let entry = next?;
        if *entry.path_bytes() == *wanted.as_bytes() {
            let mut bytes = Vec::new();
            entry.take(LONGEST_METADATA + 1).read_to_end(&mut bytes)?;
            ensure!(bytes.len() as u64 <= LONGEST_METADATA, "more than {LONGEST_METADATA} bytes");
            return Ok(bytes);
        }
    }
    bail!("no `{wanted}`")
}

#[cfg(test)]
mod tests;
