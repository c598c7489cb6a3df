//! The parts of a version (base version, date, commit), and ROCm's `version.json`, which contains
//! the base version and a date.

use std::{fmt, str::FromStr};

use serde_json::{Map, Value};

use crate::error::{Context, Hint, Result, anyhow, bail};

/// A version of numbers and dots, without leading zeros: `10.1.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseVersion(String);

/// Why a text is not a `BaseVersion`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a base version such as `10.1.0`: {0:?}")]
pub struct InvalidBaseVersion(String);

impl FromStr for BaseVersion {
    type Err = InvalidBaseVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_number = |part: &str| part.parse::<u32>().is_ok_and(|n| n.to_string() == part);
        if text.split('.').all(is_number) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidBaseVersion(text.to_owned()))
        }
    }
}

impl fmt::Display for BaseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A commit hash or its beginning: 8 to 64 hexadecimal digits, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSha(String);

/// Why a text is not a `GitSha`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a commit of 8 to 64 hexadecimal digits: {0:?}")]
pub struct InvalidGitSha(String);

impl GitSha {
    /// The first eight digits.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

impl FromStr for GitSha {
    type Err = InvalidGitSha;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = text.chars().all(|c| c.is_ascii_hexdigit());
        if is_hex && (8..=64).contains(&text.len()) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(InvalidGitSha(text.to_owned()))
        }
    }
}

impl fmt::Display for GitSha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A date since 1970, written `YYYYMMDD`: `20261122`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

/// Why a text is not a `Date`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid date in YYYYMMDD format: {0:?}")]
pub struct InvalidDate(String);

impl Date {
    /// `None` if there is no such date.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let is_day = (1970..=9999).contains(&year) && (1..=days_in(year, month)).contains(&day);
        is_day.then_some(Self { year, month, day })
    }
}

/// The number of days in a month; 0 if there is no such month.
fn days_in(year: u16, month: u8) -> u8 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

impl FromStr for Date {
    type Err = InvalidDate;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let date = || {
            let is_digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
            let (year, rest) = is_digits.then(|| text.split_at(4))?;
            let (month, day) = rest.split_at(2);
            Self::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)
        };
        date().ok_or_else(|| InvalidDate(text.to_owned()))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}{:02}{:02}", self.year, self.month, self.day)
    }
}

/// The contents of ROCm's `version.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionFile {
    rocm_version: Option<BaseVersion>,
    /// The date on which a `*-bkc` release is based.
    pub base_date: Option<Date>,
}

impl VersionFile {
    /// Reads the text of a `version.json`.
    pub fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).context("failed to read `version.json`")?;
        let file = object(&value, "version.json")?;
        Ok(Self {
            rocm_version: string(file, "rocm-version")?
                .map(str::parse)
                .transpose()
                .context("failed to read `rocm-version` in `version.json`")?,
            base_date: match file.get("release-metadata") {
                Some(metadata) => read_base_date(object(metadata, "release-metadata")?)?,
                None => None,
            },
        })
    }

    /// The base version of releases.
    pub fn rocm_version(&self) -> Result<&BaseVersion> {
        self.rocm_version
            .as_ref()
            .ok_or_else(|| anyhow!("`rocm-version` must be set in `version.json`"))
            .hint("set it, or pass `--override-base-version`")
    }
}

fn read_base_date(metadata: &Map<String, Value>) -> Result<Option<Date>> {
    match string(metadata, "base-date")? {
        None => Ok(None),
        Some(text) => Some(text.parse())
            .transpose()
            .context("failed to read `release-metadata.base-date` in `version.json`"),
    }
}

fn object<'a>(value: &'a Value, name: &str) -> Result<&'a Map<String, Value>> {
    value
        .as_object()
        .ok_or_else(|| anyhow!("not a JSON object: `{name}`"))
}

/// The value of a key; `None` if it is missing or empty.
fn string<'a>(object: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok((!text.is_empty()).then_some(text)),
        Some(other) => bail!("not a text in `version.json`: `{key}`, which is {other}"),
    }
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
        for text in ["", "10.", ".1", "10.01", "10.1.0rc1", "+1", "1.-2", "v1"] {
            assert!(text.parse::<BaseVersion>().is_err(), "{text}");
        }
        insta::assert_snapshot!("10.1.x".parse::<BaseVersion>().unwrap_err(), @r#"not a base version such as `10.1.0`: "10.1.x""#);
    }

    #[test]
    fn a_commit_is_hexadecimal_and_in_lower_case() {
        let sha: GitSha = SHA.to_uppercase().parse().unwrap();
        assert_eq!((sha.to_string().as_str(), sha.short()), (SHA, "efed3c3b"));
        for text in ["", "efed3c3", "main-branch", &"a".repeat(65)] {
            assert!(text.parse::<GitSha>().is_err(), "{text}");
        }
        insta::assert_snapshot!("refs/heads/main".parse::<GitSha>().unwrap_err(), @r#"not a commit of 8 to 64 hexadecimal digits: "refs/heads/main""#);
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
    fn a_version_file_gives_the_base_and_perhaps_a_date() {
        let file = VersionFile::parse(
            r#"{"rocm-version": "10.1.0", "release-metadata": {"base-date": "20260811"}}"#,
        )
        .unwrap();
        assert_eq!(file.rocm_version().unwrap().to_string(), "10.1.0");
        assert_eq!(file.base_date.unwrap().to_string(), "20260811");
        for text in [
            r#"{"rocm-version": "10.1.0"}"#,
            r#"{"rocm-version": "10.1.0", "release-metadata": {}}"#,
            r#"{"rocm-version": "10.1.0", "release-metadata": {"base-date": ""}, "more": 1}"#,
        ] {
            assert_eq!(VersionFile::parse(text).unwrap().base_date, None);
        }
    }

    #[test]
    fn a_version_file_that_means_nothing_is_refused_in_words() {
        let of = |text: &str| refusal(VersionFile::parse(text));
        let messages = [
            of("{"),
            of("[]"),
            of(r#"{"rocm-version": 10}"#),
            of(r#"{"rocm-version": "ten"}"#),
            of(r#"{"release-metadata": null}"#),
            of(r#"{"release-metadata": {"base-date": 20260811}}"#),
            of(r#"{"release-metadata": {"base-date": "20260230"}}"#),
            refusal(VersionFile::parse("{}").unwrap().rocm_version().cloned()),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r#"
        error: failed to read `version.json`
          caused by: EOF while parsing an object at line 1 column 1

        error: not a JSON object: `version.json`

        error: not a text in `version.json`: `rocm-version`, which is 10

        error: failed to read `rocm-version` in `version.json`
          caused by: not a base version such as `10.1.0`: "ten"

        error: not a JSON object: `release-metadata`

        error: not a text in `version.json`: `base-date`, which is 20260811

        error: failed to read `release-metadata.base-date` in `version.json`
          caused by: not a valid date in YYYYMMDD format: "20260230"

        error: `rocm-version` must be set in `version.json`

        hint: set it, or pass `--override-base-version`
        "#);
    }
}
