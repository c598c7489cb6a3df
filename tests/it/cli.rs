//! What the binary says when nothing is built yet: help, versions, refusals, and its manners.

use crate::support::prelude::*;
use crate::support::program;

/// The binary in an environment that holds only `variables`: `NO_COLOR=1 CI=true`.
fn command(variables: &str, arguments: &[&str]) -> Command {
    let mut command = program::command();
    command.args(arguments);
    for pair in variables.split_whitespace() {
        let (name, value) = pair.split_once('=').unwrap();
        command.env(name, value);
    }
    command
}

fn run(variables: &str, arguments: &[&str]) -> Outcome {
    Outcome::of(command(variables, arguments).output().unwrap())
}

/// Code and streams, for one snapshot. What is on stdout is marked.
fn shown(variables: &str, arguments: &[&str]) -> String {
    let Outcome { code, stdout, stderr } = run(variables, arguments);
    let stdout =
        if stdout.is_empty() { stdout } else { format!("--- stdout\n{stdout}--- stderr\n") };
    format!("exit {code}\n{stdout}{stderr}").replace('\u{1b}', "^")
}

#[test]
fn no_arguments_are_answered_with_help_on_stderr() {
    let outcome = run("", &[]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    assert_eq!(outcome.stderr, run("", &["-h"]).stdout);
    let long = run("", &["--help"]);
    assert_eq!((long.code, long.stderr.as_str()), (0, ""));
    assert!(long.stdout.contains("\nExit codes: 0 done, "));
}

/// Opening a pipe waits for its writer, and nothing ends that.
#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_document_is_refused_at_once() {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    let pipe = pipe.to_str().unwrap();
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    for line in [
        "summary . --findings PIPE",
        "kpack ls PIPE",
        "deps check --lock PIPE",
        "version --release-type nightly --version-file PIPE",
        "framework show --framework PIPE x.whl",
    ] {
        let arguments: Vec<&str> =
            line.split(' ').map(|it| it.replace("PIPE", pipe).leak() as &str).collect();
        let said = run("", &arguments);
        assert_eq!(said.code, 2, "{line}: {}", said.stderr);
        assert_has!(said.stderr, pipe);
    }
}

#[test]
fn help_does_not_depend_on_what_the_variables_hold() {
    let plain = run("", &["completions", "--help"]).stdout;
    let variables = "ROCWHEEL_COLOR=never ROCWHEEL_FORMAT=";
    assert_eq!(run(variables, &["completions", "--help"]).stdout, plain);
}

#[test]
fn the_version_may_name_a_commit() {
    let version = run("", &["--version"]);
    let expected = Regex::new(r"^rocwheel \d+\.\d+\.\d+( \([0-9a-f]{7,40}\))?\n$").unwrap();
    assert!(expected.is_match(&version.stdout), "{:?}", version.stdout);
    assert_eq!((version.code, version.stderr.as_str()), (0, ""));
}

#[test]
fn a_usage_error_has_advice_and_can_be_json() {
    let said = shown("", &["completion"]);
    assert_has!(said, "exit 2\nerror: unrecognized subcommand 'completion'\n\n  tip: a similar");
    insta::assert_snapshot!(shown("", &["--format", "json", "man", "--vebose"]), @r#"
    exit 2
    --- stdout
    {"schema":"rocwheel-error-v1","error":"unexpected argument '--vebose' found","causes":[],"hints":["a similar argument exists: '--verbose'"],"exit":2}
    --- stderr
    error: unexpected argument '--vebose' found

      tip: a similar argument exists: '--verbose'

    Usage: rocwheel man [OPTIONS] [VERB]

    For more information, try '--help'.
    "#);
}

#[test]
fn a_usage_error_is_json_wherever_the_format_stands() {
    for line in [
        &["man", "--vebose", "--format", "json"][..],
        &["man", "--vebose", "--format=json"],
        &["--format", "json", "kpack", "nothing"],
        &["kpack", "nothing", "--format", "json"],
        &["upload", "--format", "json"],
        &["man", "--vebose", "--json"],
    ] {
        let said = run("", line);
        assert_eq!(said.code, 2, "{line:?}");
        let start = "{\"schema\":\"rocwheel-error-v1\",";
        assert!(said.stdout.starts_with(start), "{line:?} {}", said.stdout);
    }
}

#[test]
fn a_rule_is_explained_as_a_document_too() {
    let said = run("", &["check", "explain", "RW405", "--format", "json"]);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(document["schema"], "rocwheel-report-v1");
    let text = document["explanation"].as_str().unwrap();
    assert!(text.starts_with("RW405 "), "{text}");
}

#[test]
fn a_usage_error_is_annotated_in_actions() {
    let arguments = ["man", "x\n::add-mask::y\n##[error]z"];
    insta::assert_snapshot!(shown("GITHUB_ACTIONS=true NO_COLOR=1", &arguments), @r"
    exit 2
    error: no such verb: `x
    \::add-mask::y
    ##\[error]z`

    hint: `rocwheel --help` lists the verbs
    ::error title=no such verb%3A `x%0A\%3A%3Aadd-mask%3A%3Ay%0A##\[error]z`::hint: `rocwheel --help` lists the verbs
    ");
}

#[test]
fn a_bad_variable_is_named_but_not_for_a_bad_flag() {
    insta::assert_snapshot!(shown("ROCWHEEL_FORMAT=yaml", &["man"]), @r#"
    exit 2
    error: failed to read the environment variable `ROCWHEEL_FORMAT`
      caused by: not one of text, json, github: "yaml"

    hint: correct the variable, or unset it
    "#);
    let both = run("ROCWHEEL_FORMAT=yaml", &["man", "--format", "xml"]);
    assert!(both.stderr.contains("'xml'") && !both.stderr.contains("environment variable"));
}

#[test]
fn a_variable_that_is_set_and_empty_is_absent() {
    let variables = "ROCWHEEL_FORMAT= ROCWHEEL_COLOR= ROCWHEEL_NO_PROGRESS= RELEASE_TYPE=";
    let outcome = run(variables, &["man"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
}

/// Decides nothing, because the directory is not there.
const UPLOAD: [&str; 4] = ["upload", "nowhere", "--output-dir", "out"];

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
        assert_has!(outcome.stderr, "did you mean `gfx94X-dcgpu`?");
    }
}

#[test]
fn a_flag_has_its_way_against_a_variable_that_contradicts_it() {
    let read = upload("", &["--multi-target"]);
    assert_has!(read, "nowhere");
    let group = "ARTIFACT_GROUP=gfx94X-dcgpu";
    assert_eq!(upload(group, &["--multi-target"]), read);
    // TheRock's jobs pass both: the group of such a set is only a name.
    let both = ["--multi-target", "--artifact-group", "multi-arch-release"];
    assert_eq!(upload("", &both), read);
}

#[test]
fn a_switch_in_a_variable_says_yes_or_no() {
    // Both are refused before anything is asked.
    let place = |value: &str| {
        let variable = format!("ROCWHEEL_OFFLINE={value}");
        run(&variable, &["fetch", "--latest", "--run-id", "7"]).stderr
    };
    for yes in ["1", "true", "yes", "on"] {
        assert!(place(yes).contains("`--offline`"), "{yes}");
    }
    for no in ["0", "false", "No", "off", ""] {
        assert!(!place(no).contains("`--offline`"), "{no}");
    }
    let maybe = place("maybe");
    assert_has!(maybe, "error: failed to read the environment variable `ROCWHEEL_OFFLINE`\n");
    assert_has!(maybe, "caused by: neither `true` nor `false`: \"maybe\"");
}

#[test]
fn colors_come_when_asked_for_and_go_when_unwanted() {
    let rows = [
        ("", &[][..], false),
        ("CLICOLOR_FORCE=1", &[], true),
        ("FORCE_COLOR=1", &[], true),
        ("GITHUB_ACTIONS=true", &[], true),
        ("CLICOLOR_FORCE=1 NO_COLOR=1", &[], false),
        ("NO_COLOR=1", &["--color", "always"], true),
        ("CLICOLOR_FORCE=1", &["--color", "never"], false),
        ("CLICOLOR_FORCE=1 ROCWHEEL_COLOR=never", &[], false),
    ];
    for (variables, flags, expected) in rows {
        let help = run(variables, &[flags, &["--help"]].concat()).stdout;
        assert_eq!(help.contains('\u{1b}'), expected, "{variables:?} {flags:?}");
        let error = run(variables, &[flags, &["frobnicate"]].concat()).stderr;
        let is_coloured = error.contains('\u{1b}');
        assert_eq!(is_coloured, expected, "{variables:?} {flags:?}");
    }
    let behind_the_mistake = ["frobnicate", "--color", "never"];
    assert!(!run("CLICOLOR_FORCE=1", &behind_the_mistake).stderr.contains('\u{1b}'));
}

#[test]
fn each_shell_gets_its_script() {
    let first_line = |shell| {
        let outcome = run("", &["completions", shell]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{shell}");
        assert!(outcome.stdout.contains("rocwheel"), "{shell}");
        let first = outcome.stdout.lines().find(|line| !line.is_empty());
        first.unwrap().to_owned()
    };
    let lines: Vec<String> = ["bash", "zsh", "fish", "powershell"].map(first_line).into();
    insta::assert_snapshot!(lines.join("\n"), @r"
    _rocwheel() {
    #compdef rocwheel
    # Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
    using namespace System.Management.Automation
    ");
    let said = shown("", &["completions", "tcsh"]);
    assert_has!(said, "exit 2\nerror: invalid value 'tcsh'", "tip: a similar value exists: 'zsh'");
}

#[cfg(unix)]
#[test]
fn bash_understands_its_script() {
    let file = crate::support::place::empty("cli").join("completions");
    fs_err::write(&file, run("", &["completions", "bash"]).stdout).unwrap();
    succeed(Command::new("bash").arg("-n").arg(&file));
}

#[test]
fn manual_pages_are_roff() {
    let page = |arguments: &[&str]| {
        let outcome = run("", arguments);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
        let lines: Vec<&str> = outcome.stdout.lines().skip(2).take(3).collect();
        let version = Regex::new(r#"rocwheel \d+\.[^"]*"#).unwrap();
        let page = lines.join("\n");
        version.replace(&page, "rocwheel VERSION").into_owned()
    };
    insta::assert_snapshot!(page(&["man"]), @r#"
    .TH rocwheel 1  "rocwheel VERSION" 
    .SH NAME
    rocwheel \- Build, check and publish the Python packages of a ROCm CI run
    "#);
    insta::assert_snapshot!(page(&["man", "completions"]), @r#"
    .TH rocwheel-completions 1  "rocwheel VERSION" 
    .SH NAME
    rocwheel\-completions \- Print a completion script for a shell
    "#);
}

#[test]
fn a_reader_who_left_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command("", &["man"]).stdout(writer).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = fs_err::File::create("/dev/full").unwrap();
    let full = full.into_parts().0;
    let output = command("", &["man"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_has!(said, "standard output\n", "No space left on device", "hint: free disk space");
}
