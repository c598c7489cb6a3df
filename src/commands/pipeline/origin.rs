//! The artifacts of a pipeline: from the built-in sample, a directory, or a run.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, ArgMatches, Command, FromArgMatches};
use itertools::Itertools as _;

use crate::{
    artifact::{ArchiveName, ArtifactTree, TherockManifest, input, sample},
    commands::{
        World,
        build::{self, BuildInputs},
        fetch::ChoiceArgs,
    },
    error::{Hint as _, Result, anyhow},
    fetch::{FetchJob, OutputForm, Purpose, Wish},
    location::Location,
    package::{
        Expected,
        build::{Build, BuildSelection},
    },
    report::Forecast,
    run,
};

/// Which artifacts to take.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("source"))]
pub(super) struct OriginArgs {
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
pub(super) struct ArtifactsOrigin<'a> {
    artifacts: Artifacts<'a>,
    /// The run that the packages belong to.
    pub(super) run: run::Run,
    choice: &'a ChoiceArgs,
}

enum Artifacts<'a> {
    Sample,
    Directory(&'a Path),
    Run(Box<FetchJob<'a>>),
}

impl OriginArgs {
    /// Resolves the run. Searches for it if the arguments do not name it.
    pub(super) fn settle<'a>(
        &'a self,
        unpacked: &Path,
        purpose: Purpose,
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
                let job = request.decide((unpacked, OutputForm::Unpacked), purpose, world)?;
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

impl ArtifactsOrigin<'_> {
    /// The place where that run keeps its packages.
    pub(super) fn place(&self) -> Location {
        let group = self.choice.group().cloned().unwrap_or_default();
        self.run.python(&group)
    }

    /// Fetches or unpacks the artifacts if necessary, and scans them.
    pub(super) fn read(
        &self,
        unpacked: &Path,
        what: &BuildInputs,
        world: &World,
    ) -> Result<ArtifactTree> {
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
    pub(super) fn forecast(
        &self,
        output_dir: &Path,
        what: &BuildInputs,
        world: &World,
    ) -> Result<Forecast<'_>> {
        let (fetch, reads) = match &self.artifacts {
            Artifacts::Sample => (None, "the built-in sample".to_owned()),
            Artifacts::Directory(directory) => (None, directory.display().to_string()),
            Artifacts::Run(job) => (Some(&job.plan), job.plan.from.clone()),
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
                let base = self.choice.request(wish)?.decide(
                    (place, OutputForm::Unpacked),
                    Purpose::Do,
                    &quiet,
                )?;
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
