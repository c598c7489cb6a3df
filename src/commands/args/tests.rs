//! Tests of the shared arguments.

use std::io::Write;

use clap::Parser as _;

use super::*;
use rocwheel_base::error::render;

#[derive(Debug, clap::Parser)]
struct Probe {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    github: GitHubArgs,
}

fn parse(line: &str) -> Result<Probe, clap::Error> {
    Probe::try_parse_from(["probe"].into_iter().chain(line.split_whitespace()))
}

fn refused(line: &str) -> String {
    let text = parse(line).unwrap_err().to_string();
    text.lines().take(2).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_duration_has_a_number_and_a_unit() {
    let seconds = |text: &str| duration(text).unwrap().as_secs();
    assert_eq!([seconds("90s"), seconds("30m"), seconds("2h"), seconds("0s")], [90, 1800, 7200, 0]);
    let refused = ["", "m", "30", "30 m", "-1m", "1.5h", "1w", "99999999999s", "3é"];
    let messages = refused.map(|text| duration(text).unwrap_err());
    insta::assert_snapshot!(messages.join("\n"), @r#"
    not a duration such as `90s`, `30m`, `2h` or `3d`: ""
    not a duration such as `90s`, `30m`, `2h` or `3d`: "m"
    not a duration such as `90s`, `30m`, `2h` or `3d`: "30"
    not a duration such as `90s`, `30m`, `2h` or `3d`: "30 m"
    not a duration such as `90s`, `30m`, `2h` or `3d`: "-1m"
    not a duration such as `90s`, `30m`, `2h` or `3d`: "1.5h"
    not a duration such as `90s`, `30m`, `2h` or `3d`: "1w"
    not a duration such as `90s`, `30m`, `2h` or `3d`: "99999999999s"
    not a duration such as `90s`, `30m`, `2h` or `3d`: "3é"
    "#);
}

fn in_actions(name: &str) -> Option<String> {
    let value = match name {
        "GITHUB_REPOSITORY" => "someone/TheRock",
        "GITHUB_RUN_ID" => "42",
        "RELEASE_TYPE" => "",
        _ => return None,
    };
    Some(value.to_owned())
}

#[test]
fn a_flag_is_a_choice_and_a_variable_tells_of_this_run() {
    let arguments = parse("--run-id 7 --repository ROCm/TheRock --release-type nightly");
    let arguments = arguments.unwrap();
    let context = arguments.run.context_in(in_actions).unwrap();
    let (choices, environment) = (context.clone(), context.environment);
    assert_eq!(choices.repository.unwrap().to_string(), "ROCm/TheRock");
    assert_eq!(choices.release_type, Some(ReleaseType::Nightly));
    assert_eq!(environment.repository.unwrap().to_string(), "someone/TheRock");
    assert_eq!(environment.run_id.unwrap().as_str(), "42");
    assert_eq!(environment.release_type, None);
}

#[test]
fn a_bucket_is_a_choice() {
    let run = parse("--bucket my-bucket").unwrap().run;
    let choices = run.context_in(|_| None).unwrap();
    assert_eq!(choices.bucket.unwrap().to_string(), "my-bucket");
}

#[test]
fn a_run_may_be_named_by_its_page() {
    let run = parse("--run-id https://github.com/ROCm/TheRock/actions/runs/7").unwrap().run;
    assert_eq!(run.run().unwrap().id.as_str(), "7");
    insta::assert_snapshot!(render(&parse("").unwrap().run.run().unwrap_err()), @r"
    error: no run was named

    hint: pass `--run-id` with an id or the address of a run
    ");
}

#[test]
fn bad_values_are_refused_in_words() {
    insta::assert_snapshot!(refused("--run-id 7x"), @r#"error: invalid value '7x' for '--run-id <RUN>': not a run id, nor an address such as `https://github.com/ROCm/TheRock/actions/runs/21440027240`: "7x""#);
    insta::assert_snapshot!(refused("--repository TheRock"), @r#"error: invalid value 'TheRock' for '--repository <OWNER/NAME>': not a repository such as `ROCm/TheRock`: "TheRock""#);
    insta::assert_snapshot!(refused("--platform macos"), @r"
    error: invalid value 'macos' for '--platform <PLATFORM>'
      [possible values: linux, windows]
    ");
    insta::assert_snapshot!(refused("--release-type stable"), @r"
    error: invalid value 'stable' for '--release-type <TYPE>'
      [possible values: ci, dev, dev-bkc, nightly, nightly-bkc, prerelease, release]
    ");
    insta::assert_snapshot!(refused("--bucket No"), @r#"error: invalid value 'No' for '--bucket <BUCKET>': a bucket's name has 3 to 63 characters: "No""#);
}

#[test]
fn an_event_that_cannot_be_of_a_fork_needs_no_file() {
    let context = |event: &'static str, path: &str| {
        let run = parse("").unwrap().run;
        run.context_in(|name| match name {
            "GITHUB_EVENT_NAME" => Some(event.to_owned()),
            "GITHUB_EVENT_PATH" => Some(path.to_owned()),
            _ => None,
        })
    };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let broken = file.path().to_str().unwrap().to_owned();
    for path in ["gone.json", &broken] {
        for event in ["push", "workflow_dispatch", "schedule", ""] {
            assert!(context(event, path).unwrap().environment.event.is_none());
        }
    }
    for event in ["pull_request", "pull_request_target", "workflow_run"] {
        let error = render(&context(event, "gone.json").unwrap_err());
        assert!(error.contains("`gone.json`"), "{error}");
        assert!(error.contains("hint: `GITHUB_EVENT_PATH`"), "{error}");
    }
    for event in ["pull_request", "pull_request_target", "workflow_run"] {
        let error = render(&context(event, "").unwrap_err());
        assert!(error.contains(&format!("the event `{event}` has no")), "{error}");
    }
    let payload = r#"{"pull_request": {"head": {"repo": null}}}"#;
    file.write_all(payload.as_bytes()).unwrap();
    let read = context("pull_request", &broken).unwrap();
    assert!(read.environment.event.is_some());
}

fn access(line: &str, known: Option<&str>) -> Access {
    parse(line).unwrap().access.access_in(known, |_| None).unwrap()
}

#[test]
fn nothing_asked_for_is_amazon_with_what_credentials_there_are() {
    assert_eq!(access("", None), Access::default());
}

#[test]
fn every_flag_has_its_effect() {
    let line = "--endpoint-url http://127.0.0.1:8333/ --region here --profile me --no-sign-request";
    let expected = Access {
        endpoint: Some("http://127.0.0.1:8333".parse().unwrap()),
        region: Some("here".parse().unwrap()),
        profile: Some(Profile { name: "me".to_owned(), beats_keys: true }),
        signing: Signing::Never,
    };
    assert_eq!(access(line, Some("there")), expected);
}

#[test]
fn a_known_region_stands_in_for_one_that_is_not_given() {
    let region = access("", Some("us-east-2")).region.unwrap();
    assert_eq!(region.to_string(), "us-east-2");
}

#[test]
fn the_general_endpoint_stands_in_for_the_one_of_s3() {
    let in_variable = |line: &str, value: &str| {
        let arguments = parse(line).unwrap();
        arguments
            .access
            .access_in(None, |name| (name == "AWS_ENDPOINT_URL").then(|| value.to_owned()))
    };
    let endpoint = |access: Access| access.endpoint.unwrap().to_string();
    let general = in_variable("", "http://a").unwrap();
    assert_eq!(endpoint(general), "http://a");
    let special = in_variable("--endpoint-url http://b", "http://a").unwrap();
    assert_eq!(endpoint(special), "http://b");
    assert_eq!(in_variable("", "").unwrap().endpoint, None);
    insta::assert_snapshot!(render(&in_variable("", "a").unwrap_err()), @"
    error: not the address of a server such as `http://127.0.0.1:8333`, without a user or a query

    hint: `AWS_ENDPOINT_URL` is the address of an S3 server, or unset
    ");
}

#[test]
fn bad_values_for_a_server_are_refused_in_words() {
    let refused = ["--endpoint-url host:80", "--region us.east"].map(refused);
    insta::assert_snapshot!(refused.join("\n"), @r#"
    error: invalid value 'host:80' for '--endpoint-url <URL>': not the address of a server such as `http://127.0.0.1:8333`, without a user or a query

    error: invalid value 'us.east' for '--region <NAME>': not a region such as `us-east-2`: "us.east"
    "#);
}

fn settings(line: &str, server: Option<&str>) -> String {
    let github = parse(line).unwrap().github;
    assert!(!format!("{github:?}").contains("t1"));
    let gh_token = |name: &str| (name == "GH_TOKEN").then(|| "gh".to_owned());
    let settings = github.settings_in(server, gh_token).unwrap();
    let token = settings.token.map(|token| token.reveal().to_owned());
    format!("{} {}", settings.api, token.unwrap_or_default())
}

#[test]
fn a_token_that_cannot_be_sent_is_refused_without_being_shown() {
    for text in ["t1\nt2", "t1\u{7f}", "t1é"] {
        let github = GitHubArgs { github_token: Some(Secret::new(text)), ..Default::default() };
        assert_eq!(
            render(&github.settings(None).unwrap_err()),
            "\
            error: the token of `--github-token` has a line break, or another character that no token has\n\n\
            hint: copy the token again\n"
        );
    }
}

#[test]
fn the_token_is_sent_to_the_chosen_api_only() {
    let ghe = "--github-api-url https://ghe.example.org/api/v3 --github-token t1";
    let (github, example) = (Some("https://github.com"), Some("https://ghe.example.org"));
    let table = [
        ("", None, "https://api.github.com gh"),
        ("--github-token t1", None, "https://api.github.com t1"),
        ("--github-token t1", github, "https://api.github.com t1"),
        ("--github-token t1", example, "https://ghe.example.org/api/v3 "),
        (ghe, None, "https://ghe.example.org/api/v3 t1"),
        (ghe, github, "https://api.github.com "),
        ("--github-api-url http://127.0.0.1:1 --github-token t1", github, "http://127.0.0.1:1 t1"),
        (ghe, example, "https://ghe.example.org/api/v3 t1"),
    ];
    for (line, server, expected) in table {
        assert_eq!(settings(line, server), expected, "{line}");
    }
}
