//! What follows from the members of a framework wheel: its packages, its init module, the tag that its
//! symbols prove, and what it opens by name.

use std::collections::{BTreeMap, BTreeSet};

use derive_more::Display;
use itertools::Itertools as _;

use super::{
    init_module::{self, InitHook, InitModule},
    policy::Frameworks,
    providers::{LibraryProvider, Providers},
    read::{ElfMember, FrameworkWheel},
    rocm::{RocmLibraries, library_version, stem},
    tags::{HostNeeds, Manylinux, ProvenTag},
    version::rocm_part,
};
use crate::{check::facts::DeviceCodeFacts, run::Platform};
use rocwheel_base::{
    error::{Context as _, Result},
    relpath,
};
use rocwheel_elf::{ElfKind, Machine};
use rocwheel_kpack::CodeTarget;

/// The files of ROCm packages that join wheels.
#[derive(Default)]
pub(super) struct JoiningFiles<'a> {
    /// The files that join the wheel itself.
    pub files: Vec<ElfMember<'a>>,
    /// The names of the libraries that join a wheel of the group.
    pub libraries: BTreeSet<&'a str>,
}

/// The tag that all binaries of a wheel prove together. `None` if it has no binary for Linux on x86-64: then nothing
/// says on which hosts it runs.
pub(super) fn proved_tag(wheel: &FrameworkWheel, providers: &Providers<'_>) -> Option<ProvenTag> {
    proved_tag_with(wheel, providers, JoiningFiles::default())
}

/// The tag that all binaries of a wheel prove together with files that will join it.
pub(super) fn proved_tag_with(
    wheel: &FrameworkWheel,
    providers: &Providers<'_>,
    joining: JoiningFiles<'_>,
) -> Option<ProvenTag> {
    let files = wheel.host_files().chain(joining.files).map(|elf| {
        // Libraries of other vendors, and unknown ones, are left to the system that installs the wheel.
        let libraries = providers
            .needs(wheel, elf)
            .filter(|(_, provider)| *provider == LibraryProvider::Host)
            .map(|(name, _)| name)
            // The file finds the library in a wheel, if the group will have it.
            .filter(|name| !joining.libraries.contains(name))
            // The loader and the library of Python are on every host.
            .filter(|name| !name.starts_with("ld-linux") && !name.starts_with("libpython"));
        HostNeeds { path: elf.path, elf: elf.facts, libraries: libraries.collect() }
    });
    let files = files.collect_vec();
    (!files.is_empty()).then(|| Manylinux::builtin().oldest(&files))
}

/// Why a wheel cannot use a set, and what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotForSet {
    pub reason: String,
    pub remedy: &'static str,
}

const OTHER_ROCM: &str = "build it against this set, or tie it to the set that it was built with";
const OTHER_VENDOR: &str = "take its build for ROCm";

/// Why no binary of a wheel can use a set: the wheel is for another platform, or its first binary is for another
/// ROCm or for another vendor. `None` if a binary can, or if no binary says why not.
pub(super) fn not_for_set(
    wheel: &FrameworkWheel,
    providers: &Providers<'_>,
    rocm: &RocmLibraries,
) -> Option<NotForSet> {
    if let Some(mismatch) = other_platform(wheel, rocm) {
        return Some(mismatch);
    }
    let mut first_mismatch = None;
    for elf in wheel.host_files() {
        for (name, provider) in providers.needs(wheel, elf) {
            let (why, remedy) = match provider {
                LibraryProvider::Rocm(_) => return None,
                LibraryProvider::OtherRocm(Some(has)) => {
                    (format!("the set has `{has}`"), OTHER_ROCM)
                }
                LibraryProvider::OtherRocm(None) => ("the set lacks it".to_owned(), OTHER_ROCM),
                LibraryProvider::Vendor(vendor) => {
                    (format!("that is a library of {vendor}"), OTHER_VENDOR)
                }
                _ => continue,
            };
            first_mismatch.get_or_insert_with(|| NotForSet {
                reason: format!("`{}` needs `{name}`, and {why}", elf.path),
                remedy,
            });
        }
    }
    for (path, imports) in wheel.imports() {
        for name in imports.into_iter().flatten() {
            if rocm.library(name).is_some() {
                return None;
            }
            if let Some(other) = rocm.of_other_version(name) {
                first_mismatch.get_or_insert_with(|| NotForSet {
                    reason: format!("`{path}` needs `{name}`, and the set has `{}`", other.name),
                    remedy: OTHER_ROCM,
                });
            }
        }
    }
    first_mismatch
}

/// Why a wheel is a build for another vendor or for another ROCm, if its version or a requirement says so. A wheel that
/// runs on several vendors' devices may have such a requirement too, so binaries that use the set count more.
pub(super) fn other_build(
    wheel: &FrameworkWheel,
    policy: &Frameworks,
    rocm: &RocmLibraries,
) -> Option<NotForSet> {
    let version = &wheel.name.version;
    if let Some(vendor) = policy.vendor_of_version(version) {
        let reason = format!("its version {version} is for {vendor}");
        return Some(NotForSet { reason, remedy: OTHER_VENDOR });
    }
    // `rocm6` of `rocm6.4.1`. A set under development has another word before the number.
    let major = |part: &str| {
        part.trim_start_matches(char::is_alphabetic).split('.').next()?.parse::<u64>().ok()
    };
    let major_of_wheel = rocm_part(version).and_then(|part| major(&part));
    if major_of_wheel.is_some_and(|it| Some(it) != major(&rocm.version.to_string())) {
        let reason = format!("its version {version} is for another ROCm than {}", rocm.version);
        return Some(NotForSet { reason, remedy: OTHER_ROCM });
    }
    let mut requirements = wheel.requirements().filter(|it| !it.marker.needs_extra());
    requirements.find_map(|requirement| {
        let vendor = policy.vendor_of_package(&requirement.name)?;
        let reason = format!("it requires `{}`, and that is of {vendor}", requirement.name);
        Some(NotForSet { reason, remedy: OTHER_VENDOR })
    })
}

/// Why a wheel cannot be installed beside a set, if it is for another platform. Its binaries say so, and its tag if
/// it has none.
pub(super) fn other_platform(wheel: &FrameworkWheel, rocm: &RocmLibraries) -> Option<NotForSet> {
    let is_linux = rocm.platform == Platform::Linux;
    let linux_file = wheel.host_files().next();
    let windows_file = wheel.windows_files().next();
    let (what, is_for) = match (linux_file, windows_file) {
        // A wheel with binaries for both platforms fits.
        (Some(_), _) if is_linux => return None,
        (_, Some(_)) if !is_linux => return None,
        (Some(elf), _) => (format!("`{}`", elf.path), "Linux".to_owned()),
        (_, Some((path, _))) => (format!("`{path}`"), "Windows".to_owned()),
        (None, None) => {
            let foreign_file = wheel.elf_files().find_map(|elf| match elf.facts.machine {
                machine @ Machine::Other(_) => {
                    Some((format!("`{}`", elf.path), machine.to_string()))
                }
                _ => None,
            });
            foreign_file.or_else(|| platform_of_tag(wheel.platform(), is_linux))?
        }
    };
    let remedy = match (is_linux, is_for.as_str()) {
        (true, "Windows") => {
            "take its wheel for Linux, or pass the ROCm packages for Windows as `--set`"
        }
        (false, "Linux") => {
            "take its wheel for Windows, or pass the ROCm packages for Linux as `--set`"
        }
        (true, _) => "take its wheel for Linux on x86-64",
        (false, _) => "take its wheel for Windows on x86-64",
    };
    let set = if is_linux { "Linux" } else { "Windows" };
    Some(NotForSet {
        reason: format!("{what} is for {is_for}, and the set is for {set} on x86-64"),
        remedy,
    })
}

/// The tag of a wheel, and the platform that it is for, if that is not the platform of the set.
fn platform_of_tag(tag: &str, set_is_linux: bool) -> Option<(String, String)> {
    let is_linux = |platform: &str| platform.contains("linux") && platform.ends_with("x86_64");
    let is_windows = |platform: &str| platform == "win_amd64";
    let fits = |platform: &str| {
        platform == "any" || if set_is_linux { is_linux(platform) } else { is_windows(platform) }
    };
    let mut platforms = tag.split('.');
    if platforms.clone().any(fits) {
        return None;
    }
    let is_for = if platforms.clone().any(is_linux) {
        "Linux"
    } else if platforms.any(is_windows) {
        "Windows"
    } else {
        "another platform"
    };
    Some((format!("its tag `{tag}`"), is_for.to_owned()))
}

/// A library of ROCm that is a member of a wheel, as tools such as `auditwheel` make copies.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub(super) enum RocmCopy<'a> {
    /// A copy of this library of the set.
    #[display("`{_0}` of the set")]
    OfSet(&'a str),
    #[display("a copy of `{name}`, of another ROCm (the set has `{in_set}`)")]
    OfOther { name: String, in_set: &'a str },
}

/// The library of ROCm that a file is a copy of.
pub(super) fn copy_of<'a>(elf: ElfMember<'_>, rocm: &'a RocmLibraries) -> Option<RocmCopy<'a>> {
    let file = relpath::split(elf.path).1;
    let original = rocm.of_other_version(file)?;
    // A framework may bring its own runtimes of a compiler: these are no copies.
    if elf.facts.kind != ElfKind::SharedObject || original.directory.is_llvm() {
        return None;
    }
    let in_set = original.name.as_str();
    // Only the SONAME says the version of a file such as `libamdhip64.so`.
    let name = elf.facts.soname.as_deref().unwrap_or(file);
    Some(match (library_version(name), stem(name)) {
        ("", _) | (_, None) => RocmCopy::OfSet(in_set),
        (version, _) if version == library_version(in_set) => RocmCopy::OfSet(in_set),
        (version, Some(stem)) => RocmCopy::OfOther { name: format!("{stem}.so{version}"), in_set },
    })
}

/// The files that are device code and nothing else, by target: ELF files for AMD GPUs, which many projects call
/// `NAME.co`. A file for a GPU that rocwheel does not know counts for `unknown`.
pub(super) fn device_files(wheel: &FrameworkWheel) -> BTreeMap<String, usize> {
    let targets = wheel.installed().filter_map(|(_, member)| {
        let content = member.content.as_ref().ok()?;
        match &content.code {
            // A bundle of code objects, which a library embeds, is no ELF file.
            DeviceCodeFacts::Objects(targets) if content.elf.is_some() => {
                let target = targets.first().map(CodeTarget::to_string);
                Some(target.unwrap_or_else(|| "unknown".to_owned()))
            }
            _ => None,
        }
    });
    targets.counts().into_iter().collect()
}

/// The root of each binary: see [`root_of`]. A wheel without binaries, whose Python uses ROCm, has one root if all of
/// it is in one package.
pub(super) fn roots(wheel: &FrameworkWheel) -> BTreeSet<String> {
    let packages = packages(wheel);
    let linux_paths = wheel.elf_files().map(|elf| elf.path);
    let windows_paths = wheel.windows_files().map(|(path, _)| path);
    let roots: BTreeSet<&str> =
        linux_paths.chain(windows_paths).filter_map(|path| root_of(path, &packages)).collect();
    if !roots.is_empty() {
        return roots.into_iter().map(str::to_owned).collect();
    }
    let all_paths = wheel.installed().map(|(path, _)| path);
    let roots_of_packages: BTreeSet<&str> = all_paths
        .filter_map(|path| root_of(path, &packages))
        .filter(|root| packages.contains(root))
        .collect();
    roots_of_packages.into_iter().exactly_one().map(str::to_owned).into_iter().collect()
}

/// The directories with an `__init__.py`.
pub(super) fn packages(wheel: &FrameworkWheel) -> BTreeSet<&str> {
    let paths = wheel.installed().map(|(path, _)| path);
    paths.filter_map(|path| path.strip_suffix("/__init__.py")).collect()
}

/// The first directory on a path that is a package, or else its top directory. `None` for a file
/// that is directly in `site-packages`.
pub(super) fn root_of<'a>(path: &'a str, packages: &BTreeSet<&str>) -> Option<&'a str> {
    let mut parents = path.match_indices('/').map(|(at, _)| &path[..at]);
    let package = parents.clone().find(|parent| packages.contains(parent));
    package.or_else(|| parents.next())
}

/// The init module of a framework, and the hook that imports it. At least one of them was found.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct FoundInit {
    /// The package of the init module.
    pub root: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<InitModule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<InitHook>,
}

/// Finds the init module or the hook. `None` if the wheel has neither.
pub(super) fn find_init(wheel: &FrameworkWheel, policy: &Frameworks) -> Result<Option<FoundInit>> {
    let packages_with_module = wheel
        .installed()
        .filter_map(|(path, _)| path.strip_suffix(init_module::FILE)?.strip_suffix('/'));
    // What policy says comes first: a wheel may have several packages, and users import one of them.
    let roots = policy
        .root_of(&wheel.name.name)
        .into_iter()
        .chain(packages_with_module.map(str::to_owned))
        .chain(roots(wheel))
        .unique();
    for root in roots {
        let read = |name: &str| -> Result<Option<String>> {
            let Some(member) = wheel.member(&format!("{root}/{name}")) else {
                return Ok(None);
            };
            Ok(wheel.python(member)?.map(|source| source.text))
        };
        let hook = match read("__init__.py")? {
            Some(source) => init_module::find_hook(&source)
                .with_context(|| format!("failed to read `{root}/__init__.py`"))?,
            None => None,
        };
        let module = read(init_module::FILE)?.map(|source| InitModule::parse(&source));
        if hook.is_some() || module.is_some() {
            return Ok(Some(FoundInit { root, module, hook }));
        }
    }
    Ok(None)
}

/// The names of ROCm's libraries that a binary may open at run time.
pub(super) fn opened_rocm_libraries<'a>(
    wheel: &'a FrameworkWheel,
    elf: ElfMember<'a>,
    policy: &'a Frameworks,
) -> impl Iterator<Item = &'a str> {
    let needed_stems: BTreeSet<&str> =
        elf.facts.needed.iter().filter_map(|library| stem(library)).collect();
    wheel.opened(elf).filter(move |name| {
        let file = relpath::split(name).1;
        // A library that the binary also needs is already loaded when it is opened by name. A path is opened as
        // it is.
        let is_loaded =
            !name.starts_with('/') && stem(file).is_some_and(|stem| needed_stems.contains(stem));
        !is_loaded && policy.directory_of(file).is_some()
    })
}
