//! Where the artifacts of a pipeline come from: the sample, a directory, or a run.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, ArgMatches, Command, FromArgMatches};

use crate::{
    artifact::{ArchiveName, ArtifactTree, sample},
    commands::{
        World,
        build::{What, input},
        fetch::{ChoiceArgs, Errand, OutputForm, Purpose, select::Wish},
    },
    error::{Result, anyhow, hinted},
};

/// Which artifacts to take.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("source"))]
pub(super) struct OriginArgs {
    /// The built-in sample: a small run with everything that a real one has
    #[arg(long, env = "ROCWHEEL_SAMPLE", group = "source")]
    sample: bool,
    /// Where the artifacts are, as directories, as archives, or both
    #[arg(
        long,
        value_name = "DIR",
        env = "ROCWHEEL_ARTIFACT_DIR",
        group = "source"
    )]
    artifact_dir: Option<PathBuf>,
    #[command(flatten)]
    run: Run,
}

/// The artifacts of a run. The platform is the one that packages are made for.
#[derive(Debug)]
struct Run(ChoiceArgs);

/// Artifacts that are known and not yet read.
pub(super) enum Origin<'a> {
    Sample,
    Directory(&'a Path),
    Run(Box<Errand<'a>>),
}

impl OriginArgs {
    /// Looks up the run, if it is one.
    pub(super) fn settle<'a>(
        &'a self,
        unpacked: &Path,
        purpose: Purpose,
        world: &'a World,
    ) -> Result<Origin<'a>> {
        let run = &self.run.0;
        match &self.artifact_dir {
            _ if (self.sample || self.artifact_dir.is_some()) && run.names_a_run() => Err(hinted(
                anyhow!("artifacts of a run, and others"),
                "leave out the run, or `--artifact-dir` and `--sample`",
            )),
            _ if self.sample => Ok(Origin::Sample),
            Some(directory) => {
                input::ensure_all(directory)?;
                Ok(Origin::Directory(directory))
            }
            None if !run.knows_a_run() => Err(hinted(
                anyhow!("nothing to take artifacts from"),
                "pass `--run-id`, `--commit`, `--pr`, `--branch`, `--latest`, `--artifact-dir` or `--sample`",
            )),
            None => {
                let to = (unpacked, OutputForm::Unpacked);
                let errand = run.errand(Wish::default(), to, purpose, world)?;
                Ok(Origin::Run(Box::new(errand)))
            }
        }
    }
}

impl Origin<'_> {
    /// The facts about the artifacts, once they are unpacked.
    pub(super) fn read(&self, unpacked: &Path, what: &What, world: &World) -> Result<ArtifactTree> {
        let _group = world.console.group("Artifacts");
        match self {
            Self::Sample => {
                let names = unpack_sample(unpacked, world)?;
                let names: Vec<_> = names.iter().map(|name| &name.artifact).collect();
                input::scan_only(unpacked, &names, &what.jobs, world)
            }
            Self::Directory(directory) => input::read(directory, unpacked, &what.jobs, world),
            Self::Run(errand) => {
                errand.carry_out(world)?;
                input::scan_only(unpacked, &errand.artifacts(), &what.jobs, world)
            }
        }
    }

    /// What there is, by name.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        match self {
            Self::Sample => {
                let archives = sample::archives()?;
                names.extend(archives.iter().map(|it| it.file_name().to_owned()));
            }
            Self::Run(errand) => names.extend(errand.artifacts().iter().map(ToString::to_string)),
            Self::Directory(directory) => names = input::names(directory)?,
        }
        names.sort();
        Ok(names)
    }
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

/// The arguments but for the platform, which the verb has already, and which has to be read here
/// before it is read there.
impl clap::Args for Run {
    fn augment_args(command: Command) -> Command {
        let own = ChoiceArgs::augment_args(Command::new("run"));
        let arguments = own.get_arguments().filter(|it| it.get_id() != "platform");
        // What `fetch` has at its top would stand between the options of `pipeline`.
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

impl FromArgMatches for Run {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        ChoiceArgs::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}
