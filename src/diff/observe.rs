//! Reads a set as far as a comparison needs it. First the ends of its wheels: the directory, RECORD
//! with the digest of each file, and small texts. Then the members that the comparison asks for.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    num::NonZeroUsize,
    ops::Range,
    sync::{Mutex, PoisonError},
};

use super::{
    choose::{NewestVersions, keys, our_version, packages},
    fold::VersionFold,
};
use crate::{
    archive::TarKind,
    check::{
        facts::{
            ContentFacts, DevelEntry, DevelTree, DeviceCodeFacts, MemberFacts, MemberKind, NAMES,
        },
        observe::{
            DirectoryEntry, ObserveProgress, Outline, PackageReader, Portion, is_devel, is_kept,
            read_sdist,
        },
    },
    console::World,
    digest::Sha256,
    elf::{ExportedSymbols, exported},
    error::{Context as _, Result, anyhow, bail},
    parallel,
    set::{Identity, PackageFile, SetFile, SetJson, SetPlace, identity},
    spool::Spool,
    target::Target,
    version::Version,
    wheel::Record,
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
    /// By project, platform and directory: what does not change from version to version.
    pub(super) packages: BTreeMap<String, ObservedPackage>,
    sources: BTreeMap<String, WheelSource>,
}

/// A wheel whose directory was read, and which can be read further.
#[derive(Debug)]
struct WheelSource {
    package: PackageFile,
    outline: Outline,
}

#[derive(Debug, Default)]
pub(super) struct ObservedPackage {
    /// The name of its file, below the directory of its family.
    pub(super) name: String,
    pub(super) size: u64,
    /// The digest of the whole package, of a set that is known by its `set.json` alone.
    pub(super) sha256: Option<Sha256>,
    pub(super) files: BTreeMap<String, ObservedFile>,
    /// The target of a device wheel.
    pub(super) target: Option<Target>,
}

/// A file of a package, or of the development files in it.
#[derive(Debug)]
pub(super) struct ObservedFile {
    pub(super) content: ContentFacts,
    /// Its size in the wheel; 0 for files of an archive in it.
    pub(super) packed: u64,
    /// The checksum in the directory of the wheel.
    pub(super) crc: Option<u64>,
    pub(super) mode: u32,
    /// The target of a symlink.
    pub(super) link: Option<String>,
    pub(super) exports: Option<ExportedSymbols>,
}

impl ObservedFile {
    pub(super) fn text(&self) -> Option<&str> {
        str::from_utf8(self.content.kept.as_deref()?).ok()
    }
}

/// A package whose end is in memory.
#[derive(Debug)]
struct PackageEnd<'a> {
    package: &'a PackageFile,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> PackageEnd<'a> {
    fn read(package: &'a PackageFile) -> Result<Self> {
        let start = package.size.saturating_sub(END);
        let mut bytes = Vec::new();
        let read = package.stream(start..package.size);
        let read = read.and_then(|mut stream| stream.read_to_end(&mut bytes));
        package.outcome()?;
        read?;
        Ok(Self {
            package,
            start,
            bytes,
        })
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
        let before = self
            .package
            .stream(range.start..range.end.min(self.start))?;
        Ok(Box::new(before.chain(end)))
    }
}

/// The paths of the files that are wanted of each package, by its key.
pub(super) type WantedMembers = BTreeMap<String, BTreeSet<String>>;

impl ObservedSet {
    /// Reads the ends of the packages of a place.
    pub(super) fn read(place: &SetPlace, jobs: NonZeroUsize, world: &World) -> Result<Self> {
        Self::outlined(place, jobs, world)
            .with_context(|| format!("failed to read the set `{place}`"))
    }

    fn outlined(place: &SetPlace, jobs: NonZeroUsize, world: &World) -> Result<Self> {
        let packages = packages(place, world)?;
        let names: Vec<&str> = packages.iter().map(|it| it.name.as_str()).collect();
        let versions: BTreeSet<Version> =
            names.iter().filter_map(|name| our_version(name)).collect();
        let document = place.set_json().map(|it| it.identity).unwrap_or_default();
        let is_of_set = document
            .version
            .as_ref()
            .is_none_or(|it| versions.contains(it));
        let keys = keys(&names);
        let all = names.iter().filter_map(|name| Some(identity(name)?.1));
        let mut this = Self {
            place: place.to_string(),
            identity: Some(document).filter(|_| is_of_set).unwrap_or_default(),
            fold: VersionFold::of(all),
            versions,
            packages: BTreeMap::new(),
            sources: BTreeMap::new(),
        };
        let total = packages.iter().map(first_read).sum();
        let console = &world.console;
        let progress = console.progress_in_parts("Reading", place, packages.len(), total);
        let watch = ObserveProgress {
            stop: &world.stop,
            progress: &|_| (),
            binaries: None,
        };
        let read = |package: &PackageFile| {
            progress.begin(&package.name);
            let read = observed(package, &watch);
            progress.inc(first_read(package));
            progress.finish_part();
            read.with_context(|| format!("failed to read `{}`", package.name))
        };
        let read = parallel::map(&packages, jobs, &world.stop, read)?;
        for ((package, file), (observed, outline)) in packages.into_iter().zip(keys).zip(read) {
            let source = outline.map(|outline| WheelSource { package, outline });
            this.sources.extend(source.map(|it| (file.clone(), it)));
            this.packages.insert(file, observed);
        }
        Ok(this)
    }

    /// A set as its `set.json` describes it: its packages, and no files.
    pub(super) fn described(place: &str, set: &SetJson) -> Self {
        let newest = NewestVersions::of(set.files.iter().map(SetFile::below));
        let files = set.files.iter().filter(|it| newest.have(it.below()));
        let (names, files): (Vec<&str>, Vec<_>) = files.map(|it| (it.below(), it)).unzip();
        let packages = keys(&names).into_iter().zip(files).map(|(key, file)| {
            let package = ObservedPackage {
                name: file.below().to_owned(),
                size: file.size,
                sha256: Some(file.sha256),
                ..ObservedPackage::default()
            };
            (key, package)
        });
        Self {
            place: place.to_owned(),
            identity: set.identity.clone(),
            fold: VersionFold::default(),
            packages: packages.collect(),
            versions: names.iter().filter_map(|name| our_version(name)).collect(),
            sources: BTreeMap::new(),
        }
    }

    /// Reads some members to their end, for what is in them.
    pub(super) fn read_members(
        &mut self,
        wanted: &WantedMembers,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<()> {
        let mut work = Vec::new();
        for (key, paths) in wanted {
            let source = self.sources.get(key);
            let portions = source.map(|it| it.outline.some(|it| paths.contains(&it.path)));
            let portions = portions.unwrap_or_default().into_iter();
            work.extend(portions.filter_map(|it| Some((key, source?, it))));
        }
        work.sort_by_key(|(.., portion)| Reverse(portion.weight()));
        let total = work
            .iter()
            .map(|(.., portion)| portion.weight())
            .sum::<u64>();
        if total == 0 {
            return Ok(());
        }
        let progress = world.console.progress("Comparing", &self.place, total);
        let read = |(key, source, portion): &(&String, &WheelSource, Portion)| {
            let watch = ObserveProgress {
                stop: &world.stop,
                progress: &|bytes| progress.inc(bytes),
                binaries: None,
            };
            let name = &source.package.name;
            let read = source.read(portion, &wanted[*key], &watch);
            Ok((
                (*key).clone(),
                read.with_context(|| format!("failed to read `{name}`"))?,
            ))
        };
        for (key, (members, tree, exports)) in parallel::map(&work, jobs, &world.stop, read)? {
            let package = self.packages.entry(key).or_default();
            package.take(members, exports)?;
            tree.map(|tree| package.unpack(tree)).transpose()?;
        }
        Ok(())
    }
}

/// What is read of a portion: its members, the development files in it, and the symbols of its
/// libraries.
type ReadMembers = (
    Vec<MemberFacts>,
    Option<DevelTree>,
    BTreeMap<String, ExportedSymbols>,
);

impl WheelSource {
    fn read(
        &self,
        portion: &Portion,
        paths: &BTreeSet<String>,
        watch: &ObserveProgress<'_>,
    ) -> Result<ReadMembers> {
        let exports = Mutex::new(BTreeMap::new());
        let sink = |path: &str, bytes: Spool| {
            // What is wrong with a file is for `check` to say.
            if let Ok(Some(found)) = exported(&bytes) {
                let mut exports = exports.lock().unwrap_or_else(PoisonError::into_inner);
                exports.insert(path.to_owned(), found);
            }
        };
        // Those who take the binaries do not get the development files.
        let is_archive = paths.iter().any(|it| is_devel(it));
        let watch = ObserveProgress {
            binaries: (!is_archive).then_some(&sink),
            ..*watch
        };
        let facts = self.outline.read_portion(&self.package, portion, &watch)?;
        self.package.outcome()?;
        let (members, tree) = facts.into_members()?;
        let exports = exports.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((members, tree, exports))
    }
}

impl ObservedPackage {
    /// Takes the facts of members that were read.
    fn take(
        &mut self,
        members: Vec<MemberFacts>,
        mut exports: BTreeMap<String, ExportedSymbols>,
    ) -> Result<()> {
        for member in members {
            let (path, content) = (member.path, member.content);
            let content = content.map_err(|why| anyhow!("failed to read `{path}`: {why}"))?;
            let exports = exports.remove(&path);
            if let Some(file) = self.files.get_mut(&path) {
                (file.content, file.exports) = (content, exports);
            }
        }
        Ok(())
    }

    /// Replaces the archive of the development files by what is in it.
    fn unpack(&mut self, tree: DevelTree) -> Result<()> {
        let member = &tree.member;
        if let Some(why) = tree.fault {
            bail!("failed to read `{member}`: {why}");
        }
        self.files.remove(member);
        let directory = member.trim_end_matches(".xz");
        for DevelEntry { entry, content } in tree.entries {
            let (link, mode) = match entry.kind {
                TarKind::Directory => continue,
                TarKind::File { executable, .. } => (None, if executable { 0o755 } else { 0o644 }),
                TarKind::Symlink(to) => (Some(to), 0),
                TarKind::Hardlink(to) => (Some(to.as_str().to_owned()), 0),
            };
            let file = ObservedFile {
                content: content.unwrap_or_else(|| unread(0, None)),
                packed: 0,
                crc: None,
                mode,
                link,
                exports: None,
            };
            self.files
                .insert(format!("{directory}/{}", entry.path), file);
        }
        Ok(())
    }
}

/// How much of a package is read at first.
fn first_read(package: &PackageFile) -> u64 {
    if package.is_wheel() {
        package.size.min(END)
    } else {
        package.size
    }
}

/// Reads the end of a wheel, or an sdist.
fn observed(
    package: &PackageFile,
    watch: &ObserveProgress<'_>,
) -> Result<(ObservedPackage, Option<Outline>)> {
    let mut this = ObservedPackage {
        name: package.name.clone(),
        size: package.size,
        ..ObservedPackage::default()
    };
    if !package.is_wheel() {
        let sdist = read_sdist(&package.name, package.stream(0..package.size)?, watch)?;
        package.outcome()?;
        sdist.metadata.map_err(|why| anyhow!("{why}"))?;
        let files = sdist.files.into_iter().map(|(path, content)| {
            let file = ObservedFile {
                content,
                packed: 0,
                crc: None,
                mode: 0,
                link: None,
                exports: None,
            };
            (path, file)
        });
        this.files = files.collect();
        return Ok((this, None));
    }
    let end = PackageEnd::read(package)?;
    let outline = Outline::read(&package.name, &end);
    package.outcome()?;
    if let Some(why) = outline.unreadable() {
        bail!("{why}");
    }
    let mut texts = Vec::new();
    for portion in outline.some(|entry| is_kept(&entry.path, entry.len)) {
        let facts = outline.read_portion(&end, &portion, watch)?;
        package.outcome()?;
        texts.extend(facts.into_members()?.0);
    }
    this.target = identity(&package.name).and_then(|(name, _)| {
        let target = name.normalized().strip_prefix(&NAMES.device)?;
        target.parse().ok()
    });
    let digests = digests(&texts);
    for entry in outline.entries() {
        if entry.kind == MemberKind::File {
            let file = listed(entry, digests.get(&entry.path));
            this.files.insert(entry.path.clone(), file);
        }
    }
    this.take(texts, BTreeMap::new())?;
    Ok((this, Some(outline)))
}

/// The digests and sizes of files according to RECORD. Without RECORD, the checksums have to do.
fn digests(texts: &[MemberFacts]) -> BTreeMap<String, (Sha256, u64)> {
    let record = texts
        .iter()
        .find(|it| it.path.ends_with(".dist-info/RECORD"));
    let record = record.and_then(|it| it.content.as_ref().ok()?.kept.as_deref());
    let record = record.and_then(|bytes| Record::parse(bytes).ok());
    let record = record.unwrap_or_default();
    let rows = record.rows().iter();
    let rows = rows.filter_map(|row| Some((row.path.to_string(), (row.digest?, row.len?))));
    rows.collect()
}

/// A file as the directory and RECORD describe it. A row for another size describes another file.
fn listed(entry: &DirectoryEntry, row: Option<&(Sha256, u64)>) -> ObservedFile {
    let row = row.filter(|(_, len)| *len == entry.len);
    ObservedFile {
        content: unread(entry.len, row.map(|(sha256, _)| *sha256)),
        packed: entry.packed,
        crc: Some(entry.crc),
        mode: entry.mode,
        link: None,
        exports: None,
    }
}

/// A file that was not read.
fn unread(len: u64, sha256: Option<Sha256>) -> ContentFacts {
    ContentFacts {
        len,
        sha256,
        kept: None,
        elf: None,
        code: DeviceCodeFacts::None,
        imports: None,
    }
}
