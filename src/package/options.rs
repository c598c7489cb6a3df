//! [`BuildOptions`]: how to build a set, and the request for its plan.

use std::num::NonZeroUsize;

use crate::{
    artifact::TherockManifest,
    error::{Context as _, Hint as _, Result},
    package::{
        assemble::AssembleSettings,
        catalog::Catalog,
        naming::{DistributionMode, ImportSuffix, PublicationName},
        plan::SdkTreePacking,
        split_tree::Kpack,
        subset::Subset,
    },
    run::Platform,
    target::Target,
    version::Version,
    wheel::{Tag, WheelCompression},
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
    pub release: PublicationName,
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
            },
        })
    }

    /// The request for a plan. What the options do not say comes from the build's manifest.
    pub fn request(&self, manifest: &TherockManifest) -> Result<Request<'_>> {
        let version = match self.version.clone() {
            Some(version) => version,
            None => version_of(manifest)?,
        };
        Ok(Request {
            options: self,
            release: PublicationName {
                version,
                suffix: self.suffix.clone(),
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
