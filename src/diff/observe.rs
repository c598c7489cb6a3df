//! Reads the ends of the wheels of a set: the directory, with the checksum of each file, and small texts.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    num::NonZeroUsize,
    ops::Range,
};

use super::{
    choose::{NewestVersions, key, our_version, packages, with_several_wheels},
    fold::VersionFold,
};
use crate::{
    check::{
        facts::{MemberFacts, MemberKind},
        observe::{ObserveProgress, Outline, PackageReader, is_kept, read_sdist},
    },
    console::World,
    digest::Sha256,
    error::{Context as _, Result, anyhow, bail},
    index::{Identity, PackageFile, SetJson, identity},
    parallel,
    place::{SetPlace, StoredPackage},
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
    /// Its size in the wheel.
    pub(super) packed: u64,
    pub(super) mode: u32,
    /// What is in it, of a small text about the package.
    pub(super) text: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Checksum {
    /// That in the directory of a wheel.
    Crc(u32),
    /// Of a file in an sdist.
    Sha256(Option<Sha256>),
}

/// A package whose end is in memory.
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
        let read = package.stream(start..package.size);
        let read = read.and_then(|mut stream| stream.read_to_end(&mut bytes));
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
        let known = range.start.max(self.start)..range.end.max(self.start);
        let skip = usize::try_from(known.start - self.start).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(skip..).unwrap_or_default();
        let end = bytes.take(known.end - known.start);
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
        Self::outlined(place, jobs, world)
            .with_context(|| format!("failed to read the set `{place}`"))
    }

    fn outlined(place: &SetPlace, jobs: NonZeroUsize, world: &World) -> Result<Self> {
        let packages = packages(place)?;
        let names: Vec<&str> = packages.iter().map(|it| it.name.as_str()).collect();
        let versions: BTreeSet<Version> =
            names.iter().filter_map(|name| our_version(name)).collect();
        let document = place.find_set_json()?.map(|it| it.identity);
        let document = document.unwrap_or_default();
        let is_of_set = document.version.as_ref().is_none_or(|it| versions.contains(it));
        let total = packages.iter().map(first_read).sum();
        let console = &world.console;
        let progress = console.progress_in_parts("Reading", place, packages.len(), total);
        let watch = ObserveProgress { stop: &world.stop, progress: &|_| (), binaries: None };
        let read = parallel::map(&packages, jobs, &world.stop, |package| {
            progress.begin(&package.name);
            let read = observed(package, &watch);
            progress.inc(first_read(package));
            progress.finish_part();
            read.with_context(|| format!("failed to read `{}`", package.name))
        })?;
        let all = names.iter().filter_map(|name| Some(identity(name)?.1));
        Ok(Self {
            place: place.to_string(),
            identity: Some(document).filter(|_| is_of_set).unwrap_or_default(),
            fold: VersionFold::of(all),
            packages: read.into_iter().map(|it| (it.name.clone(), it)).collect(),
            versions,
        })
    }

    /// A set as its `set.json` describes it: its packages, and no files.
    pub(super) fn described(place: &str, set: &SetJson) -> Self {
        let newest = NewestVersions::of(set.files.iter().map(PackageFile::below));
        let files = set.files.iter().filter(|it| newest.have(it.below()));
        let (names, files): (Vec<&str>, Vec<_>) = files.map(|it| (it.below(), it)).unzip();
        let packages = files.into_iter().map(|file| {
            let package = ObservedPackage {
                name: file.below().to_owned(),
                size: file.size,
                sha256: Some(file.sha256),
                files: BTreeMap::new(),
            };
            (package.name.clone(), package)
        });
        Self {
            place: place.to_owned(),
            identity: set.identity.clone(),
            fold: VersionFold::default(),
            packages: packages.collect(),
            versions: names.iter().filter_map(|name| our_version(name)).collect(),
        }
    }

    /// Names the packages of both sets by their projects, with the tags of the wheels where either set has
    /// several.
    pub(super) fn name_alike(before: &mut Self, after: &mut Self) {
        let several = |set: &Self| with_several_wheels(set.packages.values().map(|it| &*it.name));
        let several = &several(before) | &several(after);
        for set in [before, after] {
            let packages = std::mem::take(&mut set.packages).into_values();
            set.packages = packages.map(|it| (key(&it.name, &several), it)).collect();
        }
    }
}

/// How many bytes of a package are read: all of an sdist, which is small.
fn first_read(package: &StoredPackage) -> u64 {
    if package.is_wheel() { package.size.min(END) } else { package.size }
}

fn observed(package: &StoredPackage, watch: &ObserveProgress<'_>) -> Result<ObservedPackage> {
    Ok(ObservedPackage {
        name: package.name.clone(),
        size: package.size,
        sha256: None,
        files: if package.is_wheel() {
            files_of_wheel(package, watch)?
        } else {
            files_of_sdist(package, watch)?
        },
    })
}

fn files_of_sdist(
    package: &StoredPackage,
    watch: &ObserveProgress<'_>,
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
    watch: &ObserveProgress<'_>,
) -> Result<BTreeMap<String, ObservedFile>> {
    let end = PackageEnd::read(package)?;
    let outline = Outline::read(&package.name, &end);
    package.outcome()?;
    if let Some(why) = &outline.unreadable {
        bail!("{why}");
    }
    let mut texts = BTreeMap::new();
    for portion in outline.some(|entry| is_kept(&entry.path, entry.len)) {
        let facts = outline.read_portion(&end, &portion, watch)?;
        package.outcome()?;
        for MemberFacts { path, content, .. } in facts.into_members()? {
            let content = content.map_err(|why| anyhow!("failed to read `{path}`: {why}"))?;
            let text = content.kept.and_then(|it| String::from_utf8(it).ok());
            texts.insert(path, text);
        }
    }
    let files = outline.entries().iter();
    let files = files.filter(|entry| entry.kind == MemberKind::File);
    let files = files.map(|entry| {
        let file = ObservedFile {
            len: entry.len,
            checksum: Checksum::Crc(entry.crc),
            packed: entry.packed,
            mode: entry.mode,
            text: texts.remove(&entry.path).flatten(),
        };
        (entry.path.clone(), file)
    });
    Ok(files.collect())
}
