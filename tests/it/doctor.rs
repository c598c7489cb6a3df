//! `doctor` on machines that have everything, or lack one thing, with servers of our own.

mod environment;

use std::process::Command;

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

/// A machine with a home, a token and a profile that its servers know.
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
        let home = machine.place.path().join("home/.aws");
        fs_err::create_dir_all(&home).unwrap();
        fs_err::write(home.join("credentials"), format!("[nightly]\n{keys}")).unwrap();
        machine
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
        let checks = report["checks"].as_array().unwrap().iter();
        let lines = checks.filter_map(|check| {
            let field = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            let (name, found) = (field("name"), field("found"));
            // The rest is the message of this kernel.
            let found = found.split_inclusive("cannot be written").next()?;
            if name == "disk" && found.contains(" free at ") {
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
    ok credentials: key …
    ok bucket: s3://bucket can be read
    exit code 0
    ");
    let text = Outcome::of(machine.doctor(&[]).output().unwrap()).ok();
    assert!(text.lines().count() <= 8, "more than one screen: {text}");
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
    ok credentials: key AKIA…MPLE
    ok credentials: key …
    ");
}

#[test]
fn what_is_refused_or_missing_has_a_way_out() {
    let machine = Machine::new();
    let denied = Reply::refusal(401, "Bad credentials").untold();
    let strict = Fake::start();
    strict.on("/", denied);
    let mut doctor = machine.doctor(&["--profile", "nope", "--output-dir", "/proc"]);
    let said = machine.says(doctor.env("GITHUB_API_URL", strict.url()));
    insta::assert_snapshot!(said.replace(&strict.url(), "GITHUB"), @"
    problem token: `GH_TOKEN` for GITHUB: GitHub does not accept the token: `/`: Bad credentials
      renew the token in `--github-token`, `GITHUB_TOKEN` or `GH_TOKEN`, or do without: public repositories need none
    problem credentials: the profile `nope` does not exist or has no credentials
      name another `--profile`, sign in again, or pass `--no-sign-request`
    note bucket: s3://bucket: not tried without usable credentials
    problem disk: /proc cannot be written
      pass `--output-dir` with a directory on another disk
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
    ok credentials: key …
    problem bucket: the store failed: `s3://other/rocwheel-doctor-linux/`: NoSuchBucket (HTTP 404)
      name another bucket with `--bucket`
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
    ok credentials: key …
    problem bucket: the store does not answer: `s3://bucket/rocwheel-doctor-linux/`: Connection refused (os error 111)
      check the address, the network and the proxy (`HTTPS_PROXY`), and try again
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
    exit code 0
    ");
    assert_eq!(machine.github.paths(), [""; 0]);
}
