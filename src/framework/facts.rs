//! What follows from the members of a framework wheel: its packages, its init module, the tag that its
//! symbols prove, and what it opens by name.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{
    init_module::{self, InitHook, InitModule},
    policy::{FrameworkSpec, Frameworks},
    providers::{LibraryProvider, Providers},
    read::FrameworkWheel,
    rocm::{RocmLibraries, stem},
    tags::{Manylinux, ProvenTag},
};
use crate::{
    check::facts::{ElfFile, MemberFacts, MemberKind},
    elf::{ElfFacts, Machine},
    error::Result,
    loader::is_loadable,
    run::Platform,
    wheel::RequirementLine,
};

/// Whether a mode is not one that a file in `site-packages` should have. Some tools store none.
pub(super) fn has_odd_mode(member: &MemberFacts) -> bool {
    member.kind == MemberKind::File
        && member.mode != 0
        && (member.mode & 0o444 != 0o444 || member.mode & 0o022 != 0)
}

/// The tag that all binaries of a wheel prove together.
pub(super) fn proved_tag(wheel: &FrameworkWheel, providers: &Providers<'_>) -> ProvenTag {
    let own = wheel.elf_files().map(|(path, _, elf)| (path, &elf.facts));
    let files: Vec<(&str, &ElfFacts, Vec<&str>)> = own
        .filter(|(_, elf)| is_loadable(elf))
        .map(|(path, elf)| {
            let needed = elf.needed.iter().map(String::as_str);
            // Libraries of other vendors, and unknown ones, are left to the system that installs the wheel.
            let rest = needed.filter(|name| {
                providers.of(&wheel.name.name, path, elf, name) == LibraryProvider::Host
            });
            // The loader of the host and the library of Python are always there.
            let rest =
                rest.filter(|name| !name.starts_with("ld-linux") && !name.starts_with("libpython"));
            (path, elf, rest.collect())
        })
        .collect();
    Manylinux::builtin().oldest(&files)
}

/// Why no binary of a wheel can use a set, if it has binaries: they are for another platform, for another
/// ROCm or for another vendor.
pub(super) fn not_for_set(
    wheel: &FrameworkWheel,
    providers: &Providers<'_>,
    rocm: &RocmLibraries,
) -> Option<String> {
    if let Some(why) = other_platform(wheel, rocm) {
        return Some(why);
    }
    let mut first = None;
    for (path, _, elf) in wheel.elf_files().filter(|it| is_loadable(&it.2.facts)) {
        for name in &elf.facts.needed {
            let why = match providers.of(&wheel.name.name, path, &elf.facts, name) {
                LibraryProvider::Rocm(_) => return None,
                LibraryProvider::OtherRocm(Some(has)) => format!("the set has `{has}`"),
                LibraryProvider::OtherRocm(None) => "the set lacks it".to_owned(),
                LibraryProvider::Vendor(vendor) => format!("that is a library of {vendor}"),
                _ => continue,
            };
            first.get_or_insert_with(|| format!("`{path}` needs `{name}`, and {why}"));
        }
    }
    for (path, imports) in wheel.imports() {
        for name in imports.into_iter().flatten() {
            if rocm.dll(name).is_some() {
                return None;
            }
            if let Some(has) = rocm.dll_of_other_version(name) {
                first.get_or_insert_with(|| {
                    format!("`{path}` needs `{name}`, and the set has `{has}`")
                });
            }
        }
    }
    first
}

/// Why the binaries of a wheel cannot be loaded beside a set, if they are for another platform.
fn other_platform(wheel: &FrameworkWheel, rocm: &RocmLibraries) -> Option<String> {
    let is_linux = rocm.platform() == Platform::Linux;
    let mut binaries = wheel.elf_files();
    let linux = binaries.find(|(.., elf)| is_loadable(&elf.facts));
    let windows = wheel.windows_files().next();
    let (path, is_for) = match (linux, windows) {
        (Some(_), _) if is_linux => return None,
        (_, Some(_)) if !is_linux => return None,
        (Some((path, ..)), _) => (path, "Linux".to_owned()),
        (_, Some((path, _))) => (path, "Windows".to_owned()),
        (None, None) => wheel.elf_files().find_map(|(path, _, elf)| {
            let machine = elf.facts.machine;
            matches!(machine, Machine::Other(_)).then(|| (path, machine.to_string()))
        })?,
    };
    let set = if is_linux { "Linux" } else { "Windows" };
    Some(format!(
        "`{path}` is for {is_for}, and the set is for {set} on x86-64"
    ))
}

/// The files that policy says have the version. `None` for one that is not there.
pub(super) fn version_files(
    wheel: &FrameworkWheel,
    row: Option<&FrameworkSpec>,
) -> Result<BTreeMap<String, Option<String>>> {
    let files = row.iter().flat_map(|row| &row.version_files);
    let files = files.map(|file| Ok((file.to_string(), wheel.text(file.as_str())?)));
    files.collect()
}

/// The packages with binaries: for each binary the first directory on its path that is a package, or
/// else its top directory.
pub(super) fn roots(wheel: &FrameworkWheel) -> BTreeSet<String> {
    let packages = packages(wheel);
    let paths = wheel.elf_files().map(|(path, _, _)| path);
    let paths = paths.chain(wheel.windows_files().map(|(path, _)| path));
    let roots = paths.filter_map(|path| root(&packages, path));
    roots.map(str::to_owned).collect()
}

/// The directories with an `__init__.py`.
pub(super) fn packages(wheel: &FrameworkWheel) -> BTreeSet<&str> {
    let paths = wheel.installed().map(|(path, _)| path);
    paths
        .filter_map(|path| path.strip_suffix("/__init__.py"))
        .collect()
}

/// The first directory on a path that is a package, or else its top directory. `None` for a file
/// that is directly in `site-packages`.
pub(super) fn root<'a>(packages: &BTreeSet<&str>, path: &'a str) -> Option<&'a str> {
    let mut above = path.match_indices('/').map(|(at, _)| &path[..at]);
    let package = above.clone().find(|it| packages.contains(it));
    package.or_else(|| above.next())
}

/// The init module of a framework, and what calls it.
#[derive(Clone, Debug)]
pub(super) struct FoundInit {
    /// The package that has or should have it.
    pub root: String,
    pub module: Option<InitModule>,
    pub hook: Option<InitHook>,
}

/// Finds the init module or the hook. `None` if the wheel has neither.
pub(super) fn init(wheel: &FrameworkWheel, policy: &Frameworks) -> Result<Option<FoundInit>> {
    let known = policy
        .of(&wheel.name.name)
        .and_then(|row| row.root.as_ref());
    let known = known.map(ToString::to_string);
    let modules = wheel
        .installed()
        .filter_map(|(path, _)| path.strip_suffix(init_module::FILE)?.strip_suffix('/'));
    let roots = known
        .into_iter()
        .chain(modules.map(str::to_owned))
        .chain(roots(wheel))
        .unique();
    for root in roots {
        let text = |name: &str| -> Result<Option<String>> {
            let member = wheel.member(&format!("{root}/{name}"));
            Ok(member.map(|it| wheel.text(it)).transpose()?.flatten())
        };
        let source = text("__init__.py")?;
        let hook = source
            .map(|it| init_module::hook(&it))
            .transpose()?
            .flatten();
        let module = text(init_module::FILE)?;
        let module = module.map(|it| InitModule::parse(&it)).transpose()?;
        if hook.is_some() || module.is_some() {
            return Ok(Some(FoundInit { root, module, hook }));
        }
    }
    Ok(None)
}

/// The names of ROCm's libraries that a binary may open at run time.
pub(super) fn opened<'a>(
    wheel: &'a FrameworkWheel,
    member: &str,
    elf: &'a ElfFile,
    policy: &'a Frameworks,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let needed: BTreeSet<&str> = elf.facts.needed.iter().filter_map(|it| stem(it)).collect();
    wheel.opened(member, elf).filter(move |name| {
        let file = name.rsplit('/').next().unwrap_or(name);
        let is_needed = !name.starts_with('/') && stem(file).is_some_and(|it| needed.contains(it));
        !is_needed && policy.directory_of(file).is_some()
    })
}

/// The requirements of a wheel that name a project.
pub(super) fn requirements(
    wheel: &FrameworkWheel,
) -> impl Iterator<Item = (&str, RequirementLine<'_>)> {
    let lines = wheel.metadata.requires_dist.iter();
    lines.filter_map(|line| Some((line.as_str(), RequirementLine::parse(line)?)))
}
