//! `DistName`: the name of a distribution, `rocm-sdk-core`.
//!
//! It is displayed as it was written, but compared in its normalized form
//! ([PEP 503](https://peps.python.org/pep-0503/)): `ROCm_SDK.core` is the same name.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

#[derive(Clone, Debug)]
pub struct DistName {
    written: Box<str>,
    normal: Box<str>,
}

/// Error of parsing a [`DistName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text:?}")]
pub struct InvalidDistName {
    text: String,
    reason: &'static str,
}

impl DistName {
    /// The name of the project on an index: lower case, each run of `-`, `_` and `.` replaced by
    /// `-`.
    pub fn normalized(&self) -> &str {
        &self.normal
    }

    /// The name in file names, `rocm_sdk_core`: `-` separates the parts of a file name, so it is
    /// replaced by `_` ([PEP 625](https://peps.python.org/pep-0625/)).
    pub fn filename_form(&self) -> String {
        self.normal.replace('-', "_")
    }
}

impl FromStr for DistName {
    type Err = InvalidDistName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || is_separator(c);
        let reason = if text.is_empty() {
            "an empty distribution name"
        } else if !text.chars().all(is_inner) {
            "a distribution name has ASCII letters, digits, `-`, `_` and `.` only"
        } else if text.starts_with(is_separator) || text.ends_with(is_separator) {
            "a distribution name begins and ends with a letter or digit"
        } else {
            return Ok(Self {
                written: text.into(),
                normal: normalize(text),
            });
        };
        Err(InvalidDistName {
            text: text.to_owned(),
            reason,
        })
    }
}

/// Displays the name as it was written.
impl fmt::Display for DistName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.written)
    }
}

impl PartialEq for DistName {
    fn eq(&self, other: &Self) -> bool {
        self.normal == other.normal
    }
}

impl Eq for DistName {}

impl Hash for DistName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.normal.hash(state);
    }
}

impl Ord for DistName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.normal.cmp(&other.normal)
    }
}

impl PartialOrd for DistName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, '-' | '_' | '.')
}

fn normalize(text: &str) -> Box<str> {
    let words: Vec<String> = text
        .split(is_separator)
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.join("-").into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> DistName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_keeps_its_spelling_and_compares_by_its_normal_form() {
        let legacy = name("rocm-sdk-libraries-gfx94X-dcgpu");
        assert_eq!(legacy.to_string(), "rocm-sdk-libraries-gfx94X-dcgpu");
        assert_eq!(legacy.normalized(), "rocm-sdk-libraries-gfx94x-dcgpu");
        assert_eq!(legacy.filename_form(), "rocm_sdk_libraries_gfx94x_dcgpu");
        assert_eq!(name("Rocm.__SDK-.core"), name("rocm-sdk-core"));
        assert!(name("rocm_b") > name("ROCM-A"));
    }

    #[test]
    fn a_text_that_is_no_name_is_refused_in_words() {
        let refused = [
            "", "-a", "a_", ".", "rocm sdk", "rocm/sdk", "rocm\n", "é", "a\0",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| text.parse::<DistName>().unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        an empty distribution name: ""
        a distribution name begins and ends with a letter or digit: "-a"
        a distribution name begins and ends with a letter or digit: "a_"
        a distribution name begins and ends with a letter or digit: "."
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "rocm sdk"
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "rocm/sdk"
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "rocm\n"
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "é"
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "a\0"
        "#);
    }

    proptest! {
        #[test]
        fn a_normal_form_is_its_own_normal_form(text in "[A-Za-z0-9]([A-Za-z0-9._-]{0,12}[A-Za-z0-9])?") {
            let written = name(&text);
            let normal = name(written.normalized());
            prop_assert_eq!(normal.normalized(), written.normalized());
            prop_assert_eq!(&name(&written.filename_form()), &written);
            prop_assert_eq!(normal, written);
        }

        #[test]
        fn any_text_is_a_name_or_an_error(text in ".*") {
            if let Ok(name) = text.parse::<DistName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
