//! Names of packages: distribution names for pip, and import names for Python.

use std::{fmt, str::FromStr};

use crate::{target::Scope, version::Version};

/// Whether device code ships in packages of its own, or in the libraries packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DistributionMode {
    /// One libraries package for all targets, and one device package per target.
    Split,
    /// One libraries package per family, which contains its device code.
    Legacy,
}

/// The version of a set, and the suffix of its import names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicationName {
    pub version: Version,
    pub suffix: ImportSuffix,
}

/// A suffix for the import names of all packages with files, so that two sets can be installed side
/// by side: `_rocm_sdk_core` and a suffix.
///
/// Only letters, digits and `_`, because it ends a Python identifier and the name of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportSuffix(String);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a version suffix ends a Python module name, so it holds only letters, digits and `_`: {0:?}"
)]
pub struct InvalidImportSuffix(String);

impl FromStr for ImportSuffix {
    type Err = InvalidImportSuffix;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidImportSuffix(text.to_owned()))
        }
    }
}

impl fmt::Display for ImportSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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

    /// Replaces the placeholder. Names have no features such as `xnack+`, only the base of a
    /// target.
    pub fn fill(&self, scope: Option<&Scope>) -> String {
        let name = scope.map(|scope| scope.base().to_string());
        self.fill_text(&name.unwrap_or_default())
    }

    /// Replaces the placeholder with a text.
    pub fn fill_text(&self, name: &str) -> String {
        PLACES
            .iter()
            .fold(self.0.clone(), |text, place| text.replace(place, name))
    }

    /// The template for `_dist_info.py`, which has the same placeholder for targets and families.
    pub fn python_template(&self) -> String {
        PLACES.iter().fold(self.0.clone(), |text, place| {
            text.replace(place, "{target_family}")
        })
    }
}

impl TryFrom<String> for NameTemplate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bare = PLACES
            .iter()
            .fold(text.clone(), |text, place| text.replace(place, ""));
        let lawful = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || !bare.chars().all(lawful) {
            return Err(format!(
                "a distribution name is lower-case letters, digits, `-` and at most `{{target}}` or \
                 `{{family}}`: {text:?}"
            ));
        }
        Ok(Self(text))
    }
}

/// The import name of the directory with the files of a distribution: `_rocm_sdk_core`.
pub fn platform_package(dist: &str, release: &PublicationName) -> String {
    format!("_{}{}", dist.replace('-', "_"), release.suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> NameTemplate {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn a_name_is_filled_with_the_base_target() {
        let scope: Scope = "gfx942:xnack+".parse().unwrap();
        assert_eq!(
            template("rocm-sdk-device-{target}").fill(Some(&scope)),
            "rocm-sdk-device-gfx942"
        );
        let family: Scope = "gfx94X-dcgpu".parse().unwrap();
        let libraries = template("rocm-sdk-libraries-{family}");
        assert_eq!(
            libraries.fill(Some(&family)),
            "rocm-sdk-libraries-gfx94X-dcgpu"
        );
        assert_eq!(
            libraries.python_template(),
            "rocm-sdk-libraries-{target_family}"
        );
    }

    #[test]
    fn an_import_name_keeps_case_and_ends_with_the_suffix() {
        let release = PublicationName {
            version: "7.1".parse().unwrap(),
            suffix: "_v1".parse().unwrap(),
        };
        assert_eq!(
            platform_package("rocm-sdk-libraries-gfx94X-dcgpu", &release),
            "_rocm_sdk_libraries_gfx94X_dcgpu_v1"
        );
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
