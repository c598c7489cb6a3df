//! Where a run of CI keeps its outputs: for every combination of repository, release type, event,
//! group and platform, what rocwheel says beside what TheRock's scripts say.
//!
//! The scripts are modelled here by the rules that describe them, and share no code with rocwheel.
//! Where rocwheel differs on purpose, the difference is a row of docs/differences.md.

use std::collections::BTreeMap;

use itertools::iproduct;
use serde_json::{Value, json};
use strum::IntoEnumIterator as _;

use crate::run::{Environment, Platform, Repository, RunContext, RunFacts, RunReference};

const PAGE: &str = include_str!("../../../docs/differences.md");

/// Set as `GITHUB_REPOSITORY`; `None` is unset.
const REPOSITORIES: [Option<&str>; 8] = [
    None,
    Some(""),
    Some("ROCm/TheRock"),
    Some("rocm/therock"),
    Some("ROCm/rocm-libraries"),
    Some("ROCm/rocm-systems"),
    Some("ROCm/rockrel"),
    Some("somebody/TheRock"),
];

/// Set as `RELEASE_TYPE`; `None` is unset.
const RELEASE_TYPES: [Option<&str>; 10] = [
    None,
    Some(""),
    Some("ci"),
    Some("dev"),
    Some("dev-bkc"),
    Some("nightly"),
    Some("nightly-bkc"),
    Some("prerelease"),
    Some("release"),
    Some("bogus"),
];

#[derive(Clone, Copy, Debug, PartialEq, strum::EnumIter)]
enum Occasion {
    Push,
    Dispatch,
    Schedule,
    /// No event is described: a local shell, or a runner of another system.
    None,
    OwnPull,
    ForksPull,
    /// The fork was deleted meanwhile, so that GitHub names no head repository.
    GonePull,
    ForksPullTarget,
    AfterForksRun,
}

/// The group of a set, and its platform.
const SETS: [(&str, Platform); 2] = [("gfx94X-dcgpu", Platform::Linux), ("", Platform::Windows)];

#[derive(Clone, Copy, Debug)]
struct Case {
    repository: Option<&'static str>,
    release_type: Option<&'static str>,
    occasion: Occasion,
    group: &'static str,
    platform: Platform,
}

/// The address of a set, and the role that may write it. `None` is an error.
type Expected = Option<(String, Option<String>)>;

fn cases() -> impl Iterator<Item = Case> {
    let all = iproduct!(REPOSITORIES, RELEASE_TYPES, Occasion::iter(), SETS);
    all.map(|(repository, release_type, occasion, (group, platform))| Case {
        repository,
        release_type,
        occasion,
        group,
        platform,
    })
}

/// What TheRock's scripts do, as its rules are described.
fn upstream(case: Case) -> Expected {
    let repository = case.repository.unwrap_or("ROCm/TheRock");
    let (owner, name) = repository.split_once('/')?;
    // A field of nothing is read.
    let is_fork = match case.occasion {
        Occasion::GonePull => return None,
        occasion => occasion == Occasion::ForksPull,
    };
    let (bucket, role) = match case.release_type.unwrap_or("ci") {
        "ci" if is_fork || repository != "ROCm/TheRock" => {
            ("therock-ci-artifacts-external", "therock-ci-external")
        }
        "ci" => ("therock-ci-artifacts", "therock-ci"),
        "dev" => ("therock-dev-artifacts", "therock-dev"),
        "nightly" => ("therock-nightly-artifacts", "therock-nightly"),
        // Since 2026-08-25: https://github.com/ROCm/TheRock/pull/7646
        "dev-bkc" | "nightly-bkc" => ("therock-bkc-artifacts", "therock-bkc"),
        "prerelease" => ("therock-prerelease-artifacts", "therock-prerelease"),
        _ => return None,
    };
    let shared = if bucket == "therock-ci-artifacts-external" {
        format!("{owner}-{name}/")
    } else {
        String::new()
    };
    let group = match case.group {
        "" => String::new(),
        group => format!("{group}/"),
    };
    let address = format!("s3://{bucket}/{shared}42-{}/python/{group}", case.platform);
    Some((address, (!is_fork).then(|| role.to_owned())))
}

/// A difference on purpose: the beginning of its row in docs/differences.md, where it applies, and the case in
/// which TheRock's scripts do what rocwheel does here. The last one has no role.
type Exception = (&'static str, fn(&Case) -> bool, fn(&mut Case));

const EMPTY: &str = "| An empty `RELEASE_TYPE` or `GITHUB_REPOSITORY` is an error |";
const NAMES: &str = "| Repository names and missing head repositories are compared as text |";
const EVENTS: &str =
    "| `pull_request_target` and `workflow_run` events of a fork count as the repository's own |";
const FORKS: &str = "| A run of a repository that is a fork gets the role of the external bucket |";

#[rustfmt::skip]
const EXCEPTIONS: [Exception; 6] = [
    (EMPTY, |it| it.repository == Some(""), |it| it.repository = None),
    (EMPTY, |it| it.release_type == Some(""), |it| it.release_type = None),
    (NAMES, |it| it.repository == Some("rocm/therock"), |it| it.repository = Some("ROCm/TheRock")),
    (NAMES, |it| it.occasion == Occasion::GonePull, |it| it.occasion = Occasion::ForksPull),
    (EVENTS, |it| matches!(it.occasion, Occasion::ForksPullTarget | Occasion::AfterForksRun),
        |it| it.occasion = Occasion::ForksPull),
    (FORKS, |it| it.repository == Some("somebody/TheRock") && it.occasion != Occasion::None, |_| ()),
];

/// What GitHub says of the event to a run of a repository.
fn payload(case: Case) -> Option<Value> {
    let name = case.repository.filter(|it| !it.is_empty());
    let here = name.unwrap_or("ROCm/TheRock");
    let home = json!({"full_name": here, "fork": here == "somebody/TheRock"});
    let theirs = json!({"full_name": "stranger/TheRock", "fork": true});
    let pull = |head: &Value| json!({"repository": home, "pull_request": {"head": {"repo": head}, "base": {"repo": home}}});
    Some(match case.occasion {
        Occasion::None => return None,
        Occasion::Push => json!({"repository": home, "ref": "refs/heads/main"}),
        Occasion::Dispatch => json!({"repository": home, "inputs": {}}),
        Occasion::Schedule => json!({"repository": home, "schedule": "0 1 * * *"}),
        Occasion::OwnPull => pull(&home),
        Occasion::ForksPull | Occasion::ForksPullTarget => pull(&theirs),
        Occasion::GonePull => pull(&Value::Null),
        Occasion::AfterForksRun => {
            json!({"repository": home, "workflow_run": {"head_repository": theirs}})
        }
    })
}

fn ours(case: Case) -> Expected {
    let variable = |name: &str| match name {
        "GITHUB_REPOSITORY" => case.repository.map(str::to_owned),
        "RELEASE_TYPE" => case.release_type.map(str::to_owned),
        "GITHUB_RUN_ID" => Some("42".to_owned()),
        _ => None,
    };
    let payload = payload(case).map(|payload| payload.to_string());
    let environment = Environment::parse(variable, payload.as_deref()).ok()?;
    let context = RunContext { environment, ..RunContext::default() };
    let run: RunReference = "42".parse().unwrap();
    let asked = |_: &_| panic!("GitHub is asked about this run");
    let run = context.resolve(&run, case.platform, asked).ok()?;
    assert!(run.assumed.is_empty(), "{:?}", run.assumed);
    let name =
        |role: &String| role.strip_prefix("arn:aws:iam::692859939525:role/").unwrap().to_owned();
    let role = run.role.as_ref().map(name);
    Some((run.python(&case.group.parse().unwrap()).to_string(), role))
}

#[test]
fn a_run_is_where_upstream_puts_it_or_a_row_says_why_not() {
    for (row, ..) in EXCEPTIONS {
        assert!(PAGE.contains(&format!("\n{row}")), "no such row: {row}");
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    assert_eq!(cases().count(), 1440);
    for case in cases() {
        let (mut like, mut rows) = (case, Vec::new());
        for (row, applies, instead) in EXCEPTIONS {
            if applies(&case) {
                instead(&mut like);
                rows.push(row);
            }
        }
        let has_role = !rows.contains(&FORKS);
        let expected = upstream(like);
        let expected = expected.map(|(address, role)| (address, role.filter(|_| has_role)));
        assert_eq!(ours(case), expected, "{case:?}");
        let kind = match (&expected, expected == upstream(case)) {
            (None, _) => "both refuse",
            (Some(_), true) => "the same",
            // An exception that nothing needs would hide an unintended difference.
            (Some(_), false) => *rows.first().expect("a difference has a row"),
        };
        *counts.entry(kind).or_default() += 1;
    }
    insta::assert_debug_snapshot!(counts, @r#"
    {
        "both refuse": 288,
        "the same": 508,
        "| A run of a repository that is a fork gets the role of the external bucket |": 56,
        "| An empty `RELEASE_TYPE` or `GITHUB_REPOSITORY` is an error |": 270,
        "| Repository names and missing head repositories are compared as text |": 150,
        "| `pull_request_target` and `workflow_run` events of a fork count as the repository's own |": 168,
    }
    "#);
}

/// Where another run is, by what GitHub says about it.
#[test]
fn another_run_is_where_its_head_and_its_date_say() {
    const MOVED: &str = "2025-11-11T16:18:48Z";
    let dates = [None, Some("2025-06-01T00:00:00Z"), Some(MOVED), Some("2025-11-11T16:18:49Z")];
    let mut count = 0;
    for repository in ["ROCm/TheRock", "ROCm/rocm-libraries", "ROCm/rockrel"] {
        let heads = [
            json!({"full_name": repository}),
            json!({"full_name": repository.to_lowercase()}),
            json!({"full_name": "stranger/TheRock"}),
            Value::Null,
            json!({}),
        ];
        for (at, head) in heads.iter().enumerate() {
            for date in dates {
                for release_type in [None, Some("nightly"), Some("prerelease")] {
                    let is_old = date.is_some_and(|date| date <= MOVED);
                    let is_own = repository == "ROCm/TheRock" && at < 2;
                    let expected = match (release_type, is_own, is_old) {
                        (Some(kind), ..) => format!("therock-{kind}-artifacts/7-linux"),
                        (None, true, false) => "therock-ci-artifacts/7-linux".to_owned(),
                        (None, true, true) => "therock-artifacts/7-linux".to_owned(),
                        (None, false, _) => {
                            let kind = if is_old { "" } else { "ci-" };
                            let prefix = repository.replace('/', "-");
                            format!("therock-{kind}artifacts-external/{prefix}/7-linux")
                        }
                    };
                    let context = RunContext {
                        repository: Some(repository.parse().unwrap()),
                        release_type: release_type.map(|it| it.parse().unwrap()),
                        ..RunContext::default()
                    };
                    let told = json!({"head_repository": head, "updated_at": date});
                    let lookup = |repository: &Repository| {
                        let head = head["full_name"].as_str();
                        let updated_at = date.map(str::to_owned);
                        Ok(RunFacts::new(repository, head, updated_at))
                    };
                    let run: RunReference = "7".parse().unwrap();
                    let run = context.resolve(&run, Platform::Linux, lookup).unwrap();
                    let place = format!("{}/{}", run.bucket, run.prefix);
                    assert_eq!(place, expected, "{repository} {release_type:?} {told}");
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, 180);
}
