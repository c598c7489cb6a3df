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
    error::{Hint as _, Result, anyhow},
    parallel,
    place::{OfferedFile, SetPlace},
    run::Platform,
    wheel::{DistName, PackageFilename, Requirement},
};

/// A wheel or sdist of a set, and what it needs.
#[derive(Clone, Debug)]
pub struct SetPackage {
    pub(super) name: PackageFilename,
    pub(super) requires: Vec<Requirement>,
}

/// The packages of a set, also those of others in it, such as torch.
pub fn packages_of(place: &SetPlace, jobs: NonZeroUsize, world: &World) -> Result<Vec<SetPackage>> {
    let mut files = Vec::new();
    for platform in Platform::ALL {
        files.extend(place.offered(platform)?.into_iter().flat_map(|it| it.files));
    }
    let files: Vec<OfferedFile> = files.into_iter().unique_by(|it| it.name.clone()).collect();
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

/// What is open, each with who asks for it and the environments in which it is.
pub fn open_requirements(lock: &Lock, wishes: &Wishes, sets: &[SetPackage]) -> Vec<String> {
    let mut open: BTreeMap<String, BTreeSet<PythonPlatform>> = BTreeMap::new();
    for environment in wishes.environments() {
        let mut ask = |by: &str, name: &DistName, specifier: &str| {
            if let Some(text) = lacks(lock, environment, name, specifier) {
                let text = format!("{by} needs `{name}{specifier}`, and {text}");
                open.entry(text).or_default().insert(environment);
            }
        };
        for wish in wishes.of(environment) {
            ask("deps.toml", &wish.name, &wish.version);
        }
        for package in sets.iter().filter(|it| environment.fits(&it.name)) {
            let by = format!("{} {}", package.name.name, package.name.version);
            for line in &package.requires {
                let applies = line.marker.evaluate(&environment, &[]);
                if applies.unwrap_or(true) && !is_of_runs(&line.name) {
                    ask(&by, &line.name, line.specifier());
                }
            }
        }
    }
    let line = |(text, environments): (String, BTreeSet<PythonPlatform>)| {
        format!("{text} ({})", environments.iter().join(", "))
    };
    open.into_iter().map(line).collect()
}

/// What the lock has instead of a version that an environment can install.
fn lacks(
    lock: &Lock,
    environment: PythonPlatform,
    name: &DistName,
    specifier: &str,
) -> Option<String> {
    let all = lock.packages.iter().filter(|it| it.name == *name);
    let fitting: Vec<&LockedPackage> =
        all.clone().filter(|it| it.wheels_for(environment).next().is_some()).collect();
    let is_wanted = |it: &&LockedPackage| it.version.fulfils(specifier).unwrap_or(true);
    if fitting.iter().any(is_wanted) {
        return None;
    }
    let fitting = fitting.iter().map(|it| &it.version).join(", ");
    let all = all.map(|it| &it.version).join(", ");
    Some(match (fitting.as_str(), all.as_str()) {
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
