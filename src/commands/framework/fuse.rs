//! `framework fuse`: makes wheels that have ROCm in them.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::Serialize;

use super::{World, WritingArgs, publish};
use crate::{
    error::{Context as _, Result},
    framework::{
        FrameworkWheel, Frameworks, RocmLibraries, SetPackages, SetUse, WheelRefusal,
        fuse::{self, FuseOptions, FusePlan, SetMembers},
        tie::{InitMode, TagChoice, TieInput, TieOptions},
    },
    package::assemble::ChangedFile,
    set::{self, PlaceDepth},
    target::{Target, TargetList},
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
  rocwheel framework fuse torch*.whl --set packages --targets gfx942,gfx950 --output-dir fused")]
pub(super) struct FuseArgs {
    /// The wheel that gets ROCm, and wheels that are built on it
    #[arg(value_name = "WHEEL", required = true)]
    wheels: Vec<PathBuf>,
    /// ROCm packages to put in: a directory, `s3://bucket/directory`, or the URL of an index
    #[arg(long, value_name = "SET", env = "ROCWHEEL_FRAMEWORK_SET")]
    set: PathBuf,
    /// Families or targets whose device code is put in, comma-separated
    #[arg(long, value_name = "LIST")]
    targets: TargetList,
    /// Largest size of a wheel, in bytes
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
    #[command(flatten)]
    writing: WritingArgs,
}

#[derive(Debug, Serialize)]
struct FuseAnswer {
    schema: &'static str,
    plan: FusePlan,
    written: Vec<ChangedFile>,
}

pub(super) fn run(args: &FuseArgs, world: &World) -> Result<()> {
    let writing = &args.writing;
    let policy = writing.policy.read()?;
    let wheels = writing.read(&args.wheels, world)?;
    let rocm = writing.rocm(&args.set, &policy, world)?;
    let options = args.options(&rocm.targets)?;
    let staged = writing.staged()?;
    let scratch = staged.path().join("scratch");
    fs::create_dir(&scratch)?;
    let members = args.members(&wheels, &options.targets, &scratch, world)?;
    let set = (&rocm, &members);
    let plan = args.plan(&wheels, set, &policy, &options, world)?;
    let mut written = Vec::new();
    if !writing.plan {
        let places = (staged.path(), scratch.as_path());
        written = args.write((&wheels, &plan), set, &policy, places, world)?;
    }
    world.console.answer(&FuseAnswer {
        schema: "rocwheel-framework-fuse-v1",
        plan,
        written,
    })
}

impl FuseArgs {
    /// The files of the set that a wheel may get.
    fn members(
        &self,
        wheels: &[FrameworkWheel],
        targets: &[Target],
        scratch: &Path,
        world: &World,
    ) -> Result<SetMembers> {
        let place = self.writing.access.place(&self.set, &world.stop)?;
        let found = set::find(&place, PlaceDepth::Pages)?;
        let is_windows = wheels.iter().any(FrameworkWheel::is_for_windows);
        let packages = SetPackages::of(&found, SetUse::Embed, is_windows)
            .with_context(|| format!("failed to use `{place}`"))?;
        SetMembers::read(&place, &packages, targets, scratch, world)
    }

    fn plan(
        &self,
        wheels: &[FrameworkWheel],
        set: (&RocmLibraries, &SetMembers),
        policy: &Frameworks,
        options: &FuseOptions,
        world: &World,
    ) -> Result<FusePlan> {
        let inputs = wheels.iter().map(|wheel| TieInput::read(wheel, policy));
        let inputs: Vec<TieInput> = inputs.collect::<Result<_>>()?;
        let plan = fuse::decide((wheels, &inputs), set, policy, (options, &self.how()))?;
        let plan = plan.map_err(|refusals| WheelRefusal::all("fused", &refusals))?;
        let warnings = plan.wheels.iter().flat_map(|it| &it.warnings);
        for warning in warnings.chain(&plan.warnings) {
            world.console.warn(warning);
        }
        Ok(plan)
    }

    /// Writes the wheels, reads them back, and publishes them together.
    fn write(
        &self,
        (wheels, plan): (&[FrameworkWheel], &FusePlan),
        (rocm, members): (&RocmLibraries, &SetMembers),
        policy: &Frameworks,
        places: (&Path, &Path),
        world: &World,
    ) -> Result<Vec<ChangedFile>> {
        let (writing, limits) = (&self.writing, (self.max_size, &*self.host_provides));
        let made = fuse::write(wheels, members, plan, places, &writing.settings(), world)?;
        let fused = writing.read_back(&made, places.0, world)?;
        fuse::verify(plan, &fused, rocm, policy, limits)?;
        publish(&made, places.0, writing.directory(), wheels)?;
        Ok(made)
    }

    fn options(&self, there: &[Target]) -> Result<FuseOptions> {
        Ok(FuseOptions {
            targets: super::chosen_targets(&self.targets, there, "in the set")?,
            max_size: self.max_size,
            with_compiler: self.with_compiler,
        })
    }

    fn how(&self) -> TieOptions {
        TieOptions {
            suffix: self.writing.version_suffix.clone(),
            init: self.init,
            tag: self.tag.clone(),
            host: self.host_provides.clone(),
            ..TieOptions::default()
        }
    }
}

impl fmt::Display for FuseAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)?;
        for wheel in &self.written {
            writeln!(f, "\n{wheel}")?;
        }
        Ok(())
    }
}
