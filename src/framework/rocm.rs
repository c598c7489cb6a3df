//! [`RocmLibraries`]: the libraries that the packages of a set bring, where they are installed, and
//! the short names by which `rocm_sdk` loads them.

use std::collections::{BTreeMap, BTreeSet};

use super::policy::{Frameworks, RocmDirectoryKey};
use crate::{
    check::SetFacts,
    elf::{ElfFacts, ElfKind},
    error::{Context as _, Hint as _, Result},
    glob::Glob,
    loader::is_loadable,
    package::{DistNames, catalog::CATALOG},
    relpath,
    run::Platform,
    target::Target,
    version::Version,
};

/// What frameworks find in an installed set.
#[derive(Clone, Debug)]
pub struct RocmLibraries {
    pub version: Version,
    /// What the packages of the set are called.
    pub names: DistNames,
    /// By file name, which is the SONAME.
    libraries: BTreeMap<String, RocmLibrary>,
    /// Where each directory is in this set, below `site-packages`.
    directories: BTreeMap<RocmDirectoryKey, String>,
    /// The short names of `rocm_sdk` in the order of its table, with the library of each.
    short_names: Vec<(String, Option<String>)>,
    /// The libraries of a set for Windows by their names in lower case: Windows ignores case.
    dlls: BTreeMap<String, RocmDll>,
    /// The targets that have a device wheel.
    pub targets: Vec<Target>,
}

/// A library in one of the directories of the ROCm packages.
#[derive(Clone, Debug)]
pub struct RocmLibrary {
    pub directory: RocmDirectoryKey,
    pub elf: ElfFacts,
}

/// A library of a set for Windows.
#[derive(Clone, Debug)]
struct RocmDll {
    name: String,
    directory: RocmDirectoryKey,
    imports: BTreeSet<String>,
}

impl RocmLibraries {
    /// Takes the libraries from the facts of a set.
    pub fn of(set: &SetFacts, policy: &Frameworks) -> Result<Self> {
        let names = DistNames::built_in();
        let mut packages = set.packages().filter_map(|it| it.identity());
        let version = packages
            .find(|it| [&names.core, &names.selector].contains(&&it.name.to_string()))
            .map(|it| it.version.clone())
            .with_context(|| format!("no `{}` and no `{}` in the set", names.selector, names.core))
            .hint(
                "pass the directory that `rocwheel build` wrote to, or an index of ROCm packages",
            )?;
        let mut this = Self {
            version,
            names: names.clone(),
            libraries: BTreeMap::new(),
            directories: BTreeMap::new(),
            short_names: Vec::new(),
            dlls: BTreeMap::new(),
            targets: set.device_wheels().into_keys().collect(),
        };
        for (_, member, content) in set.contents() {
            let elf = content.elf().map(|it| &it.facts);
            let elf = elf.filter(|it| is_loadable(it) && it.kind == ElfKind::SharedObject);
            if let Some(elf) = elf {
                this.add(&member.path, elf, policy);
            }
            let imports = content.imports.as_ref().and_then(|it| it.as_ref().ok());
            this.add_dll(&member.path, imports.cloned().unwrap_or_default(), policy);
        }
        this.short_names = this.short_names();
        Ok(this)
    }

    fn add(&mut self, path: &str, elf: &ElfFacts, policy: &Frameworks) {
        let (directory, name) = relpath::split(path);
        let mut known = policy.directories.iter();
        let Some(known) = known.find(|it| it.is(directory)) else {
            return;
        };
        self.directories.insert(known.key, directory.to_owned());
        let library = RocmLibrary {
            directory: known.key,
            elf: elf.clone(),
        };
        // Of two libraries of one name, the loader takes the one in the first directory.
        let there = self.libraries.get(name);
        if there.is_none_or(|there| library.directory < there.directory) {
            self.libraries.insert(name.to_owned(), library);
        }
    }

    fn add_dll(&mut self, path: &str, imports: BTreeSet<String>, policy: &Frameworks) {
        let (Some((top, _)), name) = (path.split_once('/'), relpath::split(path).1) else {
            return;
        };
        let lower = name.to_ascii_lowercase();
        // Libraries for Windows are in `bin`, of the same packages.
        let mut keys = [RocmDirectoryKey::Math, RocmDirectoryKey::Core].into_iter();
        let key = keys.find(|key| policy.is_in_package(*key, top));
        if let Some(directory) = key.filter(|_| lower.ends_with(".dll")) {
            let dll = RocmDll {
                name: name.to_owned(),
                directory,
                imports,
            };
            self.dlls.insert(lower, dll);
        }
    }

    /// What the set is for.
    pub(super) fn platform(&self) -> Platform {
        if self.libraries.is_empty() && !self.dlls.is_empty() {
            Platform::Windows
        } else {
            Platform::Linux
        }
    }

    /// The library of a set for Windows with this name.
    pub(super) fn dll(&self, name: &str) -> Option<(&str, RocmDirectoryKey)> {
        let dll = self.dlls.get(&name.to_ascii_lowercase())?;
        Some((&dll.name, dll.directory))
    }

    /// The library of a set for Windows that differs from a name by its version only:
    /// `amdhip64_7.dll` for `amdhip64_6.dll`.
    pub(super) fn dll_of_other_version(&self, name: &str) -> Option<&str> {
        let name = name.to_ascii_lowercase();
        let found = self.dlls.iter();
        let mut found = found.filter(|(it, _)| **it != name && dll_stem(it) == dll_stem(&name));
        found.next().map(|(_, dll)| dll.name.as_str())
    }

    /// The short names of `packages.toml`, with the library of this set that each stands for.
    fn short_names(&self) -> Vec<(String, Option<String>)> {
        let specs = CATALOG.packages().iter().flat_map(|it| &it.libraries);
        let is_windows = self.platform() == Platform::Windows;
        let names = specs.filter_map(|spec| {
            let pattern = if is_windows {
                &spec.windows
            } else {
                &spec.linux
            };
            let glob = Glob::new(&**pattern);
            let found = if is_windows {
                let mut names = self.dlls.values().map(|it| &it.name);
                names.find(|name| glob.matches(name))
            } else {
                let place = format!("/{}", spec.directory);
                let mut there = self.libraries.iter().filter(|(_, library)| {
                    let directory = self.directories.get(&library.directory);
                    directory.is_some_and(|it| it.ends_with(&place))
                });
                there
                    .find(|(name, _)| glob.matches(name))
                    .map(|(name, _)| name)
            };
            (!pattern.is_empty()).then(|| (spec.name.clone(), found.cloned()))
        });
        names.collect()
    }

    pub fn libraries(&self) -> impl Iterator<Item = (&str, &RocmLibrary)> {
        self.libraries
            .iter()
            .map(|(name, library)| (name.as_str(), library))
    }

    pub fn library(&self, name: &str) -> Option<&RocmLibrary> {
        self.libraries.get(name)
    }

    /// Where a directory is below `site-packages`.
    pub fn directory(&self, key: RocmDirectoryKey) -> &str {
        self.directories.get(&key).map_or("", String::as_str)
    }

    /// The library that differs from a name by its version only: `libamd_smi.so.26` for
    /// `libamd_smi.so.27` and for `libamd_smi.so`.
    pub fn of_other_version(&self, name: &str) -> Option<&str> {
        let stem = stem(name)?;
        let mut names = self.libraries.keys();
        names
            .find(|it| self::stem(it) == Some(stem))
            .map(String::as_str)
    }

    /// The short names that load these libraries, in the order of the table. A library without a
    /// short name comes with one that needs it, if there is any.
    pub fn preload<'a>(&'a self, libraries: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut libraries: BTreeSet<_> = libraries.collect();
        libraries.extend(self.elsewhere(&libraries));
        let (mut chosen, mut rest) = (BTreeSet::new(), Vec::new());
        for library in libraries {
            let mut names = self.short_names.iter();
            match names.find(|(_, it)| it.as_deref() == Some(library)) {
                Some((name, _)) => _ = chosen.insert(name.as_str()),
                None => rest.push(library),
            }
        }
        for library in rest {
            let loads = |name: &str| {
                let file = self.of_short_name(name);
                file.is_some_and(|file| self.closure(file).contains(library))
            };
            if !chosen.iter().any(|name| loads(name)) {
                let mut names = self.short_names.iter().map(|(name, _)| name.as_str());
                chosen.extend(names.find(|name| loads(name)));
            }
        }
        let names = self.short_names.iter().map(|(name, _)| name);
        names
            .filter(|name| chosen.contains(name.as_str()))
            .cloned()
            .collect()
    }

    /// The library of a short name. `None` if the table or the set does not have it.
    pub fn of_short_name(&self, name: &str) -> Option<&str> {
        let mut names = self.short_names.iter();
        names.find(|(it, _)| it == name)?.1.as_deref()
    }

    /// The order of short names in the table.
    pub fn in_order(&self, names: &BTreeSet<String>) -> Vec<String> {
        let all = self.short_names.iter().map(|(name, _)| name);
        all.filter(|it| names.contains(*it)).cloned().collect()
    }

    /// The libraries that must be loaded before these: Windows looks for what a DLL imports in the
    /// directory of that DLL, and in no other of the set.
    fn elsewhere<'a>(&'a self, libraries: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let all = libraries.iter().flat_map(|it| self.closure(it));
        let pairs = all.flat_map(|it| self.needed_by(it).map(move |needed| (it, needed)));
        let place = |name: &str| self.dll(name).map(|(_, directory)| directory);
        let apart = pairs.filter(|(one, other)| place(one) != place(other));
        apart.map(|(_, needed)| needed).collect()
    }

    /// A library and all libraries of the set that the loader loads with it.
    pub(super) fn closure<'a>(&'a self, library: &'a str) -> BTreeSet<&'a str> {
        let (mut found, mut left) = (BTreeSet::new(), vec![library]);
        while let Some(name) = left.pop() {
            let is_there = self.libraries.contains_key(name) || self.dll(name).is_some();
            if is_there && found.insert(name) {
                left.extend(self.needed_by(name));
            }
        }
        found
    }

    /// What a library of the set needs; on Windows only what the set has, by the names of its files.
    fn needed_by<'a>(&'a self, library: &str) -> impl Iterator<Item = &'a str> {
        let elf = self.libraries.get(library);
        let dll = self.dlls.get(&library.to_ascii_lowercase());
        let imports = dll.into_iter().flat_map(|it| &it.imports);
        let dlls = imports.filter_map(|it| Some(self.dll(it)?.0));
        let needed = elf.into_iter().flat_map(|it| &it.elf.needed);
        needed.map(String::as_str).chain(dlls)
    }
}

/// The name of a library for Windows without its version: `amdhip64` of `amdhip64_7.dll`.
fn dll_stem(name: &str) -> &str {
    let stem = name.strip_suffix(".dll").unwrap_or(name);
    stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_')
}

/// The name of a library without its version: `libamd_smi` of `libamd_smi.so.26`. Copies that
/// `auditwheel` made have a hash in their names, `libamdhip64-1a2b3c4d.so.7`, which is left out.
pub(super) fn stem(name: &str) -> Option<&str> {
    let (stem, _) = name.split_once(".so")?;
    let plain = stem.rsplit_once('-').filter(|(_, hash)| {
        hash.len() == 8
            && hash
                .bytes()
                .all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
    });
    Some(plain.map_or(stem, |(plain, _)| plain))
}
