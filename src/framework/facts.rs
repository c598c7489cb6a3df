//! What follows from the members of a framework wheel: its packages, its init module, the tag that its
//! symbols prove, and what it opens by name.

use std::collections::BTreeSet;

use itertools::Itertools as _;

use super::{
    init_module::{self, InitHook, InitModule},
    policy::Frameworks,
    providers::{LibraryProvider, Providers},
    read::{ElfMember, FrameworkWheel},
    rocm::{RocmLibraries, stem},
    tags::{Manylinux, ProvenTag},
};
use crate::{
    elf::{ElfFacts, ElfKind, Machine},
    error::{Context as _, Result},
    relpath,
    run::Platform,
};

/// The tag that all binaries of a wheel prove together.
pub(super) fn proved_tag(wheel: &FrameworkWheel, providers: &Providers<'_>) -> ProvenTag {
    let files = wheel.host_files().map(|elf| {
        // Libraries of other vendors, and unknown ones, are left to the system that installs the wheel.
        let of_host = providers
            .needs(wheel, elf)
            .filter(|(_, by)| *by == LibraryProvider::Host)
            // The loader of the host and the library of Python are always there.
            .filter(|(name, _)| !name.starts_with("ld-linux") && !name.starts_with("libpython"));
        (elf.path, elf.facts, of_host.map(|it| it.0).collect())
    });
    let files: Vec<(&str, &ElfFacts, Vec<&str>)> = files.collect();
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
    for elf in wheel.host_files() {
        for (name, by) in providers.needs(wheel, elf) {
            let why = match by {
                LibraryProvider::Rocm(_) => return None,
                LibraryProvider::OtherRocm(Some(has)) => format!("the set has `{has}`"),
                LibraryProvider::OtherRocm(None) => "the set lacks it".to_owned(),
                LibraryProvider::Vendor(vendor) => format!("that is a library of {vendor}"),
                _ => continue,
            };
            first.get_or_insert_with(|| format!("`{}` needs `{name}`, and {why}", elf.path));
        }
    }
    for (path, imports) in wheel.imports() {
        for name in imports.into_iter().flatten() {
            if rocm.library(name).is_some() {
                return None;
            }
            if let Some(has) = rocm.of_other_version(name) {
                let has = &has.name;
                let why = || format!("`{path}` needs `{name}`, and the set has `{has}`");
                first.get_or_insert_with(why);
            }
        }
    }
    first
}

/// Why the binaries of a wheel cannot be loaded beside a set, if they are for another platform.
fn other_platform(wheel: &FrameworkWheel, rocm: &RocmLibraries) -> Option<String> {
    let is_linux = rocm.platform == Platform::Linux;
    let linux = wheel.host_files().next();
    let windows = wheel.windows_files().next();
    let (path, is_for) = match (linux, windows) {
        (Some(_), _) if is_linux => return None,
        (_, Some(_)) if !is_linux => return None,
        (Some(elf), _) => (elf.path, "Linux".to_owned()),
        (_, Some((path, _))) => (path, "Windows".to_owned()),
        (None, None) => wheel.elf_files().find_map(|elf| {
            let machine = elf.facts.machine;
            matches!(machine, Machine::Other(_)).then(|| (elf.path, machine.to_string()))
        })?,
    };
    let set = if is_linux { "Linux" } else { "Windows" };
    Some(format!("`{path}` is for {is_for}, and the set is for {set} on x86-64"))
}

/// The library of the set that a file is a copy of, as tools such as `auditwheel` make them. Frameworks may
/// bring runtimes of compilers of their own.
pub(super) fn copy_of<'a>(elf: ElfMember<'_>, rocm: &'a RocmLibraries) -> Option<&'a str> {
    let original = rocm.of_other_version(relpath::split(elf.path).1)?;
    let is_copy = elf.facts.kind == ElfKind::SharedObject && !original.directory.is_llvm();
    is_copy.then_some(&original.name)
}

/// The packages with binaries: for each binary the first directory on its path that is a package, or
/// else its top directory.
pub(super) fn roots(wheel: &FrameworkWheel) -> BTreeSet<String> {
    let packages = packages(wheel);
    let windows = wheel.windows_files().map(|(path, _)| path);
    let paths = wheel.elf_files().map(|elf| elf.path).chain(windows);
    paths.filter_map(|path| root(&packages, path)).map(str::to_owned).collect()
}

/// The directories with an `__init__.py`.
pub(super) fn packages(wheel: &FrameworkWheel) -> BTreeSet<&str> {
    let paths = wheel.installed().map(|(path, _)| path);
    paths.filter_map(|path| path.strip_suffix("/__init__.py")).collect()
}

/// The first directory on a path that is a package, or else its top directory. `None` for a file
/// that is directly in `site-packages`.
pub(super) fn root<'a>(packages: &BTreeSet<&str>, path: &'a str) -> Option<&'a str> {
    let mut above = path.match_indices('/').map(|(at, _)| &path[..at]);
    let package = above.clone().find(|it| packages.contains(it));
    package.or_else(|| above.next())
}

/// The init module of a framework, and what calls it.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct FoundInit {
    /// The package that has or should have it.
    pub root: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<InitModule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<InitHook>,
}

/// Finds the init module or the hook. `None` if the wheel has neither.
pub(super) fn init(wheel: &FrameworkWheel, policy: &Frameworks) -> Result<Option<FoundInit>> {
    let modules = wheel
        .installed()
        .filter_map(|(path, _)| path.strip_suffix(init_module::FILE)?.strip_suffix('/'));
    let roots = policy
        .root_of(&wheel.name.name)
        .into_iter()
        .chain(modules.map(str::to_owned))
        .chain(roots(wheel))
        .unique();
    for root in roots {
        let text = |name: &str| match wheel.member(&format!("{root}/{name}")) {
            Some(member) => wheel.text(member),
            None => Ok(None),
        };
        let hook = match text("__init__.py")? {
            Some(source) => init_module::hook(&source)
                .with_context(|| format!("failed to read `{root}/__init__.py`"))?,
            None => None,
        };
        let module = text(init_module::FILE)?.map(|it| InitModule::parse(&it));
        if hook.is_some() || module.is_some() {
            return Ok(Some(FoundInit { root, module, hook }));
        }
    }
    Ok(None)
}

/// The names of ROCm's libraries that a binary may open at run time.
pub(super) fn opened<'a>(
    wheel: &'a FrameworkWheel,
    elf: ElfMember<'a>,
    policy: &'a Frameworks,
) -> impl Iterator<Item = &'a str> {
    let needed = elf.facts.needed.iter().filter_map(|it| stem(it));
    let needed: BTreeSet<&str> = needed.collect();
    wheel.opened(elf).filter(move |name| {
        let file = relpath::split(name).1;
        let is_needed = !name.starts_with('/') && stem(file).is_some_and(|it| needed.contains(it));
        !is_needed && policy.directory_of(file).is_some()
    })
}
