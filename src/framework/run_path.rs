//! The run path that a file of a framework should have: the directories with the libraries that the file
//! needs, relative to the directory of the file, and nothing else.

use derive_more::Display;
use itertools::Itertools as _;

use super::{
    providers::{LibraryProvider, Providers},
    read::{ElfMember, FrameworkWheel},
    strings,
};
use rocwheel_base::{error::Result, relpath};
use rocwheel_elf::{ElfKind, Rpath, loader::origin};

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
    /// To a directory of the machine that built the file.
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
        let Some(directory) = origin(elf.path, entry) else {
            return if entry.starts_with('/') {
                RunPathEntry::Absolute
            } else {
                RunPathEntry::Outside
            };
        };
        let is_below = |member: &str| {
            directory.is_empty()
                || member.strip_prefix(&directory).is_some_and(|rest| rest.starts_with('/'))
        };
        if wheel.installed().any(|(member, _)| is_below(member)) {
            RunPathEntry::Own
        } else if providers.is_rocm(&directory) {
            RunPathEntry::Rocm
        } else if providers.is_neighbour(&directory) {
            RunPathEntry::Neighbour
        } else {
            RunPathEntry::Dead
        }
    };
    let Some(run_path) = elf.facts.run_path() else {
        return Vec::new();
    };
    run_path.split(':').map(|entry| (entry, leads(entry))).collect()
}

/// The run path that a file should have: directories of its own wheel, in the order that they have on its run
/// path now; directories of other frameworks; directories of the ROCm packages, in their order.
pub(super) fn wanted(
    wheel: &FrameworkWheel,
    elf: ElfMember<'_>,
    providers: &Providers<'_>,
) -> Result<Rpath> {
    let mut of_wheel = Vec::new();
    let mut of_frameworks = Vec::new();
    let mut rocm_keys = Vec::new();
    for (_, provider) in providers.needs(wheel, elf) {
        match provider {
            LibraryProvider::Own(directory) => of_wheel.push(directory),
            LibraryProvider::Group { directory, .. }
            | LibraryProvider::Neighbour { directory, .. } => of_frameworks.push(directory),
            LibraryProvider::Rocm(key) => rocm_keys.push(key),
            LibraryProvider::Host
            | LibraryProvider::OtherRocm(_)
            | LibraryProvider::Vendor(_)
            | LibraryProvider::Unknown => {}
        }
    }
    let entries_now = elf.facts.run_path().unwrap_or_default().split(':');
    let directories_now: Vec<String> =
        entries_now.filter_map(|entry| origin(elf.path, entry)).collect();
    // A directory from which no library is needed stays if the file may open one there by name.
    for directory in &directories_now {
        if !of_wheel.contains(directory) && opens_in(wheel, elf, directory)? {
            of_wheel.push(directory.clone());
        }
    }
    of_wheel.sort_by_key(|directory| {
        let position = directories_now.iter().position(|it| it == directory);
        (position.unwrap_or(usize::MAX), directory.clone())
    });
    of_frameworks.sort();
    rocm_keys.sort_unstable();
    let of_rocm = rocm_keys.into_iter().map(|key| providers.rocm_directory(key).to_owned());
    let directories = of_wheel.into_iter().chain(of_frameworks).chain(of_rocm).unique();
    let mut entries = directories.map(|directory| entry_to(elf.path, &directory));
    Ok(entries.join(":").parse()?)
}

/// Whether a file has among its strings the name of a library in a directory of its wheel: then it may open
/// the library at run time.
fn opens_in(wheel: &FrameworkWheel, elf: ElfMember<'_>, directory: &str) -> Result<bool> {
    let Some(binary) = wheel.binaries.get(&elf.member.path) else {
        return Ok(false);
    };
    let names: Vec<&str> = wheel
        .elf_files()
        // A file has its own name as its SONAME.
        .filter(|other| other.path != elf.path && other.facts.kind == ElfKind::SharedObject)
        .map(|other| relpath::split(other.path))
        .filter(|(directory_of_other, _)| *directory_of_other == directory)
        .map(|(_, name)| name)
        .collect();
    Ok(strings::mentions(&binary.bytes, &names)?)
}

/// The run path entry of a file that leads to a directory, both below `site-packages`: `$ORIGIN/../lib`.
fn entry_to(file: &str, directory: &str) -> String {
    let way = relpath::between(relpath::split(file).0, directory);
    if way.is_empty() { "$ORIGIN".to_owned() } else { format!("$ORIGIN/{way}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_up_as_far_as_needed() {
        assert_eq!(entry_to("torch/lib/x.so", "torch/lib"), "$ORIGIN");
        assert_eq!(entry_to("torch/_C.so", "torch/lib"), "$ORIGIN/lib");
        assert_eq!(entry_to("a/b/x.so", "_rocm_sdk_core/lib"), "$ORIGIN/../../_rocm_sdk_core/lib");
        assert_eq!(entry_to("x.so", "_rocm_sdk_core/lib"), "$ORIGIN/_rocm_sdk_core/lib");
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
