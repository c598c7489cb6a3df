//! [`VariantIndex`]: the file of an index that says what the labels of the variant wheels of a version mean.

use std::collections::BTreeMap;

use itertools::Itertools as _;

use super::package_file::{PackageFile, is_ours};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Hint as _, No, Result},
    version::Version,
};
use rocwheel_wheel::{DistName, PackageFilename, VariantDocument};

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

/// What the variant wheels of one version say, and where it is said.
#[derive(Debug)]
pub struct MergedVariants<'a> {
    project: &'a DistName,
    version: &'a Version,
    /// Beside the wheels: in the directory of their family if one of them is there.
    pub path: String,
    /// An error if two wheels disagree.
    pub document: Result<VariantDocument>,
}

/// The documents of others that an index lists as they are, by path: they say more than the wheels, and are not ours to
/// change.
pub type VariantsOfOthers = BTreeMap<String, String>;

impl<'a> MergedVariants<'a> {
    /// All of them for the files of one index, which are sorted by project and version. None for files without a
    /// variant wheel.
    pub fn all(files: &[&'a PackageFile]) -> Result<Vec<Self>> {
        let by_version =
            files.chunk_by(|a, b| (&a.project, &a.version) == (&b.project, &b.version));
        by_version.filter_map(|files| Self::of_version(files).transpose()).collect()
    }

    pub fn is_of_others(&self) -> bool {
        !is_ours(self.project)
    }

    fn of_version(files: &[&'a PackageFile]) -> Result<Option<Self>> {
        let wheels = files.iter().filter(|file| file.variant.is_some()).copied().collect_vec();
        // A family sees the common wheels too, and its labels belong to no other family.
        let of_family = wheels.iter().find(|wheel| wheel.directory().is_some());
        let Some(beside) = of_family.or(wheels.first()) else {
            return Ok(None);
        };
        let name: PackageFilename = beside.name().parse()?;
        let merged = VariantDocument::merge(wheels.iter().filter_map(|it| it.variant.as_deref()));
        let document = merged
            .and_then(|merged| merged.context("no variant wheel"))
            .map_err(|error| No(format!("{error:#}")))
            .with_context(|| {
                let named = wheels.iter().map(|wheel| format!("`{}`", wheel.name())).join(" and ");
                format!("variant wheels of one version do not agree: {named}")
            });
        let directory = beside.path.strip_suffix(beside.name()).unwrap_or_default();
        Ok(Some(Self {
            project: &beside.project,
            version: &beside.version,
            path: format!("{directory}{}", name.variants_json()),
            document,
        }))
    }
}

impl<'a> VariantIndex<'a> {
    /// All of them for the files of one index, which are sorted by project and version. Fails if two wheels of a version of
    /// ours disagree about what their labels mean. Wheels of others that disagree do not stop ours: the index says nothing of
    /// their labels.
    pub fn all(files: &[&'a PackageFile], of_others: &VariantsOfOthers) -> Result<Vec<Self>> {
        let mut indexes = Vec::new();
        for merged in MergedVariants::all(files)? {
            let is_of_others = merged.is_of_others();
            let MergedVariants { project, version, path, document } = merged;
            let body = match (of_others.get(&path), document) {
                (Some(theirs), _) if is_of_others => theirs.clone(),
                (_, Ok(document)) => document.pretty(),
                (_, Err(_)) if is_of_others => continue,
                (_, Err(error)) => {
                    return Err(error).hint("build all variant wheels of the version by one build");
                }
            };
            let sha256 = Sha256::of(body.as_bytes());
            indexes.push(Self { project, version, path, body, sha256 });
        }
        Ok(indexes)
    }

    /// Whether it says what the label of a file means.
    pub fn has(&self, file: &PackageFile) -> bool {
        file.variant.is_some() && (&file.project, &file.version) == (self.project, self.version)
    }

    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}
