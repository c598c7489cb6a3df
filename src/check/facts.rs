//! The facts of a package set. `observe` fills them in, and the rules decide over them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use derive_more::AsRef;
use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use crate::{
    check::sparse::SparseFile,
    index::{BundledRocm, PackageFile, TIE_RECORD, is_of_others, is_ours},
    place::{KnownPackage, KnownPackages, PublishedFacts},
    policy::{DistNames, dist_info},
};
use rocwheel_base::{
    digest::Sha256, error::Result, io::FileIdentity, quantity::size, target::Target,
};
use rocwheel_kpack::{CodeTarget, archive::KpackArchive, host::WrapperReference};
use rocwheel_wheel::{
    Metadata, PackageFilename, Record, dist_info::WheelFacts, installed_path, tar::TarEntry,
};

/// All packages of a set, and what its pages say about them.
#[derive(Clone, Debug, Default)]
pub struct SetFacts {
    pub wheels: Vec<Arc<WheelFile>>,
    pub sdists: Vec<Arc<SdistFile>>,
    /// How much of the packages was read. `None` for packages on this disk that were read to their ends.
    pub read_amount: Option<ReadAmount>,
    /// The facts from the pages, if the set has any.
    pub published: Option<Arc<PublishedFacts>>,
    /// Artifacts of the build that no package of the set takes, for no known reason.
    pub unshipped: Vec<String>,
    /// The packages on this disk that were read from end to end, for a command that indexes or publishes
    /// them afterwards.
    pub read: KnownPackages,
}

/// How much of the packages of a set was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ReadAmount {
    /// The bytes of packages that were read. A byte that was read twice counts once.
    pub bytes: u64,
    /// The bytes that the packages have.
    pub of_bytes: u64,
    /// The files of our packages whose contents were not read.
    pub unread_files: usize,
}

impl ReadAmount {
    /// Whether there are files that nothing is known of but their paths, lengths and modes.
    pub fn is_partial(&self) -> bool {
        self.unread_files > 0
    }
}

/// `read 1.20 MiB of 2.40 GiB`
impl fmt::Display for ReadAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read {} of {}", size(self.bytes), size(self.of_bytes))
    }
}

/// What wheels and sdists have in common.
#[derive(Debug, AsRef)]
pub struct CheckedPackage {
    /// The file name, with the directory of its family if it has one.
    #[as_ref(str)]
    pub file: String,
    pub size: u64,
    pub filename: Result<PackageFilename, String>,
    /// The digest of the whole file. `None` if the caller did not ask for it, or if the file could not be read
    /// to its end.
    pub sha256: Option<Sha256>,
}

impl CheckedPackage {
    /// Whether it is one of the ROCm packages, or has an invalid name.
    pub fn is_ours(&self) -> bool {
        self.filename().is_none_or(|identity| is_ours(&identity.name))
    }

    /// The directory of its family.
    pub fn family(&self) -> Option<&str> {
        Some(self.file.split_once('/')?.0)
    }

    /// The name, version and tag in the file name. `None` if the file name is invalid.
    pub fn filename(&self) -> Option<&PackageFilename> {
        self.filename.as_ref().ok()
    }

    /// The family or target of libraries with device code, in lower case; `None` for any other package.
    pub fn libraries_family(&self) -> Option<&str> {
        DistNames::built_in().libraries_family(&self.filename()?.name)
    }

    /// The platform tag of a wheel.
    pub fn platform(&self) -> Option<&str> {
        Some(self.filename()?.tag.as_ref()?.platform())
    }
}

#[derive(Debug, AsRef)]
pub struct WheelFile {
    #[as_ref(str)]
    pub package: CheckedPackage,
    /// Why its members could not be read, if so.
    pub unreadable: Option<String>,
    /// How the directory and the local headers of the members contradict each other, or that bytes stand
    /// around the archive.
    pub contradictions: Vec<String>,
    pub members: Vec<MemberFacts>,
    pub devel: Option<DevelTree>,
}

#[derive(Debug, AsRef)]
pub struct MemberFacts {
    #[as_ref(str)]
    pub path: String,
    pub kind: MemberKind,
    /// The permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    pub content: Result<ContentFacts, String>,
}

pub use rocwheel_wheel::MemberKind;

/// A file of a package.
#[derive(Debug, Default)]
pub struct ContentFacts {
    pub len: u64,
    /// `None` if no step hashed the file by itself: a development file of a set that was just built, an
    /// installed file, or a member that was not read, in a wheel of another project in a store.
    pub sha256: Option<Sha256>,
    /// Whether no byte of it was read, so that only its length is known.
    pub is_unread: bool,
    /// The bytes, if rules need them.
    pub kept: Option<Vec<u8>>,
    pub elf: Option<Elf>,
    /// Whether it begins with `#!`, so that the kernel starts it with the program that it names.
    pub is_script: bool,
    pub code: DeviceCodeFacts,
    /// For a file for Windows: the file names of the libraries that it imports, or why they cannot
    /// be read.
    pub imports: Option<Result<BTreeSet<String>, String>>,
}

impl ContentFacts {
    /// The ELF file, if it could be read.
    pub fn elf(&self) -> Option<&ElfFile> {
        match &self.elf {
            Some(Elf::Read(elf)) => Some(elf),
            _ => None,
        }
    }

    /// The archive of device code.
    pub fn archive(&self) -> Option<&DeviceArchive> {
        match &self.code {
            DeviceCodeFacts::Archive(archive) => Some(archive),
            _ => None,
        }
    }
}

/// The device code of a file, from its headers.
#[derive(Debug, Default)]
pub enum DeviceCodeFacts {
    #[default]
    None,
    /// A code object or a bundle: the targets of its code objects, as far as they are known.
    Objects(BTreeSet<CodeTarget>),
    Archive(Box<DeviceArchive>),
    /// It begins like a code object, a bundle or an archive, but cannot be parsed.
    Unreadable(String),
    /// A host binary, whose code moved to archives. The references of its wrappers lead to the archives.
    Split(Vec<WrapperReference>),
    /// A host binary with code inside: the amount for each target.
    Fat(BTreeMap<CodeTarget, Cell>),
    /// A host binary whose wrappers or markers are damaged, so that the code cannot be found.
    Damaged(String),
}

/// A readable archive, without its code.
pub type DeviceArchive = KpackArchive<SparseFile>;

/// An amount of device code, such as the code of one library for one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cell {
    pub files: u64,
    /// The number of code objects in archives and in the library itself.
    pub code_objects: u64,
    /// The size of the files as installed; for code inside a library, its size when loaded.
    pub bytes: u64,
}

impl Cell {
    /// The amount of one code object.
    pub(super) fn of_code(bytes: u64) -> Self {
        Self { code_objects: 1, bytes, ..Self::default() }
    }

    pub fn add(&mut self, part: Self) {
        self.files = self.files.saturating_add(part.files);
        self.code_objects = self.code_objects.saturating_add(part.code_objects);
        self.bytes = self.bytes.saturating_add(part.bytes);
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Elf {
    Read(Box<ElfFile>),
    /// It begins like an ELF file, but cannot be parsed.
    Damaged(String),
    /// Its headers or tables are larger than what is read into memory.
    TooLarge,
}

#[derive(Debug, PartialEq, Eq)]
pub struct ElfFile {
    pub facts: rocwheel_elf::ElfFacts,
    /// Defects for which a loader refuses the file.
    pub faults: Vec<String>,
    /// The program that a launcher runs, relative to the directory of the launcher.
    pub launches: Option<String>,
}

/// The contents of `_devel.tar`, which `rocm-sdk init` unpacks to a directory beside the packages.
#[derive(Debug)]
pub struct DevelTree {
    /// The path of the archive in its wheel.
    pub member: String,
    pub entries: Vec<DevelEntry>,
    /// Why it could not be read to the end, if so.
    pub fault: Option<String>,
}

#[derive(Debug)]
pub struct DevelEntry {
    pub entry: TarEntry,
    /// `None` for everything but files.
    pub content: Option<ContentFacts>,
}

#[derive(Debug, AsRef)]
pub struct SdistFile {
    #[as_ref(str)]
    pub package: CheckedPackage,
    pub metadata: Result<Metadata, String>,
    /// Whether the copies of PKG-INFO in `*.egg-info` have the same bytes.
    pub copies_agree: bool,
    pub contents: SdistContents,
}

/// What the archive of an sdist holds.
#[derive(Debug, Default)]
pub struct SdistContents {
    /// The files by their path below the top directory.
    pub files: BTreeMap<String, ContentFacts>,
    /// The names at the top of the archive, the first few of them.
    pub tops: BTreeSet<String>,
    /// The symbolic links that lead out of the top directory, the first few of them.
    pub escapes: Vec<String>,
}

/// The class in `_dist_info.py` for the required files. Only ours has it.
const CLASS: &str = "\nclass FileEntry";

/// What a package says of its set: the texts of `_dist_info.py` and, in our packages, `_dist_info.json`.
#[derive(Clone, Copy, Debug)]
pub struct DistInfoTexts<'a> {
    pub module: &'a str,
    pub tables: Option<&'a str>,
}

impl SdistFile {
    /// Whether our builder made it, as the class in its `_dist_info.py` shows.
    pub fn has_our_dist_info(&self) -> bool {
        self.dist_info().is_some_and(|texts| texts.module.contains(CLASS))
    }

    pub fn dist_info(&self) -> Option<DistInfoTexts<'_>> {
        let kept_text = |name| {
            let file = self.contents.files.get(&format!("src/rocm_sdk/{name}"))?;
            str::from_utf8(file.kept.as_deref()?).ok()
        };
        Some(DistInfoTexts {
            module: kept_text(dist_info::MODULE)?,
            tables: kept_text(dist_info::TABLES),
        })
    }
}

impl WheelFile {
    /// The normalized name of its project. `None` if the file name is invalid.
    pub fn project(&self) -> Option<&str> {
        Some(self.package.filename()?.name.normalized())
    }

    /// The members without a defect. A member that was not read, in a wheel of another project in a store, has
    /// its length only.
    pub fn contents(&self) -> impl Iterator<Item = (&MemberFacts, &ContentFacts)> {
        self.members.iter().filter_map(|member| Some((member, member.content.as_ref().ok()?)))
    }

    /// The members whose contents were not read.
    pub fn unread_members(&self) -> impl Iterator<Item = &MemberFacts> {
        self.contents().filter(|(_, content)| content.is_unread).map(|(member, _)| member)
    }

    /// The files without a defect: its members, and its development files.
    pub fn files(&self) -> impl Iterator<Item = (&str, &ContentFacts)> {
        let members = self.contents().map(|(member, content)| (&*member.path, content));
        let devel_files = self
            .unpacked()
            .filter_map(|devel| Some((devel.entry.path.as_str(), devel.content.as_ref()?)));
        members.chain(devel_files)
    }

    /// The entries of its development files.
    pub fn unpacked(&self) -> impl Iterator<Item = &DevelEntry> {
        self.devel.iter().flat_map(|tree| &tree.entries)
    }

    /// The bytes of a member, if they were kept.
    pub fn text(&self, path: &str) -> Option<&[u8]> {
        Some(self.kept(|member| member == path)?.1)
    }

    /// Whether our builder made it, as the class in its `_dist_info.py` shows. Other builders write no tables
    /// of files, and their sets are known to lack files.
    pub fn has_our_dist_info(&self) -> bool {
        self.dist_info_texts().is_some_and(|texts| texts.module.contains(CLASS))
    }

    /// What the wheel says of its set. Device wheels say nothing.
    pub fn dist_info_texts(&self) -> Option<DistInfoTexts<'_>> {
        let kept_text = |name: &str| {
            let is_named = |path: &str| path.rsplit_once('/').is_some_and(|(_, file)| file == name);
            str::from_utf8(self.kept(is_named)?.1).ok()
        };
        Some(DistInfoTexts {
            module: kept_text(dist_info::MODULE)?,
            tables: kept_text(dist_info::TABLES),
        })
    }

    /// Whether rocwheel may have made it. One sign is enough: `_dist_info.py` may be damaged, or another program may
    /// have changed WHEEL.
    pub fn may_be_ours(&self) -> bool {
        self.has_our_dist_info() || !self.names_other_builder()
    }

    /// Whether another program than rocwheel made it, according to its WHEEL. TheRock's builder does
    /// without some of the files that rocwheel adds, and its packages are known to have some defects.
    pub fn names_other_builder(&self) -> bool {
        self.other_builder().is_some()
    }

    /// The program that made it, according to its WHEEL, if that is not rocwheel.
    pub fn other_builder(&self) -> Option<String> {
        let (_, bytes) = self.dist_info("WHEEL")?;
        let facts: WheelFacts = String::from_utf8_lossy(bytes).parse().ok()?;
        (!facts.is_made_by_us()).then_some(facts.generator)
    }

    /// The path and bytes of a file in the `.dist-info` directory.
    pub fn dist_info(&self, name: &str) -> Option<(&str, &[u8])> {
        self.kept(|path| {
            path.split_once('/')
                .is_some_and(|(top, inside)| inside == name && top.ends_with(".dist-info"))
        })
    }

    /// The path and bytes of the first member at a wanted path whose bytes were kept.
    fn kept(&self, is_wanted: impl Fn(&str) -> bool) -> Option<(&str, &[u8])> {
        self.contents()
            .filter(|(member, _)| is_wanted(&member.path))
            .find_map(|(member, content)| Some((&*member.path, content.kept.as_deref()?)))
    }

    /// The ROCm packages whose files `framework tie --bundle` has put into it. RECORD says which bytes the files have, and
    /// the rules about archives say whether that is true.
    pub fn bundled_rocm(&self) -> Option<BundledRocm> {
        let (_, tie_record) = self.dist_info(TIE_RECORD)?;
        let record = Record::parse(self.dist_info("RECORD")?.1).ok()?;
        let files = record.rows().iter().map(|row| {
            let path = row.path.as_str();
            (installed_path(path).unwrap_or(path), row.digest)
        });
        BundledRocm::read(tie_record, files)
    }

    pub fn metadata(&self) -> Option<Metadata> {
        Metadata::parse(self.dist_info("METADATA")?.1).ok()
    }

    /// The target in the name of a device wheel. `None` for other wheels.
    pub fn device_target(&self) -> Option<Result<Target, String>> {
        let target = DistNames::built_in().device_scope(&self.package.filename()?.name)?;
        Some(target.parse().map_err(|_| target.to_owned()))
    }
}

/// A package on this disk before it is read.
pub(super) struct UnreadPackage {
    /// The path in the directory of the set.
    pub(super) path: String,
    pub(super) identity: FileIdentity,
}

/// The numbers of the packages of a set.
#[derive(Clone, Copy, Debug)]
pub struct PackageCounts {
    pub ours: usize,
    /// The packages of other projects. Pages may name some that are not in the set.
    pub others: usize,
}

impl SetFacts {
    /// The set without the packages of other projects. Packages with invalid names stay.
    #[must_use]
    pub fn ours(&self) -> Self {
        self.filtered(CheckedPackage::is_ours)
    }

    /// The set with some of its packages.
    pub(super) fn filtered(&self, is_kept: impl Fn(&CheckedPackage) -> bool) -> Self {
        let mut set = self.clone();
        set.wheels.retain(|wheel| is_kept(&wheel.package));
        set.sdists.retain(|sdist| is_kept(&sdist.package));
        set
    }

    /// What is known of the packages whose bytes were all read. `unread` has the packages by name, as they
    /// were before they were read.
    pub(super) fn known_packages(&self, unread: &HashMap<String, UnreadPackage>) -> KnownPackages {
        let wheels = self
            .wheels
            .iter()
            .filter_map(|wheel| Some((&wheel.package, wheel.dist_info("METADATA")?.1)));
        let sdists = self.sdists.iter().filter_map(|sdist| {
            let metadata = sdist.contents.files.get("PKG-INFO")?.kept.as_deref()?;
            Some((&sdist.package, metadata))
        });
        wheels
            .chain(sdists)
            .filter_map(|(package, metadata)| {
                let UnreadPackage { path, identity } = unread.get(&package.file)?;
                let known = KnownPackage {
                    file: PackageFile::named(path.clone(), package.size, package.sha256?).ok()?,
                    identity: Some(*identity),
                    metadata: metadata.to_vec(),
                    start: None,
                };
                Some((path.clone(), known))
            })
            .collect()
    }

    /// Whether the contents of some files of our packages were not read. Then nothing is known of the device code
    /// in them.
    pub fn is_partly_read(&self) -> bool {
        self.read_amount.is_some_and(|amount| amount.is_partial())
    }

    /// All wheels, then all sdists.
    pub fn packages(&self) -> impl Iterator<Item = &CheckedPackage> {
        let wheels = self.wheels.iter().map(|wheel| &wheel.package);
        wheels.chain(self.sdists.iter().map(|sdist| &sdist.package))
    }

    /// The numbers of our packages and of the packages of other projects.
    pub fn counts(&self) -> PackageCounts {
        let (ours, others): (Vec<_>, Vec<_>) = self.packages().partition(|it| it.is_ours());
        let on_pages = self
            .published
            .iter()
            .flat_map(|published| published.foreign.iter().chain(&published.unlisted))
            .filter(|file| is_of_others(file));
        // A package of the set is named by its pages too, and counts once.
        let others = others.into_iter().map(|package| &package.file).chain(on_pages);
        PackageCounts { ours: ours.len(), others: others.unique().count() }
    }

    /// The members of all wheels.
    pub fn members(&self) -> impl Iterator<Item = (&WheelFile, &MemberFacts)> {
        self.wheels.iter().flat_map(|wheel| wheel.members.iter().map(|member| (&**wheel, member)))
    }

    /// The members of all wheels without a defect, as [`WheelFile::contents`] has them.
    pub fn contents(&self) -> impl Iterator<Item = (&WheelFile, &MemberFacts, &ContentFacts)> {
        self.members()
            .filter_map(|(wheel, member)| Some((wheel, member, member.content.as_ref().ok()?)))
    }

    /// Every ELF file with its wheel and path. The files in the development files are among them.
    pub fn elf_files(&self) -> impl Iterator<Item = (&str, &str, &Elf)> {
        self.wheels.iter().flat_map(|wheel| {
            wheel.files().filter_map(|(path, content)| {
                Some((&*wheel.package.file, path, content.elf.as_ref()?))
            })
        })
    }

    /// The device wheels by target. A wheel with an invalid target is left out.
    pub fn device_wheels(&self) -> BTreeMap<Target, &WheelFile> {
        self.wheels
            .iter()
            .filter_map(|wheel| Some((wheel.device_target()?.ok()?, &**wheel)))
            .collect()
    }

    /// The device wheel with the code for each target: its own target, and each other one for which it has
    /// an archive, such as `gfx1250-strict` in the wheel of `gfx1250`.
    pub fn device_targets(&self) -> BTreeMap<Target, &WheelFile> {
        let mut wheels = BTreeMap::new();
        for (wheel_target, wheel) in self.device_wheels() {
            let further_targets = wheel
                .contents()
                .filter_map(|(_, content)| content.archive())
                .flat_map(DeviceArchive::targets)
                .filter_map(|name| Some(name.parse::<Target>().ok()?.base()))
                .filter(|target| target.packaged() == wheel_target);
            wheels.extend(further_targets.map(|target| (target, wheel)));
            wheels.insert(wheel_target, wheel);
        }
        wheels
    }

    /// The selector: the `rocm` sdist, whose extras select the other packages.
    pub fn selector(&self) -> Option<&SdistFile> {
        let mut sdists = self.sdists.iter().map(Arc::as_ref);
        let is_named = |identity: &PackageFilename| identity.name.normalized() == "rocm";
        sdists.find(|sdist| sdist.package.filename().is_some_and(is_named))
    }

    /// What each package that rocwheel built says of its set.
    pub fn dist_infos(&self) -> impl Iterator<Item = (&CheckedPackage, DistInfoTexts<'_>)> {
        let wheels = self
            .wheels
            .iter()
            .filter(|wheel| wheel.may_be_ours())
            .filter_map(|wheel| Some((&wheel.package, wheel.dist_info_texts()?)));
        let sdists = self
            .sdists
            .iter()
            .filter(|sdist| sdist.has_our_dist_info())
            .filter_map(|sdist| Some((&sdist.package, sdist.dist_info()?)));
        wheels.chain(sdists)
    }

    /// The metadata of each package for which it can be parsed.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, Metadata)> {
        let wheels =
            self.wheels.iter().filter_map(|wheel| Some((&*wheel.package.file, wheel.metadata()?)));
        let sdists = self
            .sdists
            .iter()
            .filter_map(|sdist| Some((&*sdist.package.file, sdist.metadata.clone().ok()?)));
        wheels.chain(sdists)
    }

    /// The platforms of the wheels, as values of `sys_platform`.
    pub fn platforms(&self) -> Vec<&'static str> {
        let is_for = |mark: &str| {
            let mut tags = self.packages().filter_map(CheckedPackage::platform);
            tags.any(|tag| tag.contains(mark))
        };
        // The part of a platform tag that shows the platform, and the value of `sys_platform`.
        [("linux", "linux"), ("win", "win32")]
            .into_iter()
            .filter(|(mark, _)| is_for(mark))
            .map(|(_, platform)| platform)
            .collect()
    }
}
