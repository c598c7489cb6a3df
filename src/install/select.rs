//! Decides what to ask for: the version, the targets, the extras and the version of each project.
//! Everything here is decided from what the source says, before an installer is started: pip and uv
//! only warn about an extra that does not exist, and exit with success.

use std::collections::BTreeSet;

use itertools::Itertools as _;

use super::{Request, requirements::Pinned};
use crate::{
    gpu::UNDETECTED,
    index::is_ours,
    place::{OfferedFile, OfferedSet},
    policy::DistNames,
    run::{ArtifactGroup, Platform},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Error, No, Result, anyhow, hinted},
    target::{Family, Target, TargetPattern, TargetTable},
    version::{ReleaseStream, Version},
};
use rocwheel_wheel::{DistName, Metadata, Requirement};

/// The beginning of an extra for the device code of a target, as ROCm and frameworks have it.
pub(super) const DEVICE: &str = "device-";
/// How many versions an error lists.
const MOST_LISTED: usize = 8;

/// Which targets the user wants device code for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetWish {
    /// The targets of the GPUs of this machine.
    Detected(Vec<Target>),
    /// What the user named. With no names, only the code for the CPU.
    Named(TargetPattern),
}

/// What is asked for of the `rocm` package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RocmSelection {
    pub targets: Vec<Target>,
    pub extras: Vec<String>,
    /// The family whose index has the packages, in a set with an index for each family.
    pub family: Option<ArtifactGroup>,
    /// The projects that `rocm` needs with these extras, and the projects that these projects need: the
    /// development files need the libraries, whose extra need not be asked for.
    pub projects: BTreeSet<DistName>,
}

impl RocmSelection {
    /// Adds projects, and returns the projects that are new.
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

/// What a package needs on a platform without any of its extras.
pub fn needed_by(metadata: &Metadata, platform: Platform) -> BTreeSet<DistName> {
    metadata
        .requirements()
        .filter(|requirement| requirement.marker.may_hold_with(platform.sys_platform(), &[]))
        .map(|requirement| requirement.name)
        .collect()
}

/// The version of `rocm` that was asked for, or all versions that the source offers, the newest first. Empty
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
/// a place may have the versions of several streams.
pub fn versions_of(offered: &OfferedSet, stream: Option<ReleaseStream>) -> Vec<Version> {
    let selector = &DistNames::built_in().selector;
    offered
        .files
        .iter()
        .filter(|file| file.project.normalized() == selector)
        .map(|file| &file.version)
        .filter(|version| stream.is_none_or(|stream| version.stream() == stream))
        .sorted()
        .rev()
        .dedup()
        .cloned()
        .collect()
}

/// The refusal of a version that a place does not have.
pub fn lacks(place: &str, wanted: &Version, versions: &[Version]) -> Error {
    let newest = versions.iter().take(MOST_LISTED).join(", ");
    let shown = if newest.is_empty() { "none" } else { &newest };
    no(
        format!("{place} does not have ROCm {wanted}"),
        format!("the newest versions there are: {shown}"),
    )
}

/// Fails if the source lacks a package that `rocm` asks for with these extras. A published set may lack
/// packages, and an installer would find that out after it has downloaded the others.
pub fn ensure_has_all(
    offered: &OfferedSet,
    version: &Version,
    selection: &RocmSelection,
) -> Result<()> {
    // A package of others, such as setuptools, comes from the base index.
    let missing = selection
        .projects
        .iter()
        .filter(|project| is_ours(project) && !offered.has(project.normalized(), version))
        .map(|project| format!("`{project}`"))
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
        let version = &metadata.version;
        let place = &offered.place;
        let core = &names.core;
        return Err(no(
            format!("`rocm` {version} of `{place}` is a placeholder: it does not require `{core}`"),
            "name an index of ROCm, or a version with `--version`",
        ));
    }
    let platform = request.platform;
    let all = extras_of(metadata);
    let is_split = all.iter().any(|extra| target_of(extra).is_some());
    let known: Vec<String> = all
        .into_iter()
        .filter(|extra| target_of(extra).is_none() || brings_any(metadata, extra, platform))
        .collect();
    let targets_with_extra: Vec<Target> =
        known.iter().filter_map(|extra| target_of(extra)).collect();
    let mut family = None;
    let mut targets = Vec::new();
    // Without extras for device code, the code is inside the libraries, so a GPU chooses a family, if it chooses
    // anything.
    if is_split {
        targets = wanted_targets(request, &targets_with_extra, metadata)?;
    } else {
        family = chosen_family(request, offered)?;
        ensure_for_family(request, metadata)?;
    }
    // The lines that `index`, `summary` and `pipeline` print have the same extras.
    let usual_extras = || {
        extras_that_bring(metadata, |name| {
            let is_devel = name.normalized() == names.devel;
            names.has_libraries(name)
                || is_devel
                    && request.usually_with_devel
                    && offered.has(name.normalized(), &metadata.version)
        })
    };
    let extras: Vec<String> = request
        .extras
        .clone()
        .unwrap_or_else(usual_extras)
        .into_iter()
        .chain(targets.iter().map(|target| format!("{DEVICE}{target}")))
        .unique()
        .collect();
    // Installers only warn about an extra that does not exist.
    let unknown = extras
        .iter()
        .filter(|extra| !known.contains(extra))
        .map(|extra| format!("`{extra}`"))
        .join(", ");
    if !unknown.is_empty() {
        return Err(no(
            format!("`rocm` {} does not have the extra {unknown}", metadata.version),
            format!("it has {}", known.join(", ")),
        ));
    }
    let extra_names = extras.iter().map(String::as_str).collect_vec();
    let projects = metadata
        .requirements()
        .filter(|requirement| {
            requirement.marker.may_hold_with(platform.sys_platform(), &extra_names)
        })
        .map(|requirement| requirement.name)
        .collect();
    Ok(RocmSelection { targets, extras, family, projects })
}

/// The target whose device code an extra of `rocm` brings.
fn target_of(extra: &str) -> Option<Target> {
    extra.strip_prefix(DEVICE)?.parse().ok()
}

/// Whether an extra brings a project on a platform. The `rocm` of a run names the targets of Linux and of Windows.
fn brings_any(metadata: &Metadata, extra: &str, platform: Platform) -> bool {
    metadata.requirements().any(|requirement| {
        requirement.marker.is_for_extra(extra)
            && requirement.marker.may_hold_with(platform.sys_platform(), &[extra])
    })
}

/// The extras of a package, in order.
fn extras_of(metadata: &Metadata) -> Vec<String> {
    metadata
        .provides_extra
        .iter()
        .cloned()
        .chain(extras_that_bring(metadata, |_| true))
        .unique()
        .collect()
}

/// The extras of a package that bring one of these projects, in order.
fn extras_that_bring(metadata: &Metadata, is_meant: impl Fn(&DistName) -> bool) -> Vec<String> {
    let mut extras = Vec::new();
    for requirement in metadata.requirements() {
        if is_meant(&requirement.name) {
            extras.extend(requirement.marker.extras().into_iter().map(str::to_owned));
        }
    }
    extras
}

/// The targets to install for. `offered` are the targets that have an extra on the platform.
fn wanted_targets(
    request: &Request,
    offered: &[Target],
    metadata: &Metadata,
) -> Result<Vec<Target>> {
    let listed = match &*offered.iter().join(", ") {
        "" => "no target".to_owned(),
        targets => targets.to_owned(),
    };
    let mut wanted = Vec::new();
    let mut missing = Vec::new();
    match &request.targets {
        TargetWish::Detected(detected) if detected.is_empty() => {
            return Err(no_gpu(&listed));
        }
        TargetWish::Detected(detected) => {
            let (with_code, without_code): (Vec<_>, Vec<_>) =
                detected.iter().map(Target::base).partition(|target| offered.contains(target));
            // A machine may have a GPU with code and a GPU without, such as the GPU of the processor.
            if with_code.is_empty() {
                missing.extend(without_code.iter().map(ToString::to_string));
            }
            wanted.extend(with_code);
        }
        TargetWish::Named(pattern) => {
            for (name, pattern) in pattern.names().zip(pattern.each()) {
                let named = packaged(pattern)?;
                let is_family = named.len() != 1 || name.parse::<Target>().is_err();
                let count_before = wanted.len();
                wanted.extend(named.into_iter().filter(|target| offered.contains(target)));
                // Not each run builds for every target of a family, so one target of the family is enough.
                if wanted.len() == count_before {
                    let noun = if is_family { "any target of " } else { "" };
                    missing.push(format!("{noun}{name}"));
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(wanted.into_iter().unique().collect());
    }
    Err(no(
        format!(
            "ROCm {} has no device code for {} on {}",
            metadata.version,
            missing.join(", "),
            request.platform
        ),
        format!("it has code for {listed}; `--target none` installs without device code"),
    ))
}

/// The targets of a pattern, as device packages are called: the package of `gfx942` has the code for
/// `gfx942:xnack+` too.
fn packaged(pattern: TargetPattern) -> Result<Vec<Target>> {
    let targets = TargetTable::builtin().select_with_newer(&[pattern])?;
    Ok(targets.iter().map(Target::packaged).unique().collect())
}

/// The family to install for, in a set with an index for each family. The packages of a family have the
/// device code of all its targets, and the `rocm` of a family needs no package of another family.
pub fn chosen_family(request: &Request, offered: &OfferedSet) -> Result<Option<ArtifactGroup>> {
    let families = offered.families();
    if families.is_empty() {
        return Ok(None);
    }
    let names = names_of(&request.targets, &families.iter().join(", "))?;
    let table = TargetTable::builtin();
    let is_for = |family: &ArtifactGroup, name: &String| {
        let has_target =
            |family: Family| table.targets(&family).any(|target| target.as_str() == name);
        family.as_str().eq_ignore_ascii_case(name) || family.as_str().parse().is_ok_and(has_target)
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
        TargetWish::Detected(detected) if detected.is_empty() => Err(no_gpu(offered)),
        TargetWish::Detected(detected) => Ok(detected.iter().map(ToString::to_string).collect()),
        TargetWish::Named(pattern) => Ok(pattern.names().map(str::to_owned).collect()),
    }
}

/// Fails if the libraries of a set whose device code is not split are for other GPUs. A name that no table
/// knows is left to the user.
fn ensure_for_family(request: &Request, metadata: &Metadata) -> Result<()> {
    let names = DistNames::built_in();
    let families: Vec<String> = metadata
        .requirements()
        .filter_map(|requirement| names.libraries_family(&requirement.name).map(str::to_owned))
        .unique()
        .collect();
    if families.is_empty() {
        return Ok(());
    }
    let offered = families.join(", ");
    let table = TargetTable::builtin();
    let targets_named = |name: &String| table.targets_named(name);
    let with_code: Vec<Target> = families.iter().flat_map(targets_named).collect();
    for name in names_of(&request.targets, &offered)? {
        let wanted = targets_named(&name);
        let is_unknown = wanted.is_empty() || with_code.is_empty();
        if !is_unknown && !wanted.iter().any(|target| with_code.contains(target)) {
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

/// The version of each project that the source offers, so that no other index can supply the project.
///
/// Packages of ROCm have the version of ROCm. A framework names the version of ROCm that it was built for in
/// the local part of its version, and an installer that may choose compares local parts as text: `rocm7` is
/// more than `rocm10`.
pub fn pins(
    offered: &OfferedSet,
    family: Option<&ArtifactGroup>,
    rocm: Option<&Metadata>,
    packages: &[Requirement],
) -> Vec<Pinned> {
    // Only the pages of an index that matter were read, so `offered` need not have all parts.
    let parts = rocm.map(parts).unwrap_or_default();
    let projects: BTreeSet<DistName> = offered
        .files
        .iter()
        .filter(|file| file.family.is_none() || file.family.as_ref() == family)
        .map(|file| file.project.clone())
        .chain(parts.iter().cloned())
        .collect();
    let mut pins = Vec::new();
    for project in projects {
        let version = match rocm {
            Some(rocm) if parts.contains(&project) => Some(&rocm.version),
            _ => choose_version(offered, &project, rocm, packages),
        };
        if let Some(version) = version.cloned() {
            // If a file has no digest, an installer must not demand the digests of the other files.
            let digests = files_of(offered, family, &project, &version)
                .map(|file| file.sha256)
                .collect::<Option<Vec<Sha256>>>()
                .unwrap_or_default();
            pins.push(Pinned { digests, extras: String::new(), project, version });
        }
    }
    pins
}

/// Chooses the version of a project that `rocm` does not name: the version of ROCm, or else the newest version
/// for this ROCm, for no particular ROCm, or at all. The user may have asked for some of the versions.
fn choose_version<'a>(
    offered: &'a OfferedSet,
    project: &DistName,
    rocm: Option<&'a Metadata>,
    packages: &[Requirement],
) -> Option<&'a Version> {
    let rocm_version = rocm.map(|metadata| &metadata.version);
    if let Some(version) = rocm_version
        && offered.has(project.normalized(), version)
    {
        return Some(version);
    }
    let wish = packages.iter().find(|wish| wish.name == *project && !wish.specifier().is_empty());
    let newest = |is_wanted: &dyn Fn(&Version) -> bool| {
        offered.newest(project.normalized(), |version| {
            wish.is_none_or(|wish| wish.allows(version).unwrap_or(true)) && is_wanted(version)
        })
    };
    newest(&|version| rocm_version.is_some_and(|rocm| version.is_for_rocm(rocm)))
        .or_else(|| newest(&|version| version.of_rocm().is_none()))
        .or_else(|| newest(&|_| true))
}

/// The files of one version of a project, by their names.
pub fn files_of<'a>(
    offered: &'a OfferedSet,
    family: Option<&ArtifactGroup>,
    project: &DistName,
    version: &Version,
) -> impl Iterator<Item = &'a OfferedFile> {
    offered
        .files
        .iter()
        .filter(|file| file.project == *project && file.version == *version)
        .filter(|file| file.family.is_none() || file.family.as_ref() == family)
        .sorted_by(|a, b| a.name.cmp(&b.name))
}

/// The packages of ROCm, all of which its selector names.
pub(super) fn parts(rocm: &Metadata) -> BTreeSet<DistName> {
    rocm.requirements()
        .filter(|requirement| requirement.pin().as_ref() == Some(&rocm.version))
        .map(|requirement| requirement.name)
        .collect()
}

/// Fails if the chosen version of a framework is for another version of ROCm, unless the user has named
/// exactly this version of the framework.
pub(super) fn ensure_for(
    wish: &Requirement,
    pin: &Pinned,
    rocm: &Version,
    offered: &OfferedSet,
) -> Result<()> {
    let Pinned { project, version, .. } = pin;
    if version.of_rocm().is_none() || version.is_for_rocm(rocm) || wish.specifier().contains('+') {
        return Ok(());
    }
    let mut versions = offered
        .files
        .iter()
        .filter(|file| file.project == *project)
        .map(|file| &file.version)
        .unique()
        .sorted()
        .rev();
    Err(no(
        format!("`{}` has no `{project}` for ROCm {rocm}", offered.place),
        format!(
            "it has {}: install that version of ROCm with `--version`, or name one of them exactly",
            versions.by_ref().take(MOST_LISTED).join(", ")
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
    let find_extra = |target: &Target| {
        let is_for_group = |extra: &&String| {
            let group = extra.strip_prefix(DEVICE).unwrap_or_default();
            TargetTable::builtin().targets_named(group).contains(target)
        };
        let exact = known.iter().find(|extra| **extra == format!("{DEVICE}{target}"));
        exact.or_else(|| known.iter().find(is_for_group))
    };
    let extras = targets.iter().filter_map(find_extra).unique().join(",");
    // A user who writes extras in brackets has chosen, and may want no device code.
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
