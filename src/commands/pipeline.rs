//! `pipeline`: runs all steps from artifacts to published packages. The artifacts come from the
//! built-in sample, a directory, or a run.

use std::path::{Path, PathBuf};

use clap::ArgGroup;

use super::{
    World,
    args::{PageArgs, Variables, ensure_may_write, unusual},
    build::{self, BuildInputs, BuildSettings, known_packages},
    check,
    fetch::{ChoiceArgs, FetchSettings},
    publish::{self, Publication, PublisherSummary},
    summary::changes_since,
};
use crate::{
    artifact::{ArchiveName, ArtifactName, ArtifactTree, TherockManifest, input, sample},
    check::{Destination, Report, SetFacts, facts_of_built},
    diff::Difference,
    fetch::{self, FetchJob, OutputForm, Wish},
    index::Layout,
    package::{
        BuildOptions, Expected,
        build::{Build, BuildSelection},
    },
    place::{Existing, LocalSet, PlaceArg, PublishedUpload, SetPlace, Upload, UploadOptions},
    report::{Forecast, PipelineAnswer, SummaryPage},
    run::{Buckets, Platform, Provenance, Run},
};
use rocwheel_base::{
    atomic::lock::{Lock, LockPurpose},
    error::{Hint as _, Result, anyhow},
    quantity::shell_word,
};
use rocwheel_store::location::Location;

/// Flags that only `--help` lists.
const UNUSUAL: [&str; 26] = [
    "to",
    "baseline",
    "base_index",
    "summary",
    "all_artifacts",
    "allow_incomplete",
    "release_type",
    "bucket",
    "offline",
    "layout",
    "commit",
    "branch",
    "pr",
    "wait",
    "input_dir",
    "compression",
    "reuse",
    "ignore",
    "fail_on",
    "require_targets",
    "accept",
    "repository",
    "linux_amdgpu_families",
    "windows_amdgpu_families",
    "without",
    "jobs",
];

/// Run every step from artifacts to packages that pip and uv can install
///
/// Fetches or unpacks the artifacts, builds, checks, indexes, and publishes to a directory laid out
/// like the run's bucket, or with `--upload` to the bucket. Ends with the commands that install the packages.
///
/// For what has no flag here, run the steps one by one. The variables of all of them work here, too.
#[derive(Debug, clap::Args)]
#[command(mut_arg("platform", |it| it.default_value("linux").help("Platform of the packages")))]
#[command(mut_args(|it| unusual(it, &UNUSUAL)))]
#[command(after_help = "Examples:
  rocwheel pipeline --sample --output-dir out
  rocwheel pipeline --artifact-dir artifacts --output-dir out --dry-run
  rocwheel pipeline --run-id 21440027240 --output-dir out
  rocwheel pipeline --run-id 21440027240 --output-dir out --upload --dry-run")]
pub struct PipelineArgs {
    /// Directory for the artifacts, the packages and the published set
    #[arg(long, short = 'o', value_name = "DIR")]
    output_dir: PathBuf,
    /// Print what would be read and written, and write nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Where the packages are: in `dist` beside `simple`, or beside it as TheRock's uploader puts them
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t)]
    layout: Layout,
    /// Upload the set to the place of its run, as `upload` does, and publish nothing in the output directory
    #[arg(long)]
    upload: bool,
    /// Upload the set to this address, `s3://bucket/directory`
    #[arg(long, value_name = "ADDRESS")]
    to: Option<Location>,
    #[arg(skip)]
    pages: PageArgs,
    #[command(flatten)]
    summary: PublisherSummary,
    #[command(flatten)]
    origin: OriginArgs,
    #[command(flatten, next_help_heading = "Build options")]
    what: BuildInputs,
    #[arg(skip)]
    settings: BuildSettings,
    #[command(flatten, next_help_heading = "Check options")]
    policy: check::Policy,
}

pub fn run(args: &PipelineArgs, world: &World) -> Result<()> {
    let unpacked = args.output_dir.join("artifacts");
    let origin = args.origin.settle(&unpacked, args.dry_run, world)?;
    if args.dry_run {
        return world.console.answer(&origin.forecast(args, world)?);
    }
    // A place that cannot be written must not cost a build.
    let destination = args.destination(&origin, world)?;
    destination.ensure_takes(origin.provenance()?.foreign_code.as_ref())?;
    destination.ensure_writable()?;
    let baseline = args.summary.inputs.baseline(&args.origin.settings.access, world)?;
    let _lock = Lock::to_write(&args.output_dir, LockPurpose::Pipeline)?;
    let (set, facts) = args.build(&origin, &unpacked, world)?;
    let changes = changes_since(baseline.as_ref(), &set, world)?;
    let goes_to = Destination::of(&destination, set.document.identity.run_id.clone());
    let report = args.check(&set, &facts, goes_to, changes.as_ref(), world)?;
    let identity = publish::relabelled(&set.document.identity, &origin.run, world);
    let publication = Publication {
        upload: Upload {
            set: &set,
            identity: &identity,
            place: &destination,
            options: args.options(&destination),
            world,
        },
        group: Some("Index"),
        report: Some(&report),
        changes: changes.as_ref(),
    };
    let answer = |_: &PublishedUpload, page: SummaryPage<'_>| {
        if world.console.leaves_out_results() {
            return Ok(());
        }
        world.console.answer(&PipelineAnswer(page))
    };
    publication.run(&args.summary, answer)
}

impl PipelineArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.pages.read_variables(variables)?;
        self.summary.read_variables(variables)?;
        self.origin.read_variables(variables)?;
        self.what.read_variables(variables)?;
        self.settings.read_variables(variables)?;
        self.policy.read_variables(variables);
        Ok(())
    }

    fn packages(&self) -> PathBuf {
        self.output_dir.join("packages")
    }

    fn build(
        &self,
        origin: &ArtifactsOrigin<'_>,
        unpacked: &Path,
        world: &World,
    ) -> Result<(LocalSet, SetFacts)> {
        // `build --output-dir` with the same directory unpacks to the same place.
        let _unpacking = Lock::to_write(&self.output_dir, LockPurpose::BuildBelow)?;
        let tree = origin.read(unpacked, &self.what, world)?;
        let _group = world.console.group("Packages");
        let packages = self.packages();
        let options = origin.options(self)?;
        let build = Build::plan(&tree, &options, &BuildSelection::All, &packages, world)?;
        build.ensure_complete()?;
        let _lock = Lock::to_write(&packages, LockPurpose::BuildBelow)?;
        let identity = build.identity(origin.provenance()?)?;
        let made = build.make(&packages, &self.what.reuse(), world)?;
        let set = LocalSet::built(&packages, identity, known_packages(&made.packages), world)?;
        let mut facts = facts_of_built(&made.packages, options.settings.jobs, &world.stop)?;
        facts.unshipped.clone_from(&build.plan.unshipped);
        Ok((set, facts))
    }

    /// The address that the set is uploaded to. `None` if it is published in the output directory.
    fn address(&self, origin: &ArtifactsOrigin<'_>) -> Result<Option<Location>> {
        if self.to.is_some() || !self.upload {
            return Ok(self.to.clone());
        }
        origin.run.ensure_bucket().hint(
            "name the run with `--run-id`, or the address with `--to s3://bucket/directory`",
        )?;
        Ok(Some(origin.place()?))
    }

    /// Where the set is published: in the bucket, or below the output directory under the key that `place`
    /// prints for the run.
    fn destination(&self, origin: &ArtifactsOrigin<'_>, world: &World) -> Result<SetPlace> {
        let Some(to) = self.address(origin)? else {
            let key = origin.place()?.key;
            return Ok(SetPlace::below(&self.output_dir, &key, &world.stop));
        };
        let choice = &self.origin.choice;
        let online = choice.run.args.ensure_online(format!("an upload to `{to}`"));
        online.hint("add `--dry-run`, or publish in the output directory")?;
        let access = &origin.settings.access;
        let mut place = access.destination(&PlaceArg::Bucket(to), &world.stop)?;
        place.directory_pages = !self.pages.no_directory_pages;
        Ok(place)
    }

    fn options(&self, destination: &SetPlace) -> UploadOptions {
        // Files of an earlier call in the output directory belong to the same user.
        let replaces = destination.local().is_some();
        UploadOptions {
            is_part: false,
            layout: self.layout,
            existing: if replaces { Existing::Replace } else { Existing::Refuse },
        }
    }

    /// Checks the set. If it has errors, writes a summary that says so, and fails.
    fn check(
        &self,
        set: &LocalSet,
        facts: &SetFacts,
        destination: Option<Destination>,
        changes: Option<&Difference>,
        world: &World,
    ) -> Result<Report> {
        let policy = self.policy.going_to(destination);
        let report = policy.check(facts, world)?;
        let verdict = policy.verdict(&report);
        if verdict.is_err() {
            self.summary.refuse(&set.document, &report, changes, world)?;
        }
        let packages = self.packages();
        verdict.map(|()| report).hint(format!(
            "`rocwheel check {0}` looks at the packages again; with `--reuse {0}`, and `--accept` or `--ignore` \
             for findings that may stay, the same command builds nothing twice",
            shell_word(&packages.to_string_lossy())
        ))
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
    #[command(flatten, next_help_heading = "Fetch options")]
    choice: ChoiceArgs,
    #[arg(skip)]
    settings: FetchSettings,
}

/// Artifacts that are chosen but not read yet, and the run that their packages belong to.
struct ArtifactsOrigin<'a> {
    artifacts: Artifacts<'a>,
    /// The run that the packages belong to.
    run: Run,
    choice: &'a ChoiceArgs,
    settings: &'a FetchSettings,
}

enum Artifacts<'a> {
    Sample,
    Directory(&'a Path),
    Run(Box<FetchJob<'a>>),
}

impl OriginArgs {
    fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.choice.read_variables(variables)?;
        self.settings.read_variables(variables)
    }

    /// Resolves the run. Searches for it if the arguments do not name it.
    fn settle<'a>(
        &'a self,
        unpacked: &Path,
        is_dry_run: bool,
        world: &'a World,
    ) -> Result<ArtifactsOrigin<'a>> {
        let choice = &self.choice;
        let settings = &self.settings;
        let (flag, artifacts) = match &self.artifact_dir {
            _ if self.sample => {
                let platform = choice.run.args.platform();
                if platform != Platform::Linux {
                    return Err(anyhow!("the sample is for linux only, and not for {platform}"))
                        .hint("leave out `--platform`");
                }
                ("--sample", Artifacts::Sample)
            }
            Some(directory) => {
                build::ensure_all(directory)?;
                ("--artifact-dir", Artifacts::Directory(directory))
            }
            None => {
                if !choice.run.knows_a_run() {
                    return Err(anyhow!("no artifacts and no run were given")).hint(
                        "pass `--run-id`, `--commit`, `--pr`, `--branch`, `--latest`, `--artifact-dir` or `--sample`",
                    );
                }
                choice.run.ensure_readable()?;
                let request = choice.request(Wish::default(), settings, world)?;
                let job = request.decide(unpacked, OutputForm::Unpacked, is_dry_run, world)?;
                return Ok(ArtifactsOrigin {
                    run: job.found.run().clone(),
                    artifacts: Artifacts::Run(Box::new(job)),
                    choice,
                    settings,
                });
            }
        };
        // To say where the packages belong, the run must be named.
        if let Some(search) = choice.run.search_flag() {
            return Err(anyhow!("`{search}` cannot be used with `{flag}`")).hint(format!(
                "name the run that the packages are for with `--run-id`, or leave out `{flag}`"
            ));
        }
        if let Some(selection) = choice.selection.flag() {
            return Err(anyhow!(
                "`{selection}` selects artifacts to fetch, and `{flag}` has its own"
            ))
            .hint(format!(
                "leave out `{selection}`; `--linux-amdgpu-families` says which families `rocm` offers"
            ));
        }
        Ok(ArtifactsOrigin {
            artifacts,
            run: choice.run.named_run(settings, world)?,
            choice,
            settings,
        })
    }
}

impl<'a> ArtifactsOrigin<'a> {
    /// The place where that run keeps its packages.
    fn place(&self) -> Result<Location> {
        Ok(self.run.python(&self.choice.selection.directory()?))
    }

    /// Where the artifacts are from, as far as it is known.
    fn provenance(&self) -> Result<Provenance> {
        match &self.artifacts {
            Artifacts::Sample => Ok(Provenance::default()),
            Artifacts::Directory(directory) => fetch::provenance(directory),
            Artifacts::Run(job) => Ok(Provenance {
                run_id: Some(job.found.run().id.clone()),
                foreign_code: job.found.foreign.clone(),
            }),
        }
    }

    fn options(&self, args: &PipelineArgs) -> Result<BuildOptions> {
        // The bucket says more about the run than `RELEASE_TYPE`, which is the release type of this workflow.
        let kind = match Buckets::builtin().release_types(&self.run.bucket)[..] {
            [kind] => Some(kind),
            _ => self.choice.run.args.release_type(),
        };
        let platform = self.choice.run.args.platform();
        args.what.options(&args.settings, platform, kind)
    }

    /// Fetches or unpacks the artifacts if necessary, and scans them.
    fn read(&self, unpacked: &Path, what: &BuildInputs, world: &World) -> Result<ArtifactTree> {
        let _group = world.console.group("Artifacts");
        match &self.artifacts {
            Artifacts::Sample => {
                let archives = sample_archives()?;
                let names: Vec<_> = archives.iter().map(|(name, _)| &name.artifact).collect();
                input::claim(unpacked, &names)?;
                unpack_sample(&archives, unpacked, world)?;
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

    /// What the pipeline would read and write, for `--dry-run`.
    fn forecast(&self, args: &PipelineArgs, world: &World) -> Result<Forecast<'_, 'a>> {
        let (fetch, reads) = match &self.artifacts {
            Artifacts::Sample => (None, "the built-in sample".to_owned()),
            Artifacts::Directory(directory) => (None, directory.display().to_string()),
            Artifacts::Run(job) => (Some(&**job), job.from.clone()),
        };
        let to = args.address(self)?;
        if let Some(to) = &to {
            ensure_may_write(&to.bucket)?;
        }
        let (mut artifacts, expected) = self.expected(args, world)?;
        artifacts.sort();
        let root = to.clone().map_or_else(|| self.place(), Ok)?;
        // A directory has `index.html` in place of keys that end in `/`.
        let has_directory_keys = to.is_some() && !args.pages.no_directory_pages;
        Ok(Forecast {
            schema: Forecast::SCHEMA,
            fetch,
            reads,
            artifacts,
            packages: args.packages().display().to_string(),
            writes: Forecast::keys(expected, &root, args.layout, has_directory_keys)?,
            set_url: root.to_string(),
            names_bucket: to.is_none() && self.run.ensure_bucket().is_ok(),
            published: match to {
                Some(to) => format!("s3://{}", to.bucket),
                None => args.output_dir.display().to_string(),
            },
        })
    }

    /// The names of the artifacts, and the packages that would be built. If the artifacts are
    /// archives, reads only the one with the manifest, which says which version was built.
    fn expected(&self, args: &PipelineArgs, world: &World) -> Result<(Vec<String>, Vec<Expected>)> {
        let scratch = tempfile::tempdir()?;
        let mut place = scratch.path();
        let options = self.options(args)?;
        let (shown, names): (Vec<String>, Vec<ArtifactName>) = match &self.artifacts {
            Artifacts::Sample => {
                let archives = sample_archives()?;
                unpack_sample(&archives, place, world)?;
                let shown = archives.iter().map(|(name, _)| name.to_string()).collect();
                return Ok((shown, planned(place, &options, world)?));
            }
            Artifacts::Directory(directory) => {
                let (archives, mut names) = input::names(directory)?;
                let mut shown: Vec<String> = names.iter().map(ToString::to_string).collect();
                if archives.is_empty() {
                    return Ok((shown, planned(directory, &options, world)?));
                }
                if names.iter().any(is_base) {
                    place = directory;
                }
                for (path, name) in archives {
                    if is_base(&name.artifact) {
                        let file = fs_err::File::open(&path)?;
                        input::unpack_one(file, &name, place, world)?;
                    }
                    shown.push(name.to_string());
                    names.push(name.artifact);
                }
                (shown, names)
            }
            Artifacts::Run(job) => {
                let manifest = format!("^{}", TherockManifest::ARTIFACT);
                let wish = Wish { include: vec![manifest.parse()?], ..Wish::default() };
                let quiet = world.quiet();
                let request = self.choice.request(wish, self.settings, &quiet)?;
                let base = request.decide(place, OutputForm::Unpacked, false, &quiet)?;
                base.carry_out(&quiet)?;
                let names: Vec<ArtifactName> = job.artifacts().into_iter().cloned().collect();
                (names.iter().map(ToString::to_string).collect(), names)
            }
        };
        let scanned = ArtifactTree::scan(place, args.what.jobs.count(), &world.stop)?;
        let request = options.request(&scanned.therock_manifest()?)?;
        for note in &request.notes {
            world.console.note(note);
        }
        Ok((shown, request.expected(&names)?))
    }
}

/// Whether an artifact has the manifest of the build.
fn is_base(name: &ArtifactName) -> bool {
    name.to_string() == TherockManifest::ARTIFACT
}

/// The packages of artifacts that are unpacked.
fn planned(directory: &Path, options: &BuildOptions, world: &World) -> Result<Vec<Expected>> {
    let tree = input::scan(directory, options.settings.jobs, world)?;
    let build = Build::plan(&tree, options, &BuildSelection::All, Path::new(""), world)?;
    build.ensure_complete()?;
    Ok(build.plan.expected())
}

/// The archives of the built-in sample.
fn sample_archives() -> Result<Vec<(ArchiveName, Vec<u8>)>> {
    let archives = sample::archives()?.into_iter();
    archives.map(|archive| Ok((archive.file_name.parse()?, archive.bytes))).collect()
}

fn unpack_sample(archives: &[(ArchiveName, Vec<u8>)], to: &Path, world: &World) -> Result<()> {
    for (name, bytes) in archives {
        input::unpack_one(bytes.as_slice(), name, to, world)?;
    }
    Ok(())
}
