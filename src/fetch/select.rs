//! Selects archives of a run by target, family, group, component and pattern, and checks, before
//! anything is downloaded, whether they are enough to build packages. It has no I/O.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regex::Regex;

use super::source::ArtifactArchive;
use crate::{
    artifact::{ArtifactName, Component, TherockManifest},
    console::many,
    error::{Error, No, Result, hinted, message},
    policy::{
        catalog::{Catalog, PackageKind, PackageSpec},
        naming::DistributionMode,
        subset::Subset,
    },
    run::{ArtifactGroup, Platform},
    target::{Scope, TargetPattern, TargetTable},
};

/// What the user asked for. The default selects everything.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// At least one of them has to match anywhere in the file name of an archive, unless the list
    /// is empty.
    pub include: Vec<Regex>,
    /// None of them may match.
    pub exclude: Vec<Regex>,
    /// `--require-artifact`: each has to match one of the candidates, selected or not.
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

/// One group, family or target that the user named, and the scopes that it stands for.
type Asked = (String, BTreeSet<Scope>);

impl ArchiveSelection {
    /// Removes the archives that the packages of `subset` do not need.
    pub(super) fn narrow(&mut self, subset: &Subset, inventory: &[ArtifactArchive]) {
        let for_all: BTreeSet<(&str, Component)> = names_of(inventory)
            .filter(|artifact| artifact.scope == Scope::Generic)
            .map(|artifact| (artifact.name.as_str(), artifact.component))
            .collect();
        self.archives.retain(|archive| {
            let artifact = &archive.name.artifact;
            let has_generic = for_all.contains(&(&*artifact.name, artifact.component));
            subset.needs(artifact, has_generic)
        });
    }
}

/// Selects the wanted archives. Fails if the run has nothing for one of the things asked for.
pub(super) fn select(inventory: &[ArtifactArchive], wish: &Wish) -> Result<ArchiveSelection> {
    let asked = asked(inventory, wish)?;
    let has = |(_, scopes): &Asked, scope: &Scope| scopes.contains(&scope.base());
    let scopes = || inventory.iter().map(|archive| &archive.name.artifact.scope);
    let unknown = asked.iter().filter(|asked| !scopes().any(|it| has(asked, it)));
    let mut nothing: Vec<String> = unknown.map(|(what, _)| what.clone()).collect();
    let is_for_asked = |archive: &&ArtifactArchive| {
        let scope = &archive.name.artifact.scope;
        asked.is_empty() || *scope == Scope::Generic || asked.iter().any(|it| has(it, scope))
    };
    let candidates: Vec<&ArtifactArchive> = inventory.iter().filter(is_for_asked).collect();
    nothing.extend(wish.unmet(&candidates));
    let mut archives = candidates;
    archives.retain(|archive| wish.lets_through(archive));
    if !nothing.is_empty() || archives.is_empty() {
        let message = if nothing.is_empty() {
            "no artifact of the run matches all of this at once".to_owned()
        } else {
            format!("no artifact of the run matches {}", nothing.join(", nor "))
        };
        let count = many(inventory.len(), "artifact");
        let hint = format!("it has {count}: {}", in_words(inventory));
        return Err(hinted(No(message), hint));
    }
    Ok(ArchiveSelection {
        archives: archives.into_iter().cloned().collect(),
        is_for_named: !asked.is_empty(),
        is_part: wish.is_part(),
    })
}

impl Wish {
    /// The packages that can be built from the selection: none are named if all can be. `None` if
    /// that is unknown, because patterns or components leave out a part of the run.
    pub(super) fn packages(&self) -> Option<&[String]> {
        (!self.is_part()).then_some(&self.only)
    }

    fn is_part(&self) -> bool {
        !(self.include.is_empty() && self.exclude.is_empty() && self.components.is_empty())
    }

    fn lets_through(&self, archive: &ArtifactArchive) -> bool {
        let name = archive.name.to_string();
        let matches = |patterns: &[Regex]| patterns.iter().any(|it| it.is_match(&name));
        let component = archive.name.artifact.component;
        (self.components.is_empty() || self.components.contains(&component))
            && (self.include.is_empty() || matches(&self.include))
            && !matches(&self.exclude)
    }

    /// The components, patterns and required artifacts that match no candidate.
    fn unmet(&self, candidates: &[&ArtifactArchive]) -> Vec<String> {
        let components = self.components.iter().filter(|component| {
            let mut found = candidates.iter().map(|it| it.name.artifact.component);
            !found.any(|found| found == **component)
        });
        let matches_none = |pattern: &&Regex| {
            let mut names = candidates.iter().map(|it| it.name.to_string());
            !names.any(|name| pattern.is_match(&name))
        };
        let patterns = self.include.iter().filter(matches_none);
        let required = self.required.iter().filter(matches_none);
        components
            .map(|component| format!("component `{component}`"))
            .chain(patterns.map(|pattern| format!("pattern `{pattern}`")))
            .chain(required.map(|pattern| format!("required artifact `{pattern}`")))
            .collect()
    }
}

fn asked(inventory: &[ArtifactArchive], wish: &Wish) -> Result<Vec<Asked>> {
    let mut asked = Vec::new();
    for group in wish.groups.iter().filter(|group| !group.is_for_all()) {
        asked.push((format!("artifact group `{group}`"), group.scopes()));
    }
    for (kind, names) in [("family", &wish.families), ("target", &wish.targets)] {
        for name in names.names() {
            asked.push((format!("{kind} `{name}`"), scopes_of(name, inventory)?));
        }
    }
    Ok(asked)
}

/// The scopes of a family or target in the table. An unknown name is accepted if the run has
/// artifacts for it.
fn scopes_of(name: &str, inventory: &[ArtifactArchive]) -> Result<BTreeSet<Scope>> {
    let table = TargetTable::builtin();
    let scopes = table.scopes_named(name);
    if !scopes.is_empty() {
        return Ok(scopes);
    }
    let itself = name.parse::<Scope>().ok().map(|scope| scope.base());
    let mut built = inventory.iter().map(|archive| archive.name.artifact.scope.base());
    itself
        .filter(|itself| built.contains(itself))
        .map(|scope| BTreeSet::from([scope]))
        .ok_or_else(|| table.unknown(vec![name.to_owned()]).into())
}

/// What the selection lacks compared with what the packages are made of, so that they cannot be built.
/// A `subset` has been checked for device code already.
pub(super) fn lacks(
    selection: &ArchiveSelection,
    inventory: &[ArtifactArchive],
    catalog: &Catalog,
    platform: Platform,
    subset: Option<&Subset>,
) -> Result<Vec<String>> {
    let device = catalog.only(PackageKind::Device)?;
    let mode = mode(inventory, device);
    let artifacts: Vec<&ArtifactName> = names_of(&selection.archives).collect();
    let mut lacks = Vec::new();
    let manifest = TherockManifest::ARTIFACT;
    if !artifacts.iter().any(|it| it.to_string() == manifest) {
        lacks.push(format!("no `{manifest}`, which says what was built"));
    }
    if subset.is_none_or(Subset::is_for_all) {
        let required = catalog.packages().iter().filter(|package| {
            let is_runtime = package.kind == PackageKind::Runtime;
            package.ships_on(platform) && package.required && is_runtime
        });
        let takes = |package: &PackageSpec, artifact: &ArtifactName| {
            package.takes(artifact, mode, Some(&artifact.scope))
        };
        let lacking = required.filter(|package| !artifacts.iter().any(|it| takes(package, it)));
        lacks.extend(lacking.map(|it| format!("no artifact for `{}`", it.dist_name(mode, None))));
    }
    if subset.is_none() && mode == DistributionMode::Split {
        lacks.extend(catalog.only_with_xnack(artifacts.iter().copied())?);
        // A target that nobody asked for may have only tests.
        if selection.is_for_named {
            let mut has_code: BTreeMap<Scope, bool> = BTreeMap::new();
            for artifact in artifacts {
                if let Scope::Target(_) = &artifact.scope {
                    *has_code.entry(artifact.scope.base()).or_default() |=
                        device.takes_component(artifact, mode);
                }
            }
            let without = has_code.iter().filter(|(_, has_code)| !**has_code);
            lacks.extend(without.map(|(target, _)| format!("no device code for `{target}`")));
        }
    }
    Ok(lacks)
}

/// The packages of these names, for the targets that the selection has device code for.
pub(super) fn subset(
    names: &[String],
    selection: &ArchiveSelection,
    inventory: &[ArtifactArchive],
    catalog: &Catalog,
    platform: Platform,
) -> Result<Subset> {
    let device = catalog.only(PackageKind::Device)?;
    if mode(inventory, device) == DistributionMode::Legacy {
        let text = "`--only` needs a run with split device code, and this one is fat";
        return Err(hinted(No(text.to_owned()), "fetch all of it, without `--only`"));
    }
    let with_code = names_of(&selection.archives).filter(|it| {
        it.scope != Scope::Generic && device.takes_component(it, DistributionMode::Split)
    });
    let targets = with_code.map(|it| it.scope.base()).collect();
    // An unknown package or a missing artifact is the answer "no" rather than a wrong call: with
    // `--wait`, the artifact may still be uploaded.
    Subset::new(names, catalog, platform, targets).map_err(|error| Error::new(No(message(&error))))
}

/// A run with device code in artifacts of single targets is a run with split device code.
fn mode(inventory: &[ArtifactArchive], device: &PackageSpec) -> DistributionMode {
    let is_split = |artifact: &ArtifactName| {
        matches!(artifact.scope, Scope::Target(_))
            && device.takes_component(artifact, DistributionMode::Split)
    };
    if names_of(inventory).any(is_split) {
        DistributionMode::Split
    } else {
        DistributionMode::Legacy
    }
}

fn names_of(archives: &[ArtifactArchive]) -> impl Iterator<Item = &ArtifactName> {
    archives.iter().map(|archive| &archive.name.artifact)
}

/// A summary for messages: `base, blas (lib, dev) for generic, gfx942`.
pub(super) fn in_words(archives: &[ArtifactArchive]) -> String {
    let artifacts = || names_of(archives);
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
