//! `summary`: describes a published set and how to install it, for people and for later steps of a
//! workflow.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::builder::Resettable;
use fs_err as fs;

use super::{
    World,
    args::{AccessArgs, PublishedArgs, SetArg, StepOutputs, Variables, unusual},
    check,
};
use crate::{
    check::{Report, facts_of},
    console::OutputFormat,
    diff::{Baseline, Difference},
    index::{Places, SetJson, Urls},
    place::{self, KnownPackages, LocalSet, PackageDirectories, PlaceArg, PlaceDepth, SetPlace},
    report::{LIMIT, SummaryPage, Whereabouts, WorkflowArtifact, WorkflowArtifactName, outputs},
    run::ApiUrl,
};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, anyhow},
    io::read_text,
};

/// Flags that only `--help` lists.
const UNUSUAL: [&str; 9] = [
    "artifact_group",
    "input_dir",
    "workflow_artifact",
    "findings",
    "accept",
    "base_index",
    "release_type",
    "bucket",
    "offline",
];

/// Summarize a package set and how to install it
///
/// Reads the packages in SET, a directory or an address such as `s3://bucket/prefix`, or else those
/// that a run has published. Prints the summary, unless `--output` is given or GitHub Actions shows
/// it. It has what the last `check` said of a directory, if no package has changed since.
#[derive(Debug, clap::Args)]
#[command(mut_arg("set", |it| it.required_unless_present(Resettable::Reset)))]
#[command(mut_args(|it| unusual(it, &UNUSUAL)))]
#[command(after_help = "Examples:
  rocwheel summary packages --check
  rocwheel summary s3://bucket/directory --output summary.md")]
pub struct SummaryArgs {
    #[command(flatten)]
    set: SetArg,
    /// Address of the published set, as `upload` prints it [default: the address of SET]
    #[arg(long, value_name = "URL")]
    index_url: Option<String>,
    /// Name of the workflow artifact that has the set, if it is not published
    #[arg(long, value_name = "NAME", conflicts_with = "index_url")]
    workflow_artifact: Option<WorkflowArtifactName>,
    /// Write the summary to this file
    #[arg(long, short = 'o', alias = "summary", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show the findings and the device code of libraries from this output of `check --format json`
    #[arg(long, value_name = "FILE")]
    findings: Option<PathBuf>,
    /// Run `check` on the packages of a directory [default: what the last `check` said, if they are the same]
    #[arg(long, conflicts_with = "findings")]
    check: bool,
    #[command(flatten)]
    accept: check::AcceptArgs,
    #[command(flatten)]
    inputs: SummaryInputs,
    #[command(flatten)]
    published: PublishedArgs,
    #[command(flatten)]
    access: AccessArgs,
}

/// What the page about a set needs besides the set, and where a step of a workflow says what it did: files
/// and addresses that the runner names in variables.
#[derive(Debug, clap::Args)]
pub struct SummaryInputs {
    /// Index for third-party dependencies; adds a second index to the install lines
    #[arg(long, value_name = "URL")]
    pub base_index: Option<Urls>,
    /// Show what changed since this set: a directory, a `set.json`, or `s3://bucket/prefix`
    #[arg(long, value_name = "SET")]
    baseline: Option<PlaceArg>,
    // For the summary.
    #[arg(long, hide = true)]
    step_summary: Option<PathBuf>,
    // With a step summary, `job_summary.md` in this directory gets the same: a later step of TheRock's
    // workflows reads it.
    #[arg(long, hide = true)]
    runner_temp: Option<PathBuf>,
    #[command(flatten)]
    outputs: StepOutputs,
    // For links to runs and commits.
    #[arg(long, hide = true)]
    server: Option<String>,
}

pub fn run(args: &SummaryArgs, world: &World) -> Result<()> {
    let place = args.place(world)?;
    for place in [&place].into_iter().chain(&args.inputs.baseline) {
        args.published.ensure_readable(place)?;
    }
    let report = args.report(&place, world)?;
    // A set with errors is not to be installed, so its page has no commands for it.
    let has_errors = report.as_ref().is_some_and(|it| it.errors > 0);
    let artifact = args.artifact(&place)?;
    let needs_urls = artifact.is_none() && !has_errors;
    let (set, urls) = args.read(&place, needs_urls, world)?;
    let changes = match args.inputs.baseline(&args.access, world)? {
        Some(baseline) => {
            let place = args.access.place(&place, &world.stop)?;
            Some(baseline.changes(&place, Some(&set), world)?)
        }
        None => None,
    };
    let base = args.inputs.base_index.as_ref();
    let page = SummaryPage {
        set: &set,
        whereabouts: match (&artifact, &urls) {
            _ if has_errors => Whereabouts::Nowhere,
            (Some(artifact), _) => Whereabouts::Kept(artifact),
            (None, Some(set)) => Whereabouts::Published(Places { set, base }),
            (None, None) => Whereabouts::Nowhere,
        },
        server: args.inputs.server(),
        report: report.as_ref(),
        changes: changes.as_ref(),
    };
    args.inputs.append_outputs(&set, urls.as_ref())?;
    args.inputs.append_page(&page, world)?;
    args.print(&page, world)
}

impl SummaryArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.accept.read_variables(variables);
        self.inputs.read_variables(variables)?;
        self.published.read_variables(variables)?;
        self.access.read_variables(variables)
    }

    /// The place in the arguments, or else the place where the run keeps its packages.
    fn place(&self, world: &World) -> Result<PlaceArg> {
        if let Some(set) = self.set.named() {
            return Ok(set.clone());
        }
        if self.published.run.run().is_err() {
            return Err(anyhow!("no package set was named"))
                .hint("pass a directory, `s3://bucket/prefix`, or `--run-id`");
        }
        self.published.place(world)
    }

    /// Reads the set, and its addresses if it is published. A set in a workflow artifact, or one with
    /// errors, need not have an index.
    fn read(
        &self,
        place: &PlaceArg,
        needs_urls: bool,
        world: &World,
    ) -> Result<(SetJson, Option<Urls>)> {
        let given = self.index_url.as_deref().map(Urls::of_index).transpose()?;
        match place {
            PlaceArg::Bucket(_) | PlaceArg::Web(_) => {
                let place = self.access.place(place, &world.stop)?;
                let set = place.set_json()?;
                let urls = given.map_or_else(|| place.urls(), Ok)?.in_layout(set.layout());
                Ok((set, Some(urls)))
            }
            PlaceArg::Directory(directory) => {
                // An index lists what other programs publish beside `dist/` too.
                let directories = if directory.join("simple").is_dir() {
                    PackageDirectories::All
                } else {
                    PackageDirectories::Built
                };
                let local = LocalSet::read(directory, directories, KnownPackages::new(), world)?;
                let urls = match given {
                    None if needs_urls => Some(urls_of_indexed(&local)?),
                    given => given,
                };
                let layout = local.document.layout();
                Ok((local.document, urls.map(|it| it.in_layout(layout))))
            }
        }
    }

    /// Writes the summary to `--output`. Without that flag, prints it, unless GitHub Actions shows
    /// it anyway. Prints JSON only with `--format json`.
    fn print(&self, page: &SummaryPage<'_>, world: &World) -> Result<()> {
        if let Some(file) = &self.output {
            fs::write(file, page.render(LIMIT))?;
        }
        let is_told = self.output.is_some() || self.inputs.step_summary.is_some();
        if is_told && world.console.format() != OutputFormat::Json {
            return Ok(());
        }
        world.console.answer(page)
    }

    /// The workflow artifact with the packages, if they are not published.
    fn artifact(&self, place: &PlaceArg) -> Result<Option<WorkflowArtifact>> {
        let Some(name) = self.workflow_artifact.clone() else {
            return Ok(None);
        };
        if let PlaceArg::Bucket(_) | PlaceArg::Web(_) = place {
            return Err(anyhow!("the set is published: `{place}`"))
                .hint("`--workflow-artifact` is for packages in a directory");
        }
        // A page for a set that no run made has no link.
        let run = match self.published.run.run() {
            Ok(run) if !run.id.is_local() => {
                Some((self.published.run.context()?.repository(run)?, run.id.clone()))
            }
            _ => None,
        };
        Ok(Some(WorkflowArtifact { name, run }))
    }

    fn report(&self, place: &PlaceArg, world: &World) -> Result<Option<Report>> {
        if let Some(file) = &self.findings {
            return Report::parse(&read_text(file)?).map(Some);
        }
        match place {
            PlaceArg::Directory(directory) if !self.check => {
                let place = SetPlace::directory(directory, &world.stop);
                let memory = check::Policy::accepting(&self.accept).memory(&place)?;
                Ok(memory.and_then(|it| it.report()))
            }
            _ if !self.check => Ok(None),
            PlaceArg::Directory(directory) => {
                let place = SetPlace::directory(directory, &world.stop);
                let set = facts_of(&place, PlaceDepth::Pages, World::jobs(), world)?;
                let policy = check::Policy::accepting(&self.accept);
                policy.judge(&set, Vec::new(), world).map(Some)
            }
            PlaceArg::Bucket(_) | PlaceArg::Web(_) => {
                Err(anyhow!("`--check` is for packages in a directory"))
                    .hint("pass `--findings` with what `rocwheel check --format json` wrote")
            }
        }
    }
}

impl SummaryInputs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill_path(&mut self.step_summary, "GITHUB_STEP_SUMMARY");
        variables.fill_path(&mut self.runner_temp, "RUNNER_TEMP");
        variables.fill(&mut self.server, "GITHUB_SERVER_URL")?;
        self.outputs.read_variables(variables);
        Ok(())
    }

    /// Opens the set to compare with. Call it before anything is published: if `--baseline` is wrong, the command must
    /// fail before, and not between publishing the set and writing its outputs.
    pub fn baseline(&self, access: &AccessArgs, world: &World) -> Result<Option<Baseline>> {
        let baseline = self.baseline.as_ref();
        let open = |place| open_baseline(place, access, world);
        baseline.map(open).transpose()
    }

    /// The GitHub server whose pages links lead to.
    pub fn server(&self) -> &str {
        self.server.as_deref().unwrap_or(ApiUrl::PAGES)
    }

    /// Appends a page to the summary of the step, if there is a file for it.
    pub fn append_page(&self, page: &SummaryPage<'_>, world: &World) -> Result<()> {
        let Some(file) = &self.step_summary else {
            return Ok(());
        };
        let summary = page.render(room(file));
        if summary.is_empty() {
            let problem = "the job summary is full, and has none of the packages";
            world.console.warn(problem);
        }
        append(file, &summary)?;
        let Some(directory) = &self.runner_temp else {
            return Ok(());
        };
        // The packages are published, and the page is written: no copy of it is worth a failure.
        if let Err(error) = append(&directory.join("job_summary.md"), &summary) {
            let problem = format!("the summary is not in `job_summary.md`: {error:#}");
            world.console.warn(problem);
        }
        Ok(())
    }

    /// Appends the step outputs of a set, if there is a file for them.
    pub fn append_outputs(&self, set: &SetJson, urls: Option<&Urls>) -> Result<()> {
        if !self.outputs.are_wanted() {
            return Ok(());
        }
        self.outputs.append(&outputs::of(set, urls))
    }

    /// Appends the step outputs of packages of a product, if there is a file for them.
    pub fn append_product_outputs(&self, set: &SetJson, index: &str) -> Result<()> {
        if !self.outputs.are_wanted() {
            return Ok(());
        }
        self.outputs.append(&outputs::of_product(set, index))
    }
}

/// What changed in the packages of a directory since a baseline.
pub fn changes_since(
    baseline: Option<&Baseline>,
    set: &LocalSet,
    world: &World,
) -> Result<Option<Difference>> {
    let place = SetPlace::directory(&set.root, &world.stop);
    let changes = |it: &Baseline| it.changes(&place, Some(&set.document), world);
    baseline.map(changes).transpose()
}

/// How many bytes a step summary can still take. GitHub drops a summary that is too long, also the
/// parts that other commands wrote.
pub fn room(file: &Path) -> usize {
    let used = fs::metadata(file).map_or(0, |metadata| metadata.len());
    LIMIT.saturating_sub(usize::try_from(used).unwrap_or(usize::MAX))
}

/// Appends to a file that other commands of the step may write to as well.
pub fn append(file: &Path, text: &str) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.append(true).create(true).open(file)?;
    Ok(file.write_all(text.as_bytes())?)
}

/// Opens a set to compare with: a `set.json` under any name, or a place with packages.
pub fn open_baseline(named: &PlaceArg, access: &AccessArgs, world: &World) -> Result<Baseline> {
    let read = |file: &Path| {
        let document = SetJson::parse(&read_text(file)?);
        document.with_context(|| format!("failed to read `{}`", file.display()))
    };
    match named {
        PlaceArg::Bucket(_) | PlaceArg::Web(_) => {
            let place = access.place(named, &world.stop)?;
            // Without it, the pages lead to the packages.
            let document = place.find_set_json()?;
            Ok(Baseline::Place(place, document))
        }
        PlaceArg::Directory(file) if file.is_file() => {
            Ok(Baseline::Document(file.display().to_string(), read(file)?))
        }
        PlaceArg::Directory(_) => {
            let place = access.place(named, &world.stop)?;
            let file = place.local().map(|root| root.join("set.json"));
            let document = match file.filter(|file| file.exists()) {
                Some(file) => Some(read(&file)?),
                None => None,
            };
            Ok(Baseline::Place(place, document))
        }
    }
}

/// The addresses of a set whose directory has its index.
fn urls_of_indexed(local: &LocalSet) -> Result<Urls> {
    if !local.root.join("simple").is_dir() {
        return Err(anyhow!("no index in `{}`", local.root.display()))
            .hint("run `rocwheel index` on it, or pass `--index-url`");
    }
    place::urls_of_directory(&local.root)
}
