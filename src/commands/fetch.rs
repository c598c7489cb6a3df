//! `fetch`: downloads and unpacks the artifacts of a run, each in one stream.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use regex::Regex;

use super::{
    World,
    args::{
        AccessArgs, GitHubArgs, RunArgs, SelectionArgs, StepOutputs, Variables, at_least_one,
        duration, unusual,
    },
};
use crate::{
    artifact::Component,
    fetch::{FetchRequest, LazyGitHub, OutputForm, Search, SourceKind, Wish},
    run::{Run, RunId, Workflow},
};
use rocwheel_base::{
    error::{Hint as _, Result, ensure},
    quantity::shell_word,
};

/// Flags that only `--help` lists.
const UNUSUAL: [&str; 16] = [
    "exclude",
    "only",
    "flatten",
    "all_artifacts",
    "allow_incomplete",
    "release_type",
    "bucket",
    "offline",
    "downloads",
    "require_artifact",
    "max_commits",
    "workflow",
    "source",
    "artifact_group",
    "input_dir",
    "wait",
];

/// Download and unpack the artifacts of a run
///
/// Downloads, verifies and unpacks each archive in one stream, into a directory of its name.
/// Without patterns and lists, fetches all archives. Keeps complete artifacts of an earlier fetch.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(mut_arg("all_artifacts", |it| it.visible_alias("all")))]
#[command(mut_args(|it| unusual(it, &UNUSUAL)))]
#[command(after_help = "Examples:
  rocwheel fetch --run-id 21440027240 --output-dir artifacts --dry-run
  rocwheel fetch --latest --amdgpu-families gfx94X-dcgpu --output-dir artifacts
  rocwheel fetch --find --latest --require-successful-run --format json
  rocwheel fetch --pr 1234 blas --components lib,dev --output-dir artifacts")]
pub struct FetchArgs {
    /// Regular expressions: fetch only archives whose name matches one of them
    #[arg(value_name = "PATTERN", conflicts_with = "all_artifacts")]
    include: Vec<Regex>,
    /// Regular expressions: skip archives whose name matches one of them
    #[arg(
        long,
        value_name = "PATTERN",
        num_args = 1..,
        conflicts_with = "all_artifacts"
    )]
    exclude: Vec<Regex>,
    /// Fetch only these components, comma-separated: `lib`, `run`, `dbg`, `dev`, `doc`, `test`
    #[arg(long, value_delimiter = ',', conflicts_with = "all_artifacts")]
    components: Vec<Component>,
    /// Fetch only the artifacts that `build --only` needs for these packages: `core`,
    /// `device-gfx942`, `rocm-sdk-devel`
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',', conflicts_with = "all_artifacts")]
    only: Vec<String>,
    /// Directory for the artifacts
    #[arg(long, short = 'o', value_name = "DIR", default_value = "build/artifacts")]
    output_dir: PathBuf,
    /// Save the archives without unpacking them
    #[arg(long, conflicts_with = "flatten")]
    no_extract: bool,
    /// Merge all artifacts into one install tree; different files at one path are an error
    #[arg(long)]
    flatten: bool,
    /// Print what would be fetched, and fetch nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Print which run it is, its commit, its state, its place and what it has, and fetch nothing
    #[arg(long, conflicts_with_all = ["no_extract", "flatten"])]
    find: bool,
    #[command(flatten)]
    outputs: StepOutputs,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    settings: FetchSettings,
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
    args.choice.run.ensure_readable()?;
    let wish = Wish {
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        components: args.components.iter().copied().collect(),
        only: args.only.clone(),
        ..Wish::default()
    };
    let mut request = args.choice.request(wish, &args.settings, world)?;
    if args.find {
        // A run that was named is described even if it is not enough for packages.
        request.allow_incomplete |= request.search.is_none();
        let found = request.find(world)?;
        if let Some(silence) = found.silence() {
            world.console.note(silence);
        }
        args.outputs.append(&found.outputs())?;
        return world.console.answer(&found);
    }
    let form = args.form();
    let job = request.decide(&args.output_dir, form, args.dry_run, world)?;
    args.outputs.append(&job.found.outputs())?;
    if !args.dry_run {
        job.carry_out(world)?;
    }
    if let Some(others) = job.others() {
        world.console.warn(others);
    }
    // The answer of a dry run is no file.
    if !args.dry_run && world.console.leaves_out_results() {
        return Ok(());
    }
    // Where both streams end in one log, the progress has named each archive.
    if args.dry_run || !world.console.has_one_reader() {
        return world.console.answer(&job);
    }
    world.console.data(job.in_short())?;
    if form != OutputForm::Merged {
        let artifacts = shell_word(&args.output_dir.to_string_lossy());
        world
            .console
            .next(format!("rocwheel build --artifact-dir {artifacts} --output-dir packages"));
    }
    Ok(())
}

impl FetchArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.outputs.read_variables(variables);
        self.choice.read_variables(variables)?;
        self.settings.read_variables(variables)
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
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Fetch even if artifacts that the packages need are missing
    #[arg(long)]
    allow_incomplete: bool,
    #[command(flatten)]
    pub run: RunChoice,
}

/// Which run, and where its outputs are read.
#[derive(Debug, clap::Args)]
pub struct RunChoice {
    #[command(flatten)]
    pub args: RunArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// How long to wait for what the run has not uploaded yet: `90s`, `30m`, `2h`
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Run options")]
    wait: Option<Duration>,
    /// Read from this directory instead of a bucket: laid out like the bucket, or only with
    /// archives in it
    #[arg(long, value_name = "DIR", help_heading = "Run options")]
    input_dir: Option<PathBuf>,
}

/// The number of parallel downloads, if no flag says it.
const DOWNLOADS: NonZeroUsize = NonZeroUsize::new(16).expect("16 is not zero");
/// How many runs of a branch are considered, if no flag says it.
const MAX_COMMITS: u16 = 20;

/// How runs are searched and artifacts fetched. `pipeline` has none of these flags.
#[derive(Debug, clap::Args)]
pub struct FetchSettings {
    /// Number of parallel downloads
    #[arg(
        long,
        alias = "download-concurrency",
        value_name = "N",
        default_value_t = DOWNLOADS,
        value_parser = at_least_one
    )]
    downloads: NonZeroUsize,
    /// Take only a run that has an artifact whose name matches this regular expression; can be
    /// given several times
    #[arg(long, value_name = "PATTERN", help_heading = "Run options")]
    require_artifact: Vec<Regex>,
    /// Take only a run that has ended with success
    #[arg(long, help_heading = "Run options")]
    require_successful_run: bool,
    /// How many of the newest runs of a branch are considered
    #[arg(
        long,
        value_name = "N",
        default_value_t = MAX_COMMITS,
        value_parser = clap::value_parser!(u16).range(1..=500),
        help_heading = "Run options"
    )]
    max_commits: u16,
    /// Workflow whose runs are searched
    #[arg(long, value_name = "FILE", default_value_t, help_heading = "Run options")]
    workflow: Workflow,
    /// Where to fetch artifacts from; `auto` tries the bucket, then GitHub if the run's usual
    /// bucket has none
    #[arg(
        long = "source",
        value_name = "WHO",
        default_value = "auto",
        help_heading = "Run options"
    )]
    source_kind: SourceKind,
    #[command(flatten)]
    github: GitHubArgs,
    #[command(flatten)]
    pub access: AccessArgs,
}

impl FetchSettings {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.github.read_variables(variables)?;
        self.access.read_variables(variables)
    }
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            downloads: DOWNLOADS,
            require_artifact: Vec::new(),
            require_successful_run: false,
            max_commits: MAX_COMMITS,
            workflow: Workflow::default(),
            source_kind: SourceKind::default(),
            github: GitHubArgs::default(),
            access: AccessArgs::default(),
        }
    }
}

/// How to find a run that is not named.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Run options")]
#[group(multiple = false)]
struct SearchArgs {
    /// Use the newest run for this commit, tag or branch tip
    #[arg(long, alias = "ref", value_name = "REF")]
    commit: Option<String>,
    /// Use the newest run on this branch that has the wanted artifacts
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Use the newest run for this pull request
    #[arg(long, value_name = "NUMBER")]
    pr: Option<u64>,
    /// Use the newest run on the default branch that has the wanted artifacts
    #[arg(long)]
    latest: bool,
}

impl ChoiceArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.run.read_variables(variables)
    }

    /// The request for `fetch`. `wish` may limit it to some of the artifacts of the run. Tells
    /// what environment variables decide.
    pub fn request<'a>(
        &'a self,
        wish: Wish,
        settings: &'a FetchSettings,
        world: &World,
    ) -> Result<FetchRequest<'a>> {
        let (selection, notes) = self.selection.decide()?;
        for note in notes {
            world.console.note(note);
        }
        let wish = Wish {
            groups: selection.groups,
            families: selection.families,
            targets: selection.targets,
            ..wish
        };
        self.run.request(wish, self.allow_incomplete, settings)
    }
}

impl RunChoice {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.args.read_variables(variables)
    }

    fn request<'a>(
        &'a self,
        wish: Wish,
        allow_incomplete: bool,
        settings: &'a FetchSettings,
    ) -> Result<FetchRequest<'a>> {
        let search = self.search.get();
        let run = self.args.run().ok().cloned();
        ensure!(
            self.input_dir.is_none() || settings.source_kind != SourceKind::GitHub,
            "`--source github` cannot be used with `--input-dir`"
        );
        if let Some(search) = &search {
            let flag = search.flag();
            ensure!(!self.args.names_a_run(), "`--run-id` cannot be used with `{flag}`");
        }
        // A search asks the default server, even if the environment names another one for this run.
        let named = run.clone().filter(|_| search.is_none());
        let server = named.and_then(|run| run.server);
        let github = move || {
            self.args.ensure_online("asking GitHub")?;
            settings.github.settings(server.as_deref())
        };
        Ok(FetchRequest {
            run,
            search,
            workflow: settings.workflow.clone(),
            most_runs: settings.max_commits.into(),
            needs_success: settings.require_successful_run,
            context: self.args.context()?,
            platform: self.args.platform(),
            wait: self.wait,
            input_dir: self.input_dir.clone(),
            source_kind: settings.source_kind,
            access: settings.access.access(None)?,
            github: LazyGitHub::new(github),
            wish: Wish { required: settings.require_artifact.clone(), ..wish },
            allow_incomplete,
            downloads: settings.downloads,
        })
    }

    /// How long to wait for what a run has not uploaded yet.
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    pub fn input_dir(&self) -> Option<&Path> {
        self.input_dir.as_deref()
    }

    /// Whether a flag says which run to use.
    pub fn names_a_run(&self) -> bool {
        self.args.names_a_run() || self.search_flag().is_some()
    }

    /// The run that the arguments name, or the newest of a search for which `has` succeeds.
    pub fn find_run(
        &self,
        settings: &FetchSettings,
        world: &World,
        has: &dyn Fn(&Run) -> Result<()>,
    ) -> Result<Run> {
        if self.search_flag().is_none() {
            let run = self.args.run()?;
            // A directory has the same places in whichever bucket the run is, so GitHub need not be asked.
            let args = match self.input_dir {
                Some(_) => self.args.clone().of_directory(),
                None => self.args.clone(),
            };
            return args.resolve(run, &settings.github, world);
        }
        let request = self.request(Wish::default(), false, settings)?;
        request.search_run(world, has)
    }

    /// Fails with `--offline` if the artifacts are not in a directory.
    pub fn ensure_readable(&self) -> Result<()> {
        if self.input_dir.is_some() {
            return Ok(());
        }
        self.args.ensure_online("fetching from a bucket or from GitHub").hint(
            "fetch from `--input-dir`, or ask `rocwheel place` where a run keeps its packages",
        )
    }

    /// The flag that searches for a run, if one was given.
    pub fn search_flag(&self) -> Option<&'static str> {
        self.search.get().map(|it| it.flag())
    }

    /// The run that the arguments name; without one, a local run. Does not search for a run.
    pub fn named_run(&self, settings: &FetchSettings, world: &World) -> Result<Run> {
        let local = RunId::local().into();
        let run = self.args.run().unwrap_or(&local);
        self.args.resolve(run, &settings.github, world)
    }

    /// Whether the arguments or the environment say which run to use.
    pub fn knows_a_run(&self) -> bool {
        self.args.run().is_ok() || self.search_flag().is_some() || self.input_dir.is_some()
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
