//! [`Lock`]: the files of a base index with their digests, as uv writes them into a `pylock.toml`
//! ([PEP 751](https://peps.python.org/pep-0751/)).

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{environment::PythonPlatform, wishes::ensure_of_others};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, ensure},
    version::Version,
};
use rocwheel_store::location::percent_decode;
use rocwheel_wheel::{DistName, Marker, PackageFilename};

/// The version of the format.
const FORMAT: &str = "1.0";

/// The files of a base index.
#[derive(Clone, Debug)]
pub struct Lock {
    pub(super) packages: Vec<LockedPackage>,
}

/// One version of a project.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct LockedPackage {
    pub(super) name: DistName,
    pub(super) version: Version,
    /// The environments that it is for.
    #[serde(default)]
    marker: Marker,
    #[serde(default)]
    pub(super) wheels: Vec<LockedWheel>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct LockedWheel {
    pub(super) url: String,
    /// The size of the file, if the registry says it.
    pub(super) size: Option<u64>,
    hashes: Hashes,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Hashes {
    sha256: Sha256,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Document {
    lock_version: String,
    #[serde(default)]
    packages: Vec<LockedPackage>,
}

impl Lock {
    pub fn parse(text: &str) -> Result<Self> {
        let Document { lock_version, packages } = toml::from_str(text)?;
        ensure!(
            lock_version == FORMAT,
            "it has the format {lock_version:?}, and this version reads {FORMAT}"
        );
        ensure!(!packages.is_empty(), "the lock has no packages");
        let mut names = BTreeSet::new();
        for package in &packages {
            let name = &package.name;
            let version = &package.version;
            ensure_of_others(name)?;
            ensure!(!package.wheels.is_empty(), "`{name}` {version} has no wheel");
            for wheel in &package.wheels {
                let file = wheel.name()?;
                ensure!(
                    file.name == *name && file.version == *version,
                    "`{file}` is not a file of `{name}` {version}"
                );
                ensure!(file.tag.is_some(), "`{file}` is an sdist");
                ensure!(names.insert(file.to_string()), "`{file}` is named twice");
            }
        }
        Ok(Self { packages })
    }

    /// Each version of a project.
    pub fn versions(&self) -> BTreeSet<(DistName, Version)> {
        self.packages
            .iter()
            .map(|package| (package.name.clone(), package.version.clone()))
            .collect()
    }
}

impl LockedPackage {
    /// Whether the package is for an environment. A marker that cannot be read excludes no environment.
    pub(super) fn is_for(&self, environment: PythonPlatform) -> bool {
        self.marker.evaluate(&environment, &[]).unwrap_or(true)
    }

    /// The wheels that an environment may install.
    pub(super) fn wheels_for(
        &self,
        environment: PythonPlatform,
    ) -> impl Iterator<Item = &LockedWheel> {
        let wheels = if self.is_for(environment) { &self.wheels[..] } else { &[] };
        wheels.iter().filter(move |wheel| wheel.name().is_ok_and(|name| environment.fits(&name)))
    }
}

impl LockedWheel {
    /// The name of the file, which is the end of its address.
    pub(super) fn name(&self) -> Result<PackageFilename> {
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        path.rsplit('/')
            .next()
            .and_then(percent_decode)
            .with_context(|| format!("not the address of a file: {:?}", self.url))?
            .parse()
    }

    pub(super) fn sha256(&self) -> Sha256 {
        self.hashes.sha256
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::deps::wishes::Wishes;
    use rocwheel_base::error::render;

    /// A lock with one wheel for each package, as uv writes it.
    pub(in crate::deps) fn lock(packages: &[(&str, &str, &str)]) -> String {
        let package = |(project, marker, file): &(&str, &str, &str)| {
            let version = file.split('-').nth(1).unwrap();
            format!(
                "[[packages]]\nname = '{project}'\nversion = '{version}'\nmarker = \"{marker}\"\nwheels = [{{ url = \
                 'https://h/{file}', upload-time = 2026-01-02T03:04:05Z, size = 3, hashes = {{ sha256 = '{}' }} }}]\n",
                "0".repeat(64)
            )
        };
        let packages: String = packages.iter().map(package).collect();
        format!(
            "lock-version = \"1.0\"\ncreated-by = \"uv\"\nrequires-python = \">=3.10\"\n{packages}"
        )
    }

    #[test]
    fn a_wheel_is_for_the_environments_that_may_install_it() {
        let text = lock(&[
            (
                "numpy",
                "python_full_version == '3.10.*' and (sys_platform == 'linux' or sys_platform == 'win32')",
                "numpy-2.2.6-cp310-cp310-win_amd64.whl",
            ),
            ("a", "python_full_version >= '3.11'", "a-1-py3-none-any.whl"),
            ("b", "", "b-1-py3-none-any.whl"),
        ]);
        let lock = Lock::parse(&text).unwrap();
        let wishes =
            "pythons = ['3.10', '3.12']\nplatforms = ['linux', 'windows']\ndependency = []\n";
        let environments = Wishes::parse(wishes).unwrap().environments();
        let lines = environments.into_iter().map(|environment| {
            let packages = lock.packages.iter();
            let wheels = packages.flat_map(|it| it.wheels_for(environment));
            let names = wheels.map(|it| it.name().unwrap().to_string());
            format!("{environment} {}", names.collect::<Vec<_>>().join(" "))
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
        3.10-linux b-1-py3-none-any.whl
        3.10-windows numpy-2.2.6-cp310-cp310-win_amd64.whl b-1-py3-none-any.whl
        3.12-linux a-1-py3-none-any.whl b-1-py3-none-any.whl
        3.12-windows a-1-py3-none-any.whl b-1-py3-none-any.whl
        ");
    }

    #[test]
    fn what_is_not_a_lock_is_refused() {
        let refused = |text: &str| render(&Lock::parse(text).unwrap_err());
        let one = |project: &str, file: &str| refused(&lock(&[(project, "", file)]));
        let twice = [("a", "", "a-1-py3-none-any.whl"); 2];
        let said = [
            refused("lock-version = '2.0'"),
            refused("lock-version = '1.0'"),
            one("torch", "torch-1-py3-none-any.whl"),
            one("a", "b-1-py3-none-any.whl"),
            one("a", "a-1-.tar.gz"),
            refused(&lock(&twice)),
            refused(&lock(&[("a", "", "a-1-py3-none-any.whl")]).replace("sha256", "md5"))
                .lines()
                .next()
                .unwrap()
                .to_owned(),
        ];
        insta::assert_snapshot!(said.concat());
    }
}
