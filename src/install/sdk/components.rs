//! Which artifacts of a run an SDK consists of, as `components.toml` says.

use std::{collections::BTreeSet, sync::LazyLock};

use itertools::Itertools as _;
use regex::Regex;
use serde::Deserialize;

use crate::{
    artifact::Component,
    error::{Hint as _, Result, anyhow},
    fetch::Wish,
};

static BUILTIN: LazyLock<SdkPolicy> = LazyLock::new(|| {
    toml::from_str(include_str!("../components.toml")).expect("a test reads the built-in policy")
});

/// What `components.toml` says. Artifacts have the form `{name}_{component}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SdkPolicy {
    base: Vec<String>,
    components: Vec<SdkComponent>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SdkComponent {
    name: String,
    artifacts: Vec<String>,
    #[serde(default)]
    tests: Vec<String>,
}

/// What is wanted of an SDK.
#[derive(Clone, Debug, Default)]
pub struct SdkWish {
    /// Empty for everything that is installed.
    pub components: Vec<String>,
    /// Whether with the tests of the components.
    pub with_tests: bool,
    /// Targets and families. `None` for files of no GPU only, empty for those of all GPUs.
    pub targets: Option<Vec<String>>,
}

impl SdkComponent {
    fn named(name: &str) -> Self {
        let mut known = BUILTIN.components.iter();
        let known = known.find(|it| it.name == name).cloned();
        known.unwrap_or_else(|| Self {
            name: name.to_owned(),
            artifacts: vec![format!("{name}_lib")],
            tests: vec![format!("{name}_test")],
        })
    }

    /// The artifacts, and the one that must exist.
    fn artifacts(self, with_tests: bool) -> Result<(Vec<String>, String)> {
        let tests = self.tests.into_iter().filter(|_| with_tests);
        let all: Vec<String> = self.artifacts.into_iter().chain(tests).collect();
        let Some(first) = all.first().cloned() else {
            let name = self.name;
            return Err(anyhow!("component `{name}` has only tests")).hint("pass `--tests` too");
        };
        Ok((all, first))
    }
}

impl SdkWish {
    /// Which artifacts `fetch` selects for it. Without components, these are all that are installed:
    /// neither debug symbols nor documents, and tests if they are wanted.
    pub fn artifacts(&self) -> Result<Wish> {
        let mut wish = Wish {
            targets: self.targets.clone().unwrap_or_default(),
            is_for_a_tree: true,
            ..Wish::default()
        };
        let scope = if self.targets.is_none() {
            "generic"
        } else {
            ""
        };
        if self.components.is_empty() {
            wish.components = BTreeSet::from([Component::Lib, Component::Run, Component::Dev]);
            wish.components
                .extend(self.with_tests.then_some(Component::Test));
            if self.targets.is_none() {
                wish.include = vec![Regex::new("_generic[.]")?];
            }
            return Ok(wish);
        }
        let mut names = BUILTIN.base.clone();
        for name in &self.components {
            let (artifacts, first) = SdkComponent::named(name).artifacts(self.with_tests)?;
            names.extend(artifacts);
            wish.required.push(pattern([&first], scope)?);
        }
        let names = names.iter().sorted().dedup();
        wish.include = vec![pattern(names, scope)?];
        Ok(wish)
    }
}

/// The archives of these artifacts: `^(?:fft_lib|miopen_run)_`, or `^fft_lib_` of one.
fn pattern<'a>(names: impl IntoIterator<Item = &'a String>, scope: &str) -> Result<Regex> {
    let names: Vec<String> = names.into_iter().map(|it| regex::escape(it)).collect();
    let names = match names.as_slice() {
        [only] => only.clone(),
        names => format!("(?:{})", names.join("|")),
    };
    // A hyphen means nothing outside of brackets, and a refusal shows the pattern.
    let names = names.replace("\\-", "-");
    Ok(Regex::new(&format!("^{names}_{scope}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    fn selected(components: &[&str], with_tests: bool, targets: Option<&[&str]>) -> String {
        let owned = |it: &&str| (*it).to_owned();
        let wish = SdkWish {
            components: components.iter().map(owned).collect(),
            with_tests,
            targets: targets.map(|it| it.iter().map(owned).collect()),
        };
        let wish = match wish.artifacts() {
            Ok(wish) => wish,
            Err(error) => return render(&error),
        };
        let archives = [
            "base_lib_generic.tar.zst",
            "base_dev_generic.tar.zst",
            "blas_lib_gfx942.tar.zst",
            "blas_test_gfx942.tar.zst",
            "fft_lib_generic.tar.zst",
            "fft_lib_gfx942.tar.zst",
            "fftw3_lib_generic.tar.zst",
            "fft_test_gfx942.tar.zst",
            "miopen_run_generic.tar.zst",
            "systems-examples_test_generic.tar.zst",
        ];
        let is_in = |name: &&&str| {
            let component = name
                .split('_')
                .nth(1)
                .unwrap()
                .parse::<Component>()
                .unwrap();
            (wish.components.is_empty() || wish.components.contains(&component))
                && (wish.include.is_empty() || wish.include.iter().any(|it| it.is_match(name)))
        };
        let found = archives
            .iter()
            .filter(is_in)
            .map(|it| it.trim_end_matches(".tar.zst"));
        let required = wish.required.iter().join(" ");
        format!("{} [{required}]\n", found.format(" "))
    }

    #[test]
    fn components_are_artifacts_and_the_base() {
        let all = Some(&[][..]);
        let lines = [
            selected(&["fft"], false, all),
            selected(&["fft", "blas"], true, Some(&["gfx942"])),
            selected(&["fft"], true, None),
            selected(&["systems-examples"], true, all),
            selected(&["systems-examples"], false, all),
            selected(&[], false, all),
            selected(&[], true, None),
        ];
        insta::assert_snapshot!(lines.concat(), @"
        base_lib_generic fft_lib_generic fft_lib_gfx942 fftw3_lib_generic [^fft_lib_]
        base_lib_generic blas_lib_gfx942 blas_test_gfx942 fft_lib_generic fft_lib_gfx942 fftw3_lib_generic fft_test_gfx942 [^fft_lib_ ^blas_lib_]
        base_lib_generic fft_lib_generic fftw3_lib_generic [^fft_lib_generic]
        base_lib_generic systems-examples_test_generic [^systems-examples_test_]
        error: component `systems-examples` has only tests

        hint: pass `--tests` too
        base_lib_generic base_dev_generic blas_lib_gfx942 fft_lib_generic fft_lib_gfx942 fftw3_lib_generic miopen_run_generic []
        base_lib_generic base_dev_generic fft_lib_generic fftw3_lib_generic miopen_run_generic systems-examples_test_generic []
        ");
    }

    #[test]
    fn every_name_of_the_policy_is_that_of_an_artifact() {
        let lists = BUILTIN
            .components
            .iter()
            .flat_map(|it| [&it.artifacts, &it.tests]);
        for name in lists.chain([&BUILTIN.base]).flatten() {
            let (_, component) = name.rsplit_once('_').unwrap();
            component.parse::<Component>().unwrap();
        }
        assert!(BUILTIN.components.iter().map(|it| &it.name).all_unique());
    }
}
