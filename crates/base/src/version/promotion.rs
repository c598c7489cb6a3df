//! [`PromotionGoal`]: what a tested version becomes. Versions are changed by their parts, never as
//! text: `rc1` is no part of `rc12`, and `a1` none of a commit.

use std::str::FromStr;

use derive_more::Display;
use itertools::Itertools as _;
use pep440_rs::PrereleaseKind;

use super::Version;
use crate::error::{Error, Invalid, No, Result, anyhow, hinted};

impl Version {
    /// The day of a nightly: 20260811 of `7.14.0a20260811`.
    pub(crate) fn nightly_date(&self) -> Option<u64> {
        let pre = self.0.pre().filter(|it| it.kind == PrereleaseKind::Alpha);
        pre.map(|it| it.number)
    }

    /// Whether it is an `asan` build, which has been made to find errors of memory: `10.2.0+asan.36142888996`.
    fn is_asan(&self) -> bool {
        self.0.local().first().is_some_and(|it| it.to_string() == "asan")
    }

    /// The version of ROCm that a framework is for: `7.14.0rc1` of `2.12.0+rocm7.14.0rc1`, and
    /// `10.2+asan.36142888996` of `2.14.0+rocm10.2.asan.36142888996`. If that ROCm is a build of one commit, its
    /// version has only the beginning of the commit.
    pub fn of_rocm(&self) -> Option<Self> {
        let version = self.to_string();
        let (_, rocm) = version.split_once('+')?.1.split_once("rocm")?;
        // A version cannot have a second `+`, so builds write `.` for the `+` of ROCm's version.
        let with_local = [(".dev0.", ".dev0+"), (".bkc.", "+bkc."), (".asan.", "+asan.")]
            .into_iter()
            .find(|(mark, _)| rocm.contains(mark))
            .map(|(mark, written)| rocm.replacen(mark, written, 1))
            .or_else(|| Some(format!("{}+asan", rocm.strip_suffix(".asan")?)));
        with_local.as_deref().unwrap_or(rocm).parse().ok()
    }

    /// Whether this version of a framework was built for a version of ROCm. A framework of a build of one
    /// commit names the beginning of the commit, and a framework of an `asan` build may name only that word.
    pub fn is_for_rocm(&self, rocm: &Self) -> bool {
        let Some(named) = self.of_rocm() else {
            return false;
        };
        let [named_public, public] = [&named, rocm].map(|it| it.0.clone().without_local());
        let [named_local, local] = [&named, rocm].map(|it| it.0.local().iter().join("."));
        let is_rest_free = |rest: &str| match rest {
            "" => true,
            _ if named_local.is_empty() => false,
            // One number of a build may begin with another one, so the word must end here.
            _ => named.0.is_dev() || rest.starts_with('.'),
        };
        named_public == public && local.strip_prefix(&named_local).is_some_and(is_rest_free)
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
                .ok_or_else(|| {
                    // The numbers are the numbers of the set, so a goal names none.
                    let fault = if text.parse::<Version>().is_ok() {
                        "a version (`release` makes 7.14.0 of 7.14.0rc1); pass `release`, `rcN`, `postN` or `same`"
                    } else {
                        "not `release`, `rcN`, `postN` or `same`"
                    };
                    Invalid::new(fault, text)
                }),
        }
    }
}

impl PromotionGoal {
    /// The version that another one becomes. It is an error if that makes no sense.
    pub fn version_of(self, from: &Version) -> Result<Version> {
        let numbers = from.0.release().iter().join(".");
        let epoch = match from.0.epoch() {
            0 => String::new(),
            epoch => format!("{epoch}!"),
        };
        let with = |suffix: String| Ok(format!("{epoch}{numbers}{suffix}").parse()?);
        let pre = from.0.pre().map(|it| it.kind);
        match self {
            Self::Same => return Ok(from.clone()),
            _ if from.0.is_dev() => return Err(bound(from, "a commit")),
            _ if from.is_asan() => return Err(bound(from, "an `asan` build")),
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
    hinted(error, "promote it with `--to rc1`, test that, and release it")
}

fn bound(from: &Version, what: &str) -> Error {
    let error = anyhow!(No(format!("{from} cannot be promoted: the version is bound to {what}")));
    let hint = "build its artifacts under the other version with `rocwheel build --version`, or copy it with `--to same`";
    hinted(error, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_say_the_rocm_that_they_are_for() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        for (text, rocm) in [
            ("2.12.0+rocm10.1.0a20260811", "10.1.0a20260811"),
            ("2.13.0+rocm10.1.0a20260811.bkc.20260813", "10.1.0a20260811+bkc.20260813"),
            ("2.9.0+git1a2b3c4d.rocm7.14.0", "7.14.0"),
            ("2.9.0+devrocm7.10.0.dev0-efed3c", "7.10.0.dev0+efed3c"),
            ("2.14.0+git5e015018.rocm10.2.asan.36142888996", "10.2+asan.36142888996"),
            ("2.14.0+rocm10.1.0rc3.asan", "10.1.0rc3+asan"),
        ] {
            assert_eq!(version(text).of_rocm(), Some(version(rocm)), "{text}");
        }
        assert_eq!(version("2.9.0").of_rocm(), None);
        assert_eq!(version("2.9.0+cpu").of_rocm(), None);
    }

    fn promoted(from: &str, goal: &str) -> Result<Version> {
        let goal: PromotionGoal = goal.parse()?;
        goal.version_of(&from.parse()?)
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
            assert_eq!(promoted(from, goal).unwrap().to_string(), to, "{from} {goal}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let rows = [
            ("7.13.0.dev0+8027b7a1047feb27", "release"),
            ("10.1.0a20260811+bkc.20260814", "rc1"),
            ("10.2.0+asan.36142888996", "post1"),
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
        10.2.0+asan.36142888996 cannot be promoted: the version is bound to an `asan` build
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

    #[test]
    fn versions_of_rocm_are_compared_as_numbers() {
        let mut versions = [
            "2.12.0+rocm7.15.0a20260728",
            "2.12.0+rocm10.1.0",
            "2.12.0+rocm10.1.0rc1",
            "2.12.0",
            "0.29.0a0+rocm10.1.0",
            "2.11.0+rocm10.2.0",
            "1.0+rocm7",
            "1.0+rocm10",
        ]
        .map(|it| it.parse::<Version>().unwrap());
        versions.sort();
        insta::assert_snapshot!(versions.map(|it| it.to_string()).join("\n"), @r"
        0.29.0a0+rocm10.1.0
        1.0+rocm7
        1.0+rocm10
        2.11.0+rocm10.2.0
        2.12.0
        2.12.0+rocm7.15.0a20260728
        2.12.0+rocm10.1.0rc1
        2.12.0+rocm10.1.0
        ");
    }
}
