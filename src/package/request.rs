//! [`BuildOptions`] and [`Request`]: how to build a set. From the names of the artifacts, a request
//! predicts the packages before anything is unpacked. Reads and writes no files.

use crate::{
    artifact::{ArtifactName, TherockManifest},
    package::{
        artifact_version::{ArtifactVersion, find_version},
        plan::{BuildPlan, PackageForm, SdkTreePacking},
        split_tree::Kpack,
    },
    policy::{
        DistNames,
        catalog::{Catalog, PackageKind},
        naming::{DistributionMode, ImportSuffix},
        subset::Subset,
    },
    run::Platform,
};
use rocwheel_base::{
    error::Result,
    target::{Scope, Target},
    version::{ReleaseType, Version},
};
use rocwheel_wheel::{PackSettings, PackageFilename, Tag};

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
    /// The packages to build, if the run has more artifacts than these.
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
    /// The defaults, for tests.
    #[cfg(test)]
    pub fn new(platform: Platform, jobs: std::num::NonZeroUsize) -> Result<Self> {
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
            settings: PackSettings::new(rocwheel_wheel::WheelCompression::default(), jobs),
        })
    }

    /// The request for a plan. What the options do not say comes from the build's manifest.
    pub fn request(&self, manifest: &TherockManifest) -> Result<Request<'_>> {
        let ArtifactVersion { version, note } = match self.version.clone() {
            Some(version) => ArtifactVersion { version, note: None },
            None => find_version(manifest, self.release_type)?,
        };
        Ok(Request {
            options: self,
            version,
            notes: [&manifest.notes[..], note.as_slice()].concat(),
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
    /// The subdirectory of `dist/` that has it, in a set with a subdirectory for each family.
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
        let mode = self.mode;
        let version = &self.version;
        let scopes = catalog.scopes_with_code(artifacts.iter(), mode)?;
        // A split set has one selector and one devel package; a legacy set has both for each family.
        let families: Vec<Option<&Scope>> = if mode == DistributionMode::Split || scopes.is_empty()
        {
            vec![None]
        } else {
            scopes.iter().map(Some).collect()
        };
        let mut all = Vec::new();
        for spec in catalog.packages() {
            if !spec.is_made_for(self.options.platform) {
                continue;
            }
            let package_scopes = match (spec.kind, mode) {
                // The device code of a legacy set is in its libraries packages.
                (PackageKind::Device, DistributionMode::Legacy) => continue,
                (PackageKind::Device, DistributionMode::Split) => scopes.iter().map(Some).collect(),
                (PackageKind::Runtime, _) if !spec.dist_template(mode).is_for_one_scope() => {
                    vec![None]
                }
                _ => families.clone(),
            };
            // Several families would have these packages under the same file names.
            let has_directory = families.len() > 1
                && matches!(spec.kind, PackageKind::Devel | PackageKind::Selector);
            for scope in package_scopes {
                let takes = |name| spec.takes(name, mode, scope);
                // A build leaves out a runtime package that takes none of the artifacts.
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
                    directory: scope.filter(|_| has_directory).map(Scope::to_string),
                });
            }
        }
        Ok(all)
    }
}

impl BuildPlan {
    /// The packages of the plan.
    pub fn expected(&self) -> Vec<Expected> {
        self.packages
            .iter()
            .map(|package| Expected {
                dist: package.label.dist.clone(),
                version: self.version.clone(),
                filename: package.file_name.clone(),
                is_wheel: matches!(package.form, PackageForm::Wheel(_)),
                directory: package.label.directory.clone(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_not_foretold() {
        let mut options = BuildOptions::new(Platform::Linux, std::num::NonZeroUsize::MIN).unwrap();
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
}
