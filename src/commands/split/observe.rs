//! What is to be done with every file of the artifacts. Reads headers, and writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    artifact::{Artifact, ArtifactName, ArtifactTree, Content, FileAt, TreeFile},
    commands::World,
    error::{Context as _, Hint as _, Result, bail},
    kpack::{
        CodeTarget, Fat, bundle, databases,
        host::{self, Look},
        split::{Archives, Binary},
    },
    target::{Scope, Target},
};

/// What one artifact becomes.
pub(super) struct Splitting<'a> {
    pub(super) source: ArtifactName,
    pub(super) artifact: &'a Artifact,
    /// What happens to each file, in their order.
    pub(super) files: Vec<(&'a TreeFile, Fate)>,
    pub(super) archives: Archives,
    pub(super) targets: BTreeSet<Scope>,
}

pub(super) enum Fate {
    /// It stays in the generic artifact as it is.
    Stays,
    /// It moves to the artifact of a target.
    Moves(Target),
    /// It stays without its code.
    Loses(Box<(Fat, Binary)>),
}

impl Splitting<'_> {
    /// The artifacts that this one becomes.
    pub(super) fn names(&self) -> Vec<String> {
        let scopes = std::iter::once(&Scope::Generic).chain(&self.targets);
        scopes.map(|scope| self.name(scope).to_string()).collect()
    }

    pub(super) fn name(&self, scope: &Scope) -> ArtifactName {
        ArtifactName {
            scope: scope.clone(),
            ..self.source.clone()
        }
    }

    /// `blas_lib`: what its archives are called.
    pub(super) fn prefix(&self) -> String {
        prefix(&self.source)
    }
}

/// Every artifact, in the order of their names.
pub(super) fn all<'a>(tree: &'a ArtifactTree, world: &World) -> Result<Vec<Splitting<'a>>> {
    let mut known = BTreeMap::new();
    let mut all = Vec::new();
    for artifact in &tree.artifacts {
        world.stop.check()?;
        if let Some(before) = known.insert(prefix(&artifact.name), &artifact.name) {
            return two_of_a_kind(before, &artifact.name);
        }
        let splitting = splitting(artifact, world);
        all.push(splitting.with_context(|| format!("look into `{}`", artifact.name))?);
    }
    Ok(all)
}

fn two_of_a_kind<T>(one: &ArtifactName, other: &ArtifactName) -> Result<T> {
    let refuse = || -> Result<T> {
        bail!(
            "both would become `{}_generic`: `{one}` and `{other}`",
            prefix(one)
        )
    };
    refuse().hint("pass a directory with the artifacts of one family to `--artifact-dir`")
}

fn prefix(name: &ArtifactName) -> String {
    format!("{}_{}", name.name, name.component.as_str())
}

fn splitting<'a>(artifact: &'a Artifact, world: &World) -> Result<Splitting<'a>> {
    let is_generic = artifact.name.scope == Scope::Generic;
    let mut files = Vec::new();
    for file in &artifact.files {
        let fate = if is_generic {
            Fate::Stays
        } else {
            fate(file, world)?
        };
        files.push((file, fate));
    }
    let binaries: Vec<Binary> = files
        .iter()
        .filter_map(|(_, fate)| match fate {
            Fate::Loses(loses) => Some(loses.1.clone()),
            _ => None,
        })
        .collect();
    let mut targets = BTreeSet::new();
    for (_, fate) in &files {
        match fate {
            Fate::Stays => {}
            Fate::Moves(target) => {
                targets.insert(Scope::Target(target.clone()));
            }
            Fate::Loses(loses) => {
                for target in loses.1.bundles.iter().flatten() {
                    targets.insert(Scope::Target(scope(target)?));
                }
            }
        }
    }
    Ok(Splitting {
        source: artifact.name.clone(),
        artifact,
        archives: Archives::new(&prefix(&artifact.name), &binaries),
        files,
        targets,
    })
}

/// The artifact that code goes to. Code that is for no single target has no artifact of its own.
pub(super) fn scope(target: &CodeTarget) -> Result<Target> {
    match target.base().target() {
        Some(target) => Ok(target),
        None => bail!("code that belongs to no target's artifact: `{target}`"),
    }
}

fn fate(file: &TreeFile, world: &World) -> Result<Fate> {
    if !matches!(file.content, Content::File(_)) {
        return Ok(Fate::Stays);
    }
    if let Some((_, target)) = databases::owner(&file.path) {
        return Ok(Fate::Moves(target));
    }
    let shown = file.source.display();
    let source = FileAt::open(&file.source)?;
    let look = host::look(&source).with_context(|| format!("look into `{shown}`"))?;
    let fat = match look {
        Look::Plain | Look::Split => return Ok(Fate::Stays),
        Look::Stuck { why, .. } => {
            world
                .console
                .warn(format!("`{shown}` keeps its device code: {why}"));
            return Ok(Fate::Stays);
        }
        Look::Fat(fat) => fat,
    };
    let section = fat.section(&source)?;
    let bundles = fat.bundles.iter().enumerate();
    let bundles: Result<_> = bundles
        .map(|(ordinal, one)| {
            bundle::targets(&section, one)
                .with_context(|| format!("open bundle {ordinal} of `{shown}`"))
        })
        .collect();
    let binary = Binary {
        prefix: (*file.basedir).clone(),
        path: file.path.clone(),
        bundles: bundles?,
    };
    // Found now rather than halfway through writing.
    host::plan(
        &source,
        &fat,
        &binary.markers(&Archives::new("unnamed", std::slice::from_ref(&binary))),
    )
    .with_context(|| format!("take the code out of `{shown}`"))?;
    Ok(Fate::Loses(Box::new((fat, binary))))
}
