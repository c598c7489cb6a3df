//! Versions as defined by [PEP 440](https://peps.python.org/pep-0440/), and the types of releases.

use std::{cmp::Ordering, str::FromStr};

use derive_more::Display;
use itertools::Itertools as _;
use strum::VariantArray as _;

use crate::error::{Invalid, as_text};

mod inputs;
mod promotion;
mod scheme;
mod stream;

pub use inputs::{BaseVersion, Date, GitSha, VersionFile};
pub use promotion::PromotionGoal;
pub use scheme::{PackageVersions, VersionInputs, VersionScheme, compute, undated};
pub use stream::{ReleaseStream, StreamPlace};

/// A PEP 440 version: `7.13.0.dev0+abc`. Parsing accepts every valid spelling; `Display` writes the
/// normal form.
///
/// Versions are compared as PEP 440 defines it: `1.0` equals `1.0.0`, although they are written
/// differently. Only the version of ROCm in a local part is compared as a version too: `2.12+rocm10.1` is
/// newer than `2.12+rocm7.15`. For
/// [PEP 440](https://peps.python.org/pep-0440/#local-version-identifiers), and so for installers, `rocm10` and
/// `rocm7` are texts, and `rocm7` is the greater one.
#[derive(Clone, Debug, Display, PartialEq, Eq, Hash)]
pub struct Version(pep440_rs::Version);

as_text!(Version);

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        // Most have no local part, or are the same: then nothing is copied.
        if self.0 == other.0 || !self.0.is_local() && !other.0.is_local() {
            return self.0.cmp(&other.0);
        }
        let [own, theirs] = [self, other].map(|it| it.0.clone().without_local());
        own.cmp(&theirs)
            .then_with(|| self.of_rocm().cmp(&other.of_rocm()))
            .then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Version {
    /// Whether installers take it for older than another one: for PEP 440 itself `+rocm10.1` sorts below
    /// `+rocm7.15`.
    pub fn sorts_below(&self, other: &Self) -> bool {
        self.0 < other.0
    }
}

/// Why a text is not a `Version`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a PEP 440 version: {text:?}")]
pub struct InvalidVersion {
    text: String,
    /// `None` if the text has a character that no version has, such as a control character. It must
    /// not reach a terminal unescaped.
    source: Option<pep440_rs::VersionParseError>,
}

impl Version {
    /// The version as part of the file name of a wheel or sdist. There `-` separates the parts of
    /// the name, so it becomes `_`.
    pub fn filename_form(&self) -> String {
        self.to_string().replace('-', "_")
    }

    /// Whether it is a final release: neither a pre-release nor a build of one commit.
    pub fn is_final(&self) -> bool {
        !self.0.any_prerelease() && self.0.local().is_empty()
    }

    /// The first two numbers: `7.13` of `7.13.2rc1`.
    pub fn minor(&self) -> String {
        let numbers = self.0.release();
        let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
        format!("{}.{}", number(0), number(1))
    }

    /// Whether it fulfils what follows the name in a requirement, such as `>=1,<2`. `None` if that is
    /// not understood.
    pub fn fulfils(&self, specifiers: &str) -> Option<bool> {
        let parsed: pep440_rs::VersionSpecifiers = specifiers.parse().ok()?;
        Some(self.is_in(&parsed))
    }

    /// Whether all specifiers allow it. A prerelease counts like any other version: whether an
    /// installer wants one is not asked here.
    pub fn is_in(&self, specifiers: &pep440_rs::VersionSpecifiers) -> bool {
        specifiers.contains(&self.0)
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |source| InvalidVersion { text: text.to_owned(), source };
        if !text.trim().chars().all(|c| c.is_ascii_graphic()) {
            return Err(invalid(None));
        }
        text.parse().map(Self).map_err(|error| invalid(Some(error)))
    }
}

/// How a build will be published. This decides its version and its bucket.
///
/// `ci` and `dev` are builds of a commit, `nightly` is a build of a day, and `prerelease` a candidate for a
/// `release`. The versions of `dev-bkc` and `nightly-bkc` are based on an earlier day.
#[expect(
    missing_docs,
    reason = "clap would show what stands at a variant in the help of each command"
)]
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Deserialize,
    strum::Display,
    strum::EnumString,
    strum::VariantArray,
)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", parse_err_fn = invalid_type, parse_err_ty = Invalid)]
pub enum ReleaseType {
    Ci,
    Dev,
    DevBkc,
    Nightly,
    NightlyBkc,
    Prerelease,
    Release,
}

fn invalid_type(text: &str) -> Invalid {
    let known = ReleaseType::VARIANTS.iter().join(", ");
    Invalid::new(format!("not a release type ({known})"), text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Error;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn every_spelling_becomes_the_normal_form() {
        let table = [
            ("10.1.0", "10.1.0"),
            (" v1.0\n", "1.0"),
            ("1.0-ALPHA.1", "1.0a1"),
            ("1.0.preview_2", "1.0rc2"),
            ("1.0c3", "1.0rc3"),
            ("1.0-7", "1.0.post7"),
            ("1.0-r", "1.0.post0"),
            ("1.0-dev", "1.0.dev0"),
            ("01.002", "1.2"),
            ("2!1.0", "2!1.0"),
            ("7.13.0.dev0+DEADBEEF", "7.13.0.dev0+deadbeef"),
            ("1.0+Ubuntu-1_x.007", "1.0+ubuntu.1.x.7"),
            ("10.1.0a20260811+bkc.20260814", "10.1.0a20260811+bkc.20260814"),
        ];
        for (text, normal) in table {
            assert_eq!(version(text).to_string(), normal, "{text}");
            assert_eq!(version(text).filename_form(), normal, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_version_is_refused_in_words() {
        let refused = [
            "",
            " ",
            "rocm",
            "1.*",
            "1.0+",
            "1.0 1",
            "1.0/..",
            "1.0+a/b",
            "1.0\0",
            "99999999999999999999999.0",
            "1.0+é",
            "+1",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| format!("{:#}", Error::from(text.parse::<Version>().unwrap_err())))
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not a PEP 440 version: "": expected version to start with a number, but no leading ASCII digits were found
        not a PEP 440 version: " ": expected version to start with a number, but no leading ASCII digits were found
        not a PEP 440 version: "rocm": expected version to start with a number, but no leading ASCII digits were found
        not a PEP 440 version: "1.*": wildcards are not allowed in a version
        not a PEP 440 version: "1.0+": found a `+` indicating the start of a local component in a version, but did not find any alphanumeric ASCII segment following the `+`
        not a PEP 440 version: "1.0 1"
        not a PEP 440 version: "1.0/..": after parsing `1.0`, found `/..`, which is not part of a valid version
        not a PEP 440 version: "1.0+a/b": after parsing `1.0+a`, found `/b`, which is not part of a valid version
        not a PEP 440 version: "1.0\0"
        not a PEP 440 version: "99999999999999999999999.0": expected number less than or equal to 18446744073709551615, but number found in "99999999999999999999999" exceeds it
        not a PEP 440 version: "1.0+é"
        not a PEP 440 version: "+1": expected version to start with a number, but no leading ASCII digits were found
        "#);
    }

    #[test]
    fn equal_versions_may_be_written_differently() {
        assert_eq!(version("1.0"), version("1.0.0"));
        assert_ne!(version("1.0").to_string(), version("1.0.0").to_string());
    }

    #[test]
    fn a_release_type_is_one_of_seven_exact_names() {
        for &kind in ReleaseType::VARIANTS {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let refused = ["", "CI", " ci", "stable", "nightly_bkc"];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| text.parse::<ReleaseType>().unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not a release type (ci, dev, dev-bkc, nightly, nightly-bkc, prerelease, release): ""
        not a release type (ci, dev, dev-bkc, nightly, nightly-bkc, prerelease, release): "CI"
        not a release type (ci, dev, dev-bkc, nightly, nightly-bkc, prerelease, release): " ci"
        not a release type (ci, dev, dev-bkc, nightly, nightly-bkc, prerelease, release): "stable"
        not a release type (ci, dev, dev-bkc, nightly, nightly-bkc, prerelease, release): "nightly_bkc"
        "#);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_the_normal_form_is_its_own(text in "[0-9a-z!.+_v -]{0,24}|\\PC{0,12}") {
            if let Ok(version) = text.parse::<Version>() {
                let normal = version.to_string();
                let again: Version = normal.parse().unwrap();
                prop_assert_eq!(again.to_string(), normal);
                prop_assert_eq!(again, version);
            }
        }
    }
}
