//! Arguments that verbs share, and how the environment stands in for absent ones.

use std::{env, ffi::OsString};

use clap::{
    Arg, ArgAction, Command, CommandFactory, FromArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::console::{ColorChoice, Format, Options, ProgressChoice};

/// What every verb understands.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Say less: -q only warnings and errors, -qq only errors
    #[arg(short, long, global = true, action = ArgAction::Count, value_parser = count,
          env = "ROCWHEEL_QUIET")]
    quiet: u8,
    /// Say more about the work
    #[arg(short, long, global = true, action = ArgAction::Count, value_parser = count,
          env = "ROCWHEEL_VERBOSE")]
    verbose: u8,
    /// What the answer on stdout looks like; in GitHub Actions `github`, elsewhere `text`
    #[arg(long, global = true, value_name = "FORMAT", env = "ROCWHEEL_FORMAT")]
    format: Option<Format>,
    /// Whether output has colors; `NO_COLOR` and `CLICOLOR_FORCE` count as well
    #[arg(long, global = true, value_name = "WHEN", env = "ROCWHEEL_COLOR")]
    color: Option<ColorChoice>,
    /// Show no bars and no progress lines
    #[arg(long, global = true, env = "ROCWHEEL_NO_PROGRESS",
          value_parser = clap::builder::FalseyValueParser::new())]
    no_progress: bool,
}

impl GlobalArgs {
    pub fn options(&self) -> Options {
        Options {
            format: self.format,
            color: self.color.unwrap_or_default(),
            progress: if self.no_progress {
                ProgressChoice::Never
            } else {
                ProgressChoice::Auto
            },
            verbosity: i16::from(self.verbose) - i16::from(self.quiet),
        }
    }
}

/// How many things are done at once.
#[derive(Clone, Debug, clap::Args)]
pub struct Jobs {
    /// How many threads work at once; by default one for each processor
    #[arg(long, short, value_name = "N", env = "ROCWHEEL_JOBS")]
    pub jobs: Option<std::num::NonZeroUsize>,
}

impl Jobs {
    pub fn count(&self) -> std::num::NonZeroUsize {
        self.jobs
            .or_else(|| std::thread::available_parallelism().ok())
            .unwrap_or(std::num::NonZeroUsize::MIN)
    }
}

/// Which run of which repository, and for whom it builds.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// The workflow run
    #[arg(long, value_name = "ID", env = "GITHUB_RUN_ID")]
    pub run_id: Option<String>,
    /// The repository of the run
    #[arg(
        long,
        value_name = "OWNER/NAME",
        env = "GITHUB_REPOSITORY",
        default_value = "ROCm/TheRock"
    )]
    pub repository: String,
    /// The platform that the run built for
    #[arg(
        long,
        value_name = "PLATFORM",
        env = "ROCWHEEL_PLATFORM",
        default_value = "linux"
    )]
    pub platform: String,
    /// What kind of release the run is, which decides its bucket
    #[arg(long, value_name = "TYPE", env = "RELEASE_TYPE", default_value = "ci")]
    pub release_type: String,
}

/// A number, or a word for yes or no: environment variables often hold `true`.
fn count(text: &str) -> Result<u8, String> {
    match text {
        "true" | "yes" | "on" => Ok(1),
        "false" | "no" | "off" => Ok(0),
        _ => text
            .parse()
            .map_err(|_| "expected a number, `true` or `false`".into()),
    }
}

/// The command line of this process, or what clap has to say instead.
pub(super) fn parse<C: CommandFactory + FromArgMatches>() -> Result<C, clap::Error> {
    let arguments: Vec<OsString> = env::args_os().collect();
    let mut command = without_empty_variables(C::command());
    let matches = command
        .try_get_matches_from_mut(&arguments)
        .map_err(|error| match error.kind() {
            // Help names every variable, whatever its value.
            ErrorKind::DisplayHelp => tidy(C::command())
                .try_get_matches_from(&arguments)
                .err()
                .unwrap_or(error),
            _ => with_origin::<C>(error, &arguments),
        })?;
    C::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The error, and where the value came from if no flag gave it.
fn with_origin<C: CommandFactory>(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let without_variables = each_argument(C::command(), &|argument| argument.env(None));
    let same_without = without_variables
        .try_get_matches_from(arguments)
        .is_err_and(|other| other.to_string() == error.to_string());
    let Some(ContextValue::String(culprit)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let mut command = C::command();
    command.build();
    if let Some(variable) = variable_of(&command, culprit)
        && !same_without
    {
        let tip = format!("the value comes from the environment variable `{variable}`");
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// The variable of an argument as clap writes it: `--format <FORMAT>`.
fn variable_of(command: &Command, argument: &str) -> Option<String> {
    command
        .get_arguments()
        .find(|own| own.to_string() == argument)
        .and_then(|own| own.get_env()?.to_str().map(str::to_owned))
        .or_else(|| {
            let mut below = command.get_subcommands();
            below.find_map(|command| variable_of(command, argument))
        })
}

/// The global options of a command line that is otherwise refused.
pub(super) fn globals<C: CommandFactory>() -> GlobalArgs {
    without_empty_variables(C::command())
        .ignore_errors(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .try_get_matches_from(env::args_os())
        .ok()
        .and_then(|matches| GlobalArgs::from_arg_matches(&matches).ok())
        .unwrap_or_default()
}

/// A variable that is set and empty is as good as unset: that is how workflows pass nothing.
fn without_empty_variables(command: Command) -> Command {
    each_argument(tidy(command), &|argument| {
        let empty = argument
            .get_env()
            .is_some_and(|name| env::var_os(name).is_some_and(|value| value.is_empty()));
        if empty { argument.env(None) } else { argument }
    })
}

/// Help shows the names of variables but not their values, some of which are secrets.
pub(super) fn tidy(command: Command) -> Command {
    each_argument(command, &|argument| argument.hide_env_values(true))
}

fn each_argument(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    command
        .mut_args(change)
        .mut_subcommands(|command| each_argument(command, change))
}
