//! [`BuildOptions`] and [`Request`]: how to build a set. From the names of the artifacts, a request
//! predicts the packages, before anything is unpacked.
//!
//! [`Subset`]: some packages of a set, and the artifacts that they need. With it, several machines
//! build a part of a set each, and fetch only what their part needs. Reads and writes no files.

use std::{collections::BTreeSet, num::NonZeroUsize};

use crate::{
    artifact::{ArtifactName, Component, TherockManifest},
    error::{Result, ensure},
    package::{
        artifact_version,
        plan::{BuildPlan, Label, PackageForm, SdkTreePacking, wanted},
        split_tree::Kpack,
    },
    policy::{
        DistNames,
        catalog::{Catalog, PackageKind, PackageSpec},
        naming::{DistributionMode, ImportSuffix},
    },
    run::Platform,
    target::{Scope, Target},
    version::{ReleaseType, Version},
    wheel::{PackSettings, PackageFilename, Tag, WheelCompression},
};

/// How to build a set, independent of its artifacts.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    pub catalog: Catalog,
    /// `None` for the version that the artifacts say.
    pub version: Option<Version>,
    /// The release type of the run, for artifacts that say only their base version.
    pub release_type: ReleaseType,
    pub suffix: ImportSuffix,
    pub platform: Platform,
    /// The targets whose extras `rocm` offers on Linux; `None` if they were not given.
    pub linux: Option<Vec<Target>>,
    /// The targets whose extras `rocm` offers on Windows; `None` if they were not given.
    pub windows: Option<Vec<Target>>,
    /// The tag of the wheels: `py3-none-linux_x86_64`.
    pub tag: Tag,
    pub on_collision: OnCollision,
    pub kpack: Kpack,
    pub devel_packing: SdkTreePacking,
    pub settings: PackSettings,
}

/// What to build, as far as the files of the artifacts do not say it.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub options: &'a BuildOptions,
    pub version: Version,
    pub mode: DistributionMode,
    /// The packages to build if the artifacts are only some of those of the run.
    pub subset: Option<Subset>,
    /// What a user should know about these decisions.
    pub notes: Vec<String>,
}

/// What to do when two artifacts differ about one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnCollision {
    /// Stop with an error that names both
    #[default]
    Refuse,
    /// Use the artifact whose name sorts last, and print a note
    Last,
}

impl BuildOptions {
    /// The defaults.
    pub fn new(platform: Platform, jobs: NonZeroUsize) -> Result<Self> {
        Ok(Self {
            catalog: Catalog::built_in()?,
            version: None,
            release_type: ReleaseType::Ci,
            suffix: ImportSuffix::default(),
            platform,
            linux: None,
            windows: None,
            tag: format!("py3-none-{}", platform.wheel_tag()).parse()?,
            on_collision: OnCollision::default(),
            kpack: Kpack::default(),
            devel_packing: SdkTreePacking::default(),
            settings: PackSettings::new(WheelCompression::default(), jobs),
        })
    }

    /// The request for a plan. What the options do not say comes from the build's manifest.
    pub fn request(&self, manifest: &TherockManifest) -> Result<Request<'_>> {
        let (version, notes) = match self.version.clone() {
            Some(version) => (version, Vec::new()),
            None => artifact_version::find(manifest, self.release_type)?,
        };
        Ok(Request {
            options: self,
            version,
            notes,
            mode: if manifest.kpack_split || self.kpack == Kpack::Split {
                DistributionMode::Split
            } else {
                DistributionMode::Legacy
            },
            subset: None,
        })
    }
}

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

impl Request<'_> {
    /// The import name of the directory with the files of a distribution: `_rocm_sdk_core` and the
    /// suffix of the set.
    pub(super) fn import_name(&self, dist: &str) -> String {
        DistNames::import_name(dist) + &self.options.suffix.to_string()
    }

    /// Lists the packages that would be built from these artifacts.
    ///
    /// The names do not tell whether an artifact has the files that a package takes. So the list may
    /// have a package that the build leaves out later, because no files are left for it.
    pub fn expected(&self, artifacts: &[ArtifactName]) -> Result<Vec<Expected>> {
        let catalog = &self.options.catalog;
        let (mode, version) = (self.mode, &self.version);
        let scopes = catalog.scopes_with_code(artifacts.iter(), mode)?;
        let mut families: Vec<Option<&Scope>> = scopes.iter().map(Some).collect();
        if mode == DistributionMode::Split || families.is_empty() {
            families = vec![None];
        }
        let mut all = Vec::new();
        for spec in catalog.packages() {
            if !spec.is_made_for(self.options.platform) {
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
            let is_apart = families.len() > 1
                && matches!(spec.kind, PackageKind::Devel | PackageKind::Selector);
            for scope in of_each {
                let takes = |name| spec.takes(name, mode, scope);
                if spec.kind == PackageKind::Runtime && !artifacts.iter().any(takes) {
                    continue;
                }
                let dist = spec.dist_name(mode, scope);
                let is_wheel = spec.kind != PackageKind::Selector;
                let tag = is_wheel.then_some(&self.options.tag);
                all.push(Expected {
                    filename: PackageFilename::new(dist.parse()?, version, tag).to_string(),
                    dist,
                    version: version.clone(),
                    is_wheel,
                    directory: scope.filter(|_| is_apart).map(Scope::to_string),
                });
            }
        }
        Ok(all)
    }
}

impl BuildPlan {
    /// The packages of the plan.
    pub fn expected(&self) -> Vec<Expected> {
        let packages = self.packages.iter().map(|package| Expected {
            dist: package.label.dist.clone(),
            version: self.version.clone(),
            filename: package.file_name.clone(),
            is_wheel: matches!(package.form, PackageForm::Wheel(_)),
            directory: package.label.directory.clone(),
        });
        packages.collect()
    }
}

/// The packages of a split set that are built.
#[derive(Clone, Debug)]
pub struct Subset {
    labels: Vec<Label>,
    /// The targets of the whole set, without features.
    pub targets: BTreeSet<Scope>,
    packages: Vec<PackageSpec>,
}

impl Subset {
    /// Selects packages by name, as [`BuildPlan::keep`] does.
    pub fn new(
        names: &[String],
        catalog: &Catalog,
        platform: Platform,
        targets: BTreeSet<Scope>,
    ) -> Result<Self> {
        let packages = catalog.packages().iter();
        let packages: Vec<_> = packages.filter(|it| it.ships_on(platform)).cloned().collect();
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

    /// Removes all packages from a plan that are not in the subset. Fails if none is left.
    ///
    /// If the plan lacks only some packages of the subset, because the artifacts have no files for
    /// them, it has a note about each.
    pub fn keep(&self, plan: &mut BuildPlan) -> Result<()> {
        plan.packages.retain(|package| self.makes(&package.label));
        let names = self.labels.iter().map(|label| format!("`{}`", label.dist));
        ensure!(
            !plan.packages.is_empty(),
            "none of these packages is in this set: {}",
            names.collect::<Vec<_>>().join(", ")
        );
        Ok(())
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

    fn makes(&self, label: &Label) -> bool {
        let same = |own: &Label| own.package == label.package && own.scope == label.scope;
        self.labels.iter().any(same)
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
        let base = artifact.scope.base();
        let is_for_one = self.devices().any(|scope| *scope == base);
        let is_beside = base == Scope::Generic && self.devices().next().is_some();
        package.takes_component(artifact, DistributionMode::Split) && (is_for_one || is_beside)
    }

    fn is_for_devel(&self, package: &PackageSpec, artifact: &ArtifactName) -> bool {
        let runs = |component| {
            let sibling = ArtifactName { component, ..artifact.clone() };
            self.packages.iter().any(|it| {
                it.kind == PackageKind::Runtime
                    && it.takes_component(&sibling, DistributionMode::Split)
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
    fn what_is_left_out_is_not_foretold() {
        let mut options = BuildOptions::new(Platform::Linux, NonZeroUsize::MIN).unwrap();
        let without = ["devel", "libraries"].map(str::to_owned);
        options.catalog = options.catalog.without(&without).unwrap();
        let request = Request {
            notes: Vec::new(),
            options: &options,
            version: "1".parse().unwrap(),
            mode: DistributionMode::Split,
            subset: None,
        };
        let artifacts = ["base_lib_generic", "blas_lib_generic", "blas_lib_gfx942"];
        let artifacts = artifacts.map(|name| name.parse().unwrap());
        let expected = request.expected(&artifacts).unwrap();
        let names: Vec<&str> = expected.iter().map(|it| &*it.dist).collect();
        assert_eq!(names, ["rocm", "rocm-sdk-core"]);
    }

    #[test]
    fn what_no_package_is_called_is_refused() {
        let message = subset("core,device-gfx950").unwrap_err().to_string();
        insta::assert_snapshot!(message, @"no package `device-gfx950` in this set, which has `core`, `devel`, `device`, `device-gfx1100`, `device-gfx942`, `libraries`, `meta`, `profiler`, `rocm`, `rocm-profiler`, `rocm-sdk-core`, `rocm-sdk-devel`, `rocm-sdk-device-gfx1100`, `rocm-sdk-device-gfx942`, `rocm-sdk-libraries`");
    }
}
