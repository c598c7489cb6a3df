//! Which packages of a place are compared, and what each is called in both sets.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use crate::{
    index::{identity, is_ours},
    place::{PackageDirectories, PlaceDepth, SetPlace, StoredPackage, find},
};
use rocwheel_base::{
    error::{Result, bail},
    version::Version,
};
use rocwheel_wheel::PackageFilename;

/// Chooses the packages of a place that are compared: the packages of the version that was asked for, or else
/// the newest package of each project.
pub(super) fn choose_packages(place: &SetPlace) -> Result<Vec<StoredPackage>> {
    let depth = match place.local() {
        Some(_) => PlaceDepth::Packages(PackageDirectories::Built),
        None => PlaceDepth::Pages,
    };
    let listing = find(place, depth)?;
    let mut packages = listing.packages;
    let missing: Vec<&String> = listing.published.iter().flat_map(|pages| &pages.gone).collect();
    // A package that only the pages name counts: if it is the newest of its project, the older one must not
    // be compared in its place.
    let names = packages.iter().map(|package| &package.name).chain(missing.iter().copied());
    let newest = NewestVersions::of(names.map(String::as_str));
    let is_wanted = |name: &str| match &place.version {
        Some(wanted) => our_version(name).as_ref() == Some(wanted),
        None => newest.include(name),
    };
    if let Some(name) = missing.iter().find(|name| is_wanted(name)) {
        bail!("its pages name `{name}`, which is missing");
    }
    packages.retain(|package| is_wanted(&package.name));
    if let Some(wanted) = &place.version
        && packages.is_empty()
    {
        bail!("it has no packages of version {wanted}");
    }
    Ok(packages)
}

/// The newest version of each project.
pub(super) struct NewestVersions(BTreeMap<String, Version>);

impl NewestVersions {
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let versions = names.filter_map(|name| Some((project_below(name)?, identity(name)?.1)));
        // A map keeps the last value of a key, and the newest version of a project is sorted last.
        Self(versions.sorted().collect())
    }

    /// Whether a file has the newest version of its project. A file whose name says no version counts as
    /// one.
    pub(super) fn include(&self, name: &str) -> bool {
        let newest = project_below(name).and_then(|project| self.0.get(&project));
        newest == identity(name).map(|(_, version)| version).as_ref()
    }
}

/// The project of a package of ours.
pub(super) fn our_project(name: &str) -> Option<String> {
    let (project, _) = identity(name)?;
    is_ours(&project).then(|| project.normalized().to_owned())
}

/// The version of a package of ours.
pub(super) fn our_version(name: &str) -> Option<Version> {
    let (project, version) = identity(name)?;
    is_ours(&project).then_some(version)
}

/// The project of a package, below the directory of its family if it has one: `gfx94X-dcgpu/rocm`.
fn project_below(name: &str) -> Option<String> {
    let (dist, _) = identity(name)?;
    let project = dist.normalized();
    match name.rsplit_once('/') {
        Some((directory, _)) => Some(format!("{directory}/{project}")),
        None => Some(project.to_owned()),
    }
}

/// The projects for which a set has several wheels, such as one for each platform. Variant wheels do not count:
/// their labels tell them apart.
pub(super) fn projects_with_several_wheels<'a>(
    names: impl Iterator<Item = &'a str>,
) -> BTreeSet<String> {
    let is_variant = |name: &&str| parse_name(name).is_some_and(|parsed| parsed.label.is_some());
    names.filter(|name| !is_variant(name)).filter_map(project_below).duplicates().collect()
}

/// The parts of the name of a package, which may be below the directory of its family.
fn parse_name(name: &str) -> Option<PackageFilename> {
    name.rsplit('/').next()?.parse().ok()
}

/// What a package is called in both sets: its project, with the tag of its wheel if `several` has the
/// project, and with the label of a variant wheel.
pub(super) fn package_key(name: &str, several: &BTreeSet<String>) -> String {
    let project = project_below(name).unwrap_or(name.to_owned());
    let Some(PackageFilename { tag: Some(tag), label, .. }) = parse_name(name) else {
        return project;
    };
    match label {
        Some(label) => format!("{project} ({tag}, variant {label})"),
        None if several.contains(&project) => format!("{project} ({tag})"),
        None => project,
    }
}
