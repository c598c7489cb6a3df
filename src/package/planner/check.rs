//! Checks that the artifacts fit the request and the build's manifest, and that packages which
//! install into one directory fit each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use itertools::Itertools as _;

use crate::{
    artifact::{ArtifactTree, Collision, Component, Owned, TreeContent, TreeFile, same_entry},
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
    run::Platform,
};
use rocwheel_base::{
    error::{Error, Result, anyhow, hinted},
    quantity::{few, many},
    relpath::RelPath,
    target::{Scope, Target, TargetTable, missing},
};
use rocwheel_elf::{ElfKind, Machine};

/// The artifacts with libraries or programs that ship nowhere, such as those of a new project, and that
/// `packages.toml` has no reason for: `brandnew_lib`.
pub(super) fn find_unshipped(catalog: &Catalog, tree: &ArtifactTree) -> Vec<String> {
    tree.artifacts
        .iter()
        .filter(|artifact| !artifact.files.is_empty())
        .map(|artifact| &artifact.name)
        .filter(|name| {
            matches!(name.component, Component::Lib | Component::Run)
                && !catalog.knows_artifact(&name.name)
        })
        .map(|name| format!("{}_{}", name.name, name.component))
        .sorted()
        .dedup()
        .collect()
}

/// The artifacts that packages are made of and the run does not have. A reader of `set.json` or of the job
/// summary sees what the set would have had with them:
///
/// - `core-ocl`, where the run has no component of it,
/// - `fft_dev`, where the run has another component of `fft`,
/// - `rccl_lib_gfx942`, where the run has `rccl_lib` for another target.
///
/// Most are left out on purpose, by the options of the run. If a complete set needs an artifact, its files
/// are among the required files, and their absence is an error.
pub(super) fn find_missing_artifacts(
    catalog: &Catalog,
    tree: &ArtifactTree,
    request: &Request,
) -> Vec<String> {
    // Another job has the artifacts of the rest of the set.
    if request.subset.is_some() {
        return Vec::new();
    }
    let names = || tree.artifacts.iter().map(|artifact| &artifact.name);
    let scopes: BTreeSet<&Scope> =
        names().map(|it| &it.scope).filter(|scope| **scope != Scope::Generic).collect();
    let mut in_run: BTreeMap<&str, BTreeMap<Component, BTreeSet<&Scope>>> = BTreeMap::new();
    for it in names() {
        let of_name = in_run.entry(it.name.as_str()).or_default();
        of_name.entry(it.component).or_default().insert(&it.scope);
    }
    let mut missing = Vec::new();
    for (name, components) in catalog.ingredients(request.mode, request.options.platform) {
        let Some(components_in_run) = in_run.get(name) else {
            missing.push(name.to_owned());
            continue;
        };
        for component in components {
            let Some(present) = components_in_run.get(&component) else {
                missing.push(format!("{name}_{component}"));
                continue;
            };
            // An artifact that is generic only has no device code, so no target lacks it.
            if present.iter().any(|scope| **scope != Scope::Generic) {
                let missing_scopes = scopes.difference(present);
                missing.extend(missing_scopes.map(|scope| format!("{name}_{component}_{scope}")));
            }
        }
    }
    missing
}

/// A note about all artifacts that `packages.toml` does not name. Unlike [`find_unshipped`], it also names
/// artifacts with tests and documents.
pub(super) fn note_unknown_artifacts(catalog: &Catalog, tree: &ArtifactTree) -> Option<String> {
    let unknown: BTreeSet<&String> = tree
        .artifacts
        .iter()
        .map(|artifact| &artifact.name.name)
        .filter(|name| !catalog.knows_artifact(name))
        .collect();
    if unknown.is_empty() {
        return None;
    }
    let names = unknown.iter().map(|name| format!("`{name}`"));
    Some(format!("artifacts that no package takes: {}", few(names)))
}

/// A note about libraries whose device code no artifact has: their archives are in `.kpack`, a hidden
/// directory, and uploads leave out hidden directories by default.
pub(super) fn note_missing_archives(request: &Request<'_>, tree: &ArtifactTree) -> Option<String> {
    // Another job may have the device code.
    if request.subset.is_some() {
        return None;
    }
    let files = || tree.artifacts.iter().flat_map(|artifact| &artifact.files);
    let is_archive = |file: &TreeFile| file.path.components().any(|it| it == ".kpack");
    if files().any(is_archive) {
        return None;
    }
    let is_split = |file: &&TreeFile| match &file.content {
        TreeContent::File(facts) => facts.elf.as_ref().is_some_and(|elf| elf.kpack_ref),
        TreeContent::Directory | TreeContent::Link { .. } => false,
    };
    let split: Vec<&TreeFile> = files().filter(is_split).collect();
    let first = split.first()?;
    Some(format!(
        "{} of which the device code is in archives (`{}`), and no artifact has a `.kpack` directory: \
         if `actions/upload-artifact` stored them, upload them again with `include-hidden-files: true`",
        many(split.len(), "library"),
        first.path
    ))
}

/// Fails if a requested target has no device code. `present` are the scopes that have some.
pub(super) fn ensure_targets(request: &Request<'_>, present: &BTreeSet<Scope>) -> Result<()> {
    let requested = match request.options.platform {
        Platform::Linux => &request.options.linux,
        Platform::Windows => &request.options.windows,
    };
    let device = request.options.catalog.only(PackageKind::Device)?;
    let Some(requested) = requested.as_ref().filter(|_| !device.is_omitted) else {
        return Ok(());
    };
    let expected: BTreeSet<Target> = requested.iter().map(Target::base).collect();
    let missing = missing(&Vec::from_iter(expected.clone()), present);
    if missing.is_empty() {
        return Ok(());
    }
    Err(hinted(
        anyhow!(
            "no device code for {}: expected {}, found {}",
            list_quoted(&missing),
            list_quoted(&expected),
            list_quoted(present)
        ),
        format!(
            "fetch the artifacts of these targets, or leave them out of `--{}-amdgpu-families`",
            request.options.platform
        ),
    ))
}

/// Fails if the tree has an artifact for GPUs with XNACK on, and not for GPUs of the same target with
/// XNACK off.
pub(super) fn ensure_code_without_xnack(catalog: &Catalog, tree: &ArtifactTree) -> Result<()> {
    let artifacts = tree.artifacts.iter().filter(|artifact| !artifact.basedirs.is_empty());
    let missing = catalog.only_with_xnack(artifacts.map(|artifact| &artifact.name))?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(hinted(
        anyhow!("not enough for packages: {}", missing.join("; ")),
        "add the artifacts; without them, GPUs with XNACK off have no code",
    ))
}

/// Fails if an artifact is for a generic target or for SPIR-V. A user installs the packages of a GPU, and no GPU has
/// such a name.
pub(super) fn ensure_no_shared_code(tree: &ArtifactTree, scopes: &BTreeSet<Scope>) -> Result<()> {
    let table = TargetTable::builtin();
    let kind_of = |scope: &Scope| {
        let name = scope.as_str();
        let generic = table.is_generic(name).then(|| "a generic target of LLVM".to_owned());
        generic.or_else(|| table.code_for_every_gpu(name).map(str::to_owned))
    };
    let Some((scope, kind)) = scopes.iter().find_map(|scope| Some((scope, kind_of(scope)?))) else {
        return Ok(());
    };
    let artifacts: Vec<_> = tree
        .artifacts
        .iter()
        .map(|artifact| &artifact.name)
        .filter(|name| name.scope == *scope)
        .collect();
    Err(hinted(
        anyhow!("no package can have the code of {}: `{scope}` is {kind}", list_quoted(&artifacts)),
        format!("remove {} from the artifact directory", list_quoted(&artifacts)),
    ))
}

/// Fails if an artifact of a split set is for a family. A split set has one device package for each
/// target, and no extra of `rocm` would install the package of a family.
pub(super) fn ensure_no_family(
    catalog: &Catalog,
    tree: &ArtifactTree,
    scopes: &BTreeSet<Scope>,
) -> Result<()> {
    let Some(family) = scopes.iter().find(|it| matches!(it, Scope::Family(_))) else {
        return Ok(());
    };
    let device = catalog.only(PackageKind::Device)?;
    let artifacts = tree.artifacts.iter().map(|artifact| &artifact.name).filter(|name| {
        name.scope == *family && device.takes_component(name, DistributionMode::Split)
    });
    Err(hinted(
        anyhow!(
            "a set with split device code has packages for targets, but {} is for the family `{family}`",
            list_quoted(artifacts)
        ),
        "`--kpack split` takes device code out of fat artifacts; of a run that is split, fetch the artifacts of its targets",
    ))
}

/// Fails if the artifacts do not fit a part of a set: they are fat, they have device code for a
/// target that is not in the set, or none for a target whose package is to be built. `present` are
/// the scopes that have device code.
pub(super) fn ensure_subset(
    subset: &Subset,
    present: &BTreeSet<Scope>,
    mode: DistributionMode,
) -> Result<()> {
    if mode == DistributionMode::Legacy {
        return Err(hinted(
            anyhow!("`--target` needs split device code, and this set is fat"),
            "fetch all artifacts of the run, and leave out `--target`",
        ));
    }
    let others: Vec<&Scope> = present.difference(&subset.targets).collect();
    if !others.is_empty() {
        return Err(hinted(
            anyhow!(
                "device code for {}, which is not among the targets of the set: {}",
                list_quoted(others),
                list_quoted(&subset.targets)
            ),
            "pass all targets of the run as `--target`",
        ));
    }
    let missing: Vec<&Scope> = subset.devices().filter(|it| !present.contains(it)).collect();
    if !missing.is_empty() {
        return Err(hinted(
            anyhow!("no device code for {}: found {}", list_quoted(missing), list_quoted(present)),
            "fetch what the package is made of, with the `--only` of this build",
        ));
    }
    Ok(())
}

/// Fails if the manifest says that the set is not split, but an artifact has a `.kpack` archive.
pub(super) fn ensure_fat(
    catalog: &Catalog,
    tree: &ArtifactTree,
    scopes: &BTreeSet<Scope>,
) -> Result<()> {
    let libraries = catalog.overlaid()?;
    let gpu_artifacts = tree.artifacts.iter().filter(|artifact| {
        scopes.contains(&artifact.name.scope.packaged())
            && libraries.takes_component(&artifact.name, DistributionMode::Legacy)
    });
    let is_kpack = |path: &RelPath| path.as_str().rsplit('.').next() == Some("kpack");
    for artifact in gpu_artifacts {
        if let Some(file) = artifact.files.iter().find(|file| is_kpack(&file.path)) {
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

/// The error about two artifacts with different files at one path.
pub(super) fn refuse_collision(collision: &Collision<'_>) -> Error {
    hinted(
        anyhow!("two artifacts have different files at one path: {collision}"),
        "build them so that one of them has it; `rocwheel build --on-collision last` takes the last by name",
    )
}

/// Lists items in backticks, or says `none`.
pub(super) fn list_quoted<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = items.into_iter().map(|item| format!("`{item}`")).collect();
    if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
}

/// Fails if all programs and libraries of the artifacts are for the other platform. That happens if
/// `--platform` was given to `fetch`, and not to `build`.
pub(super) fn ensure_platform(tree: &ArtifactTree, platform: Platform) -> Result<()> {
    // A single file of this platform is enough: artifacts for Linux may have some files for Windows.
    let mut first_other = None;
    for artifact in &tree.artifacts {
        for file in &artifact.files {
            match host_platform(file) {
                Some(host) if host == platform => return Ok(()),
                Some(host) => first_other = first_other.or(Some((host, artifact, file))),
                None => {}
            }
        }
    }
    let Some((other, artifact, file)) = first_other else {
        return Ok(());
    };
    Err(hinted(
        anyhow!(
            "the packages would be for {platform}, and the artifacts are for {other}: `{}` of `{}`",
            file.path,
            artifact.name
        ),
        format!("pass `--platform {other}`, or fetch the artifacts for {platform}"),
    ))
}

/// The platform of a host program or library; `None` for all other files, such as device code.
fn host_platform(file: &TreeFile) -> Option<Platform> {
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

/// Fails if two packages that install into one directory, the directory of the libraries, have different
/// bytes at one path: the package that is installed last would replace the file. `--on-collision last` turns
/// the error into a note. Two packages with the same bytes at one path are a finding of `check`.
pub(super) fn compare_overlaid<'a>(
    packages: impl Iterator<Item = &'a Claim<'a>>,
    on_collision: OnCollision,
    same: Same<'_>,
) -> Result<Vec<String>> {
    // Each path, with the name of the package that has it, and the entry of the artifact.
    let mut files: BTreeMap<&RelPath, (String, &Owned<'_>)> = BTreeMap::new();
    let mut notes = Vec::new();
    for claim in packages {
        let name = match &claim.scope {
            Some(scope) => format!("{}-{scope}", claim.spec.name),
            None => claim.spec.name.clone(),
        };
        for (path, owned) in &claim.files {
            // A file of the artifacts that the package does not ship replaces nothing.
            if !claim.members.contains(path) {
                continue;
            }
            let Some((other, before)) = files.insert(path, (name.clone(), owned)) else {
                continue;
            };
            if same_entry(before.file, owned.file, same)? {
                continue;
            }
            let difference = format!(
                "packages `{other}` and `{name}` install `{path}`, which differs between `{before}` and `{owned}`"
            );
            if on_collision == OnCollision::Refuse {
                return Err(hinted(
                    anyhow!(difference),
                    "give the file a name of its own for each target; `rocwheel build --on-collision last` ships both",
                ));
            }
            notes.push(format!("{difference}: the one installed last counts"));
        }
    }
    Ok(notes)
}
