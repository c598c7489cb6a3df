//! Arguments that several commands have.

mod access;
mod environment;
mod github;
pub(crate) mod inputs;
mod run;
mod sourced;

use std::{num::NonZeroUsize, thread::available_parallelism, time::Duration};

use clap::ArgAction;

pub(crate) use self::environment::{globals, line, parse, tidy};
pub use self::{access::AccessArgs, github::GitHubArgs, run::RunArgs};
use crate::console::{ColorChoice, Options, OutputFormat};

/// What every verb understands.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Print less: -q only warnings and errors, -qq only errors
    #[arg(short, long, global = true, action = ArgAction::Count, value_parser = count,
          env = "ROCWHEEL_QUIET")]
    quiet: u8,
    /// Print more details
    #[arg(short, long, global = true, action = ArgAction::Count, value_parser = count,
          env = "ROCWHEEL_VERBOSE")]
    verbose: u8,
    /// Output format on stdout (default: `github` in GitHub Actions, else `text`)
    #[arg(long, global = true, value_name = "FORMAT", env = "ROCWHEEL_FORMAT")]
    format: Option<OutputFormat>,
    /// When to use colors; `NO_COLOR` and `CLICOLOR_FORCE` are read too
    #[arg(long, global = true, value_name = "WHEN", env = "ROCWHEEL_COLOR")]
    color: Option<ColorChoice>,
    /// Print no progress
    #[arg(long, global = true, env = "ROCWHEEL_NO_PROGRESS")]
    no_progress: bool,
}

impl GlobalArgs {
    pub fn options(&self) -> Options {
        Options {
            format: self.format,
            color: self.color.unwrap_or_default(),
            no_progress: self.no_progress,
            verbosity: i16::from(self.verbose) - i16::from(self.quiet),
        }
    }
}

/// How many things are done at once.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Jobs {
    /// Number of threads (default: one per processor)
    #[arg(long, short, value_name = "N", env = "ROCWHEEL_JOBS")]
    pub jobs: Option<NonZeroUsize>,
}

impl Jobs {
    pub fn count(&self) -> NonZeroUsize {
        self.jobs
            .or_else(|| available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }
}

/// Parses a number, or a word for yes or no: environment variables often have the value `true`.
fn count(text: &str) -> Result<u8, String> {
    match text {
        "true" | "yes" | "on" => Ok(1),
        "false" | "no" | "off" => Ok(0),
        _ => text
            .parse()
            .map_err(|_| "expected a number, `true` or `false`".into()),
    }
}

/// Parses a duration, a number with a unit: `90s`, `30m`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let unit = |(number, seconds): (&str, u64)| {
        let number: u32 = number.parse().ok()?;
        Some(Duration::from_secs(u64::from(number) * seconds))
    };
    [("s", 1), ("m", 60), ("h", 3600)]
        .into_iter()
        .find_map(|(name, seconds)| unit((text.strip_suffix(name)?, seconds)))
        .ok_or_else(|| format!("not a duration such as `90s`, `30m` or `2h`: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_number_and_a_unit() {
        let seconds = |text: &str| duration(text).unwrap().as_secs();
        assert_eq!(
            [seconds("90s"), seconds("30m"), seconds("2h"), seconds("0s")],
            [90, 1800, 7200, 0]
        );
        let refused = [
            "",
            "m",
            "30",
            "30 m",
            "-1m",
            "1.5h",
            "1d",
            "99999999999s",
            "3é",
        ];
        let messages = refused.map(|text| duration(text).unwrap_err());
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not a duration such as `90s`, `30m` or `2h`: ""
        not a duration such as `90s`, `30m` or `2h`: "m"
        not a duration such as `90s`, `30m` or `2h`: "30"
        not a duration such as `90s`, `30m` or `2h`: "30 m"
        not a duration such as `90s`, `30m` or `2h`: "-1m"
        not a duration such as `90s`, `30m` or `2h`: "1.5h"
        not a duration such as `90s`, `30m` or `2h`: "1d"
        not a duration such as `90s`, `30m` or `2h`: "99999999999s"
        not a duration such as `90s`, `30m` or `2h`: "3é"
        "#);
    }
}
