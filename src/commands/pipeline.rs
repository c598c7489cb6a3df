//! `pipeline`: runs all steps from artifacts to published packages. The artifacts come from the
//! built-in sample, a directory, or a run.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, ArgMatches, Command, FromArgMatches};
use itertools::Itertools as _;

use super::{
    World,
    args::AccessArgs,
    build::{self, BuildInputs},
    check,
    fetch::ChoiceArgs,
    summary,
};
use crate::{
    artifact::{ArchiveName, ArtifactTree, TherockManifest, input, sample},
    atomic::lock::{Lock, LockPurpose},
    check::Report,
    console::many,
    error::{Hint as _, Result, anyhow},
    fetch::{FetchJob, OutputForm, Wish},
    location::Location,
    package::{
        Expected,
        assemble::Existing,
        build::{Build, BuildSelection},
    },
    report::{Forecast, LIMIT, PipelineAnswer, SummaryPage, Whereabouts},
    run::Run,
    set::{
        LocalSet, Places, PlannedUpload, PublishedUpload, SetJson, SetPlace, UploadOptions, Urls,
    },
};

/// Run every step from artifacts to packages that pip and uv can install
///
/// Fetches or unpacks the artifacts, builds, checks, indexes, and publishes to a directory laid out
/// like the run's bucket. Ends with the commands that install the packages. Uploads nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel pipeline --sample --output-dir out
  rocwheel pipeline --artifact-dir artifacts --output-dir out --dry-run
  rocwheel pipeline --run-id 21440027240 --output-dir out")]
pub struct PipelineArgs {
    #[command(flatten)]
    origin: OriginArgs,
    /// Directory for the artifacts, the packages and the published set
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Check and publish the packages that an earlier call built, without building them again
    #[arg(long)]
    resume: bool,
    /// Print what would be read and written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Index for third-party dependencies; adds a second index to the install lines
    #[arg(long, value_name = "URL")]
    base_index: Option<Urls>,
    /// Compare package sizes with this set: a directory or a `set.json`
    #[arg(long, value_name = "SET")]
    baseline: Option<PathBuf>,
    /// Write the summary to this file
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    #[command(flatten)]
    steps: summary::Steps,
    #[command(flatten, next_help_heading = "Build options")]
    what: BuildInputs,
    #[command(flatten, next_help_heading = "Check options")]
    policy: check::Policy,
}

pub fn run(args: &PipelineArgs, world: &World) -> Result<()> {
    let unpacked = args.output_dir.join("artifacts");
    let only_tell = args.dry_run || args.resume;
    let origin = args.origin.settle(&unpacked, only_tell, world)?;
    if args.dry_run {
        return world
            .console
            .answer(&origin.forecast(&args.output_dir, &args.what, world)?);
    }
    let _lock = Lock::to_write(&args.output_dir, LockPurpose::Pipeline)?;
    let set = if args.resume {
        args.resumed(world)?
    } else {
        args.build(&origin.read(&unpacked, &args.what, world)?, world)?
    };
    let hint = format!(
        "the packages are in `{}`: the same command with `--resume` goes on with them, and takes \
         `--accept` or `--ignore` for findings that may stay",
        args.packages().display()
    );
    let report = args.check(&set, world).hint(hint)?;
    let PublishedUpload { set, urls, .. } = args.publish(&set, &origin, world)?;
    let earlier = args.earlier(world)?;
    let page = args.page(&set, Some(&urls), &report, earlier.as_ref());
    args.tell(&page, world)?;
    let outputs = args.steps.github_output.as_deref();
    summary::append_outputs(outputs, &set, Some(&urls), world)?;
    world.console.answer(&PipelineAnswer(page))
}

impl PipelineArgs {
    fn packages(&self) -> PathBuf {
        self.output_dir.join("packages")
    }

    fn build(&self, tree: &ArtifactTree, world: &World) -> Result<LocalSet> {
        let _group = world.console.group("Packages");
        let packages = self.packages();
        let options = self.what.options()?;
        let build = Build::plan(tree, &options, &BuildSelection::All, &packages, world)?;
        build.ensure_complete()?;
        let _lock = Lock::to_write(&packages, LockPurpose::BuildBelow)?;
        let made = build.make(&packages, Existing::Replace, world)?;
        LocalSet::built(&packages, &build.plan, &build.manifest()?, &made, world)
    }

    /// The packages of an earlier call, for `--resume`. Fails if they have changed since.
    fn resumed(&self, world: &World) -> Result<LocalSet> {
        let _group = world.console.group("Packages");
        let packages = self.packages();
        if !packages.join("set.json").is_file() {
            return Err(anyhow!("no finished packages in `{}`", packages.display()))
                .hint("run the same command without `--resume`");
        }
        let set = LocalSet::read(&packages, world)?;
        set.ensure_as_described(true)?;
        let (count, packages) = (many(set.set.files().len(), "package"), packages.display());
        let facts = format!("with {count} in `{packages}`");
        world.console.status("Resumed", facts);
        Ok(set)
    }

    /// Publishes the set below the output directory, under the key that `place` prints for the run.
    fn publish(
        &self,
        set: &LocalSet,
        origin: &ArtifactsOrigin<'_>,
        world: &World,
    ) -> Result<PublishedUpload> {
        let _group = world.console.group("Index");
        let identity = set.document.identity.clone().or_of(&origin.run);
        let destination = SetPlace::below(&self.output_dir, origin.place().key(), &world.stop);
        let options = UploadOptions {
            is_part: false,
            // Files of an earlier call in this directory belong to the same user.
            overwrite: true,
            is_dry_run: false,
        };
        PlannedUpload::plan(set, identity, destination, options, world)?.carry_out(world)
    }

    /// Checks the set. If it has errors, writes a summary that says so, and fails.
    fn check(&self, set: &LocalSet, world: &World) -> Result<Report> {
        let mut policy = self.policy.clone();
        policy.jobs = self.what.jobs.clone();
        let report = check::look(&self.packages(), &AccessArgs::default(), &policy, world)?;
        let verdict = policy.verdict(&report);
        if verdict.is_err() {
            let earlier = self.earlier(world)?;
            let page = self.page(&set.document, None, &report, earlier.as_ref());
            self.tell(&page, world)?;
        }
        verdict.map(|()| report)
    }

    fn earlier(&self, world: &World) -> Result<Option<SetJson>> {
        let earlier = self.baseline.as_deref();
        let earlier = earlier.map(|place| summary::local_document(place, world));
        earlier.transpose()
    }

    fn page<'a>(
        &'a self,
        set: &'a SetJson,
        urls: Option<&'a Urls>,
        report: &'a Report,
        earlier: Option<&'a SetJson>,
    ) -> SummaryPage<'a> {
        let base = self.base_index.as_ref();
        SummaryPage {
            set,
            whereabouts: urls.map_or(Whereabouts::Nowhere, |set| {
                Whereabouts::Published(Places { set, base })
            }),
            server: &self.steps.server,
            report: Some(report),
            earlier,
        }
    }

    fn tell(&self, page: &SummaryPage<'_>, world: &World) -> Result<()> {
        if let Some(file) = &self.summary {
            fs_err::write(file, page.render(LIMIT))?;
        }
        self.steps.page(page, world)
    }
}

/// Which artifacts to take.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("source"))]
struct OriginArgs {
    /// Use the built-in sample, a small run with every kind of artifact
    #[arg(long, group = "source")]
    sample: bool,
    /// Directory with the artifacts, as directories, archives, or both
    #[arg(long, value_name = "DIR", group = "source")]
    artifact_dir: Option<PathBuf>,
    #[command(flatten)]
    run: RunArtifactsOrigin,
}

/// The artifacts of a run. They are for the same platform as the packages.
#[derive(Debug)]
struct RunArtifactsOrigin(ChoiceArgs);

/// Artifacts that are chosen but not read yet, and the run that their packages belong to.
struct ArtifactsOrigin<'a> {
    artifacts: Artifacts<'a>,
    /// The run that the packages belong to.
    run: Run,
    choice: &'a ChoiceArgs,
}

enum Artifacts<'a> {
    Sample,
    Directory(&'a Path),
    Run(Box<FetchJob<'a>>),
}

impl OriginArgs {
    /// Resolves the run. Searches for it if the arguments do not name it.
    fn settle<'a>(
        &'a self,
        unpacked: &Path,
        is_dry_run: bool,
        world: &'a World,
    ) -> Result<ArtifactsOrigin<'a>> {
        let choice = &self.run.0;
        let (flag, artifacts) = match &self.artifact_dir {
            _ if self.sample => ("--sample", Artifacts::Sample),
            Some(directory) => {
                build::ensure_all(directory)?;
                ("--artifact-dir", Artifacts::Directory(directory))
            }
            None => {
                if !choice.knows_a_run() {
                    return Err(anyhow!("no artifacts and no run were given")).hint(
                        "pass `--run-id`, `--commit`, `--pr`, `--branch`, `--latest`, `--artifact-dir` or `--sample`",
                    );
                }
                let request = choice.request(Wish::default())?;
                let job = request.decide((unpacked, OutputForm::Unpacked), is_dry_run, world)?;
                return Ok(ArtifactsOrigin {
                    run: job.run.clone(),
                    artifacts: Artifacts::Run(Box::new(job)),
                    choice,
                });
            }
        };
        // To say where the packages belong, the run must be named.
        if let Some(search) = choice.search_flag() {
            return Err(anyhow!("`{search}` cannot be used with `{flag}`")).hint(format!(
                "name the run that the packages are for with `--run-id`, or leave out `{flag}`"
            ));
        }
        if choice.narrows() {
            world.console.warn(format!(
                "`--amdgpu-families` and `--amdgpu-targets` are for fetched artifacts: all \
                 artifacts of `{flag}` are used"
            ));
        }
        Ok(ArtifactsOrigin {
            artifacts,
            run: choice.named_run(world)?,
            choice,
        })
    }
}

impl<'a> ArtifactsOrigin<'a> {
    /// The place where that run keeps its packages.
    fn place(&self) -> Location {
        let group = self.choice.group().cloned().unwrap_or_default();
        self.run.python(&group)
    }

    /// Fetches or unpacks the artifacts if necessary, and scans them.
    fn read(&self, unpacked: &Path, what: &BuildInputs, world: &World) -> Result<ArtifactTree> {
        let _group = world.console.group("Artifacts");
        match &self.artifacts {
            Artifacts::Sample => {
                let names = unpack_sample(unpacked, world)?;
                let names: Vec<_> = names.iter().map(|name| &name.artifact).collect();
                input::scan_only(unpacked, &names, what.jobs.count(), world)
            }
            Artifacts::Directory(directory) => {
                input::read(directory, unpacked, what.jobs.count(), world)
            }
            Artifacts::Run(job) => {
                job.carry_out(world)?;
                input::scan_only(unpacked, &job.artifacts(), what.jobs.count(), world)
            }
        }
    }

    /// The names of the artifacts.
    fn names(&self) -> Result<Vec<String>> {
        let names = match &self.artifacts {
            Artifacts::Sample => {
                let archives = sample::archives()?;
                let names = archives.iter().map(|it| it.file_name().to_owned());
                names.collect()
            }
            Artifacts::Run(job) => job.artifacts().iter().map(ToString::to_string).collect(),
            Artifacts::Directory(directory) => input::names(directory)?,
        };
        Ok(names.into_iter().sorted().collect())
    }

    /// What the pipeline would read and write, for `--dry-run`.
    fn forecast(
        &self,
        output_dir: &Path,
        what: &BuildInputs,
        world: &World,
    ) -> Result<Forecast<'_, 'a>> {
        let (fetch, reads) = match &self.artifacts {
            Artifacts::Sample => (None, "the built-in sample".to_owned()),
            Artifacts::Directory(directory) => (None, directory.display().to_string()),
            Artifacts::Run(job) => (Some(&**job), job.from.clone()),
        };
        let expected = self.expected(what, world)?;
        let artifacts = self.names()?;
        Forecast::new(
            fetch,
            (reads, artifacts),
            expected,
            output_dir,
            &self.place(),
        )
    }

    /// The packages that would be built. If the artifacts are archives, reads only the one with the
    /// manifest, which says which version was built.
    fn expected(&self, what: &BuildInputs, world: &World) -> Result<Vec<Expected>> {
        let scratch = tempfile::tempdir()?;
        let place = scratch.path();
        let names = match &self.artifacts {
            Artifacts::Sample => {
                unpack_sample(place, world)?;
                return planned(place, what, world);
            }
            Artifacts::Directory(directory) => {
                let archives = input::archives(directory)?;
                if archives.is_empty() {
                    return planned(directory, what, world);
                }
                let mut names = ArtifactTree::names(directory).unwrap_or_default();
                for (path, name) in archives {
                    if name.artifact.to_string() == TherockManifest::ARTIFACT {
                        let file = fs_err::File::open(&path)?;
                        let size = file.metadata()?.len();
                        input::unpack_one(file, size, &name, place, world)?;
                    }
                    names.push(name.artifact);
                }
                names
            }
            Artifacts::Run(job) => {
                let manifest = format!("^{}", TherockManifest::ARTIFACT);
                let wish = Wish {
                    include: vec![manifest.parse()?],
                    ..Wish::default()
                };
                let quiet = world.quiet();
                let request = self.choice.request(wish)?;
                let base = request.decide((place, OutputForm::Unpacked), false, &quiet)?;
                base.carry_out(&quiet)?;
                job.artifacts().into_iter().cloned().collect()
            }
        };
        let mut scanned = ArtifactTree::scan(place, what.jobs.count(), &world.stop)?;
        if let (Artifacts::Directory(directory), true) =
            (&self.artifacts, scanned.artifacts.is_empty())
        {
            scanned = ArtifactTree::scan(directory, what.jobs.count(), &world.stop)?;
        }
        let options = what.options()?;
        let request = options.request(&scanned.therock_manifest()?)?;
        request.expected(&names)
    }
}

/// The packages of artifacts that are unpacked.
fn planned(directory: &Path, what: &BuildInputs, world: &World) -> Result<Vec<Expected>> {
    let tree = input::scan(directory, what.jobs.count(), world)?;
    let options = what.options()?;
    let build = Build::plan(&tree, &options, &BuildSelection::All, Path::new(""), world)?;
    build.ensure_complete()?;
    Ok(build.plan.expected())
}

fn unpack_sample(unpacked: &Path, world: &World) -> Result<Vec<ArchiveName>> {
    let mut names = Vec::new();
    for archive in sample::archives()? {
        let name: ArchiveName = archive.file_name().parse()?;
        let size = archive.bytes().len() as u64;
        input::unpack_one(archive.bytes(), size, &name, unpacked, world)?;
        names.push(name);
    }
    Ok(names)
}

/// The arguments of `fetch` without `--platform`, which `pipeline` already declares for the
/// packages. Both read its value. This struct has to read it first, because the code that clap
/// derives removes a value from the matches when it reads it.
impl clap::Args for RunArtifactsOrigin {
    fn augment_args(command: Command) -> Command {
        let own = ChoiceArgs::augment_args(Command::new("run"));
        let arguments = own.get_arguments().filter(|it| it.get_id() != "platform");
        // Without a heading, these options of `fetch` would be listed among those of `pipeline`.
        let arguments = arguments.cloned().map(|it| match it.get_help_heading() {
            None => it.help_heading("Fetch options"),
            Some(_) => it,
        });
        let groups = own.get_groups().cloned();
        command.args(arguments).groups(groups)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RunArtifactsOrigin {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        ChoiceArgs::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}
