//! [`PromotionGoal`]: what a tested version becomes. Versions are changed by their parts, never as
//! text: `rc1` is no part of `rc12`, and `a1` none of a commit.

use std::str::FromStr;

use derive_more::Display;
use pep440_rs::{LocalSegment, PrereleaseKind};
use time::{Date, Month};

use super::{ReleaseType, Version};
use crate::error::{Error, Invalid, No, Result, anyhow, hinted};

/// Versions of one kind, which are kept together and for the same time.
#[derive(
    Clone,
    Copy,
    Debug,
    Display,
    PartialEq,
    Eq,
    clap::ValueEnum,
    serde::Deserialize,
    serde::Serialize,
)]
#[serde(rename_all = "lowercase")]
#[display(rename_all = "lowercase")]
pub enum ReleaseStream {
    Dev,
    Nightly,
    Bkc,
    Rc,
    Stable,
}

impl Version {
    /// The stream that versions of this form belong to.
    pub fn stream(&self) -> ReleaseStream {
        match self.0.pre().map(|it| it.kind) {
            _ if self.0.is_dev() => ReleaseStream::Dev,
            _ if !self.0.local().is_empty() => ReleaseStream::Bkc,
            Some(PrereleaseKind::Rc) => ReleaseStream::Rc,
            Some(_) => ReleaseStream::Nightly,
            None => ReleaseStream::Stable,
        }
    }

    /// The day of a nightly: 20260811 of `7.14.0a20260811`.
    pub fn nightly_date(&self) -> Option<u64> {
        let pre = self.0.pre().filter(|it| it.kind == PrereleaseKind::Alpha);
        pre.map(|it| it.number)
    }

    /// The day on which a nightly was made, or the components under test were chosen: 2026-08-13 of
    /// `7.14.0a20260811+bkc.20260813`.
    pub fn day(&self) -> Option<Date> {
        let local = self.0.local().last().and_then(|it| match it {
            LocalSegment::Number(number) => Some(*number),
            LocalSegment::String(_) => None,
        });
        let number = local.or_else(|| self.0.pre().map(|it| it.number))?;
        let part = |by: u64, of: u64| u8::try_from(number / by % of).ok();
        let month = Month::try_from(part(100, 100)?).ok()?;
        let year = i32::try_from(number / 10_000)
            .ok()
            .filter(|it| *it >= 2000)?;
        Date::from_calendar_date(year, month, part(1, 100)?).ok()
    }

    /// The version of ROCm that a framework is for: `7.14.0rc1` of `2.12.0+rocm7.14.0rc1`. That of a
    /// build of one commit has the beginning of the commit only.
    pub fn of_rocm(&self) -> Option<Self> {
        let text = self.to_string();
        let (_, rocm) = text.split_once('+')?.1.split_once("rocm")?;
        let marks = [".dev0.", ".bkc."];
        let with_local = marks.iter().find_map(|mark| {
            let (public, local) = rocm.split_once(mark)?;
            Some(match *mark {
                ".bkc." => format!("{public}+bkc.{local}"),
                _ => format!("{public}.dev0+{local}"),
            })
        });
        with_local.as_deref().unwrap_or(rocm).parse().ok()
    }
}

impl ReleaseType {
    /// The stream that builds of this type are published to, if they are.
    pub fn stream(self) -> Option<ReleaseStream> {
        match self {
            Self::Ci | Self::Release => None,
            Self::Dev => Some(ReleaseStream::Dev),
            Self::Nightly => Some(ReleaseStream::Nightly),
            Self::DevBkc | Self::NightlyBkc => Some(ReleaseStream::Bkc),
            Self::Prerelease => Some(ReleaseStream::Rc),
        }
    }
}

/// What a set becomes.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
pub enum PromotionGoal {
    /// A final release: `7.14.0` of `7.14.0rc1`.
    #[display("release")]
    Release,
    /// A release candidate: `7.14.0rc2` of `7.14.0a20260811` or of `7.14.0rc1`.
    #[display("rc{_0}")]
    Candidate(u64),
    /// A later build of a final release: `7.14.0.post1`.
    #[display("post{_0}")]
    Post(u64),
    /// What it is, at another place.
    #[display("same")]
    Same,
}

impl FromStr for PromotionGoal {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let number = |prefix: &str| {
            let number = text.strip_prefix(prefix)?;
            let is_plain = number.bytes().all(|it| it.is_ascii_digit()) && !number.starts_with('0');
            number.parse().ok().filter(|_| is_plain)
        };
        match text {
            "release" => Ok(Self::Release),
            "same" => Ok(Self::Same),
            _ => number("rc")
                .map(Self::Candidate)
                .or_else(|| number("post").map(Self::Post))
                .ok_or_else(|| Invalid::new("not `release`, `rcN`, `postN` or `same`", text)),
        }
    }
}

impl PromotionGoal {
    /// The version that another one becomes. It is an error if that makes no sense. Only a set that is
    /// also built under the new version (`is_rebuilt`) leaves a commit or a base of components behind.
    pub fn version_of(self, from: &Version, is_rebuilt: bool) -> Result<Version> {
        let numbers = from.0.release().iter().map(u64::to_string);
        let numbers = numbers.collect::<Vec<_>>().join(".");
        let epoch = match from.0.epoch() {
            0 => String::new(),
            epoch => format!("{epoch}!"),
        };
        let with = |suffix: String| Ok(format!("{epoch}{numbers}{suffix}").parse()?);
        let pre = from.0.pre().map(|it| it.kind);
        match self {
            Self::Same => return Ok(from.clone()),
            Self::Candidate(number) if is_rebuilt && is_bound(from) => {
                return with(format!("rc{number}"));
            }
            Self::Release if is_rebuilt && is_bound(from) => {
                return Err(candidate_first(self, from));
            }
            _ if from.0.is_dev() => return Err(bound(from, "a commit")),
            _ if !from.0.local().is_empty() => {
                return Err(bound(from, "a base of components under test"));
            }
            Self::Post(number) if from.is_final() && !from.0.is_post() => {
                return with(format!(".post{number}"));
            }
            Self::Post(_) => {}
            _ if pre.is_none() => return Err(refused(self, from, "it is final already")),
            Self::Candidate(number) => return with(format!("rc{number}")),
            Self::Release if pre == Some(PrereleaseKind::Rc) => return with(String::new()),
            Self::Release => return Err(candidate_first(self, from)),
        }
        Err(refused(self, from, "only a final release gets a `.post`"))
    }
}

fn refused(goal: PromotionGoal, from: &Version, why: &str) -> Error {
    anyhow!(No(format!("{from} cannot become `{goal}`: {why}")))
}

fn candidate_first(goal: PromotionGoal, from: &Version) -> Error {
    let error = refused(goal, from, "it becomes a release candidate first");
    hinted(
        error,
        "promote it with `--to rc1`, test that, and release it",
    )
}

/// Whether a version names a commit, or a base of components under test.
fn is_bound(version: &Version) -> bool {
    version.0.is_dev() || !version.0.local().is_empty()
}

fn bound(from: &Version, what: &str) -> Error {
    let error = anyhow!(No(format!(
        "{from} cannot be promoted: the version is bound to {what}"
    )));
    let hint = "`--to rc1 --by build --artifact-dir DIR` also builds its artifacts under the other version; `--to same` copies";
    hinted(error, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_say_their_day_and_the_rocm_that_they_are_for() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        let day = |text| version(text).day().map(|it| it.to_string());
        assert_eq!(day("10.1.0a20260811").as_deref(), Some("2026-08-11"));
        assert_eq!(
            day("10.1.0a20260811+bkc.20260813").as_deref(),
            Some("2026-08-13")
        );
        for text in [
            "7.14.0",
            "7.14.0rc1",
            "7.14.0a20261340",
            "7.14.0.dev0+a1047feb",
            "7.14.0a1",
        ] {
            assert_eq!(day(text), None, "{text}");
        }
        for (text, rocm) in [
            ("2.12.0+rocm10.1.0a20260811", "10.1.0a20260811"),
            (
                "2.13.0+rocm10.1.0a20260811.bkc.20260813",
                "10.1.0a20260811+bkc.20260813",
            ),
            ("2.9.0+git1a2b3c4d.rocm7.14.0", "7.14.0"),
            ("2.9.0+devrocm7.10.0.dev0-efed3c", "7.10.0.dev0+efed3c"),
        ] {
            assert_eq!(version(text).of_rocm(), Some(version(rocm)), "{text}");
        }
        assert_eq!(version("2.9.0").of_rocm(), None);
        assert_eq!(version("2.9.0+cpu").of_rocm(), None);
    }

    fn promoted(from: &str, goal: &str) -> Result<Version> {
        let goal: PromotionGoal = goal.parse()?;
        goal.version_of(&from.parse()?, false)
    }

    /// By a build, commits and bases of components are left behind too.
    #[test]
    fn a_build_gives_any_version_to_a_candidate() {
        let rebuilt = |from: &str, goal: &str| {
            let goal: PromotionGoal = goal.parse().unwrap();
            let version = goal.version_of(&from.parse().unwrap(), true);
            version.map_or_else(|it| it.to_string(), |it| it.to_string())
        };
        let dev = "7.13.0.dev0+8027b7a1047feb27";
        let said = [
            rebuilt(dev, "rc2"),
            rebuilt("10.1.0a20260811+bkc.20260814", "rc1"),
            rebuilt("7.14.0rc1", "release"),
            rebuilt(dev, "release"),
            rebuilt(dev, "post1"),
            rebuilt("7.14.0", "rc1"),
        ];
        insta::assert_snapshot!(said.join("\n"), @"
        7.13.0rc2
        10.1.0rc1
        7.14.0
        7.13.0.dev0+8027b7a1047feb27 cannot become `release`: it becomes a release candidate first
        7.13.0.dev0+8027b7a1047feb27 cannot be promoted: the version is bound to a commit
        7.14.0 cannot become `rc1`: it is final already
        ");
    }

    #[test]
    fn versions_change_by_their_parts() {
        let rows = [
            ("7.14.0rc1", "release", "7.14.0"),
            ("7.14.0rc12", "rc2", "7.14.0rc2"),
            ("7.14.0a20260811", "rc1", "7.14.0rc1"),
            ("7.14.0", "post1", "7.14.0.post1"),
            ("1!7.14rc1", "release", "1!7.14"),
            ("7.13.0.dev0+a1047feb", "same", "7.13.0.dev0+a1047feb"),
        ];
        for (from, goal, to) in rows {
            assert_eq!(
                promoted(from, goal).unwrap().to_string(),
                to,
                "{from} {goal}"
            );
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let rows = [
            ("7.13.0.dev0+8027b7a1047feb27", "release"),
            ("10.1.0a20260811+bkc.20260814", "rc1"),
            ("7.14.0a20260811", "release"),
            ("7.14.0", "release"),
            ("7.14.0", "rc1"),
            ("7.14.0.post1", "post2"),
            ("7.14.0rc1", "post1"),
            ("7.14.0rc1", "rc"),
            ("7.14.0rc1", "rc01"),
            ("7.14.0rc1", "final"),
        ];
        let said = rows.map(|(from, goal)| promoted(from, goal).unwrap_err().to_string());
        insta::assert_snapshot!(said.join("\n"), @r#"
        7.13.0.dev0+8027b7a1047feb27 cannot be promoted: the version is bound to a commit
        10.1.0a20260811+bkc.20260814 cannot be promoted: the version is bound to a base of components under test
        7.14.0a20260811 cannot become `release`: it becomes a release candidate first
        7.14.0 cannot become `release`: it is final already
        7.14.0 cannot become `rc1`: it is final already
        7.14.0.post1 cannot become `post2`: only a final release gets a `.post`
        7.14.0rc1 cannot become `post1`: only a final release gets a `.post`
        not `release`, `rcN`, `postN` or `same`: "rc"
        not `release`, `rcN`, `postN` or `same`: "rc01"
        not `release`, `rcN`, `postN` or `same`: "final"
        "#);
    }
}
