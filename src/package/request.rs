//! [`BuildOptions`] and [`Request`]: how to build a set. From the names of the artifacts, a request
//! predicts the packages, before anything is unpacked.

use std::num::NonZeroUsize;

use crate::{
    artifact::{ArtifactName, TherockManifest},
    error::{Context as _, Hint as _, Result},
    package::{
        assemble::{AssembleSettings, pipeline},
        catalog::{Catalog, PackageKind},
        naming::{DistributionMode, ImportSuffix},
        plan::{BuildPlan, PackageForm, SdkTreePacking},
        split_tree::Kpack,
        subset::Subset,
    },
    run::Platform,
    target::{Scope, Target},
    version::Version,
    wheel::{SdistFilename, Tag, WheelCompression, WheelFilename},
};

/// 1980-01-01 in seconds since 1970: the earliest timestamp of the ZIP format (APPNOTE 6.3, MS-DOS
/// date).
pub const FIRST_DAY: u64 = 315_532_800;

/// How to build a set, independent of its artifacts.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    pub catalog: Catalog,
    /// `None` for the version in the build's manifest.
    pub version: Option<Version>,
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
    pub settings: AssembleSettings,
}

/// What to build, as far as the files of the artifacts do not say it.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub options: &'a BuildOptions,
    pub version: Version,
    pub mode: DistributionMode,
    /// The packages to build if the artifacts are only some of those of the run.
    pub subset: Option<Subset>,
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
            suffix: ImportSuffix::default(),
            platform,
            linux: None,
            windows: None,
            tag: format!("py3-none-{}", platform.wheel_tag()).parse()?,
            on_collision: OnCollision::default(),
            kpack: Kpack::default(),
            devel_packing: SdkTreePacking::default(),
            settings: AssembleSettings {
                time: FIRST_DAY,
                compression: WheelCompression::default(),
                jobs,
                block: pipeline::BLOCK,
            },
        })
    }

    /// The request for a plan. What the options do not say comes from the build's manifest.
    pub fn request(&self, manifest: &TherockManifest) -> Result<Request<'_>> {
        Ok(Request {
            options: self,
            version: match self.version.clone() {
                Some(version) => version,
                None => version_of(manifest)?,
            },
            mode: if manifest.kpack_split || self.kpack == Kpack::Split {
                DistributionMode::Split
            } else {
                DistributionMode::Legacy
            },
            subset: None,
        })
    }
}

fn version_of(manifest: &TherockManifest) -> Result<Version> {
    let text = manifest.package_version.as_deref();
    let version = text
        .context("no artifact says the version: `rocm_package_version` in `therock_manifest.json`")
        .hint("pass `--version`")?;
    version
        .parse()
        .with_context(|| format!("failed to read the version of the build: {version}"))
        .hint("pass `--version`")
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
        format!("_{}{}", dist.replace('-', "_"), self.options.suffix)
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
            if !spec.ships_on(self.options.platform) {
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
                let (name, is_wheel) = (dist.parse()?, spec.kind != PackageKind::Selector);
                all.push(Expected {
                    filename: if is_wheel {
                        WheelFilename::new(&name, version, &self.options.tag).to_string()
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
