//! [`Subset`]: some packages of a set, and the artifacts that they need. With it, several machines
//! build a part of a set each, and fetch only what their part needs. [`Label`] says which package is meant.

use std::collections::BTreeSet;

use itertools::Itertools as _;

use super::{
    catalog::{Catalog, PackageKind, PackageSpec},
    naming::DistributionMode,
};
use crate::{
    artifact::{ArtifactName, Component, TherockManifest},
    run::Platform,
};
use rocwheel_base::{
    error::{Result, ensure},
    target::Scope,
};

/// Identifies a package of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// `core`, `device`, …
    pub package: String,
    /// The target or family that the package is built for.
    pub scope: Option<Scope>,
    /// The name of the distribution: `rocm-sdk-device-gfx942`.
    pub dist: String,
    /// The subdirectory of `dist/` for this package. Only legacy sets with several families have
    /// them.
    pub directory: Option<String>,
}

impl Label {
    pub fn of(package: &PackageSpec, mode: DistributionMode, scope: Option<&Scope>) -> Self {
        Self {
            package: package.name.clone(),
            scope: scope.cloned(),
            dist: package.dist_name(mode, scope),
            directory: None,
        }
    }

    /// All names that select this package, see [`wanted`].
    fn names(&self) -> impl Iterator<Item = String> + use<> {
        let package = &self.package;
        let narrow = self.scope.as_ref().map(|scope| format!("{package}-{}", scope.packaged()));
        [package.clone(), self.dist.clone()].into_iter().chain(narrow)
    }
}

/// A predicate for packages with one of `names`. It is an error if a name fits none of `labels`.
pub fn wanted<'a>(
    labels: &[&Label],
    names: &'a [String],
) -> Result<impl Fn(&Label) -> bool + use<'a>> {
    let known: BTreeSet<String> = labels.iter().flat_map(|label| label.names()).collect();
    let mut unknown = names.iter().filter(|name| !known.contains(*name)).peekable();
    ensure!(
        unknown.peek().is_none(),
        "no package `{}` in this set, which has `{}`",
        unknown.join("`, `"),
        known.iter().join("`, `")
    );
    Ok(|label: &Label| label.names().any(|name| names.contains(&name)))
}

/// The packages of a split set that are built.
#[derive(Clone, Debug)]
pub struct Subset {
    pub labels: Vec<Label>,
    /// The targets of the whole set, without features.
    pub targets: BTreeSet<Scope>,
    packages: Vec<PackageSpec>,
}

impl Subset {
    /// Selects packages by name, as `build --only` does.
    pub fn new(
        names: &[String],
        catalog: &Catalog,
        platform: Platform,
        targets: BTreeSet<Scope>,
    ) -> Result<Self> {
        let packages: Vec<PackageSpec> =
            catalog.packages().iter().filter(|it| it.ships_on(platform)).cloned().collect();
        let mut labels = Vec::new();
        for package in &packages {
            let label = |scope| Label::of(package, DistributionMode::Split, scope);
            match package.kind {
                PackageKind::Device => labels.extend(targets.iter().map(|it| label(Some(it)))),
                _ => labels.push(label(None)),
            }
        }
        let is_wanted = wanted(&labels.iter().collect::<Vec<_>>(), names)?;
        labels.retain(is_wanted);
        Ok(Self { labels, targets, packages })
    }

    /// The packages of `other` that cannot be built from the artifacts of this subset. All packages
    /// that are not for one target need the same artifacts, except that `devel` needs more.
    pub fn lacks(&self, other: &Self) -> Vec<String> {
        let is_devel = |label: &Label| {
            let mut packages = self.packages.iter();
            packages.any(|it| it.kind == PackageKind::Devel && it.name == label.package)
        };
        let lacking = other.labels.iter().filter(|label| {
            let is_like = self.is_for_all() && label.scope.is_none() && !is_devel(label);
            !is_like && !self.makes(label)
        });
        lacking.map(|label| format!("`{}`", label.dist)).collect()
    }

    /// Whether it has a package.
    pub fn makes(&self, label: &Label) -> bool {
        self.labels.iter().any(|it| it.package == label.package && it.scope == label.scope)
    }

    /// Whether a package is built, or at least one of it if there is one for each target.
    pub fn has(&self, package: &PackageSpec) -> bool {
        self.labels.iter().any(|it| it.package == package.name)
    }

    /// The targets whose device packages are built.
    pub fn devices(&self) -> impl Iterator<Item = &Scope> {
        self.labels.iter().filter_map(|label| label.scope.as_ref())
    }

    /// Whether any package is built that is not for one target.
    ///
    /// Such a package names all other packages of the set, so the files of all of them must be
    /// known.
    pub fn is_for_all(&self) -> bool {
        self.labels.iter().any(|label| label.scope.is_none())
    }

    /// Whether the files of a runtime package must be known. For the package into whose directory
    /// device code is installed, this is always so.
    pub fn must_know_files(&self, package: &PackageSpec) -> bool {
        let below = |device: &PackageSpec| device.overlay.as_ref() == Some(&package.name);
        self.is_for_all() || self.packages.iter().any(below)
    }

    /// Whether the build needs an artifact. `has_generic` says whether the run has a generic artifact
    /// of the same name and component.
    pub fn needs(&self, artifact: &ArtifactName, has_generic: bool) -> bool {
        artifact.to_string() == TherockManifest::ARTIFACT
            || self.has_licenses(artifact)
            || self.packages.iter().any(|package| match package.kind {
                PackageKind::Selector => false,
                PackageKind::Runtime => {
                    self.must_know_files(package)
                        && self.is_needed_to_run(package, artifact, has_generic)
                }
                PackageKind::Device => self.is_device_code(package, artifact),
                PackageKind::Devel => self.has(package) && self.is_for_devel(package, artifact),
            })
    }

    /// Whether an artifact may have licence texts for the packages: it is documentation.
    fn has_licenses(&self, artifact: &ArtifactName) -> bool {
        let is_made = |package: &PackageSpec| {
            self.has(package) || package.kind == PackageKind::Runtime && self.is_for_all()
        };
        artifact.component == Component::Doc
            && artifact.scope == Scope::Generic
            && self.packages.iter().any(|package| {
                is_made(package) && package.names_artifact(&artifact.name, DistributionMode::Split)
            })
    }

    /// Whether a runtime package needs an artifact. Without a generic sibling, an artifact for a
    /// target may contain the host code as well.
    fn is_needed_to_run(
        &self,
        package: &PackageSpec,
        artifact: &ArtifactName,
        has_generic: bool,
    ) -> bool {
        let alone = !has_generic && self.is_for_all();
        package.takes(artifact, DistributionMode::Split, None)
            || alone && package.takes_component(artifact, DistributionMode::Split)
    }

    /// Whether a device package needs an artifact: one for a target of the subset, or the generic
    /// one beside it. Without the generic one, the artifact of a target would be taken for host
    /// code.
    fn is_device_code(&self, package: &PackageSpec, artifact: &ArtifactName) -> bool {
        let base = artifact.scope.packaged();
        let is_for_one = self.devices().any(|scope| *scope == base);
        let is_beside = base == Scope::Generic && self.devices().next().is_some();
        package.takes_component(artifact, DistributionMode::Split) && (is_for_one || is_beside)
    }

    fn is_for_devel(&self, package: &PackageSpec, artifact: &ArtifactName) -> bool {
        let runs = |component| {
            let sibling = ArtifactName { component, ..artifact.clone() };
            self.packages.iter().any(|package| {
                package.kind == PackageKind::Runtime
                    && package.takes_component(&sibling, DistributionMode::Split)
            })
        };
        package.scope_fits(artifact, DistributionMode::Split, None)
            && !package.excludes(artifact, DistributionMode::Split)
            && (package.names_artifact(&artifact.name, DistributionMode::Split)
                || Component::ALL.iter().copied().any(runs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "base_lib_generic amd-llvm_lib_generic amd-llvm_dbg_generic \
        core-hip_dev_generic core-runtime_test_generic blas_lib_generic blas_dev_generic \
        blas_lib_gfx942 blas_lib_gfx942:xnack+ blas_lib_gfx1100 blas_test_gfx942 \
        prim_dev_generic rand_lib_gfx942 rocprofiler-systems_run_generic unknown_lib_generic";

    fn subset(names: &str) -> Result<Subset> {
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        let targets = ["gfx942", "gfx1100"].map(|name| name.parse().unwrap());
        let catalog = Catalog::built_in().unwrap();
        Subset::new(&names, &catalog, Platform::Linux, targets.into())
    }

    fn needed(names: &str) -> String {
        let subset = subset(names).unwrap();
        let artifacts: Vec<ArtifactName> =
            RUN.split_whitespace().map(|it| it.parse().unwrap()).collect();
        let has_generic = |artifact: &ArtifactName| {
            let generic = ArtifactName { scope: Scope::Generic, ..artifact.clone() };
            artifacts.contains(&generic)
        };
        let needed = artifacts.iter().filter(|it| subset.needs(it, has_generic(it)));
        needed.map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn device_code_needs_its_target_and_what_it_is_laid_over() {
        insta::assert_snapshot!(needed("device-gfx942"), @"base_lib_generic blas_lib_generic blas_lib_gfx942 blas_lib_gfx942:xnack+ rand_lib_gfx942");
        insta::assert_snapshot!(needed("rocm-sdk-device-gfx1100"), @"base_lib_generic blas_lib_generic blas_lib_gfx1100");
        insta::assert_snapshot!(needed("device"), @"base_lib_generic blas_lib_generic blas_lib_gfx942 blas_lib_gfx942:xnack+ blas_lib_gfx1100 rand_lib_gfx942");
    }

    #[test]
    fn what_is_for_all_needs_no_device_code_but_all_that_may_have_host_code() {
        insta::assert_snapshot!(needed("core"), @"base_lib_generic amd-llvm_lib_generic core-hip_dev_generic blas_lib_generic rand_lib_gfx942 rocprofiler-systems_run_generic");
        assert_eq!(needed("core"), needed("libraries,profiler,meta"));
    }

    #[test]
    fn the_devel_package_needs_headers_and_symbols_besides() {
        insta::assert_snapshot!(needed("devel"), @"base_lib_generic amd-llvm_lib_generic amd-llvm_dbg_generic core-hip_dev_generic blas_lib_generic blas_dev_generic prim_dev_generic rand_lib_gfx942 rocprofiler-systems_run_generic");
    }

    #[test]
    fn what_no_package_is_called_is_refused() {
        let message = subset("core,device-gfx950").unwrap_err().to_string();
        insta::assert_snapshot!(message, @"no package `device-gfx950` in this set, which has `core`, `devel`, `device`, `device-gfx1100`, `device-gfx942`, `libraries`, `meta`, `profiler`, `rocm`, `rocm-profiler`, `rocm-sdk-core`, `rocm-sdk-devel`, `rocm-sdk-device-gfx1100`, `rocm-sdk-device-gfx942`, `rocm-sdk-libraries`");
    }
}
