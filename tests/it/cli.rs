//! What the binary says when nothing is built yet: help, versions, refusals, and its manners.

use std::process::Command;

use crate::support::program::{ROCWHEEL, succeed};
use regex::Regex;

/// What a run of the binary came to.
struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

/// The binary in an environment that holds only `variables`: `NO_COLOR=1 CI=true`.
fn command(variables: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(ROCWHEEL);
    command.env_clear().args(arguments);
    for pair in variables.split_whitespace() {
        let (name, value) = pair.split_once('=').unwrap();
        command.env(name, value);
    }
    command
}

fn run(variables: &str, arguments: &[&str]) -> Outcome {
    let output = command(variables, arguments).output().unwrap();
    Outcome {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Code and both streams, for one snapshot.
fn shown(variables: &str, arguments: &[&str]) -> String {
    let Outcome {
        code,
        stdout,
        stderr,
    } = run(variables, arguments);
    let stdout = stdout.replace('\u{1b}', "^");
    let stderr = stderr.replace('\u{1b}', "^");
    format!("exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
}

#[test]
fn no_arguments_are_answered_with_help_on_stderr() {
    let outcome = run("", &[]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    assert_eq!(outcome.stderr, run("", &["-h"]).stdout);
}

#[test]
fn help_is_data() {
    let long = run("", &["--help"]);
    assert_eq!((long.code, long.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(shown("", &["-h"]));
}

#[test]
fn the_help_of_a_command_names_every_variable() {
    insta::assert_snapshot!(shown("", &["completions", "--help"]), @"
    exit 0
    --- stdout
    Print a completion script for a shell

    Usage: rocwheel completions [OPTIONS] <SHELL>

    Arguments:
      <SHELL>
              Shell that reads the script
              
              [possible values: bash, elvish, fish, powershell, zsh]

    Options:
      -h, --help
              Print help (see a summary with '-h')

    Global options:
      -q, --quiet...
              Print less: -q only warnings and errors, -qq only errors
              
              [env: ROCWHEEL_QUIET]

      -v, --verbose...
              Print more details
              
              [env: ROCWHEEL_VERBOSE]

          --format <FORMAT>
              Output format on stdout [default: github in GitHub Actions, else text]

              Possible values:
              - text:   Human-readable text
              - json:   One JSON document
              - github: Text with groups and annotations for the log of GitHub Actions
              - sarif:  SARIF 2.1.0 for code scanning; only for `check`
              
              [env: ROCWHEEL_FORMAT]

          --color <WHEN>
              When to use colors [default: on a terminal and in GitHub Actions]; `NO_COLOR` and
              `CLICOLOR_FORCE` are read too
              
              [env: ROCWHEEL_COLOR]
              [possible values: auto, always, never]

          --no-progress
              Print no progress
              
              [env: ROCWHEEL_NO_PROGRESS]

    Examples:
      rocwheel completions bash

    Write the output to a file that the shell reads:
      bash  ~/.local/share/bash-completion/completions/rocwheel
      fish  ~/.config/fish/completions/rocwheel.fish
      zsh   _rocwheel, in a directory of $fpath
    --- stderr
    ");
}

#[test]
fn help_does_not_depend_on_what_the_variables_hold() {
    let plain = run("", &["completions", "--help"]).stdout;
    let variables = "ROCWHEEL_COLOR=never ROCWHEEL_FORMAT= ROCWHEEL_VERBOSE=2";
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
fn an_unknown_command_is_a_usage_error() {
    insta::assert_snapshot!(shown("", &["completion"]), @"
    exit 2
    --- stdout
    --- stderr
    error: unrecognized subcommand 'completion'

      tip: some similar subcommands exist: 'promote', 'action', 'completions'

    Usage: rocwheel [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn an_unknown_flag_is_a_usage_error() {
    insta::assert_snapshot!(shown("", &["man", "--vebose"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: unexpected argument '--vebose' found

      tip: a similar argument exists: '--verbose'

    Usage: rocwheel man --verbose... [VERB]

    For more information, try '--help'.
    ");
}

#[test]
fn a_usage_error_can_be_json() {
    insta::assert_snapshot!(shown("", &["--format", "json", "man", "--vebose"]), @r#"
    exit 2
    --- stdout
    {"schema":"rocwheel-error-v1","error":"unexpected argument '--vebose' found","causes":[],"hints":["a similar argument exists: '--verbose'"],"exit":2}
    --- stderr
    error: unexpected argument '--vebose' found

      tip: a similar argument exists: '--verbose'

    Usage: rocwheel man --verbose... [VERB]

    For more information, try '--help'.
    "#);
}

#[test]
fn a_usage_error_is_annotated_in_actions() {
    let arguments = ["man", "x\n::add-mask::y\n##[error]z"];
    insta::assert_snapshot!(shown("GITHUB_ACTIONS=true NO_COLOR=1", &arguments), @r"
    exit 2
    --- stdout
    --- stderr
    error: no such verb: `x
    \::add-mask::y
    ##\[error]z`

    hint: `rocwheel --help` lists the verbs
    ::error title=no such verb%3A `x%0A\%3A%3Aadd-mask%3A%3Ay%0A##\[error]z`::hint: `rocwheel --help` lists the verbs
    ");
}

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
    let list = tip(
        "ROCWHEEL_REQUIRE_TARGETS=gfx9999",
        &["pipeline", "--sample", "--output-dir", "out"],
    );
    insta::assert_snapshot!(list.unwrap(), @"tip: the value comes from the environment variable `ROCWHEEL_REQUIRE_TARGETS`");
    let targets = tip(
        "ROCWHEEL_TARGETS=generic",
        &[
            "build",
            "--artifact-dir",
            ".",
            "--dest-dir",
            "out",
            "--only",
            "device",
        ],
    );
    insta::assert_snapshot!(targets.unwrap(), @"tip: the value comes from the environment variable `ROCWHEEL_TARGETS`");
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
        assert_eq!(
            error.contains('\u{1b}'),
            expected,
            "{variables:?} {flags:?}"
        );
    }
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
    insta::assert_snapshot!(shown("", &["completions", "tcsh"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'tcsh' for '<SHELL>'
      [possible values: bash, elvish, fish, powershell, zsh]

      tip: a similar value exists: 'zsh'

    For more information, try '--help'.
    ");
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
    insta::assert_snapshot!(shown("", &["man", "frobnicate"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: no such verb: `frobnicate`

    hint: `rocwheel --help` lists the verbs
    ");
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
    let output = command("", &["man"])
        .stdout(full.into_parts().0)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    let parts = [
        "standard output\n",
        "No space left on device",
        "hint: free disk space",
    ];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}
