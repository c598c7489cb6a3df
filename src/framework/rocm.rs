//! [`RocmLibraries`]: the libraries that the packages of a set bring, where they are installed, and
//! the short names by which `rocm_sdk` loads them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::policy::{Frameworks, RocmDirectoryKey};
use crate::{
    check::SetFacts,
    elf::{ElfFacts, ElfKind},
    error::{Context as _, Hint as _, Result},
    glob::Glob,
    loader::is_loadable,
    policy::{DistNames, catalog::CATALOG},
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
    pub platform: Platform,
    /// By file name, which is the SONAME; for Windows, which ignores case, by that in lower case.
    libraries: BTreeMap<String, RocmLibrary>,
    /// Where each directory is in this set, below `site-packages`.
    directories: BTreeMap<RocmDirectoryKey, String>,
    /// The short names of `rocm_sdk` in the order of its table, with the library of each.
    short_names: Vec<(String, Option<String>)>,
    /// The targets that have a device wheel.
    pub targets: Vec<Target>,
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
            platform: Platform::Linux,
            libraries: BTreeMap::new(),
            directories: BTreeMap::new(),
            short_names: Vec::new(),
            targets: set.device_wheels().into_keys().collect(),
        };
        let mut dlls = BTreeMap::new();
        for (_, member, content) in set.contents() {
            let elf = content.elf().map(|it| &it.facts);
            if let Some(elf) = elf.filter(|it| is_loadable(it) && it.kind == ElfKind::SharedObject)
            {
                this.add(&member.path, elf, policy);
            }
            let imports = content.imports.as_ref().and_then(|it| it.as_ref().ok());
            dlls.extend(dll(&member.path, imports, policy));
        }
        if this.libraries.is_empty() && !dlls.is_empty() {
            (this.platform, this.libraries) = (Platform::Windows, dlls);
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
        // Of two libraries of one name, the loader takes the one in the first directory.
        let there = self.libraries.get(name);
        if there.is_none_or(|there| known.key < there.directory) {
            let library = RocmLibrary {
                name: name.to_owned(),
                directory: known.key,
                needed: elf.needed.clone(),
                elf: Some(elf.clone()),
            };
            self.libraries.insert(name.to_owned(), library);
        }
    }

    /// The name of a library as the set is searched for it.
    fn key<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match self.platform {
            Platform::Linux => name.into(),
            Platform::Windows => name.to_ascii_lowercase().into(),
        }
    }

    /// The short names of `packages.toml`, with the library of this set that each stands for.
    fn short_names(&self) -> Vec<(String, Option<String>)> {
        let specs = CATALOG.packages().iter().flat_map(|it| &it.libraries);
        let names = specs.filter_map(|spec| {
            let (pattern, place) = match self.platform {
                Platform::Linux => (&spec.linux, format!("/{}", spec.directory)),
                Platform::Windows => (&spec.windows, String::new()),
            };
            let glob = Glob::new(&**pattern);
            let mut libraries = self.libraries.values();
            let found = libraries.find(|it| {
                self.directory(it.directory).ends_with(&place) && glob.matches(&it.name)
            });
            let found = found.map(|it| it.name.clone());
            (!pattern.is_empty()).then(|| (spec.name.clone(), found))
        });
        names.collect()
    }

    pub fn libraries(&self) -> impl Iterator<Item = &RocmLibrary> {
        self.libraries.values()
    }

    pub fn library(&self, name: &str) -> Option<&RocmLibrary> {
        self.libraries.get(&*self.key(name))
    }

    /// Where a directory is below `site-packages`.
    pub fn directory(&self, key: RocmDirectoryKey) -> &str {
        self.directories.get(&key).map_or("", String::as_str)
    }

    /// The library that differs from a name by its version only: `libamd_smi.so.26` for
    /// `libamd_smi.so.27` and for `libamd_smi.so`, `amdhip64_7.dll` for `amdhip64_6.dll`.
    pub fn of_other_version(&self, name: &str) -> Option<&RocmLibrary> {
        let name = self.key(name);
        let stem = stem(&name)?;
        let mut libraries = self.libraries.iter();
        let found = libraries.find(|(it, _)| self::stem(it) == Some(stem));
        found.map(|(_, library)| library)
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
                Some((name, _)) => _ = chosen.insert(name.clone()),
                None => rest.push(library),
            }
        }
        for library in rest {
            let loads = |name: &str| {
                let file = self.of_short_name(name);
                file.is_some_and(|file| self.closure(file).contains(library))
            };
            if !chosen.iter().any(|name| loads(name)) {
                let mut names = self.short_names.iter().map(|(name, _)| name);
                chosen.extend(names.find(|name| loads(name)).cloned());
            }
        }
        self.in_order(&chosen)
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
        let place = |name: &str| self.library(name).map(|it| it.directory);
        let all = libraries.iter().flat_map(|it| self.closure(it));
        let pairs = all.flat_map(|it| self.needed_by(it).map(move |needed| (it, needed)));
        pairs
            .filter(|(one, other)| self.platform == Platform::Windows && place(one) != place(other))
            .map(|(_, needed)| needed)
            .collect()
    }

    /// A library and all libraries of the set that the loader loads with it.
    pub(super) fn closure<'a>(&'a self, library: &'a str) -> BTreeSet<&'a str> {
        let (mut found, mut left) = (BTreeSet::new(), vec![library]);
        while let Some(name) = left.pop() {
            if self.library(name).is_some() && found.insert(name) {
                left.extend(self.needed_by(name));
            }
        }
        found
    }

    /// What a library of the set needs of the set.
    fn needed_by<'a>(&'a self, library: &str) -> impl Iterator<Item = &'a str> {
        let needed = self.library(library).into_iter().flat_map(|it| &it.needed);
        needed.filter_map(|name| Some(self.library(name)?.name.as_str()))
    }
}

/// A member that is a library for Windows, by its name in lower case. Libraries for Windows are in `bin`, of
/// the same packages as those for Linux.
fn dll(
    path: &str,
    imports: Option<&BTreeSet<String>>,
    policy: &Frameworks,
) -> Option<(String, RocmLibrary)> {
    let ((top, _), name) = (path.split_once('/')?, relpath::split(path).1);
    let lower = name.to_ascii_lowercase();
    let mut keys = [RocmDirectoryKey::Math, RocmDirectoryKey::Core].into_iter();
    let directory = keys.find(|key| policy.is_in_package(*key, top))?;
    lower.strip_suffix(".dll").is_some().then(|| {
        let library = RocmLibrary {
            name: name.to_owned(),
            directory,
            needed: imports.into_iter().flatten().cloned().collect(),
            elf: None,
        };
        (lower, library)
    })
}

/// The name of a library without its version: `libamd_smi` of `libamd_smi.so.26`, `amdhip64` of
/// `amdhip64_7.dll`. Copies that `auditwheel` made have a hash in their names,
/// `libamdhip64-1a2b3c4d.so.7`, which is left out.
pub(super) fn stem(name: &str) -> Option<&str> {
    if let Some(stem) = name.strip_suffix(".dll") {
        return Some(stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_'));
    }
    let (stem, _) = name.split_once(".so")?;
    let plain = stem.rsplit_once('-').filter(|(_, hash)| {
        let is_hex = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
        hash.len() == 8 && hash.bytes().all(is_hex)
    });
    Some(plain.map_or(stem, |(plain, _)| plain))
}
