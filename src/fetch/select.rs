//! Which of a run's archives are wanted. Reads nothing, writes nothing.

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

/// A regular expression that has to match somewhere in the name of an archive.
#[derive(Clone, Debug)]
pub struct ArchivePattern(Regex);

/// Why a text is not an `ArchivePattern`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a regular expression: {0}")]
pub struct InvalidPattern(String);

/// What was asked for. Nothing at all asks for everything.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// One of them has to match, if there are any.
    pub include: Vec<ArchivePattern>,
    /// None of them may match.
    pub exclude: Vec<ArchivePattern>,
    pub group: Option<ArtifactGroup>,
    /// Families and targets, as they were written.
    pub families: Vec<String>,
    pub targets: Vec<String>,
    pub components: BTreeSet<Component>,
    /// Packages that the rest is to be enough for.
    pub only: Vec<String>,
}

/// What is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveSelection {
    pub archives: Vec<ArtifactArchive>,
    /// What the archives may be for, when not everything was asked for; features do not count.
    pub scopes: Option<BTreeSet<Scope>>,
    pub part: SelectionExtent,
    /// What was asked for by a family and is not there.
    pub absent: Vec<Scope>,
}

/// Whether a selection is meant to be enough for packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectionExtent {
    /// All that the run has for these targets.
    All,
    /// Only what patterns or components let through.
    Some,
}

/// One thing that was asked for by name, and what it may be.
struct Asked {
    what: String,
    scopes: BTreeSet<Scope>,
}

impl ArchiveSelection {
    /// Leaves out what some packages are not made of.
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

/// The archives that are wanted; everything that was asked for has to be there.
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
    /// What packages can be made of it.
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

    /// Why nothing is left although each thing that was asked for is there.
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

/// What a name stands for: as the table says, or itself where the run has something of that name.
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
            let hint = unknown.hint();
            found
                .map(|scope| BTreeSet::from([scope]))
                .ok_or(unknown)
                .hint(hint)
        }
    }
}

/// The components and patterns that no candidate is of.
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

/// The targets of the families that were asked for which nothing is for, neither by its own name
/// nor by its family's.
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
