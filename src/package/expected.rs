//! Predicts the packages of a set from the names of its artifacts, before they are unpacked.

use std::collections::BTreeSet;

use crate::{
    artifact::ArtifactName,
    error::Result,
    package::{
        BuildPlan, DistributionMode, Request,
        catalog::{Catalog, PackageKind, PackageSpec},
        plan::Label,
    },
    target::Scope,
    version::Version,
    wheel::{SdistFilename, WheelFilename},
};

/// A package that is expected to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub dist: String,
    pub version: Version,
    pub filename: String,
    pub is_wheel: bool,
    /// The subdirectory of `dist/` for it, in a set with one for each family.
    pub directory: Option<String>,
}

/// Lists the packages that would be built from these artifacts.
///
/// The names do not tell whether an artifact has the files that a package takes. So the list may
/// have a package that the build leaves out later, because no files are left for it.
pub fn expected(
    catalog: &Catalog,
    request: &Request,
    artifacts: &[ArtifactName],
) -> Result<Vec<Expected>> {
    let mode = request.mode;
    let holder = catalog.holder(mode)?;
    let with_code = artifacts
        .iter()
        .filter(|name| name.scope != Scope::Generic && holder.takes_kind(name, mode));
    let scopes: BTreeSet<Scope> = with_code.map(|name| name.scope.base()).collect();
    let mut families: Vec<Option<&Scope>> = scopes.iter().map(Some).collect();
    if mode == DistributionMode::Split || families.is_empty() {
        families = vec![None];
    }
    let mut all = Vec::new();
    for spec in catalog.packages() {
        if !spec.ships_on(request.platform)
            || (spec.kind == PackageKind::Device && mode == DistributionMode::Legacy)
        {
            continue;
        }
        let of_each = match spec.kind {
            PackageKind::Device => scopes.iter().map(Some).collect(),
            PackageKind::Runtime if !spec.dist_template(mode).is_for_one_scope() => vec![None],
            _ => families.clone(),
        };
        for scope in of_each {
            let takes = |name| spec.takes(name, mode, scope);
            if spec.kind != PackageKind::Runtime || artifacts.iter().any(takes) {
                all.push(one(spec, request, scope, families.len() > 1)?);
            }
        }
    }
    Ok(all)
}

fn one(
    spec: &PackageSpec,
    request: &Request,
    scope: Option<&Scope>,
    has_directories: bool,
) -> Result<Expected> {
    let dist = spec.dist_name(request.mode, scope);
    let (name, version) = (dist.parse()?, &request.release.version);
    let is_apart =
        has_directories && matches!(spec.kind, PackageKind::Devel | PackageKind::Selector);
    Ok(Expected {
        filename: match spec.kind {
            PackageKind::Selector => SdistFilename::new(&name, version).as_str().to_owned(),
            _ => WheelFilename::new(&name, version, &request.tag)
                .as_str()
                .to_owned(),
        },
        is_wheel: spec.kind != PackageKind::Selector,
        dist,
        version: version.clone(),
        directory: scope.filter(|_| is_apart).map(Scope::to_string),
    })
}

impl BuildPlan {
    /// The packages of the plan.
    pub fn expected(&self) -> Vec<Expected> {
        let one = |label: &Label, filename: &str, is_wheel| Expected {
            is_wheel,
            dist: label.dist.clone(),
            version: self.version.clone(),
            filename: filename.to_owned(),
            directory: label.directory.clone(),
        };
        let wheels = self.wheels.iter();
        let wheels = wheels.map(|wheel| one(&wheel.label, wheel.filename.as_str(), true));
        let sdists = self.sdists.iter();
        let sdists = sdists.map(|sdist| one(&sdist.label, sdist.filename.as_str(), false));
        wheels.chain(sdists).collect()
    }
}
