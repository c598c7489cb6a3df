//! The commands: parses the command line, runs a command, and reports its result.
//!
//! Each command has a file here with its clap arguments, a short `run(args, world) -> Result<()>`
//! that reads like a table of contents, and the functions that it calls. It prints only through
//! [`World`].

mod advice;
pub mod args;
pub mod build;
pub mod check;
pub mod deps;
pub mod describe;
pub mod diff;
pub mod doctor;
pub mod fetch;
pub mod framework;
pub mod index;
pub mod install;
pub mod kpack;
pub mod list;
pub mod pipeline;
pub mod place;
pub mod promote;
pub mod publish;
pub mod split;
pub mod summary;
pub mod targets;
#[cfg(test)]
mod tests;
pub mod upload;
pub mod version;

use std::{ffi::OsString, fmt::Write as _, process::ExitCode};

use anstyle::AnsiColor;
use clap::{CommandFactory as _, Parser, Subcommand, builder::Styles, error::ErrorKind};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use self::args::Variables;
pub use crate::console::World;
use crate::console::{Console, Options};
use rocwheel_base::{
    error::{Context, Error, Exit, Hint, Result, Stop, anyhow, bail},
    retry,
};

/// The colors of help, which are those of cargo.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Where the documentation is if its address is not known.
const DOCUMENTATION: &str = "README.md and docs/ in the source repository";

/// The commands in help, by what they are for.
const COMMANDS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Run",
        &[
            ("pipeline", "Every step, from artifacts to packages that pip and uv can install"),
            ("install", "Install packages into a virtual environment"),
        ],
    ),
    (
        "Steps",
        &[
            ("fetch", "Find a run, download and unpack its artifacts"),
            ("split", "Take the device code out of artifacts"),
            ("build", "Build Python packages from artifacts"),
            ("check", "Find errors in a package set before anyone installs it"),
            ("index", "Write the pages that pip and uv read"),
            ("upload", "Publish a package set to the place of its run"),
            ("summary", "Say what a set has and how to install it"),
        ],
    ),
    (
        "Publish",
        &[
            ("promote", "Make a release of a tested set"),
            ("framework", "Tie PyTorch, JAX and others to ROCm packages"),
            ("deps", "Keep the index of third-party dependencies"),
        ],
    ),
    (
        "Inspect",
        &[
            ("list", "Which versions a set, an index or a stream has"),
            ("diff", "Compare two sets or versions"),
            ("kpack", "Look into device code"),
            ("place", "Say where a run keeps its packages"),
            ("targets", "GPU targets of families and of this machine"),
            ("version", "Compute the version of a build"),
        ],
    ),
    (
        "Setup",
        &[
            ("doctor", "Find what is wrong with this machine"),
            ("completions", "Print a completion script for a shell"),
            ("man", "Print a manual page"),
        ],
    ),
];

/// The help of the program itself, with its commands in groups, which clap does not have.
fn help_template() -> String {
    let (header, literal) = (STYLES.get_header(), STYLES.get_literal());
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, commands) in COMMANDS {
        let _ = write!(text, "\n{header}{title}:{header:#}\n");
        for (name, about) in commands {
            let _ = writeln!(text, "  {literal}{name:<13}{literal:#}{about}");
        }
    }
    text + &format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}")
}

/// Build, check and publish the Python packages of a ROCm CI run
#[derive(Debug, Parser)]
#[command(
    name = "rocwheel",
    version = version(),
    arg_required_else_help = true,
    styles = STYLES,
    max_term_width = 100,
    help_template = help_template(),
    after_help = "Examples:\n  rocwheel pipeline --sample --output-dir out\n  \
                  rocwheel completions bash\n\n\
                  Exit codes: 0 done, 1 the answer is no, 2 usage, environment or access error, \
                  130 interrupted\n\n\
                  Documentation: README.md and docs/ in the source repository"
)]
struct Cli {
    #[command(flatten)]
    global: Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pipeline(Box<pipeline::PipelineArgs>),
    Fetch(Box<fetch::FetchArgs>),
    Split(split::SplitArgs),
    Build(build::BuildArgs),
    Check(Box<check::CheckArgs>),
    Diff(Box<diff::DiffArgs>),
    Index(index::IndexArgs),
    Upload(Box<upload::UploadArgs>),
    Summary(Box<summary::SummaryArgs>),
    Place(place::PlaceCommandArgs),
    Version(version::VersionArgs),
    Targets(targets::TargetsArgs),
    Kpack(kpack::KpackArgs),
    List(Box<list::ListArgs>),
    Framework(framework::FrameworkArgs),
    Promote(Box<promote::PromoteArgs>),
    Deps(deps::DepsArgs),
    Install(Box<install::InstallArgs>),
    Doctor(doctor::DoctorArgs),
    Completions(describe::CompletionsArgs),
    Man(describe::ManArgs),
}

impl Cli {
    /// Takes from variables what no flag gave.
    fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.global.read_variables(variables)?;
        match &mut self.command {
            Command::Pipeline(args) => args.read_variables(variables),
            Command::Build(args) => args.read_variables(variables),
            Command::Fetch(args) => args.read_variables(variables),
            Command::Check(args) => args.read_variables(variables),
            Command::Diff(args) => args.read_variables(variables),
            Command::Index(args) => args.read_variables(variables),
            Command::Install(args) => args.read_variables(variables),
            Command::Upload(args) => args.read_variables(variables),
            Command::Summary(args) => args.read_variables(variables),
            Command::List(args) => args.read_variables(variables),
            Command::Place(args) => args.read_variables(variables),
            Command::Version(args) => args.read_variables(variables),
            Command::Targets(args) => args.read_variables(variables),
            Command::Split(args) => args.read_variables(variables),
            Command::Framework(args) => args.read_variables(variables),
            Command::Promote(args) => args.read_variables(variables),
            Command::Deps(args) => args.read_variables(variables),
            Command::Doctor(args) => args.read_variables(variables),
            Command::Kpack(_) | Command::Completions(_) | Command::Man(_) => Ok(()),
        }
    }
}

impl Command {
    fn run(&self, world: &World) -> Result<()> {
        match self {
            Self::Pipeline(args) => pipeline::run(args, world),
            Self::Build(args) => build::run(args, world),
            Self::Fetch(args) => fetch::run(args, world),
            Self::Check(args) => check::run(args, world),
            Self::Diff(args) => diff::run(args, world),
            Self::Index(args) => index::run(args, world),
            Self::Install(args) => install::run(args, world),
            Self::Upload(args) => upload::run(args, world),
            Self::Summary(args) => summary::run(args, world),
            Self::Place(args) => place::run(args, world),
            Self::Version(args) => version::run(args, world),
            Self::Targets(args) => targets::run(args, world),
            Self::Split(args) => split::run(args, world),
            Self::Kpack(args) => kpack::run(args, world),
            Self::List(args) => list::run(args, world),
            Self::Framework(args) => framework::run(args, world),
            Self::Promote(args) => promote::run(args, world),
            Self::Deps(args) => deps::run(args, world),
            Self::Doctor(args) => doctor::run(args, world),
            Self::Completions(args) => describe::completions(args, world),
            Self::Man(args) => describe::man(args, world),
        }
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let line = args::line::<Cli>();
    let exit = match line {
        Ok(line) => match args::parse::<Cli>(&line) {
            Ok(cli) => obey(cli, &line),
            Err(refusal) => refuse(refusal, &line),
        },
        Err(error) => end(Err(error), |error| console(&[]).error(error)),
    };
    ExitCode::from(exit.code())
}

fn obey(mut cli: Cli, line: &[OsString]) -> Exit {
    let read = cli.read_variables(&Variables::of_this_process());
    let console = Console::of_this_process(cli.global);
    retry::announce_by(console.notes());
    let stop = Stop::default();
    let world = World { console, stop };
    let result = read
        .and_then(|()| listen(&world.stop))
        .and_then(|()| cli.command.run(&world))
        // Ctrl-C in a terminal also ends our child processes. Their failure is then a consequence, so the user reads
        // only that the command was interrupted.
        .map_err(|error| world.stop.check().err().map_or(error, Error::from))
        .map_err(|error| {
            let root = Cli::command();
            advice::fit(advice::advise(error), named(&root, line), &root)
        });
    end(result, |error| world.console.error(error))
}

/// The command that a command line names.
fn named<'a>(root: &'a clap::Command, line: &[OsString]) -> &'a clap::Command {
    let words = line.iter().skip(1);
    words.fold(root, |command, word| command.find_subcommand(word).unwrap_or(command))
}

/// Prints what clap returned instead of a parsed command line: help, the version, or an error.
fn refuse(refusal: clap::Error, line: &[OsString]) -> Exit {
    let console = console(line);
    let mut root = Cli::command();
    root.build();
    let refusal = args::advise(refusal, named(&root, line), &root);
    let rendered = refusal.render();
    let text = rendered.to_string();
    if refusal.use_stderr() {
        let result = usage_error(refusal.kind(), &text);
        end(result, |error| console.error_as(error, &text))
    } else {
        // To clap, everything below the options is plain text.
        let header = STYLES.get_header();
        let examples = format!("\n{header}Examples:{header:#}\n");
        let text = rendered.ansi().to_string().replace("\nExamples:\n", &examples);
        let text = match env!("ROCWHEEL_REPOSITORY") {
            "" => text,
            repository => text.replace(DOCUMENTATION, repository),
        };
        let result = console.styled(&text);
        end(result, |error| console.error(error))
    }
}

/// The console for messages about a command line that clap has rejected.
fn console(line: &[OsString]) -> Console {
    Console::of_this_process(args::options_of_rejected(line, &Variables::of_this_process()))
}

fn end(result: Result<()>, tell: impl FnOnce(&Error)) -> Exit {
    match result {
        Ok(()) => Exit::Done,
        Err(error) => {
            tell(&error);
            Exit::of(&error)
        }
    }
}

/// An error with clap's message and its tips, without the usage lines below them.
fn usage_error(kind: ErrorKind, text: &str) -> Result<()> {
    if kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        bail!("no command was given");
    }
    let message = text.lines().next().unwrap_or_default();
    let error = anyhow!("{}", message.trim_start_matches("error: "));
    let tips = text.lines().filter_map(|line| line.strip_prefix("  tip: "));
    tips.rev().fold(Err(error), Hint::hint)
}

/// Handles signals. The first one asks the work to stop at the next check of `stop`; the second one
/// ends the process.
fn listen(stop: &Stop) -> Result<()> {
    let code = i32::from(Exit::Interrupted.code());
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, code, stop.flag())
            .and_then(|_| flag::register(signal, stop.flag()))
            .context("failed to listen for signals")?;
    }
    Ok(())
}

/// `0.1.0`, or `0.1.0 (0123abc)` if the commit was known when rocwheel was built.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("ROCWHEEL_COMMIT") {
        None | Some("") => version.to_owned(),
        Some(commit) => format!("{version} ({commit})"),
    }
}
