//! [`InstallOrigin`]: where the packages of an environment came from, as `install` writes it into the
//! environment. `doctor`, `rocm-sdk` and the next `install` read it, so that each command that they print
//! names its source.

use std::{
    io,
    path::{Path, PathBuf},
};

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use rocwheel_base::{
    atomic,
    error::{Context as _, Result},
    io::{read_small, resolved_path},
    quantity::shell_word,
    version::Version,
};

/// The name of the file, in the directory of the environment. The shipped Python has it too, in
/// `_dist_info.py`.
const FILE: &str = "rocwheel-install.json";
const SCHEMA: &str = "rocwheel-environment-v1";
/// No path, address or requirement is longer.
const LONGEST_VALUE: usize = 4096;

/// What was installed, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InstallOrigin {
    pub(super) schema: String,
    /// The SET argument: the absolute path of a directory, or an address.
    pub source: String,
    /// `None` if only packages of others were installed.
    pub version: Option<Version>,
    /// Targets, or a family.
    pub targets: Vec<String>,
    /// The extras of `rocm`, without the extras for targets.
    pub extras: Vec<String>,
    /// The requirements besides `rocm`.
    pub packages: Vec<String>,
    /// The index with all other packages.
    #[serde(rename = "deps")]
    pub dependencies: Option<String>,
    pub no_check: bool,
}

impl InstallOrigin {
    pub fn new(source: String, version: Option<Version>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            source,
            version,
            targets: Vec::new(),
            extras: Vec::new(),
            packages: Vec::new(),
            dependencies: None,
            no_check: false,
        }
    }

    /// Reads it from an environment. `None` if `install` did not make the environment, or if the file cannot
    /// be understood.
    pub fn read(environment: &Path) -> Option<Self> {
        let json = read_small(&environment.join(FILE)).ok()?;
        let origin: Self = serde_json::from_slice(&json).ok()?;
        (origin.schema == SCHEMA && origin.is_sound()).then_some(origin)
    }

    /// Whether every value may stand in a command that is printed. Anybody may have written the file.
    fn is_sound(&self) -> bool {
        let lists = [&self.targets, &self.extras, &self.packages];
        let mut values =
            lists.into_iter().flatten().chain(&self.dependencies).chain([&self.source]);
        let has_login = |value: &str| {
            let host = value.split_once("://").and_then(|it| it.1.split('/').next());
            host.is_some_and(|it| it.contains('@'))
        };
        values.all(|value| {
            let is_plain = !value.contains(char::is_control) && value.len() <= LONGEST_VALUE;
            is_plain && !value.starts_with('-') && !value.is_empty() && !has_login(value)
        })
    }

    /// The environment around a `site-packages` directory, or the directory itself.
    pub fn environment_of(directory: &Path) -> Option<PathBuf> {
        let directory = resolved_path(directory).ok()?;
        // `lib/python3.12/site-packages` is three directories below its environment.
        let mut around = directory.ancestors().take(4);
        around.find(|it| it.join(FILE).is_file()).map(Path::to_owned)
    }

    pub fn write(&self, environment: &Path) -> Result<()> {
        let write = || -> io::Result<()> {
            let json = serde_json::to_string_pretty(self)?;
            atomic::write(&environment.join(FILE), json + "\n")
        };
        write().context("failed to record where the packages came from")
    }

    /// Adds what an earlier install has put there, if it was of the same version and source: its packages are still in
    /// the environment. For another version or source, returns only this install.
    #[must_use]
    pub fn with_earlier(mut self, earlier: Option<Self>) -> Self {
        let is_same = |it: &Self| it.source == self.source && it.version == self.version;
        if let Some(earlier) = earlier.filter(is_same) {
            self.targets = join(earlier.targets, self.targets);
            self.extras = join(earlier.extras, self.extras);
            self.packages = join(earlier.packages, self.packages);
            self.dependencies = self.dependencies.or(earlier.dependencies);
        }
        self
    }

    /// The command that installs the same again into an environment.
    pub fn command(&self, environment: &Path) -> String {
        let list = |names: &[String]| match names {
            [] => "none".to_owned(),
            names => names.join(","),
        };
        let mut words = vec!["rocwheel".to_owned(), "install".to_owned(), self.source.clone()];
        words.extend(["--venv".to_owned(), environment.display().to_string()]);
        if let Some(version) = &self.version {
            words.extend(["--version".to_owned(), version.to_string()]);
            words.extend(["--target".to_owned(), list(&self.targets)]);
            words.extend(["--extras".to_owned(), list(&self.extras)]);
        }
        for package in &self.packages {
            words.extend(["--package".to_owned(), package.clone()]);
        }
        if let Some(index) = &self.dependencies {
            words.extend(["--deps".to_owned(), index.clone()]);
        }
        words.extend(self.no_check.then(|| "--no-check".to_owned()));
        words.iter().map(|it| shell_word(it)).join(" ")
    }
}

fn join<T: PartialEq>(mut one: Vec<T>, other: Vec<T>) -> Vec<T> {
    for value in other {
        if !one.contains(&value) {
            one.push(value);
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    #[test]
    fn the_command_names_everything_and_is_quoted() {
        let origin = InstallOrigin {
            targets: vec!["gfx942".to_owned()],
            extras: vec!["libraries".to_owned()],
            packages: vec!["torch>=2.10".to_owned()],
            dependencies: Some("https://host/deps/simple/".to_owned()),
            ..InstallOrigin::new("/home/me/my set".to_owned(), "7.14.0".parse().ok())
        };
        let command = origin.command("/home/me/$(x) env".as_ref());
        insta::assert_snapshot!(command, @"rocwheel install '/home/me/my set' --venv '/home/me/$(x) env' --version 7.14.0 --target gfx942 --extras libraries --package 'torch>=2.10' --deps https://host/deps/simple/");
        let bare = InstallOrigin::new("s3://b/1-linux/python".to_owned(), "7.14.0".parse().ok());
        insta::assert_snapshot!(bare.command("env".as_ref()), @"rocwheel install s3://b/1-linux/python --venv env --version 7.14.0 --target none --extras none");
    }

    #[test]
    fn what_an_earlier_install_left_is_installed_again_too() {
        let origin = |targets: &[&str], version: &str| InstallOrigin {
            targets: targets.iter().map(|it| (*it).to_owned()).collect(),
            ..InstallOrigin::new("set".to_owned(), version.parse().ok())
        };
        let both = origin(&["gfx1100"], "1.0").with_earlier(Some(origin(&["gfx942"], "1.0")));
        assert_eq!(both, origin(&["gfx942", "gfx1100"], "1.0"));
        let newer = origin(&["gfx1100"], "2.0").with_earlier(Some(both));
        assert_eq!(newer, origin(&["gfx1100"], "2.0"));
        let place = tempfile::tempdir().unwrap();
        assert_eq!(InstallOrigin::read(place.path()), None);
        newer.write(place.path()).unwrap();
        assert_eq!(InstallOrigin::read(place.path()), Some(newer));
        let site = place.path().join("lib/python3.12/site-packages");
        fs::create_dir_all(&site).unwrap();
        let around = InstallOrigin::environment_of(&site);
        assert_eq!(around, Some(fs::canonicalize(place.path()).unwrap()));
        for source in ["--help", "a\u{1b}[2J", "https://user:password@host/", ""] {
            let hostile = InstallOrigin::new(source.to_owned(), "1.0".parse().ok());
            hostile.write(place.path()).unwrap();
            assert_eq!(InstallOrigin::read(place.path()), None, "{source:?}");
        }
        fs::write(place.path().join(FILE), "{}").unwrap();
        assert_eq!(InstallOrigin::read(place.path()), None);
    }
}
