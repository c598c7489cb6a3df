//! `place`, which a workflow asks before it takes on a role; and `--offline`: where a run is read and written,
//! without a question to any server.

use crate::support::prelude::*;
use rocwheel_test_servers::github::{
    fake::{Fake, Reply},
    run,
};

/// A job of run 7 of `ROCm/TheRock`, for an event.
fn job(event: &Value) -> Sandbox {
    let t = Sandbox::new();
    let path = t.write("event.json", event.to_string());
    let variables = [
        ("GITHUB_REPOSITORY", "ROCm/TheRock"),
        ("GITHUB_RUN_ID", "7"),
        ("GITHUB_EVENT_PATH", path.to_str().unwrap()),
        ("GITHUB_OUTPUT", "outputs"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    variables.into_iter().fold(t, |t, (name, it)| t.with(name, it))
}

fn place(t: &Sandbox, arguments: &str) -> Value {
    let line = format!("place --format json --platform windows {arguments}");
    serde_json::from_str(&t.run(&line).ok()).unwrap()
}

fn push() -> Value {
    json!({"repository": {"full_name": "ROCm/TheRock", "fork": false}})
}

fn forks_pull() -> Value {
    let theirs = json!({"full_name": "somebody/TheRock", "fork": true});
    let home = json!({"full_name": "ROCm/TheRock", "fork": false});
    json!({"repository": home, "pull_request": {"head": {"repo": theirs}, "base": {"repo": home}}})
}

#[test]
fn a_run_of_our_own_has_a_place_and_a_role() {
    let t = job(&push());
    let answer = place(&t, "");
    insta::assert_snapshot!(serde_json::to_string_pretty(&answer).unwrap(), @r#"
    {
      "schema": "rocwheel-place-v1",
      "bucket": "therock-ci-artifacts",
      "set-url": "s3://therock-ci-artifacts/7-windows/python/",
      "index-url": "https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/simple/",
      "find-links-url": "https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/dist/index.html",
      "region": "us-east-2",
      "role": "arn:aws:iam::692859939525:role/therock-ci",
      "no-role": null,
      "credentials": "role",
      "assumed": []
    }
    "#);
    let outputs = t.read("outputs");
    let lines = outputs.lines().filter(|line| !line.contains("rocwheel_"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
    therock-ci-artifacts
    s3://therock-ci-artifacts/7-windows/python/
    https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/simple/
    https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/dist/index.html
    us-east-2
    arn:aws:iam::692859939525:role/therock-ci
    role
    https://therock-ci-artifacts.s3.amazonaws.com/7-windows/python/simple/
    us-east-2
    arn:aws:iam::692859939525:role/therock-ci
    ");
}

#[test]
fn on_behalf_of_a_fork_there_is_a_place_and_no_role() {
    let t = job(&forks_pull());
    let answer = place(&t, "");
    let external = "s3://therock-ci-artifacts-external/ROCm-TheRock/7-windows/python/";
    assert_eq!(answer["set-url"], external);
    assert_eq!(answer["role"], Value::Null);
    assert_eq!(answer["no-role"], "the run builds the code of a fork");
    assert!(!t.read("outputs").contains("arn:aws"));
    assert_eq!(place(&t, "--release-type nightly")["role"], Value::Null);
}

#[test]
fn a_runner_with_credentials_of_its_own_publishes_what_a_fork_built() {
    let table = [
        (push(), "", true, "role"),
        (forks_pull(), "", true, "runner"),
        (forks_pull(), "", false, "none"),
        (forks_pull(), "--no-sign-request", true, "none"),
        // It shares neither of these buckets.
        (forks_pull(), "--release-type nightly", true, "none"),
        (forks_pull(), "--bucket therock-ci-artifacts", true, "none"),
        (forks_pull(), "--bucket mine", true, "runner"),
        (push(), "--bucket mine", true, "runner"),
        (push(), "--bucket mine", false, "none"),
    ];
    for (event, arguments, has_keys, expected) in table {
        let mut t = job(&event);
        if has_keys {
            t = t.with("AWS_ACCESS_KEY_ID", "id");
            t = t.with("AWS_SECRET_ACCESS_KEY", "secret");
        }
        let answer = place(&t, arguments);
        assert_eq!(answer["credentials"], expected, "{event} {arguments}");
        assert!(t.read("outputs").contains(expected));
    }
}

#[test]
fn no_command_writes_the_code_of_a_fork_to_a_bucket_that_it_does_not_share() {
    let t = job(&forks_pull());
    let packages = sample().root().join("packages");
    std::os::unix::fs::symlink(packages, t.path("packages")).unwrap();
    // Nothing answers here: a command that is not refused fails for another reason.
    let t = t.with("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
    let t = t.with("AWS_ACCESS_KEY_ID", "id");
    let t = t.with("AWS_SECRET_ACCESS_KEY", "secret");
    for (line, bucket) in [
        (
            "upload packages --multi-target --platform linux --release-type nightly",
            "therock-nightly-artifacts",
        ),
        (
            "upload packages --multi-target --platform linux --release-type prerelease --dry-run",
            "therock-prerelease-artifacts",
        ),
        (
            "upload packages --multi-target --platform linux --bucket therock-ci-artifacts",
            "therock-ci-artifacts",
        ),
        ("upload packages --to s3://therock-release-python/v5", "therock-release-python"),
        ("upload packages --product core --release-type nightly", "therock-repo-amd-nightly-core"),
        ("index s3://therock-ci-artifacts/1-linux/python", "therock-ci-artifacts"),
        ("index s3://therock-repo-amd-rc-core/v5 --layout product", "therock-repo-amd-rc-core"),
        (
            "promote packages --to rc1 --into s3://therock-repo-amd-rc-core/v5",
            "therock-repo-amd-rc-core",
        ),
        ("deps mirror --into s3://therock-ci-artifacts/python-deps", "therock-ci-artifacts"),
        (
            "pipeline --sample --output-dir out --upload --release-type nightly",
            "therock-nightly-artifacts",
        ),
        (
            "pipeline --sample --output-dir out --upload --release-type nightly --dry-run",
            "therock-nightly-artifacts",
        ),
        (
            "pipeline --sample --output-dir out --to s3://therock-artifacts/mine",
            "therock-artifacts",
        ),
    ] {
        let outcome = t.run(line).all();
        let expected = format!(
            "exit 2\nerror: `{bucket}` takes no code of a fork, and the run builds the code of a fork\n\n\
             hint: publish to a directory, or to a bucket of your own: the packages of a fork stay with its run"
        );
        assert!(outcome.starts_with(&expected), "{line}\n{outcome}");
    }
    t.run("upload packages --multi-target --platform linux --output-dir out").ok();
    t.run("index packages --dry-run").ok();
}

#[test]
fn a_product_has_no_role_on_behalf_of_a_fork() {
    let line = "place --product core --release-type nightly --format json";
    let answer = |event: &Value| {
        let t = job(event);
        let answer: Value = serde_json::from_str(&t.run(line).ok()).unwrap();
        (answer, t.read("outputs"))
    };
    let (own, outputs) = answer(&push());
    assert_eq!(own["credentials"], "role");
    assert_has!(outputs, "arn:aws:iam::", "package_index_url");
    let (fork, outputs) = answer(&forks_pull());
    assert_eq!(fork["role"], Value::Null);
    assert_eq!(fork["credentials"], "none");
    assert_eq!(fork["no-role"], "the run builds the code of a fork");
    assert_lacks!(outputs, "arn:aws");
    assert_has!(outputs, "credentials", "none");
}

#[test]
fn a_pull_request_of_which_nothing_is_known_has_no_place() {
    for name in ["pull_request", "pull_request_target", "workflow_run"] {
        for payload in [None, Some("{}")] {
            let mut t = job(&json!({})).with("GITHUB_EVENT_NAME", name);
            t = match payload {
                Some(payload) => {
                    t.write("event.json", payload);
                    t
                }
                None => t.with("GITHUB_EVENT_PATH", ""),
            };
            for line in ["place", "place --product core --release-type nightly"] {
                let outcome = t.run(line).all();
                assert_has!(outcome, "exit 2", "nothing says whose code this run builds");
            }
            let outcome = t.run("index s3://therock-ci-artifacts/a");
            assert_has!(outcome.all(), "exit 2", "whose code");
        }
    }
}

#[test]
fn what_is_asked_for_decides_the_place() {
    let shown = ["--release-type nightly", "--bucket mine", "--artifact-group gfx94X-dcgpu"].map(
        |arguments| {
            let answer = place(&job(&push()), arguments);
            let [url, region, role] =
                ["set-url", "region", "role"].map(|it| answer[it].to_string());
            format!("{url} {region} {role}")
        },
    );
    insta::assert_snapshot!(shown.join("\n"), @r#"
    "s3://therock-nightly-artifacts/7-windows/python/" "us-east-2" "arn:aws:iam::692859939525:role/therock-nightly"
    "s3://mine/7-windows/python/" null null
    "s3://therock-ci-artifacts/7-windows/python/gfx94X-dcgpu/" "us-east-2" "arn:aws:iam::692859939525:role/therock-ci"
    "#);
}

#[test]
fn a_local_run_has_no_place_in_a_bucket() {
    let t = Sandbox::new();
    insta::assert_snapshot!(t.run("place --run-id local").all(), @"
    exit 2
    error: a local run has no bucket

    hint: pass `--bucket`, or the id of a run as `--run-id`
    ");
    let there = t.run("place --run-id local --bucket mine").ok();
    assert!(there.starts_with("s3://mine/local-linux/python/\n"));
}

/// A directory with the packages of the sample, where only an API can be asked.
fn beside(fake: &Fake) -> Sandbox {
    let t = Sandbox::new().with("GITHUB_API_URL", fake.url());
    let packages = sample().root().join("packages");
    std::os::unix::fs::symlink(packages, t.path("packages")).unwrap();
    t.with("AWS_EC2_METADATA_DISABLED", "true")
}

const EIGHT: &str = "--run-id 8 --repository ROCm/TheRock --platform linux";

#[test]
fn whose_code_another_run_built_is_asked_of_github() {
    let fake = Fake::start();
    let path = "/repos/ROCm/TheRock/actions/runs/8";
    let mut forks = run(8, "2026-01-02T00:00:00Z", "completed", Some("success"));
    forks["head_repository"]["full_name"] = json!("somebody/TheRock");
    fake.on(path, Reply::json(&forks));
    let t = beside(&fake);
    insta::assert_snapshot!(t.run(&format!("place {EIGHT}")).all(), @"
    exit 0
    s3://therock-ci-artifacts-external/ROCm-TheRock/8-linux/python/
    index:  https://therock-ci-artifacts-external.s3.amazonaws.com/ROCm-TheRock/8-linux/python/simple/
    region: us-east-2
    role:   none, because the run builds the code of a fork, and there are no other credentials: the packages stay with the run
    note: assumed that run 8 has release type `ci`; pass `--release-type` if it has another
    ");
    // For a local directory no command asks: all assume the same, and write to the same key.
    let commands = [
        "summary --output-dir out",
        "upload packages --multi-target --no-check --output-dir out --dry-run",
    ]
    .map(|line| {
        let said = t.run(&format!("{line} {EIGHT}")).all();
        let told = said.lines().filter(|it| it.contains("8-linux") || it.starts_with("note"));
        format!("$ {line}\n{}\n", told.collect::<Vec<_>>().join("\n"))
    });
    insta::assert_snapshot!(commands.concat(), @"
    $ summary --output-dir out
    note: assumed that run 8 has release type `ci`; pass `--release-type` if it has another
    note: assumed that run 8 did not build the code of a fork
    note: assumed that run 8 is from after 2025-11-11T16:18:48Z
    error: no such directory: `out/8-linux/python`
    $ upload packages --multi-target --no-check --output-dir out --dry-run
    to out/8-linux/python
    note: assumed that run 8 has release type `ci`; pass `--release-type` if it has another
    note: assumed that run 8 did not build the code of a fork
    note: assumed that run 8 is from after 2025-11-11T16:18:48Z
    note: the set was built outside of CI: it is published as one of run 8
    ");
    let empty = Fake::start();
    empty.on(path, Reply::refusal(404, "Not Found"));
    insta::assert_snapshot!(beside(&empty).run(&format!("summary {EIGHT}")).all(), @"
    exit 1
    error: failed to look up run `8` of `ROCm/TheRock`
      caused by: GitHub has no such thing: `/repos/ROCm/TheRock/actions/runs/8`
      caused by: Not Found

    hint: pass `--bucket` to say where its outputs are

    hint: check `--repository` and the name that was looked up; a private repository needs a token that can read it (`GITHUB_TOKEN`)
    ");
}

/// Every address that could be asked refuses.
fn without_network() -> Sandbox {
    let nowhere = "http://127.0.0.1:1";
    let t = Sandbox::new().with("GITHUB_API_URL", nowhere);
    let t = t.with("AWS_ENDPOINT_URL", nowhere);
    t.with("AWS_EC2_METADATA_SERVICE_ENDPOINT", nowhere)
}

#[test]
fn offline_a_place_is_assumed() {
    let t = without_network();
    let said = [
        "place --run-id 8",
        "place --run-id https://github.com/ROCm/rocm-libraries/actions/runs/8 --layout flat",
        "place --run-id 8 --bucket mine",
    ]
    .map(|line| {
        let outcome = t.run(&format!("{line} --offline --platform linux"));
        format!("$ {line}\n{}\n", outcome.all())
    });
    insta::assert_snapshot!(said.concat());
}

#[test]
fn offline_nothing_else_is_done() {
    let t = without_network();
    let packages = sample().root().join("packages");
    std::os::unix::fs::symlink(packages, t.path("packages")).unwrap();
    let said = [
        "fetch --run-id 8",
        "fetch --run-id 8 --dry-run",
        "pipeline --run-id 8 --output-dir out",
        "summary --run-id 8",
        "summary s3://bucket/set",
        "upload packages --multi-target --no-check --run-id 8",
        "upload packages --to s3://bucket/set --no-check",
    ]
    .map(|line| {
        let outcome = t.run(&format!("{line} --offline --platform linux"));
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{line}");
        let errors = outcome.stderr.lines().filter(|it| !it.starts_with("note: "));
        errors.collect::<Vec<_>>().join("\n")
    });
    insta::assert_snapshot!(said.join("\n"));
    // Local work is done. What is written is below the place of the run.
    let json = |line: &str| -> Value {
        let line = format!("{line} --run-id 8 --offline --platform linux --format json");
        serde_json::from_str(&t.run(&line).ok()).unwrap()
    };
    let forecast = json("pipeline --sample --output-dir out --dry-run");
    assert_eq!(forecast["set-url"], json("place")["set-url"]);
    for key in forecast["writes"].as_array().unwrap() {
        let key = key.as_str().unwrap();
        assert!(key.starts_with("8-linux/python/"), "{key}");
    }
}
