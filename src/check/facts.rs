//! What is known of a package set after reading it once: all that the rules look at.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use crate::{
    archive::TarEntry,
    check::sparse::SparseFile,
    digest::Sha256,
    elf,
    error::Result,
    kpack::{CodeTarget, host::WrapperReference},
    package::{
        Catalog, DistributionMode,
        catalog::{PackageKind, PackageSpec},
    },
    set::{PublishedFacts, is_ours},
    target::Target,
    version::Version,
    wheel::{DistName, Metadata, SdistFilename, WheelFilename},
};

/// The packages of a directory, each by its file name.
#[derive(Debug, Default)]
pub struct SetFacts {
    pub wheels: Vec<Arc<WheelFile>>,
    pub sdists: Vec<Arc<SdistFile>>,
    /// What pages say about the packages, if they are published.
    pub published: Option<Arc<PublishedFacts>>,
    /// The sdists of a set for another platform, if there is one to compare with.
    pub siblings: Option<BTreeMap<String, Sha256>>,
}

/// What the file name of a package says.
#[derive(Clone, Copy, Debug)]
pub struct PackageIdentity<'a> {
    pub file: &'a str,
    pub name: &'a DistName,
    pub version: &'a Version,
}

#[derive(Debug)]
pub struct WheelFile {
    /// The name of the file.
    pub file: String,
    pub size: u64,
    pub name: Result<WheelFilename, String>,
    /// What is wrong with the archive as such.
    pub faults: Vec<ArchiveFault>,
    pub members: Vec<MemberFacts>,
    pub devel: Option<DevelTree>,
    /// Of the file itself, with its length, if that was asked for.
    pub digest: Option<(Sha256, u64)>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum ArchiveFault {
    /// Nothing could be read.
    Unreadable(String),
    /// So many bytes stand before the archive or behind its end.
    Around(u64),
    /// The lists of members contradict each other.
    Inconsistent(String),
}

#[derive(Debug)]
pub struct MemberFacts {
    pub path: String,
    pub kind: MemberKind,
    /// The permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    /// The checksum that the directory of the archive has.
    pub crc: u32,
    pub content: Result<ContentFacts, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    File,
    Directory,
    Symlink,
    /// A device, a pipe, a socket.
    Special,
}

#[derive(Debug, PartialEq, Eq)]
pub struct ContentFacts {
    pub len: u64,
    pub sha256: Sha256,
    /// The bytes, of a file that rules read.
    pub kept: Option<Vec<u8>>,
    pub elf: Option<Elf>,
    pub code: Option<DeviceCodeFacts>,
    pub windows: Option<WindowsFile>,
}

impl ContentFacts {
    /// A binary for the host, of whatever kind.
    pub fn binary(&self) -> Option<Binary<'_>> {
        match &self.elf {
            Some(Elf::Read(elf)) => Some(Binary::Elf(elf)),
            _ => self.windows.as_ref().map(Binary::Windows),
        }
    }

    /// The device code of a binary for the host.
    pub fn host_code(&self) -> Option<&HostCode> {
        Some(self.binary()?.code())
    }
}

/// A binary for the host that could be read.
#[derive(Clone, Copy, Debug)]
pub enum Binary<'a> {
    Elf(&'a ElfFile),
    Windows(&'a WindowsFile),
}

impl<'a> Binary<'a> {
    pub fn code(self) -> &'a HostCode {
        match self {
            Self::Elf(file) => &file.code,
            Self::Windows(file) => &file.code,
        }
    }
}

/// The device code of a file, as its headers tell it.
#[derive(Debug, PartialEq, Eq)]
pub enum DeviceCodeFacts {
    /// A code object, or a bundle of some: what they are for, as far as that is known.
    Objects(BTreeSet<CodeTarget>),
    /// An archive that can be read; kept without the code in it.
    Archive(Arc<SparseFile>),
    /// It begins as one of these, and cannot be understood.
    Unreadable(String),
}

/// The device code of a binary for the host.
#[derive(Debug, PartialEq, Eq)]
pub enum HostCode {
    None,
    /// Taken out: where each wrapper leads.
    Split(Vec<WrapperReference>),
    /// Still in it.
    Fat(Carried),
    /// What leads to it cannot be followed.
    Damaged(String),
}

/// How many code objects there are for each target, and how many bytes once they are unpacked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Carried(BTreeMap<CodeTarget, (u64, u64)>);

impl Carried {
    pub fn add(&mut self, target: CodeTarget, bytes: u64) {
        let (objects, sum) = self.0.entry(target).or_default();
        *objects = objects.saturating_add(1);
        *sum = sum.saturating_add(bytes);
    }

    pub fn targets(&self) -> impl Iterator<Item = &CodeTarget> {
        self.0.keys()
    }

    /// Code objects and bytes by target.
    pub fn amounts(&self) -> impl Iterator<Item = (&CodeTarget, u64, u64)> {
        self.0
            .iter()
            .map(|(target, (objects, bytes))| (target, *objects, *bytes))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Elf {
    Read(Box<ElfFile>),
    /// It begins like one, and cannot be understood.
    Damaged(String),
    /// What says something about it is more than is held in memory.
    TooLarge,
}

#[derive(Debug, PartialEq, Eq)]
pub struct ElfFile {
    pub facts: elf::ElfFacts,
    /// What a loader refuses.
    pub faults: Vec<String>,
    /// What a launcher runs, seen from its own directory.
    pub launches: Option<String>,
    pub code: HostCode,
}

/// A program or a library for Windows.
#[derive(Debug, PartialEq, Eq)]
pub struct WindowsFile {
    pub code: HostCode,
    /// What one with device code is linked with, by file names; or why that cannot be told.
    pub needed: Result<BTreeSet<String>, String>,
}

/// `_devel.tar`, which becomes a directory beside the other packages.
#[derive(Debug)]
pub struct DevelTree {
    /// The path of the archive in its wheel.
    pub member: String,
    pub entries: Vec<DevelEntry>,
    /// Why it could not be read to its end.
    pub fault: Option<String>,
}

#[derive(Debug)]
pub struct DevelEntry {
    pub entry: TarEntry,
    pub elf: Option<Elf>,
    /// Of a file.
    pub sha256: Option<Sha256>,
}

#[derive(Debug)]
pub struct SdistFile {
    pub file: String,
    pub size: u64,
    pub name: Result<SdistFilename, String>,
    pub metadata: Result<Metadata, String>,
    /// Whether the PKG-INFO in `*.egg-info`, if any, is the same.
    pub copies_agree: bool,
    /// Of the file itself, with its length.
    pub digest: Option<(Sha256, u64)>,
    /// By their paths below the directory at the top.
    pub files: BTreeMap<String, SdistMember>,
}

/// A file of an sdist.
#[derive(Debug)]
pub struct SdistMember {
    pub len: u64,
    pub sha256: Sha256,
    /// The bytes, of a file that rules read.
    pub text: Option<Vec<u8>>,
}

impl SdistFile {
    pub fn is_ours(&self) -> bool {
        self.name.as_ref().is_ok_and(|it| is_ours(it.name())) || self.name.is_err()
    }
}

impl WheelFile {
    pub fn is_ours(&self) -> bool {
        self.name.as_ref().is_ok_and(|it| is_ours(it.name())) || self.name.is_err()
    }

    /// The normalized name of its project, if its file name can be read.
    pub fn project(&self) -> Option<&str> {
        Some(self.name.as_ref().ok()?.name().normalized())
    }

    /// The members that could be read.
    pub fn contents(&self) -> impl Iterator<Item = (&MemberFacts, &ContentFacts)> {
        let members = self.members.iter();
        members.filter_map(|member| Some((member, member.content.as_ref().ok()?)))
    }

    /// What its development files unpack to.
    pub fn unpacked(&self) -> impl Iterator<Item = &DevelEntry> {
        self.devel.iter().flat_map(|tree| &tree.entries)
    }

    /// Whether all members are known.
    pub fn is_readable(&self) -> bool {
        let mut faults = self.faults.iter();
        !faults.any(|fault| matches!(fault, ArchiveFault::Unreadable(_)))
    }

    /// A member whose bytes were kept.
    pub fn text(&self, path: &str) -> Option<&[u8]> {
        let member = self.members.iter().find(|member| member.path == path)?;
        member.content.as_ref().ok()?.kept.as_deref()
    }

    /// Its `_dist_info.py`. Other builders make no list of files, and their sets are known to lack
    /// some.
    pub fn tables(&self) -> Option<&str> {
        let paths = self.members.iter().map(|it| it.path.as_str());
        let mut own = paths.filter(|path| path.ends_with("/_dist_info.py"));
        let text = str::from_utf8(own.find_map(|path| self.text(path))?).ok()?;
        text.contains("\nclass FileEntry").then_some(text)
    }

    /// The members of the `.dist-info` directory, by file name.
    pub fn dist_info(&self, name: &str) -> Option<(&str, &[u8])> {
        let member = self.members.iter().find(|member| {
            member
                .path
                .split_once('/')
                .is_some_and(|(top, rest)| rest == name && top.ends_with(".dist-info"))
        })?;
        let bytes = member.content.as_ref().ok()?.kept.as_deref()?;
        Some((&member.path, bytes))
    }

    pub fn metadata(&self) -> Option<Metadata> {
        Metadata::parse(self.dist_info("METADATA")?.1).ok()
    }

    /// The target of a device wheel, as its name says it.
    pub fn device_target(&self) -> Option<Result<Target, String>> {
        let target = self.project()?.strip_prefix(&NAMES.device)?;
        Some(target.parse().map_err(|_| target.to_owned()))
    }
}

/// What the policy calls the packages that rules know.
#[derive(Debug)]
pub struct PackageNames {
    /// How the name of a device package begins; its target follows.
    pub device: String,
    /// What device code is laid over.
    pub overlaid: String,
    /// How that begins where it is for a family, which follows.
    pub of_family: String,
}

pub static NAMES: LazyLock<PackageNames> = LazyLock::new(|| {
    let names = || -> Result<PackageNames> {
        let catalog = Catalog::built_in()?;
        let before_scope = |package: &PackageSpec, mode| {
            let template = package.dist_template(mode).python_template();
            template.split('{').next().unwrap_or_default().to_owned()
        };
        let overlaid = catalog.overlaid()?;
        Ok(PackageNames {
            device: before_scope(catalog.only(PackageKind::Device)?, DistributionMode::Split),
            overlaid: before_scope(overlaid, DistributionMode::Split),
            of_family: before_scope(overlaid, DistributionMode::Legacy),
        })
    };
    names().expect("a test reads the built-in policy")
});

impl SetFacts {
    /// The set without the wheels and sdists of other projects. What has no readable name stays.
    #[must_use]
    pub fn ours(&self) -> Self {
        let wheels = self.wheels.iter().filter(|it| it.is_ours());
        let sdists = self.sdists.iter().filter(|it| it.is_ours());
        self.with(wheels.cloned().collect(), sdists.cloned().collect())
    }

    /// The set with other packages.
    pub(super) fn with(&self, wheels: Vec<Arc<WheelFile>>, sdists: Vec<Arc<SdistFile>>) -> Self {
        Self {
            wheels,
            sdists,
            published: self.published.clone(),
            siblings: self.siblings.clone(),
        }
    }

    /// The files of other projects.
    pub fn foreign(&self) -> impl Iterator<Item = &str> {
        let wheels = self.wheels.iter().filter(|it| !it.is_ours());
        let sdists = self.sdists.iter().filter(|it| !it.is_ours());
        let wheels = wheels.map(|it| it.file.as_str());
        wheels.chain(sdists.map(|it| it.file.as_str()))
    }

    /// What the names of all packages say, as far as they can be read.
    pub fn identities(&self) -> impl Iterator<Item = PackageIdentity<'_>> {
        let wheels = self.wheels.iter().filter_map(|wheel| {
            let name = wheel.name.as_ref().ok()?;
            Some((&wheel.file, name.name(), name.version()))
        });
        let sdists = self.sdists.iter().filter_map(|sdist| {
            let name = sdist.name.as_ref().ok()?;
            Some((&sdist.file, name.name(), name.version()))
        });
        let all = wheels.chain(sdists);
        all.map(|(file, name, version)| PackageIdentity {
            file,
            name,
            version,
        })
    }

    /// The members of all wheels.
    pub fn members(&self) -> impl Iterator<Item = (&WheelFile, &MemberFacts)> {
        let wheels = self.wheels.iter();
        wheels.flat_map(|wheel| wheel.members.iter().map(|member| (&**wheel, member)))
    }

    /// The members of all wheels that could be read.
    pub fn contents(&self) -> impl Iterator<Item = (&WheelFile, &MemberFacts, &ContentFacts)> {
        let members = self.members();
        members.filter_map(|(wheel, member)| Some((wheel, member, member.content.as_ref().ok()?)))
    }

    /// Every ELF file with its wheel and its path, those of the development files included.
    pub fn elf_files(&self) -> impl Iterator<Item = (&str, &str, &Elf)> {
        self.wheels.iter().flat_map(|wheel| {
            let members = wheel.contents();
            let members = members.map(|(member, content)| (&*member.path, &content.elf));
            let unpacked = wheel.unpacked();
            let unpacked = unpacked.map(|devel| (devel.entry.path.as_str(), &devel.elf));
            let all = members.chain(unpacked);
            all.filter_map(|(path, elf)| Some((&*wheel.file, path, elf.as_ref()?)))
        })
    }

    /// The device wheels of targets that are targets.
    pub fn device_wheels(&self) -> BTreeMap<Target, &WheelFile> {
        let wheels = self.wheels.iter().map(Arc::as_ref);
        wheels
            .filter_map(|wheel: &WheelFile| Some((wheel.device_target()?.ok()?, wheel)))
            .collect()
    }

    /// The package that selects the others.
    pub fn selector(&self) -> Option<&SdistFile> {
        let mut sdists = self.sdists.iter().map(Arc::as_ref);
        sdists.find(|sdist| {
            let name = sdist.name.as_ref().map(|name| name.name().normalized());
            name == Ok("rocm")
        })
    }

    /// The `_dist_info.py` of a package, with the tables that builds of ours write into each.
    pub fn dist_info(&self) -> Option<&str> {
        let mut wheels = self.wheels.iter();
        wheels.find_map(|wheel| wheel.tables())
    }

    /// How many packages there are.
    pub fn len(&self) -> usize {
        self.wheels.len().saturating_add(self.sdists.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What each package that can be read says about itself.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, Metadata)> {
        let wheels = self.wheels.iter();
        let wheels = wheels.filter_map(|wheel| Some((&*wheel.file, wheel.metadata()?)));
        let sdists = self.sdists.iter();
        wheels.chain(
            sdists.filter_map(|sdist| Some((&*sdist.file, sdist.metadata.as_ref().ok()?.clone()))),
        )
    }

    /// Where the wheels are for, as `sys_platform` calls it.
    pub fn platforms(&self) -> Vec<&'static str> {
        let is_for = |mark: &str| {
            let mut names = self
                .wheels
                .iter()
                .filter_map(|wheel| wheel.name.as_ref().ok());
            names.any(|name| name.tag().platform().contains(mark))
        };
        let known = [("linux", "linux"), ("win", "win32")];
        let found = known.into_iter().filter(|(mark, _)| is_for(mark));
        found.map(|(_, platform)| platform).collect()
    }
}
