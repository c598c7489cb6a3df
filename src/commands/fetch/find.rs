//! Which run is meant: one that was named, or those that may be the one, the likeliest first.

use std::{str::FromStr, time::Duration};

use crate::{
    commands::{
        World,
        args::{GitHubArgs, RunArgs},
    },
    error::{Error, No, Result, ensure, hinted},
    github::{GitHub, Run, Workflow},
    run::{Repository, RunId, RunReference},
};

/// As many runs of a branch as are looked at.
const MOST_RUNS: usize = 20;

/// How to find a run that is not named.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Run options")]
#[group(multiple = false)]
pub(super) struct SearchArgs {
    /// Use the newest run for this commit, tag or branch tip
    #[arg(long, value_name = "REF", env = "ROCWHEEL_RUN_COMMIT")]
    commit: Option<String>,
    /// Use the newest run on this branch that has the wanted artifacts
    #[arg(long, value_name = "NAME", env = "ROCWHEEL_RUN_BRANCH")]
    branch: Option<String>,
    /// Use the newest run for this pull request
    #[arg(long, value_name = "NUMBER", env = "ROCWHEEL_RUN_PR")]
    pr: Option<u64>,
    /// Use the newest run on the default branch that has the wanted artifacts
    #[arg(long, env = "ROCWHEEL_RUN_LATEST")]
    latest: bool,
}

/// Who tells about runs, and how long to wait for one.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Run options")]
pub(super) struct AskArgs {
    /// Workflow whose runs are searched
    #[arg(
        long,
        value_name = "FILE",
        default_value = "multi_arch_ci.yml",
        env = "ROCWHEEL_WORKFLOW"
    )]
    workflow: Workflow,
    /// How long to wait for missing artifacts while the run is in progress: `90s`, `30m`, `2h`
    #[arg(long, value_name = "DURATION", env = "ROCWHEEL_WAIT")]
    pub(super) wait: Option<Wait>,
    #[command(flatten)]
    pub(super) github: GitHubArgs,
}

/// A time, with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait(pub(super) Duration);

/// Why a text is not a `Wait`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a duration such as `90s`, `30m` or `2h`: {0:?}")]
pub(super) struct InvalidWait(String);

/// A run that may be the one.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) run: RunReference,
    /// What GitHub said about it, if it was asked.
    pub(super) told: Option<Run>,
}

impl SearchArgs {
    pub(super) fn is_empty(&self) -> bool {
        self.flag().is_none()
    }

    /// The flag that searches for a run, if one does.
    pub(super) fn flag(&self) -> Option<&'static str> {
        let flags = [
            (self.commit.is_some(), "--commit"),
            (self.branch.is_some(), "--branch"),
            (self.pr.is_some(), "--pr"),
            (self.latest, "--latest"),
        ];
        let mut flags = flags.into_iter().filter(|(is_set, _)| *is_set);
        flags.next().map(|(_, flag)| flag)
    }
}

impl AskArgs {
    /// A connection for runs of which nothing but this is known.
    pub(super) fn connect<'a>(&self, server: Option<&str>, world: &'a World) -> Result<GitHub<'a>> {
        let settings = self.github.settings(server)?;
        let announce = |text: &str| world.console.note(text);
        GitHub::connect(settings, world.stop.clone(), announce)
    }

    /// The runs that may be meant: with a search, those it finds; or else the one that is named.
    pub(super) fn candidates(
        &self,
        search: &SearchArgs,
        run: &RunArgs,
        world: &World,
    ) -> Result<Vec<Candidate>> {
        if search.is_empty() {
            let run = run.run()?.clone();
            return Ok(vec![Candidate { run, told: None }]);
        }
        let flag = search.flag().unwrap_or_default();
        ensure!(
            !run.names_a_run(),
            "`--run-id` cannot be used with `{flag}`"
        );
        let repository = run.repository(&RunId::local().into())?;
        let github = self.connect(None, world)?;
        let runs = self.search(search, &repository, &github)?;
        ensure!(!runs.is_empty(), self.no_runs(search, &repository));
        let candidate = |told: Run| Candidate {
            run: RunReference {
                id: told.id.clone(),
                repository: Some(repository.clone()),
                server: None,
            },
            told: Some(told),
        };
        Ok(runs.into_iter().map(candidate).collect())
    }

    fn search(&self, search: &SearchArgs, of: &Repository, github: &GitHub) -> Result<Vec<Run>> {
        let branch = match (&search.commit, search.pr, &search.branch) {
            (Some(name), ..) => {
                let commit = github.commit(of, name)?;
                return github.runs_of_commit(of, &self.workflow, &commit);
            }
            (None, Some(number), _) => {
                let commit = github.head_of_pull(of, number)?;
                return github.runs_of_commit(of, &self.workflow, &commit);
            }
            (None, None, Some(branch)) => branch.clone(),
            (None, None, None) => github.default_branch(of)?,
        };
        github.runs_of_branch(of, &self.workflow, &branch, MOST_RUNS)
    }

    fn no_runs(&self, search: &SearchArgs, repository: &Repository) -> Error {
        let what = match (&search.commit, search.pr, &search.branch) {
            (Some(name), ..) => format!("for commit `{name}`"),
            (None, Some(number), _) => format!("for the newest commit of pull request {number}"),
            (None, None, Some(branch)) => format!("on branch `{branch}`"),
            (None, None, None) => "on the default branch".to_owned(),
        };
        let message = format!("no run of `{}` {what} in `{repository}`", self.workflow);
        hinted(No(message), "look at `--workflow` and `--repository`")
    }
}

impl Candidate {
    /// In messages: `run 7 (0123456789ab)`.
    pub(super) fn in_words(&self) -> String {
        match &self.told {
            None => format!("run {}", self.run.id),
            Some(told) => {
                let commit: String = told.commit.chars().take(12).collect();
                format!("run {} ({commit})", self.run.id)
            }
        }
    }
}

impl FromStr for Wait {
    type Err = InvalidWait;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidWait(text.to_owned());
        let at = text.len().saturating_sub(1);
        let (number, unit) = text.split_at_checked(at).ok_or_else(invalid)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return Err(invalid()),
        };
        let number: u32 = number.parse().map_err(|_| invalid())?;
        Ok(Self(Duration::from_secs(u64::from(number) * seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_a_number_and_a_unit() {
        let seconds = |text: &str| text.parse::<Wait>().unwrap().0.as_secs();
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
        let messages = refused.map(|text| text.parse::<Wait>().unwrap_err().to_string());
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
