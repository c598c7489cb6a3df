//! Names of packages: distribution names for pip, and import names for Python.

use std::str::FromStr;

use derive_more::Display;

use rocwheel_base::error::{Error, Result, ensure};

/// Whether device code ships in packages of its own, or in the libraries packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DistributionMode {
    /// One libraries package for all targets, and one device package per target.
    Split,
    /// One libraries package per family, which contains its device code.
    Legacy,
}

impl DistributionMode {
    /// The usual value. In a legacy set the value for legacy sets, if there is one.
    pub(super) fn pick<T>(self, usual: T, legacy: Option<T>) -> T {
        match self {
            Self::Split => usual,
            Self::Legacy => legacy.unwrap_or(usual),
        }
    }
}

/// A suffix for the import names of all packages with files, so that two sets can be installed side
/// by side: `_rocm_sdk_core` and a suffix.
///
/// Only letters, digits and `_`, because it ends a Python identifier and the name of a directory.
#[derive(Clone, Debug, Default, Display, PartialEq, Eq)]
pub struct ImportSuffix(String);

impl FromStr for ImportSuffix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        ensure!(
            text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
            "a version suffix ends a Python module name, so it holds only letters, digits and `_`: {text:?}"
        );
        Ok(Self(text.to_owned()))
    }
}

/// A distribution name with a placeholder for the target or family: `rocm-sdk-device-{target}`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct NameTemplate(String);

const PLACES: [&str; 2] = ["{target}", "{family}"];

impl NameTemplate {
    pub fn is_for_one_scope(&self) -> bool {
        PLACES.iter().any(|place| self.0.contains(place))
    }

    /// Replaces the placeholder with a text.
    pub fn fill(&self, name: &str) -> String {
        let places = PLACES.iter();
        places.fold(self.0.clone(), |text, place| text.replace(place, name))
    }

    /// Whether a distribution has this name for some target or family.
    pub fn matches(&self, name: &str) -> bool {
        self.0 == name || self.scope_in(name).is_some()
    }

    /// What stands for the placeholder in the name of a distribution: `gfx942` in `rocm-sdk-device-gfx942`.
    pub fn scope_in<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (before, rest) = self.0.split_once('{')?;
        let (_, after) = rest.split_once('}')?;
        let scope = name.strip_prefix(before)?.strip_suffix(after)?;
        (!scope.is_empty()).then_some(scope)
    }

    /// The template for `_dist_info.py`, which has the same placeholder for targets and families.
    pub fn python_template(&self) -> String {
        self.fill("{target_family}")
    }
}

impl TryFrom<String> for NameTemplate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let lawful = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let template = Self(text);
        if template.0.is_empty() || !template.fill("").chars().all(lawful) {
            return Err(format!(
                "a distribution name is lower-case letters, digits, `-` and at most `{{target}}` or \
                 `{{family}}`: {:?}",
                template.0
            ));
        }
        Ok(template)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> NameTemplate {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn a_name_is_filled_with_the_base_target() {
        assert_eq!(template("rocm-sdk-device-{target}").fill("gfx942"), "rocm-sdk-device-gfx942");
        let libraries = template("rocm-sdk-libraries-{family}");
        assert_eq!(libraries.fill("gfx94X-dcgpu"), "rocm-sdk-libraries-gfx94X-dcgpu");
        assert_eq!(libraries.python_template(), "rocm-sdk-libraries-{target_family}");
    }

    #[test]
    fn a_template_fits_the_names_that_it_makes() {
        let fits = |text: &str, name: &str| template(text).matches(name);
        assert!(fits("rocm", "rocm") && !fits("rocm", "rocm-bootstrap"));
        assert!(fits("rocm-sdk-device-{target}", "rocm-sdk-device-gfx942"));
        for other in ["rocm-sdk-device-", "rocm-sdk-device", "rocm-sdk-core"] {
            assert!(!fits("rocm-sdk-device-{target}", other), "{other}");
        }
        assert!(fits("a-{family}-b", "a-x-y-b") && !fits("a-{family}-b", "a-b"));
    }

    #[test]
    fn names_that_could_be_something_else_are_refused() {
        insta::assert_snapshot!(
            "a b".parse::<ImportSuffix>().unwrap_err(),
            @r#"a version suffix ends a Python module name, so it holds only letters, digits and `_`: "a b""#
        );
        insta::assert_snapshot!(
            NameTemplate::try_from("Rocm/../x".to_owned()).unwrap_err(),
            @r#"a distribution name is lower-case letters, digits, `-` and at most `{target}` or `{family}`: "Rocm/../x""#
        );
    }
}
