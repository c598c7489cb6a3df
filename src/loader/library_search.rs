//! Searches libraries like the dynamic loader of glibc
//! ([ld.so(8)](https://man7.org/linux/man-pages/man8/ld.so.8.html)) in an [`InstalledTree`].
//!
//! The `DT_RUNPATH` of a file disables its `DT_RPATH`, and applies to its own needs only;
//! `DT_RPATH` also applies to the needs of the libraries that it loads. `LD_LIBRARY_PATH` and
//! `ld.so.cache` are ignored, because a package cannot rely on them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    elf::{self, ElfKind, Machine},
    loader::{FileContents, InstalledTree, SystemLibraries, join},
};

/// The result of every library search, over all ways to load the files of a set.
#[derive(Debug, Default)]
pub struct LibrarySearches {
    /// By the path of the file and the name (`DT_NEEDED`) that it needs.
    outcomes: BTreeMap<(String, String), SearchOutcome>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchOutcome {
    /// The library is not found if the file is loaded by itself.
    pub is_missing: bool,
    /// The library is found if another file loads this one: it is loaded already, or the
    /// `DT_RPATH` of the other file leads to it.
    pub is_found_with_others: bool,
}

impl LibrarySearches {
    /// Loads each host file by itself, like `dlopen` or a command would.
    pub fn of(tree: &InstalledTree<'_>) -> Self {
        let mut searches = Self::default();
        for (path, file) in tree.files() {
            if let Some(elf) = file.elf().filter(|elf| is_loadable(elf)) {
                searches.load(tree, path, elf);
            }
        }
        searches
    }

    /// Every library that is not found if its file is loaded by itself: path, name and result.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str, SearchOutcome)> {
        let missing = self
            .outcomes
            .iter()
            .filter(|(_, outcome)| outcome.is_missing);
        missing.map(|((path, name), outcome)| (path.as_str(), name.as_str(), *outcome))
    }

    fn load(&mut self, tree: &InstalledTree<'_>, root: &str, elf: &elf::ElfFacts) {
        let mut loaded = vec![Loaded {
            path: root.to_owned(),
            elf,
            loader: None,
        }];
        let mut names: BTreeSet<&str> = elf.soname.as_deref().into_iter().collect();
        // The loader loads breadth-first, and searches a name only once: a library that is loaded
        // already satisfies every file that needs its name or SONAME.
        let mut at = 0;
        while let Some(requester) = loaded.get(at) {
            let (path, elf) = (requester.path.clone(), requester.elf);
            for name in &elf.needed {
                if names.contains(name.as_str()) {
                    self.found(&path, name, root);
                    continue;
                }
                if let Some((place, library)) = find(tree, &loaded, at, name) {
                    self.found(&path, name, root);
                    names.insert(name);
                    let Some(library) = library else { continue };
                    names.extend(library.soname.as_deref());
                    loaded.push(Loaded {
                        path: place,
                        elf: library,
                        loader: Some(at),
                    });
                } else if !SystemLibraries::builtin().has(name) && path == root {
                    let outcome = self
                        .outcomes
                        .entry((path.clone(), name.clone()))
                        .or_default();
                    outcome.is_missing = true;
                }
            }
            at = at.saturating_add(1);
        }
    }

    fn found(&mut self, path: &str, name: &str, root: &str) {
        if path != root {
            let outcome = self.outcomes.entry((path.to_owned(), name.to_owned()));
            outcome.or_default().is_found_with_others = true;
        }
    }
}

struct Loaded<'a> {
    path: String,
    elf: &'a elf::ElfFacts,
    /// The index of the file for which this one was loaded first.
    loader: Option<usize>,
}

/// Whether the dynamic loader of the host can load the file: a program or library for x86-64.
pub fn is_loadable(elf: &elf::ElfFacts) -> bool {
    elf.machine == Machine::X86_64 && elf.kind != ElfKind::Other
}

fn find<'a>(
    tree: &InstalledTree<'a>,
    loaded: &[Loaded<'a>],
    requester: usize,
    name: &str,
) -> Option<(String, Option<&'a elf::ElfFacts>)> {
    directories(loaded, requester)
        .into_iter()
        .find_map(|directory| {
            let place = if directory.is_empty() {
                name.to_owned()
            } else {
                format!("{directory}/{name}")
            };
            match tree.file(&place)?.contents {
                // The loader ignores files for other machines and continues the search.
                FileContents::Elf(elf) => is_loadable(elf).then_some((place, Some(elf))),
                FileContents::Other => None,
                FileContents::Unknown => Some((place, None)),
            }
        })
}

/// The directories that the loader searches, in this order: the `DT_RUNPATH` of the file; without
/// one, its `DT_RPATH` and that of the files which loaded it.
fn directories(loaded: &[Loaded<'_>], requester: usize) -> Vec<String> {
    let Some(own) = loaded.get(requester) else {
        return Vec::new();
    };
    if let Some(runpath) = &own.elf.runpath {
        return expand(&own.path, runpath);
    }
    let mut found = Vec::new();
    let mut next = Some(own);
    while let Some(file) = next {
        if let (Some(rpath), None) = (&file.elf.rpath, &file.elf.runpath) {
            found.extend(expand(&file.path, rpath));
        }
        next = file.loader.and_then(|loader| loaded.get(loader));
    }
    found
}

/// The directories of a run path that are in the tree, with `$ORIGIN` replaced. Other entries are
/// ignored, because the directories of a host are unknown.
fn expand(file: &str, run_path: &str) -> Vec<String> {
    let entries = run_path.split(':');
    let relative = entries.filter_map(|entry| {
        let rest = entry
            .strip_prefix("$ORIGIN")
            .or_else(|| entry.strip_prefix("${ORIGIN}"))?;
        join(file, rest.strip_prefix('/').unwrap_or(rest))
    });
    relative.collect()
}
