//! Simulates the dynamic loader of a Linux host
//! ([ld.so(8)](https://man7.org/linux/man-pages/man8/ld.so.8.html)) for installed packages: where
//! each file is ([`InstalledTree`]), what `$ORIGIN` is for it, and which library is found under a
//! name ([`missing_libraries`]). It uses paths and [`ElfFacts`] only, and does not depend on wheels.
//!
//! The `DT_RUNPATH` of a file disables its `DT_RPATH`, and applies to its own needs only;
//! `DT_RPATH` also applies to the needs of the libraries that it loads. `LD_LIBRARY_PATH` and
//! `ld.so.cache` are ignored, because a package cannot rely on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::successors,
    str::FromStr,
    sync::LazyLock,
};

use derive_more::Display;
use itertools::Itertools as _;
use serde::Deserialize;

use crate::{ElfFacts, ElfKind, Machine};
use rocwheel_base::{
    error::{Invalid, as_text},
    relpath::{join, links},
};

/// The files below one directory, such as `site-packages`. Paths are relative to it.
#[derive(Debug, Default)]
pub struct InstalledTree<'a> {
    files: BTreeMap<String, InstalledFile<'a>>,
    /// The package and the text of each symlink.
    links: BTreeMap<String, (&'a str, &'a str)>,
    directories: BTreeSet<String>,
}

/// A file of an [`InstalledTree`].
#[derive(Clone, Copy, Debug)]
pub struct InstalledFile<'a> {
    /// The package that contains it.
    pub package: &'a str,
    /// What is known of its bytes.
    pub contents: FileContents<'a>,
    /// Whether this is a second path of a file that another package contains.
    pub is_second_name: bool,
}

/// What the dynamic loader finds in a file.
#[derive(Clone, Copy, Debug)]
pub enum FileContents<'a> {
    /// A library or a program.
    Elf(&'a ElfFacts),
    /// Not an ELF file.
    Other,
    /// A damaged ELF file. The loader fails here, so what it needs is not searched.
    Unknown,
}

impl<'a> InstalledFile<'a> {
    /// The facts of an ELF file; `None` for any other file, and for a damaged one.
    pub fn elf(&self) -> Option<&'a ElfFacts> {
        match self.contents {
            FileContents::Elf(facts) => Some(facts),
            FileContents::Other | FileContents::Unknown => None,
        }
    }

    fn also_of(&self, package: &'a str) -> Self {
        Self { package, is_second_name: true, ..*self }
    }
}

impl<'a> InstalledTree<'a> {
    /// Adds a file at its path in the tree, such as `_rocm_sdk_core/lib/libamdhip64.so.7`. The
    /// directories above it need not be added.
    pub fn add_file(&mut self, path: &str, package: &'a str, contents: FileContents<'a>) {
        let file = InstalledFile { package, contents, is_second_name: false };
        self.insert(path, file);
    }

    /// Adds a directory that need not have files. A run path may lead through it:
    /// `lib/llvm/../librocm.so`.
    pub fn add_directory(&mut self, path: &str) {
        self.directories.insert(path.to_owned());
    }

    /// Adds a symlink of the development files. Call this after adding the files that it may point
    /// to.
    ///
    /// Unpacking replaces a symlink to a file of another package by a second path of that file, and
    /// keeps other symlinks.
    pub fn add_link(&mut self, path: &str, text: &'a str, package: &'a str) {
        let is_outside = |place: &String| place.split('/').next() != path.split('/').next();
        let place = join(path, text).filter(is_outside);
        match place.and_then(|place| self.files.get(&place).copied()) {
            Some(file) => self.insert(path, file.also_of(package)),
            None => _ = self.links.insert(path.to_owned(), (package, text)),
        }
    }

    /// Adds each library a second time under every symlink to it. Call this after adding all
    /// symlinks.
    ///
    /// A library can be opened through a symlink, and then `$ORIGIN` is the directory of the
    /// symlink. For a program `$ORIGIN` is always the directory of the file itself, so programs are
    /// left out.
    pub fn add_libraries_behind_links(&mut self) {
        let links = self.links.iter();
        let libraries = links.filter_map(|(path, (package, _))| {
            let file = self.files.get(&self.real(path)?)?;
            let is_library = file.elf()?.kind == ElfKind::SharedObject;
            is_library.then(|| (path.clone(), file.also_of(package)))
        });
        for (path, library) in libraries.collect::<Vec<_>>() {
            self.insert(&path, library);
        }
    }

    /// All files by their paths, also those that replaced a symlink.
    pub fn files(&self) -> impl Iterator<Item = (&str, &InstalledFile<'a>)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// The file at a path, after resolving symlinks.
    pub fn file(&self, path: &str) -> Option<&InstalledFile<'a>> {
        let file = self.files.get(path);
        file.or_else(|| self.files.get(&self.real(path)?))
    }

    /// Whether a path is a file or a directory, after resolving symlinks.
    pub fn has(&self, path: &str) -> bool {
        let is_there =
            |path: &str| self.files.contains_key(path) || self.directories.contains(path);
        is_there(path) || self.real(path).is_some_and(|path| is_there(&path))
    }

    /// Resolves all symlinks of a path. `None` if it leaves the tree or is a cycle.
    pub fn real(&self, path: &str) -> Option<String> {
        links::real(path, |path| self.links.get(path).map(|(_, text)| *text))
    }

    fn insert(&mut self, path: &str, file: InstalledFile<'a>) {
        for (at, _) in path.match_indices('/') {
            self.add_directory(path.get(..at).unwrap_or_default());
        }
        self.files.insert(path.to_owned(), file);
    }
}

/// A library that is not found if the file that needs it is loaded by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLibrary {
    /// The path of the file that needs it.
    pub path: String,
    /// The name in its `DT_NEEDED`.
    pub name: String,
    /// The library is found if another file loads this one: it is loaded already, or the
    /// `DT_RPATH` of the other file leads to it.
    pub is_found_with_others: bool,
}

/// File paths with the names that they need.
type Needs = BTreeSet<(String, String)>;

/// Loads each host file by itself, like `dlopen` or a command would. Returns every library that is
/// not found, sorted.
pub fn missing_libraries(tree: &InstalledTree<'_>) -> Vec<MissingLibrary> {
    let mut missing = Needs::new();
    let mut found_with_others = Needs::new();
    for (path, file) in tree.files() {
        if let Some(elf) = file.elf().filter(|elf| is_loadable(elf)) {
            load(tree, path, elf, &mut missing, &mut found_with_others);
        }
    }
    let libraries = missing.into_iter().map(|need| MissingLibrary {
        is_found_with_others: found_with_others.contains(&need),
        path: need.0,
        name: need.1,
    });
    libraries.collect()
}

fn load(
    tree: &InstalledTree<'_>,
    root: &str,
    elf: &ElfFacts,
    missing: &mut Needs,
    found_with_others: &mut Needs,
) {
    let mut loaded = vec![Loaded { path: root.to_owned(), elf, loader: None }];
    let mut names: BTreeSet<&str> = elf.soname.as_deref().into_iter().collect();
    // The loader loads breadth-first, and searches a name only once: a library that is loaded
    // already satisfies every file that needs its name or SONAME.
    let mut at = 0;
    while let Some(requester) = loaded.get(at).cloned() {
        let path = &requester.path;
        for name in &requester.elf.needed {
            let need = (path.clone(), name.clone());
            let place = if names.contains(name.as_str()) {
                None
            } else if let Some(place) = find(tree, &loaded, &requester, name) {
                Some(place)
            } else {
                if path == root && !SystemLibraries::builtin().has(name) {
                    missing.insert(need);
                }
                continue;
            };
            if path != root {
                found_with_others.insert(need);
            }
            names.insert(name);
            if let Some((path, Some(elf))) = place {
                names.extend(elf.soname.as_deref());
                loaded.push(Loaded { path, elf, loader: Some(at) });
            }
        }
        at += 1;
    }
}

#[derive(Clone)]
struct Loaded<'a> {
    path: String,
    elf: &'a ElfFacts,
    /// The index of the file for which this one was loaded first.
    loader: Option<usize>,
}

/// Whether the dynamic loader of the host can load the file: a program or library for x86-64.
pub fn is_loadable(elf: &ElfFacts) -> bool {
    elf.machine == Machine::X86_64 && elf.kind != ElfKind::Other
}

fn find<'a>(
    tree: &InstalledTree<'a>,
    loaded: &[Loaded<'a>],
    requester: &Loaded<'a>,
    name: &str,
) -> Option<(String, Option<&'a ElfFacts>)> {
    directories(loaded, requester).find_map(|directory| {
        let parts = [directory.as_str(), name];
        let place = parts.iter().filter(|part| !part.is_empty()).join("/");
        match tree.file(&place)?.contents {
            // The loader ignores files for other machines and continues the search.
            FileContents::Elf(elf) => is_loadable(elf).then_some((place, Some(elf))),
            FileContents::Other => None,
            FileContents::Unknown => Some((place, None)),
        }
    })
}

/// The directories that the loader searches, in this order: the `DT_RUNPATH` of the file; without
/// one, its `DT_RPATH` and the `DT_RPATH` of each file which loaded it.
fn directories<'a>(
    loaded: &'a [Loaded<'_>],
    requester: &'a Loaded<'_>,
) -> impl Iterator<Item = String> + 'a {
    let runpath = requester.elf.runpath.as_ref().map(|runpath| (&requester.path, runpath));
    let rpaths = successors(Some(requester), |file| loaded.get(file.loader?))
        .filter(move |it| runpath.is_none() && it.elf.runpath.is_none())
        .filter_map(|it| Some((&it.path, it.elf.rpath.as_ref()?)));
    runpath.into_iter().chain(rpaths).flat_map(|(path, run_path)| expand(path, run_path))
}

/// The directories of a run path that are in the tree, with `$ORIGIN` replaced. Other entries are
/// ignored, because the directories of a host are unknown.
fn expand(file: &str, run_path: &str) -> Vec<String> {
    let entries = run_path.split(':');
    entries.filter_map(|entry| origin(file, entry)).collect()
}

/// The directory that an entry of the run path of a file names, if it begins with `$ORIGIN`. `None`
/// if it does not, or leaves the tree.
pub fn origin(file: &str, entry: &str) -> Option<String> {
    let rest = entry.strip_prefix("$ORIGIN").or_else(|| entry.strip_prefix("${ORIGIN}"))?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return None;
    }
    join(file, rest.strip_prefix('/').unwrap_or(rest))
}

static BUILTIN: LazyLock<SystemLibraries> = LazyLock::new(|| {
    toml::from_str(include_str!("loader/system_libraries.toml"))
        .expect("a test reads the built-in list")
});

/// The libraries that every Linux host provides.
#[derive(Debug, Deserialize)]
pub struct SystemLibraries {
    library: Vec<LibraryNames>,
    /// The newest symbol version of each kind that every host has: `glibcxx` → 3.4.25.
    pub newest: BTreeMap<String, Dotted>,
}

/// The libraries of one provider. A `*` in a name stands for any text.
#[derive(Debug, Deserialize)]
struct LibraryNames {
    names: Vec<String>,
}

impl SystemLibraries {
    /// The table of this crate, `system_libraries.toml`: the libraries of glibc, of the runtime of GCC, of the
    /// graphics stack and of Python.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Whether every host has a library with this name.
    pub fn has(&self, name: &str) -> bool {
        let mut names = self.library.iter().flat_map(|it| &it.names);
        names.any(|known| match known.split_once('*') {
            None => known == name,
            Some((start, end)) => {
                let middle = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
                middle.is_some_and(|middle| !middle.is_empty())
            }
        })
    }
}

/// A version of dotted numbers: `2.28`. `2.28` is less than `2.28.1`.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord)]
#[display("{}", _0.iter().join("."))]
pub struct Dotted(Vec<u32>);

impl FromStr for Dotted {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        // `u32::from_str` accepts a sign: `+2`. Versions have none.
        let number = |it: &str| it.parse().ok().filter(|_| !it.starts_with('+'));
        let numbers: Option<Vec<u32>> = text.split('.').map(number).collect();
        numbers
            .map(Self)
            .ok_or_else(|| Invalid::new("not a version of numbers such as `2.28`", text))
    }
}

as_text!(Dotted);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_as_far_as_they_lead() {
        let mut tree = InstalledTree::default();
        tree.add_file("core/lib/llvm/bin/clang", "a.whl", FileContents::Other);
        tree.add_link("devel/bin/clang", "../../core/lib/llvm/bin/clang", "b.whl");
        tree.add_link("devel/llvm", "../core/lib/llvm", "b.whl");
        tree.add_link("devel/a", "b", "b.whl");
        tree.add_link("devel/b", "a", "b.whl");
        tree.add_link("devel/etc", "/etc", "b.whl");
        assert!(tree.file("devel/bin/clang").unwrap().is_second_name);
        assert!(tree.file("devel/llvm/bin/clang").is_some());
        assert!(tree.has("devel/llvm/bin") && tree.has("core/lib"));
        for path in ["devel/a", "devel/etc/passwd", "devel/llvm/../../../..", "x"] {
            assert!(!tree.has(path), "{path}");
        }
    }

    #[test]
    fn a_way_out_of_the_tree_leads_nowhere() {
        assert_eq!(join("a/b", "../c"), Some("c".to_owned()));
        assert_eq!(join("a/b", "../../c"), None);
        assert_eq!(join("a/b", "/c"), None);
    }

    #[test]
    fn the_built_in_list_is_read() {
        let host = SystemLibraries::builtin();
        assert!(host.has("libc.so.6") && host.has("libpython3.12.so.1.0"));
        assert!(!host.has("libpython3.so.1.0") && !host.has("libamdhip64.so.7"));
        assert_eq!(host.newest["glibc"].to_string(), "2.28");
    }

    #[test]
    fn versions_compare_by_number() {
        let version = |text: &str| text.parse::<Dotted>().unwrap();
        assert!(version("2.9") < version("2.28"));
        assert!(version("2.28") < version("2.28.1"));
        assert_eq!(version("3.4.25").to_string(), "3.4.25");
    }

    #[test]
    fn anything_else_is_refused_in_words() {
        for text in ["", "2.", "+2.28", "2.x", "99999999999"] {
            assert!(text.parse::<Dotted>().is_err(), "{text}");
        }
        let error = "2.x".parse::<Dotted>().unwrap_err();
        insta::assert_snapshot!(error, @r#"not a version of numbers such as `2.28`: "2.x""#);
    }
}
