//! Reads the ends of the wheels of a set: the directory, with the checksum of each file, and small texts.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    num::NonZeroUsize,
    ops::Range,
};

use super::{
    choose::{
        NewestVersions, choose_packages, our_version, package_key, projects_with_several_wheels,
    },
    fold::VersionFold,
};
use crate::{
    check::{
        facts::{MemberFacts, MemberKind},
        observe::{Outline, PackageReader, ReadWatch, is_kept, read_sdist},
    },
    console::World,
    index::{Identity, PackageFile, SetJson, identity},
    place::{SetPlace, StoredPackage},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, anyhow, bail},
    parallel,
    version::Version,
};

/// The bytes at the end of a wheel that are read at once. They have the directory and RECORD of
/// most wheels.
const END: u64 = 256 << 10;

/// A set that is compared with another one.
#[derive(Debug)]
pub(super) struct ObservedSet {
    /// The place as the user named it.
    pub(super) place: String,
    pub(super) identity: Identity,
    pub(super) versions: BTreeSet<Version>,
    pub(super) fold: VersionFold,
    /// By file name; in a comparison by what does not change from version to version.
    pub(super) packages: BTreeMap<String, ObservedPackage>,
}

#[derive(Debug, Default)]
pub(super) struct ObservedPackage {
    /// The name of its file, below the directory of its family.
    pub(super) name: String,
    pub(super) size: u64,
    /// The digest of the whole package, of a set that is known by its `set.json` alone.
    pub(super) sha256: Option<Sha256>,
    pub(super) files: BTreeMap<String, ObservedFile>,
}

/// A file of a package.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ObservedFile {
    pub(super) len: u64,
    pub(super) checksum: Checksum,
    /// Its compressed size in a wheel; 0 in an sdist, which is compressed as a whole.
    pub(super) packed: u64,
    pub(super) mode: u32,
    /// The content, if the file is a small text about the package.
    pub(super) text: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Checksum {
    /// The checksum that the directory of a wheel has.
    Crc(u32),
    /// The digest of a file in an sdist.
    Sha256(Option<Sha256>),
}

/// A package whose last bytes are in memory, from `start` on. Other ranges are read when they are asked
/// for.
#[derive(Debug)]
struct PackageEnd<'a> {
    package: &'a StoredPackage,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> PackageEnd<'a> {
    fn read(package: &'a StoredPackage) -> Result<Self> {
        let start = package.size.saturating_sub(END);
        let mut bytes = Vec::new();
        let stream = package.stream(start..package.size);
        let read = stream.and_then(|mut stream| stream.read_to_end(&mut bytes));
        // A failed read has only the words of an error of the store; `outcome` has the error with its hints.
        package.outcome()?;
        read?;
        Ok(Self { package, start, bytes })
    }
}

impl PackageReader for PackageEnd<'_> {
    fn size(&self) -> u64 {
        self.package.size
    }

    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + Send + '_>> {
        let in_memory = range.start.max(self.start)..range.end.max(self.start);
        let skipped = usize::try_from(in_memory.start - self.start).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(skipped..).unwrap_or_default();
        let end = bytes.take(in_memory.end - in_memory.start);
        if range.start >= self.start {
            return Ok(Box::new(end));
        }
        let before = self.package.stream(range.start..range.end.min(self.start))?;
        Ok(Box::new(before.chain(end)))
    }
}

impl ObservedSet {
    /// Reads the ends of the packages of a place.
    pub(super) fn read(place: &SetPlace, jobs: NonZeroUsize, world: &World) -> Result<Self> {
        Self::read_packages(place, jobs, world)
            .with_context(|| format!("failed to read the set `{place}`"))
    }

    fn read_packages(place: &SetPlace, jobs: NonZeroUsize, world: &World) -> Result<Self> {
        let chosen = choose_packages(place)?;
        let names = || chosen.iter().map(|package| package.name.as_str());
        let versions: BTreeSet<Version> = names().filter_map(our_version).collect();
        // A place with several versions has the `set.json` of one of them, which may not be the version that
        // is compared.
        let identity_of_place = place.find_set_json()?.map(|document| document.identity);
        let is_of_set = |identity: &Identity| match &identity.version {
            Some(version) => versions.contains(version),
            None => true,
        };
        let identity_of_set = identity_of_place.filter(is_of_set).unwrap_or_default();
        let total = chosen.iter().map(bytes_read_at_once).sum();
        let progress = world.console.progress_in_parts("Reading", place, chosen.len(), total);
        let watch = ReadWatch { stop: &world.stop, progress: &|_| (), binaries: None };
        let packages = parallel::map(&chosen, jobs, &world.stop, |package| {
            progress.begin(&package.name);
            let observed = observe_package(package, &watch);
            progress.inc(bytes_read_at_once(package));
            progress.finish_part();
            observed.with_context(|| format!("failed to read `{}`", package.name))
        })?;
        Ok(Self {
            place: place.to_string(),
            identity: identity_of_set,
            fold: VersionFold::of(names().filter_map(|name| Some(identity(name)?.1))),
            packages: packages.into_iter().map(|it| (it.name.clone(), it)).collect(),
            versions,
        })
    }

    /// A set as its `set.json` describes it: its packages, and no files. Without files no version needs to
    /// be replaced.
    pub(super) fn described(place: &str, set: &SetJson) -> Self {
        let newest = NewestVersions::of(set.files.iter().map(PackageFile::below));
        let mut packages = BTreeMap::new();
        let mut versions = BTreeSet::new();
        for file in set.files.iter().filter(|file| newest.include(file.below())) {
            let name = file.below();
            versions.extend(our_version(name));
            let package = ObservedPackage {
                name: name.to_owned(),
                size: file.size,
                sha256: Some(file.sha256),
                files: BTreeMap::new(),
            };
            packages.insert(name.to_owned(), package);
        }
        Self {
            place: place.to_owned(),
            identity: set.identity.clone(),
            fold: VersionFold::default(),
            packages,
            versions,
        }
    }

    /// Changes the keys of the packages of both sets from file names, which have versions, to names that
    /// both sets share.
    pub(super) fn share_keys(before: &mut Self, after: &mut Self) {
        let several_wheels =
            |set: &Self| projects_with_several_wheels(set.packages.values().map(|it| &*it.name));
        // The keys of a project have tags if either set has several wheels of it.
        let several = &several_wheels(before) | &several_wheels(after);
        for set in [before, after] {
            let packages = std::mem::take(&mut set.packages).into_values();
            set.packages = packages.map(|it| (package_key(&it.name, &several), it)).collect();
        }
    }
}

/// The number of bytes of a package that are read in any case: all of an sdist, which is small.
fn bytes_read_at_once(package: &StoredPackage) -> u64 {
    if package.is_wheel() { package.size.min(END) } else { package.size }
}

fn observe_package(package: &StoredPackage, watch: &ReadWatch<'_>) -> Result<ObservedPackage> {
    let files = if package.is_wheel() {
        files_of_wheel(package, watch)?
    } else {
        files_of_sdist(package, watch)?
    };
    Ok(ObservedPackage { name: package.name.clone(), size: package.size, sha256: None, files })
}

fn files_of_sdist(
    package: &StoredPackage,
    watch: &ReadWatch<'_>,
) -> Result<BTreeMap<String, ObservedFile>> {
    let sdist = read_sdist(&package.name, package.stream(0..package.size)?, watch)?;
    package.outcome()?;
    sdist.metadata.map_err(|why| anyhow!("{why}"))?;
    let files = sdist.contents.files.into_iter().map(|(path, content)| {
        let file = ObservedFile {
            len: content.len,
            checksum: Checksum::Sha256(content.sha256),
            packed: 0,
            mode: 0,
            text: content.kept.and_then(|it| String::from_utf8(it).ok()),
        };
        (path, file)
    });
    Ok(files.collect())
}

fn files_of_wheel(
    package: &StoredPackage,
    watch: &ReadWatch<'_>,
) -> Result<BTreeMap<String, ObservedFile>> {
    let end = PackageEnd::read(package)?;
    let outline = Outline::read(&package.name, &end);
    package.outcome()?;
    if let Some(why) = &outline.unreadable {
        bail!("{why}");
    }
    let mut texts = BTreeMap::new();
    for portion in outline.portions_of(|entry| is_kept(&entry.path, entry.len)) {
        let facts = outline.read_portion(&end, &portion, watch)?;
        package.outcome()?;
        for MemberFacts { path, content, .. } in facts.into_members()? {
            let bytes = content.map_err(|why| anyhow!("failed to read `{path}`: {why}"))?.kept;
            texts.insert(path, bytes.and_then(|it| String::from_utf8(it).ok()));
        }
    }
    let mut files = BTreeMap::new();
    for entry in outline.entries().iter().filter(|entry| entry.kind == MemberKind::File) {
        let file = ObservedFile {
            len: entry.len,
            checksum: Checksum::Crc(entry.crc),
            packed: entry.packed,
            mode: entry.mode,
            text: texts.remove(&entry.path).flatten(),
        };
        files.insert(entry.path.clone(), file);
    }
    Ok(files)
}
