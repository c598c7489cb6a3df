//! Tests of rules that hold for all commands.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Args, CommandFactory as _, Parser};

use super::*;
use crate::commands::args::{AccessArgs, GitHubArgs, Jobs, RunArgs};

/// Groups that no verb may use yet.
#[derive(Debug, Parser)]
struct Probe {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    jobs: Jobs,
}

/// Every command, by its full name.
fn tree() -> BTreeMap<String, clap::Command> {
    fn collect(name: &str, command: &clap::Command, found: &mut BTreeMap<String, clap::Command>) {
        for below in command.get_subcommands() {
            let name = format!("{name} {}", below.get_name());
            collect(&name, below, found);
        }
        found.insert(name.to_owned(), command.clone());
    }
    let mut found = BTreeMap::new();
    for (name, mut command) in [
        ("rocwheel", args::tree::<Cli>()),
        ("probe", args::tree::<Probe>()),
    ] {
        command.build();
        collect(name, &command, &mut found);
    }
    found
}

/// The visible flags of a command, without `--help` and `--version`. Hidden flags, which exist
/// because another tool has them, are not included.
fn flags(command: &clap::Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        !argument.is_positional()
            && !argument.is_hide_set()
            && !matches!(
                argument.get_action(),
                ArgAction::Help | ArgAction::HelpLong | ArgAction::HelpShort | ArgAction::Version
            )
    })
}

#[test]
fn clap_finds_the_tree_in_order() {
    Cli::command().debug_assert();
    Probe::command().debug_assert();
}

#[test]
fn every_flag_has_a_variable_that_its_help_names() {
    for (name, mut command) in tree() {
        let help = command.render_long_help().to_string();
        for flag in flags(&command) {
            let Some(variable) = flag.get_env() else {
                panic!("`{name} {flag}` has no `env`");
            };
            let shown = format!("[env: {}]", variable.to_str().unwrap());
            assert!(
                help.contains(&shown),
                "`{name} --help` lacks {shown}:\n{help}"
            );
        }
    }
}

#[test]
fn a_variable_stands_for_one_flag() {
    for (name, command) in tree() {
        let mut variables: Vec<_> = flags(&command).filter_map(Arg::get_env).collect();
        let all = variables.len();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), all, "`{name}` reads a variable twice");
    }
}

#[test]
fn every_flag_and_every_command_says_what_it_is_without_a_full_stop() {
    for (name, command) in tree() {
        let about = command.get_about().map(ToString::to_string);
        let shown = command
            .get_arguments()
            .filter(|argument| !argument.is_hide_set());
        let helps = shown.map(|argument| {
            (
                argument.to_string(),
                argument.get_help().map(ToString::to_string),
            )
        });
        let about = (name != "probe").then_some((String::new(), about));
        for (argument, help) in helps.chain(about) {
            let help = help.unwrap_or_default();
            let fine = help.starts_with(|c: char| c.is_uppercase()) && !help.ends_with('.');
            assert!(fine, "`{name} {argument}` has the help {help:?}");
        }
    }
}

/// In clap, the heading of a group of arguments also applies to the arguments declared after it.
#[test]
fn nothing_strays_below_the_heading_of_another_group() {
    let names = |group: clap::Command| -> Vec<String> {
        let arguments = group.get_arguments();
        arguments.map(|it| it.get_id().to_string()).collect()
    };
    let none = || clap::Command::new("group");
    let no_check = Arg::new("no_check");
    let groups = [
        ("S3 options", names(AccessArgs::augment_args(none()))),
        ("GitHub options", names(GitHubArgs::augment_args(none()))),
        ("Global options", names(Options::augment_args(none()))),
        (
            "Build options",
            names(build::BuildInputs::augment_args(none())),
        ),
        (
            "Check options",
            names(check::Policy::augment_args(none().arg(no_check))),
        ),
    ];
    for (name, command) in tree() {
        for flag in flags(&command) {
            let heading = flag.get_help_heading();
            let own = groups.iter().find(|(it, _)| Some(*it) == heading);
            let strays = own.is_some_and(|(_, own)| !own.contains(&flag.get_id().to_string()));
            assert!(!strays, "`{name} {flag}` is below {heading:?}");
            let is_of_a_run = matches!(heading, Some("Run options"));
            let is_odd =
                is_of_a_run && matches!(flag.get_long(), Some("dry-run" | "to" | "output-dir"));
            assert!(!is_odd, "`{name} {flag}` is below {heading:?}");
        }
    }
}

#[test]
fn every_example_of_the_help_is_a_command_line() {
    let mut without = Vec::new();
    for (name, command) in tree() {
        let text = command.get_after_help().map(ToString::to_string);
        let text = text.unwrap_or_default();
        let examples: Vec<&str> = text.split("rocwheel ").skip(1).collect();
        if examples.is_empty() && name.split(' ').count() == 2 && !command.is_hide_set() {
            without.push(name);
        }
        for example in examples {
            let line = format!("rocwheel {}", example.lines().next().unwrap());
            let parsed = Cli::try_parse_from(line.split_whitespace());
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
    // Their usage shows which arguments they require.
    insta::assert_snapshot!(without.join("\n"), @"rocwheel help");
}

/// clap wraps at 100 columns, also a line that the source has already broken.
#[test]
fn the_end_of_a_help_is_not_wrapped_twice() {
    for (name, command) in tree() {
        let text = command.get_after_help().map(ToString::to_string);
        let text = text.unwrap_or_default();
        let mut examples = text.lines().filter(|it| it.starts_with("  rocwheel"));
        let long = examples.find(|it| it.len() > 100);
        assert!(
            long.is_none(),
            "an example of `{name}` is too long: {long:?}"
        );
        let is_text = |it: &&str| !it.is_empty() && !it.starts_with(' ') && !it.ends_with(':');
        let mut pairs = text.lines().zip(text.lines().skip(1));
        let broken = pairs.find(|(one, next)| is_text(one) && is_text(next));
        assert!(
            broken.is_none(),
            "a paragraph of `{name}` is broken: {broken:?}"
        );
    }
}

#[test]
fn a_flag_has_the_same_variable_in_every_command() {
    let mut seen: BTreeMap<String, (String, String)> = BTreeMap::new();
    for (name, command) in tree() {
        for flag in flags(&command) {
            let long = flag.get_long().unwrap_or_default().to_owned();
            // These differ by command: all findings or all places, only `index` finds the layout out,
            // a commit is of a run or of a framework, a set is installed or what a framework is built
            // against, and a target is that of code to extract or of this machine. A variable for one
            // must not change the other.
            if ["all", "layout", "commit", "set", "target"].contains(&long.as_str()) {
                continue;
            }
            let variable = flag.get_env().unwrap().to_str().unwrap().to_owned();
            let (first, other) = seen.entry(long).or_insert((variable.clone(), name.clone()));
            assert_eq!(
                *first, variable,
                "`{name} {flag}` and `{other} {flag}` differ"
            );
        }
    }
}

#[test]
fn the_probe_has_defaults_that_parse() {
    Probe::try_parse_from(["probe"]).unwrap();
}

#[test]
fn the_first_signal_asks_the_work_to_stop() {
    let stop = Stop::default();
    listen(&stop).unwrap();
    assert!(stop.check().is_ok());
    signal_hook::low_level::raise(SIGTERM).unwrap();
    assert!(stop.check().is_err());
}

#[test]
fn an_empty_value_counts_as_absent_for_every_flag() {
    /// Flags for which an empty value is an error: without them `upload` would write to the bucket
    /// of the run.
    const ERRORS: [&str; 2] = ["rocwheel upload --to", "rocwheel upload --output-dir"];
    let mut root = args::tree::<Cli>();
    root.build();
    let mut count = 0;
    for (name, command) in tree() {
        let path: Vec<&str> = name.split(' ').collect();
        let takes_value = |flag: &&Arg| flag.get_action().takes_values();
        for flag in command.get_arguments().filter(takes_value) {
            let Some(long) = flag.get_long().filter(|_| path[0] == "rocwheel") else {
                continue;
            };
            let line = |more: &[&str]| -> Vec<OsString> {
                let line = path.iter().chain(more).chain(&["--quiet"]);
                line.map(OsString::from).collect()
            };
            let (flag, joined) = (format!("--{long}"), format!("--{long}="));
            let is_error = ERRORS.contains(&&*format!("{name} {flag}"));
            for given in [&[flag.as_str(), ""][..], &[&joined]] {
                let read = args::without_empty(&root, line(given));
                assert_eq!(read == line(&[]), !is_error, "{name} {given:?}");
            }
            count += 1;
        }
    }
    assert!(count > 200, "{count}");
}
