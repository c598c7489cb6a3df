//! `doctor` on machines that have everything, or lack one thing, with servers of our own.

pub(crate) mod environment;
mod layouts;

use rocwheel_test_servers::github::fake::{Fake, Reply};

use crate::s3::{
    inprocess::InProcess,
    server::{ID, SECRET},
};
use crate::support::prelude::*;

const TOKEN: &str = "ghp_notToBePrinted";
/// Nothing listens there.
const CLOSED: &str = "http://127.0.0.1:9";

/// A machine with a home, a token and a profile that its servers know.
struct Machine {
    t: Sandbox,
    github: Fake,
    s3: InProcess,
}

impl Machine {
    fn new() -> Self {
        let (t, github, s3) = (Sandbox::new(), Fake::start(), InProcess::start());
        let limit = Reply::bytes("application/json", b"{}").header("X-RateLimit-Remaining", "4999");
        github.on("/", limit.untold());
        let keys = format!("aws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n");
        t.write("home/.aws/credentials", format!("[nightly]\n{keys}"));
        let home = t.path("home");
        let t = t
            .with("HOME", home)
            .with("GITHUB_API_URL", github.url())
            .with("GH_TOKEN", TOKEN)
            .with("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", s3.port))
            .with("AWS_EC2_METADATA_DISABLED", "true")
            .with("AWS_PROFILE", "nightly")
            .shows(github.url(), "GITHUB");
        Self { t, github, s3 }
    }

    /// What it prints about what the tests control, and its exit code, with other variables.
    fn says(&self, more: &str, variables: &[(&str, &str)]) -> String {
        let mut line = format!("doctor --format=json {more}");
        if !more.contains("--bucket") {
            line = format!("{line} --bucket {}", self.s3.bucket.as_str());
        }
        let mut command = self.t.command(&line);
        let said = self.t.outcome(command.envs(variables.iter().copied()));
        let all = said.all();
        assert_lacks!(all, TOKEN, SECRET);
        let report: Value = serde_json::from_str(&said.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap().iter();
        let mut lines = String::new();
        for check in checks {
            let field = |name: &str| check[name].as_str().unwrap_or_default();
            let (name, found) = (field("name"), field("found"));
            // The rest is the message of this kernel.
            let found = found.split_inclusive("cannot be written").next();
            let found = found.unwrap_or_default();
            if name == "disk" && found.contains(" free at ") {
                continue;
            }
            lines.extend([field("status"), " ", name, ": ", found, "\n"]);
            if !field("way-out").is_empty() {
                lines.extend(["  ", field("way-out"), "\n"]);
            }
        }
        format!("{lines}exit code {}", said.code)
    }
}

#[test]
fn on_a_machine_that_has_everything_each_line_names_where_it_comes_from() {
    let machine = Machine::new();
    insta::assert_snapshot!(machine.says("", &[]), @"
    ok token: `GH_TOKEN` for GITHUB, 4999 requests left in this hour
    ok credentials: key …
    ok bucket: s3://bucket can be read
    exit code 0
    ");
    let text = machine.t.run("doctor --bucket bucket").ok();
    assert!(text.lines().count() <= 8, "more than one screen: {text}");
    let bearer = format!("Bearer {TOKEN}");
    let asked = machine.github.asked();
    assert!(asked.iter().all(|it| it.token.as_deref() == Some(&bearer)));
    // Keys in variables beat the profile of a variable, and not that of the flag.
    let keys = [("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    for (more, key) in [("", "AKIA…MPLE"), ("--profile nightly", "…")] {
        let said = machine.says(more, &keys);
        assert_has!(said, &format!("ok credentials: key {key}\n"));
    }
}

#[test]
fn what_is_refused_or_missing_has_a_way_out() {
    let (machine, strict) = (Machine::new(), Fake::start());
    strict.on("/", Reply::refusal(401, "Bad credentials").untold());
    let url = strict.url();
    let variables = [("GITHUB_API_URL", url.as_str())];
    let said = machine.says("--profile nope --output-dir /proc", &variables);
    insta::assert_snapshot!(said.replace(&url, "GITHUB"), @"
    problem token: `GH_TOKEN` for GITHUB: GitHub denies access: `/`: Bad credentials
      pass a token that is valid and has `actions: read` and `contents: read` for this repository (`GITHUB_TOKEN`, `GH_TOKEN`, `gh auth login`); public repositories need none
    problem credentials: the profile `nope` does not exist or has no credentials
      name another `--profile`, sign in again, or pass `--no-sign-request`
    problem disk: /proc cannot be written
      pass `--output-dir` with a directory on another disk
    exit code 1
    ");
    // Without the path of the API, a GitHub Enterprise server has a page to sign in.
    let pages = Fake::start();
    pages.on("/", Reply::bytes("text/html", b"<html>Sign in</html>").untold());
    let url = pages.url();
    let said = machine.says("", &[("GITHUB_API_URL", url.as_str())]);
    insta::assert_snapshot!(said.replace(&url, "GITHUB"), @"
    problem token: `GH_TOKEN` for GITHUB: not an answer of GitHub's API: `/`: it answered with `text/html`
      set `GITHUB_API_URL` to the address of the API, which ends in `/api/v3` on a GitHub Enterprise server
    ok credentials: key …
    ok bucket: s3://bucket can be read
    exit code 1
    ");
    insta::assert_snapshot!(machine.says("--bucket other", &[("GH_TOKEN", "")]), @"
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
    let (machine, began) = (Machine::new(), std::time::Instant::now());
    let closed = ["GITHUB_API_URL", "AWS_ENDPOINT_URL"].map(|name| (name, CLOSED));
    let said = machine.says("", &closed);
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    insta::assert_snapshot!(said, @"
    problem token: `GH_TOKEN` for http://127.0.0.1:9: GitHub cannot be reached: `/`: Connection refused (os error 111)
      check the network, the proxy (`HTTPS_PROXY`), the certificates (`SSL_CERT_FILE`) and `GITHUB_API_URL`, and try again
    ok credentials: key …
    problem bucket: the store does not answer: `s3://bucket/rocwheel-doctor-linux/`: Connection refused (os error 111)
      check the address, the network, the proxy (`HTTPS_PROXY`) and the certificates (`SSL_CERT_FILE`), and try again
    exit code 1
    ");
    let machine = Machine::new();
    insta::assert_snapshot!(machine.says("--offline", &[]), @"
    ok token: `GH_TOKEN` for GITHUB, not tried (`--offline`)
    note bucket: s3://bucket: not tried (`--offline`)
    exit code 0
    ");
    assert_eq!(machine.github.paths(), [""; 0]);
}
