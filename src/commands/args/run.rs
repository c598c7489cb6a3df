//! Arguments that name a run. They keep apart what the user asked for and what only the environment
//! says.

use std::{env, path::PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{GitHubArgs, sourced::Sourced};
use crate::{
    commands::World,
    error::{Context, Hint, Result},
    location::Bucket,
    run::{Environment, Platform, Repository, Run, RunContext, RunReference},
    version::ReleaseType,
};

/// The run, its repository, and the place of its outputs.
pub type RunArgs = Sourced<RunFlags>;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Run options")]
pub struct RunFlags {
    /// Workflow run: its id, or the URL of its page
    #[arg(long, value_name = "RUN", env = "GITHUB_RUN_ID")]
    run_id: Option<RunReference>,
    /// Repository of the run (default: `ROCm/TheRock`)
    #[arg(long, value_name = "OWNER/NAME", env = "GITHUB_REPOSITORY")]
    repository: Option<Repository>,
    /// Platform that the run built for (default: the platform of this machine)
    #[arg(long, env = "ROCWHEEL_PLATFORM")]
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
        let run = self.args.run_id.as_ref();
        run.context("no run was named")
            .hint("pass `--run-id` with an id or the address of a run")
    }

    /// Whether the user named a run. If not, [`run`](Self::run) is the one that this process is
    /// part of.
    pub fn names_a_run(&self) -> bool {
        self.is_flag("run_id")
    }

    /// The platform that the packages are for.
    pub fn platform(&self) -> Platform {
        self.args.platform.unwrap_or(if cfg!(windows) {
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
        self.context_in(|name| env::var(name).ok())
    }

    /// The same arguments, but with this bucket.
    #[must_use]
    pub fn in_bucket(mut self, bucket: &Bucket) -> Self {
        self.args.bucket = Some(bucket.clone());
        self
    }

    fn context_in(&self, variable: impl Fn(&str) -> Option<String>) -> Result<RunContext> {
        let payload = self.args.event_path.as_ref();
        let payload = payload.map(fs_err::read_to_string).transpose();
        let payload = payload.hint("`--event-path` and `GITHUB_EVENT_PATH` name a file of JSON")?;
        let repository = self.args.repository.clone();
        let release_type = self.args.release_type;
        Ok(RunContext {
            // A bucket counts as chosen even if it comes from its environment variable, because
            // only users set that variable.
            bucket: self.args.bucket.clone(),
            repository: repository.filter(|_| self.is_flag("repository")),
            release_type: release_type.filter(|_| self.is_flag("release_type")),
            environment: Environment::parse(variable, payload.as_deref())?,
        })
    }
}

fn release_types() -> impl TypedValueParser<Value = ReleaseType> {
    PossibleValuesParser::new(ReleaseType::ALL.iter().map(|kind| kind.as_str()))
        .try_map(|text| text.parse())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::{CommandFactory as _, FromArgMatches as _};

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
        let context = arguments.context_in(in_actions).unwrap();
        let (choices, environment) = (context.clone(), context.environment);
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
        assert!(run.args.repository.is_some());
        let choices = run.context_in(|_| None).unwrap();
        assert!(choices.repository.is_none());
    }

    #[test]
    fn a_bucket_is_a_choice() {
        let run = parse("--bucket my-bucket").unwrap();
        let choices = run.context_in(|_| None).unwrap();
        assert_eq!(choices.bucket.unwrap().to_string(), "my-bucket");
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
        let context = parse(&line).unwrap().context_in(|_| None).unwrap();
        assert!(context.environment.event.is_some());
        let gone = parse("--event-path gone.json").unwrap();
        let error = render(&gone.context_in(|_| None).unwrap_err());
        assert!(error.contains("`gone.json`"), "{error}");
        assert!(error.contains("hint: `--event-path`"), "{error}");
    }
}
