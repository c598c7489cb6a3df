//! Arguments that name a run. They keep apart what the user asked for and what only the environment
//! says.

use std::{env, path::PathBuf};

use clap::{
    ArgMatches, Command, FromArgMatches,
    builder::{PossibleValuesParser, TypedValueParser},
    parser::ValueSource,
};

use super::GitHubArgs;
use crate::{
    commands::World,
    error::{Context, Hint, Result},
    location::Bucket,
    run::{Choices, Environment, Platform, Repository, Run, RunContext, RunReference},
    version::ReleaseType,
};

/// The run, its repository, and the place of its outputs.
#[derive(Clone, Debug)]
pub struct RunArgs {
    flags: RunFlags,
    /// What the user chose with a flag, and not only with an environment variable.
    choices: Choices,
    names_a_run: bool,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Run options")]
struct RunFlags {
    /// Workflow run: its id, or the URL of its page
    #[arg(long, value_name = "RUN", env = "GITHUB_RUN_ID")]
    run_id: Option<RunReference>,
    /// Repository of the run (default: `ROCm/TheRock`)
    #[arg(long, value_name = "OWNER/NAME", env = "GITHUB_REPOSITORY")]
    repository: Option<Repository>,
    /// Platform that the run built for (default: the platform of this machine)
    #[arg(long, env = "ROCWHEEL_PLATFORM", value_parser = platforms())]
    platform: Option<Platform>,
    /// Release type of the run, which decides its bucket (default: `ci`)
    #[arg(long, value_name = "TYPE", env = "RELEASE_TYPE", value_parser = release_types())]
    release_type: Option<ReleaseType>,
    /// Bucket of the run (default: decided by repository and release type)
    #[arg(long, env = "ROCWHEEL_BUCKET")]
    bucket: Option<Bucket>,
    /// JSON file that describes the GitHub event of this run
    #[arg(long, value_name = "FILE", env = "GITHUB_EVENT_PATH")]
    event_path: Option<PathBuf>,
}

impl RunArgs {
    /// The run that the user named, or the run of GitHub Actions that this process is part of.
    pub fn run(&self) -> Result<&RunReference> {
        let run = self.flags.run_id.as_ref();
        run.context("no run was named")
            .hint("pass `--run-id` with an id or the address of a run")
    }

    /// Whether the user named a run. If not, [`run`](Self::run) is the one that this process is
    /// part of.
    pub fn names_a_run(&self) -> bool {
        self.names_a_run
    }

    /// The platform that the packages are for.
    pub fn platform(&self) -> Platform {
        self.flags.platform.unwrap_or(if cfg!(windows) {
            Platform::Windows
        } else {
            Platform::Linux
        })
    }

    /// Resolves a run and the place of its outputs. Asks GitHub whose code the run built, if the
    /// place depends on it. It does so also for outputs in a local directory, so that all commands
    /// find them under the same key.
    pub fn resolve(&self, run: &RunReference, github: &GitHubArgs, world: &World) -> Result<Run> {
        let facts = |repository: &_| github.facts(repository, run, world);
        self.context()?.resolve(run, self.platform(), facts)
    }

    /// The context that decides where runs keep their outputs.
    pub fn context(&self) -> Result<RunContext> {
        let environment = self.environment(|name| env::var(name).ok())?;
        Ok(RunContext::new(self.choices.clone(), environment))
    }

    /// The same arguments, but with this bucket.
    #[must_use]
    pub fn in_bucket(mut self, bucket: &Bucket) -> Self {
        self.choices.bucket = Some(bucket.clone());
        self
    }

    fn environment(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Environment> {
        let payload = self.flags.event_path.as_ref();
        let payload = payload.map(fs_err::read_to_string).transpose();
        Environment::parse(
            variable("GITHUB_REPOSITORY").as_deref(),
            variable("RELEASE_TYPE").as_deref(),
            variable("GITHUB_RUN_ID").as_deref(),
            payload
                .hint("`--event-path` and `GITHUB_EVENT_PATH` name a file of JSON")?
                .as_deref(),
        )
    }
}

impl clap::Args for RunArgs {
    fn augment_args(command: Command) -> Command {
        RunFlags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        RunFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for RunArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = RunFlags::from_arg_matches(matches)?;
        Ok(Self {
            choices: flags.choices(matches),
            names_a_run: is_named(matches, "run_id"),
            flags,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.flags.update_from_arg_matches(matches)?;
        self.choices = self.flags.choices(matches);
        self.names_a_run = is_named(matches, "run_id");
        Ok(())
    }
}

impl RunFlags {
    /// What the user chose. A bucket counts as chosen even if it comes from its environment
    /// variable, because only users set that variable.
    fn choices(&self, matches: &ArgMatches) -> Choices {
        let named = |id| is_named(matches, id);
        let repository = self.repository.clone();
        Choices {
            repository: repository.filter(|_| named("repository")),
            release_type: self.release_type.filter(|_| named("release_type")),
            bucket: self.bucket.clone(),
        }
    }
}

fn is_named(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

fn platforms() -> impl TypedValueParser<Value = Platform> {
    PossibleValuesParser::new(Platform::ALL.map(Platform::as_str)).try_map(|text| text.parse())
}

fn release_types() -> impl TypedValueParser<Value = ReleaseType> {
    PossibleValuesParser::new(ReleaseType::ALL.iter().map(|kind| kind.as_str()))
        .try_map(|text| text.parse())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::CommandFactory;

    use super::*;
    use crate::error::render;

    #[derive(clap::Parser)]
    struct Probe {
        #[command(flatten)]
        run: RunArgs,
    }

    /// Parses a line of arguments, without the environment of this process.
    fn parse(line: &str) -> Result<RunArgs, clap::Error> {
        let command = Probe::command().mut_args(|argument| argument.env(None));
        let arguments = ["probe"].into_iter().chain(line.split_whitespace());
        let matches = command.try_get_matches_from(arguments)?;
        Ok(Probe::from_arg_matches(&matches)?.run)
    }

    fn refused(line: &str) -> String {
        let text = parse(line).unwrap_err().to_string();
        text.lines().take(2).collect::<Vec<_>>().join("\n")
    }

    fn in_actions(name: &str) -> Option<String> {
        let value = match name {
            "GITHUB_REPOSITORY" => "someone/TheRock",
            "GITHUB_RUN_ID" => "42",
            "RELEASE_TYPE" => "",
            _ => return None,
        };
        Some(value.to_owned())
    }

    #[test]
    fn a_flag_is_a_choice_and_a_variable_tells_of_this_run() {
        let arguments = parse("--run-id 7 --repository ROCm/TheRock --release-type nightly");
        let arguments = arguments.unwrap();
        let environment = arguments.environment(in_actions).unwrap();
        let choices = arguments.choices;
        assert_eq!(choices.repository.unwrap().to_string(), "ROCm/TheRock");
        assert_eq!(choices.release_type, Some(ReleaseType::Nightly));
        assert_eq!(
            environment.repository.unwrap().to_string(),
            "someone/TheRock"
        );
        assert_eq!(environment.run_id.unwrap().as_str(), "42");
        assert_eq!(environment.release_type, None);
    }

    #[test]
    fn a_value_that_only_a_variable_gave_is_no_choice() {
        let command = Probe::command()
            .mut_args(|argument| argument.env(None))
            .mut_arg("repository", |argument| {
                argument.default_value("ROCm/TheRock")
            });
        let matches = command.try_get_matches_from(["probe"]).unwrap();
        let run = Probe::from_arg_matches(&matches).unwrap().run;
        assert!(run.flags.repository.is_some());
        assert!(run.choices.repository.is_none());
    }

    #[test]
    fn a_bucket_is_a_choice() {
        let run = parse("--bucket my-bucket").unwrap();
        assert_eq!(run.choices.bucket.unwrap().to_string(), "my-bucket");
    }

    #[test]
    fn a_run_may_be_named_by_its_page() {
        let run = parse("--run-id https://github.com/ROCm/TheRock/actions/runs/7").unwrap();
        assert_eq!(run.run().unwrap().id.as_str(), "7");
        insta::assert_snapshot!(render(&parse("").unwrap().run().unwrap_err()), @r"
        error: no run was named

        hint: pass `--run-id` with an id or the address of a run
        ");
    }

    #[test]
    fn bad_values_are_refused_in_words() {
        insta::assert_snapshot!(refused("--run-id 7x"), @r#"error: invalid value '7x' for '--run-id <RUN>': not a run id, nor an address such as `https://github.com/ROCm/TheRock/actions/runs/21440027240`: "7x""#);
        insta::assert_snapshot!(refused("--repository TheRock"), @r#"error: invalid value 'TheRock' for '--repository <OWNER/NAME>': not a repository such as `ROCm/TheRock`: "TheRock""#);
        insta::assert_snapshot!(refused("--platform macos"), @r"
        error: invalid value 'macos' for '--platform <PLATFORM>'
          [possible values: linux, windows]
        ");
        insta::assert_snapshot!(refused("--release-type stable"), @r"
        error: invalid value 'stable' for '--release-type <TYPE>'
          [possible values: ci, dev, dev-bkc, nightly, nightly-bkc, prerelease, release]
        ");
        insta::assert_snapshot!(refused("--bucket No"), @r#"error: invalid value 'No' for '--bucket <BUCKET>': a bucket's name has 3 to 63 characters: "No""#);
    }

    #[test]
    fn the_event_is_read_and_must_be_there() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let payload = r#"{"pull_request": {"head": {"repo": null}}}"#;
        file.write_all(payload.as_bytes()).unwrap();
        let line = format!("--event-path {}", file.path().display());
        let environment = parse(&line).unwrap().environment(|_| None).unwrap();
        assert!(environment.event.is_some());
        let gone = parse("--event-path gone.json").unwrap();
        let error = render(&gone.environment(|_| None).unwrap_err());
        assert!(error.contains("`gone.json`"), "{error}");
        assert!(error.contains("hint: `--event-path`"), "{error}");
    }
}
