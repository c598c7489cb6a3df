//! Checks that the artifacts fit the request and the build's manifest, and that packages which
//! install into one directory fit each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use itertools::Itertools as _;

use crate::{
    artifact::{ArtifactTree, Collision, Component, Owned, TreeContent, TreeFile, same_entry},
    console::{few, many},
    elf::{ElfKind, Machine},
    error::{Error, Result, anyhow, hinted},
    package::{
        planner::Same,
        request::{OnCollision, Request},
        runtime::Claim,
    },
    policy::{
        catalog::{Catalog, PackageKind},
        naming::DistributionMode,
        subset::Subset,
    },
    relpath::RelPath,
    run::Platform,
    target::{Scope, Target, missing},
};

/// The artifacts with libraries or programs that ship nowhere, such as those of a new project, and that
/// `packages.toml` has no reason for: `brandnew_lib`.
pub(super) fn unshipped(catalog: &Catalog, tree: &ArtifactTree) -> Vec<String> {
    let artifacts = tree.artifacts.iter().filter(|it| !it.files.is_empty());
    let names = artifacts.map(|it| &it.name).filter(|it| {
        matches!(it.component, Component::Lib | Component::Run) && !catalog.knows_artifact(&it.name)
    });
    let parts = names.map(|it| format!("{}_{}", it.name, it.component));
    parts.sorted().dedup().collect()
}

/// The artifacts that packages are made of and the run does not have. A reader of `set.json` or of the job
/// summary sees what the set would have had with them:
///
/// - `core-ocl`, of which the run has nothing,
/// - `fft_dev`, where the run has another component of `fft`,
/// - `rccl_lib_gfx942`, where the run has `rccl_lib` for another target.
///
/// Most are left out on purpose, by the options of the run. An artifact that no complete set goes without
/// is among the required files, and its absence is an error.
pub(super) fn not_in_run(catalog: &Catalog, tree: &ArtifactTree, request: &Request) -> Vec<String> {
    // Another job has the artifacts of the rest of the set.
    if request.subset.is_some() {
        return Vec::new();
    }
    let names = || tree.artifacts.iter().map(|artifact| &artifact.name);
    let scopes: BTreeSet<&Scope> =
        names().map(|it| &it.scope).filter(|scope| **scope != Scope::Generic).collect();
    let mut lacking = Vec::new();
    for (name, components) in catalog.ingredients(request.mode, request.options.platform) {
        if !names().any(|it| it.name == name) {
            lacking.push(name.to_owned());
            continue;
        }
        for component in components {
            let parts = names().filter(|it| it.name == name && it.component == component);
            let present: BTreeSet<&Scope> = parts.map(|it| &it.scope).collect();
            if present.is_empty() {
                lacking.push(format!("{name}_{component}"));
            } else if present.iter().any(|scope| **scope != Scope::Generic) {
                let scopes = scopes.difference(&present);
                lacking.extend(scopes.map(|scope| format!("{name}_{component}_{scope}")));
            }
        }
    }
    lacking
}

/// A note about all artifacts that `packages.toml` does not name, with tests and documents too.
pub(super) fn untaken(catalog: &Catalog, tree: &ArtifactTree) -> Option<String> {
    let names = tree.artifacts.iter().map(|artifact| &artifact.name.name);
    let unknown = names.filter(|name| !catalog.knows_artifact(name));
    let unknown: BTreeSet<&String> = unknown.collect();
    let names = unknown.iter().map(|name| format!("`{name}`"));
    (!unknown.is_empty()).then(|| format!("artifacts that no package takes: {}", few(names)))
}

/// A note about libraries whose device code is nowhere: their archives are in `.kpack`, a hidden
/// directory, and uploads leave those out by default.
pub(super) fn without_archives(request: &Request<'_>, tree: &ArtifactTree) -> Option<String> {
    // Another job may have the device code.
    if request.subset.is_some() {
        return None;
    }
    let files = || tree.artifacts.iter().flat_map(|it| &it.files);
    let is_archive = |file: &TreeFile| file.path.components().any(|it| it == ".kpack");
    let asks = |file: &&TreeFile| match &file.content {
        TreeContent::File(facts) => facts.elf.as_ref().is_some_and(|elf| elf.kpack_ref),
        TreeContent::Directory | TreeContent::Link { .. } => false,
    };
    let asking: Vec<&TreeFile> = files().filter(asks).collect();
    let first = asking.first().filter(|_| !files().any(is_archive))?;
    Some(format!(
        "{} of which the device code is in archives (`{}`), and no artifact has a `.kpack` directory: \
         if `actions/upload-artifact` stored them, upload them again with `include-hidden-files: true`",
        many(asking.len(), "library"),
        first.path
    ))
}

/// Fails if a requested target has no device code.
pub(super) fn targets(request: &Request<'_>, found: &BTreeSet<Scope>) -> Result<()> {
    let expected = match request.options.platform {
        Platform::Linux => &request.options.linux,
        Platform::Windows => &request.options.windows,
    };
    let device = request.options.catalog.only(PackageKind::Device)?;
    let Some(expected) = expected.as_ref().filter(|_| !device.is_omitted) else {
        return Ok(());
    };
    let expected: BTreeSet<Target> = expected.iter().map(Target::base).collect();
    let missing = missing(&Vec::from_iter(expected.clone()), found);
    if missing.is_empty() {
        return Ok(());
    }
    Err(hinted(
        anyhow!(
            "no device code for {}: expected {}, found {}",
            listed(&missing),
            listed(&expected),
            listed(found)
        ),
        format!(
            "fetch the artifacts of these targets, or leave them out of `--{}-amdgpu-families`",
            request.options.platform
        ),
    ))
}

/// Fails if an artifact is there for GPUs with XNACK on, and not for the others of its target.
pub(super) fn runs_without_xnack(catalog: &Catalog, tree: &ArtifactTree) -> Result<()> {
    let artifacts = tree.artifacts.iter().filter(|it| !it.basedirs.is_empty());
    let lacks = catalog.only_with_xnack(artifacts.map(|artifact| &artifact.name))?;
    if lacks.is_empty() {
        return Ok(());
    }
    Err(hinted(
        anyhow!("not enough for packages: {}", lacks.join("; ")),
        "add the artifacts; without them, GPUs with XNACK off have no code",
    ))
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
        .filter(|name| {
            name.scope == *family && device.takes_component(name, DistributionMode::Split)
        })
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
            anyhow!("`--target` needs split device code, and this set is fat"),
            "fetch all artifacts of the run, and leave out `--target`",
        ));
    }
    let others: Vec<&Scope> = found.difference(&subset.targets).collect();
    if !others.is_empty() {
        return Err(hinted(
            anyhow!(
                "device code for {}, which is not among the targets of the set: {}",
                listed(others),
                listed(&subset.targets)
            ),
            "pass all targets of the run as `--target`",
        ));
    }
    let missing: Vec<&Scope> = subset.devices().filter(|it| !found.contains(it)).collect();
    if !missing.is_empty() {
        return Err(hinted(
            anyhow!("no device code for {}: found {}", listed(missing), listed(found)),
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
            && libraries.takes_component(&artifact.name, DistributionMode::Legacy)
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

pub(super) fn collision(collision: &Collision<'_>) -> Error {
    hinted(
        anyhow!("two artifacts have different files at one path: {collision}"),
        "build them so that one of them has it; `rocwheel build --on-collision last` takes the last by name",
    )
}

pub(super) fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("`{item}`")).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// Fails if all programs and libraries of the artifacts are for the other platform. That happens if
/// `--platform` was given to `fetch`, and not to `build`.
pub(super) fn platform(tree: &ArtifactTree, platform: Platform) -> Result<()> {
    let mut stranger = None;
    for artifact in &tree.artifacts {
        for file in &artifact.files {
            match made_for(file) {
                Some(found) if found == platform => return Ok(()),
                Some(found) => stranger = stranger.or(Some((found, artifact, file))),
                None => {}
            }
        }
    }
    let Some((found, artifact, file)) = stranger else {
        return Ok(());
    };
    Err(hinted(
        anyhow!(
            "the packages would be for {platform}, and the artifacts are for {found}: `{}` of `{}`",
            file.path,
            artifact.name
        ),
        format!("pass `--platform {found}`, or fetch the artifacts for {platform}"),
    ))
}

/// The platform of a host program or library; `None` for all other files, such as device code.
fn made_for(file: &TreeFile) -> Option<Platform> {
    let TreeContent::File(facts) = &file.content else {
        return None;
    };
    let name = file.path.file_name().to_ascii_lowercase();
    if [".dll", ".exe"].iter().any(|end| name.ends_with(end)) {
        return Some(Platform::Windows);
    }
    let elf = facts.elf.as_ref()?;
    let is_for_hosts = elf.machine == Machine::X86_64 && elf.kind != ElfKind::Other;
    is_for_hosts.then_some(Platform::Linux)
}

/// Fails if two of the packages that install into one directory, the one of the libraries, have other
/// bytes at one path: the package that is installed last would replace the file. `--on-collision last` turns
/// the error into a note. That two have the same bytes there is a finding of `check`.
pub(super) fn overlaid<'a>(
    packages: impl Iterator<Item = &'a Claim<'a>>,
    on_collision: OnCollision,
    same: Same<'_>,
) -> Result<Vec<String>> {
    let mut files: BTreeMap<&RelPath, (String, &Owned<'_>)> = BTreeMap::new();
    let mut notes = Vec::new();
    for claim in packages {
        let name = match &claim.scope {
            Some(scope) => format!("{}-{scope}", claim.spec.name),
            None => claim.spec.name.clone(),
        };
        let shipped = claim.files.iter();
        for (path, owned) in shipped.filter(|(path, _)| claim.members.contains(path)) {
            let Some((other, before)) = files.insert(path, (name.clone(), owned)) else {
                continue;
            };
            if same_entry(before.file, owned.file, same)? {
                continue;
            }
            let what = format!(
                "packages `{other}` and `{name}` install `{path}`, which differs between `{before}` and `{owned}`"
            );
            if on_collision == OnCollision::Refuse {
                return Err(hinted(
                    anyhow!(what),
                    "give the file a name of its own for each target; `rocwheel build --on-collision last` ships both",
                ));
            }
            notes.push(format!("{what}: the one installed last counts"));
        }
    }
    Ok(notes)
}
