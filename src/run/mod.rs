//! CI runs: their ids, repositories and platforms, whose code they build, and the places where they
//! keep their outputs.

use std::{num::NonZeroU32, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

mod foreign_code;
mod github_names;
mod group;
mod place;
mod resolve;
mod tarball;

pub use foreign_code::{ForeignCode, Provenance};
pub use github_names::{ApiUrl, Workflow};
pub use group::ArtifactGroup;
pub use place::{RunPlace, run_of_prefix};
pub use resolve::{Assumption, Buckets, Environment, Run, RunContext};
pub use tarball::TarballName;

use rocwheel_base::error::{Context as _, Error, Hint as _, Result, anyhow, as_text, bail, ensure};

as_text!(RunId, Repository);

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

/// Which attempt of a run, counted from 1: a run that is started again keeps its id.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    derive_more::Display,
    derive_more::FromStr,
    Deserialize,
    Serialize,
)]
#[serde(transparent)]
pub struct RunAttempt(NonZeroU32);

impl RunAttempt {
    pub fn is_first(self) -> bool {
        self.0 == NonZeroU32::MIN
    }
}

/// A run, with its repository and server if it was named by a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReference {
    pub id: RunId,
    pub repository: Option<Repository>,
    /// The GitHub server, `https://github.com` or an installation of GitHub Enterprise.
    pub server: Option<String>,
}

impl From<RunId> for RunReference {
    fn from(id: RunId) -> Self {
        Self { id, repository: None, server: None }
    }
}

impl FromStr for RunReference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // Pasted text often has spaces or a line end around it.
        let pasted = text.trim();
        if let Ok(id) = pasted.parse::<RunId>() {
            return Ok(id.into());
        }
        parse_url(pasted).with_context(|| {
            format!(
                "not a run id, nor an address such as `https://github.com/ROCm/TheRock/actions/runs/21440027240`: {text:?}"
            )
        })
    }
}

/// Parses the URL of any page of a run: the run itself, an attempt, a job, a step or a summary.
fn parse_url(text: &str) -> Option<RunReference> {
    // Some browsers hide `https://` in the address bar, so it may be missing in a copied address.
    let with_scheme = || Url::parse(&format!("https://{text}"));
    let url = Url::parse(text).or_else(|_| with_scheme()).ok()?;
    let names_a_host = url.host_str()?.starts_with(|c: char| c.is_ascii_alphanumeric());
    let has_user = !url.username().is_empty() || url.password().is_some();
    let segments: Vec<&str> = url.path_segments()?.collect();
    let [owner, name, "actions", "runs", number, ..] = segments[..] else {
        return None;
    };
    let id: RunId = number.parse().ok()?;
    let is_run = url.scheme() == "https" && names_a_host && !has_user && !id.is_local();
    Some(RunReference {
        id: Some(id).filter(|_| is_run)?,
        repository: Some(format!("{owner}/{name}").parse().ok()?),
        server: Some(url.origin().ascii_serialization()),
    })
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

    /// Whether a wheel with this platform tag may be installed on it.
    pub fn takes(self, tag: &str) -> bool {
        let is_for = |start: &str| tag.starts_with(start);
        match self {
            Self::Linux => ["any", "linux", "manylinux", "musllinux"].into_iter().any(is_for),
            Self::Windows => ["any", "win"].into_iter().any(is_for),
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
            Some((owner, name)) if is_owner(owner) && is_name(name) => {
                Ok(Self { owner: owner.into(), name: name.into() })
            }
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

/// Whose code a run builds. Code of a fork is not trusted: it may not write to the buckets of the
/// repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunOrigin {
    #[default]
    Own,
    Fork,
}

/// The event that started this run, from the payload that GitHub provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub origin: RunOrigin,
    /// Whether the repository of the run is itself a fork. No role trusts a fork.
    pub repository: RunOrigin,
}

/// Facts about a run from GitHub's API. By default, it built the code of the repository itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    pub origin: RunOrigin,
    /// As GitHub writes times, `2025-11-11T16:18:48Z`, so that sorting the texts sorts by time.
    pub updated_at: Option<String>,
}

impl RunFacts {
    /// Those of a run of `repository` that built the code of `head`.
    pub fn new(repository: &Repository, head: Option<&str>, updated_at: Option<String>) -> Self {
        Self { origin: RunOrigin::of(head, Some(&repository.to_string())), updated_at }
    }
}

impl RunOrigin {
    /// `Own` if the code is from `repository`. GitHub reports no head repository if it was deleted;
    /// that was a fork.
    fn of(head: Option<&str>, repository: Option<&str>) -> Self {
        match (head, repository) {
            (Some(head), Some(base)) if head.eq_ignore_ascii_case(base) => Self::Own,
            _ => Self::Fork,
        }
    }
}

impl Event {
    /// The field of a payload that says whose code an event of this name builds; `None` for an event that is
    /// always about the repository's own code.
    pub fn subject(name: &str) -> Option<&'static str> {
        match name {
            "workflow_run" => Some("workflow_run"),
            _ => name.starts_with("pull_request").then_some("pull_request"),
        }
    }

    /// The event of this name. If it may be about the code of a fork, its payload has to say whose code that
    /// is: without it the code would pass for the repository's own.
    pub fn of(name: &str, payload: Option<&str>) -> Result<Option<Self>> {
        let Some(subject) = Self::subject(name) else {
            return payload.map(Self::parse).transpose();
        };
        let is_told = match payload {
            Some(payload) => fields(payload)?.contains_key(subject),
            None => false,
        };
        let hint = "set `GITHUB_EVENT_PATH` to the file with the event's payload, or unset `GITHUB_EVENT_NAME`";
        let telling = payload.filter(|_| is_told).with_context(|| {
            format!(
                "nothing says whose code this run builds: the event `{name}` has no `{subject}`"
            )
        });
        Self::parse(telling.hint(hint)?).map(Some)
    }

    /// Parses the contents of the file at `GITHUB_EVENT_PATH`.
    ///
    /// The names of head and base repository are compared. The field `fork` of the head would not
    /// do: in a repository that is a fork, it is also set for pull requests from the repository
    /// itself. A `workflow_run` event builds the code of the run that triggered it, so it has the
    /// origin of that run.
    pub fn parse(payload: &str) -> Result<Self> {
        let payload = Value::Object(fields(payload)?);
        let repository_name = text_at(&payload, "/repository/full_name");
        let origin = if payload.get("pull_request").is_some() {
            let base = text_at(&payload, "/pull_request/base/repo/full_name").or(repository_name);
            RunOrigin::of(text_at(&payload, "/pull_request/head/repo/full_name"), base)
        } else if payload.get("workflow_run").is_some() {
            let head = text_at(&payload, "/workflow_run/head_repository/full_name");
            RunOrigin::of(head, repository_name)
        } else {
            RunOrigin::Own
        };
        let repository = match payload.pointer("/repository/fork") {
            Some(Value::Bool(true)) => RunOrigin::Fork,
            _ => RunOrigin::Own,
        };
        Ok(Self { origin, repository })
    }

    /// Whether all that this run builds is the repository's own.
    pub fn is_trusted(self) -> bool {
        self.origin == RunOrigin::Own && self.repository == RunOrigin::Own
    }
}

/// The fields of a payload.
fn fields(payload: &str) -> Result<Map<String, Value>> {
    serde_json::from_str(payload)
        .context("failed to read the event's payload")
        .hint("`GITHUB_EVENT_PATH` must name a JSON file, or be unset")
}

fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

#[cfg(test)]
mod tests;
