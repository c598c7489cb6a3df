//! Predicts the packages of a set from the names of its artifacts, before they are unpacked.

use crate::{
    artifact::ArtifactName,
    error::Result,
    package::{BuildPlan, DistributionMode, Request, catalog::PackageKind, plan::PackageContent},
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
pub fn expected(request: &Request<'_>, artifacts: &[ArtifactName]) -> Result<Vec<Expected>> {
    let catalog = &request.options.catalog;
    let (mode, version) = (request.mode, &request.release.version);
    let scopes = catalog.scopes_with_code(artifacts.iter(), mode)?;
    let mut families: Vec<Option<&Scope>> = scopes.iter().map(Some).collect();
    if mode == DistributionMode::Split || families.is_empty() {
        families = vec![None];
    }
    let mut all = Vec::new();
    for spec in catalog.packages() {
        if !spec.ships_on(request.options.platform) {
            continue;
        }
        let of_each = match (spec.kind, mode) {
            (PackageKind::Device, DistributionMode::Legacy) => continue,
            (PackageKind::Device, _) => scopes.iter().map(Some).collect(),
            (PackageKind::Runtime, _) if !spec.dist_template(mode).is_for_one_scope() => {
                vec![None]
            }
            _ => families.clone(),
        };
        let is_apart =
            families.len() > 1 && matches!(spec.kind, PackageKind::Devel | PackageKind::Selector);
        for scope in of_each {
            let takes = |name| spec.takes(name, mode, scope);
            if spec.kind == PackageKind::Runtime && !artifacts.iter().any(takes) {
                continue;
            }
            let dist = spec.dist_name(mode, scope);
            let (name, is_wheel) = (dist.parse()?, spec.kind != PackageKind::Selector);
            all.push(Expected {
                filename: if is_wheel {
                    WheelFilename::new(&name, version, &request.options.tag).to_string()
                } else {
                    SdistFilename::new(&name, version).to_string()
                },
                dist,
                version: version.clone(),
                is_wheel,
                directory: scope.filter(|_| is_apart).map(Scope::to_string),
            });
        }
    }
    Ok(all)
}

impl BuildPlan {
    /// The packages of the plan.
    pub fn expected(&self) -> Vec<Expected> {
        let packages = self.packages.iter().map(|package| Expected {
            dist: package.label.dist.clone(),
            version: self.version.clone(),
            filename: package.file_name.clone(),
            is_wheel: matches!(package.content, PackageContent::Wheel { .. }),
            directory: package.label.directory.clone(),
        });
        packages.collect()
    }
}
