//! Searches libraries like the dynamic loader of glibc
//! ([ld.so(8)](https://man7.org/linux/man-pages/man8/ld.so.8.html)) in an [`InstalledTree`].
//!
//! The `DT_RUNPATH` of a file disables its `DT_RPATH`, and applies to its own needs only;
//! `DT_RPATH` also applies to the needs of the libraries that it loads. `LD_LIBRARY_PATH` and
//! `ld.so.cache` are ignored, because a package cannot rely on them.

use std::{collections::BTreeSet, iter::successors};

use itertools::Itertools as _;

use crate::{
    elf::{ElfFacts, ElfKind, Machine},
    loader::{FileContents, InstalledTree, SystemLibraries, join},
};

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
    let (mut missing, mut found_with_others) = (Needs::new(), Needs::new());
    for (path, file) in tree.files() {
        if let Some(elf) = file.elf().filter(|elf| is_loadable(elf)) {
            load(tree, path, elf, &mut missing, &mut found_with_others);
        }
    }
    let missing = missing.into_iter().map(|need| MissingLibrary {
        is_found_with_others: found_with_others.contains(&need),
        path: need.0,
        name: need.1,
    });
    missing.collect()
}

fn load(
    tree: &InstalledTree<'_>,
    root: &str,
    elf: &ElfFacts,
    missing: &mut Needs,
    found_with_others: &mut Needs,
) {
    let mut loaded = vec![Loaded {
        path: root.to_owned(),
        elf,
        loader: None,
    }];
    let mut names: BTreeSet<&str> = elf.soname.as_deref().into_iter().collect();
    // The loader loads breadth-first, and searches a name only once: a library that is loaded
    // already satisfies every file that needs its name or SONAME.
    let mut at = 0;
    while let Some(requester) = loaded.get(at).cloned() {
        let (path, elf) = (&requester.path, requester.elf);
        for name in &elf.needed {
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
                loaded.push(Loaded {
                    path,
                    elf,
                    loader: Some(at),
                });
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
/// one, its `DT_RPATH` and that of the files which loaded it.
fn directories<'a>(
    loaded: &'a [Loaded<'_>],
    requester: &'a Loaded<'_>,
) -> impl Iterator<Item = String> + 'a {
    let own = requester.elf.runpath.as_ref();
    let own = own.map(|runpath| (&requester.path, runpath));
    let loaders = successors(Some(requester), |file| loaded.get(file.loader?));
    let inherited = loaders.filter(move |it| own.is_none() && it.elf.runpath.is_none());
    let inherited = inherited.filter_map(|it| Some((&it.path, it.elf.rpath.as_ref()?)));
    let run_paths = own.into_iter().chain(inherited);
    run_paths.flat_map(|(path, run_path)| expand(path, run_path))
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
