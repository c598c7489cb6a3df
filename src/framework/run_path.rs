//! The run path that a file of a framework should have: the directories with the libraries that it
//! needs itself, relative to its own, and nothing else.

use derive_more::Display;
use itertools::Itertools as _;

use super::{
    providers::{LibraryProvider, Providers},
    read::{ElfMember, FrameworkWheel},
    strings,
};
use crate::{
    elf::{ElfKind, Rpath},
    error::Result,
    loader::origin,
    relpath,
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
    elf: ElfMember<'a>,
    providers: &Providers<'_>,
) -> Vec<(&'a str, RunPathEntry)> {
    let leads = |entry: &str| {
        if entry.is_empty() {
            return RunPathEntry::Empty;
        }
        let Some(place) = origin(elf.path, entry) else {
            return if entry.starts_with('/') {
                RunPathEntry::Absolute
            } else {
                RunPathEntry::Outside
            };
        };
        let is_in = |member: &str| {
            let rest = member.strip_prefix(&place);
            place.is_empty() || rest.is_some_and(|it| it.starts_with('/'))
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
    let run_path = elf.facts.run_path().into_iter();
    run_path.flat_map(|it| it.split(':')).map(|entry| (entry, leads(entry))).collect()
}

/// The run path for a file: directories of its own wheel, in the order that they have on its run
/// path now; those of other frameworks; those of the ROCm packages, in their order.
pub(super) fn wanted(
    wheel: &FrameworkWheel,
    elf: ElfMember<'_>,
    providers: &Providers<'_>,
) -> Result<Rpath> {
    let (mut own, mut others, mut rocm) = (Vec::new(), Vec::new(), Vec::new());
    for (_, by) in providers.needs(wheel, elf) {
        match by {
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
    let now = elf.facts.run_path().unwrap_or_default().split(':');
    let now: Vec<String> = now.filter_map(|entry| origin(elf.path, entry)).collect();
    for directory in &now {
        if !own.contains(directory) && opens_in(wheel, elf, directory)? {
            own.push(directory.clone());
        }
    }
    own.sort_by_key(|it| {
        let place = now.iter().position(|now| now == it);
        (place.unwrap_or(usize::MAX), it.clone())
    });
    others.sort();
    rocm.sort_unstable();
    let rocm = rocm.into_iter().map(|key| providers.rocm_directory(key).to_owned());
    let directories = own.into_iter().chain(others).chain(rocm).unique();
    let mut entries = directories.map(|directory| entry(elf.path, &directory));
    Ok(entries.join(":").parse()?)
}

/// Whether a file has the name of a library in a directory of its wheel, which it may open at run time.
fn opens_in(wheel: &FrameworkWheel, elf: ElfMember<'_>, directory: &str) -> Result<bool> {
    let Some(binary) = wheel.binaries.get(&elf.member.path) else {
        return Ok(false);
    };
    let libraries = wheel.elf_files().filter(|it| {
        // A file has its own name as its SONAME.
        it.path != elf.path && it.facts.kind == ElfKind::SharedObject
    });
    let names = libraries
        .map(|it| relpath::split(it.path))
        .filter(|(place, _)| *place == directory)
        .map(|(_, name)| name);
    Ok(strings::mentions(&binary.bytes, &names.collect_vec())?)
}

/// The run path entry of a file that leads to a directory, both below `site-packages`: `$ORIGIN/../lib`.
fn entry(file: &str, directory: &str) -> String {
    let way = relpath::between(relpath::split(file).0, directory);
    if way.is_empty() { "$ORIGIN".to_owned() } else { format!("$ORIGIN/{way}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_up_as_far_as_needed() {
        assert_eq!(entry("torch/lib/x.so", "torch/lib"), "$ORIGIN");
        assert_eq!(entry("torch/_C.so", "torch/lib"), "$ORIGIN/lib");
        assert_eq!(entry("a/b/x.so", "_rocm_sdk_core/lib"), "$ORIGIN/../../_rocm_sdk_core/lib");
        assert_eq!(entry("x.so", "_rocm_sdk_core/lib"), "$ORIGIN/_rocm_sdk_core/lib");
    }

    #[test]
    fn an_entry_leads_into_site_packages_or_out_of_it() {
        assert_eq!(origin("a/b/x.so", "$ORIGIN/../lib"), Some("a/lib".to_owned()));
        assert_eq!(origin("a/x.so", "${ORIGIN}"), Some("a".to_owned()));
        assert_eq!(origin("a/x.so", "$ORIGIN/../.."), None);
        assert_eq!(origin("a/x.so", "$ORIGINAL"), None);
        assert_eq!(origin("a/x.so", "/opt/rocm/lib"), None);
    }
}
