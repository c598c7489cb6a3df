//! Selects archives of a run by target, family, group, component and pattern. It has no I/O.

use std::{collections::BTreeSet, fmt, str::FromStr};

use regex::Regex;

use super::{
    inventory::{ArtifactArchive, RunInventory},
    state::Sufficiency,
};
use crate::{
    artifact::Component,
    console::many,
    error::{Hint as _, No, Result},
    package::{Sibling, Subset},
    run::ArtifactGroup,
    target::{Scope, TargetTable, missing},
};

/// A regular expression that is searched for anywhere in the file name of an archive.
#[derive(Clone, Debug)]
pub struct ArchivePattern(Regex);

/// Error of parsing an [`ArchivePattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a regular expression: {0}")]
pub struct InvalidPattern(String);

/// What the user asked for. The default selects everything.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// At least one of them has to match, unless the list is empty.
    pub include: Vec<ArchivePattern>,
    /// None of them may match.
    pub exclude: Vec<ArchivePattern>,
    pub group: Option<ArtifactGroup>,
    /// Families and targets as the user wrote them.
    pub families: Vec<String>,
    pub targets: Vec<String>,
    pub components: BTreeSet<Component>,
    /// `--only`: the packages to fetch artifacts for.
    pub only: Vec<String>,
}

/// The selected archives, and how they were selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveSelection {
    pub archives: Vec<ArtifactArchive>,
    /// The targets and families asked for, without features; `None` if all were.
    pub scopes: Option<BTreeSet<Scope>>,
    pub part: SelectionExtent,
    /// Targets of the families asked for that the run has nothing for.
    pub absent: Vec<Scope>,
}

/// Whether a selection should be enough for packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectionExtent {
    /// Everything that the run has for the targets.
    All,
    /// Only what matches patterns or components.
    Some,
}

/// One group, family or target that the user named, and the scopes that it stands for.
struct Asked {
    what: String,
    scopes: BTreeSet<Scope>,
}

impl ArchiveSelection {
    /// Removes the archives that the packages of `subset` do not need.
    pub fn narrow(&mut self, subset: &Subset, inventory: &RunInventory) {
        let for_all: BTreeSet<(&str, Component)> = inventory
            .archives()
            .iter()
            .map(ArtifactArchive::artifact)
            .filter(|artifact| artifact.scope == Scope::Generic)
            .map(|artifact| (artifact.name.as_str(), artifact.component))
            .collect();
        self.archives.retain(|archive| {
            let artifact = archive.artifact();
            let sibling = if for_all.contains(&(&artifact.name, artifact.component)) {
                Sibling::Generic
            } else {
                Sibling::None
            };
            subset.needs(artifact, sibling)
        });
    }
}

/// Selects the wanted archives. Fails if the run has nothing for one of the things asked for.
pub fn select(inventory: &RunInventory, wish: &Wish) -> Result<ArchiveSelection> {
    let asked = asked(inventory, wish)?;
    let mut nothing = Vec::new();
    for asked in &asked {
        if !inventory.archives().iter().any(|it| asked.includes(it)) {
            nothing.push(asked.what.clone());
        }
    }
    let for_targets = inventory
        .archives()
        .iter()
        .filter(|archive| asked.is_empty() || is_for(archive, &asked));
    let candidates: Vec<&ArtifactArchive> = for_targets.collect();
    nothing.extend(unmet(&candidates, wish));
    let archives: Vec<ArtifactArchive> = candidates
        .into_iter()
        .filter(|archive| wish.lets_through(archive))
        .cloned()
        .collect();
    if nothing.is_empty() && archives.is_empty() {
        nothing.push(wish.excludes());
    }
    if !nothing.is_empty() {
        return Err(not_there(inventory, &nothing));
    }
    Ok(ArchiveSelection {
        archives,
        absent: absent(inventory, &asked),
        scopes: (!asked.is_empty()).then(|| asked.into_iter().flat_map(|it| it.scopes).collect()),
        part: wish.part(),
    })
}

impl Wish {
    /// Which packages can be built from the selection.
    pub fn enough(&self) -> Sufficiency {
        match (self.part(), self.only.is_empty()) {
            (SelectionExtent::Some, _) => Sufficiency::Unknown,
            (SelectionExtent::All, true) => Sufficiency::All,
            (SelectionExtent::All, false) => Sufficiency::Only(self.only.clone()),
        }
    }

    fn part(&self) -> SelectionExtent {
        if self.include.is_empty() && self.exclude.is_empty() && self.components.is_empty() {
            SelectionExtent::All
        } else {
            SelectionExtent::Some
        }
    }

    fn lets_through(&self, archive: &ArtifactArchive) -> bool {
        let name = archive.file_name();
        let matches = |patterns: &[ArchivePattern]| patterns.iter().any(|it| it.0.is_match(&name));
        let component = archive.artifact().component;
        (self.components.is_empty() || self.components.contains(&component))
            && (self.include.is_empty() || matches(&self.include))
            && !matches(&self.exclude)
    }

    /// Text for the error when each thing asked for exists, but no archive satisfies all at once.
    fn excludes(&self) -> String {
        if self.exclude.is_empty() {
            return "an archive that all of this is true of".to_owned();
        }
        let patterns: Vec<String> = self.exclude.iter().map(|it| format!("`{it}`")).collect();
        format!("an archive without {}", patterns.join(", "))
    }
}

impl Asked {
    fn includes(&self, archive: &ArtifactArchive) -> bool {
        self.scopes.contains(&archive.artifact().scope.base())
    }
}

fn is_for(archive: &ArtifactArchive, asked: &[Asked]) -> bool {
    archive.artifact().scope == Scope::Generic || asked.iter().any(|it| it.includes(archive))
}

fn asked(inventory: &RunInventory, wish: &Wish) -> Result<Vec<Asked>> {
    let mut asked = Vec::new();
    if let Some(group) = wish.group.as_ref().filter(|group| !group.is_for_all()) {
        asked.push(Asked {
            what: format!("artifact group `{group}`"),
            scopes: group.scopes(),
        });
    }
    for (kind, names) in [("family", &wish.families), ("target", &wish.targets)] {
        for name in names {
            asked.push(Asked {
                what: format!("{kind} `{name}`"),
                scopes: scopes_of(name, inventory)?,
            });
        }
    }
    Ok(asked)
}

/// The scopes of a family or target in the table. An unknown name is accepted if the run has
/// artifacts for it.
fn scopes_of(name: &str, inventory: &RunInventory) -> Result<BTreeSet<Scope>> {
    match TargetTable::builtin().scopes(&[name]) {
        Ok(mut scopes) => {
            scopes.remove(&Scope::Generic);
            Ok(scopes)
        }
        Err(unknown) => {
            let itself = name.parse::<Scope>().ok().map(|scope| scope.base());
            let is_there = |scope: &Scope| {
                let mut archives = inventory.archives().iter();
                archives.any(|archive| archive.artifact().scope.base() == *scope)
            };
            let found = itself.filter(is_there);
            let hint = unknown.hint.clone();
            found
                .map(|scope| BTreeSet::from([scope]))
                .ok_or(unknown)
                .hint(hint)
        }
    }
}

/// The components and patterns that match no candidate.
fn unmet(candidates: &[&ArtifactArchive], wish: &Wish) -> Vec<String> {
    let components = wish.components.iter().filter(|component| {
        let mut found = candidates.iter().map(|it| it.artifact().component);
        !found.any(|found| found == **component)
    });
    let patterns = wish.include.iter().filter(|pattern| {
        let mut names = candidates.iter().map(|it| it.file_name());
        !names.any(|name| pattern.0.is_match(&name))
    });
    components
        .map(|component| format!("component `{component}`"))
        .chain(patterns.map(|pattern| format!("pattern `{pattern}`")))
        .collect()
}

/// The targets of the requested families that no archive is for, neither one of the target nor one
/// of the family.
fn absent(inventory: &RunInventory, asked: &[Asked]) -> Vec<Scope> {
    let there: Vec<&Scope> = inventory
        .archives()
        .iter()
        .map(|archive| &archive.artifact().scope)
        .collect();
    let mut absent = BTreeSet::new();
    for Asked { scopes, .. } in asked {
        let whole_family =
            |scope: &Scope| matches!(scope, Scope::Family(_)) && there.contains(&scope);
        if scopes.iter().any(whole_family) {
            continue;
        }
        let targets: Vec<_> = scopes.iter().filter_map(target).collect();
        absent.extend(
            missing(&targets, there.iter().copied())
                .into_iter()
                .map(Scope::Target),
        );
    }
    absent.into_iter().collect()
}

fn target(scope: &Scope) -> Option<crate::target::Target> {
    match scope {
        Scope::Target(target) => Some(target.clone()),
        Scope::Generic | Scope::Family(_) => None,
    }
}

fn not_there(inventory: &RunInventory, nothing: &[String]) -> crate::error::Error {
    let message = format!("the run does not have {}", nothing.join(", nor "));
    let count = many(inventory.archives().len(), "artifact");
    let hint = format!("it has {count}: {}", inventory.in_words());
    crate::error::hinted(No(message), hint)
}

impl FromStr for ArchivePattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let reason = |error: regex::Error| {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            InvalidPattern(last.trim_start_matches("error: ").to_owned())
        };
        Regex::new(text).map(Self).map_err(reason)
    }
}

impl fmt::Display for ArchivePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.as_str())
    }
}

#[cfg(test)]
mod tests;
