//! Finds what a lock lacks: every project of `deps.toml`, and every requirement of the wheels of given
//! sets, must have a version in the lock that each environment can install. uv has made sure of the
//! requirements of the locked files themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
};

use itertools::Itertools as _;

use super::{
    environment::PythonPlatform,
    lock::{Lock, LockedPackage},
    wishes::{Wishes, is_of_runs},
};
use crate::{
    console::World,
    place::{OfferedFile, SetPlace},
};
use rocwheel_base::{
    error::{Hint as _, Result, anyhow},
    parallel,
};
use rocwheel_wheel::{DistName, PackageFilename, Requirement};

/// A wheel or sdist of a set, and what it needs.
#[derive(Clone, Debug)]
pub struct SetPackage {
    pub(super) name: PackageFilename,
    pub(super) requires: Vec<Requirement>,
}

/// The packages of a set, with the packages of other projects in it, such as torch.
pub fn packages_of(place: &SetPlace, jobs: NonZeroUsize, world: &World) -> Result<Vec<SetPackage>> {
    let files = place.offered_to_us(None)?.map(|offered| offered.files).unwrap_or_default();
    if files.is_empty() {
        return Err(anyhow!("no packages in `{place}`"))
            .hint("pass the directory of a set, or the address that `upload` printed");
    }
    let read = |file: &OfferedFile| -> Result<SetPackage> {
        Ok(SetPackage {
            name: file.name.parse()?,
            requires: place.metadata_of(file)?.requirements().collect(),
        })
    };
    parallel::try_map(&files, jobs, &world.stop, read)
}

/// A line for each requirement that the lock does not fulfil: who needs it, what the lock has instead, and the
/// environments in which it is so.
pub fn open_requirements(lock: &Lock, wishes: &Wishes, sets: &[SetPackage]) -> Vec<String> {
    let mut open: BTreeMap<String, BTreeSet<PythonPlatform>> = BTreeMap::new();
    for environment in wishes.environments() {
        let mut require = |by: &str, name: &DistName, specifier: &str| {
            if let Some(why) = explain_lack(lock, environment, name, specifier) {
                let line = format!("{by} needs `{name}{specifier}`, and {why}");
                open.entry(line).or_default().insert(environment);
            }
        };
        for wish in wishes.of(environment) {
            require("deps.toml", &wish.name, &wish.version);
        }
        for package in sets.iter().filter(|package| environment.fits(&package.name)) {
            let by = format!("{} {}", package.name.name, package.name.version);
            for requirement in &package.requires {
                // A requirement for an extra does not apply: the base index need not have it.
                let applies = requirement.marker.evaluate(&environment, &[]).unwrap_or(true);
                if applies && !is_of_runs(&requirement.name) {
                    require(&by, &requirement.name, requirement.specifier());
                }
            }
        }
    }
    let with_environments = |(line, environments): (String, BTreeSet<PythonPlatform>)| {
        format!("{line} ({})", environments.iter().join(", "))
    };
    open.into_iter().map(with_environments).collect()
}

/// Says what the lock has instead of a version that an environment can install. `None` if the lock has such a
/// version.
fn explain_lack(
    lock: &Lock,
    environment: PythonPlatform,
    name: &DistName,
    specifier: &str,
) -> Option<String> {
    let all = lock.packages.iter().filter(|package| package.name == *name).collect_vec();
    let can_install = |package: &LockedPackage| package.wheels_for(environment).next().is_some();
    let fitting = all.iter().filter(|package| can_install(package)).collect_vec();
    if fitting.iter().any(|package| package.version.fulfils(specifier).unwrap_or(true)) {
        return None;
    }
    let fitting_versions = fitting.iter().map(|package| &package.version).join(", ");
    let all_versions = all.iter().map(|package| &package.version).join(", ");
    Some(match (fitting_versions.as_str(), all_versions.as_str()) {
        ("", "") => "the lock does not have it".to_owned(),
        ("", all) => format!("the lock has {all} for others"),
        (fitting, _) => format!("the lock has {fitting}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deps::lock::tests::lock;

    #[test]
    fn what_no_environment_can_install_is_open() {
        let wishes = "pythons = ['3.10', '3.12']\nplatforms = ['linux']\n\
            [[dependency]]\nname = 'numpy'\nreason = 'x'\n[[dependency]]\nname = 'b'\nreason = 'x'\n";
        let wishes = Wishes::parse(wishes).unwrap();
        let lock = Lock::parse(&lock(&[
            ("numpy", "", "numpy-2.5.5-cp312-cp312-manylinux_2_28_x86_64.whl"),
            ("setuptools", "", "setuptools-82.0.1-py3-none-any.whl"),
        ]));
        let torch = SetPackage {
            name: "torch-2.12-cp312-cp312-linux_x86_64.whl".parse().unwrap(),
            requires: [
                "setuptools<82",
                "rocm[libraries]==7.13",
                "numpy>=2",
                "tomli; python_version < '3.11'",
                "opt-einsum; extra == 'opt'",
                "sympy",
            ]
            .map(|it| it.parse().unwrap())
            .to_vec(),
        };
        let open = open_requirements(&lock.unwrap(), &wishes, &[torch]);
        insta::assert_snapshot!(open.join("\n"), @r"
        deps.toml needs `b`, and the lock does not have it (3.10-linux, 3.12-linux)
        deps.toml needs `numpy`, and the lock has 2.5.5 for others (3.10-linux)
        torch 2.12 needs `setuptools<82`, and the lock has 82.0.1 (3.12-linux)
        torch 2.12 needs `sympy`, and the lock does not have it (3.12-linux)
        ");
    }
}
