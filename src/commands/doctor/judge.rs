//! What `doctor` makes of the facts: one line for each, and a way out where there is one.

use std::fmt;

use serde::Serialize;

use super::observe::{
    BucketAnswer, CredentialFacts, DiskFacts, MachineFacts, ProgramFacts, ReadAs, Refusal,
    TokenFacts, ToolFacts,
};
use crate::{
    console::{size, took},
    gpu::{Gpu, Obstacle},
    store::s3::{CredentialSource, SigningIdentity},
};

/// Below this, a disk is a problem: not even the packages of one target fit.
const FULL: u64 = 2 << 30;
/// Below this, a disk is worth a word: the artifacts and packages of a run with several targets.
const TIGHT: u64 = 40 << 30;

/// The answer of `doctor`.
#[derive(Debug, Serialize)]
pub(super) struct DoctorReport {
    schema: &'static str,
    checks: Vec<MachineCheck>,
}

/// One line of the report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct MachineCheck {
    name: &'static str,
    status: CheckStatus,
    found: String,
    way_out: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
enum CheckStatus {
    Ok,
    /// Some command has less than it could have.
    Note,
    /// Some command will fail.
    Problem,
}

impl DoctorReport {
    pub(super) fn of(machine: &MachineFacts) -> Self {
        let mut checks = vec![
            program(&machine.program),
            token(&machine.token),
            credentials(&machine.bucket.credentials),
            bucket(&machine.bucket),
        ];
        checks.extend(machine.disks.iter().map(disk));
        checks.extend(tools(&machine.tools));
        checks.extend(gpus(&machine.gpus));
        Self {
            schema: "rocwheel-doctor-v1",
            checks,
        }
    }

    pub(super) fn problems(&self) -> usize {
        let problems = self.checks.iter();
        problems
            .filter(|check| check.status == CheckStatus::Problem)
            .count()
    }
}

impl fmt::Display for DoctorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            let (status, name) = (check.status.to_string(), check.name);
            writeln!(f, "{status:<8} {name:<12} {}", check.found)?;
            if let Some(way_out) = &check.way_out {
                writeln!(f, "{:<21} {way_out}", "")?;
            }
        }
        Ok(())
    }
}

impl MachineCheck {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Ok,
            found: found.into(),
            way_out: None,
        }
    }

    fn note(name: &'static str, found: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self {
            status: CheckStatus::Note,
            way_out: Some(way_out.into()).filter(|text| !text.is_empty()),
            ..Self::ok(name, found)
        }
    }

    fn problem(name: &'static str, found: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self {
            status: CheckStatus::Problem,
            ..Self::note(name, found, way_out)
        }
    }
}

fn program(facts: &ProgramFacts) -> MachineCheck {
    const NAME: &str = "rocwheel";
    let path = facts.path.as_ref().map(|it| format!(", {}", it.display()));
    let path = path.unwrap_or_default();
    let found = format!("{} for {}{path}", facts.version, facts.system);
    match &facts.on_path {
        Some(first) if Some(first) == facts.path.as_ref() => MachineCheck::ok(NAME, found),
        Some(first) => MachineCheck::note(
            NAME,
            format!("{found}; `rocwheel` alone starts {}", first.display()),
            "remove the other one, or put the directory of this one first in `PATH`",
        ),
        None => MachineCheck::note(
            NAME,
            format!("{found}; `PATH` has no `rocwheel`"),
            "add its directory to `PATH`, to start it by its name",
        ),
    }
}

fn token(facts: &TokenFacts) -> MachineCheck {
    const NAME: &str = "token";
    let api = &facts.api;
    let token = match facts.origin {
        Some(origin) => format!("`{origin}`"),
        None => "none".to_owned(),
    };
    match (&facts.answer, facts.origin) {
        (Some(Err(Refusal { why, hint })), _) => {
            MachineCheck::problem(NAME, format!("{token} for {api}: {why}"), hint)
        }
        (Some(Ok(Some(0))), _) => MachineCheck::problem(
            NAME,
            format!("{token} for {api}, which answers no more requests in this hour"),
            "wait for an hour, or use another token",
        ),
        (answer, origin) => {
            let left = match answer {
                Some(Ok(Some(left))) => format!(", {left} requests left in this hour"),
                Some(_) => String::new(),
                None => ", not tried (`--offline`)".to_owned(),
            };
            if origin.is_some() {
                MachineCheck::ok(NAME, format!("{token} for {api}{left}"))
            } else {
                let found = format!("none for {api}{left}; public repositories need none");
                let way_out = "set `GITHUB_TOKEN` or `GH_TOKEN`, or run `gh auth login`, to ask more often, and for private repositories";
                MachineCheck::note(NAME, found, way_out)
            }
        }
    }
}

fn credentials(facts: &CredentialFacts) -> MachineCheck {
    const NAME: &str = "credentials";
    let (identity, left) = match facts {
        CredentialFacts::Unused => {
            return MachineCheck::ok(NAME, "not used, as `--no-sign-request` asks for");
        }
        CredentialFacts::NotSought => {
            return MachineCheck::note(NAME, "not tried (`--offline`)", "");
        }
        CredentialFacts::NotFound => {
            return MachineCheck::note(
                NAME,
                "none found: public buckets can be read, and no bucket can be written",
                "set `AWS_PROFILE`, or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`",
            );
        }
        CredentialFacts::Unusable(Refusal { why, hint }) => {
            return MachineCheck::problem(NAME, why, hint);
        }
        CredentialFacts::Found(identity, left) => (identity, left),
    };
    let found = format!("{}, key {}", origin(identity), masked(&identity.key_id));
    match left {
        None => MachineCheck::ok(NAME, found),
        Some(left) if left.is_zero() => {
            MachineCheck::problem(NAME, format!("{found}, expired"), "sign in again")
        }
        Some(left) => MachineCheck::ok(NAME, format!("{found}, valid for {}", took(*left))),
    }
}

fn origin(identity: &SigningIdentity) -> String {
    match &identity.source {
        CredentialSource::Variables => "`AWS_ACCESS_KEY_ID`".to_owned(),
        CredentialSource::Profile(name) => format!("profile `{name}`"),
        CredentialSource::WebIdentity => "`AWS_WEB_IDENTITY_TOKEN_FILE`".to_owned(),
        CredentialSource::Container => "the role of this container".to_owned(),
        CredentialSource::Machine => "the role of this machine".to_owned(),
    }
}

/// `AKIA…WXYZ`: enough to tell two keys apart.
fn masked(key_id: &str) -> String {
    let characters: Vec<char> = key_id.chars().collect();
    match characters.len() {
        12.. => {
            let (first, last) = (&characters[..4], &characters[characters.len() - 4..]);
            format!("{}…{}", String::from_iter(first), String::from_iter(last))
        }
        _ => "…".to_owned(),
    }
}

fn bucket(facts: &BucketAnswer) -> MachineCheck {
    const NAME: &str = "bucket";
    let bucket = format!("s3://{}", facts.bucket);
    match &facts.read {
        None => {
            let because = match facts.credentials {
                CredentialFacts::Unusable(_) => "without usable credentials",
                _ => "(`--offline`)",
            };
            MachineCheck::note(NAME, format!("{bucket}: not tried {because}"), "")
        }
        Some(Ok(ReadAs::Asked)) => MachineCheck::ok(NAME, format!("{bucket} can be read")),
        Some(Ok(ReadAs::Anonymous)) => MachineCheck::note(
            NAME,
            format!("{bucket} can be read, but denies it to these credentials"),
            "to write there, choose other credentials with `--profile`, or sign in again",
        ),
        Some(Err(Refusal { why, hint })) => MachineCheck::problem(NAME, why, hint),
    }
}

fn disk(facts: &DiskFacts) -> MachineCheck {
    let (name, path) = (facts.what, facts.path.display());
    let way_out = match name {
        "output" => "pass `--output-dir` with a directory on another disk",
        _ => "set `TMPDIR` to a directory on another disk",
    };
    match (facts.free, &facts.refused) {
        (_, Some(why)) => {
            MachineCheck::problem(name, format!("{path} cannot be written: {why}"), way_out)
        }
        (None, None) => MachineCheck::ok(name, format!("{path}")),
        (Some(free), None) => {
            let found = format!("{} free at {path}", size(free));
            match free {
                ..FULL => MachineCheck::problem(name, found, way_out),
                FULL..TIGHT if name == "output" => {
                    let few = "enough for a few targets; for whole runs, ";
                    MachineCheck::note(name, found, format!("{few}{way_out}"))
                }
                _ => MachineCheck::ok(name, found),
            }
        }
    }
}

/// One of uv and pip is enough to install packages; without both, it is a problem.
fn tools(tools: &[ToolFacts]) -> impl Iterator<Item = MachineCheck> {
    let installs = |it: &ToolFacts| matches!(it.tool.name, "uv" | "pip");
    let can_install = tools.iter().any(|it| installs(it) && it.answer.is_ok());
    tools.iter().map(move |it| {
        let (name, path) = (it.tool.name, it.path.as_ref());
        match &it.answer {
            Ok(version) => {
                let path = path.map(|it| it.display().to_string());
                let at = path.filter(|path| !version.contains(path.as_str()));
                let at = at.map(|path| format!(", {path}")).unwrap_or_default();
                MachineCheck::ok(name, format!("{version}{at}"))
            }
            Err(why) => {
                let found = format!("{why} (it {})", it.tool.is_for);
                if name == "pip" && !can_install {
                    MachineCheck::problem(name, found, it.tool.way_out)
                } else {
                    MachineCheck::note(name, found, it.tool.way_out)
                }
            }
        }
    })
}

fn gpus(gpus: &[(Gpu, Option<Obstacle>)]) -> Vec<MachineCheck> {
    const NAME: &str = "GPU";
    if gpus.is_empty() {
        let found = "no AMD GPU: packages can be built and installed, and not used";
        return vec![MachineCheck::note(NAME, found, "")];
    }
    let line = |(gpu, obstacle): &(Gpu, Option<Obstacle>)| {
        let target = gpu.target.as_ref().map(ToString::to_string);
        let target = target.unwrap_or_else(|| "unknown target".to_owned());
        let at = gpu.address.as_ref().map(|it| format!(" at {it}"));
        let found = format!("{target}{}", at.unwrap_or_default());
        match obstacle {
            None => MachineCheck::ok(NAME, format!("{found} can be used")),
            Some(Obstacle { reason, fix }) => {
                MachineCheck::problem(NAME, format!("{found}: {reason}"), fix)
            }
        }
    };
    gpus.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
