//! How the dynamic loader of glibc finds libraries (ld.so(8)), played over an [`InstalledTree`].
//!
//! A file's `DT_RUNPATH` disables its `DT_RPATH`; `DT_RPATH` counts for what its libraries need too.
//! `LD_LIBRARY_PATH` and the cache of the host do not count: nobody promises them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    elf::{self, ElfKind, Machine},
    loader::{FileContents, InstalledTree, SystemLibraries, join},
};

/// What was needed by whom, and how that went over all ways to load the set.
#[derive(Debug, Default)]
pub struct LibrarySearches {
    /// By the path of the file and the name that it needs.
    outcomes: BTreeMap<(String, String), SearchOutcome>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchOutcome {
    /// The file cannot load by itself because of this.
    pub is_missing: bool,
    /// Another file that loads it makes this be found.
    pub is_found_with_others: bool,
}

impl LibrarySearches {
    /// Loads every host file by itself, as `dlopen` or a command would.
    pub fn of(tree: &InstalledTree<'_>) -> Self {
        let mut searches = Self::default();
        for (path, file) in tree.files() {
            if let Some(elf) = file.elf().filter(|elf| is_loadable(elf)) {
                searches.load(tree, path, elf);
            }
        }
        searches
    }

    /// Each need that fails when its file is loaded by itself.
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
    /// The index of the file that needed this one first.
    loader: Option<usize>,
}

/// Whether the loader of a host has anything to do with it.
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
                // The loader passes over files for other machines.
                FileContents::Elf(elf) => is_loadable(elf).then_some((place, Some(elf))),
                FileContents::Other => None,
                FileContents::Unknown => Some((place, None)),
            }
        })
}

/// Where the loader looks, in its order.
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

/// The directories of a run path that lie within the tree.
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
