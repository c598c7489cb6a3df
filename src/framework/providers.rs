//! [`Providers`]: who provides the libraries that the binaries of frameworks need.

use std::collections::BTreeMap;

use derive_more::Display;

use super::{
    policy::{Frameworks, RocmDirectoryKey},
    read::{ElfMember, FrameworkWheel},
    rocm::RocmLibraries,
    tags::Manylinux,
};
use rocwheel_base::relpath;
use rocwheel_elf::{
    ElfKind,
    loader::{SystemLibraries, origin},
};
use rocwheel_wheel::DistName;

/// Who provides a library, and in which directory below `site-packages`.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord)]
pub enum LibraryProvider {
    /// The wheel that needs it, in this directory.
    #[display("own")]
    Own(String),
    /// Another wheel that was named with this one.
    #[display("{wheel}")]
    Group { wheel: DistName, directory: String },
    #[display("ROCm ({_0})")]
    Rocm(RocmDirectoryKey),
    /// A framework that was not named: policy knows its libraries.
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
    /// The libraries of the frameworks by file name, which several frameworks may share.
    libraries: BTreeMap<&'a str, Vec<FrameworkLibrary<'a>>>,
    /// Further libraries that hosts are said to have.
    host: &'a [String],
}

/// Which project has a library, and in which directory below `site-packages`.
#[derive(Clone, Copy, Debug)]
struct FrameworkLibrary<'a> {
    project: &'a DistName,
    directory: &'a str,
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
                    let library = FrameworkLibrary { project: &wheel.name.name, directory };
                    libraries.entry(name).or_default().push(library);
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
        needed.map(move |name| (name, self.provider_of(name, elf, &wheel.name.name)))
    }

    /// Who provides a library to a file of a project. The wheel itself comes first: its own copy is loaded before
    /// any other one.
    fn provider_of(
        &self,
        library: &str,
        elf: ElfMember<'_>,
        project: &DistName,
    ) -> LibraryProvider {
        if let Some(directory) = self.own_directory_of(library, elf, project) {
            return LibraryProvider::Own(directory.to_owned());
        }
        if let Some(other) = self.libraries.get(library).and_then(|libraries| libraries.first()) {
            return LibraryProvider::Group {
                wheel: other.project.clone(),
                directory: other.directory.to_owned(),
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
        let other_version = self.rocm.and_then(|rocm| rocm.of_other_version(library));
        if other_version.is_some() || expected.is_some() {
            return LibraryProvider::OtherRocm(other_version.map(|library| library.name.clone()));
        }
        match self.policy.vendor(library) {
            Some(vendor) => LibraryProvider::Vendor(vendor.to_owned()),
            None => LibraryProvider::Unknown,
        }
    }

    /// Whether a directory below `site-packages` is one of the ROCm packages.
    pub fn is_rocm(&self, directory: &str) -> bool {
        self.policy.directories.iter().any(|known| match self.rocm {
            Some(rocm) => directory == rocm.directory(known.key),
            None => known.is(directory),
        })
    }

    /// Whether a directory below `site-packages` has libraries of another framework.
    pub fn is_neighbour(&self, directory: &str) -> bool {
        let has_library = self.libraries.values().flatten().any(|it| it.directory == directory);
        has_library || self.policy.provides(directory)
    }

    /// Where a directory of the ROCm packages is below `site-packages`.
    pub fn rocm_directory(&self, key: RocmDirectoryKey) -> &str {
        match self.rocm {
            Some(rocm) => rocm.directory(key),
            None => self.policy.path_of(key),
        }
    }

    /// The directory in which the wheel of a file has a library itself. If there are several, it is the
    /// directory of the file, else the first one on its run path, else any.
    fn own_directory_of(
        &self,
        library: &str,
        elf: ElfMember<'_>,
        project: &DistName,
    ) -> Option<&'a str> {
        let directories: Vec<&str> = self
            .libraries
            .get(library)?
            .iter()
            .filter(|it| it.project == project)
            .map(|it| it.directory)
            .collect();
        let known = |wanted: &str| directories.iter().copied().find(|it| *it == wanted);
        let mut run_path = elf.facts.run_path().unwrap_or_default().split(':');
        known(relpath::split(elf.path).0)
            .or_else(|| run_path.find_map(|entry| known(&origin(elf.path, entry)?)))
            .or(directories.first().copied())
    }
}
