//! Where runs of every kind keep their outputs.

mod buckets;

use serde_json::json;

use super::*;
use rocwheel_base::error::{self, anyhow};
use rocwheel_store::location::Location;

const FORK: Event = Event { origin: RunOrigin::Fork, repository: RunOrigin::Own };

fn repository(text: &str) -> Repository {
    text.parse().unwrap()
}

fn run(text: &str) -> RunReference {
    text.parse().unwrap()
}

/// Run 42 of `name`, seen from inside.
fn inside(name: &str, release_type: &str, event: Option<Event>) -> RunContext {
    let variables =
        [("GITHUB_REPOSITORY", name), ("RELEASE_TYPE", release_type), ("GITHUB_RUN_ID", "42")];
    RunContext {
        environment: Environment { event, ..environment(&variables, None).unwrap() },
        ..RunContext::default()
    }
}

fn environment(variables: &[(&str, &str)], payload: Option<&str>) -> Result<Environment> {
    let value = |name: &str| {
        let found = variables.iter().find(|(it, _)| *it == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Environment::parse(value, payload)
}

fn facts(origin: RunOrigin) -> RunFacts {
    RunFacts { origin, updated_at: None }
}

fn show(context: &RunContext, reference: &str) -> String {
    show_told(context, Err(anyhow!("GitHub is asked")), reference)
}

fn show_told(context: &RunContext, told: Result<RunFacts>, reference: &str) -> String {
    match context.resolve(&run(reference), Platform::Linux, |_| told) {
        Err(error) => error::render(&error),
        Ok(place) => {
            let location = Location::new(place.bucket.clone(), place.prefix.directory());
            let role = place.role.as_deref().and_then(|role| role.rsplit('/').next());
            format!("{} {}", location, role.unwrap_or("-"))
        }
    }
}

#[test]
fn a_run_writes_where_its_repository_event_and_release_type_say() {
    let fork = "s3://therock-ci-artifacts-external/ROCm-TheRock/42-linux/ -";
    let home = "s3://therock-ci-artifacts/42-linux/ therock-ci";
    let table = [
        ("ROCm/TheRock", "", None, home),
        ("ROCm/TheRock", "ci", None, home),
        ("ROCm/TheRock", "ci", Some(FORK), fork),
        (
            "ROCm/rocm-libraries",
            "",
            None,
            "s3://therock-ci-artifacts-external/ROCm-rocm-libraries/42-linux/ therock-ci-external",
        ),
        (
            "ROCm/rocm-libraries",
            "",
            Some(FORK),
            "s3://therock-ci-artifacts-external/ROCm-rocm-libraries/42-linux/ -",
        ),
        (
            "ROCm/rockrel",
            "nightly",
            None,
            "s3://therock-nightly-artifacts/42-linux/ therock-nightly",
        ),
        ("ROCm/TheRock", "dev-bkc", Some(FORK), "s3://therock-bkc-artifacts/42-linux/ -"),
    ];
    for (name, release_type, event, expected) in table {
        assert_eq!(show(&inside(name, release_type, event), "42"), expected);
    }
}

#[test]
fn a_fork_of_ones_own_has_no_role_to_take_on() {
    let event = Event { origin: RunOrigin::Own, repository: RunOrigin::Fork };
    assert_eq!(
        show(&inside("me/TheRock", "", Some(event)), "42"),
        "s3://therock-ci-artifacts-external/me-TheRock/42-linux/ -"
    );
}

#[test]
fn another_run_is_where_github_says_and_not_where_this_one_is() {
    let mut context = inside("ROCm/TheRock", "nightly", Some(FORK));
    let asked = show(&context, "7");
    assert!(asked.starts_with("error: GitHub is asked\n"), "{asked}");
    let told = |context: &RunContext, origin| show_told(context, Ok(facts(origin)), "7");
    assert_eq!(told(&context, RunOrigin::Own), "s3://therock-ci-artifacts/7-linux/ -");
    context.environment.event = None;
    assert_eq!(
        told(&context, RunOrigin::Fork),
        "s3://therock-ci-artifacts-external/ROCm-TheRock/7-linux/ -"
    );
}

#[test]
fn github_is_asked_only_when_its_answer_matters() {
    let laptop = RunContext::default();
    let asked = |context: &RunContext, text: &str| {
        let mut is_asked = false;
        let told = |_: &Repository| {
            is_asked = true;
            Ok(RunFacts::default())
        };
        context.resolve(&run(text), Platform::Linux, told).unwrap();
        is_asked
    };
    assert!(asked(&laptop, "7"));
    assert!(!asked(&laptop, "local"));
    assert!(asked(&laptop, "https://github.com/ROCm/rocm-libraries/actions/runs/7"));
    assert!(!asked(&inside("ROCm/TheRock", "", None), "42"));
    assert!(!asked(&inside("ROCm/rocm-libraries", "", None), "42"));
    assert!(!asked(
        &(RunContext { release_type: Some(ReleaseType::Nightly), ..RunContext::default() }),
        "7"
    ));
    let in_bucket = |bucket: &str| RunContext {
        bucket: Some(bucket.parse().unwrap()),
        wants_role: true,
        ..RunContext::default()
    };
    assert!(!asked(&RunContext { wants_role: false, ..in_bucket("testing") }, "7"));
    // A role needs to know whose code it would publish.
    let nightly = Some(ReleaseType::Nightly);
    let role = RunContext { release_type: nightly, wants_role: true, ..RunContext::default() };
    assert!(asked(&role, "7"));
    assert!(!asked(&role, "local"));
    assert!(asked(&in_bucket("therock-nightly-artifacts"), "7"));
    assert!(!asked(&in_bucket("testing"), "7"));
    let fork = RunFacts { origin: RunOrigin::Fork, updated_at: None };
    let resolved = role.resolve(&run("7"), Platform::Linux, |_| Ok(fork)).unwrap();
    assert_eq!(resolved.role, None);
    assert!(!resolved.takes_runner_credentials);
}

#[test]
fn a_choice_beats_the_environment_which_beats_home() {
    let inside = inside("ROCm/rocm-libraries", "nightly", None);
    let here = run("42");
    assert_eq!(inside.repository(&here).unwrap(), repository("ROCm/rocm-libraries"));
    assert_eq!(inside.release_type(&here), ReleaseType::Nightly);
    let mut chosen = inside.clone();
    chosen.repository = Some(repository("a/b"));
    chosen.release_type = Some(ReleaseType::Dev);
    assert_eq!(chosen.repository(&here).unwrap(), repository("a/b"));
    assert_eq!(chosen.release_type(&here), ReleaseType::Dev);
    let laptop = RunContext::default();
    assert_eq!(laptop.repository(&here).unwrap(), repository("ROCm/TheRock"));
    assert_eq!(laptop.release_type(&here), ReleaseType::Ci);
}

#[test]
fn the_release_type_of_this_run_says_nothing_about_another() {
    let inside = inside("ROCm/TheRock", "nightly", None);
    assert_eq!(inside.release_type(&run("7")), ReleaseType::Ci);
    let elsewhere = run("https://github.com/ROCm/rockrel/actions/runs/42");
    assert_eq!(inside.release_type(&elsewhere), ReleaseType::Ci);
    let mut chosen = inside.clone();
    chosen.repository = Some(repository("ROCm/rockrel"));
    assert_eq!(chosen.release_type(&run("42")), ReleaseType::Ci);
    let mut unnamed = inside;
    unnamed.environment.run_id = None;
    assert_eq!(unnamed.release_type(&run("7")), ReleaseType::Nightly);
}

#[test]
fn a_bucket_that_the_table_lists_keeps_its_prefixes() {
    let place = |bucket: &str, name: &str, event| {
        let mut context = inside(name, "", event);
        context.bucket = Some(bucket.parse().unwrap());
        show(&context, "42")
    };
    let table = [
        ("testing", "ROCm/TheRock", "s3://testing/42-linux/ -"),
        ("testing", "ROCm/rockrel", "s3://testing/42-linux/ -"),
        (
            "therock-nightly-artifacts",
            "ROCm/rockrel",
            "s3://therock-nightly-artifacts/42-linux/ therock-nightly",
        ),
        (
            "therock-ci-artifacts-external",
            "ROCm/TheRock",
            "s3://therock-ci-artifacts-external/ROCm-TheRock/42-linux/ therock-ci-external",
        ),
    ];
    for (bucket, name, expected) in table {
        assert_eq!(place(bucket, name, None), expected);
    }
    assert_eq!(
        place("therock-ci-artifacts", "ROCm/TheRock", Some(FORK)),
        "s3://therock-ci-artifacts/42-linux/ -"
    );
}

#[test]
fn what_is_built_by_hand_is_local() {
    assert_eq!(show(&RunContext::default(), "local"), "s3://local/local-linux/ -");
}

#[test]
fn a_run_from_before_the_move_is_found() {
    let told =
        RunFacts { origin: RunOrigin::Own, updated_at: Some("2025-10-01T00:00:00Z".to_owned()) };
    let place = |reference: &str| show_told(&RunContext::default(), Ok(told.clone()), reference);
    assert_eq!(place("7"), "s3://therock-artifacts/7-linux/ -");
    assert_eq!(
        place("https://github.com/ROCm/rocm-libraries/actions/runs/7"),
        "s3://therock-artifacts-external/ROCm-rocm-libraries/7-linux/ -"
    );
}

#[test]
fn defaults_are_assumed_and_printed() {
    let assumed = |context: &RunContext, told: Result<RunFacts>, reference: &str| {
        let resolved = context.resolve(&run(reference), Platform::Linux, |_| told);
        let assumed = resolved.unwrap().assumed;
        let lines: Vec<String> = assumed.iter().map(ToString::to_string).collect();
        format!("{reference}:\n  {}\n", lines.join("\n  "))
    };
    let laptop = RunContext::default();
    let offline = RunContext { is_offline: true, ..RunContext::default() };
    let nightly = RunContext { release_type: Some(ReleaseType::Nightly), ..offline.clone() };
    let elsewhere = "https://github.com/ROCm/rocm-libraries/actions/runs/7";
    let own = || Ok(facts(RunOrigin::Own));
    let silent = || Err(anyhow!("no network").context("GitHub does not answer now"));
    let here = inside("ROCm/rocm-libraries", "", None);
    let shown = [
        assumed(&laptop, own(), "7"),
        assumed(&laptop, silent(), elsewhere),
        assumed(&offline, silent(), "7"),
        assumed(&offline, silent(), elsewhere),
        assumed(&nightly, silent(), "7"),
        assumed(&here, silent(), "42"),
        assumed(&here, silent(), "8"),
    ];
    insta::assert_snapshot!(shown.concat(), @"
    7:
      run 7 has release type `ci`; pass `--release-type` if it has another
    https://github.com/ROCm/rocm-libraries/actions/runs/7:
      run 7 has release type `ci`; pass `--release-type` if it has another
      run 7 is from after 2025-11-11T16:18:48Z: GitHub does not answer now: no network
    7:
      run 7 has release type `ci`; pass `--release-type` if it has another
      run 7 did not build the code of a fork
      run 7 is from after 2025-11-11T16:18:48Z
    https://github.com/ROCm/rocm-libraries/actions/runs/7:
      run 7 has release type `ci`; pass `--release-type` if it has another
      run 7 is from after 2025-11-11T16:18:48Z
    7:
      
    42:
      
    8:
      run 8 has release type `ci`; pass `--release-type` if it has another
      run 8 is from after 2025-11-11T16:18:48Z: GitHub does not answer now: no network
    ");
    insta::assert_snapshot!(show_told(&laptop, silent(), "7"), @"
    error: GitHub does not answer now
      caused by: no network

    hint: pass `--bucket` to say where its outputs are
    ");
}

#[test]
fn the_home_repository_has_one_name_in_prefixes() {
    assert_eq!(
        show(&inside("rocm/therock", "", Some(FORK)), "42"),
        "s3://therock-ci-artifacts-external/ROCm-TheRock/42-linux/ -"
    );
}

#[test]
fn contradictions_and_releases_that_no_run_makes_are_errors() {
    let other =
        RunContext { repository: Some(repository("ROCm/rockrel")), ..RunContext::default() };
    let release = RunContext { release_type: Some(ReleaseType::Release), ..RunContext::default() };
    let url = "https://github.com/ROCm/TheRock/actions/runs/7";
    let messages = [show(&other, url), show(&release, "7")];
    insta::assert_snapshot!(messages.join("\n"), @"
    error: the run belongs to `ROCm/TheRock`, not to `ROCm/rockrel`

    error: no run keeps artifacts for release type `release`

    hint: pass `--bucket`, or the release type that was promoted
    ");
}

#[test]
fn what_is_empty_is_unset_and_what_is_wrong_names_its_variable() {
    let names = ["GITHUB_REPOSITORY", "RELEASE_TYPE", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT"];
    let empty = environment(&names.map(|name| (name, " ")), None).unwrap();
    assert!(empty.repository.is_none() && empty.release_type.is_none());
    assert!(empty.run_id.is_none() && empty.event.is_none() && empty.run_attempt.is_none());
    let payload = json!({"pull_request": {"head": {"repo": null}}}).to_string();
    let fork = environment(&[], Some(&payload)).unwrap();
    assert_eq!(fork.event.unwrap().origin, RunOrigin::Fork);
    let refusals = [
        environment(&[("GITHUB_REPOSITORY", "TheRock")], None),
        environment(&[("RELEASE_TYPE", "CI")], None),
        environment(&[("GITHUB_RUN_ID", "x")], None),
        environment(&[("GITHUB_RUN_ATTEMPT", "0")], None),
        environment(&[], Some("x")),
    ]
    .map(|result| error::render(&result.unwrap_err()));
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    error: failed to read `GITHUB_REPOSITORY`
      caused by: not a repository such as `ROCm/TheRock`: "TheRock"

    error: failed to read `RELEASE_TYPE`
      caused by: not a release type (ci, dev, dev-bkc, nightly, nightly-bkc, prerelease, release): "CI"

    error: failed to read `GITHUB_RUN_ID`
      caused by: not a run id such as `21440027240`, nor `local`: "x"

    error: failed to read `GITHUB_RUN_ATTEMPT`
      caused by: number would be zero for non-zero type

    error: failed to read the event's payload
      caused by: expected value at line 1 column 1

    hint: `GITHUB_EVENT_PATH` must name a JSON file, or be unset
    "#);
}

#[test]
fn a_run_has_one_place_for_a_package_set_of_each_group() {
    let resolve = |reference: &str, bucket: Option<&str>| {
        let context = RunContext {
            bucket: bucket.map(|name| name.parse().unwrap()),
            ..RunContext::default()
        };
        let told = |_: &Repository| Ok(facts(RunOrigin::Own));
        let resolved = context.resolve(&run(reference), Platform::Linux, told);
        resolved.unwrap()
    };
    let python = |run: Run, group: &str| run.python(&group.parse().unwrap()).to_string();
    let places = [
        python(resolve("42", None), ""),
        python(resolve("42", None), "gfx94X-dcgpu"),
        python(resolve("local", None), ""),
        python(resolve("42", Some("testing")), "multi-arch-release"),
        python(resolve("https://github.com/ROCm/rocm-libraries/actions/runs/7", None), ""),
    ];
    insta::assert_snapshot!(places.join("\n"), @"
    s3://therock-ci-artifacts/42-linux/python/
    s3://therock-ci-artifacts/42-linux/python/gfx94X-dcgpu/
    s3://local/local-linux/python/
    s3://testing/42-linux/python/
    s3://therock-ci-artifacts-external/ROCm-rocm-libraries/7-linux/python/
    ");
}

#[test]
fn only_the_run_of_this_process_has_an_attempt() {
    let variables = [
        ("GITHUB_RUN_ID", "42"),
        ("GITHUB_RUN_ATTEMPT", "2"),
        ("GITHUB_REPOSITORY", "ROCm/TheRock"),
    ];
    let context =
        RunContext { environment: environment(&variables, None).unwrap(), ..RunContext::default() };
    let attempt = |reference: &str| {
        let told = |_: &Repository| Ok(facts(RunOrigin::Own));
        let run = context.resolve(&run(reference), Platform::Linux, told).unwrap();
        run.attempt.map(|it| it.to_string())
    };
    assert_eq!(attempt("42").as_deref(), Some("2"));
    assert_eq!(attempt("43"), None);
    assert_eq!(attempt("https://github.com/ROCm/rockrel/actions/runs/42"), None);
}
