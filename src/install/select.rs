//! Decides what to ask for: the version, the targets, the extras and the version of each project.
//! Everything here is decided from what the source says, before an installer is started: pip and uv
//! only warn about an extra that does not exist, and exit with success.

use std::collections::BTreeSet;

use itertools::Itertools as _;

use super::{Request, requirements::Pinned};
use crate::{
    error::{Error, No, Result, anyhow, hinted},
    gpu::UNDETECTED,
    index::is_ours,
    place::{OfferedFile, OfferedSet},
    policy::DistNames,
    run::{ArtifactGroup, Platform},
    target::{Family, Target, TargetPattern, TargetTable},
    version::{ReleaseStream, Version},
    wheel::{DistName, Metadata, Requirement},
};

/// The beginning of an extra for the device code of a target, as ROCm and frameworks have it.
pub(super) const DEVICE: &str = "device-";
/// How many versions an error lists.
const MOST_LISTED: usize = 8;

/// Which targets the user wants device code for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetWish {
    /// Those of the GPUs of this machine.
    Detected(Vec<Target>),
    /// What the user named. With no names, only the code for the CPU.
    Named(TargetPattern),
}

/// What is asked for of the `rocm` package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RocmSelection {
    pub targets: Vec<Target>,
    pub extras: Vec<String>,
    /// The family whose index has the packages, in a set with one for each.
    pub family: Option<ArtifactGroup>,
    /// The projects that `rocm` needs with these extras, and those that they need: the development
    /// files need the libraries, whose extra need not be asked for.
    pub projects: BTreeSet<DistName>,
}

impl RocmSelection {
    /// Adds projects, and returns those that are new.
    pub fn add(&mut self, projects: BTreeSet<DistName>) -> BTreeSet<DistName> {
        let new = &projects - &self.projects;
        self.projects.extend(projects);
        new
    }
}

/// The file of a project that was selected, if the source has it in this version.
pub fn file_of<'a>(
    offered: &'a OfferedSet,
    selection: &RocmSelection,
    project: &DistName,
    version: &Version,
) -> Option<&'a OfferedFile> {
    files_of(offered, selection.family.as_ref(), project, version).next()
}

/// What a package needs on a platform without any extra of its own.
pub fn needed_by(metadata: &Metadata, platform: Platform) -> BTreeSet<DistName> {
    let platform = platform.sys_platform();
    let needed = metadata.requirements().filter(|it| it.marker.may_hold_with(platform, &[]));
    needed.map(|it| it.name).collect()
}

/// The version of `rocm` that was asked for, or all that the source offers, the newest first. Empty
/// for a source with packages of others only.
pub fn versions(request: &Request, offered: &OfferedSet) -> Result<Vec<Version>> {
    let versions = versions_of(offered, request.stream);
    match &request.version {
        None => Ok(versions),
        Some(wanted) if versions.contains(wanted) => Ok(vec![wanted.clone()]),
        Some(wanted) => Err(lacks(&format!("`{}`", offered.place), wanted, &versions)),
    }
}

/// The versions of `rocm` that a source offers, the newest first. With a stream, only its versions:
/// a place may have those of several.
pub fn versions_of(offered: &OfferedSet, stream: Option<ReleaseStream>) -> Vec<Version> {
    let selector = &DistNames::built_in().selector;
    let files = offered.files.iter();
    files
        .filter(|it| it.project.normalized() == selector)
        .map(|it| &it.version)
        .filter(|it| stream.is_none_or(|stream| it.stream() == stream))
        .sorted()
        .rev()
        .dedup()
        .cloned()
        .collect()
}

/// The refusal of a version that a place does not have.
pub fn lacks(place: &str, wanted: &Version, versions: &[Version]) -> Error {
    let newest = versions.iter().take(MOST_LISTED).join(", ");
    let newest = if newest.is_empty() { "none" } else { &newest };
    no(
        format!("{place} does not have ROCm {wanted}"),
        format!("the newest versions there are: {newest}"),
    )
}

/// Fails if the source lacks a package that `rocm` asks for with these extras. A published set may
/// be without some, and an installer would find that out after downloading the others.
pub fn ensure_has_all(
    offered: &OfferedSet,
    version: &Version,
    selection: &RocmSelection,
) -> Result<()> {
    let projects = selection.projects.iter();
    // What is no package of ROCm, such as setuptools, comes from the base index.
    let missing = projects
        .filter(|it| is_ours(it) && !offered.has(it.normalized(), version))
        .map(|it| format!("`{it}`"))
        .join(", ");
    if missing.is_empty() {
        return Ok(());
    }
    let place = &offered.place;
    Err(no(
        format!("`{place}` does not have {missing} {version}, which `rocm` asks for"),
        "it may still be uploaded: pass `--wait`; or ask for fewer `--extras`",
    ))
}

/// Chooses the extras of `rocm`, whose metadata this is.
pub fn select(
    request: &Request,
    offered: &OfferedSet,
    metadata: &Metadata,
) -> Result<RocmSelection> {
    let names = DistNames::built_in();
    if !metadata.requirements().any(|it| it.name.normalized() == names.core) {
        // The public registry has a `rocm` that is empty.
        let (version, place, core) = (&metadata.version, &offered.place, &names.core);
        return Err(no(
            format!("`rocm` {version} of `{place}` is a placeholder: it does not require `{core}`"),
            "name an index of ROCm, or a version with `--version`",
        ));
    }
    let known = extras_of(metadata);
    let target_of = |extra: &String| extra.strip_prefix(DEVICE)?.parse().ok();
    let device: Vec<Target> = known.iter().filter_map(target_of).collect();
    let mut family = None;
    let mut targets = Vec::new();
    if device.is_empty() {
        family = chosen_family(request, offered)?;
        ensure_for_family(request, metadata)?;
    } else {
        targets = wanted_targets(request, &device, metadata)?;
    }
    // The same as in the lines that `index`, `summary` and `pipeline` print.
    let usual = || {
        extras_that_bring(metadata, |name| {
            let is_devel = name.normalized() == names.devel;
            names.has_libraries(name)
                || is_devel && offered.has(name.normalized(), &metadata.version)
        })
    };
    let extras: Vec<String> = request
        .extras
        .clone()
        .unwrap_or_else(usual)
        .into_iter()
        .chain(targets.iter().map(|target| format!("{DEVICE}{target}")))
        .unique()
        .collect();
    let unknown = extras.iter().filter(|it| !known.contains(it));
    let unknown = unknown.map(|it| format!("`{it}`")).join(", ");
    if !unknown.is_empty() {
        return Err(no(
            format!("`rocm` {} does not have the extra {unknown}", metadata.version),
            format!("it has {}", known.join(", ")),
        ));
    }
    let platform = request.platform.sys_platform();
    let asked = extras.iter().map(String::as_str).collect_vec();
    let needed = metadata.requirements().filter(|it| it.marker.may_hold_with(platform, &asked));
    Ok(RocmSelection { projects: needed.map(|it| it.name).collect(), targets, family, extras })
}

/// The extras of a package, in order.
fn extras_of(metadata: &Metadata) -> Vec<String> {
    let named = metadata.provides_extra.iter().cloned();
    named.chain(extras_that_bring(metadata, |_| true)).unique().collect()
}

/// The extras of a package that bring one of these projects, in order.
fn extras_that_bring(metadata: &Metadata, is_meant: impl Fn(&DistName) -> bool) -> Vec<String> {
    let requirements = metadata.requirements().filter(|it| is_meant(&it.name)).collect_vec();
    let extras = requirements.iter().flat_map(|it| it.marker.extras());
    extras.map(str::to_owned).collect()
}

/// The targets to install for, of those that have an extra.
fn wanted_targets(
    request: &Request,
    offered: &[Target],
    metadata: &Metadata,
) -> Result<Vec<Target>> {
    let (mut wanted, mut missing) = (Vec::new(), Vec::new());
    match &request.targets {
        TargetWish::Detected(found) if found.is_empty() => {
            return Err(no_gpu(&offered.iter().join(", ")));
        }
        TargetWish::Detected(found) => {
            let all = found.iter().map(Target::base);
            let (has, lacks): (Vec<_>, Vec<_>) = all.partition(|it| offered.contains(it));
            // Beside a GPU that has code, another one may go without, such as that of the processor.
            if has.is_empty() {
                missing.extend(lacks.iter().map(ToString::to_string));
            }
            wanted.extend(has);
        }
        TargetWish::Named(pattern) => {
            for (name, one) in pattern.names().zip(pattern.each()) {
                let of_name = packaged(one)?;
                let is_family = of_name.len() != 1 || name.parse::<Target>().is_err();
                let before = wanted.len();
                wanted.extend(of_name.into_iter().filter(|it| offered.contains(it)));
                // Not each run builds for every target of a family.
                if wanted.len() == before {
                    let noun = if is_family { "any target of " } else { "" };
                    missing.push(format!("{noun}{name}"));
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(wanted.into_iter().unique().collect());
    }
    let what = missing.join(", ");
    Err(no(
        format!("ROCm {} has no device code for {what}", metadata.version),
        format!(
            "it has code for {}; `--target none` installs without device code",
            offered.iter().join(", ")
        ),
    ))
}

/// The targets of a pattern, as device packages are called: the package of `gfx942` has the code for
/// `gfx942:xnack+` too.
fn packaged(pattern: TargetPattern) -> Result<Vec<Target>> {
    let targets = TargetTable::builtin().select_with_newer(&[pattern])?;
    Ok(targets.iter().map(Target::packaged).unique().collect())
}

/// The family to install for, in a set with an index for each. Its packages have the device code of
/// all targets of the family, and its `rocm` needs no others.
pub fn chosen_family(request: &Request, offered: &OfferedSet) -> Result<Option<ArtifactGroup>> {
    let families = offered.families();
    if families.is_empty() {
        return Ok(None);
    }
    let names = names_of(&request.targets, &families.iter().join(", "))?;
    let table = TargetTable::builtin();
    let is_for = |family: &ArtifactGroup, name: &String| {
        let known = family.as_str().parse::<Family>();
        family.as_str().eq_ignore_ascii_case(name)
            || known.is_ok_and(|it| table.targets(&it).any(|it| it.as_str() == name))
    };
    let fitting = families.iter().filter(|family| names.iter().all(|name| is_for(family, name)));
    match fitting.exactly_one() {
        Ok(only) => Ok(Some(only.clone())),
        Err(_) => Err(no(
            format!(
                "the set has packages for each family, and `{}` is not in exactly one of them",
                names.join(",")
            ),
            format!("name one with `--target`: {}", families.iter().join(", ")),
        )),
    }
}

/// The names of the targets that are asked for.
fn names_of(wish: &TargetWish, offered: &str) -> Result<Vec<String>> {
    match wish {
        TargetWish::Detected(found) if found.is_empty() => Err(no_gpu(offered)),
        TargetWish::Detected(found) => Ok(found.iter().map(ToString::to_string).collect()),
        TargetWish::Named(pattern) => Ok(pattern.names().map(str::to_owned).collect()),
    }
}

/// Fails if the libraries of a set whose device code is not split are for other GPUs. What no table knows is left
/// to the user.
fn ensure_for_family(request: &Request, metadata: &Metadata) -> Result<()> {
    let names = DistNames::built_in();
    let families: Vec<String> = metadata
        .requirements()
        .filter_map(|it| names.libraries_family(&it.name).map(str::to_owned))
        .unique()
        .collect();
    if families.is_empty() {
        return Ok(());
    }
    let offered = families.join(", ");
    let table = TargetTable::builtin();
    let known = |name: &String| table.targets_named(name);
    let has: Vec<Target> = families.iter().flat_map(known).collect();
    for name in names_of(&request.targets, &offered)? {
        let wanted = known(&name);
        let fits = wanted.is_empty() || has.is_empty() || wanted.iter().any(|it| has.contains(it));
        if !fits {
            let version = &metadata.version;
            return Err(no(
                format!("ROCm {version} has no device code for {name}, only for {offered}"),
                "name the set of another family, or install without device code: `--target none --extras none`",
            ));
        }
    }
    Ok(())
}

fn no_gpu(offered: &str) -> Error {
    hinted(
        anyhow!(UNDETECTED),
        format!(
            "the set has code for {offered}: name one with `--target`, or install without device code: \
             `--target none`"
        ),
    )
}

/// The version of each project that the source offers, so that no other index can supply one.
///
/// Packages of ROCm have its version. A framework names the version of ROCm that it was built for in
/// the local part of its own, and an installer that may choose compares that as text: `rocm7` is
/// more than `rocm10`.
pub fn pins(
    offered: &OfferedSet,
    family: Option<&ArtifactGroup>,
    rocm: Option<&Metadata>,
    packages: &[Requirement],
) -> Vec<Pinned> {
    let (own, parts) = (rocm.map(|it| &it.version), rocm.map(parts));
    // Of an index, only the pages that matter were read.
    let parts = parts.unwrap_or_default();
    let choose = |project: &DistName| {
        let asked =
            packages.iter().find(|wish| wish.name == *project && !wish.specifier().is_empty());
        let newest = |is_wanted: &dyn Fn(&Version) -> bool| {
            let is_asked =
                |it: &Version| asked.is_none_or(|asked| asked.allows(it).unwrap_or(true));
            offered.newest(project.normalized(), |it| is_asked(it) && is_wanted(it))
        };
        own.filter(|it| parts.contains(project) || offered.has(project.normalized(), it))
            .or_else(|| newest(&|it| own.is_some_and(|rocm| is_for(it, rocm))))
            .or_else(|| newest(&|it| it.of_rocm().is_none()))
            .or_else(|| newest(&|_| true))
    };
    let files = offered.files.iter();
    let files = files.filter(|it| it.family.is_none() || it.family.as_ref() == family);
    files
        .map(|it| it.project.clone())
        .chain(parts.iter().cloned())
        .sorted()
        .dedup()
        .filter_map(|project| {
            let version = choose(&project)?.clone();
            let digests = files_of(offered, family, &project, &version).map(|it| it.sha256);
            Some(Pinned {
                digests: digests.collect::<Option<_>>().unwrap_or_default(),
                extras: String::new(),
                project,
                version,
            })
        })
        .collect()
}

/// The files of one version of a project, by their names.
pub(super) fn files_of<'a>(
    offered: &'a OfferedSet,
    family: Option<&ArtifactGroup>,
    project: &DistName,
    version: &Version,
) -> impl Iterator<Item = &'a OfferedFile> {
    let files = offered.files.iter();
    files
        .filter(|it| it.project == *project && it.version == *version)
        .filter(|it| it.family.is_none() || it.family.as_ref() == family)
        .sorted_by(|a, b| a.name.cmp(&b.name))
}

/// The packages of ROCm, all of which its selector names.
pub(super) fn parts(rocm: &Metadata) -> BTreeSet<DistName> {
    let parts = rocm.requirements().filter(|it| it.pin().as_ref() == Some(&rocm.version));
    parts.map(|it| it.name).collect()
}

/// Whether a version of a framework was built for this version of ROCm. A framework of a build of one
/// commit names the beginning of the commit.
pub(super) fn is_for(framework: &Version, rocm: &Version) -> bool {
    framework.of_rocm().is_some_and(|named| {
        let text = named.to_string();
        named == *rocm || (text.contains('+') && rocm.to_string().starts_with(&text))
    })
}

/// Fails if the chosen version of a framework is for another version of ROCm, unless the user has named
/// exactly that one.
pub(super) fn ensure_for(
    wish: &Requirement,
    pin: &Pinned,
    rocm: &Version,
    offered: &OfferedSet,
) -> Result<()> {
    let (project, version) = (&pin.project, &pin.version);
    if version.of_rocm().is_none() || is_for(version, rocm) || wish.specifier().contains('+') {
        return Ok(());
    }
    let files = offered.files.iter().filter(|it| it.project == *project);
    let versions = files.map(|it| &it.version).unique().sorted().rev();
    Err(no(
        format!("`{}` has no `{project}` for ROCm {rocm}", offered.place),
        format!(
            "it has {}: install that version of ROCm with `--version`, or name one of them exactly",
            versions.take(MOST_LISTED).join(", ")
        ),
    ))
}

/// A requirement of the user, with the extras for the device code of the targets that the package
/// has: `torch[device-gfx942]>=2.10`. Some packages have an extra for a group of targets:
/// `device-gfx110x`, `device-gfx12-0`.
pub(super) fn with_device_code(
    wish: &Requirement,
    metadata: &Metadata,
    targets: &[Target],
) -> String {
    let known = extras_of(metadata);
    let extra_of = |target: &Target| {
        let has = |extra: &&String| {
            let name = extra.strip_prefix(DEVICE).unwrap_or_default();
            TargetTable::builtin().targets_named(name).contains(target)
        };
        let exact = known.iter().find(|it| **it == format!("{DEVICE}{target}"));
        exact.or_else(|| known.iter().find(has))
    };
    let extras = targets.iter().filter_map(extra_of).unique().join(",");
    // In brackets, the user has chosen.
    if extras.is_empty() || !wish.extras.is_empty() {
        return wish.to_string();
    }
    wish.with_extras(&extras)
}

/// A negative answer with advice.
pub(super) fn no(text: String, hint: impl Into<String>) -> Error {
    hinted(No(text), hint.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_of_two_extras_is_in_both_and_in_nothing_else() {
        let metadata = "Metadata-Version: 2.1\nName: a\nVersion: 1\n\
            Requires-Dist: b; extra == 'x' or extra == 'y'\n\
            Requires-Dist: c; 'z' == extra\n\
            Requires-Dist: d; sys_platform == 'win32' or extra == 'x'\n\
            Requires-Dist: e\n";
        let metadata = Metadata::parse(metadata.as_bytes()).unwrap();
        assert_eq!(extras_of(&metadata), ["x", "y", "z"]);
        let needed = |platform| needed_by(&metadata, platform).iter().join(" ");
        assert_eq!((&*needed(Platform::Linux), &*needed(Platform::Windows)), ("e", "d e"));
    }
}
