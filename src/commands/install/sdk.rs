//! `install --sdk`: installs an SDK tree into a directory.

use std::path::{Path, PathBuf};

use super::{InstallArgs, summary};
use crate::{
    commands::World,
    error::{Context as _, Hint as _, Result, ensure},
    fetch::{FetchRequest, OutputForm},
    gpu::UNDETECTED,
    install::{RemoteTarball, SdkDirectory, SdkReport, SdkWish, TarballWish, TargetWish},
    report::outputs,
    target::{Target, TargetTable, UnknownFamilies},
    version::{ReleaseStream, Version},
};

/// What is installed instead of packages.
#[derive(Debug, clap::Args)]
pub(super) struct SdkArgs {
    /// Install an SDK tree into this directory instead of packages into an environment: the artifacts
    /// of a run, or a tarball of `--stream`
    #[arg(
        long = "sdk",
        value_name = "DIR",
        conflicts_with_all = [
            "environment", "set", "index_url", "extras", "package", "deps", "python", "recreate",
            "lock", "from_lock",
        ]
    )]
    pub(super) directory: Option<PathBuf>,
    /// Components of the SDK, comma-separated: `fft,miopen` (default: everything that is installed)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "directory",
        conflicts_with = "stream"
    )]
    component: Vec<String>,
    /// With the tests of the components
    #[arg(long, requires = "directory")]
    tests: bool,
}

pub(super) fn run(directory: &Path, args: &InstallArgs, world: &World) -> Result<()> {
    let directory = SdkDirectory::at(directory)?;
    args.ensure_can_activate()?;
    let report = if let Some(stream) = args.source.stream {
        let tarball = args.tarball(stream, world)?;
        if args.dry_run {
            return world.console.answer(&tarball.plan(&directory)?);
        }
        directory.install_tarball(&tarball, world)?
    } else {
        let request = args.artifacts(world)?;
        if args.dry_run {
            return show(request, &directory, world);
        }
        directory.install_artifacts(request, world)?
    };
    args.tell_of_sdk(&report)?;
    world.console.answer(&report)
}

impl InstallArgs {
    fn artifacts<'a>(&'a self, world: &'a World) -> Result<FetchRequest<'a>> {
        let ensured = self.source.version.is_none();
        ensure!(ensured, "`--version` chooses a tarball: pass `--stream`");
        let targets = match self.target_wish(world)? {
            TargetWish::Without => None,
            TargetWish::Detected(found) => Some(names_of(&found)?),
            TargetWish::Named(names) => Some(names),
        };
        let wish = SdkWish {
            components: self.sdk.component.clone(),
            with_tests: self.sdk.tests,
            targets,
        };
        let wish = wish.artifacts()?;
        let (targets, required) = (wish.targets.clone(), wish.required.clone());
        let mut request = self.choice.request(wish, world)?;
        // What the flags of `fetch` select is for packages.
        request.wish.groups.clear();
        request.wish.families.clear();
        request.wish.targets = targets;
        request.wish.required.extend(required);
        request.allow_incomplete = true;
        Ok(request)
    }

    /// The tarball of a stream for the wanted targets.
    fn tarball(&self, stream: ReleaseStream, world: &World) -> Result<RemoteTarball> {
        let targets = match self.target_wish(world)? {
            TargetWish::Without => Vec::new(),
            TargetWish::Detected(found) => {
                names_of(&found)?;
                found.iter().map(Target::base).collect()
            }
            TargetWish::Named(names) => {
                let targets = TargetTable::builtin().resolve(&names);
                targets.map_err(UnknownFamilies::hinted)?
            }
        };
        let wish = TarballWish {
            stream,
            version: self.source.version.as_ref(),
            platform: self.choice.platform(),
            targets: &targets,
            with_tests: self.sdk.tests,
        };
        RemoteTarball::find(&self.source().places(stream)?, &wish, &world.stop)
    }

    /// Writes the step outputs and, with `--activate`, the files that the runner reads.
    fn tell_of_sdk(&self, report: &SdkReport) -> Result<()> {
        let root = report.directory.display().to_string();
        let files = self.github_path.as_ref().zip(self.github_env.as_ref());
        if let Some((path, variables)) = files.filter(|_| self.activate) {
            let programs = report.directory.join("bin").display().to_string();
            summary::append(path, &format!("{programs}\n"))?;
            let own = [
                ("ROCM_PATH", root.clone()),
                ("THEROCK_BIN_DIR", programs),
                ("OUTPUT_ARTIFACTS_DIR", root.clone()),
            ];
            summary::append(variables, &outputs::render(&own)?)?;
        }
        let Some(file) = &self.github_output else {
            return Ok(());
        };
        let version = report.version.as_ref().map(Version::to_string);
        let outputs = [("sdk", root), ("version", version.unwrap_or_default())];
        let outputs = outputs::render(&outputs)?;
        summary::append(file, &outputs).context("failed to write step outputs")
    }
}

fn show<'a>(request: FetchRequest<'a>, directory: &SdkDirectory, world: &'a World) -> Result<()> {
    let job = request.decide((directory.root(), OutputForm::Merged), true, world)?;
    world.console.answer(&job)
}

/// Fails if there is none.
fn names_of(found: &[Target]) -> Result<Vec<String>> {
    let names: Vec<String> = found.iter().map(|it| it.base().to_string()).collect();
    let some = (!names.is_empty()).then_some(names);
    some.context(UNDETECTED)
        .hint("name its target with `--target`, or pass `--target none`")
}
