//! Checks that a plan has every file that the Python code of its packages finds by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::{
    error::{Result, anyhow, hinted},
    package::{
        catalog::{Catalog, PackageKind},
        naming::DistributionMode,
        plan::{BuildPlan, MemberSource, WheelPlan},
        promise::{ArtifactPart, Promise},
    },
};

/// Which packages a plan must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanExtent {
    /// All packages of the policy, without those that `--without` leaves out.
    Whole,
    /// Some of them.
    Part,
}

/// Something that a plan lacks, and the `--without` argument that accepts that.
struct Missing {
    what: String,
    /// The artifact that should have it.
    artifact: Option<String>,
    without: String,
}

/// Fails if a plan lacks something, and names the artifacts that should have it.
pub fn check(catalog: &Catalog, plan: &BuildPlan, extent: PlanExtent) -> Result<()> {
    let mut missing = Vec::new();
    for wheel in &plan.wheels {
        missing.extend(in_wheel(catalog, plan, wheel));
    }
    if extent == PlanExtent::Whole {
        missing.extend(packages(catalog, plan));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<&str> = missing.iter().map(|one| one.without.as_str()).collect();
    let names = Vec::from_iter(names).join(",");
    Err(hinted(
        anyhow!("{}", sentence(&missing)),
        format!(
            "add the artifacts, or leave out on purpose what this run does not build: `--without {names}`"
        ),
    ))
}

/// What a wheel lacks of the promises of its package.
fn in_wheel(catalog: &Catalog, plan: &BuildPlan, wheel: &WheelPlan) -> Vec<Missing> {
    let Some(package) = catalog.get(&wheel.label.package) else {
        return Vec::new();
    };
    let all = package.promises(plan.platform);
    if all.is_empty() {
        return Vec::new();
    }
    let paths = paths(wheel);
    let is_kept = |promise: &Promise| paths.iter().any(|path| promise.pattern.matches(path));
    let (kept, broken): (Vec<_>, Vec<_>) = all.into_iter().partition(is_kept);
    let has_more = |part: &ArtifactPart| {
        let parts = kept.iter().filter_map(|promise| promise.artifact.as_ref());
        parts.into_iter().any(|other| other.name == part.name)
    };
    let missing = broken.into_iter().map(|promise| {
        let artifact = promise.artifact.as_ref();
        // Suggest the whole artifact for `--without` only if the wheel has nothing else of it.
        let whole = artifact.filter(|part| !has_more(part));
        Missing {
            what: promise.to_string(),
            artifact: artifact.map(|part| full_name(part, plan.mode, wheel)),
            without: whole.map_or(promise.name(), |part| &part.name).to_owned(),
        }
    });
    missing.collect()
}

/// Paths of a wheel's files, relative to the directory of the package, or to the root of the SDK
/// tree.
fn paths(wheel: &WheelPlan) -> Vec<&str> {
    let mut paths = Vec::new();
    for (path, member) in wheel.members.iter() {
        match &member.source {
            MemberSource::Sdk(tree, _) => {
                paths.extend(tree.ordered().iter().map(|(path, _)| path.as_str()));
            }
            _ => paths.extend(path.as_str().split_once('/').map(|(_, below)| below)),
        }
    }
    paths
}

/// Optional packages of the policy that the plan lacks.
fn packages(catalog: &Catalog, plan: &BuildPlan) -> Vec<Missing> {
    let wanted = catalog.packages().iter().filter(|package| {
        let is_made = matches!(package.kind, PackageKind::Runtime | PackageKind::Devel);
        is_made && package.is_made_for(plan.platform)
    });
    let has = |name: &str| plan.wheels.iter().any(|wheel| wheel.label.package == name);
    let missing = wanted.filter(|package| !has(&package.name));
    let missing = missing.map(|package| {
        let artifacts: Vec<String> = package.artifacts().map(|one| format!("`{one}`")).collect();
        Missing {
            what: format!("package `{}` ({})", package.name, artifacts.join(", ")),
            artifact: None,
            without: package.name.clone(),
        }
    });
    missing.collect()
}

/// The full name of an artifact, with the family that the wheel is for: `fft_lib_generic`.
fn full_name(part: &ArtifactPart, mode: DistributionMode, wheel: &WheelPlan) -> String {
    match &wheel.label.scope {
        Some(scope) if mode == DistributionMode::Legacy => format!("{part}_{scope}"),
        _ => format!("{part}_generic"),
    }
}

/// The error message: `` `a` and 2 more are missing: artifact `x` has them; … ``.
fn sentence(missing: &[Missing]) -> String {
    let mut by_artifact: BTreeMap<&Option<String>, Vec<&str>> = BTreeMap::new();
    for one in missing {
        by_artifact
            .entry(&one.artifact)
            .or_default()
            .push(&one.what);
    }
    let mut text = String::new();
    for (artifact, what) in by_artifact {
        let separator = if text.is_empty() { "" } else { "; " };
        let (is, them) = match what.len() {
            1 => ("is", "it"),
            _ => ("are", "them"),
        };
        let more = match what.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = write!(text, "{separator}{}{more} {is} missing", what[0]);
        if let Some(artifact) = artifact {
            let _ = write!(text, ": artifact `{artifact}` has {them}");
        }
    }
    text
}
