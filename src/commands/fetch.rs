//! `fetch`: downloads and unpacks the artifacts of a run, each in one stream.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use regex::Regex;

use super::{
    World,
    args::{AccessArgs, GitHubArgs, RunArgs, duration},
};
use crate::{
    artifact::Component,
    error::{Result, ensure},
    fetch::{FetchRequest, Keeper, LazyGitHub, OutputForm, Search, Wish},
    github::Workflow,
    run::{ArtifactGroup, Platform, Run, RunId},
    target::split_list,
    version::ReleaseType,
};

/// Download and unpack the artifacts of a run
///
/// Downloads, verifies and unpacks each archive in one stream, into a directory of its name.
/// Without patterns and lists, fetches all archives. Keeps complete artifacts of an earlier fetch.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel fetch --run-id 21440027240 --output-dir artifacts --dry-run
  rocwheel fetch --latest --amdgpu-families gfx94X-dcgpu --output-dir artifacts
  rocwheel fetch --pr 1234 blas --components lib,dev --output-dir artifacts")]
pub struct FetchArgs {
    /// Regular expressions: fetch only archives whose name matches one of them
    #[arg(value_name = "PATTERN", value_parser = pattern)]
    include: Vec<Regex>,
    /// Regular expressions: skip archives whose name matches one of them
    #[arg(long, value_name = "PATTERN", num_args = 1.., value_parser = pattern)]
    exclude: Vec<Regex>,
    /// Fetch only these components, comma-separated: `lib`, `run`, `dbg`, `dev`, `doc`, `test`
    #[arg(long, value_delimiter = ',')]
    components: Vec<Component>,
    /// Fetch only the artifacts that `build --only` needs for these packages: `core`,
    /// `device-gfx942`, `rocm-sdk-devel`
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',')]
    only: Vec<String>,
    /// Directory for the artifacts
    #[arg(long, value_name = "DIR", default_value = "build/artifacts")]
    output_dir: PathBuf,
    /// Save the archives without unpacking them
    #[arg(long, conflicts_with = "flatten")]
    no_extract: bool,
    /// Merge all artifacts into one install tree; different files at one path are an error
    #[arg(long)]
    flatten: bool,
    /// Print what would be fetched, and fetch nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    idle: IdleFlags,
}

/// Flags of TheRock's scripts that ask for what `fetch` does anyway, so that the command lines of
/// workflows need no change.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
struct IdleFlags {
    #[arg(long, hide = true, conflicts_with_all = ["no_extract", "flatten"])]
    extract: bool,
    #[arg(long, hide = true)]
    extract_concurrency: Option<NonZeroUsize>,
    #[arg(long, hide = true)]
    delete_after_extract: bool,
    #[arg(long, hide = true)]
    expand_family_to_targets: bool,
    #[arg(long, hide = true)]
    require_single_run: bool,
    #[arg(long, hide = true, conflicts_with = "dry_run")]
    no_dry_run: bool,
    #[arg(long, hide = true, value_parser = ["all"])]
    stage: Option<String>,
}

pub fn run(args: &FetchArgs, world: &World) -> Result<()> {
    let to = (args.output_dir.as_path(), args.form());
    let request = args.choice.request(args.wish())?;
    let job = request.decide(to, args.dry_run, world)?;
    if !args.dry_run {
        job.carry_out(world)?;
    }
    if let Some(others) = job.others() {
        world.console.warn(others);
    }
    world.console.answer(&job)
}

impl FetchArgs {
    fn wish(&self) -> Wish {
        Wish {
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            components: self.components.iter().copied().collect(),
            only: self.only.clone(),
            ..Wish::default()
        }
    }

    fn form(&self) -> OutputForm {
        if self.no_extract {
            OutputForm::Packed
        } else if self.flatten {
            OutputForm::Merged
        } else {
            OutputForm::Unpacked
        }
    }
}

/// The artifacts of a run.
#[derive(Debug, clap::Args)]
pub struct ChoiceArgs {
    /// Family that the run was built for: fetch its artifacts and the generic ones
    #[arg(long, value_name = "GROUP", env = "ARTIFACT_GROUP")]
    pub artifact_group: Option<ArtifactGroup>,
    /// Fetch only these families, plus generic artifacts: `gfx94X-dcgpu,gfx110X-all`
    #[arg(long, value_name = "FAMILIES", env = "AMDGPU_FAMILIES")]
    pub amdgpu_families: Option<String>,
    /// Fetch only these targets and their variants, plus generic artifacts: `gfx942,gfx1100`
    #[arg(long, value_name = "TARGETS", env = "AMDGPU_TARGETS")]
    pub amdgpu_targets: Option<String>,
    /// Fetch even if artifacts that the packages need are missing
    #[arg(long)]
    allow_incomplete: bool,
    /// Number of parallel downloads
    #[arg(
        long,
        alias = "download-concurrency",
        value_name = "N",
        default_value = "8"
    )]
    downloads: NonZeroUsize,
    /// Time limit for all downloads together: `90s`, `30m`, `2h`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    download_timeout: Option<Duration>,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// Workflow whose runs are searched
    #[arg(
        long,
        value_name = "FILE",
        default_value = "multi_arch_ci.yml",
        help_heading = "Run options"
    )]
    workflow: Workflow,
    /// How long to wait for missing artifacts while the run is in progress: `90s`, `30m`, `2h`
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Run options")]
    wait: Option<Duration>,
    #[command(flatten)]
    github: GitHubArgs,
    #[command(flatten)]
    access: AccessArgs,
    /// Read from this directory instead of a bucket: laid out like the bucket, or only with
    /// archives in it
    #[arg(long, value_name = "DIR", help_heading = "Run options")]
    input_dir: Option<PathBuf>,
    /// Where to fetch artifacts from; `auto` tries the bucket, then GitHub if the run's usual
    /// bucket has none
    #[arg(
        long = "source",
        value_name = "WHO",
        default_value = "auto",
        help_heading = "Run options"
    )]
    keeper: Keeper,
}

/// How to find a run that is not named.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Run options")]
#[group(multiple = false)]
struct SearchArgs {
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

impl ChoiceArgs {
    /// The request for `fetch`. `wish` may limit it to some of the artifacts of the run.
    pub fn request(&self, wish: Wish) -> Result<FetchRequest<'_>> {
        let list = |names: &Option<String>| {
            let names = names.as_deref().unwrap_or_default();
            split_list(names).map(str::to_owned).collect()
        };
        let search = self.search.get();
        let run = self.run.run().ok().cloned();
        ensure!(
            self.input_dir.is_none() || self.keeper != Keeper::GitHub,
            "`--source github` cannot be used with `--input-dir`"
        );
        if let Some(search) = &search {
            let flag = search.flag();
            ensure!(
                !self.run.names_a_run(),
                "`--run-id` cannot be used with `{flag}`"
            );
        }
        // A search asks the default server, whatever the environment says about this run.
        let named = run.clone().filter(|_| search.is_none());
        let server = named.and_then(|run| run.server);
        let settings = move || self.github.settings(server.as_deref());
        Ok(FetchRequest {
            run,
            search,
            workflow: self.workflow.clone(),
            context: self.run.context()?,
            platform: self.run.platform(),
            wait: self.wait,
            input_dir: self.input_dir.clone(),
            keeper: self.keeper,
            access: self.access.access(None)?,
            github: LazyGitHub::new(settings),
            wish: Wish {
                group: self.artifact_group.clone(),
                families: list(&self.amdgpu_families),
                targets: list(&self.amdgpu_targets),
                ..wish
            },
            allow_incomplete: self.allow_incomplete,
            downloads: self.downloads,
            time: self.download_timeout,
        })
    }

    /// The flag that searches for a run, if one was given.
    pub fn search_flag(&self) -> Option<&'static str> {
        self.search.get().map(|it| it.flag())
    }

    /// The run that the arguments name; without one, a local run. Does not search for a run.
    pub fn named_run(&self, world: &World) -> Result<Run> {
        let local = RunId::local().into();
        let run = self.run.run().unwrap_or(&local);
        self.run.resolve(run, &self.github, world)
    }

    /// The release type of the run, if it was given.
    pub fn release_type(&self) -> Option<ReleaseType> {
        self.run.release_type()
    }

    /// The platform of the run, which is that of its packages.
    pub fn platform(&self) -> Platform {
        self.run.platform()
    }

    /// Whether the arguments or the environment say which run to use.
    pub fn knows_a_run(&self) -> bool {
        self.run.run().is_ok() || self.search_flag().is_some() || self.input_dir.is_some()
    }
}

impl SearchArgs {
    fn get(&self) -> Option<Search> {
        let commit = self.commit.clone().map(Search::Commit);
        let branch = self.branch.clone().map(Search::Branch);
        let latest = self.latest.then_some(Search::Latest);
        let pull = self.pr.map(Search::Pull);
        commit.or(branch).or(pull).or(latest)
    }
}

/// Parses a regular expression. Only the last line of the error says what is wrong with it.
fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        let reason = last.trim_start_matches("error: ");
        format!("not a regular expression: {reason}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pattern_is_refused_in_words() {
        let refused = ["(", "a{2,1}", "(?=x)", "[z-a]"].map(|text| {
            let error = pattern(text).unwrap_err();
            format!("{text} {error}")
        });
        insta::assert_snapshot!(refused.join("\n"), @"
        ( not a regular expression: unclosed group
        a{2,1} not a regular expression: invalid repetition count range, the start must be <= the end
        (?=x) not a regular expression: look-around, including look-ahead and look-behind, is not supported
        [z-a] not a regular expression: invalid character class range, the start must be <= the end
        ");
    }
}
