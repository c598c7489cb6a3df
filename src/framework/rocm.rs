//! [`RocmLibraries`]: the libraries that the packages of a set bring, where they are installed, and
//! the short names by which `rocm_sdk` loads them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::policy::{Frameworks, RocmDirectoryKey};
use crate::{
    check::SetFacts,
    policy::{DistNames, catalog::CATALOG},
    run::Platform,
};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result},
    glob::Glob,
    relpath,
    target::Target,
    version::Version,
};
use rocwheel_elf::{ElfFacts, ElfKind, loader::is_loadable};

/// What frameworks find in an installed set.
#[derive(Clone, Debug)]
pub struct RocmLibraries {
    pub version: Version,
    /// What the packages of the set are called.
    pub names: DistNames,
    pub platform: Platform,
    /// By file name, which is the SONAME; for Windows, which ignores case, by the name in lower case.
    libraries: BTreeMap<String, RocmLibrary>,
    /// The path of each directory in this set, below `site-packages`.
    directories: BTreeMap<RocmDirectoryKey, String>,
    /// The short names of `rocm_sdk` in the order of its table.
    short_names: Vec<ShortName>,
    /// The targets that have a device wheel.
    pub targets: Vec<Target>,
}

/// A name by which `rocm_sdk` loads a library: `hipblas`.
#[derive(Clone, Debug)]
struct ShortName {
    name: String,
    /// The library of this set, if the set has it.
    library: Option<String>,
}

/// A library in one of the directories of the ROCm packages.
#[derive(Clone, Debug)]
pub struct RocmLibrary {
    pub name: String,
    pub directory: RocmDirectoryKey,
    /// The names of the libraries that it needs.
    needed: Vec<String>,
    /// `None` for Windows.
    pub elf: Option<ElfFacts>,
}

impl RocmLibraries {
    /// Takes the libraries from the facts of a set.
    pub fn of(set: &SetFacts, policy: &Frameworks) -> Result<Self> {
        let names = DistNames::built_in();
        let version = set
            .packages()
            .filter_map(|package| package.filename())
            .find(|it| [&names.core, &names.selector].contains(&&it.name.to_string()))
            .map(|identity| identity.version.clone())
            .with_context(|| format!("no `{}` and no `{}` in the set", names.selector, names.core))
            .hint(
                "pass the directory that `rocwheel build` wrote to, or an index of ROCm packages",
            )?;
        let mut rocm = Self {
            version,
            names: names.clone(),
            platform: Platform::Linux,
            libraries: BTreeMap::new(),
            directories: BTreeMap::new(),
            short_names: Vec::new(),
            targets: set.device_wheels().into_keys().collect(),
        };
        let mut dlls = BTreeMap::new();
        for (_, member, content) in set.contents() {
            if let Some(elf) = content.elf().map(|elf| &elf.facts)
                && is_loadable(elf)
                && elf.kind == ElfKind::SharedObject
            {
                rocm.add_library(&member.path, elf, policy);
            }
            let imports = content.imports.as_ref().and_then(|imports| imports.as_ref().ok());
            dlls.extend(windows_library(&member.path, imports, policy));
        }
        // A set is for Windows if it has DLLs and no ELF library.
        if rocm.libraries.is_empty() && !dlls.is_empty() {
            rocm.platform = Platform::Windows;
            rocm.libraries = dlls;
        }
        rocm.short_names = rocm.read_short_names();
        Ok(rocm)
    }

    fn add_library(&mut self, path: &str, elf: &ElfFacts, policy: &Frameworks) {
        let (directory, name) = relpath::split(path);
        let Some(known) = policy.directories.iter().find(|known| known.is(directory)) else {
            return;
        };
        self.directories.insert(known.key, directory.to_owned());
        // If two directories have a library of this name, the loader takes it from the first one.
        let same_name = self.libraries.get(name);
        if same_name.is_none_or(|library| known.key < library.directory) {
            let library = RocmLibrary {
                name: name.to_owned(),
                directory: known.key,
                needed: elf.needed.clone(),
                elf: Some(elf.clone()),
            };
            self.libraries.insert(name.to_owned(), library);
        }
    }

    /// The key of a library in `libraries`.
    fn key<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match self.platform {
            Platform::Linux => name.into(),
            Platform::Windows => name.to_ascii_lowercase().into(),
        }
    }

    /// The short names of `packages.toml` that are for the platform, with the libraries of this set that they
    /// stand for.
    fn read_short_names(&self) -> Vec<ShortName> {
        let mut short_names = Vec::new();
        for spec in CATALOG.packages().iter().flat_map(|package| &package.libraries) {
            let (pattern, directory) = match self.platform {
                Platform::Linux => (&spec.linux, format!("/{}", spec.directory)),
                // All libraries are in the one directory `bin`.
                Platform::Windows => (&spec.windows, String::new()),
            };
            if pattern.is_empty() {
                continue;
            }
            let glob = Glob::new(&**pattern);
            let is_meant = |library: &&RocmLibrary| {
                self.directory(library.directory).ends_with(&directory)
                    && glob.matches(&library.name)
            };
            let library = self.libraries.values().find(is_meant);
            short_names.push(ShortName {
                name: spec.name.clone(),
                library: library.map(|library| library.name.clone()),
            });
        }
        short_names
    }

    pub fn libraries(&self) -> impl Iterator<Item = &RocmLibrary> {
        self.libraries.values()
    }

    pub fn library(&self, name: &str) -> Option<&RocmLibrary> {
        self.libraries.get(&*self.key(name))
    }

    /// The path of a directory below `site-packages`. Empty if the set does not have it.
    pub fn directory(&self, key: RocmDirectoryKey) -> &str {
        self.directories.get(&key).map_or("", String::as_str)
    }

    /// The library that differs from a name by its version only: `libamd_smi.so.26` for
    /// `libamd_smi.so.27` and for `libamd_smi.so`, `amdhip64_7.dll` for `amdhip64_6.dll`.
    pub fn of_other_version(&self, name: &str) -> Option<&RocmLibrary> {
        let key = self.key(name);
        let wanted = stem(&key)?;
        let has_stem = |(key, _): &(&String, &RocmLibrary)| stem(key) == Some(wanted);
        self.libraries.iter().find(has_stem).map(|(_, library)| library)
    }

    /// The short names that load these libraries, in the order of the table. A library without a short name
    /// is loaded by the short name of a library that needs it, if there is any.
    pub fn preload<'a>(&'a self, libraries: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut with_needed: BTreeSet<&str> = libraries.collect();
        with_needed.extend(self.needed_from_other_directories(&with_needed));
        let mut chosen = BTreeSet::new();
        let mut without_short_name = Vec::new();
        for library in with_needed {
            match self.short_names.iter().find(|it| it.library.as_deref() == Some(library)) {
                Some(short_name) => _ = chosen.insert(short_name.name.clone()),
                None => without_short_name.push(library),
            }
        }
        for library in without_short_name {
            let loads = |short_name: &str| {
                let loaded = self.of_short_name(short_name);
                loaded.is_some_and(|loaded| self.closure(loaded).contains(library))
            };
            if !chosen.iter().any(|name| loads(name)) {
                let short_name = self.short_names.iter().find(|it| loads(&it.name));
                chosen.extend(short_name.map(|it| it.name.clone()));
            }
        }
        self.in_order(&chosen)
    }

    /// The library of a short name. `None` if the table or the set does not have it.
    pub fn of_short_name(&self, name: &str) -> Option<&str> {
        self.short_names.iter().find(|it| it.name == name)?.library.as_deref()
    }

    /// These short names in the order of the table, which `rocm_sdk` loads them in. A name that the table does
    /// not have is left out.
    pub fn in_order(&self, names: &BTreeSet<String>) -> Vec<String> {
        let in_table = self.short_names.iter().map(|it| &it.name);
        in_table.filter(|name| names.contains(*name)).cloned().collect()
    }

    /// The libraries that must be loaded before these: Windows looks for what a DLL imports in the
    /// directory of that DLL, and in no other directory of the set. Empty for Linux, where run paths lead to
    /// the other directories.
    fn needed_from_other_directories<'a>(
        &'a self,
        libraries: &BTreeSet<&'a str>,
    ) -> BTreeSet<&'a str> {
        let mut elsewhere = BTreeSet::new();
        if self.platform != Platform::Windows {
            return elsewhere;
        }
        let directory_of = |name: &str| self.library(name).map(|library| library.directory);
        for library in libraries.iter().flat_map(|library| self.closure(library)) {
            for needed in self.needed_by(library) {
                if directory_of(needed) != directory_of(library) {
                    elsewhere.insert(needed);
                }
            }
        }
        elsewhere
    }

    /// A library and all libraries of the set that the loader loads with it.
    pub(super) fn closure<'a>(&'a self, library: &'a str) -> BTreeSet<&'a str> {
        let mut loaded = BTreeSet::new();
        let mut left = vec![library];
        while let Some(name) = left.pop() {
            if self.library(name).is_some() && loaded.insert(name) {
                left.extend(self.needed_by(name));
            }
        }
        loaded
    }

    /// The libraries of the set that a library of the set needs.
    fn needed_by<'a>(&'a self, library: &str) -> impl Iterator<Item = &'a str> {
        let needed = self.library(library).into_iter().flat_map(|library| &library.needed);
        needed.filter_map(|name| Some(self.library(name)?.name.as_str()))
    }
}

/// A member that is a library for Windows, by its name in lower case. Libraries for Windows are in `bin`, in
/// the same packages as the libraries for Linux.
fn windows_library(
    path: &str,
    imports: Option<&BTreeSet<String>>,
    policy: &Frameworks,
) -> Option<(String, RocmLibrary)> {
    let (top, _) = path.split_once('/')?;
    let name = relpath::split(path).1;
    let lower = name.to_ascii_lowercase();
    lower.strip_suffix(".dll")?;
    let directory = [RocmDirectoryKey::Math, RocmDirectoryKey::Core]
        .into_iter()
        .find(|key| policy.is_in_package(*key, top))?;
    let library = RocmLibrary {
        name: name.to_owned(),
        directory,
        needed: imports.into_iter().flatten().cloned().collect(),
        elf: None,
    };
    Some((lower, library))
}

/// The name of a library without its version: `libamd_smi` for `libamd_smi.so.26`, `amdhip64` for
/// `amdhip64_7.dll`. Copies that `auditwheel` made have a hash in their names,
/// `libamdhip64-1a2b3c4d.so.7`, which is left out.
pub(super) fn stem(name: &str) -> Option<&str> {
    if let Some(stem) = name.strip_suffix(".dll") {
        return Some(stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_'));
    }
    let (stem, _) = name.split_once(".so")?;
    let is_hash = |text: &str| {
        text.len() == 8 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    };
    match stem.rsplit_once('-') {
        Some((plain, hash)) if is_hash(hash) => Some(plain),
        _ => Some(stem),
    }
}

/// The version in the name of a library: `.26` in `libamd_smi.so.26`. Empty if the name has none.
pub(super) fn library_version(name: &str) -> &str {
    name.split_once(".so").map_or("", |(_, version)| version)
}
