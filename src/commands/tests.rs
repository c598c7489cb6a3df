//! Tests of rules that hold for all commands, and of what one command hands to another one.

#[cfg(target_os = "linux")]
mod built;
#[cfg(target_os = "linux")]
mod mutation;
#[cfg(target_os = "linux")]
mod of_build;
#[cfg(target_os = "linux")]
mod sets;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use clap::{Arg, ArgAction, Args, CommandFactory as _};

use super::*;
use crate::commands::args::{AccessArgs, GitHubArgs, MachineArgs, PROXIES, PageArgs, variable_of};

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
    let mut command = Cli::command();
    command.build();
    collect("rocwheel", &command, &mut found);
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
}

/// docs/action.md lists those of our own.
#[test]
fn the_variables_are_few_and_documented() {
    let page = include_str!("../../docs/action.md");
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    for (name, command) in tree() {
        let mut variables: Vec<_> = flags(&command).filter_map(variable_of).collect();
        let all = variables.len();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), all, "`{name}` reads a variable twice");
        let help = command.clone().render_help().to_string();
        assert!(!help.contains("[env:"), "`{name} -h` has variables");
        for flag in flags(&command) {
            let variable = variable_of(flag).filter(|it| it.starts_with("ROCWHEEL_"));
            let Some(variable) = variable else {
                continue;
            };
            assert!(page.contains(&format!("| `{variable}` |")), "{variable}");
            let first = own.entry(variable.clone()).or_insert(flag.to_string());
            assert_eq!(*first, flag.to_string(), "{name}: {variable} is for two flags");
        }
    }
    assert!(own.len() > 8 && own.len() < 14, "{own:?}");
}

/// What the arguments of a line become in an environment, and the variables that were looked at.
fn read(line: &str, value: &str) -> (Result<Cli>, BTreeSet<String>) {
    let asked = RefCell::new(BTreeSet::new());
    let variable = |name: &str| {
        asked.borrow_mut().insert(name.to_owned());
        Some(OsString::from(value))
    };
    let mut cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
    let read = cli.read_variables(&Variables(&variable));
    (read.map(|()| cli), asked.into_inner())
}

/// What the job or the machine says, for which the command has no flag that it shows.
const OF_THE_JOB: [&str; 12] = [
    "AMDGPU_FAMILIES",
    "GITHUB_ENV",
    "GITHUB_OUTPUT",
    "GITHUB_RUN_ID",
    "GITHUB_SERVER_URL",
    "GITHUB_STEP_SUMMARY",
    "HOME",
    "RELEASE_TYPE",
    "ROCWHEEL_STREAM_MIRROR",
    "RUNNER_TEMP",
    "SOURCE_DATE_EPOCH",
    "XDG_CACHE_HOME",
];

#[test]
fn a_command_reads_the_variables_that_its_help_names() {
    let mut count = 0;
    for (name, command) in tree() {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = text.lines().filter(|it| it.trim_start().starts_with(&format!("{name} ")));
        let mut asked = BTreeSet::new();
        for line in lines {
            let (cli, variables) = read(line, "");
            cli.unwrap();
            asked.extend(variables);
        }
        if asked.is_empty() || command.has_subcommands() && name != "rocwheel check" {
            continue;
        }
        let named: BTreeSet<String> = flags(&command).filter_map(variable_of).collect();
        let unread: Vec<&String> = named.difference(&asked).collect();
        assert!(unread.is_empty(), "`{name}` does not read {unread:?}");
        let is_of_the_job = |it: &str| OF_THE_JOB.contains(&it) || PROXIES.contains(&it);
        let unnamed: Vec<&String> =
            asked.difference(&named).filter(|it| !is_of_the_job(it)).collect();
        // These do steps of other commands, and read the variables of flags that only those have.
        let does_many_steps = ["rocwheel pipeline", "rocwheel install"].contains(&name.as_str());
        assert!(unnamed.is_empty() || does_many_steps, "`{name} --help` lacks {unnamed:?}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}

/// A command without the flags of another has what a line without these flags means.
#[test]
fn the_defaults_are_those_of_an_empty_line() {
    fn compare<T: Args + Default + std::fmt::Debug>() {
        let command = T::augment_args(clap::Command::new("rocwheel"));
        let matches = command.try_get_matches_from(["rocwheel"]).unwrap();
        let parsed = T::from_arg_matches(&matches).unwrap();
        assert_eq!(format!("{parsed:?}"), format!("{:?}", T::default()));
    }
    compare::<PageArgs>();
    compare::<MachineArgs>();
    compare::<build::BuildSettings>();
    compare::<fetch::FetchSettings>();
    compare::<check::AcceptArgs>();
    let help = build::BuildSettings::augment_args(clap::Command::new("rocwheel")).render_help();
    assert!(help.to_string().contains(&format!("[default: {}]", rocwheel_wheel::FIRST_DAY)));
}

#[test]
fn every_flag_and_every_command_says_what_it_is_without_a_full_stop() {
    for (name, command) in tree() {
        let about = command.get_about().map(ToString::to_string);
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let helps = shown
            .map(|argument| (argument.to_string(), argument.get_help().map(ToString::to_string)));
        for (argument, help) in helps.chain([(String::new(), about)]) {
            let help = help.unwrap_or_default();
            let fine = help.starts_with(|c: char| c.is_uppercase()) && !help.ends_with('.');
            assert!(fine, "`{name} {argument}` has the help {help:?}");
        }
    }
}

#[test]
fn a_flag_that_many_commands_have_has_the_same_letter_in_all() {
    let mut count = 0;
    for (name, command) in tree() {
        for flag in command.get_arguments() {
            let letter = match flag.get_long() {
                Some("output-dir" | "output") => 'o',
                Some("dry-run") => 'n',
                _ => continue,
            };
            assert_eq!(flag.get_short(), Some(letter), "`{name} {flag}`");
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}

/// Few people need them, and they are the same in every command. `check` has the options of a check under no heading.
#[test]
fn short_help_leaves_out_the_options_of_servers_and_of_the_check() {
    let mut count = 0;
    for (name, command) in tree() {
        for flag in flags(&command) {
            let heading = flag.get_help_heading();
            if let Some("S3 options" | "GitHub options" | "Check options") = heading {
                assert!(flag.is_hide_short_help_set(), "`{name} {flag}`");
                count += 1;
            }
        }
    }
    assert!(count > 50, "{count}");
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
        ("Build options", names(build::BuildInputs::augment_args(none()))),
        ("Check options", names(check::Policy::augment_args(none().arg(no_check)))),
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
    let commands = tree();
    let mut without = Vec::new();
    for (name, command) in &commands {
        let text = command.get_after_help().map(ToString::to_string);
        let text = text.unwrap_or_default();
        let examples: Vec<&str> = text.split("rocwheel ").skip(1).collect();
        if examples.is_empty() && name.split(' ').count() == 2 && !command.is_hide_set() {
            without.push(name.clone());
        }
        for example in examples {
            let line = format!("rocwheel {}", example.lines().next().unwrap());
            // One is inside of `"$(…)"`.
            let line = line.trim_end_matches(")\"");
            let parsed = Cli::try_parse_from(line.split_whitespace());
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            for flag in line.split_whitespace().filter_map(|it| it.strip_prefix("--")) {
                let arguments = named_by(line, &commands).get_arguments();
                let known = arguments.into_iter().find(|it| it.get_long() == Some(flag));
                let is_shown = known.is_some_and(|it| !it.is_hide_short_help_set());
                assert!(is_shown, "`{name} -h` has an example with `--{flag}`, and no such flag");
            }
        }
    }
    // Their usage shows which arguments they require.
    insta::assert_snapshot!(without.join("\n"), @"rocwheel help");
}

/// The command of a line: `framework tie` of `rocwheel framework tie torch.whl`.
fn named_by<'a>(line: &str, commands: &'a BTreeMap<String, clap::Command>) -> &'a clap::Command {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut names = (1..=words.len()).rev().map(|count| words[..count].join(" "));
    names.find_map(|name| commands.get(&name)).unwrap()
}

/// clap wraps at 100 columns, also a line that the source has already broken.
#[test]
fn the_end_of_a_help_is_not_wrapped_twice() {
    for (name, command) in tree() {
        let text = command.get_after_help().map(ToString::to_string);
        let text = text.unwrap_or_default();
        let mut examples = text.lines().filter(|it| it.starts_with("  rocwheel"));
        let long = examples.find(|it| it.len() > 100);
        assert!(long.is_none(), "an example of `{name}` is too long: {long:?}");
        let is_text = |it: &&str| !it.is_empty() && !it.starts_with(' ') && !it.ends_with(':');
        let mut pairs = text.lines().zip(text.lines().skip(1));
        let broken = pairs.find(|(one, next)| is_text(one) && is_text(next));
        assert!(broken.is_none(), "a paragraph of `{name}` is broken: {broken:?}");
    }
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
    let mut root = Cli::command();
    root.build();
    let mut count = 0;
    for (name, command) in tree() {
        let path: Vec<&str> = name.split(' ').collect();
        let takes_value = |flag: &&Arg| flag.get_action().takes_values();
        for flag in command.get_arguments().filter(takes_value) {
            let Some(long) = flag.get_long() else {
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

/// Whether a command line names a command, and only flags that the command has. Values may be anything.
fn is_known(line: &[OsString]) -> Result<(), clap::Error> {
    fn lenient(command: clap::Command) -> clap::Command {
        let any = clap::builder::OsStringValueParser::new();
        command
            .mut_args(|it| if it.get_action().takes_values() { it.value_parser(any) } else { it })
            .mut_subcommands(lenient)
    }
    lenient(Cli::command()).try_get_matches_from(line).map(drop)
}

#[test]
fn every_input_of_the_action_is_a_flag_of_some_command() {
    let action = include_str!("../../action.yml");
    let (_, flags) = action.split_once("# Flags of the commands").unwrap();
    let (flags, _) = flags.split_once("\n\n").unwrap();
    let names = flags.lines().skip(1).map(|line| line.split_once(':').unwrap().0);
    for name in names {
        let name = name.trim();
        let is_named = |it: &Arg| {
            let aliases = it.get_all_aliases().unwrap_or_default();
            it.get_long() == Some(name) || aliases.contains(&name)
        };
        let has = |command: &clap::Command| command.get_arguments().any(is_named);
        assert!(tree().values().any(has), "{name}");
    }
}

/// Of the workflows for users: every step of our action. What an expression becomes is not known.
#[test]
fn every_step_of_the_workflows_is_a_command_line() {
    let mut count = 0;
    for file in fs_err::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.github/workflows")).unwrap()
    {
        let text = fs_err::read_to_string(file.unwrap().path()).unwrap();
        for step in text.split("uses: OWNER/rocwheel@").skip(1) {
            let mut with = step.lines().skip(1);
            if with.next() != Some("        with:") {
                continue;
            }
            let with = with.take_while(|line| line.starts_with("          "));
            let mut inputs = serde_json::Map::new();
            let mut last = String::new();
            for line in with {
                match line.trim().split_once(": ") {
                    Some((name, value)) if !line.starts_with("           ") => {
                        last = name.to_owned();
                        let value = value.trim_matches('|').replace("${{", "");
                        inputs.insert(last.clone(), value.into());
                    }
                    _ => {
                        let text = inputs[&last].as_str().unwrap().to_owned();
                        // A flag on a condition: `${{ inputs.dry-run && '--dry-run' || '' }}`.
                        let flag = line.split('\'').nth(1).filter(|_| line.contains("&& '--"));
                        inputs[&last] = format!("{text}\n{}", flag.unwrap_or(line.trim())).into();
                    }
                }
            }
            let line = args::inputs::line(&serde_json::to_string(&inputs).unwrap()).unwrap();
            let known = is_known(&line);
            assert!(known.is_ok(), "{line:?}: {}", known.unwrap_err());
            count += 1;
        }
    }
    assert!(count > 12, "{count}");
}

#[test]
fn the_help_of_the_program_has_every_command_once() {
    let mut listed: Vec<&str> =
        COMMANDS.iter().flat_map(|(_, commands)| commands.iter().map(|(name, _)| *name)).collect();
    listed.sort_unstable();
    let root = Cli::command();
    let shown = root.get_subcommands().filter(|it| !it.is_hide_set());
    let mut shown: Vec<&str> = shown.map(clap::Command::get_name).collect();
    shown.sort_unstable();
    assert_eq!(listed, shown);
}

/// So few flags that someone reads them.
#[test]
fn the_help_of_large_commands_is_short() {
    let limits = [("pipeline", 46), ("install", 34), ("promote", 31)];
    for (name, most) in limits {
        let mut root = Cli::command();
        root.build();
        let command = root.find_subcommand_mut(name).unwrap();
        let count =
            command.get_arguments().filter(|it| !it.is_hide_set() && !it.is_positional()).count();
        assert!(count <= most, "`{name}` has {count} flags");
        // What is hidden is a name of TheRock, a variable of the runner, or refused with a hint.
        let is_trick = |it: &Arg| {
            let is_of_the_runner = ["github_output", "step_summary", "runner_temp", "server"]
                .contains(&it.get_id().as_str());
            let is_expected = ["no_summary", "_target"].contains(&it.get_id().as_str());
            it.is_hide_set() && !is_of_the_runner && !is_expected
        };
        let has_trick = command.get_arguments().any(is_trick);
        assert!(name == "promote" || !has_trick, "{name}");
    }
}

/// What most people need is on one screen of a terminal, and the end of `-h` says that `--help` has the rest.
#[test]
fn short_help_fits_on_a_screen() {
    let mut long = Vec::new();
    for (name, mut command) in tree() {
        let help = command.render_help().to_string();
        let lines = help.lines().count();
        long.extend((lines > 40).then(|| format!("{name}: {lines}")));
        let has_more = command.get_arguments().any(Arg::is_hide_short_help_set);
        assert!(!has_more || help.contains("see more with '--help'"), "{name}");
    }
    // None has more than 50.
    insta::assert_snapshot!(long.join("\n"), @"
    rocwheel: 50
    rocwheel check: 50
    rocwheel fetch: 49
    rocwheel framework tie: 49
    rocwheel install: 49
    rocwheel pipeline: 45
    rocwheel promote: 42
    rocwheel upload: 47
    ");
}

#[test]
fn a_mistyped_flag_is_not_offered_as_a_value() {
    for line in ["rocwheel check set --rekuire", "rocwheel fetch --fleur x"] {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let said = args::parse::<Cli>(&line).unwrap_err().to_string();
        assert!(said.contains("unexpected argument") && !said.contains("as a value"), "{said}");
    }
}
