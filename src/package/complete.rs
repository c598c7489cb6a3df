//! Checks that a plan has every file that the Python code of its packages finds by name.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use crate::{
    error::{Result, anyhow, hinted},
    package::{
        catalog::{Catalog, PackageKind, PackageSpec},
        naming::DistributionMode,
        plan::{BuildPlan, MemberSource, PackagePlan},
        promise::Promise,
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
    for package in &plan.packages {
        if let Some(spec) = catalog.get(&package.label.package) {
            missing.extend(in_package(spec, plan, package));
        }
    }
    if extent == PlanExtent::Whole {
        missing.extend(packages(catalog, plan));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<&str> = missing.iter().map(|one| one.without.as_str()).collect();
    Err(hinted(
        anyhow!("{}", sentence(&missing)),
        format!(
            "add the artifacts, or leave out on purpose what this run does not build: `--without {}`",
            names.iter().join(",")
        ),
    ))
}

/// What a package lacks of its promises.
fn in_package(spec: &PackageSpec, plan: &BuildPlan, package: &PackagePlan) -> Vec<Missing> {
    let paths = paths(package);
    let is_kept = |promise: &Promise| paths.iter().any(|path| promise.pattern.matches(path));
    let promises = spec.promises(plan.platform).into_iter();
    let (kept, broken): (Vec<_>, Vec<_>) = promises.partition(is_kept);
    let of_kept: BTreeSet<&str> = kept
        .iter()
        .filter_map(|promise| Some(&*promise.artifact.as_ref()?.name))
        .collect();
    let scope = match &package.label.scope {
        Some(scope) if plan.mode == DistributionMode::Legacy => scope.to_string(),
        _ => "generic".to_owned(),
    };
    let missing = broken.into_iter().map(|promise| {
        let artifact = promise.artifact.as_ref();
        // Suggest the whole artifact for `--without` only if the wheel has nothing else of it.
        let whole = artifact.filter(|part| !of_kept.contains(&*part.name));
        Missing {
            what: promise.to_string(),
            artifact: artifact.map(|part| format!("{part}_{scope}")),
            without: whole.map_or(promise.name(), |part| &part.name).to_owned(),
        }
    });
    missing.collect()
}

/// Paths of a wheel's files, relative to the directory of the package, or to the root of the SDK
/// tree.
fn paths(package: &PackagePlan) -> Vec<&str> {
    let mut paths = Vec::new();
    for (path, member) in package.members() {
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
    let has = |name: &str| plan.packages.iter().any(|it| it.label.package == name);
    let missing = catalog.packages().iter().filter(|package| {
        matches!(package.kind, PackageKind::Runtime | PackageKind::Devel)
            && package.is_made_for(plan.platform)
            && !has(&package.name)
    });
    let missing = missing.map(|package| Missing {
        what: format!(
            "package `{}` (`{}`)",
            package.name,
            package.artifacts().join("`, `")
        ),
        artifact: None,
        without: package.name.clone(),
    });
    missing.collect()
}

/// The error message: `` `a` and 2 more are missing: artifact `x` has them; … ``.
fn sentence(missing: &[Missing]) -> String {
    let mut by_artifact: BTreeMap<&Option<String>, Vec<&str>> = BTreeMap::new();
    for one in missing {
        let of_it = by_artifact.entry(&one.artifact).or_default();
        of_it.push(&one.what);
    }
    let clauses = by_artifact.into_iter().map(|(artifact, what)| {
        let (more, them) = match what.len() - 1 {
            0 => (" is".to_owned(), "it"),
            more => (format!(" and {more} more are"), "them"),
        };
        let artifact = artifact.as_ref();
        let artifact = artifact.map(|name| format!(": artifact `{name}` has {them}"));
        format!("{}{more} missing{}", what[0], artifact.unwrap_or_default())
    });
    clauses.collect::<Vec<_>>().join("; ")
}
