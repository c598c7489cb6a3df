//! [`OfferedVersion`]: a version of ROCm at a place: for which platforms and targets it is there, what it lacks, and
//! which frameworks fit.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use itertools::Itertools as _;
use serde::Serialize;

use super::install_source::{OfferedFile, OfferedSet};
use crate::{index::is_ours, policy::DistNames, run::Platform};
use rocwheel_base::{
    quantity::few,
    target::{Target, TargetTable},
    version::Version,
};
use rocwheel_wheel::{DistName, Metadata, PackageFilename, Requirement};

/// A version of ROCm for one platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OfferedVersion {
    pub version: Version,
    pub platform: Platform,
    /// The targets that have a package of their own.
    pub targets: Vec<Target>,
    /// The families whose libraries have their device code in them, of a set whose device code is not split.
    pub families: Vec<String>,
    /// Which Pythons it is for: `>=3.10`.
    pub requires_python: Option<String>,
    /// `None` until [`OfferedVersion::judge`] has compared it with the metadata of its `rocm`.
    #[serde(flatten)]
    pub completeness: Option<Completeness>,
    /// The packages of ROCm.
    pub packages: Vec<OfferedFile>,
    /// The variant wheels of ROCm, which no command installs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<OfferedFile>,
    /// The newest first.
    pub frameworks: Vec<OfferedFramework>,
}

/// Whether a version has every package that its `rocm` names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Completeness {
    Whole,
    Lacks {
        missing: Vec<DistName>,
    },
    /// The metadata of `rocm` could not be read.
    Unknown {
        reason: String,
    },
}

/// A version of a framework for a version of ROCm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OfferedFramework {
    pub project: DistName,
    pub version: Version,
    /// The Pythons of its wheels: `cp312`, or `cp39+` for 3.9 and every later one. Empty for an sdist.
    pub pythons: Vec<String>,
}

/// What a place offers, by versions of ROCm. Its files are looked at once, because an index may have thousands.
#[derive(Debug)]
pub struct VersionsOffered<'a> {
    /// The packages of ROCm.
    packages: BTreeMap<&'a Version, Vec<&'a OfferedFile>>,
    variants: &'a [OfferedFile],
    /// The packages of others that name a version of ROCm.
    frameworks: Vec<FrameworkFile<'a>>,
}

#[derive(Debug)]
struct FrameworkFile<'a> {
    file: &'a OfferedFile,
    platforms: Vec<Platform>,
    /// `cp312`. `None` for an sdist.
    python: Option<String>,
}

impl<'a> VersionsOffered<'a> {
    pub fn of(offered: &'a OfferedSet) -> Self {
        let mut packages: BTreeMap<&Version, Vec<&OfferedFile>> = BTreeMap::new();
        let mut frameworks = Vec::new();
        for file in &offered.files {
            if is_ours(&file.project) {
                packages.entry(&file.version).or_default().push(file);
            } else if !is_device_package(&file.project) && file.version.of_rocm().is_some() {
                let is_for = |platform: &Platform| file.is_for(*platform);
                let tag = file.name.parse::<PackageFilename>().ok().and_then(|name| name.tag);
                let python = tag.map(|tag| {
                    let later = if tag.is_for_later_pythons() { "+" } else { "" };
                    format!("{}{later}", tag.python())
                });
                let platforms = Platform::ALL.into_iter().filter(is_for).collect();
                frameworks.push(FrameworkFile { file, platforms, python });
            }
        }
        Self { packages, variants: &offered.variants, frameworks }
    }

    /// The versions of ROCm, the newest first, with each platform that has files of its own.
    pub fn rows(&self) -> Vec<(&'a Version, Platform)> {
        let mut rows = Vec::new();
        for (version, files) in self.packages.iter().rev() {
            let has_files = |platform: &Platform| {
                files.iter().any(|file| file.is_for_one_platform() && file.is_for(*platform))
            };
            let platforms = Platform::ALL.into_iter().filter(has_files);
            rows.extend(platforms.map(|platform| (*version, platform)));
        }
        rows
    }

    /// What the place has of a version for a platform, as the names of its files say it.
    pub fn describe(&self, version: &Version, platform: Platform) -> OfferedVersion {
        let names = DistNames::built_in();
        let packages: Vec<OfferedFile> = self
            .packages
            .get(version)
            .into_iter()
            .flatten()
            .filter(|file| file.is_for(platform))
            .map(|file| (*file).clone())
            .sorted_by(|one, other| one.name.cmp(&other.name))
            .collect();
        let is_variant_here = |file: &&OfferedFile| {
            is_ours(&file.project) && file.version == *version && file.is_for(platform)
        };
        let variants = self.variants.iter().filter(is_variant_here).cloned();
        let targets = packages.iter().filter_map(|file| names.device_target(&file.project));
        let families: BTreeSet<&str> =
            packages.iter().filter_map(|file| names.libraries_family(&file.project)).collect();
        OfferedVersion {
            version: version.clone(),
            platform,
            targets: targets.sorted().dedup().collect(),
            families: families.into_iter().map(str::to_owned).collect(),
            requires_python: None,
            completeness: None,
            frameworks: self.fitting_frameworks(version, platform),
            packages,
            variants: variants.sorted_by(|one, other| one.name.cmp(&other.name)).collect(),
        }
    }

    /// The packages of others that name this version of ROCm in their own, by name, and the newest first.
    fn fitting_frameworks(&self, rocm: &Version, platform: Platform) -> Vec<OfferedFramework> {
        let mut pythons: BTreeMap<(&DistName, &Version), BTreeSet<String>> = BTreeMap::new();
        for FrameworkFile { file, platforms, python } in &self.frameworks {
            if platforms.contains(&platform) && file.version.is_for_rocm(rocm) {
                let known = pythons.entry((&file.project, &file.version)).or_default();
                known.extend(python.clone());
            }
        }
        let describe = |((project, version), known): ((&DistName, &Version), BTreeSet<String>)| {
            OfferedFramework {
                project: project.clone(),
                version: version.clone(),
                pythons: known.into_iter().sorted_by_key(|tag| python_number(tag)).collect(),
            }
        };
        let order = |one: &OfferedFramework, other: &OfferedFramework| {
            one.project.cmp(&other.project).then_with(|| other.version.cmp(&one.version))
        };
        pythons.into_iter().map(describe).sorted_by(order).collect()
    }
}

/// The files of `rocm` in a version.
pub fn selectors_of<'a>(offered: &'a OfferedSet, version: &Version) -> Vec<&'a OfferedFile> {
    let selector = &DistNames::built_in().selector;
    let files = offered.files.iter();
    files
        .filter(|file| file.project.normalized() == selector && file.version == *version)
        .unique_by(|file| &file.family)
        .collect()
}

/// Whether a package has only the device code of a framework, which its extras bring: `amd-torch-device-gfx942`.
fn is_device_package(project: &DistName) -> bool {
    project.normalized().contains("-device-")
}

/// `cp39` comes before `cp310`.
fn python_number(tag: &str) -> (Option<u32>, String) {
    let digits = tag.trim_start_matches(|c: char| !c.is_ascii_digit());
    let minor = digits.trim_end_matches('+').get(1..);
    (minor.and_then(|minor| minor.parse().ok()), tag.to_owned())
}

impl OfferedVersion {
    /// Compares the packages with those that `rocm` names, whose metadata this is: one for each family, of a set with
    /// packages for each.
    pub fn judge(&mut self, selectors: &[Metadata]) {
        let mut missing = BTreeSet::new();
        if selectors.is_empty() {
            missing.extend(DistNames::built_in().selector.parse());
        }
        for rocm in selectors {
            let requirements: Vec<Requirement> = rocm.requirements().collect();
            let extras: Vec<&str> =
                requirements.iter().flat_map(|it| it.marker.extras()).unique().collect();
            let is_part_here = |requirement: &&Requirement| {
                is_ours(&requirement.name)
                    && requirement.pin().as_ref() == Some(&rocm.version)
                    && requirement.marker.may_hold_with(self.platform.sys_platform(), &extras)
            };
            for part in requirements.iter().filter(is_part_here) {
                let has_package = self.packages.iter().any(|file| file.project == part.name);
                missing.extend((!has_package).then(|| part.name.clone()));
            }
        }
        self.requires_python = selectors.iter().find_map(|rocm| rocm.requires_python.clone());
        self.completeness = Some(if missing.is_empty() {
            Completeness::Whole
        } else {
            Completeness::Lacks { missing: missing.into_iter().collect() }
        });
    }

    /// Whether it has device code for one of these targets.
    pub fn has_code_for(&self, wanted: &[Target]) -> bool {
        let of_families =
            self.families.iter().flat_map(|family| TargetTable::builtin().targets_named(family));
        self.targets.iter().cloned().chain(of_families).any(|target| wanted.contains(&target))
    }

    /// The targets and families, for people.
    pub fn device_code(&self) -> Vec<String> {
        let targets = self.targets.iter().map(Target::to_string);
        targets.chain(self.families.iter().cloned()).collect()
    }
}

impl OfferedFramework {
    /// The version, without the ROCm that it is for: `2.13.0`
    pub fn without_rocm(&self) -> String {
        let version = self.version.to_string();
        version.split('+').next().unwrap_or_default().to_owned()
    }

    /// `3.11 to 3.14`, `3.9+`, `3`
    pub fn python_range(&self) -> String {
        let numbers: Vec<String> = self.pythons.iter().map(|tag| python_version(tag)).collect();
        match numbers.as_slice() {
            [first, .., last] if is_without_gap(&self.pythons) => format!("{first} to {last}"),
            numbers => numbers.join(", "),
        }
    }
}

/// `3.12` of `cp312`, and `3` of `py3`.
fn python_version(tag: &str) -> String {
    let digits = tag.trim_start_matches(|c: char| !c.is_ascii_digit());
    match digits.split_at_checked(1) {
        Some((major, minor)) if !minor.is_empty() => format!("{major}.{minor}"),
        _ => digits.to_owned(),
    }
}

/// Whether Pythons follow each other: `cp311`, `cp312`, `cp313`.
fn is_without_gap(tags: &[String]) -> bool {
    let minors: Option<Vec<u32>> =
        tags.iter().map(|tag| tag.strip_prefix("cp3")?.parse().ok()).collect();
    minors.is_some_and(|minors| minors.windows(2).all(|pair| pair[0] + 1 == pair[1]))
}

impl fmt::Display for Completeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::Lacks { missing } => {
                let names = missing.iter().map(DistName::to_string);
                write!(f, "lacks {}", few(names))
            }
            Self::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}
