//! `install`: installs a package set into a virtual environment.

mod sdk;
mod source;

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;

use self::{
    sdk::SdkArgs,
    source::{Source, SourceArgs},
};
use super::{
    World,
    args::{MachineArgs, program_on_path},
    fetch::ChoiceArgs,
    summary,
};
use crate::{
    error::{Context as _, Hint as _, Result},
    install::{
        self, AskedPrograms, ChosenPython, EnvironmentAction, EnvironmentState, HashLock,
        InstallFacts, InstallPlan, InstallReport, InstallRequest, InstallerWish, Python,
        TargetWish, VirtualEnvironment,
    },
    report::outputs,
    set::{OfferedSet, Urls},
    target::split_list,
    version::Version,
    wheel::{Metadata, RequirementLine},
};

/// Install a package set into a virtual environment
///
/// Finds the set of a run, of a place, of an index or of a stream, and the target of this machine's GPU;
/// decides the version of every package; and lets uv or pip install them. If that fails, the
/// environment is as it was before. `--sdk` installs an SDK tree into a directory instead.
#[derive(Debug, clap::Args)]
#[command(mut_arg("artifact_group", |it| it.alias(None)))]
#[command(mut_arg("wait", |it| it.help(
    "How long to wait for the `set.json` of a set, which is written last: `90s`, `30m`; with a search, \
     first for a run with packages (default: `3m` for a run whose packages are being uploaded, else `0`)"
)))]
#[command(after_help = "Examples:
  rocwheel install --run-id 21440027240
  rocwheel install --pr 1234 --target gfx942 --python 3.12 .venv
  rocwheel install --set packages --target none --extras libraries,devel --dry-run
  rocwheel install --stream nightly --version 10.1.0a20260823
  rocwheel install --index-url https://host/simple/ --package torch --deps https://host/deps/simple/
  rocwheel install --sdk rocm --run-id 21440027240 --component blas,fft

Exit codes: 0 installed, 1 the set does not have what was asked for, or the installer failed, 2 usage, \
environment or access error")]
pub struct InstallArgs {
    /// Directory of the environment, which is created if it does not exist
    #[arg(value_name = "VENV", default_value = ".venv")]
    environment: PathBuf,
    #[command(flatten)]
    sdk: SdkArgs,
    #[command(flatten)]
    source: SourceArgs,
    /// Targets or families to install device code for, comma-separated; `auto` for the GPUs of this
    /// machine, `none` for no device code
    #[arg(long, value_name = "LIST", default_value = "auto")]
    target: String,
    /// Extras of `rocm`, comma-separated, besides device code; `none` for none (default: `libraries`)
    #[arg(long, value_name = "LIST")]
    extras: Option<String>,
    /// Also install this requirement, with device code if it has some: `torch>=2.10`
    #[arg(long, value_name = "REQUIREMENT")]
    package: Vec<String>,
    /// Index with all packages that the set does not have, or `none` (default: `none`)
    #[arg(long, value_name = "URL")]
    deps: Option<String>,
    /// Python of a new environment, by its version or its path (default: `python3`)
    #[arg(long, value_name = "PYTHON")]
    python: Option<String>,
    /// What installs the packages
    #[arg(long, value_name = "WHO", default_value = "auto")]
    installer: InstallerWish,
    /// Replace an existing environment
    #[arg(long)]
    recreate: bool,
    /// Write the version and the digests of everything to this file, and install exactly that
    #[arg(long, value_name = "FILE", conflicts_with = "from_lock")]
    lock: Option<PathBuf>,
    /// Install what a file of `--lock` says, and nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "index_url", "stream", "version", "extras", "package", "deps"])]
    from_lock: Option<PathBuf>,
    /// Run the tests of the set afterwards: `libs` without a GPU, `gpu` on one, or `none` (default: `libs`
    /// in CI if `rocm` is installed, else `none`)
    #[arg(long, value_name = "WHICH")]
    test: Option<InstallTest>,
    /// Let the next steps of a GitHub job use the environment
    #[arg(long)]
    activate: bool,
    /// Print what would be installed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// File of directories for later steps, for `--activate`
    #[arg(long, value_name = "FILE", env = "GITHUB_PATH")]
    github_path: Option<PathBuf>,
    /// File of variables for later steps, for `--activate`
    #[arg(long, value_name = "FILE", env = "GITHUB_ENV")]
    github_env: Option<PathBuf>,
    /// Append step outputs to this file
    #[arg(long, value_name = "FILE", env = "GITHUB_OUTPUT")]
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
    if let Some(directory) = &args.sdk.directory {
        return sdk::run(directory, args, world);
    }
    let environment = VirtualEnvironment::at(&args.environment)?;
    args.ensure_can_activate()?;
    let mut programs = args.ask_programs(&environment);
    // A refusal must not wait for a lock, nor change anything.
    let observed = args.observe(world)?;
    if args.dry_run {
        let plan = args.decide(observed, &environment, &mut programs, world)?;
        return world.console.answer(&plan);
    }
    let lock = install::begin(&environment, world)?;
    let plan = args.decide(observed, &environment, &mut programs, world)?;
    let report = plan.carry_out(&environment, &lock, args.lock.as_deref(), world)?;
    drop(lock);
    args.tell_later_steps(&plan, &report, &environment)?;
    if let Some(with_gpu) = args.test(&report, world) {
        install::test(&environment, with_gpu, world)?;
    }
    world.console.answer(&report)
}

/// How a program begins: ELF, Windows, and macOS for one processor or for several.
const PROGRAMS: [&[u8; 2]; 4] = [b"\x7fE", b"MZ", b"\xcf\xfa", b"\xca\xfe"];

/// What the source says.
enum SourceFacts {
    Set(Box<OfferedFacts>),
    Lock(PathBuf, HashLock),
}

struct OfferedFacts {
    request: InstallRequest,
    offered: OfferedSet,
    rocm: Option<(Metadata, install::RocmSelection)>,
    packages: Vec<(String, Option<Metadata>)>,
}

impl InstallArgs {
    /// Asks the programs what they are, if their files are scripts: those of pyenv, for example, may
    /// start any version, or none. Also asks a Python whose answer is printed.
    fn ask_programs(&self, environment: &VirtualEnvironment) -> AskedPrograms {
        let is_new = environment
            .state()
            .is_ok_and(|it| it == EnvironmentState::Absent);
        let locate = |name: &Path| {
            let path = if name.components().count() > 1 {
                std::path::absolute(name).ok()
            } else {
                program_on_path(name.to_str()?)
            };
            path.filter(|it| it.to_str().is_some() && is_binary(it))
        };
        let trusts_python = is_new && !self.dry_run;
        AskedPrograms::ask(
            self.installer,
            self.python.as_deref(),
            trusts_python,
            locate,
        )
    }

    fn source(&self) -> Source<'_> {
        Source {
            args: &self.source,
            choice: &self.choice,
            environment: &self.environment,
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

    fn request(&self, world: &World) -> Result<InstallRequest> {
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
        Ok(InstallRequest {
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

    /// Reads what the source offers, and chooses from it. Changes nothing.
    fn observe(&self, world: &World) -> Result<SourceFacts> {
        if let Some(path) = &self.from_lock {
            let lock = HashLock::parse(&fs::read_to_string(path)?);
            let lock = lock.with_context(|| format!("failed to read `{}`", path.display()))?;
            return Ok(SourceFacts::Lock(path.clone(), lock));
        }
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
        }
        let mut packages = Vec::new();
        for text in &self.package {
            let name = RequirementLine::parse(text).map(|it| it.name.clone());
            let name = name.context("a requirement without a name")?;
            place.offer_project(&mut offered, name.normalized())?;
            let version = rocm.as_ref().map(|it| (&it.0.version, &it.0));
            let pins = install::pins(&offered, None, version, &self.package);
            let pin = pins.into_iter().find(|it| it.0 == name);
            let file = pin.and_then(|pin| {
                let mut files = offered.files.iter();
                files.find(|it| it.project == pin.0 && it.version == pin.1)
            });
            let metadata = file.map(|it| place.metadata_of(it)).transpose()?;
            packages.push((text.clone(), metadata));
        }
        Ok(SourceFacts::Set(Box::new(OfferedFacts {
            request,
            offered,
            rocm,
            packages,
        })))
    }

    fn decide(
        &self,
        facts: SourceFacts,
        environment: &VirtualEnvironment,
        programs: &mut AskedPrograms,
        world: &World,
    ) -> Result<InstallPlan> {
        let installer = programs.installer(world)?;
        let state = environment.state()?;
        let root = environment.root().to_owned();
        let is_update = install::action(state, self.recreate) == EnvironmentAction::Update;
        let python = if is_update {
            // What a killed install has left is put back before the install, and asked then.
            installer.ensure_in(environment, world)?;
            let python = Python::ask(&environment.python(), world)?;
            if let Some(wanted) = &self.python {
                python.ensure_is(wanted, world)?;
            }
            ChosenPython::Known(python)
        } else {
            programs.python(installer, self.python.as_deref(), world)?
        };
        let (python, wanted_python) = match python {
            ChosenPython::Known(python) => (Some(python), None),
            ChosenPython::OfUv(wanted) => (None, wanted),
        };
        match facts {
            SourceFacts::Lock(path, lock) => {
                let request = self.request(world)?;
                let path = std::path::absolute(path)?;
                let found = (state, python, wanted_python, installer);
                Ok(install::plan_locked(&request, &lock, (path, root), found))
            }
            SourceFacts::Set(facts) => install::plan(
                &facts.request,
                InstallFacts {
                    offered: &facts.offered,
                    rocm: facts.rocm,
                    packages: facts.packages,
                    state,
                    environment: root,
                    python,
                    wanted_python,
                    installer,
                },
            ),
        }
    }

    /// Whether to run the tests of the set, and if so whether with those for a GPU.
    fn test(&self, report: &InstallReport, world: &World) -> Option<bool> {
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
        plan: &InstallPlan,
        report: &InstallReport,
        environment: &VirtualEnvironment,
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

/// Whether a file is a program and no script.
fn is_binary(file: &Path) -> bool {
    let mut start = [0; 2];
    let read = fs::File::open(file).and_then(|mut it| it.read_exact(&mut start));
    read.is_ok() && PROGRAMS.contains(&&start)
}
