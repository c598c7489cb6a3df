//! [`Tables`]: the content of `_dist_info.json`, the tables of a set. Every package carries the file beside
//! `_dist_info.py`, which reads it too: the fields are the parameters of the classes there.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use crate::{
    policy::{
        catalog::PackageSpec,
        naming::DistributionMode,
        required_file::{self, RequiredFile, RequiredFileKind},
    },
    run::Platform,
};
use rocwheel_base::{
    error::Result,
    glob::Glob,
    target::{Family, Target, TargetTable},
};

/// What a set has, and what targets are called.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    packages: Vec<PackageEntry>,
    libraries: Vec<LibraryEntry>,
    files: Vec<FileEntry>,
    /// The families of each target, from the widest to the narrowest.
    families: BTreeMap<Target, Vec<Family>>,
    ip_versions: BTreeMap<Target, Vec<String>>,
    code_names: BTreeMap<Target, Vec<String>>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PackageEntry {
    logical_name: String,
    dist_package_template: String,
    pure_py_package_name: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sys_platform: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LibraryEntry {
    shortname: String,
    package_name: String,
    so_pattern: String,
    dll_pattern: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    posix_relpath: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    optional: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileEntry {
    package_name: String,
    relpath: String,
    /// The console script that runs it. Then the path goes without the `.exe` of Windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sys_platform: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    optional: bool,
}

impl Tables {
    /// The tables of a set with these packages.
    pub(super) fn of_packages(packages: &[PackageSpec], mode: DistributionMode) -> Self {
        Self {
            packages: packages.iter().map(|it| PackageEntry::new(it, mode)).collect(),
            libraries: packages.iter().flat_map(libraries).collect(),
            files: packages.iter().flat_map(files).collect(),
            ..Self::of_targets()
        }
    }

    /// The tables for device wheels of another package, whose names begin with `prefix`.
    pub(super) fn of_devices(prefix: &str) -> Self {
        let device = PackageEntry {
            logical_name: "device".to_owned(),
            dist_package_template: format!("{prefix}{{target_family}}"),
            pure_py_package_name: String::new(),
            required: false,
            sys_platform: None,
        };
        Self { packages: vec![device], ..Self::of_targets() }
    }

    /// What is known of targets, without any package.
    fn of_targets() -> Self {
        let table = TargetTable::builtin();
        let families = table.known().map(|it| (it.clone(), table.families_of(it).to_vec()));
        Self {
            packages: Vec::new(),
            libraries: Vec::new(),
            files: Vec::new(),
            families: families.collect(),
            ip_versions: names_by_target(table.ip()),
            code_names: names_by_target(table.code_names()),
        }
    }

    /// Reads the text of a `_dist_info.json`.
    pub fn parse(json: &str) -> Result<Self> {
        Ok(serde_json::from_str(json)?)
    }

    pub fn render(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The files that the packages of the set need on a platform, for all packages.
    pub fn required_files(&self, platform: Platform) -> Vec<RequiredFile> {
        let libraries = self.libraries.iter().filter_map(|it| it.required_file(platform));
        let files = self.files.iter().filter_map(|it| it.required_file(platform));
        libraries.chain(files).collect()
    }
}

impl PackageEntry {
    fn new(package: &PackageSpec, mode: DistributionMode) -> Self {
        Self {
            logical_name: package.name.clone(),
            dist_package_template: package.dist_template(mode).python_template(),
            pure_py_package_name: package.python.clone(),
            required: package.required,
            sys_platform: package.only_platform().map(sys_platform),
        }
    }
}

impl LibraryEntry {
    fn required_file(&self, platform: Platform) -> Option<RequiredFile> {
        let directory = self.posix_relpath.as_deref().unwrap_or("lib");
        let names = [&*self.so_pattern, &*self.dll_pattern];
        let pattern = required_file::library(platform, directory, names)?;
        (!self.optional).then(|| RequiredFile {
            package: self.package_name.clone(),
            kind: RequiredFileKind::Library(self.shortname.clone()),
            pattern,
            artifact: None,
        })
    }
}

impl FileEntry {
    fn required_file(&self, platform: Platform) -> Option<RequiredFile> {
        let only = self.sys_platform.as_deref();
        let is_here = only.is_none_or(|only| only == platform.sys_platform());
        let (kind, path) = match &self.command {
            Some(name) => {
                let path = required_file::program(&self.relpath, platform);
                (RequiredFileKind::Command(name.clone()), path)
            }
            None => (RequiredFileKind::File, self.relpath.clone()),
        };
        (is_here && !self.optional).then(|| RequiredFile {
            package: self.package_name.clone(),
            kind,
            pattern: Glob::new(path),
            artifact: None,
        })
    }
}

fn libraries(package: &PackageSpec) -> impl Iterator<Item = LibraryEntry> {
    package.libraries.iter().map(|it| LibraryEntry {
        shortname: it.name.clone(),
        package_name: package.name.clone(),
        so_pattern: it.linux.clone(),
        dll_pattern: it.windows.clone(),
        posix_relpath: Some(it.directory.clone()).filter(|it| it != "lib"),
        optional: it.optional,
    })
}

/// The programs of the console scripts of a package, and its other files.
fn files(package: &PackageSpec) -> impl Iterator<Item = FileEntry> {
    let programs = package.scripts.iter().filter_map(|script| {
        Some(FileEntry {
            package_name: package.name.clone(),
            relpath: script.runs.as_ref()?.to_string(),
            command: Some(script.name.clone()),
            sys_platform: script.platform.map(sys_platform),
            optional: script.if_present,
        })
    });
    let files = package.files.iter().map(|file| FileEntry {
        package_name: package.name.clone(),
        relpath: file.path.clone(),
        command: None,
        sys_platform: file.platform.map(sys_platform),
        optional: false,
    });
    programs.chain(files)
}

fn names_by_target<'a>(
    names: impl Iterator<Item = (&'a str, &'a Target)>,
) -> BTreeMap<Target, Vec<String>> {
    let by_target = names.map(|(name, target)| (target.clone(), name.to_owned()));
    by_target.into_group_map().into_iter().collect()
}

fn sys_platform(platform: Platform) -> String {
    platform.sys_platform().to_owned()
}
