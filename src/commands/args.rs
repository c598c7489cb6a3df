//! Arguments that verbs share.

mod access;
mod environment;
mod github;
pub(crate) mod inputs;
mod run;

use std::{num::NonZeroUsize, thread::available_parallelism};

use clap::ArgAction;

pub(crate) use self::environment::{globals, line, parse, tidy};
pub use self::{access::AccessArgs, github::GitHubArgs, run::RunArgs};
use crate::console::{ColorChoice, Format, Options, ProgressChoice};

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
    format: Option<Format>,
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
