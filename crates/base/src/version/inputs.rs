//! The parts of a version (base version, date, commit), and ROCm's `version.json`, which contains
//! the base version and a date.

use std::str::FromStr;

use derive_more::Display;
use itertools::Itertools as _;
use serde::Deserialize;
use time::{format_description::BorrowedFormatItem, macros::format_description};

use crate::error::{Context, Hint, Invalid, Result, anyhow, as_text};

/// A version of numbers and dots: `10.1.0`. Leading zeros go, as in every version of a package (PEP 440).
#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub struct BaseVersion(String);

impl FromStr for BaseVersion {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: &str| {
            let is_number = part.bytes().all(|it| it.is_ascii_digit());
            part.parse::<u32>().ok().filter(|_| is_number)
        };
        let numbers: Option<Vec<u32>> = text.split('.').map(number).collect();
        numbers
            .map(|numbers| Self(numbers.iter().join(".")))
            .ok_or_else(|| Invalid::new("not a base version such as `10.1.0`", text))
    }
}

impl BaseVersion {
    /// The path of the file in an install tree of ROCm that has its version.
    pub const FILE: &str = ".info/version";

    /// Reads the text of that file, in which a build number may follow: `7.13.0-38`.
    pub fn of_install_tree(text: &str) -> Result<Self, Invalid> {
        let line = text.trim();
        line.split_once('-').map_or(line, |(base, _)| base).parse()
    }
}

/// A commit hash or its beginning: 7 to 64 hexadecimal digits, in lower case.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub struct GitSha(String);

as_text!(GitSha);

impl GitSha {
    /// The first eight digits, or all seven: git's own short form.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

impl FromStr for GitSha {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = text.chars().all(|c| c.is_ascii_hexdigit());
        (is_hex && (7..=64).contains(&text.len()))
            .then(|| Self(text.to_ascii_lowercase()))
            .ok_or_else(|| Invalid::new("not a commit of 7 to 64 hexadecimal digits", text))
    }
}

/// A date since 1970, written `YYYYMMDD`: `20261122`.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, PartialOrd, Ord)]
#[display("{}", _0.format(&DATE).unwrap_or_default())]
pub struct Date(time::Date);

impl Date {
    /// The day in UTC of a time in seconds since 1970. `None` after the year 9999.
    pub fn of_seconds(seconds: u64) -> Option<Self> {
        let time = time::OffsetDateTime::from_unix_timestamp(seconds.try_into().ok()?).ok()?;
        Some(Self(time.date()))
    }
}

const DATE: &[BorrowedFormatItem<'_>] = format_description!("[year][month][day]");

impl FromStr for Date {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
        let date = time::Date::parse(text, &DATE).ok();
        date.filter(|date| is_digits && date.year() >= 1970)
            .map(Self)
            .ok_or_else(|| Invalid::new("not a valid date in YYYYMMDD format", text))
    }
}

/// The contents of ROCm's `version.json`. An empty text is the same as a missing one.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct VersionFile {
    #[serde(default)]
    rocm_version: String,
    #[serde(default)]
    release_metadata: ReleaseMetadata,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ReleaseMetadata {
    #[serde(default)]
    base_date: String,
}

impl VersionFile {
    /// Reads the text of a `version.json`.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    /// The base version of releases.
    pub fn rocm_version(&self) -> Result<BaseVersion> {
        non_empty(&self.rocm_version)
            .ok_or_else(|| anyhow!("`rocm-version` must be set in `version.json`"))
            .hint("set it, or pass `--base-version`")?
            .parse()
            .context("failed to read `rocm-version` in `version.json`")
    }

    /// The date on which a `*-bkc` release is based.
    pub fn base_date(&self) -> Result<Option<Date>> {
        non_empty(&self.release_metadata.base_date)
            .map(str::parse)
            .transpose()
            .context("failed to read `release-metadata.base-date` in `version.json`")
    }
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error;

    const SHA: &str = "efed3c3b10a5cce8578f58f8eb288582c26d18c4";

    fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
        error::render(&result.unwrap_err())
    }

    #[test]
    fn a_base_version_is_numbers_and_dots() {
        for text in ["10.1.0", "7", "0.0"] {
            assert_eq!(text.parse::<BaseVersion>().unwrap().to_string(), text);
        }
        assert_eq!("07.1.00".parse::<BaseVersion>().unwrap().to_string(), "7.1.0");
        for text in ["", "10.", ".1", "10.1.0rc1", "+1", "1.-2", "v1"] {
            assert!(text.parse::<BaseVersion>().is_err(), "{text}");
        }
        for text in ["7.13.0", " 7.13.0-38~22.04\n"] {
            let base = BaseVersion::of_install_tree(text).unwrap();
            assert_eq!(base.to_string(), "7.13.0", "{text}");
        }
        insta::assert_snapshot!("10.1.x".parse::<BaseVersion>().unwrap_err(), @r#"not a base version such as `10.1.0`: "10.1.x""#);
    }

    #[test]
    fn a_commit_is_hexadecimal_and_in_lower_case() {
        let sha: GitSha = SHA.to_uppercase().parse().unwrap();
        assert_eq!((sha.to_string().as_str(), sha.short()), (SHA, "efed3c3b"));
        let short: GitSha = "efed3c3".parse().unwrap();
        assert_eq!(short.short(), "efed3c3");
        for text in ["", "efed3c", "main-branch", &"a".repeat(65)] {
            assert!(text.parse::<GitSha>().is_err(), "{text}");
        }
        insta::assert_snapshot!("refs/heads/main".parse::<GitSha>().unwrap_err(), @r#"not a commit of 7 to 64 hexadecimal digits: "refs/heads/main""#);
    }

    #[test]
    fn a_date_is_a_day_that_existed() {
        for text in ["20260814", "20240229", "20000229", "19700101", "99991231"] {
            assert_eq!(text.parse::<Date>().unwrap().to_string(), text);
        }
        let refused = [
            "",
            "2026081",
            "202608140",
            "20260230",
            "20230229",
            "19000229",
            "21000229",
            "20261301",
            "20260001",
            "20260100",
            "20260431",
            "19691231",
            "2026-8-1",
            "+2260101",
            "２０２６",
        ];
        for text in refused {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
        insta::assert_snapshot!("20260230".parse::<Date>().unwrap_err(), @r#"not a valid date in YYYYMMDD format: "20260230""#);
    }

    #[test]
    fn a_time_is_in_a_day() {
        let day = |seconds| Date::of_seconds(seconds).map(|date| date.to_string());
        assert_eq!(day(0).unwrap(), "19700101");
        assert_eq!(day(1_786_751_999).unwrap(), "20260814");
        assert_eq!(day(1_786_752_000).unwrap(), "20260815");
        assert_eq!(day(253_402_300_799).unwrap(), "99991231");
        assert_eq!(day(253_402_300_800), None);
        assert_eq!(day(u64::MAX), None);
    }

    #[test]
    fn a_version_file_gives_the_base_and_perhaps_a_date() {
        let file = VersionFile::parse(
            r#"{"rocm-version": "10.1.0", "release-metadata": {"base-date": "20260811"}}"#,
        )
        .unwrap();
        assert_eq!(file.rocm_version().unwrap().to_string(), "10.1.0");
        assert_eq!(file.base_date().unwrap().unwrap().to_string(), "20260811");
        for text in [
            r#"{"rocm-version": "10.1.0"}"#,
            r#"{"rocm-version": "10.1.0", "release-metadata": {}}"#,
            r#"{"rocm-version": "10.1.0", "release-metadata": {"base-date": ""}, "more": 1}"#,
        ] {
            let file = VersionFile::parse(text).unwrap();
            assert_eq!(file.base_date().unwrap(), None);
        }
    }

    #[test]
    fn a_version_file_that_means_nothing_is_refused_in_words() {
        let of = |text: &str| {
            refusal(VersionFile::parse(text).and_then(|file| {
                file.base_date()?;
                file.rocm_version()
            }))
        };
        let messages = [
            of("{"),
            of("[]"),
            of(r#"{"rocm-version": 10}"#),
            of(r#"{"rocm-version": "ten"}"#),
            of(r#"{"release-metadata": null}"#),
            of(r#"{"release-metadata": {"base-date": 20260811}}"#),
            of(r#"{"release-metadata": {"base-date": "20260230"}}"#),
            of("{}"),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r#"
        error: EOF while parsing an object at line 1 column 1

        error: `rocm-version` must be set in `version.json`

        hint: set it, or pass `--base-version`

        error: invalid type: integer `10`, expected a string at line 1 column 19

        error: failed to read `rocm-version` in `version.json`
          caused by: not a base version such as `10.1.0`: "ten"

        error: invalid type: null, expected struct ReleaseMetadata at line 1 column 25

        error: invalid type: integer `20260811`, expected a string at line 1 column 43

        error: failed to read `release-metadata.base-date` in `version.json`
          caused by: not a valid date in YYYYMMDD format: "20260230"

        error: `rocm-version` must be set in `version.json`

        hint: set it, or pass `--base-version`
        "#);
    }
}
