//! [`Providers`]: who provides the libraries that the binaries of frameworks need.

use std::collections::BTreeMap;

use derive_more::Display;

use super::{
    policy::{Frameworks, RocmDirectoryKey},
    read::{ElfMember, FrameworkWheel},
    rocm::RocmLibraries,
    tags::Manylinux,
};
use crate::{
    elf::ElfKind,
    loader::{SystemLibraries, origin},
    relpath,
    wheel::DistName,
};

/// Who provides a library, and in which directory below `site-packages`.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord)]
pub enum LibraryProvider {
    #[display("own")]
    Own(String),
    #[display("{wheel}")]
    Group { wheel: DistName, directory: String },
    #[display("ROCm ({_0})")]
    Rocm(RocmDirectoryKey),
    #[display("{framework}")]
    Neighbour { framework: String, directory: String },
    #[display("host")]
    Host,
    /// The set has the library with another version, or lacks it.
    #[display("other ROCm{}", _0.as_ref().map(|it| format!(" (the set has `{it}`)")).unwrap_or_default())]
    OtherRocm(Option<String>),
    #[display("{_0}")]
    Vendor(String),
    #[display("unknown")]
    Unknown,
}

impl LibraryProvider {
    /// The other framework that provides it, if one does.
    pub fn framework(self) -> Option<DistName> {
        match self {
            Self::Group { wheel, .. } => Some(wheel),
            Self::Neighbour { framework, .. } => framework.parse().ok(),
            _ => None,
        }
    }
}

/// What is installed together: wheels of frameworks, and a set if there is one.
#[derive(Debug)]
pub struct Providers<'a> {
    pub policy: &'a Frameworks,
    pub rocm: Option<&'a RocmLibraries>,
    /// The libraries of the frameworks by file name: the project, and the directory of the library.
    libraries: BTreeMap<&'a str, Vec<(&'a DistName, &'a str)>>,
    /// Further libraries that hosts are said to have.
    host: &'a [String],
}

impl<'a> Providers<'a> {
    pub fn new(
        wheels: &'a [FrameworkWheel],
        rocm: Option<&'a RocmLibraries>,
        policy: &'a Frameworks,
        host: &'a [String],
    ) -> Self {
        let mut libraries: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for wheel in wheels {
            for elf in wheel.host_files() {
                if elf.facts.kind == ElfKind::SharedObject {
                    let (directory, name) = relpath::split(elf.path);
                    let places = libraries.entry(name).or_default();
                    places.push((&wheel.name.name, directory));
                }
            }
        }
        Self { policy, rocm, libraries, host }
    }

    /// The libraries that a file of a wheel needs, by who provides them.
    pub fn needs<'e>(
        &self,
        wheel: &FrameworkWheel,
        elf: ElfMember<'e>,
    ) -> impl Iterator<Item = (&'e str, LibraryProvider)> {
        let needed = elf.facts.needed.iter().map(String::as_str);
        needed.map(move |name| (name, self.of(&wheel.name.name, elf, name)))
    }

    /// Who provides a library to a file of a project.
    fn of(&self, project: &DistName, elf: ElfMember<'_>, library: &str) -> LibraryProvider {
        if let Some(directory) = self.own(project, elf, library) {
            return LibraryProvider::Own(directory.to_owned());
        }
        if let Some((wheel, directory)) = self.libraries.get(library).and_then(|it| it.first()) {
            return LibraryProvider::Group {
                wheel: (*wheel).clone(),
                directory: (*directory).to_owned(),
            };
        }
        let expected = self.policy.directory_of(library);
        let directory = match self.rocm {
            Some(rocm) => rocm.library(library).map(|it| it.directory),
            None => expected,
        };
        if let Some(directory) = directory {
            return LibraryProvider::Rocm(directory);
        }
        if let Some((framework, directory)) = self.policy.provider(library) {
            return LibraryProvider::Neighbour {
                framework: framework.to_owned(),
                directory: directory.to_owned(),
            };
        }
        if SystemLibraries::builtin().has(library)
            || Manylinux::builtin().has(library)
            || self.host.iter().any(|it| it == library)
        {
            return LibraryProvider::Host;
        }
        let other = self.rocm.and_then(|rocm| rocm.of_other_version(library));
        if other.is_some() || expected.is_some() {
            return LibraryProvider::OtherRocm(other.map(|it| it.name.clone()));
        }
        match self.policy.vendor(library) {
            Some(vendor) => LibraryProvider::Vendor(vendor.to_owned()),
            None => LibraryProvider::Unknown,
        }
    }

    /// Whether a directory below `site-packages` is one of the ROCm packages.
    pub fn is_rocm(&self, directory: &str) -> bool {
        let mut known = self.policy.directories.iter();
        known.any(|it| match self.rocm {
            Some(rocm) => directory == rocm.directory(it.key),
            None => it.is(directory),
        })
    }

    /// Whether a directory below `site-packages` is one of another framework.
    pub fn is_neighbour(&self, directory: &str) -> bool {
        let mut places = self.libraries.values().flatten();
        places.any(|it| it.1 == directory) || self.policy.provides(directory)
    }

    /// Where a directory of the ROCm packages is below `site-packages`.
    pub fn rocm_directory(&self, key: RocmDirectoryKey) -> &str {
        match self.rocm {
            Some(rocm) => rocm.directory(key),
            None => self.policy.path_of(key),
        }
    }

    /// The directory of a library of the same wheel: that of the file itself, else one on its run
    /// path, else the first.
    fn own(&self, project: &DistName, elf: ElfMember<'_>, library: &str) -> Option<&'a str> {
        let places = self.libraries.get(library)?.iter();
        let own: Vec<&str> = places.filter(|it| it.0 == project).map(|it| it.1).collect();
        let in_own = |place: &str| own.iter().copied().find(|it| *it == place);
        let mut run_path = elf.facts.run_path().unwrap_or_default().split(':');
        in_own(relpath::split(elf.path).0)
            .or_else(|| run_path.find_map(|entry| in_own(&origin(elf.path, entry)?)))
            .or(own.first().copied())
    }
}
