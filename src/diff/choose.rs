//! Which packages of a place are compared, and what each is called in both sets.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use crate::{
    error::{Result, bail},
    index::{identity, is_ours},
    place::{PackageDirectories, PlaceDepth, SetPlace, StoredPackage, find},
    version::Version,
    wheel::PackageFilename,
};

/// The packages of a place: of the version that was asked for, or else the newest of each project.
pub(super) fn packages(place: &SetPlace) -> Result<Vec<StoredPackage>> {
    let depth = match place.local() {
        Some(_) => PlaceDepth::Packages(PackageDirectories::Built),
        None => PlaceDepth::Pages,
    };
    let found = find(place, depth)?;
    let mut packages = found.packages;
    let gone: Vec<&String> = found.published.iter().flat_map(|it| &it.gone).collect();
    let names = packages.iter().map(|it| &it.name).chain(gone.iter().copied());
    let newest = NewestVersions::of(names.map(String::as_str));
    let is_wanted = |name: &str| match &place.version {
        Some(wanted) => our_version(name).as_ref() == Some(wanted),
        None => newest.have(name),
    };
    if let Some(gone) = gone.iter().find(|it| is_wanted(it)) {
        bail!("its pages name `{gone}`, which is missing");
    }
    packages.retain(|it| is_wanted(&it.name));
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
        let known = names.filter_map(|name| Some((project(name)?, identity(name)?.1)));
        Self(known.sorted().collect())
    }

    /// Whether a file is of that version. Files whose names say no version are.
    pub(super) fn have(&self, name: &str) -> bool {
        let newest = project(name).and_then(|project| self.0.get(&project));
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

/// The project of a package, below the directory of its family if it has one.
fn project(name: &str) -> Option<String> {
    let (project, _) = identity(name)?;
    let directory = name.rsplit_once('/').map(|(directory, _)| directory);
    let directory = directory.map_or(String::new(), |it| format!("{it}/"));
    Some(format!("{directory}{}", project.normalized()))
}

/// The projects that a set has several wheels of, such as one for each platform.
pub(super) fn with_several_wheels<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    names.filter_map(project).duplicates().collect()
}

/// What a package is called in both sets: its project, with its tag if one of the sets has several
/// wheels of the project.
pub(super) fn key(name: &str, several: &BTreeSet<String>) -> String {
    let project = project(name).unwrap_or(name.to_owned());
    let file = name.rsplit('/').next().unwrap_or_default();
    let file: Option<PackageFilename> = file.parse().ok();
    match file.and_then(|name| name.tag) {
        Some(tag) if several.contains(&project) => format!("{project} ({tag})"),
        _ => project,
    }
}
