//! `install`: installs a package set into a virtual environment.

mod source;

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use itertools::Itertools as _;

use super::{
    World,
    args::{MachineArgs, StepOutputs, Variables, unusual},
    check::{self, AcceptArgs},
    fetch::{FetchSettings, RunChoice},
};
use crate::{
    index::Urls,
    install::{
        self, Action, Emit, Environment, InstallOrigin, Installer, InstallerSearch, ReadDepth,
        RocmSelection, RuntimeVariables, SitePackages, TargetWish,
    },
    place::{OfferedSet, PlaceArg, ServedDigests, SetPlace},
    policy::DistNames,
    run::ArtifactGroup,
};
use rocwheel_base::{
    atomic::StagedDir,
    error::{Context as _, Hint as _, Invalid, No, Result, anyhow},
    target::{Target, TargetPattern, split_list},
    version::{ReleaseStream, Version},
};
use rocwheel_wheel::{Metadata, Requirement};

/// What few need, and `--help` has.
const UNUSUAL: [&str; 12] = [
    "repository",
    "release_type",
    "bucket",
    "offline",
    "input_dir",
    "artifact_group",
    "branch",
    "wait",
    "no_check",
    "commit",
    "installer",
    "platform",
];

/// Install a package set into a virtual environment
///
/// Finds the target of this machine's GPU, decides the version of every package, and lets uv or pip
/// install exactly the files of the set. If that fails, a new environment is removed again.
#[derive(Debug, clap::Args)]
#[command(mut_args(|it| unusual(it, &UNUSUAL)))]
#[command(after_help = "Examples:
  rocwheel install packages
  rocwheel install --run-id 21440027240
  rocwheel install --pr 1234 --target gfx942 --python 3.12 --venv .venv
  rocwheel install --stream nightly --version 10.1.0a20260823 --dry-run
  rocwheel install https://host/simple/ --package torch --deps https://host/deps/simple/
  rocwheel install --stream stable --target gfx1100 --into runtime

Exit codes: 0 installed, 1 the set does not have what was asked for, or the installer failed, 2 usage, \
environment or access error")]
pub struct InstallArgs {
    /// Set or index to install from: a directory, an address, or `s3://bucket/prefix` [default: where the
    /// packages of the environment came from]
    #[arg(value_name = "SET", conflicts_with = "stream")]
    set: Option<PlaceArg>,
    /// Install a version that this stream publishes
    #[arg(long, value_name = "STREAM")]
    stream: Option<ReleaseStream>,
    /// Version of ROCm [default: the newest of which all packages are there]
    #[arg(long, value_name = "VERSION")]
    version: Option<Version>,
    /// Directory of the environment, which is created if it does not exist [default: the active one, else .venv]
    ///
    /// [env: `VIRTUAL_ENV`, `CONDA_PREFIX`]
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
    /// Targets or families, comma-separated; `auto` for the GPUs of this machine, `none` for no
    /// device code
    #[arg(long, alias = "targets", value_name = "LIST", default_value = "auto")]
    target: TargetChoice,
    /// Extras of `rocm`, comma-separated, or `none` [default: libraries, and devel if the set has it]
    #[arg(long, value_name = "LIST")]
    extras: Option<String>,
    /// Also install this requirement, with device code if it has some: `torch>=2.10`
    #[arg(long, value_name = "REQUIREMENT")]
    package: Vec<String>,
    /// Index with all packages that the set does not have
    #[arg(long, value_name = "URL")]
    deps: Option<String>,
    /// Unpack the files into this directory instead, without any Python
    ///
    /// Libraries and device code; with `--extras libraries,devel` also the development files.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["venv", "deps", "python", "installer", "reinstall", "emit"]
    )]
    into: Option<PathBuf>,
    /// Python of a new environment, by its version or its path
    #[arg(long, value_name = "PYTHON")]
    python: Option<String>,
    /// What installs the packages [default: uv if it is installed, else pip]
    #[arg(long, value_name = "WHO")]
    installer: Option<Installer>,
    /// Family whose packages are meant, of a run that keeps each family apart [default: `ARTIFACT_GROUP`]
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["set", "stream"])]
    artifact_group: Option<ArtifactGroup>,
    /// Install every package again, also those that the environment has
    #[arg(long)]
    reinstall: bool,
    /// Install a set of a directory without checking it
    #[arg(long)]
    no_check: bool,
    /// Print what would be installed, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Print the exact pins in this form, and install nothing
    #[arg(long, value_name = "FORM", conflicts_with = "dry_run")]
    emit: Option<Emit>,
    #[command(flatten)]
    outputs: StepOutputs,
    #[command(flatten)]
    run: RunChoice,
    // The rest has no flags here: variables say it.
    /// A server that has a directory for each host of a stream.
    #[arg(skip)]
    mirror: Option<Urls>,
    /// Where the digests of files on servers are remembered.
    #[arg(skip)]
    served_digests: Option<PathBuf>,
    #[arg(skip)]
    machine: MachineArgs,
    #[arg(skip)]
    settings: FetchSettings,
    #[arg(skip)]
    accept: AcceptArgs,
}

/// The value of `--target`.
#[derive(Clone, Debug)]
enum TargetChoice {
    Auto,
    Named(TargetPattern),
}

/// The source, and what was chosen of it.
struct Chosen {
    place: SetPlace,
    offered: OfferedSet,
    /// `None` for a source that has packages of others only.
    rocm: Option<(Metadata, RocmSelection)>,
}

impl FromStr for TargetChoice {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Ok(match text {
            "auto" => Self::Auto,
            "none" => Self::Named(TargetPattern::default()),
            names => Self::Named(names.parse()?),
        })
    }
}

pub fn run(args: &InstallArgs, world: &World) -> Result<()> {
    if let Some(directory) = &args.into {
        return args.unpack_into(directory, world);
    }
    // uv answers while this program reads the set.
    let search = Installer::search(args.installer);
    let environment = Environment::at(args.venv.as_deref().unwrap_or(".venv".as_ref()))?;
    let mut memory = ServedDigests::open(args.served_digests.clone());
    if let Some(form) = args.emit {
        // Pins do not depend on what an environment has.
        let (place, mut plan) = args.plan(search, &environment, Action::Create, world)?;
        if form.has_digests() {
            plan.take_digests(&place, &mut memory, None, world)?;
        }
        return world.console.data(plan.emit(form, world)?);
    }
    if args.dry_run {
        let (_, plan) = args.plan(search, &environment, environment.action()?, world)?;
        return world.console.answer(&plan);
    }
    let lock = environment.lock()?;
    let (place, mut plan) = args.plan(search, &environment, environment.action()?, world)?;
    // What has to be read for its digest is kept until it is installed, on the disk of the environment, which has
    // room for it if any disk has.
    let is_kept = plan.is_exact() && plan.lacks_digests() && place.local().is_none();
    let kept = is_kept.then(|| StagedDir::beside(environment.root())).transpose()?;
    let directory = kept.as_ref().map(StagedDir::path);
    if plan.take_digests(&place, &mut memory, directory, world)? {
        plan.install_from(directory)?;
    }
    let report = plan.carry_out(&environment, &lock, world)?;
    drop(lock);
    args.outputs.append(&[
        ("venv", environment.root().display().to_string()),
        ("python", report.python.display().to_string()),
        ("version", report.version.map_or_else(String::new, Version::to_string)),
        ("targets", report.targets.iter().join(",")),
    ])?;
    if let Some(activation) = environment.activation() {
        world.console.next(activation);
    }
    if report.version.is_some() {
        world.console.next(environment.program("rocm-sdk", "test"));
    }
    world.console.answer(&report)
}

impl InstallArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.mirror, "ROCWHEEL_STREAM_MIRROR")?;
        variables.fill_path(&mut self.venv, "VIRTUAL_ENV");
        self.venv = self.venv.take().or_else(|| variables.conda_environment());
        self.served_digests = variables.cache_file("served-digests.json");
        self.outputs.read_variables(variables);
        self.run.read_variables(variables)?;
        self.machine.read_variables(variables)?;
        self.settings.read_variables(variables)?;
        self.accept.read_variables(variables);
        Ok(())
    }

    /// What the user asks for besides `rocm`.
    fn packages(&self) -> Result<Vec<Requirement>> {
        let parse = |text: &String| {
            let requirement = text.parse::<Requirement>();
            let has_url = requirement.as_ref().is_ok_and(|line| line.url().is_some());
            if has_url || text.contains("://") {
                return Err(anyhow!(
                    "`--package` with an address, for which the source has no digest"
                ))
                .hint("name the package, and the index that has it with `--deps`");
            }
            requirement.with_context(|| format!("`--package` with no requirement: {text:?}"))
        };
        self.package.iter().map(parse).collect()
    }

    fn request(&self) -> Result<install::Request> {
        let list = |text: &str| match text {
            "none" => Vec::new(),
            list => split_list(list).map(str::to_owned).collect(),
        };
        // The address reaches logs and lock files, so that it may have no password in it.
        let dependencies = match self.deps.as_deref() {
            None | Some("none") => None,
            Some(address) => Some(address.parse::<Urls>().context("failed to read `--deps`")?),
        };
        let targets = match &self.target {
            TargetChoice::Auto => TargetWish::Detected(self.machine.targets(&self.machine.gpus())?),
            TargetChoice::Named(pattern) => TargetWish::Named(pattern.clone()),
        };
        Ok(install::Request {
            version: self.version.clone(),
            stream: self.stream,
            targets,
            extras: self.extras.as_deref().map(list),
            usually_with_devel: self.into.is_none(),
            packages: self.packages()?,
            dependencies: dependencies.map(|it| it.to_string()),
            no_check: self.no_check,
            reinstall: self.reinstall,
            platform: self.run.args.platform(),
        })
    }

    /// Where the packages of an environment came from, if no other source is named, and if no other program has
    /// installed another version since.
    fn earlier(&self, environment: &Environment) -> Option<InstallOrigin> {
        if self.set.is_some() || self.stream.is_some() || self.run.knows_a_run() {
            return None;
        }
        let origin = InstallOrigin::read(environment.root())?;
        let selector = &DistNames::built_in().selector;
        let packages = install::metadata(environment.root());
        let rocm = packages.into_iter().find(|it| it.name.normalized() == selector);
        rocm.is_none_or(|it| Some(it.version) == origin.version).then_some(origin)
    }

    /// Opens the source, and chooses the version, the targets and the packages of ROCm.
    fn choose(
        &self,
        request: &install::Request,
        earlier: Option<&InstallOrigin>,
        world: &World,
    ) -> Result<Chosen> {
        let (place, mut offered) = self.open_source(earlier, world)?;
        let rocm = source::choose(request, &place, &mut offered, world)?;
        if rocm.is_some() && !self.no_check {
            check::ensure_installable(&place, offered.is_described, &self.accept, world)?;
        }
        if let (TargetWish::Detected(gpus), Some((metadata, selection))) = (&request.targets, &rocm)
            && !selection.targets.is_empty()
        {
            // The selection has code for another GPU of this machine, so that the install goes on.
            for target in gpus.iter().map(Target::base) {
                if !selection.targets.contains(&target) {
                    let version = &metadata.version;
                    world.console.warn(format!(
                        "ROCm {version} has no device code for {target}: this machine has such a \
                         GPU, which cannot be used with these packages"
                    ));
                }
            }
        }
        Ok(Chosen { place, offered, rocm })
    }

    /// Unpacks packages without an environment.
    fn unpack_into(&self, directory: &Path, world: &World) -> Result<()> {
        let request = self.request()?;
        let Chosen { place, mut offered, rocm } = self.choose(&request, None, world)?;
        let (metadata, selection) = rocm
            .ok_or_else(|| anyhow!(No(format!("`{place}` has no packages of ROCm"))))
            .hint("name a set, or an index of ROCm")?;
        for wish in &request.packages {
            place.offer_project(&mut offered, wish.name.normalized())?;
        }
        let mut plan = install::plan_into(&request, &offered, &metadata, &selection, directory)?;
        if self.dry_run {
            return world.console.answer(&plan);
        }
        let mut memory = ServedDigests::open(self.served_digests.clone());
        let report = plan.carry_out(&place, &mut memory, world)?;
        self.outputs.append(&[
            ("version", metadata.version.to_string()),
            ("targets", selection.targets.iter().join(",")),
        ])?;
        world.console.answer(&report)
    }

    /// Observes and decides. Changes nothing.
    fn plan(
        &self,
        search: InstallerSearch,
        environment: &Environment,
        action: Action,
        world: &World,
    ) -> Result<(SetPlace, install::Plan)> {
        let earlier = self.earlier(environment);
        let mut request = self.request()?;
        if request.version.is_none() {
            request.version = earlier.as_ref().and_then(|it| it.version.clone());
        }
        let Chosen { place, mut offered, rocm } = self.choose(&request, earlier.as_ref(), world)?;
        let installer = search.finish()?;
        let mut present = Vec::new();
        let mut broken = Vec::new();
        if action == Action::Update {
            present = install::metadata(environment.root());
            // What cannot be read of an environment is the subject of `doctor`.
            let variables = RuntimeVariables::default();
            let site = SitePackages::read(
                environment.root(),
                ReadDepth::Sizes,
                &variables,
                World::jobs(),
                &world.stop,
            );
            if let (Ok(site), Some(_)) = (&site, &rocm) {
                install::ensure_no_other_rocm(site, environment, installer)?;
            }
            broken.extend(site.iter().flat_map(install::broken));
            world.stop.check()?;
        }
        let packages = metadata_of(&request.packages, &place, &mut offered, rocm.as_ref())?;
        if (action, installer) == (Action::Update, Installer::Pip) {
            install::ensure_pip(&environment.python())?;
        }
        if let (Action::Update, Some(wanted)) = (action, &self.python) {
            install::ensure_python(&environment.python(), wanted)?;
        }
        let plan = install::plan(
            &request,
            install::Facts {
                offered: &offered,
                rocm,
                packages,
                environment,
                action,
                installed: &present,
                broken,
                source: place.argument()?,
                python: self.python.clone(),
                installer,
            },
        )?;
        Ok((place, plan))
    }
}

/// The metadata of each package that the user asks for, if the source offers it.
fn metadata_of(
    packages: &[Requirement],
    place: &SetPlace,
    offered: &mut OfferedSet,
    rocm: Option<&(Metadata, RocmSelection)>,
) -> Result<Vec<(Requirement, Option<Metadata>)>> {
    // Packages of other families are not installed with this ROCm.
    let family = rocm.and_then(|(_, selection)| selection.family.as_ref());
    let metadata = rocm.map(|(metadata, _)| metadata);
    let mut described = Vec::new();
    for requirement in packages {
        let name = &requirement.name;
        place.offer_project(offered, name.normalized())?;
        let pins = install::pins(offered, family, metadata, packages);
        let file = pins
            .iter()
            .find(|pin| pin.project == *name)
            .and_then(|pin| install::files_of(offered, family, &pin.project, &pin.version).next());
        let metadata = file.map(|file| place.metadata_of(file)).transpose()?;
        described.push((requirement.clone(), metadata));
    }
    Ok(described)
}
