//! The run path that a file of a framework should have: the directories with the libraries that it
//! needs itself, relative to its own, and nothing else.

use derive_more::Display;
use itertools::Itertools as _;

use super::{
    providers::{LibraryProvider, Providers},
    read::FrameworkWheel,
    strings,
};
use crate::{
    elf::{ElfFacts, ElfKind, Rpath},
    error::Result,
    loader::origin,
};

/// Where an entry of a run path leads, if all packages are in one directory.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, PartialOrd, Ord)]
#[display(rename_all = "lowercase")]
pub(super) enum RunPathEntry {
    /// To a directory of the same wheel.
    Own,
    /// To a directory of the ROCm packages.
    Rocm,
    /// To a directory of another framework.
    Neighbour,
    /// To a place on the machine that built it.
    Absolute,
    /// To the current directory.
    Empty,
    /// To a directory that does not exist.
    Dead,
    /// Out of the environment, or to a place that depends on the process.
    Outside,
}

impl RunPathEntry {
    /// Whether it leads to files that no package has, and that others may put there.
    pub(super) fn leads_out(self) -> bool {
        matches!(self, Self::Absolute | Self::Empty | Self::Outside)
    }
}

/// Says where each entry of a run path leads.
pub(super) fn entries<'a>(
    wheel: &FrameworkWheel,
    path: &str,
    elf: &'a ElfFacts,
    providers: &Providers<'_>,
) -> Vec<(&'a str, RunPathEntry)> {
    let Some(run_path) = elf.run_path() else {
        return Vec::new();
    };
    let place_of = |entry: &str| {
        if entry.is_empty() {
            return RunPathEntry::Empty;
        }
        let Some(place) = origin(path, entry) else {
            return if entry.starts_with('/') {
                RunPathEntry::Absolute
            } else {
                RunPathEntry::Outside
            };
        };
        let is_in = |member: &str| {
            let rest = if place.is_empty() {
                Some(member)
            } else {
                member
                    .strip_prefix(&place)
                    .and_then(|it| it.strip_prefix('/'))
            };
            rest.is_some()
        };
        if wheel.installed().any(|(member, _)| is_in(member)) {
            RunPathEntry::Own
        } else if providers.is_rocm(&place) {
            RunPathEntry::Rocm
        } else if providers.is_neighbour(&place) {
            RunPathEntry::Neighbour
        } else {
            RunPathEntry::Dead
        }
    };
    run_path
        .split(':')
        .map(|entry| (entry, place_of(entry)))
        .collect()
}

/// The run path for a file: directories of its own wheel, in the order that they have on its run
/// path now; those of other frameworks; those of the ROCm packages, in their order.
pub(super) fn wanted(
    wheel: &FrameworkWheel,
    path: &str,
    member: &str,
    elf: &ElfFacts,
    providers: &Providers<'_>,
) -> Result<Rpath> {
    let project = &wheel.name.name;
    let (mut own, mut others, mut rocm) = (Vec::new(), Vec::new(), Vec::new());
    for library in &elf.needed {
        match providers.of(project, path, elf, library) {
            LibraryProvider::Own(directory) => own.push(directory),
            LibraryProvider::Group { directory, .. }
            | LibraryProvider::Neighbour { directory, .. } => others.push(directory),
            LibraryProvider::Rocm(key) => rocm.push(key),
            LibraryProvider::Host
            | LibraryProvider::OtherRocm(_)
            | LibraryProvider::Vendor(_)
            | LibraryProvider::Unknown => {}
        }
    }
    let now = elf.run_path().unwrap_or_default().split(':');
    let now: Vec<String> = now.filter_map(|entry| origin(path, entry)).collect();
    for directory in &now {
        if !own.contains(directory) && opens_in(wheel, path, member, directory)? {
            own.push(directory.clone());
        }
    }
    own.sort_by_key(|it| {
        (
            now.iter().position(|now| now == it).unwrap_or(usize::MAX),
            it.clone(),
        )
    });
    others.sort();
    rocm.sort_unstable();
    let rocm = rocm
        .into_iter()
        .map(|key| providers.rocm_directory(key).to_owned());
    let directories = own.into_iter().chain(others).chain(rocm).unique();
    let entries = directories.map(|directory| entry(path, &directory));
    Ok(entries.collect_vec().join(":").parse()?)
}

/// Whether a file has the name of a library in a directory of its wheel, which it may open at run time.
fn opens_in(wheel: &FrameworkWheel, path: &str, member: &str, directory: &str) -> Result<bool> {
    let Some(binary) = wheel.binaries.get(member) else {
        return Ok(false);
    };
    // A file has its own name as its SONAME.
    let others = wheel.elf_files().filter(|(it, ..)| *it != path);
    let names: Vec<&str> = others
        .filter(|(.., elf)| elf.facts.kind == ElfKind::SharedObject)
        .filter_map(|(it, ..)| {
            let (place, name) = it.rsplit_once('/').unwrap_or(("", it));
            (place == directory).then_some(name)
        })
        .collect();
    Ok(strings::mentions(&binary.bytes, &names)?)
}

/// The run path entry of a file that leads to a directory, both below `site-packages`: `$ORIGIN/../lib`.
fn entry(file: &str, directory: &str) -> String {
    let here: Vec<&str> = file.split('/').collect();
    let here = &here[..here.len().saturating_sub(1)];
    let there: Vec<&str> = directory.split('/').filter(|it| !it.is_empty()).collect();
    let common = here
        .iter()
        .zip(&there)
        .take_while(|(one, other)| one == other)
        .count();
    let up = std::iter::repeat_n("..", here.len() - common);
    let down = there.iter().skip(common).copied();
    ["$ORIGIN"].into_iter().chain(up).chain(down).join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_up_as_far_as_needed() {
        assert_eq!(entry("torch/lib/x.so", "torch/lib"), "$ORIGIN");
        assert_eq!(entry("torch/_C.so", "torch/lib"), "$ORIGIN/lib");
        assert_eq!(
            entry("a/b/x.so", "_rocm_sdk_core/lib"),
            "$ORIGIN/../../_rocm_sdk_core/lib"
        );
        assert_eq!(
            entry("x.so", "_rocm_sdk_core/lib"),
            "$ORIGIN/_rocm_sdk_core/lib"
        );
    }

    #[test]
    fn an_entry_leads_into_site_packages_or_out_of_it() {
        assert_eq!(
            origin("a/b/x.so", "$ORIGIN/../lib"),
            Some("a/lib".to_owned())
        );
        assert_eq!(origin("a/x.so", "${ORIGIN}"), Some("a".to_owned()));
        assert_eq!(origin("a/x.so", "$ORIGIN/../.."), None);
        assert_eq!(origin("a/x.so", "$ORIGINAL"), None);
        assert_eq!(origin("a/x.so", "/opt/rocm/lib"), None);
    }
}
