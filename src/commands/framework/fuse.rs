//! `framework fuse`: makes wheels that have ROCm in them.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::Serialize;

use super::{PolicyArgs, World, publish, read, rocm};
use crate::{
    atomic::StagedDir,
    commands::args::{AccessArgs, Jobs},
    console::size,
    error::{Context as _, Result},
    framework::{
        FrameworkWheel, SetPackages, WheelRefusal,
        fuse::{self, FuseOptions, FusePlan, SetMembers},
        tie::{InitMode, TagChoice, TieInput, TieOptions, VersionSuffix},
    },
    package::{
        FIRST_DAY,
        assemble::{AssembleSettings, ChangedFile, pipeline},
    },
    set::{self, PlaceDepth},
    wheel::WheelCompression,
};

/// Make a wheel with ROCm in it, for users who have no ROCm packages
///
/// The first wheel gets the libraries of ROCm that it needs, with their data and the device code of
/// `--targets`, in a directory `_rocm` of its package. It requires no ROCm package and finds its
/// libraries there; the files of ROCm stay as they are. Further wheels that are built on it find ROCm
/// in it. Such wheels are large, and two of them do not work in one process: `framework tie` is the
/// better way where ROCm can be installed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework fuse torch-*.whl --set packages --targets gfx1100 --output-dir fused --plan
  rocwheel framework fuse torch-*.whl torchvision-*.whl --set packages --targets gfx942,gfx950 --output-dir fused --version-suffix rocm7.14.0.full")]
pub(super) struct FuseArgs {
    /// The wheel that gets ROCm, and wheels that are built on it
    #[arg(value_name = "WHEEL", required = true)]
    wheels: Vec<PathBuf>,
    /// ROCm packages to put in: a directory, `s3://bucket/directory`, or the URL of an index
    #[arg(long, value_name = "SET", env = "ROCWHEEL_FRAMEWORK_SET")]
    set: PathBuf,
    /// Families or targets whose device code is put in, comma-separated
    #[arg(long, value_name = "LIST")]
    targets: String,
    /// Directory to write the wheels to
    #[arg(
        long,
        value_name = "DIR",
        env = "ROCWHEEL_OUTPUT_DIR",
        required_unless_present = "plan"
    )]
    output_dir: Option<PathBuf>,
    /// Print what would be done, and write nothing
    #[arg(long)]
    plan: bool,
    /// The most bytes that a wheel may have
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 30)]
    max_size: u64,
    /// Put in what is needed to compile code at run time (default: if hiprtc is used)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    with_compiler: Option<bool>,
    /// Whether to write `_rocm_init.py` and the hook in `__init__.py` that calls it
    #[arg(long, value_name = "MODE", default_value = "auto")]
    init: InitMode,
    /// Platform tag: `auto`, `keep`, or one that the symbols prove, those of ROCm too
    #[arg(long, value_name = "TAG", default_value = "auto")]
    tag: TagChoice,
    /// Further libraries that every host has, by file name, comma-separated
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    host_provides: Vec<String>,
    /// What to do with the version: `keep`, `none`, `set` (`+rocm7.14.0`), or the text of a suffix
    #[arg(
        long,
        value_name = "SUFFIX",
        default_value = "keep",
        allow_hyphen_values = true
    )]
    version_suffix: VersionSuffix,
    #[command(flatten)]
    policy: PolicyArgs,
    /// How to compress what changes: `store`, or a level from 1 (fast) to 12 (small)
    #[arg(long, value_name = "HOW", default_value_t)]
    compression: WheelCompression,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Debug, Serialize)]
struct FuseAnswer {
    schema: &'static str,
    plan: FusePlan,
    written: Vec<ChangedFile>,
}

pub(super) fn run(args: &FuseArgs, world: &World) -> Result<()> {
    let policy = args.policy.read()?;
    let wheels = read(&args.wheels, &args.jobs, world)?;
    let rocm = rocm(&args.set, &policy, (&args.jobs, &args.access), world)?;
    let options = args.options(&rocm.targets)?;
    let directory = args.output_dir.as_deref().unwrap_or(Path::new("."));
    let staged = StagedDir::beside(&directory.join("wheels"))?;
    let scratch = staged.path().join("scratch");
    fs::create_dir(&scratch)?;
    let place = args.access.place(&args.set, &world.stop)?;
    let found = set::find(&place, PlaceDepth::Pages)?;
    let is_windows = wheels.iter().any(FrameworkWheel::is_for_windows);
    let packages =
        SetPackages::of(&found, is_windows).with_context(|| format!("failed to use `{place}`"))?;
    let members = SetMembers::read(&place, &packages, &options.targets, &scratch, world)?;
    let inputs = wheels.iter().map(|wheel| TieInput::read(wheel, &policy));
    let inputs: Vec<TieInput> = inputs.collect::<Result<_>>()?;
    let how = args.how();
    let plan = fuse::decide(
        (&wheels, &inputs),
        (&rocm, &members),
        &policy,
        (&options, &how),
    )?;
    let plan = plan.map_err(|refusals| WheelRefusal::all("fused", &refusals))?;
    let warnings = plan.wheels.iter().flat_map(|it| &it.warnings);
    for warning in warnings.chain(&plan.warnings) {
        world.console.warn(warning);
    }
    let mut answer = FuseAnswer {
        schema: "rocwheel-framework-fuse-v1",
        plan,
        written: Vec::new(),
    };
    if !args.plan {
        let places = (staged.path(), scratch.as_path());
        let settings = args.settings();
        let made = fuse::write(&wheels, &members, &answer.plan, places, &settings, world)?;
        let paths = made.iter().map(|it| staged.path().join(&it.file));
        let fused = read(&paths.collect::<Vec<_>>(), &args.jobs, world)?;
        fuse::verify(
            &answer.plan,
            &fused,
            &rocm,
            &policy,
            (args.max_size, &how.host),
        )?;
        publish(&made, staged.path(), directory, &wheels)?;
        answer.written = made;
    }
    world.console.answer(&answer)
}

impl FuseArgs {
    fn options(&self, there: &[crate::target::Target]) -> Result<FuseOptions> {
        Ok(FuseOptions {
            targets: super::chosen_targets(&self.targets, there, "in the set")?,
            max_size: self.max_size,
            with_compiler: self.with_compiler,
        })
    }

    fn how(&self) -> TieOptions {
        TieOptions {
            suffix: self.version_suffix.clone(),
            init: self.init,
            tag: self.tag.clone(),
            host: self.host_provides.clone(),
            ..TieOptions::default()
        }
    }

    fn settings(&self) -> AssembleSettings {
        AssembleSettings {
            time: FIRST_DAY,
            compression: self.compression,
            jobs: self.jobs.count(),
            block: pipeline::BLOCK,
        }
    }
}

impl fmt::Display for FuseAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)?;
        for wheel in &self.written {
            writeln!(
                f,
                "\n{}  {} ({})",
                wheel.sha256,
                wheel.file,
                size(wheel.size)
            )?;
        }
        Ok(())
    }
}
