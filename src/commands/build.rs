//! `build`: makes the packages of a set from artifacts.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{
    World,
    args::{Jobs, Variables, program, seams, unusual},
};
use crate::{
    artifact::input,
    fetch,
    package::{
        BuildOptions, Kpack, OnCollision, SdkTreePacking,
        assemble::{MadePackage, MadeSet, Reuse},
        build::{Build, BuildSelection},
        document::BuildAnswer,
    },
    place::{KnownPackage, KnownPackages, LocalSet},
    policy::{Catalog, ImportSuffix, Subset},
    run::Platform,
};
use rocwheel_base::{
    atomic::lock::{Lock, LockPurpose},
    error::{Context as _, Hint as _, Result, anyhow},
    io::{read_text, resolved_path},
    quantity::shell_word,
    target::{Scope, Target, TargetPattern, TargetTable},
    version::{ReleaseType, Version},
};
use rocwheel_wheel::{FIRST_DAY, PackSettings, WheelCompression};

/// Flags that only `--help` lists.
const UNUSUAL: [&str; 11] = [
    "release_type",
    "compression",
    "version_suffix",
    "wheel_platform_tag",
    "on_collision",
    "kpack",
    "devel_compression",
    "source_date_epoch",
    "targets",
    "linux_amdgpu_families",
    "windows_amdgpu_families",
];

/// Build Python packages from the artifacts of a run
///
/// Artifacts are directories as `fetch` leaves them, archives (`.tar.zst`, `.tar.xz`), or both. The
/// packages go to DIR/dist. If the build fails, DIR/dist stays as it was.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_args(|it| unusual(it, &UNUSUAL)))]
#[command(after_help = "Examples:
  rocwheel build --artifact-dir artifacts --output-dir packages --dry-run
  rocwheel build --artifact-dir artifacts --output-dir packages
  rocwheel build --artifact-dir artifacts --output-dir packages --only device-gfx942")]
pub struct BuildArgs {
    /// Directory with the artifacts
    #[arg(long, value_name = "DIR")]
    pub artifact_dir: PathBuf,
    /// Directory in which `dist` is created
    #[arg(long, short = 'o', alias = "dest-dir", value_name = "DIR")]
    pub output_dir: PathBuf,
    /// Platform of the packages
    #[arg(long, value_name = "PLATFORM", default_value = "linux")]
    platform: Platform,
    /// Release type of the run, for artifacts that say only their base version [default: ci]
    ///
    /// [env: `RELEASE_TYPE`]
    #[arg(long, value_name = "TYPE")]
    release_type: Option<ReleaseType>,
    #[command(flatten)]
    what: BuildInputs,
    #[command(flatten)]
    settings: BuildSettings,
    /// Build only these packages of the set: `core`, `device-gfx942`, `rocm-sdk-devel`
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// All targets of the set, if the artifacts come from `fetch --only`
    #[arg(long = "target", alias = "targets", value_name = "LIST", requires = "only")]
    targets: Option<TargetPattern>,
    /// Print which files go into which package, and build nothing
    #[arg(long, short = 'n', aliases = ["plan", "no-build-packages"])]
    pub dry_run: bool,
    // A flag of `build_python_packages.py` that asks for what is done anyway.
    #[arg(long, hide = true, conflicts_with = "dry_run")]
    build_packages: bool,
}

/// What is built, and how; `pipeline` asks the same.
#[derive(Clone, Debug, clap::Args)]
pub struct BuildInputs {
    /// Version of the packages [default: the version of the artifacts]
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub version: Option<GivenVersion>,
    /// Families or targets that `rocm` offers on Linux, comma-separated
    #[arg(long, value_name = "LIST", value_parser = TargetPattern::known)]
    linux_amdgpu_families: Option<TargetPattern>,
    /// Families or targets that `rocm` offers on Windows, comma-separated
    #[arg(long, value_name = "LIST", value_parser = TargetPattern::known)]
    windows_amdgpu_families: Option<TargetPattern>,
    /// Wheel compression: a level from 1 (fastest) to 12 (smallest), or `store`
    #[arg(long, value_name = "HOW", default_value_t)]
    compression: WheelCompression,
    /// Packages, artifacts, libraries or commands that this run does not build, such as
    /// `profiler,rpp,hipsparselt`
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub without: Vec<String>,
    /// Take over the wheels that would be the same from the earlier set in this directory, and pack only
    /// the others. The packages have the same bytes as without
    #[arg(long, value_name = "DIR")]
    reuse: Option<PathBuf>,
    /// Replace all files in the directory of the packages, also the files of another set
    #[arg(long)]
    clean: bool,
    #[command(flatten)]
    pub jobs: Jobs,
}

/// How packages are built, for few people. `pipeline` has none of these flags, but reads their variables.
#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct BuildSettings {
    /// Suffix for the import names of the packages, so that two sets can be installed side by side
    #[arg(long, value_name = "SUFFIX")]
    version_suffix: Option<ImportSuffix>,
    /// Platform tag of the wheels, such as `manylinux_2_28_x86_64`
    ///
    /// [env: `ROCM_SDK_WHEEL_PLATFORM_TAG`]
    #[arg(long, value_name = "TAG")]
    wheel_platform_tag: Option<String>,
    /// What to do if two artifacts have different files at one path
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    on_collision: OnCollision,
    /// What to do with device code that is inside host binaries
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    kpack: Kpack,
    /// How to pack the development files; `xz` is smaller, but much slower to pack and to unpack
    #[arg(long, value_name = "HOW", default_value = "none")]
    devel_compression: SdkTreePacking,
    // Upstream's spelling of `--devel-compression`.
    #[arg(long, hide = true, overrides_with = "no_devel_tarball_compression")]
    devel_tarball_compression: bool,
    #[arg(long, hide = true, overrides_with = "devel_tarball_compression")]
    no_devel_tarball_compression: bool,
    #[arg(long, hide = true, overrides_with = "no_wheel_compression")]
    wheel_compression: bool,
    #[arg(long, hide = true, overrides_with = "wheel_compression")]
    no_wheel_compression: bool,
    /// Timestamp of the files in wheels, in seconds since 1970 [default: 315532800]
    ///
    /// [env: `SOURCE_DATE_EPOCH`]
    #[arg(long, value_name = "SECONDS")]
    source_date_epoch: Option<u64>,
}

impl BuildSettings {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.wheel_platform_tag, "ROCM_SDK_WHEEL_PLATFORM_TAG")?;
        variables.fill(&mut self.source_date_epoch, "SOURCE_DATE_EPOCH")
    }
}

pub fn run(args: &BuildArgs, world: &World) -> Result<()> {
    args.ensure_apart()?;
    let options = args.what.options(&args.settings, args.platform, args.release_type)?;
    let selection = args.selection(&options)?;
    let _lock = args.lock()?;
    let dest = &args.output_dir;
    let unpacked = dest.join("artifacts");
    let tree = input::read(&args.artifact_dir, &unpacked, options.settings.jobs, world)?;
    let build = Build::plan(&tree, &options, &selection, dest, world)?;
    build.ensure_complete()?;
    if args.dry_run {
        return world.console.answer(&build.plan);
    }
    let identity = build.identity(fetch::provenance(&args.artifact_dir)?)?;
    let made = build.make(dest, &args.what.reuse(), world)?;
    LocalSet::built(dest, identity, known_packages(&made.packages), world)?;
    args.answer(&made, world)
}

/// What is known of packages that were just made, so that the next step does not read them again.
pub(super) fn known_packages(made: &[MadePackage]) -> KnownPackages {
    let packages = made.iter().filter_map(|made| {
        let known = KnownPackage {
            file: made.file.clone(),
            metadata: made.metadata()?.to_vec(),
            identity: made.identity,
            start: made.start.clone(),
        };
        Some((made.file.path.clone(), known))
    });
    packages.collect()
}

impl BuildArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.release_type, "RELEASE_TYPE")?;
        self.what.read_variables(variables)?;
        self.settings.read_variables(variables)
    }

    fn answer(&self, made: &MadeSet, world: &World) -> Result<()> {
        if world.console.leaves_out_results() {
            return Ok(());
        }
        let answer = BuildAnswer { packages: &made.packages, reused: made.reused };
        if !world.console.has_one_reader() {
            return world.console.report("build", &answer, &answer);
        }
        world.console.data(answer.sized(&self.output_dir.join("dist")))?;
        let shown = shell_word(&self.output_dir.to_string_lossy());
        world.console.next(format!("rocwheel index {shown}"));
        Ok(())
    }

    /// Fails if the packages would be written among the artifacts or around them: the next build would take
    /// leftovers of one directory for a part of the other.
    fn ensure_apart(&self) -> Result<()> {
        let artifacts = real(&self.artifact_dir)?;
        let dest = real(&self.output_dir)?;
        if !dest.starts_with(&artifacts) && !artifacts.starts_with(&dest) {
            return Ok(());
        }
        // The message has the paths as they were passed, and not the real ones.
        Err(anyhow!(
            "`--output-dir {}` is in or above `--artifact-dir {}`",
            self.output_dir.display(),
            self.artifact_dir.display()
        ))
        .hint("name another directory for the packages, beside the directory of the artifacts")
    }

    /// The packages to build. Fails if the artifacts were fetched for other packages: the build
    /// would succeed, but its set would differ from the set of the run.
    fn selection(&self, options: &BuildOptions) -> Result<BuildSelection> {
        let selected = TargetTable::builtin().select_with_newer(self.targets.as_slice())?;
        let targets: BTreeSet<Scope> =
            selected.iter().map(|it| Scope::Target(it.packaged())).collect();
        if targets.is_empty() {
            ensure_all(&self.artifact_dir)?;
            return Ok(match &self.only[..] {
                [] => BuildSelection::All,
                names => BuildSelection::Named(names.to_vec()),
            });
        }
        let subset = Subset::new(&self.only, &options.catalog, options.platform, targets)?;
        self.ensure_enough(&subset, options)?;
        Ok(BuildSelection::Subset(subset))
    }

    fn ensure_enough(&self, subset: &Subset, options: &BuildOptions) -> Result<()> {
        let names = fetch::fetched_for(&self.artifact_dir)?;
        if names.is_empty() {
            return Ok(());
        }
        let fetched = in_words(&self.artifact_dir, &names);
        let targets = subset.targets.clone();
        let fetched_subset = Subset::new(&names, &options.catalog, options.platform, targets)
            .with_context(|| fetched.clone())
            .hint("pass all targets of the run as `--target`")?;
        let lacking = fetched_subset.lacks(subset);
        if lacking.is_empty() {
            return Ok(());
        }
        Err(anyhow!("{fetched}, which is not enough for {}", lacking.join(", ")))
            .hint("fetch with the `--only` of this build")
    }

    /// Locks the directory for this build. With `--dry-run` there is no lock, unless archives must be
    /// unpacked there.
    fn lock(&self) -> Result<Option<Lock>> {
        if self.dry_run && input::archives(&self.artifact_dir)?.0.is_empty() {
            return Ok(None);
        }
        Lock::to_write(&self.output_dir, LockPurpose::Build).map(Some)
    }
}

impl BuildInputs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.jobs.read_variables(variables)
    }

    pub fn options(
        &self,
        settings: &BuildSettings,
        platform: Platform,
        release_type: Option<ReleaseType>,
    ) -> Result<BuildOptions> {
        let tag = settings.wheel_platform_tag.as_deref().unwrap_or(platform.wheel_tag());
        let compression =
            if settings.no_wheel_compression { WheelCompression::Store } else { self.compression };
        Ok(BuildOptions {
            catalog: self.catalog()?,
            version: self.version.clone().flatten(),
            release_type: release_type.unwrap_or(ReleaseType::Ci),
            suffix: settings.version_suffix.clone().unwrap_or_default(),
            platform,
            linux: targets(self.linux_amdgpu_families.as_ref())?,
            windows: targets(self.windows_amdgpu_families.as_ref())?,
            tag: format!("py3-none-{tag}")
                .parse()
                .context("failed to read `--wheel-platform-tag`")?,
            on_collision: settings.on_collision,
            kpack: settings.kpack,
            devel_packing: match settings.devel_compression {
                _ if settings.no_devel_tarball_compression => SdkTreePacking::Tar,
                _ if settings.devel_tarball_compression => SdkTreePacking::TarXz,
                packing => packing,
            },
            settings: PackSettings {
                time: settings.source_date_epoch.unwrap_or(FIRST_DAY),
                ..PackSettings::new(compression, self.jobs.count())
            },
        })
    }

    /// What an existing set is used for.
    pub fn reuse(&self) -> Reuse {
        Reuse { clean: self.clean, from: self.reuse.clone(), program: program() }
    }

    fn catalog(&self) -> Result<Catalog> {
        let catalog = match seams::packages() {
            None => Catalog::built_in(),
            Some(file) => read_catalog(&file),
        };
        catalog?.without(&self.without).context("failed to apply `--without`")
    }
}

/// The real path of a directory that need not exist yet.
fn real(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for existing in path.ancestors() {
        if let Ok(real) = resolved_path(existing) {
            return Ok(real.join(path.strip_prefix(existing)?));
        }
    }
    Ok(path)
}

/// A version, or `None` for an empty text, which workflows pass if they have no version.
type GivenVersion = Option<Version>;

fn version(text: &str) -> Result<GivenVersion, <Version as std::str::FromStr>::Err> {
    (!text.is_empty()).then(|| text.parse()).transpose()
}

/// The targets of a pattern; `None` if it has no names.
fn targets(pattern: Option<&TargetPattern>) -> Result<Option<Vec<Target>>> {
    let given = pattern.filter(|pattern| !pattern.is_empty());
    let targets = given.map(|it| TargetTable::builtin().select(std::slice::from_ref(it)));
    Ok(targets.transpose()?)
}

/// Reads the contents of packages from a file of a test.
fn read_catalog(file: &Path) -> Result<Catalog> {
    Catalog::parse(&read_text(file)?)
        .with_context(|| format!("failed to read `{}`", file.display()))
}

/// Fails if the artifacts were fetched for some packages only. A build of the whole set would
/// succeed, but its set would differ from the set of the run.
pub fn ensure_all(directory: &Path) -> Result<()> {
    let names = fetch::fetched_for(directory)?;
    if names.is_empty() {
        return Ok(());
    }
    let artifacts = in_words(directory, &names);
    Err(anyhow!("{artifacts}, which does not show all targets"))
        .hint("build with `--only`, and all targets of the run as `--target`; or fetch all of it")
}

/// Describes artifacts that were fetched for some packages only.
fn in_words(directory: &Path, names: &[String]) -> String {
    format!(
        "the artifacts in `{}` come from `fetch --only {}`",
        directory.display(),
        names.join(",")
    )
}
