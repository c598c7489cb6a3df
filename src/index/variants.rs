//! [`VariantIndex`]: the file of an index that says what the labels of the variant wheels of a version mean.

use itertools::Itertools as _;

use super::package_file::PackageFile;
use crate::{
    digest::Sha256,
    error::{Context as _, No, Result},
    version::Version,
    wheel::{DistName, PackageFilename, VariantDocument},
};

/// `rocm-7.14.0-variants.json`: what the variant wheels of one version say, together. It changes when a wheel with
/// another label is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariantIndex<'a> {
    pub project: &'a DistName,
    pub version: &'a Version,
    /// Beside the wheels: in the directory of their family if one of them is there.
    pub path: String,
    pub body: String,
    pub sha256: Sha256,
}

impl<'a> VariantIndex<'a> {
    /// All of them for the files of one index, which are sorted by project and version. None for files without a
    /// variant wheel. Fails if two wheels of a version disagree about what their labels mean.
    pub fn all(files: &[&'a PackageFile]) -> Result<Vec<Self>> {
        let by_version =
            files.chunk_by(|a, b| (&a.project, &a.version) == (&b.project, &b.version));
        by_version.filter_map(|files| Self::of_version(files).transpose()).collect()
    }

    fn of_version(files: &[&'a PackageFile]) -> Result<Option<Self>> {
        let wheels = files.iter().filter(|file| file.variant.is_some()).copied().collect_vec();
        // A family sees the common wheels too, and its labels belong to no other family.
        let of_family = wheels.iter().find(|wheel| wheel.directory().is_some());
        let Some(beside) = of_family.or(wheels.first()) else {
            return Ok(None);
        };
        let name: PackageFilename = beside.name().parse()?;
        let merged = VariantDocument::merge(wheels.iter().filter_map(|it| it.variant.as_ref()));
        let documents = merged.map_err(|error| No(format!("{error:#}"))).with_context(|| {
            let named = wheels.iter().map(|wheel| format!("`{}`", wheel.name())).join(" and ");
            format!("variant wheels of one version do not agree: {named}")
        })?;
        let body = documents.map(|it| it.pretty()).unwrap_or_default();
        let directory = beside.path.strip_suffix(beside.name()).unwrap_or_default();
        Ok(Some(Self {
            project: &beside.project,
            version: &beside.version,
            path: format!("{directory}{}", name.variants_json()),
            sha256: Sha256::of(body.as_bytes()),
            body,
        }))
    }

    /// Whether it says what the label of a file means.
    pub fn has(&self, file: &PackageFile) -> bool {
        file.variant.is_some() && (&file.project, &file.version) == (self.project, self.version)
    }

    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}
