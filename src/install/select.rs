//! Decides what to ask for: the version, the targets, the extras and the version of each project.
//! Everything here is decided from what the source says, before an installer is started: pip and uv
//! only warn about an extra that does not exist, and exit with success.

use std::collections::BTreeSet;

use itertools::Itertools as _;

use super::Request;
use crate::{
    error::{Error, No, Result, anyhow, hinted},
    gpu::UNDETECTED,
    run::ArtifactGroup,
    set::OfferedSet,
    target::{Family, Scope, Target, TargetTable},
    version::{ReleaseStream, Version},
    wheel::{DistName, Metadata, RequirementLine},
};

/// The package whose extras select the others.
pub(super) const SELECTOR: &str = "rocm";
/// The package that each `rocm` requires.
const CORE: &str = "rocm-sdk-core";
/// The extra that is installed if no other is asked for.
const USUAL: &str = "libraries";
const DEVICE: &str = "device-";
/// How many versions an error lists.
const MOST_LISTED: usize = 8;

/// Which targets the user wants device code for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetWish {
    /// Those of the GPUs of this machine.
    Detected(Vec<Target>),
    /// Targets and families, as the user wrote them.
    Named(Vec<String>),
    /// None: only the code for the CPU.
    Without,
}

/// What is asked for of the `rocm` package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RocmSelection {
    pub targets: Vec<Target>,
    pub extras: Vec<String>,
    /// The family whose index has the packages, in a set with one for each.
    pub family: Option<ArtifactGroup>,
    /// The projects that `rocm` needs with these extras.
    pub projects: BTreeSet<DistName>,
    /// The targets of GPUs of this machine, beside those that it has, for which it has no code.
    pub lacking: Vec<Target>,
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
    let is_wanted = |it: &Version| stream.is_none_or(|stream| it.stream() == stream);
    let files = offered.files.iter();
    let files = files.filter(|it| it.project.normalized() == SELECTOR && is_wanted(&it.version));
    let versions = files.map(|it| it.version.clone()).sorted().rev().dedup();
    versions.collect()
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

/// Chooses the extras of `rocm`, whose metadata this is.
pub fn select(
    request: &Request,
    offered: &OfferedSet,
    metadata: &Metadata,
) -> Result<RocmSelection> {
    ensure_rocm(metadata, offered)?;
    let known = extras_of(metadata);
    let has = |extra: &str| known.iter().any(|it| it == extra);
    let device: Vec<Target> = known.iter().filter_map(|it| target_of(it)).collect();
    let families = offered.families();
    let (targets, family) = if device.is_empty() {
        (Vec::new(), family(request, &families)?)
    } else {
        (targets(request, &device, metadata)?, None)
    };
    let lacking = match &request.targets {
        TargetWish::Detected(found) if !device.is_empty() => {
            let found = found.iter().map(Target::base);
            found.filter(|it| !targets.contains(it)).collect()
        }
        _ => Vec::new(),
    };
    let usual = || has(USUAL).then(|| USUAL.to_owned()).into_iter().collect();
    let mut extras: Vec<String> = request.extras.clone().unwrap_or_else(usual);
    extras.extend(targets.iter().map(|target| format!("{DEVICE}{target}")));
    let extras: Vec<String> = extras.into_iter().unique().collect();
    let unknown = extras.iter().filter(|it| !has(it));
    let unknown = unknown.map(|it| format!("`{it}`")).join(", ");
    if !unknown.is_empty() {
        return Err(no(
            format!(
                "`rocm` {} does not have the extra {unknown}",
                metadata.version
            ),
            format!("it has {}", known.join(", ")),
        ));
    }
    let platform = request.platform.sys_platform();
    let lines = metadata.requires_dist.iter();
    let lines = lines.filter_map(|line| RequirementLine::parse(line));
    let needed = lines.filter(|line| {
        let is_asked = |extra: &str| extras.iter().any(|it| it == extra);
        line.extra.is_none_or(is_asked) && line.may_apply_on(platform)
    });
    Ok(RocmSelection {
        targets,
        family,
        projects: needed.map(|line| line.name).collect(),
        lacking,
        extras,
    })
}

/// Fails for a package that only has the name: the public registry has a `rocm` that is empty.
fn ensure_rocm(metadata: &Metadata, offered: &OfferedSet) -> Result<()> {
    let lines = metadata.requires_dist.iter();
    let mut lines = lines.filter_map(|line| RequirementLine::parse(line));
    if lines.any(|line| line.name.normalized() == CORE) {
        return Ok(());
    }
    let (version, place) = (&metadata.version, &offered.place);
    Err(no(
        format!("`rocm` {version} of `{place}` is a placeholder: it does not require `{CORE}`"),
        "name an index of ROCm, or a version with `--version`".to_owned(),
    ))
}

/// The extras of a package, in order.
fn extras_of(metadata: &Metadata) -> Vec<String> {
    let lines = metadata.requires_dist.iter();
    let lines = lines.filter_map(|line| RequirementLine::parse(line)?.extra.map(str::to_owned));
    let named = metadata.provides_extra.iter().cloned();
    named.chain(lines).unique().collect()
}

fn target_of(extra: &str) -> Option<Target> {
    extra.strip_prefix(DEVICE)?.parse().ok()
}

/// The targets to install for, of those that have an extra.
fn targets(request: &Request, offered: &[Target], metadata: &Metadata) -> Result<Vec<Target>> {
    let mut wanted = Vec::new();
    let mut missing = Vec::new();
    match &request.targets {
        TargetWish::Without => {}
        TargetWish::Detected(found) if found.is_empty() => {
            return Err(no_gpu(&offered.iter().join(", ")));
        }
        TargetWish::Detected(found) => {
            let (has, lacks): (Vec<_>, Vec<_>) = found
                .iter()
                .map(Target::base)
                .partition(|it| offered.contains(it));
            // Beside a GPU that has code, another one may go without, such as that of the processor.
            if has.is_empty() {
                missing.extend(lacks.iter().map(ToString::to_string));
            }
            wanted.extend(has);
        }
        TargetWish::Named(names) => {
            for name in names {
                let of_name = expand(name)?;
                let is_family = of_name.len() != 1 || name.parse::<Target>().is_err();
                let mut has = of_name
                    .into_iter()
                    .filter(|it| offered.contains(it))
                    .peekable();
                // Not each run builds for every target of a family.
                if has.peek().is_none() {
                    let noun = if is_family { "any target of " } else { "" };
                    missing.push(format!("{noun}{name}"));
                }
                wanted.extend(has);
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

/// The targets of a name, as device packages are called: that of `gfx942` has the code for
/// `gfx942:xnack+` too.
fn expand(name: &str) -> Result<Vec<Target>> {
    let known = TargetTable::builtin().resolve(&[name]);
    let known = known.map(|known| known.iter().map(Target::packaged).unique().collect());
    known.or_else(|unknown| match name.parse() {
        // A newer ROCm may have targets that this program does not know.
        Ok(Scope::Target(target)) => Ok(vec![target.base()]),
        _ => Err(unknown.hinted()),
    })
}

/// The family to install for, in a set with an index for each. Its packages have the device code of
/// all targets of the family.
fn family(request: &Request, families: &[ArtifactGroup]) -> Result<Option<ArtifactGroup>> {
    if families.is_empty() {
        return Ok(None);
    }
    let names = match &request.targets {
        TargetWish::Without => Vec::new(),
        TargetWish::Detected(found) if found.is_empty() => {
            return Err(no_gpu(&families.iter().join(", ")));
        }
        TargetWish::Detected(found) => found.iter().map(ToString::to_string).collect(),
        TargetWish::Named(names) => names.clone(),
    };
    let table = TargetTable::builtin();
    let is_for = |family: &ArtifactGroup, name: &String| {
        let targets = family.as_str().parse::<Family>().ok();
        let targets = targets
            .into_iter()
            .flat_map(|it| table.targets(&it).cloned().collect_vec());
        family.as_str() == name || targets.into_iter().any(|it| it.as_str() == name)
    };
    let mut fitting = families
        .iter()
        .filter(|family| names.iter().all(|name| is_for(family, name)));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(Some(only.clone())),
        _ => Err(no(
            format!(
                "the set has packages for each family, and `{}` is not in exactly one of them",
                names.join(",")
            ),
            format!("name one with `--target`: {}", families.iter().join(", ")),
        )),
    }
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
    rocm: Option<(&Version, &Metadata)>,
    packages: &[String],
) -> Vec<(DistName, Version)> {
    let asked = |project: &DistName| {
        let lines = packages.iter().filter_map(|it| RequirementLine::parse(it));
        let mut specifiers = lines
            .filter(|it| it.name == *project)
            .map(|it| it.specifier);
        let specifier = specifiers.next().filter(|it| !it.is_empty());
        move |version: &Version| specifier.is_none_or(|it| version.fulfils(it).unwrap_or(true))
    };
    let files = offered.files.iter();
    let files = files.filter(|it| it.family.is_none() || it.family.as_ref() == family);
    let projects = files.map(|it| &it.project).sorted().dedup();
    let pin = |project: &DistName| {
        let is_asked = asked(project);
        let rocm = rocm.map(|it| it.0);
        let name = project.normalized();
        let own = rocm.filter(|it| offered.has(name, it)).cloned();
        let tied = || {
            offered
                .newest(name, |it| is_asked(it) && is_tied(it, rocm))
                .cloned()
        };
        let free = || {
            offered
                .newest(name, |it| is_asked(it) && !names_rocm(it))
                .cloned()
        };
        let any = || offered.newest(name, is_asked).cloned();
        Some((
            project.clone(),
            own.or_else(tied).or_else(free).or_else(any)?,
        ))
    };
    let mut pins: Vec<(DistName, Version)> = projects.filter_map(pin).collect();
    // Of an index, only the pages that matter were read.
    if let Some((version, metadata)) = rocm {
        let parts = parts(metadata).into_iter();
        pins.extend(parts.map(|it| (it, version.clone())));
    }
    pins.into_iter()
        .sorted()
        .dedup_by(|a, b| a.0 == b.0)
        .collect()
}

/// The packages of ROCm, all of which its selector names.
pub fn parts(rocm: &Metadata) -> BTreeSet<DistName> {
    let lines = rocm.requires_dist.iter();
    let lines = lines.filter_map(|line| RequirementLine::parse(line));
    let exact = format!("=={}", rocm.version);
    let lines = lines.filter(|line| line.specifier == exact);
    lines.map(|line| line.name).collect()
}

/// The local part of a version of a framework that names a version of ROCm:
/// `rocm7.13.0rc1` of `2.10.0+rocm7.13.0rc1`, also in `2.9.0+devrocm7.10.0.dev0.efed3c`.
fn named_rocm(version: &Version) -> Option<String> {
    let text = version.to_string();
    let (_, local) = text.split_once('+')?;
    let (_, rocm) = local.split_once("rocm")?;
    Some(rocm.to_owned())
}

fn names_rocm(version: &Version) -> bool {
    named_rocm(version).is_some()
}

/// Whether a framework was built for this version of ROCm. A framework of a build of one commit
/// names the beginning of the commit.
pub(super) fn is_tied(version: &Version, rocm: Option<&Version>) -> bool {
    let Some((named, rocm)) = named_rocm(version).zip(rocm) else {
        return false;
    };
    let rocm = rocm.to_string().replace('+', ".");
    named == rocm || (named.contains(".dev0.") && rocm.starts_with(&named))
}

/// Fails if the chosen version of a framework is for another version of ROCm, unless the user has named
/// exactly that one.
pub(super) fn ensure_tied(
    text: &str,
    (project, version): &(DistName, Version),
    rocm: &Version,
    offered: &OfferedSet,
) -> Result<()> {
    if !names_rocm(version) || is_tied(version, Some(rocm)) || text.contains('+') {
        return Ok(());
    }
    let files = offered.files.iter().filter(|it| it.project == *project);
    let versions = files.map(|it| &it.version).unique();
    let mut versions = versions
        .sorted_by(|a, b| b.cmp_by_rocm(a))
        .take(MOST_LISTED);
    Err(no(
        format!("`{}` has no `{project}` for ROCm {rocm}", offered.place),
        format!(
            "it has {}: install that version of ROCm with `--version`, or name one of them exactly",
            versions.join(", ")
        ),
    ))
}

/// The extra of a framework with its device code for a target: `device-gfx942`, or else that of a
/// group of targets, `device-gfx110x` or `device-gfx12-0`.
fn device_extra(metadata: &Metadata, target: &Target) -> Option<String> {
    let extras = extras_of(metadata);
    let exact = format!("{DEVICE}{target}");
    let is_group = |extra: &&String| {
        let name = extra.strip_prefix(DEVICE).unwrap_or_default();
        let start = name.replace(['-', '_', '.'], "");
        let start = start.trim_end_matches('x');
        start.len() > "gfx1".len() - 1
            && target.as_str().len() == start.len() + 1
            && target.as_str().starts_with(start)
    };
    let mut known = extras.iter();
    let found = known
        .find(|it| **it == exact)
        .or_else(|| extras.iter().find(is_group));
    found.cloned()
}

/// A requirement of the user, with the extras for the device code of the targets that the package
/// has: `torch[device-gfx942]>=2.10`.
pub(super) fn with_device_code(text: &str, metadata: &Metadata, targets: &[Target]) -> String {
    let extras = targets.iter().filter_map(|it| device_extra(metadata, it));
    let extras = extras.unique().join(",");
    let Some(line) = RequirementLine::parse(text).filter(|_| !extras.is_empty()) else {
        return text.to_owned();
    };
    // The user has chosen.
    if text.contains('[') {
        return text.to_owned();
    }
    format!("{}[{extras}]{}", line.name, line.specifier)
}

/// A negative answer with advice.
pub(super) fn no(text: String, hint: String) -> Error {
    hinted(No(text), hint)
}
