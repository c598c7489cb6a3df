//! Settings of the console, derived from flags, environment variables and the terminal.

use clap::{ArgAction, ColorChoice, ValueEnum};

/// The format of the results on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Human-readable text.
    Text,
    /// One JSON document.
    Json,
    /// Text with groups and annotations for the log of GitHub Actions.
    Github,
}

/// The flags that every command has.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct Options {
    /// Print less: -q only warnings and errors, -qq only errors
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub quiet: u8,
    /// Print more details
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Output format on stdout [default: github in GitHub Actions, else text]
    ///
    /// [env: `ROCWHEEL_FORMAT`]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub format: Option<OutputFormat>,
    /// The same as `--format json`
    #[arg(long, global = true, hide_short_help = true, overrides_with = "format")]
    pub json: bool,
    /// When to use colors [default: on a terminal and in GitHub Actions]
    ///
    /// [env: `ROCWHEEL_COLOR`]
    #[arg(long, global = true, hide_short_help = true, value_name = "WHEN")]
    pub color: Option<ColorChoice>,
    /// Print no progress
    ///
    /// [env: `ROCWHEEL_NO_PROGRESS`]
    #[arg(long, global = true, hide_short_help = true)]
    pub no_progress: bool,
}

impl Options {
    /// The flags that print errors only.
    pub(crate) fn silent() -> Self {
        Self { quiet: 2, ..Self::default() }
    }
}

/// What is printed to stderr. Each level includes the levels before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// `-qq`
    Errors,
    /// `-q`
    Warnings,
    Normal,
    /// `-v`
    Debug,
}

/// The form of progress output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    Bars,
    Lines,
    Nothing,
}

/// Who reads the output, which decides how untrusted text must be escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogReader {
    /// GitHub Actions, which executes workflow commands in the output.
    Workflow,
    /// A person at a terminal, where escape sequences could hide or forge text.
    Terminal,
    /// A file or another program. It gets all bytes unchanged.
    Program,
}

/// The resolved settings of a `Console`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsoleSettings {
    pub format: OutputFormat,
    pub verbosity: Verbosity,
    pub progress: Show,
    /// Whether to write groups and annotations for GitHub Actions.
    pub commands: bool,
    pub stdout_color: bool,
    pub stderr_color: bool,
    /// The reader of stdout.
    pub reader: LogReader,
}

/// Which streams are terminals.
#[derive(Clone, Copy, Debug)]
pub struct Terminals {
    pub stdout: bool,
    pub stderr: bool,
}

impl ConsoleSettings {
    /// Derives the settings from flags, environment variables and the streams.
    pub fn resolve(
        options: Options,
        variable: impl Fn(&str) -> Option<String>,
        terminals: Terminals,
    ) -> Self {
        let is_in_actions = is_on(&variable, "GITHUB_ACTIONS");
        let format = match options.format {
            _ if options.json => OutputFormat::Json,
            Some(format) => format,
            None if is_in_actions => OutputFormat::Github,
            None => OutputFormat::Text,
        };
        let verbosity = match i16::from(options.verbose) - i16::from(options.quiet) {
            ..=-2 => Verbosity::Errors,
            -1 => Verbosity::Warnings,
            0 => Verbosity::Normal,
            1.. => Verbosity::Debug,
        };
        let is_in_ci = is_in_actions || is_on(&variable, "CI");
        let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
        let progress = if options.no_progress || verbosity < Verbosity::Normal {
            Show::Nothing
        } else if terminals.stderr && !is_dumb && !is_in_ci {
            Show::Bars
        } else {
            Show::Lines
        };
        let has_color = |is_terminal: bool| {
            // The log of GitHub Actions shows colors, although it is no terminal.
            let is_usual = is_terminal && !is_dumb || is_in_actions;
            decide_color(options.color.unwrap_or_default(), &variable, is_usual)
        };
        Self {
            format,
            verbosity,
            progress,
            commands: match format {
                OutputFormat::Text => false,
                OutputFormat::Json => is_in_actions,
                OutputFormat::Github => true,
            },
            stdout_color: has_color(terminals.stdout),
            stderr_color: has_color(terminals.stderr),
            reader: if is_in_actions || format == OutputFormat::Github {
                LogReader::Workflow
            } else if terminals.stdout {
                LogReader::Terminal
            } else {
                LogReader::Program
            },
        }
    }
}

/// Decides whether a stream gets colors. The order of precedence is: the flag, `NO_COLOR`
/// (<https://no-color.org>), the variables that force or disable colors, the terminal.
fn decide_color(
    choice: ColorChoice,
    variable: &impl Fn(&str) -> Option<String>,
    is_usual: bool,
) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) => false,
        ColorChoice::Auto => {
            let is_forced = is_on(variable, "CLICOLOR_FORCE") || is_on(variable, "FORCE_COLOR");
            let is_disabled = variable("CLICOLOR").is_some_and(|value| value == "0");
            is_forced || (!is_disabled && is_usual)
        }
    }
}

fn is_on(variable: &impl Fn(&str) -> Option<String>, name: &str) -> bool {
    variable(name).is_some_and(|value| {
        !matches!(value.to_ascii_lowercase().as_str(), "" | "0" | "false" | "no" | "off")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(options: Options, environment: &str, terminal: bool) -> ConsoleSettings {
        let variable = |name: &str| {
            environment
                .split_whitespace()
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
        };
        let terminals = Terminals { stdout: terminal, stderr: terminal };
        ConsoleSettings::resolve(options, variable, terminals)
    }

    /// As many `-v`, or as many `-q` if the number is negative.
    fn at(verbosity: i8) -> Options {
        Options {
            quiet: verbosity.min(0).unsigned_abs(),
            verbose: verbosity.max(0).unsigned_abs(),
            ..Options::default()
        }
    }

    #[test]
    fn color_follows_the_flag_then_the_environment_then_the_place() {
        use ColorChoice::{Always, Auto, Never};
        let rows = [
            (Auto, "", true, true),
            (Auto, "", false, false),
            (Auto, "TERM=dumb", true, false),
            (Auto, "NO_COLOR=1", true, false),
            (Auto, "NO_COLOR=", true, true),
            (Auto, "NO_COLOR=1 CLICOLOR_FORCE=1 FORCE_COLOR=1", true, false),
            (Auto, "CLICOLOR_FORCE=1", false, true),
            (Auto, "CLICOLOR_FORCE=0", false, false),
            (Auto, "FORCE_COLOR=3", false, true),
            (Auto, "FORCE_COLOR=1 TERM=dumb", true, true),
            (Auto, "CLICOLOR=0", true, false),
            (Auto, "CLICOLOR=0 CLICOLOR_FORCE=1", true, true),
            (Auto, "GITHUB_ACTIONS=true", false, true),
            (Auto, "GITHUB_ACTIONS=false", false, false),
            (Auto, "GITHUB_ACTIONS=true NO_COLOR=1", false, false),
            (Always, "NO_COLOR=1 TERM=dumb", false, true),
            (Never, "CLICOLOR_FORCE=1 GITHUB_ACTIONS=true", true, false),
        ];
        for (color, environment, terminal, expected) in rows {
            let options = Options { color: Some(color), ..Options::default() };
            let settings = settings(options, environment, terminal);
            assert_eq!(
                (settings.stdout_color, settings.stderr_color),
                (expected, expected),
                "{color:?} {environment:?} terminal: {terminal}"
            );
        }
    }

    #[test]
    fn bars_need_a_terminal_and_a_person() {
        let rows = [
            (false, 0, "", true, Show::Bars),
            (false, 1, "", true, Show::Bars),
            (false, 0, "", false, Show::Lines),
            (false, 0, "CI=true", true, Show::Lines),
            (false, 0, "CI=false", true, Show::Bars),
            (false, 0, "GITHUB_ACTIONS=true", true, Show::Lines),
            (false, 0, "TERM=dumb", true, Show::Lines),
            (false, -1, "", true, Show::Nothing),
            (false, -1, "CI=1", false, Show::Nothing),
            (true, 1, "", true, Show::Nothing),
        ];
        for (no_progress, verbosity, environment, terminal, expected) in rows {
            let options = Options { no_progress, ..at(verbosity) };
            assert_eq!(
                settings(options, environment, terminal).progress,
                expected,
                "{no_progress} {verbosity} {environment:?} terminal: {terminal}"
            );
        }
    }

    #[test]
    fn commands_are_for_github_unless_plain_text_was_asked_for() {
        let rows = [
            (None, "", OutputFormat::Text, false),
            (None, "GITHUB_ACTIONS=true", OutputFormat::Github, true),
            (Some(OutputFormat::Text), "GITHUB_ACTIONS=true", OutputFormat::Text, false),
            (Some(OutputFormat::Json), "GITHUB_ACTIONS=true", OutputFormat::Json, true),
            (Some(OutputFormat::Json), "", OutputFormat::Json, false),
            (Some(OutputFormat::Github), "", OutputFormat::Github, true),
        ];
        for (format, environment, expected, commands) in rows {
            let options = Options { format, ..Options::default() };
            let settings = settings(options, environment, false);
            assert_eq!(
                (settings.format, settings.commands),
                (expected, commands),
                "{format:?} {environment:?}"
            );
        }
    }

    #[test]
    fn plain_text_in_actions_is_still_read_by_actions() {
        let options = Options { format: Some(OutputFormat::Text), ..Options::default() };
        let reader = |environment, terminal| settings(options, environment, terminal).reader;
        assert_eq!(reader("GITHUB_ACTIONS=true", true), LogReader::Workflow);
        assert_eq!(reader("", true), LogReader::Terminal);
        assert_eq!(reader("", false), LogReader::Program);
    }

    #[test]
    fn quiet_and_verbose_have_four_levels() {
        let level = |verbosity| settings(at(verbosity), "", false).verbosity;
        assert_eq!(
            [-9, -2, -1, 0, 1, 9].map(level),
            [
                Verbosity::Errors,
                Verbosity::Errors,
                Verbosity::Warnings,
                Verbosity::Normal,
                Verbosity::Debug,
                Verbosity::Debug
            ]
        );
    }
}
