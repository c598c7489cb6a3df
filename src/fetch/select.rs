//! Selects archives of a run by target, family, group, component and pattern, and checks, before
//! anything is downloaded, whether they are enough to build packages. Reads and writes no files.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regex::Regex;

use super::source::ArtifactArchive;
use crate::{
    artifact::{ArtifactName, Component, TherockManifest},
    policy::{
        catalog::{Catalog, PackageKind, PackageSpec},
        naming::DistributionMode,
        subset::Subset,
    },
    run::{ArtifactGroup, Platform},
};
use rocwheel_base::{
    error::{Error, No, Result, hinted, message},
    quantity::many,
    target::{Scope, TargetPattern, TargetTable},
};

/// What the user asked for. The default selects everything.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// At least one pattern has to match anywhere in the file name of an archive, unless the list is
    /// empty.
    pub include: Vec<Regex>,
    /// No pattern may match.
    pub exclude: Vec<Regex>,
    /// `--require-artifact`: each pattern has to match a candidate, selected or not.
    pub required: Vec<Regex>,
    pub groups: Vec<ArtifactGroup>,
    pub families: TargetPattern,
    pub targets: TargetPattern,
    pub components: BTreeSet<Component>,
    /// `--only`: the packages to fetch artifacts for.
    pub only: Vec<String>,
}

/// The selected archives, and how they were selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArchiveSelection {
    pub archives: Vec<ArtifactArchive>,
    /// Whether the user named targets or families.
    pub is_for_named: bool,
    /// Whether patterns or components leave out a part of what the run has for these.
    pub is_part: bool,
}

/// A group, family or target that the user named.
struct NamedScopes {
    /// What messages call it: `` target `gfx942` ``.
    title: String,
    /// The scopes that it stands for.
    scopes: BTreeSet<Scope>,
}

impl NamedScopes {
    fn has(&self, scope: &Scope) -> bool {
        self.scopes.contains(&scope.packaged())
    }
}

impl ArchiveSelection {
    /// Removes the archives that the packages of `subset` do not need.
    pub(super) fn narrow(&mut self, subset: &Subset, inventory: &[ArtifactArchive]) {
        let generic: BTreeSet<(&str, Component)> = artifact_names(inventory)
            .filter(|artifact| artifact.scope == Scope::Generic)
            .map(|artifact| (artifact.name.as_str(), artifact.component))
            .collect();
        self.archives.retain(|archive| {
            let artifact = &archive.name.artifact;
            let has_generic = generic.contains(&(&*artifact.name, artifact.component));
            subset.needs(artifact, has_generic)
        });
    }
}

/// Selects the wanted archives. Fails if the run has nothing for one of the things asked for.
pub(super) fn select(inventory: &[ArtifactArchive], wish: &Wish) -> Result<ArchiveSelection> {
    let named = wish.named_scopes(inventory)?;
    let mut unmatched: Vec<String> = named
        .iter()
        .filter(|named| !artifact_names(inventory).any(|artifact| named.has(&artifact.scope)))
        .map(|named| named.title.clone())
        .collect();
    // A generic artifact is for every GPU, so it is for each that the user named.
    let candidates: Vec<&ArtifactArchive> = inventory
        .iter()
        .filter(|archive| {
            let scope = &archive.name.artifact.scope;
            let is_generic = *scope == Scope::Generic;
            named.is_empty() || is_generic || named.iter().any(|named| named.has(scope))
        })
        .collect();
    unmatched.extend(wish.list_unmatched(&candidates));
    let archives: Vec<ArtifactArchive> =
        candidates.into_iter().filter(|archive| wish.accepts(archive)).cloned().collect();
    if !unmatched.is_empty() || archives.is_empty() {
        let message = if unmatched.is_empty() {
            "no artifact of the run matches all of this at once".to_owned()
        } else {
            format!("no artifact of the run matches {}", unmatched.join(", nor "))
        };
        let count = many(inventory.len(), "artifact");
        let hint = format!("it has {count}: {}", summarize(inventory));
        return Err(hinted(No(message), hint));
    }
    Ok(ArchiveSelection { archives, is_for_named: !named.is_empty(), is_part: wish.is_part() })
}

impl Wish {
    /// The packages that can be built from the selection; an empty list stands for all packages. `None` if
    /// that is unknown, because patterns or components leave out a part of the run.
    pub(super) fn packages(&self) -> Option<&[String]> {
        (!self.is_part()).then_some(&self.only)
    }

    fn is_part(&self) -> bool {
        !(self.include.is_empty() && self.exclude.is_empty() && self.components.is_empty())
    }

    fn accepts(&self, archive: &ArtifactArchive) -> bool {
        let name = archive.name.to_string();
        let matches = |patterns: &[Regex]| patterns.iter().any(|pattern| pattern.is_match(&name));
        let component = archive.name.artifact.component;
        (self.components.is_empty() || self.components.contains(&component))
            && (self.include.is_empty() || matches(&self.include))
            && !matches(&self.exclude)
    }

    /// The components, patterns and required artifacts that match no candidate.
    fn list_unmatched(&self, candidates: &[&ArtifactArchive]) -> Vec<String> {
        let components = self.components.iter().filter(|component| {
            !candidates.iter().any(|archive| archive.name.artifact.component == **component)
        });
        let matches_none = |pattern: &&Regex| {
            !candidates.iter().any(|archive| pattern.is_match(&archive.name.to_string()))
        };
        let patterns = self.include.iter().filter(matches_none);
        let required = self.required.iter().filter(matches_none);
        components
            .map(|component| format!("component `{component}`"))
            .chain(patterns.map(|pattern| format!("pattern `{pattern}`")))
            .chain(required.map(|pattern| format!("required artifact `{pattern}`")))
            .collect()
    }

    /// The groups, families and targets that the user named.
    fn named_scopes(&self, inventory: &[ArtifactArchive]) -> Result<Vec<NamedScopes>> {
        let mut named = Vec::new();
        for group in self.groups.iter().filter(|group| !group.is_for_all()) {
            let title = format!("artifact group `{group}`");
            named.push(NamedScopes { title, scopes: group.scopes() });
        }
        for (kind, pattern) in [("family", &self.families), ("target", &self.targets)] {
            for name in pattern.names() {
                let title = format!("{kind} `{name}`");
                named.push(NamedScopes { title, scopes: find_scopes(name, inventory)? });
            }
        }
        Ok(named)
    }
}

/// Finds the scopes of a family or target in the table. An unknown name is accepted if the run has
/// artifacts for it.
fn find_scopes(name: &str, inventory: &[ArtifactArchive]) -> Result<BTreeSet<Scope>> {
    let table = TargetTable::builtin();
    let scopes = table.scopes_named(name);
    if !scopes.is_empty() {
        return Ok(scopes);
    }
    match name.parse::<Scope>().ok().map(|scope| scope.packaged()) {
        Some(scope) if artifact_names(inventory).any(|it| it.scope.packaged() == scope) => {
            Ok(BTreeSet::from([scope]))
        }
        _ => Err(table.unknown(vec![name.to_owned()]).into()),
    }
}

/// Lists what the selection lacks of the artifacts that packages are made of, so that they cannot be built.
/// A `subset` has been checked for device code already.
pub(super) fn find_lacks(
    selection: &ArchiveSelection,
    inventory: &[ArtifactArchive],
    catalog: &Catalog,
    platform: Platform,
    subset: Option<&Subset>,
) -> Result<Vec<String>> {
    let device = catalog.only(PackageKind::Device)?;
    let mode = find_mode(inventory, device);
    let artifacts: Vec<&ArtifactName> = artifact_names(&selection.archives).collect();
    let mut lacks = Vec::new();
    let manifest = TherockManifest::ARTIFACT;
    if !artifacts.iter().any(|it| it.to_string() == manifest) {
        lacks.push(format!("no `{manifest}`, which says what was built"));
    }
    if subset.is_none_or(Subset::is_for_all) {
        for package in catalog.packages() {
            let is_required = package.kind == PackageKind::Runtime
                && package.required
                && package.ships_on(platform);
            let takes =
                |artifact: &&ArtifactName| package.takes(artifact, mode, Some(&artifact.scope));
            if is_required && !artifacts.iter().any(takes) {
                lacks.push(format!("no artifact for `{}`", package.dist_name(mode, None)));
            }
        }
    }
    if subset.is_none() && mode == DistributionMode::Split {
        lacks.extend(catalog.only_with_xnack(artifacts.iter().copied())?);
        // If the user named no target, a target of the run may have only tests.
        if selection.is_for_named {
            let mut has_code: BTreeMap<Scope, bool> = BTreeMap::new();
            for artifact in artifacts {
                if let Scope::Target(_) = &artifact.scope {
                    *has_code.entry(artifact.scope.packaged()).or_default() |=
                        device.takes_component(artifact, mode);
                }
            }
            let without_code = has_code.iter().filter(|(_, has_code)| !**has_code);
            lacks.extend(without_code.map(|(target, _)| format!("no device code for `{target}`")));
        }
    }
    Ok(lacks)
}

/// Finds the packages of these names, for the targets that the selection has device code for.
pub(super) fn find_subset(
    names: &[String],
    selection: &ArchiveSelection,
    inventory: &[ArtifactArchive],
    catalog: &Catalog,
    platform: Platform,
) -> Result<Subset> {
    let device = catalog.only(PackageKind::Device)?;
    if find_mode(inventory, device) == DistributionMode::Legacy {
        let message = "`--only` needs a run with split device code, and this one is fat";
        return Err(hinted(No(message.to_owned()), "fetch all of it, without `--only`"));
    }
    let targets = artifact_names(&selection.archives)
        .filter(|artifact| {
            artifact.scope != Scope::Generic
                && device.takes_component(artifact, DistributionMode::Split)
        })
        .map(|artifact| artifact.scope.packaged())
        .collect();
    // An unknown package or a missing artifact is the answer "no" rather than a wrong call: with
    // `--wait`, the artifact may still be uploaded.
    Subset::new(names, catalog, platform, targets).map_err(|error| Error::new(No(message(&error))))
}

/// Finds the mode of a run: if it has device code in artifacts of single targets, its device code is split.
fn find_mode(inventory: &[ArtifactArchive], device: &PackageSpec) -> DistributionMode {
    let is_split = |artifact: &ArtifactName| {
        matches!(artifact.scope, Scope::Target(_))
            && device.takes_component(artifact, DistributionMode::Split)
    };
    if artifact_names(inventory).any(is_split) {
        DistributionMode::Split
    } else {
        DistributionMode::Legacy
    }
}

fn artifact_names(archives: &[ArtifactArchive]) -> impl Iterator<Item = &ArtifactName> {
    archives.iter().map(|archive| &archive.name.artifact)
}

/// Summarizes archives for messages: `base, blas (lib, dev) for generic, gfx942`.
pub(super) fn summarize(archives: &[ArtifactArchive]) -> String {
    let artifacts = || artifact_names(archives);
    let names: BTreeSet<&str> = artifacts().map(|it| it.name.as_str()).collect();
    let components: BTreeSet<_> = artifacts().map(|it| it.component).collect();
    let scopes: BTreeSet<&str> = artifacts().map(|it| it.scope.as_str()).collect();
    format!(
        "{} ({}) for {}",
        names.iter().join(", "),
        components.iter().join(", "),
        scopes.iter().join(", ")
    )
}

#[cfg(test)]
mod tests;
