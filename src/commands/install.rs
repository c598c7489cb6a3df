//! `install`: installs a package set into a virtual environment.

mod source;

use std::path::PathBuf;

use itertools::Itertools as _;

use self::source::{Source, SourceArgs};
use super::{World, args::MachineArgs, fetch::ChoiceArgs, summary};
use crate::{
    error::{Context as _, Hint as _, Result},
    install::{
        self, Action, Emit, Environment, Installer, InstallerWish, Python, State, TargetWish,
    },
    report::outputs,
    set::{OfferedSet, SetPlace, Urls},
    target::split_list,
    version::Version,
    wheel::{Metadata, RequirementLine},
};

/// Install a package set into a virtual environment
///
/// Finds the target of this machine's GPU, decides the version of every package, and lets uv or pip
/// install exactly the files of the set. If that fails, a new environment is removed again.
#[derive(Debug, clap::Args)]
#[command(mut_arg("artifact_group", |it| it.alias(None)))]
#[command(mut_arg("wait", |it| it.help(
    "How long to wait for the packages of a run, or for a set to be whole: `90s`, `30m` (default: `3m` \
     while a set is being uploaded)"
)))]
#[command(mut_args(|it| match it.get_id().as_str() {
    // Of artifacts, which are not installed, and for tests of machines.
    "all_artifacts" | "allow_incomplete" | "amdgpu_families" | "amdgpu_targets" | "dev" | "downloads"
    | "download_timeout" | "force_targets" | "honour_override" | "max_commits"
    | "no_detection" | "require_artifact" | "require_completed_run" | "require_successful_run" | "source_kind"
    | "sysfs" => it.hide(true),
    // Those that have a variable, or that few need here. They work as with `fetch`.
    "addressing_style" | "artifact_group" | "bucket" | "endpoint_url" | "github_api_url" | "github_token"
    | "input_dir" | "no_sign_request" | "offline" | "region" | "workflow" => it.hide(true),
    "platform" | "release_type" | "repository" => it.hide_short_help(true),
    _ => it,
}))]
#[command(after_help = "Examples:
  rocwheel install packages
  rocwheel install --run-id 21440027240
  rocwheel install --pr 1234 --target gfx942 --python 3.12 --venv .venv
  rocwheel install --stream nightly --version 10.1.0a20260823 --dry-run
  rocwheel install https://host/simple/ --package torch --deps https://host/deps/simple/

Exit codes: 0 installed, 1 the set does not have what was asked for, or the installer failed, 2 usage, \
environment or access error")]
pub struct InstallArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Directory of the environment, which is created if it does not exist
    #[arg(long, value_name = "DIR", default_value = ".venv")]
    venv: PathBuf,
    /// Targets or families, comma-separated; `auto` for the GPUs of this machine, `none` for no
    /// device code
    #[arg(long, alias = "targets", value_name = "LIST", default_value = "auto")]
    target: String,
    /// Extras of `rocm`, comma-separated, or `none` (default: `libraries`)
    #[arg(long, value_name = "LIST")]
    extras: Option<String>,
    /// Also install this requirement, with device code if it has some: `torch>=2.10`
    #[arg(long, value_name = "REQUIREMENT")]
    package: Vec<String>,
    /// Index with all packages that the set does not have
    #[arg(long, value_name = "URL")]
    deps: Option<String>,
    /// Python of a new environment, by its version or its path
    #[arg(long, value_name = "PYTHON")]
    python: Option<String>,
    /// What installs the packages
    #[arg(long, value_name = "WHO", default_value = "auto")]
    installer: InstallerWish,
    /// Replace an existing environment
    #[arg(long)]
    recreate: bool,
    /// Run the tests of the set afterwards (default: `libs` in CI, else `none`)
    #[arg(long, value_name = "WHICH")]
    test: Option<InstallTest>,
    /// Let the next steps of a GitHub job use the environment
    #[arg(long)]
    activate: bool,
    /// Print what would be installed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the exact pins with their digests in this form, and install nothing
    #[arg(long, value_name = "FORM", conflicts_with_all = ["dry_run", "activate", "test"])]
    emit: Option<Emit>,
    /// File of directories for later steps, for `--activate`
    #[arg(long, hide = true, env = "GITHUB_PATH")]
    github_path: Option<PathBuf>,
    /// File of variables for later steps, for `--activate`
    #[arg(long, hide = true, env = "GITHUB_ENV")]
    github_env: Option<PathBuf>,
    /// Append step outputs to this file
    #[arg(long, hide = true, env = "GITHUB_OUTPUT")]
    github_output: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten, next_help_heading = "Fetch options")]
    choice: ChoiceArgs,
}

/// Which tests of the set are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum InstallTest {
    Libs,
    Gpu,
    None,
}

pub fn run(args: &InstallArgs, world: &World) -> Result<()> {
    let environment = Environment::at(&args.venv)?;
    args.ensure_can_activate()?;
    if let Some(form) = args.emit {
        let plan = args.plan(&environment, world)?;
        return world.console.data(plan.emit(form, world)?);
    }
    if args.dry_run {
        let plan = args.plan(&environment, world)?;
        return world.console.answer(&plan);
    }
    let lock = install::begin(&environment)?;
    let plan = args.plan(&environment, world)?;
    let report = plan.carry_out(&environment, &lock, world)?;
    drop(lock);
    args.tell_later_steps(&plan, &report, &environment)?;
    if let Some(with_gpu) = args.test(&report, world) {
        install::test(&environment, with_gpu, world)?;
    }
    if !args.activate {
        world.console.next(environment.activation());
    }
    world.console.answer(&report)
}

impl InstallArgs {
    fn source(&self) -> Source<'_> {
        Source {
            args: &self.source,
            choice: &self.choice,
        }
    }

    fn target_wish(&self, world: &World) -> Result<TargetWish> {
        Ok(match self.target.as_str() {
            "none" => TargetWish::Without,
            "auto" => {
                let found = self.machine.targets(&self.machine.gpus(), &world.console)?;
                TargetWish::Detected(found)
            }
            list => TargetWish::Named(split_list(list).map(str::to_owned).collect()),
        })
    }

    fn request(&self, world: &World) -> Result<install::Request> {
        let list = |text: &String| split_list(text).map(str::to_owned).collect::<Vec<_>>();
        let extras = self.extras.as_ref().map(list);
        let extras = extras.map(|it| if it == ["none"] { Vec::new() } else { it });
        for text in &self.package {
            RequirementLine::parse(text)
                .with_context(|| format!("`--package` with no requirement: {text:?}"))?;
        }
        // The address reaches logs and lock files, so that it may have no password in it.
        let dependencies = self.deps.as_ref().filter(|it| *it != "none");
        let dependencies = dependencies.map(|it| it.parse::<Urls>());
        let dependencies = dependencies
            .transpose()
            .context("failed to read `--deps`")?;
        Ok(install::Request {
            version: self.source.version.clone(),
            stream: self.source.stream,
            targets: self.target_wish(world)?,
            extras,
            packages: self.package.clone(),
            dependencies: dependencies.map(|it| it.to_string()),
            platform: self.choice.platform(),
            recreate: self.recreate,
        })
    }

    /// Observes and decides. Changes nothing.
    fn plan(&self, environment: &Environment, world: &World) -> Result<install::Plan> {
        // Pins do not depend on what an environment has.
        let state = match self.emit {
            Some(_) => State::Absent,
            None => environment.state()?,
        };
        let is_update = install::action(state, self.recreate) == Action::Update;
        let present = if is_update {
            environment.packages()?
        } else {
            Vec::new()
        };
        let request = self.request(world)?;
        let (place, mut offered) = self.source().open(world)?;
        let rocm = source::choose(&request, &place, &mut offered, world)?;
        if let Some((metadata, selection)) = &rocm {
            for target in &selection.lacking {
                let text = "this machine has such a GPU, which cannot be used with these packages";
                let version = &metadata.version;
                world.console.warn(format!(
                    "ROCm {version} has no device code for {target}: {text}"
                ));
            }
            let parts = install::parts(metadata);
            for installed in present.iter().filter(|it| parts.contains(&it.name)) {
                place.offer_project(&mut offered, installed.name.normalized())?;
            }
        }
        let packages = self.packages(&place, &mut offered, rocm.as_ref().map(|it| &it.0))?;
        let installer = Installer::find(self.installer)?;
        let wanted = self.python.as_deref();
        let python = if is_update {
            installer.ensure_in(environment)?;
            let python = Python::ask(&environment.python())?;
            if let Some(wanted) = wanted {
                python.ensure_is(wanted)?;
            }
            Some(python)
        } else {
            match Python::find(installer, wanted) {
                // Pins of ROCm are those of any Python.
                Err(_) if self.emit.is_some() && wanted.is_none() => None,
                found => found?,
            }
        };
        install::plan(
            &request,
            install::Facts {
                offered: &offered,
                rocm,
                packages,
                environment,
                state,
                installed: &present,
                python,
                wanted_python: self.python.clone(),
                installer,
            },
        )
    }

    /// The metadata of each package that the user asks for, if the source offers it.
    fn packages(
        &self,
        place: &SetPlace,
        offered: &mut OfferedSet,
        rocm: Option<&Metadata>,
    ) -> Result<Vec<(String, Option<Metadata>)>> {
        let mut packages = Vec::new();
        for text in &self.package {
            let name = RequirementLine::parse(text).map(|it| it.name.clone());
            let name = name.context("a requirement without a name")?;
            place.offer_project(offered, name.normalized())?;
            let rocm = rocm.map(|it| (&it.version, it));
            let pins = install::pins(offered, None, rocm, &self.package);
            let pin = pins.into_iter().find(|it| it.0 == name);
            let file = pin.and_then(|pin| {
                let mut files = offered.files.iter();
                files.find(|it| it.project == pin.0 && it.version == pin.1)
            });
            let metadata = file.map(|it| place.metadata_of(it)).transpose()?;
            packages.push((text.clone(), metadata));
        }
        Ok(packages)
    }

    /// Whether to run the tests of the set, and if so whether with those for a GPU.
    fn test(&self, report: &install::Report, world: &World) -> Option<bool> {
        let is_usual = world.console.is_in_ci() && report.version.is_some();
        match self.test {
            None => is_usual.then_some(false),
            Some(InstallTest::None) => None,
            Some(which) => Some(which == InstallTest::Gpu),
        }
    }

    fn ensure_can_activate(&self) -> Result<()> {
        let has_files = self.github_path.is_some() && self.github_env.is_some();
        (!self.activate || has_files || self.dry_run)
            .then_some(())
            .context("`--activate` is for a step of GitHub Actions")
            .hint("elsewhere, source `bin/activate` of the environment")
    }

    /// Writes the step outputs and, with `--activate`, the files that the runner reads.
    fn tell_later_steps(
        &self,
        plan: &install::Plan,
        report: &install::Report,
        environment: &Environment,
    ) -> Result<()> {
        let root = environment.root().display().to_string();
        if let Some((path, variables)) = self
            .github_path
            .as_ref()
            .zip(self.github_env.as_ref())
            .filter(|_| self.activate)
        {
            summary::append(path, &format!("{}\n", environment.programs().display()))?;
            let variable = [("VIRTUAL_ENV", root.clone())];
            summary::append(variables, &outputs::render(&variable)?)?;
        }
        let Some(file) = &self.github_output else {
            return Ok(());
        };
        let version = report.version.as_ref().map(Version::to_string);
        let outputs = [
            ("venv", root),
            ("python", report.python.display().to_string()),
            ("version", version.unwrap_or_default()),
            ("targets", report.targets.iter().join(",")),
            (
                "cache-key",
                plan.cache_key(self.choice.platform(), &report.base),
            ),
        ];
        let outputs = outputs::render(&outputs)?;
        summary::append(file, &outputs).context("failed to write step outputs")
    }
}
