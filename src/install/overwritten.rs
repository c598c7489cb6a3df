//! Packages whose files another package has replaced: `onnxruntime` and `onnxruntime-rocm` have modules of the same
//! names, and the package that is installed last wins.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use itertools::Itertools as _;

use super::installed_package::{InstalledPackage, Replacement};
use crate::framework::Frameworks;

/// The directories at the top of `site-packages` that packages share by mistake, and that no program needs.
const SHARED_BY_MISTAKE: [&str; 5] = ["benchmarks", "docs", "examples", "test", "tests"];

/// Finds the packages of ROCm whose files another package has replaced, and adds these files to their changed files.
///
/// A file is replaced if it differs from what the RECORD of its package says, and is what the RECORD of the other
/// package says. Only files that two RECORDs describe differently are read.
pub(super) fn find_overwritten(packages: &mut [InstalledPackage]) {
    for ((package, other), paths) in shared_files(packages) {
        let other = &packages[other];
        let replacement = Replacement { name: other.name.clone(), version: other.version.clone() };
        let is_replaced = |path: &String| is_replaced(path, &packages[package], other);
        let replaced: Vec<String> = paths.into_iter().filter(is_replaced).collect();
        if !replaced.iter().any(|path| is_code_of_one(path)) {
            continue;
        }
        let package = &mut packages[package];
        package.changed =
            package.changed.iter().cloned().chain(replaced).sorted().dedup().collect();
        package.replaced_by.get_or_insert(replacement);
    }
}

/// The files that two packages in one directory have, by the indexes of a package of ROCm and of the other package.
fn shared_files(packages: &[InstalledPackage]) -> BTreeMap<(usize, usize), Vec<String>> {
    let mut holders: BTreeMap<(&str, &Path), BTreeSet<usize>> = BTreeMap::new();
    let of_rocm = packages.iter().filter(|package| uses_rocm(package));
    for package in of_rocm {
        for path in package.recorded.keys() {
            holders.entry((path, package.site())).or_default();
        }
    }
    for (index, package) in packages.iter().enumerate() {
        for path in package.recorded.keys() {
            if let Some(indexes) = holders.get_mut(&(path.as_str(), package.site())) {
                indexes.insert(index);
            }
        }
    }
    let mut shared: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for ((path, _), indexes) in holders {
        for pair in indexes.into_iter().permutations(2) {
            let package = pair[0];
            let other = pair[1];
            if is_defect(&packages[package], &packages[other]) {
                shared.entry((package, other)).or_default().push(path.to_owned());
            }
        }
    }
    shared
}

/// Whether a package is one of ROCm, requires ROCm, or is a framework that may be built for it.
fn uses_rocm(package: &InstalledPackage) -> bool {
    is_for_rocm(package) || Frameworks::builtin().of(&package.name).is_some()
}

fn is_for_rocm(package: &InstalledPackage) -> bool {
    let version = package.version.to_string();
    package.is_of_rocm || package.name.normalized().contains("rocm") || version.contains("rocm")
}

/// Whether a user would miss the files of `package` if `other` has replaced them. After an install of
/// `pytorch-triton-rocm` over `triton`, the environment has what it should have.
fn is_defect(package: &InstalledPackage, other: &InstalledPackage) -> bool {
    let is_on_purpose = is_for_rocm(other) && !is_for_rocm(package);
    package.name != other.name && uses_rocm(package) && !is_on_purpose
}

fn is_replaced(path: &str, package: &InstalledPackage, other: &InstalledPackage) -> bool {
    let (Some(wanted), Some(others)) = (package.recorded.get(path), other.recorded.get(path))
    else {
        return false;
    };
    let file = package.site().join(path);
    wanted != others && wanted.fits(&file) == Some(false) && others.fits(&file) == Some(true)
}

/// Whether a file is code that only one package should have. Packages with a common namespace may each bring its
/// `__init__.py`.
fn is_code_of_one(path: &str) -> bool {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let top = directory.split('/').next().unwrap_or_default();
    let is_code =
        name.contains(".so") || [".py", ".pyd", ".dll"].iter().any(|end| name.ends_with(end));
    is_code && name != "__init__.py" && !SHARED_BY_MISTAKE.contains(&top)
}
