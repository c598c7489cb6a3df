//! Flags and environment variables: which of them decides, and tips about both.

use super::{run, shown};

#[test]
fn a_bad_variable_is_named_but_not_for_a_bad_flag() {
    insta::assert_snapshot!(shown("ROCWHEEL_FORMAT=yaml", &["man"]), @"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'yaml' for '--format <FORMAT>'
      [possible values: text, json, github, sarif]

      tip: the value comes from the environment variable `ROCWHEEL_FORMAT`

    For more information, try '--help'.
    ");
    let both = run("ROCWHEEL_FORMAT=yaml", &["man", "--format", "xml"]);
    assert!(both.stderr.contains("'xml'") && !both.stderr.contains("environment variable"));
}

#[test]
fn a_variable_that_is_set_and_empty_is_absent() {
    let variables = "ROCWHEEL_FORMAT= ROCWHEEL_COLOR= ROCWHEEL_QUIET= ROCWHEEL_NO_PROGRESS=";
    let outcome = run(variables, &["man"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
}

/// Decides nothing, because the directory is not there.
const UPLOAD: [&str; 5] = ["upload", "--packages-dir", "nowhere", "--output-dir", "out"];

fn upload(variables: &str, flags: &[&str]) -> String {
    let outcome = run(variables, &[&UPLOAD, flags].concat());
    assert_eq!(outcome.code, 2);
    outcome.stderr.lines().next().unwrap().to_owned()
}

#[test]
fn a_group_that_ci_does_not_have_is_refused_by_every_command() {
    let group = ["--artifact-group", "gfx94x-dcgpu"];
    for verb in ["fetch", "pipeline", "place", "summary", "upload"] {
        let outcome = run("", &[&[verb, "--run-id", "7"][..], &group].concat());
        assert_eq!(outcome.code, 2, "{verb}");
        let nearest = "did you mean `gfx94X-dcgpu`?";
        assert!(
            outcome.stderr.contains(nearest),
            "{verb}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn a_flag_has_its_way_against_a_variable_that_contradicts_it() {
    let read = upload("", &["--multi-target"]);
    assert!(read.contains("nowhere"), "{read}");
    let group = "ARTIFACT_GROUP=gfx94X-dcgpu";
    assert_eq!(upload(group, &["--multi-target"]), read);
    let multi = "ROCWHEEL_MULTI_TARGET=true";
    assert_eq!(upload(multi, &["--artifact-group", "gfx94X-dcgpu"]), read);
    // TheRock's jobs pass both: the group of such a set is only a name.
    assert_eq!(upload(&format!("{group} {multi}"), &[]), read);
    let both = ["--multi-target", "--artifact-group", "multi-arch-release"];
    assert_eq!(upload("", &both), read);
}

#[test]
fn a_flag_given_twice_is_a_usage_error_also_below_a_verb() {
    let twice = ["--artifact-dir", "a", "--artifact-dir", "b"];
    let more = ["--output-dir", "o", "--family", "gfx94X-dcgpu"];
    let line = [&["kpack", "recombine"][..], &twice, &more].concat();
    insta::assert_snapshot!(shown("", &line), @"
    exit 2
    --- stdout
    --- stderr
    error: the argument '--artifact-dir <DIR>' cannot be used multiple times

    Usage: rocwheel kpack recombine [OPTIONS] --artifact-dir <DIR> --output-dir <DIR> --family <FAMILY>

    For more information, try '--help'.
    ");
    let twice = ["--run-id", "7", "--run-id", "8"];
    let line = [&["place"][..], &twice].concat();
    for variables in ["", "ARTIFACT_GROUP=gfx942 ROCWHEEL_ALL_PLACES=true"] {
        let outcome = run(variables, &line);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(
            outcome
                .stderr
                .contains("'--run-id <RUN>' cannot be used multiple times"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn the_unknown_flag_json_gets_a_tip_that_works() {
    for verb in ["fetch", "check", "version"] {
        let tip = tip("", &[verb, "--json"]);
        assert_eq!(tip.unwrap(), "tip: '--format json' prints JSON", "{verb}");
    }
}

/// The first tip that clap's error has, if any.
fn tip(variables: &str, arguments: &[&str]) -> Option<String> {
    let outcome = run(variables, arguments);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    let mut lines = outcome.stderr.lines();
    let tip = lines.find(|line| line.contains("tip: "))?;
    Some(tip.trim().to_owned())
}

#[test]
fn a_variable_that_did_not_decide_is_not_blamed() {
    let conflict = ["place", "--artifact-group", "x/y", "--run-id", "7"];
    assert_eq!(
        tip("ARTIFACT_GROUP=gfx942 RELEASE_TYPE=ci", &conflict),
        None
    );
    let both = ["fetch", "--no-extract", "--flatten", "--run-id", "7"];
    for variables in [
        "",
        "ROCWHEEL_FLATTEN=true ROCWHEEL_NO_EXTRACT=true",
        "ARTIFACT_GROUP=gfx942 GITHUB_RUN_ID=7",
    ] {
        assert_eq!(tip(variables, &both), None, "{variables}");
    }
    let blamed = tip(
        "ROCWHEEL_FLATTEN=true ROCWHEEL_NO_EXTRACT=true",
        &["fetch", "--run-id", "7"],
    );
    assert!(blamed.unwrap().contains("environment variable `ROCWHEEL_"));
}

#[test]
fn a_switch_in_a_variable_says_yes_or_no() {
    let read = upload("", &["--multi-target"]);
    for yes in ["1", "true", "yes", "on"] {
        assert_eq!(
            upload(&format!("ROCWHEEL_MULTI_TARGET={yes}"), &[]),
            read,
            "{yes}"
        );
    }
    for no in ["0", "false", "No", "off"] {
        let variables = format!("ROCWHEEL_MULTI_TARGET={no} ARTIFACT_GROUP=gfx94X-dcgpu");
        assert_eq!(upload(&variables, &[]), read, "{no}");
        let missing = upload(&format!("ROCWHEEL_MULTI_TARGET={no}"), &[]);
        assert!(missing.contains("required"), "{missing}");
    }
    insta::assert_snapshot!(upload("ROCWHEEL_MULTI_TARGET=maybe", &[]), @"error: invalid value 'maybe' for '--multi-target': value was not a boolean");
}

#[test]
fn a_count_in_a_variable_may_be_a_word() {
    for value in ["1", "true", "0", "off"] {
        assert_eq!(run(&format!("ROCWHEEL_VERBOSE={value}"), &["man"]).code, 0);
    }
    insta::assert_snapshot!(shown("ROCWHEEL_QUIET=much", &["man"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'much' for '--quiet...': expected a number, `true` or `false`

      tip: the value comes from the environment variable `ROCWHEEL_QUIET`

    For more information, try '--help'.
    ");
}
