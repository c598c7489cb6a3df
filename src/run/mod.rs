//! CI runs: their ids, repositories and platforms, and the places where they keep their outputs.

use std::str::FromStr;

mod buckets;
mod group;
mod origin;
mod reference;
mod resolve;

pub use buckets::{BucketFacts, Buckets};
pub use group::ArtifactGroup;
pub use origin::{Event, RunFacts, RunOrigin};
pub use reference::RunReference;
pub use resolve::{Environment, Run, RunContext};

use crate::error::{Error, Result, anyhow, bail, ensure};

/// The id of a run on GitHub: decimal digits of any length, or `local` for a build outside of CI.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct RunId(Box<str>);

impl RunId {
    pub fn local() -> Self {
        Self("local".into())
    }

    pub fn is_local(&self) -> bool {
        &*self.0 == "local"
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit())
            && !text.is_empty()
            && !text.starts_with('0');
        ensure!(
            is_number || text == "local",
            "not a run id such as `21440027240`, nor `local`: {text:?}"
        );
        Ok(Self(text.into()))
    }
}

/// The operating system that packages are for. It may differ from the one that builds them.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    clap::ValueEnum,
    serde::Deserialize,
    serde::Serialize,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = Error, parse_err_fn = unknown_platform)]
pub enum Platform {
    Linux,
    Windows,
}

fn unknown_platform(text: &str) -> Error {
    anyhow!("not a platform (linux, windows): {text:?}")
}

impl Platform {
    pub const ALL: [Self; 2] = [Self::Linux, Self::Windows];

    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The name in `sys.platform` of Python, and so in markers.
    pub fn sys_platform(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Windows => "win32",
        }
    }

    /// The platform tag of wheels for it.
    pub fn wheel_tag(self) -> &'static str {
        match self {
            Self::Linux => "linux_x86_64",
            Self::Windows => "win_amd64",
        }
    }
}

/// A repository on GitHub, `owner/name`. Comparison ignores case, as on GitHub.
#[derive(Clone, Debug, derive_more::Display)]
#[display("{owner}/{name}")]
pub struct Repository {
    owner: Box<str>,
    name: Box<str>,
}

impl Repository {
    pub fn owner(&self) -> &str {
        &self.owner
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl PartialEq for Repository {
    fn eq(&self, other: &Self) -> bool {
        self.owner.eq_ignore_ascii_case(&other.owner) && self.name.eq_ignore_ascii_case(&other.name)
    }
}

impl Eq for Repository {}

impl FromStr for Repository {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_owner = |owner: &str| is_segment(owner) && owner.len() <= 39 && !owner.contains('.');
        let is_name = |name: &str| {
            (1..=100).contains(&name.len())
                && name.chars().all(is_plain)
                && name != "."
                && name != ".."
        };
        match text.split_once('/') {
            Some((owner, name)) if is_owner(owner) && is_name(name) => Ok(Self {
                owner: owner.into(),
                name: name.into(),
            }),
            _ => bail!("not a repository such as `ROCm/TheRock`: {text:?}"),
        }
    }
}

/// Whether a name is valid as one segment of a key, and in a URL without encoding.
fn is_segment(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    fn refusals<T>(texts: &[&str]) -> String
    where
        T: FromStr<Err: fmt::Display> + fmt::Debug,
    {
        let messages: Vec<String> = texts
            .iter()
            .map(|text| text.parse::<T>().err().unwrap().to_string())
            .collect();
        messages.join("\n")
    }

    #[test]
    fn a_run_id_is_digits_of_any_length_or_local() {
        let long = "9".repeat(80);
        for text in ["1", "21440027240", &long, "local"] {
            assert_eq!(text.parse::<RunId>().unwrap().to_string(), text);
        }
        assert!(RunId::local().is_local());
        assert_eq!("local".parse::<RunId>().unwrap(), RunId::local());
        let refused = ["", "0", "01", "-1", "1 ", "1/..", "Local", "１"];
        insta::assert_snapshot!(refusals::<RunId>(&refused), @r#"
        not a run id such as `21440027240`, nor `local`: ""
        not a run id such as `21440027240`, nor `local`: "0"
        not a run id such as `21440027240`, nor `local`: "01"
        not a run id such as `21440027240`, nor `local`: "-1"
        not a run id such as `21440027240`, nor `local`: "1 "
        not a run id such as `21440027240`, nor `local`: "1/.."
        not a run id such as `21440027240`, nor `local`: "Local"
        not a run id such as `21440027240`, nor `local`: "１"
        "#);
    }

    #[test]
    fn a_platform_has_a_name_for_each_who_asks() {
        let names = Platform::ALL.map(|platform| {
            assert_eq!(platform.to_string().parse::<Platform>().unwrap(), platform);
            let (python, tag) = (platform.sys_platform(), platform.wheel_tag());
            format!("{platform} {python} {tag}")
        });
        assert_eq!(
            names,
            ["linux linux linux_x86_64", "windows win32 win_amd64"]
        );
        let refused = ["", "Linux", "darwin", "win32"];
        insta::assert_snapshot!(refusals::<Platform>(&refused), @r#"
        not a platform (linux, windows): ""
        not a platform (linux, windows): "Linux"
        not a platform (linux, windows): "darwin"
        not a platform (linux, windows): "win32"
        "#);
    }

    #[test]
    fn a_repository_is_an_owner_and_a_name() {
        for text in ["ROCm/TheRock", "a/b", "user_corp/x.y-z_1", "ROCm/.github"] {
            assert_eq!(text.parse::<Repository>().unwrap().to_string(), text);
        }
        let same: [Repository; 2] = ["ROCm/TheRock", "rocm/therock"].map(|t| t.parse().unwrap());
        assert_eq!(same[0], same[1]);
        assert_ne!(same[0], "ROCm/rockrel".parse().unwrap());
        let long = [
            format!("{}/x", "a".repeat(40)),
            format!("x/{}", "a".repeat(101)),
        ];
        let refused = [
            "", "TheRock", "a/b/c", "/b", "a/", "a/..", "../b", "a.b/c", "a b/c", "a/b+", "a/.",
            &long[0], &long[1],
        ];
        insta::assert_snapshot!(refusals::<Repository>(&refused), @r#"
        not a repository such as `ROCm/TheRock`: ""
        not a repository such as `ROCm/TheRock`: "TheRock"
        not a repository such as `ROCm/TheRock`: "a/b/c"
        not a repository such as `ROCm/TheRock`: "/b"
        not a repository such as `ROCm/TheRock`: "a/"
        not a repository such as `ROCm/TheRock`: "a/.."
        not a repository such as `ROCm/TheRock`: "../b"
        not a repository such as `ROCm/TheRock`: "a.b/c"
        not a repository such as `ROCm/TheRock`: "a b/c"
        not a repository such as `ROCm/TheRock`: "a/b+"
        not a repository such as `ROCm/TheRock`: "a/."
        not a repository such as `ROCm/TheRock`: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/x"
        not a repository such as `ROCm/TheRock`: "x/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "#);
    }
}
