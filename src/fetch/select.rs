//! Selects archives of a run by target, family, group, component and pattern. It has no I/O.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use regex::Regex;

use super::{
    inventory::{ArtifactArchive, in_words},
    state::Sufficiency,
};
use crate::{
    artifact::Component,
    console::many,
    error::{Hint as _, No, Result, hinted},
    package::Subset,
    run::ArtifactGroup,
    target::{Scope, TargetTable, missing},
};

/// What the user asked for. The default selects everything.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// At least one of them has to match anywhere in the file name of an archive, unless the list
    /// is empty.
    pub include: Vec<Regex>,
    /// None of them may match.
    pub exclude: Vec<Regex>,
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
pub(super) struct ArchiveSelection {
    pub archives: Vec<ArtifactArchive>,
    /// The targets and families asked for, without features; `None` if all were.
    pub scopes: Option<BTreeSet<Scope>>,
    /// Whether patterns or components leave out a part of what the run has for these.
    pub is_part: bool,
    /// Targets of the families asked for that the run has nothing for.
    pub absent: BTreeSet<Scope>,
}

/// One group, family or target that the user named, and the scopes that it stands for.
struct Asked {
    what: String,
    scopes: BTreeSet<Scope>,
}

impl ArchiveSelection {
    /// Removes the archives that the packages of `subset` do not need.
    pub(super) fn narrow(&mut self, subset: &Subset, inventory: &[ArtifactArchive]) {
        let artifacts = inventory.iter().map(|archive| &archive.name.artifact);
        let for_all: BTreeSet<(&str, Component)> = artifacts
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
    let has = |asked: &Asked, scope: &Scope| asked.scopes.contains(&scope.base());
    let scopes = || inventory.iter().map(|archive| &archive.name.artifact.scope);
    let unknown = asked
        .iter()
        .filter(|asked| !scopes().any(|it| has(asked, it)));
    let mut nothing: Vec<String> = unknown.map(|asked| asked.what.clone()).collect();
    let is_for_asked = |archive: &&ArtifactArchive| {
        let scope = &archive.name.artifact.scope;
        asked.is_empty() || *scope == Scope::Generic || asked.iter().any(|it| has(it, scope))
    };
    let candidates: Vec<&ArtifactArchive> = inventory.iter().filter(is_for_asked).collect();
    nothing.extend(wish.unmet(&candidates));
    let mut archives = candidates;
    archives.retain(|archive| wish.lets_through(archive));
    if nothing.is_empty() && archives.is_empty() {
        nothing.push(wish.excludes());
    }
    if !nothing.is_empty() {
        let message = format!("the run does not have {}", nothing.join(", nor "));
        let count = many(inventory.len(), "artifact");
        let hint = format!("it has {count}: {}", in_words(inventory));
        return Err(hinted(No(message), hint));
    }
    Ok(ArchiveSelection {
        archives: archives.into_iter().cloned().collect(),
        absent: absent(&scopes().collect(), &asked),
        scopes: (!asked.is_empty()).then(|| asked.into_iter().flat_map(|it| it.scopes).collect()),
        is_part: wish.is_part(),
    })
}

impl Wish {
    /// Which packages can be built from the selection.
    pub(super) fn enough(&self) -> Sufficiency {
        if self.is_part() {
            Sufficiency::Unknown
        } else if self.only.is_empty() {
            Sufficiency::All
        } else {
            Sufficiency::Only(self.only.clone())
        }
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

    /// The components and patterns that match no candidate.
    fn unmet(&self, candidates: &[&ArtifactArchive]) -> Vec<String> {
        let components = self.components.iter().filter(|component| {
            let mut found = candidates.iter().map(|it| it.name.artifact.component);
            !found.any(|found| found == **component)
        });
        let patterns = self.include.iter().filter(|pattern| {
            let mut names = candidates.iter().map(|it| it.name.to_string());
            !names.any(|name| pattern.is_match(&name))
        });
        components
            .map(|component| format!("component `{component}`"))
            .chain(patterns.map(|pattern| format!("pattern `{pattern}`")))
            .collect()
    }

    /// Text for the error when each thing asked for exists, but no archive satisfies all at once.
    fn excludes(&self) -> String {
        if self.exclude.is_empty() {
            return "an archive that all of this is true of".to_owned();
        }
        let patterns = self.exclude.iter().map(|it| format!("`{it}`"));
        format!("an archive without {}", patterns.format(", "))
    }
}

fn asked(inventory: &[ArtifactArchive], wish: &Wish) -> Result<Vec<Asked>> {
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
fn scopes_of(name: &str, inventory: &[ArtifactArchive]) -> Result<BTreeSet<Scope>> {
    match TargetTable::builtin().scopes(&[name]) {
        Ok(mut scopes) => {
            scopes.remove(&Scope::Generic);
            Ok(scopes)
        }
        Err(unknown) => {
            let itself = name.parse::<Scope>().ok().map(|scope| scope.base());
            let mut scopes = inventory.iter().map(|it| it.name.artifact.scope.base());
            let found = itself.filter(|itself| scopes.contains(itself));
            let hint = unknown.hint.clone();
            found
                .map(|scope| BTreeSet::from([scope]))
                .ok_or(unknown)
                .hint(hint)
        }
    }
}

/// The targets of the requested families that no archive is for, neither one of the target nor one
/// of the family.
fn absent(there: &BTreeSet<&Scope>, asked: &[Asked]) -> BTreeSet<Scope> {
    let mut absent = BTreeSet::new();
    for Asked { scopes, .. } in asked {
        let is_there_whole =
            |scope: &Scope| matches!(scope, Scope::Family(_)) && there.contains(scope);
        if scopes.iter().any(is_there_whole) {
            continue;
        }
        let targets = scopes.iter().filter_map(|scope| match scope {
            Scope::Target(target) => Some(target.clone()),
            Scope::Generic | Scope::Family(_) => None,
        });
        let targets: Vec<_> = targets.collect();
        let missing = missing(&targets, there.iter().copied());
        absent.extend(missing.into_iter().map(Scope::Target));
    }
    absent
}

#[cfg(test)]
mod tests;
