//! [`PackageFile`]: one file of a package set, and the rules for the names of packages.

use std::ops::Not;

use serde::{Deserialize, Serialize};

use super::layout::Layout;
use crate::{
    policy::catalog::CATALOG,
    run::{ArtifactGroup, RunAttempt},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, ensure},
    target::Target,
    version::Version,
};
use rocwheel_store::location::Key;
use rocwheel_wheel::{DistName, PackageFilename, VARIANTS_JSON, VariantDocument, VariantLabel};

/// The suffix of a sidecar: `x.whl.metadata` belongs to `x.whl`.
pub const SIDECAR: &str = ".metadata";

/// One wheel or sdist of a set: made, listed, published, offered, mirrored.
///
/// What only one step knows about it stands beside it, in a type of that step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PackageFile {
    /// Relative to the directory of the set: `dist/rocm-7.13.0.tar.gz`. It is a key, so that it has
    /// no control character. Quotes, angle brackets, `%`, `+`, spaces and any other Unicode are
    /// allowed, and pages escape them.
    pub path: String,
    pub project: DistName,
    pub version: Version,
    pub size: u64,
    pub sha256: Sha256,
    /// The reason why the file is yanked, which may be empty. `None` if it is not yanked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub yanked: Option<String>,
    /// What spares the next `index` or `upload` from reading a file in a bucket. `upload` writes it only of
    /// files that were there before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remembered: Option<Box<Remembered>>,
    /// The attempt of the run that published a package of others: each of their jobs publishes for itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run_attempt: Option<RunAttempt>,
    /// The targets for which a package of others has an extra: `torch[device-gfx942]`. It brings the
    /// device code of ROCm too, so that users of a wheel with its own code in it also need it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub device_extras: Vec<Target>,
    /// What a variant wheel says of its label. `None` for other packages, and for a wheel of others that does not say
    /// it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub variant: Option<Box<VariantDocument>>,
    /// Whether it is a wheel of others that has ROCm in it (see [`super::BundledRocm`]).
    #[serde(skip_serializing_if = "Not::not", default)]
    pub has_rocm: bool,
    // The other facts are in the pages of the index, and not in `set.json`.
    /// When it was uploaded, if the store says so, in the format of
    /// [PEP 700](https://peps.python.org/pep-0700/).
    #[serde(skip)]
    pub upload_time: Option<String>,
    /// The digest of the wheel's METADATA, which is a file beside it (a sidecar), so that installers
    /// can resolve without downloading the wheel ([PEP 658](https://peps.python.org/pep-0658/)).
    #[serde(skip)]
    pub metadata: Option<Sha256>,
    /// `Requires-Python` in the metadata: `>=3.10`.
    #[serde(skip)]
    pub requires_python: Option<String>,
}

/// Facts about a file, and the stamps of the file and its sidecar for which they are true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Remembered {
    pub file: SetStamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sidecar: Option<SetStamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sidecar_sha256: Option<Sha256>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requires_python: Option<String>,
}

/// Size and `ETag` of an object, which show without reading it whether it has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SetStamp {
    pub size: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub etag: Option<String>,
}

impl PackageFile {
    /// A file of which an index shows nothing more.
    pub fn new(
        path: String,
        project: DistName,
        version: Version,
        size: u64,
        sha256: Sha256,
    ) -> Self {
        Self {
            path,
            project,
            version,
            size,
            sha256,
            yanked: None,
            remembered: None,
            run_attempt: None,
            device_extras: Vec::new(),
            variant: None,
            has_rocm: false,
            upload_time: None,
            metadata: None,
            requires_python: None,
        }
    }

    /// The file at a path whose name says which project and version it is.
    pub fn named(path: String, size: u64, sha256: Sha256) -> Result<Self> {
        let name = path.rsplit('/').next().unwrap_or(&path);
        let PackageFilename { name: project, version, .. } = name.parse()?;
        Ok(Self::new(path, project, version, size, sha256))
    }

    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The label of a variant wheel.
    pub fn label(&self) -> Option<VariantLabel> {
        // The name of a wheel has five parts, and a label is one more. So most names need not be read.
        if self.name().split('-').count() < 6 {
            return None;
        }
        self.name().parse::<PackageFilename>().ok()?.label
    }

    /// The path of its sidecar, which need not exist.
    pub fn sidecar_path(&self) -> String {
        format!("{}{SIDECAR}", self.path)
    }

    /// The family whose directory contains the file. `None` for files for all families.
    pub fn family(&self) -> Option<ArtifactGroup> {
        ArtifactGroup::of_directory(self.directory()?).ok()
    }

    pub fn layout(&self) -> Layout {
        Layout::of(&self.path).0
    }

    /// The path relative to the directory of all files.
    pub fn below(&self) -> &str {
        Layout::of(&self.path).1
    }

    pub fn directory(&self) -> Option<&str> {
        Some(self.below().split_once('/')?.0)
    }

    pub(super) fn order(&self) -> (&DistName, &Version, &str, Option<&str>) {
        (&self.project, &self.version, self.name(), self.directory())
    }

    /// The path is outside input: it must be a key of a file, in no directory but the one named as a family. So is what
    /// the label of a variant wheel means, which an index publishes.
    pub(super) fn ensure_valid(&self) -> Result<()> {
        let key: Key = self.path.parse()?;
        let depth = self.below().matches('/').count();
        ensure!(
            !key.is_directory() && depth == usize::from(self.family().is_some()),
            "not the path of a package"
        );
        if let Some(variant) = &self.variant {
            let label = self.label().context("a document about variants, and no label")?;
            variant.ensure_of_wheel(&label)?;
        }
        Ok(())
    }
}

/// The beginning of most names in `packages.toml`, and of no package of another project.
const SDK: &str = "rocm-sdk-";

/// Whether a project is one of the packages of `packages.toml`, or one of the SDK that another policy
/// or a later build of TheRock adds. A place may also hold packages of others, such as torch, and an
/// index their dependencies.
pub fn is_ours(project: &DistName) -> bool {
    let name = project.normalized();
    name.starts_with(SDK) || CATALOG.has_dist(name)
}

/// Whether a package, or the sidecar of one, is of another project, by its file name.
pub fn is_of_others(file: &str) -> bool {
    let package = file.strip_suffix(SIDECAR).unwrap_or(file);
    identity(package).is_some_and(|(project, _)| !is_ours(&project))
}

const WHEEL: &str = ".whl";
const SDIST: &str = ".tar.gz";

pub fn is_wheel(name: &str) -> bool {
    name.ends_with(WHEEL)
}

/// Whether a file is a wheel or an sdist by its name. Other files in the directory are ignored.
pub fn is_package(name: &str) -> bool {
    let ends = |end: &str| name.len() > end.len() && name.ends_with(end);
    !name.starts_with('.') && (ends(WHEEL) || ends(SDIST))
}

/// Whether a file says what the labels of the variant wheels beside it mean.
pub fn is_variants_json(name: &str) -> bool {
    name.ends_with(VARIANTS_JSON) && !name.starts_with('.')
}

/// Project and version of a package, from its file name. `None` if the name is invalid.
pub fn identity(file: &str) -> Option<(DistName, Version)> {
    let name: PackageFilename = file.rsplit('/').next()?.parse().ok()?;
    Some((name.name, name.version))
}
