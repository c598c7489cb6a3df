//! Checks, before planning, that the artifacts fit the request and the build's manifest.

use std::{collections::BTreeSet, fmt::Display};

use crate::{
    artifact::{ArtifactTree, Collision},
    error::{Error, Result, anyhow, hinted},
    package::{
        catalog::{Catalog, PackageKind, PackageSpec},
        naming::DistributionMode,
        planner::Request,
        subset::Subset,
    },
    relpath::RelPath,
    run::Platform,
    target::{Scope, Target, missing},
};

/// The targets or families that the artifacts have device code for, without features.
///
/// Ignores empty artifacts, and artifacts that no package with device code takes: an artifact with
/// tests of a target does not make a package for that target.
pub(super) fn scopes_with_code(
    catalog: &Catalog,
    tree: &ArtifactTree,
    mode: DistributionMode,
) -> Result<BTreeSet<Scope>> {
    let holder = catalog.holder(mode)?;
    let with_code = tree.artifacts.iter().filter(|artifact| {
        let name = &artifact.name;
        let for_gpu = name.scope != Scope::Generic;
        for_gpu && !artifact.basedirs.is_empty() && holder.takes_kind(name, mode)
    });
    Ok(with_code
        .map(|artifact| artifact.name.scope.base())
        .collect())
}

/// A note about artifacts that no row of `packages.toml` names, such as those of a new project.
pub(super) fn untaken(catalog: &Catalog, tree: &ArtifactTree) -> Option<String> {
    let known: BTreeSet<&str> = catalog
        .packages()
        .iter()
        .flat_map(PackageSpec::artifacts)
        .collect();
    let names = tree.artifacts.iter().map(|artifact| &artifact.name.name);
    let unknown: BTreeSet<&String> = names
        .filter(|name| !known.contains(name.as_str()))
        .collect();
    (!unknown.is_empty()).then(|| format!("artifacts that no package takes: {}", listed(&unknown)))
}

/// Fails if a requested target has no device code. Returns notes about targets that have device
/// code and were not requested.
pub(super) fn targets(request: &Request, found: &BTreeSet<Scope>) -> Result<Vec<String>> {
    let expected = match request.platform {
        Platform::Linux => &request.linux,
        Platform::Windows => &request.windows,
    };
    let Some(expected) = expected else {
        return Ok(Vec::new());
    };
    let expected: BTreeSet<Target> = expected.iter().map(Target::base).collect();
    let missing = missing(&Vec::from_iter(expected.clone()), found);
    if !missing.is_empty() {
        return Err(hinted(
            anyhow!(
                "no device code for {}: expected {}, found {}",
                listed(&missing),
                listed(&expected),
                listed(found)
            ),
            format!(
                "fetch the artifacts of these targets, or leave them out of `--{}-amdgpu-families`",
                request.platform
            ),
        ));
    }
    let promised: BTreeSet<Scope> = expected.into_iter().map(Scope::Target).collect();
    let extra = found.difference(&promised).map(|extra| {
        format!("device code for `{extra}`, which no family of this platform names: no extra of `rocm` asks for it")
    });
    Ok(extra.collect())
}

/// Fails if an artifact of a split set is for a family. A split set has one device package for each
/// target, and no extra of `rocm` would install the package of a family.
pub(super) fn is_apart(
    catalog: &Catalog,
    tree: &ArtifactTree,
    scopes: &BTreeSet<Scope>,
) -> Result<()> {
    let Some(family) = scopes.iter().find(|it| matches!(it, Scope::Family(_))) else {
        return Ok(());
    };
    let device = catalog.only(PackageKind::Device)?;
    let artifacts = tree.artifacts.iter().map(|artifact| &artifact.name);
    let of_it = artifacts
        .filter(|name| name.scope == *family && device.takes_kind(name, DistributionMode::Split))
        .collect::<Vec<_>>();
    Err(hinted(
        anyhow!(
            "a set with split device code has packages for targets, but {} is for the family `{family}`",
            listed(of_it)
        ),
        "`--kpack split` takes device code out of fat artifacts; of a run that is split, fetch the artifacts of its targets",
    ))
}

/// Fails if the artifacts do not fit a part of a set: they are fat, they have device code for a
/// target that is not in the set, or none for a target whose package is to be built.
pub(super) fn subset(
    subset: &Subset,
    found: &BTreeSet<Scope>,
    mode: DistributionMode,
) -> Result<()> {
    if mode == DistributionMode::Legacy {
        return Err(hinted(
            anyhow!("`--targets` needs split device code, and this set is fat"),
            "fetch all artifacts of the run, and leave out `--targets`",
        ));
    }
    let others: Vec<&Scope> = found.difference(subset.targets()).collect();
    if !others.is_empty() {
        return Err(hinted(
            anyhow!(
                "device code for {}, which is not among the targets of the set: {}",
                listed(others),
                listed(subset.targets())
            ),
            "pass all targets of the run as `--targets`",
        ));
    }
    let missing: Vec<&Scope> = subset.devices().filter(|it| !found.contains(it)).collect();
    if !missing.is_empty() {
        return Err(hinted(
            anyhow!(
                "no device code for {}: found {}",
                listed(missing),
                listed(found)
            ),
            "fetch what the package is made of, with the `--only` of this build",
        ));
    }
    Ok(())
}

/// Fails if the manifest says that the set is not split, but an artifact has a `.kpack` archive.
pub(super) fn is_legacy(
    catalog: &Catalog,
    tree: &ArtifactTree,
    scopes: &BTreeSet<Scope>,
) -> Result<()> {
    let libraries = catalog.overlaid()?;
    let for_gpu = tree.artifacts.iter().filter(|artifact| {
        scopes.contains(&artifact.name.scope.base())
            && libraries.takes_kind(&artifact.name, DistributionMode::Legacy)
    });
    for artifact in for_gpu {
        let is_kpack = |path: &RelPath| path.as_str().rsplit('.').next() == Some("kpack");
        let kpack = artifact.files.iter().find(|file| is_kpack(&file.path));
        if let Some(file) = kpack {
            return Err(hinted(
                anyhow!(
                    "the build says that device code is not split off, and artifact `{}` has `{}`",
                    artifact.name,
                    file.path
                ),
                "fetch all artifacts from one run: `base_lib_generic` holds the flag `KPACK_SPLIT_ARTIFACTS`",
            ));
        }
    }
    Ok(())
}

pub(super) fn nothing_below(package: &str, scopes: &BTreeSet<Scope>) -> Error {
    hinted(
        anyhow!(
            "device code for {}, and no files for package `{package}`, which it is laid over",
            listed(scopes)
        ),
        "fetch the `generic` artifacts of the same run",
    )
}

pub(super) fn collision(collision: &Collision<'_>) -> Error {
    hinted(
        anyhow!("two artifacts have different files at one path: {collision}"),
        "build them so that one of them has it; `--on-collision last` takes the last by name",
    )
}

fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("`{item}`")).collect();
    if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    }
}
