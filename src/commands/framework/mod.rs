//! `framework`: wheels of PyTorch, JAX and others on a package set.

mod env;
mod split;
mod tie;
mod version;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;
use serde::Serialize;

use super::{
    World,
    args::{AccessArgs, Jobs, Variables},
};
use crate::{
    check::{self, SetFacts},
    framework::{
        FrameworkFacts, FrameworkWheel, Frameworks, Providers, RocmLibraries, tie::VersionSuffix,
    },
    place::{PlaceArg, PlaceDepth, SetPlace},
};
use rocwheel_base::{
    atomic::StagedDir,
    error::{Context as _, Result, ensure},
    io::read_text,
};
use rocwheel_wheel::{ChangedFile, PackSettings, WheelCompression};

/// Tie wheels of PyTorch, JAX and others to ROCm packages
///
/// A framework is a package whose binaries need libraries of the ROCm packages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework show torch-2.12.0-cp312-cp312-linux_x86_64.whl
  rocwheel framework tie torch-2.12.0-cp312-cp312-linux_x86_64.whl --set packages --output-dir tied
  rocwheel framework split tied/torch-2.12.0-cp312-cp312-linux_x86_64.whl --output-dir dist")]
pub struct FrameworkArgs {
    #[command(subcommand)]
    verb: FrameworkVerb,
}

#[derive(Debug, clap::Subcommand)]
enum FrameworkVerb {
    Show(Box<ShowArgs>),
    Tie(Box<tie::TieArgs>),
    Split(Box<split::FrameworkSplitArgs>),
    Env(Box<env::EnvArgs>),
    Version(Box<version::FrameworkVersionArgs>),
}

/// Show what wheels need, bring and promise
///
/// For each binary: who provides the libraries that it needs, where its run path leads, the newest
/// symbols, the device code, and the libraries of ROCm that it may open at run time. Python is not
/// run. Wheels that are named together may provide libraries for each other.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework show torch-2.12.0-cp312-cp312-linux_x86_64.whl
  rocwheel framework show jax_rocm7_*.whl --set packages")]
struct ShowArgs {
    /// Wheels that are installed together
    #[arg(value_name = "WHEEL", required = true)]
    wheels: Vec<PathBuf>,
    /// ROCm packages that they are installed with: a directory, `s3://bucket/directory`, or a URL
    #[arg(long, value_name = "SET")]
    set: Option<PlaceArg>,
    #[command(flatten)]
    reading: ReadingArgs,
}

impl ShowArgs {
    fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.reading.read_variables(variables)
    }
}

/// What all commands that read wheels have.
#[derive(Debug, clap::Args)]
struct ReadingArgs {
    /// Rows for frameworks that rocwheel does not know, in the form of its own `frameworks.toml`
    #[arg(long, value_name = "FILE")]
    framework: Option<PathBuf>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    access: AccessArgs,
}

/// A set that was read.
struct RocmSet {
    place: SetPlace,
    facts: SetFacts,
    libraries: RocmLibraries,
}

/// What all commands that write wheels have.
#[derive(Debug, clap::Args)]
struct WritingArgs {
    /// Directory to write the wheels to
    #[arg(long, short = 'o', value_name = "DIR", required_unless_present = "dry_run")]
    output_dir: Option<PathBuf>,
    /// Print what would be done, and write nothing
    #[arg(long, short = 'n', alias = "plan")]
    dry_run: bool,
    /// What to do with the version: `keep`, `none`, `set` (`+rocm7.14.0`), or the text of a suffix
    #[arg(long, value_name = "SUFFIX", default_value = "keep", allow_hyphen_values = true)]
    version_suffix: VersionSuffix,
    /// How to compress what changes: `store`, or a level from 1 (fast) to 12 (small)
    #[arg(long, value_name = "HOW", default_value_t)]
    compression: WheelCompression,
    #[command(flatten)]
    reading: ReadingArgs,
}

impl FrameworkArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        match &mut self.verb {
            FrameworkVerb::Show(args) => args.read_variables(variables),
            FrameworkVerb::Tie(args) => args.read_variables(variables),
            FrameworkVerb::Split(args) => args.read_variables(variables),
            FrameworkVerb::Env(_) => Ok(()),
            FrameworkVerb::Version(args) => args.read_variables(variables),
        }
    }
}

pub fn run(args: &FrameworkArgs, world: &World) -> Result<()> {
    match &args.verb {
        FrameworkVerb::Show(args) => show(args, world),
        FrameworkVerb::Tie(args) => tie::run(args, world),
        FrameworkVerb::Split(args) => split::run(args, world),
        FrameworkVerb::Env(args) => env::run(args, world),
        FrameworkVerb::Version(args) => version::run(args, world),
    }
}

fn show(args: &ShowArgs, world: &World) -> Result<()> {
    let policy = args.reading.policy()?;
    let wheels = args.reading.wheels(&args.wheels, world)?;
    let rocm = match &args.set {
        Some(set) => Some(args.reading.rocm(set, &policy, world)?),
        None => None,
    };
    let providers = Providers::new(&wheels, rocm.as_ref(), &policy, &[]);
    let facts = FrameworkFacts::of(&wheels, &providers)?;
    world.console.report("framework show", &facts, &facts)
}

impl ReadingArgs {
    fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.jobs.read_variables(variables)?;
        self.access.read_variables(variables)
    }

    fn policy(&self) -> Result<Frameworks> {
        let Some(file) = &self.framework else {
            return Ok(Frameworks::builtin().clone());
        };
        let more = Frameworks::parse(&read_text(file)?)
            .with_context(|| format!("failed to read `{}`", file.display()))?;
        Ok(Frameworks::builtin().with(more))
    }

    fn wheels(&self, paths: &[PathBuf], world: &World) -> Result<Vec<FrameworkWheel>> {
        FrameworkWheel::read_all(paths, self.jobs.count(), world)
    }

    fn rocm(&self, set: &PlaceArg, policy: &Frameworks, world: &World) -> Result<RocmLibraries> {
        Ok(self.rocm_set(set, policy, world)?.libraries)
    }

    fn rocm_set(&self, set: &PlaceArg, policy: &Frameworks, world: &World) -> Result<RocmSet> {
        let place = self.access.place(set, &world.stop)?;
        let facts = check::facts_of(&place, PlaceDepth::Pages, self.jobs.count(), world)?;
        super::check::ensure_undamaged(&facts, &place.to_string())?;
        let libraries = RocmLibraries::of(&facts, policy)
            .with_context(|| format!("failed to use `{place}`"))?;
        Ok(RocmSet { place, facts, libraries })
    }
}

impl WritingArgs {
    fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.reading.read_variables(variables)
    }

    /// Where the wheels go. It need not exist for a plan.
    fn directory(&self) -> &Path {
        self.output_dir.as_deref().unwrap_or(Path::new("."))
    }

    /// A directory for the wheels until all are whole.
    fn staged(&self) -> Result<StagedDir> {
        // `beside` needs a name in the output directory, and nothing gets the name `wheels`. The staging directory
        // is then on the file system of the output directory, so that `publish` can rename.
        Ok(StagedDir::beside(&self.directory().join("wheels"))?)
    }

    fn settings(&self) -> PackSettings {
        PackSettings::new(self.compression, self.reading.jobs.count())
    }

    /// Moves finished wheels to their directory. Fails before the first move if a wheel would replace one of
    /// `inputs`.
    fn publish(
        &self,
        written: &[ChangedFile],
        staged: &Path,
        inputs: &[FrameworkWheel],
    ) -> Result<()> {
        for wheel in written {
            let target = self.directory().join(&wheel.file);
            let is_input = |it: &FrameworkWheel| {
                fs::canonicalize(&it.path).ok() == fs::canonicalize(&target).ok()
            };
            ensure!(
                !(target.exists() && inputs.iter().any(is_input)),
                "`{}` is one of the wheels that were named: pass another `--output-dir`",
                target.display()
            );
        }
        for wheel in written {
            fs::rename(staged.join(&wheel.file), self.directory().join(&wheel.file))?;
        }
        Ok(())
    }
}

/// What was planned for each wheel, and what was written.
#[derive(Debug, Serialize)]
struct PlansAnswer<P, W> {
    plans: Vec<P>,
    written: Vec<W>,
}

impl<P: fmt::Display, W: fmt::Display> fmt::Display for PlansAnswer<P, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plans.iter().join("\n"))?;
        for made in &self.written {
            write!(f, "\n{made}\n")?;
        }
        Ok(())
    }
}
