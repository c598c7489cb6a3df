//! [`Wishes`]: the projects of a base index, as `deps.toml` has them.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use serde::Deserialize;

use super::environment::{PythonMinor, PythonPlatform};
use crate::{framework::Frameworks, index::is_ours, run::Platform};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, anyhow, ensure},
    version::Version,
};
use rocwheel_wheel::DistName;

/// Which projects a base index has, for which Pythons and platforms.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wishes {
    pythons: Vec<PythonMinor>,
    platforms: Vec<Platform>,
    dependency: Vec<WishedProject>,
}

/// One project of a base index.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WishedProject {
    pub name: DistName,
    /// What follows the name in a requirement: `<82`.
    #[serde(default)]
    pub version: String,
    /// Who needs it.
    pub reason: String,
    /// The Pythons that need it, if not all of them do.
    pythons: Option<Vec<PythonMinor>>,
}

impl Wishes {
    /// The list that rocwheel has itself.
    pub const BUILTIN: &str = include_str!("deps.toml");

    pub fn parse(text: &str) -> Result<Self> {
        let wishes: Self = toml::from_str(text)?;
        let has_environments = !wishes.pythons.is_empty() && !wishes.platforms.is_empty();
        ensure!(has_environments, "no Python or no platform is named");
        let mut names = BTreeSet::new();
        for wish in &wishes.dependency {
            let name = &wish.name;
            ensure!(names.insert(name), "`{name}` is named twice");
            ensure!(!wish.reason.trim().is_empty(), "`{name}` has no reason");
            // A specifier that can be read answers for every version.
            let any_version: Version = "1".parse()?;
            ensure!(
                any_version.fulfils(&wish.version).is_some(),
                "`version` of `{name}` is no requirement such as `<82`: {:?}",
                wish.version
            );
            ensure_of_others(name)?;
        }
        Ok(wishes)
    }

    pub(super) fn environments(&self) -> BTreeSet<PythonPlatform> {
        let pairs = self.pythons.iter().cartesian_product(&self.platforms);
        pairs.map(|(&python, &platform)| PythonPlatform { python, platform }).collect()
    }

    /// The projects that an environment needs.
    pub(super) fn of(&self, environment: PythonPlatform) -> impl Iterator<Item = &WishedProject> {
        self.dependency.iter().filter(move |wish| match &wish.pythons {
            Some(pythons) => pythons.contains(&environment.python),
            None => true,
        })
    }

    /// The oldest Python, for which uv resolves first.
    pub(super) fn oldest_python(&self) -> Result<PythonMinor> {
        self.pythons.iter().min().copied().context("no Python is named")
    }

    /// The projects as requirements, each with the environments that it is for.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let platform_marker = self
            .platforms
            .iter()
            .map(|platform| format!("sys_platform == '{}'", platform.sys_platform()))
            .join(" or ");
        self.dependency.iter().map(move |wish| {
            let requirement = format!("{}{}", wish.name, wish.version);
            let python_marker = wish
                .pythons
                .iter()
                .flatten()
                .map(|python| format!("python_version == '{python}'"))
                .join(" or ");
            if python_marker.is_empty() {
                format!("{requirement} ; {platform_marker}")
            } else {
                format!("{requirement} ; ({python_marker}) and ({platform_marker})")
            }
        })
    }
}

/// Whether the packages of a run have this project: then no base index may have it, because an
/// installer could take it from either of the two.
pub(super) fn is_of_runs(name: &DistName) -> bool {
    // The device wheels of a framework are called like `amd-torch-device-gfx942`.
    let is_device_wheel =
        name.normalized().starts_with("amd-") && name.normalized().contains("-device-");
    is_ours(name) || Frameworks::builtin().of(name).is_some() || is_device_wheel
}

pub(super) fn ensure_of_others(name: &DistName) -> Result<()> {
    if is_of_runs(name) {
        return Err(anyhow!("the base index cannot have `{name}`, which runs build"))
            .hint("remove it: an installer takes it from the index of the run");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::error::render;

    #[test]
    fn our_own_list_is_read() {
        let wishes = Wishes::parse(Wishes::BUILTIN).unwrap();
        assert_eq!(wishes.environments().len(), 12);
        assert!(wishes.lines().any(|it| it.starts_with("rocm-bootstrap ")));
    }

    #[test]
    fn a_project_that_runs_build_is_refused() {
        let list = |rows: &str| {
            let text = format!("pythons = ['3.12']\nplatforms = ['linux']\n{rows}");
            Wishes::parse(&text).err().map_or("read\n".to_owned(), |it| render(&it))
        };
        let row = |name: &str| format!("[[dependency]]\nname = '{name}'\nreason = 'x'\n");
        let said = [
            list(&row("rocm-bootstrap")),
            list(&row("ROCm_SDK_core")),
            list(&row("rocm-sdk-device-gfx9999")),
            list(&row("torch")),
            list(&row("amd-torch-device-gfx942")),
            list(&(row("a") + &row("A"))),
            list("[[dependency]]\nname = 'a'\nreason = ' '\n"),
            list("[[dependency]]\nname = 'a'\nreason = 'x'\nversion = '82'\n"),
            list("[[dependency]]\nname = 'a'\nreason = 'x'\npythons = ['3']\n"),
        ];
        insta::assert_snapshot!(said.concat(), @r#"
            read
            error: the base index cannot have `rocm-sdk-core`, which runs build

            hint: remove it: an installer takes it from the index of the run
            error: the base index cannot have `rocm-sdk-device-gfx9999`, which runs build

            hint: remove it: an installer takes it from the index of the run
            error: the base index cannot have `torch`, which runs build

            hint: remove it: an installer takes it from the index of the run
            error: the base index cannot have `amd-torch-device-gfx942`, which runs build

            hint: remove it: an installer takes it from the index of the run
            error: `a` is named twice
            error: `a` has no reason
            error: `version` of `a` is no requirement such as `<82`: "82"
            error: TOML parse error at line 6, column 11
              |
            6 | pythons = ['3']
              |           ^^^^^
            not a Python such as `3.12`: "3"
            "#);
    }

    #[test]
    fn a_dependency_may_be_of_some_environments() {
        let text = "pythons = ['3.10', '3.11']\nplatforms = ['linux', 'windows']\n\
            [[dependency]]\nname = 'tomli'\nreason = 'x'\npythons = ['3.10']\n";
        let wishes = Wishes::parse(text).unwrap();
        let having = wishes.environments().into_iter();
        let having: Vec<String> =
            having.filter(|it| wishes.of(*it).count() == 1).map(|it| format!("{it}")).collect();
        assert_eq!(having, ["3.10-linux", "3.10-windows"]);
    }
}
