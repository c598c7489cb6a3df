//! `install`: installs a package set into a virtual environment.

use std::{
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

use fs_err as fs;
use itertools::Itertools as _;

use super::{World, args::MachineArgs, fetch::ChoiceArgs, summary};
use crate::{
    console::took,
    error::{Context as _, Hint as _, No, Result, anyhow, ensure, one_line},
    install::{
        self, EnvironmentAction, HashLock, InstallFacts, InstallPlan, InstallReport,
        InstallRequest, Installer, InstallerWish, Python, TargetWish, VirtualEnvironment,
    },
    report::outputs,
    set::{OfferedSet, SetPlace, Urls},
    target::split_list,
    version::Version,
    wheel::{Metadata, RequirementLine},
};

/// The shortest and the longest pause between two looks at a set that is not whole yet.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(30);
/// How many versions of an index are tried before one is taken to be incomplete.
const MOST_TRIED: usize = 5;

/// Install a package set into a virtual environment
///
/// Finds the set of a run, of a place or of an index, and the target of this machine's GPU; decides
/// the version of every package; and lets uv or pip install them. If that fails, the environment is
/// as it was before.
#[derive(Debug, clap::Args)]
#[command(mut_arg("artifact_group", |it| it.alias(None)))]
#[command(after_help = "Examples:
  rocwheel install --run-id 21440027240
  rocwheel install --pr 1234 --target gfx942 --python 3.12 .venv
  rocwheel install --set packages --target none --extras libraries,devel --dry-run
  rocwheel install --index-url https://host/simple/ --package torch --deps https://host/deps/simple/

Exit codes: 0 installed, 1 the set does not have what was asked for, or the installer failed, 2 usage,
environment or access error")]
pub struct InstallArgs {
    /// Directory of the environment, which is created if it does not exist
    #[arg(value_name = "VENV", default_value = ".venv")]
    environment: PathBuf,
    /// Install the set in this directory, or at this address: `packages`, `s3://bucket/prefix`
    #[arg(long, value_name = "PLACE", conflicts_with = "index_url")]
    set: Option<PathBuf>,
    /// Install from this index, which may have many versions
    #[arg(long, value_name = "URL")]
    index_url: Option<String>,
    /// Version of ROCm (default: the newest of which all packages are there)
    #[arg(long, value_name = "VERSION")]
    version: Option<Version>,
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
    /// Index with all packages that the set does not have
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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "index_url", "version", "extras", "package", "deps"])]
    from_lock: Option<PathBuf>,
    /// Run the tests of the set afterwards: `libs` without a GPU, `gpu` on one
    #[arg(long, value_name = "WHICH", default_value = "none")]
    test: InstallTest,
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
    #[command(flatten)]
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
    let environment = VirtualEnvironment::at(&args.environment)?;
    args.ensure_can_activate()?;
    if args.dry_run {
        let plan = args.plan(&environment, world)?;
        return world.console.answer(&plan);
    }
    // A refusal must not wait for a lock, nor change anything.
    let observed = args.observe(world)?;
    let lock = install::begin(&environment, world)?;
    let plan = args.decide(observed, &environment, world)?;
    let report = plan.carry_out(&environment, &lock, args.lock.as_deref(), world)?;
    drop(lock);
    args.tell_later_steps(&plan, &report, &environment)?;
    if args.test != InstallTest::None {
        install::test(&environment, args.test == InstallTest::Gpu, world)?;
    }
    world.console.answer(&report)
}

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
    fn plan(&self, environment: &VirtualEnvironment, world: &World) -> Result<InstallPlan> {
        let observed = self.observe(world)?;
        self.decide(observed, environment, world)
    }

    fn request(&self, world: &World) -> Result<InstallRequest> {
        let targets = match self.target.as_str() {
            "none" => TargetWish::Without,
            "auto" => {
                let found = self.machine.targets(&self.machine.gpus(), &world.console)?;
                TargetWish::Detected(found)
            }
            list => TargetWish::Named(split_list(list).map(str::to_owned).collect()),
        };
        let list = |text: &String| split_list(text).map(str::to_owned).collect::<Vec<_>>();
        let extras = self.extras.as_ref().map(list);
        let extras = extras.map(|it| if it == ["none"] { Vec::new() } else { it });
        for text in &self.package {
            RequirementLine::parse(text)
                .with_context(|| format!("`--package` with no requirement: {text:?}"))?;
        }
        // The address reaches logs and lock files, so that it may have no password in it.
        let dependencies = self.deps.as_ref().map(|it| it.parse::<Urls>());
        let dependencies = dependencies
            .transpose()
            .context("failed to read `--deps`")?;
        Ok(InstallRequest {
            version: self.version.clone(),
            targets,
            extras,
            packages: self.package.clone(),
            dependencies: dependencies.map(|it| it.to_string()),
            platform: self.choice.platform(),
            python: self.python.clone(),
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
        let place = self.place(world)?;
        let mut offered = self.offered(&place, world)?;
        let rocm = choose(&request, &place, &mut offered, world)?;
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

    /// The place of the packages: the one that was named, or that of the run.
    fn place(&self, world: &World) -> Result<SetPlace> {
        let named = self
            .set
            .clone()
            .or(self.index_url.as_ref().map(PathBuf::from));
        if let Some(named) = named {
            ensure!(
                !self.choice.names_a_run(),
                "`{}` and a run: name one of them",
                named.display()
            );
            return self.choice.access.place(&named, &world.stop);
        }
        let run = self.choice.find_run(world);
        let run = run.hint("or name a place with `--set`, or an index with `--index-url`")?;
        let place = run.python(&self.choice.selection.directory());
        if let Some(directory) = self.choice.input_dir() {
            return Ok(SetPlace::below(directory, &place.key, &world.stop));
        }
        self.choice.ensure_online("reading the packages of a run")?;
        self.choice.access.bucket(&place, &world.stop)
    }

    /// What the place offers. With `--wait`, once it is whole.
    fn offered(&self, place: &SetPlace, world: &World) -> Result<OfferedSet> {
        let (start, mut pause) = (Instant::now(), OFTEN);
        while let Some(wait) = self.choice.wait() {
            if place.is_whole()? {
                break;
            }
            let left = wait.saturating_sub(start.elapsed());
            if left.is_zero() {
                let text = format!("`{place}` has no `set.json` after {}", took(wait));
                return Err(anyhow!(No(text))).hint("it is written once a set is whole");
            }
            world
                .console
                .debug(format!("`{place}` has no `set.json` yet"));
            let until = Instant::now() + pause.min(left);
            while Instant::now() < until {
                world.stop.check()?;
                sleep(Duration::from_millis(50));
            }
            pause = (pause * 2).min(SELDOM);
        }
        let offered = place.offered()?;
        offered
            .ok_or_else(|| anyhow!(No(format!("no packages at `{place}`"))))
            .hint(
                "pass the address of an index, or of a set; `--wait 3m` waits until a set is whole",
            )
    }

    fn decide(
        &self,
        facts: SourceFacts,
        environment: &VirtualEnvironment,
        world: &World,
    ) -> Result<InstallPlan> {
        let installer = Installer::find(self.installer, world)?;
        let state = environment.state()?;
        let root = environment.root().to_owned();
        let is_update = install::action(state, self.recreate) == EnvironmentAction::Update;
        let python = if is_update {
            // What a killed install has left is put back before the install, and asked then.
            installer.ensure_in(environment, world)?;
            let python = Python::ask(&environment.python(), world)?;
            self.ensure_same(&python, world)?;
            Some(python)
        } else {
            match Python::find(self.python.as_deref(), world) {
                Err(_) if installer == Installer::Uv => None,
                found => Some(found?),
            }
        };
        match facts {
            SourceFacts::Lock(path, lock) => {
                let request = self.request(world)?;
                let path = std::path::absolute(path)?;
                let found = (state, python, installer);
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
                    installer,
                },
            ),
        }
    }

    /// Fails if the environment has another Python than the user asks for.
    fn ensure_same(&self, own: &Python, world: &World) -> Result<()> {
        let Some(wanted) = &self.python else {
            return Ok(());
        };
        let wanted = Python::find(Some(wanted), world)?;
        if wanted.tag() == own.tag() {
            return Ok(());
        }
        let (own, wanted) = (&own.version, &wanted.version);
        Err(anyhow!(
            "the environment has Python {own}, and not {wanted}"
        ))
        .hint("name another directory, or replace it with `--recreate`")
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
            ("cache-key", plan.cache_key(self.choice.platform())),
        ];
        let outputs = outputs::render(&outputs)?;
        summary::append(file, &outputs).context("failed to write step outputs")
    }
}

/// Chooses the version of `rocm`, and what to ask for of it. An index is filled while it is read, so
/// that the newest version there may not be complete: then the one before is taken.
fn choose(
    request: &InstallRequest,
    place: &SetPlace,
    offered: &mut OfferedSet,
    world: &World,
) -> Result<Option<(Metadata, install::RocmSelection)>> {
    let versions = install::versions(request, offered)?;
    let is_choice = request.version.is_none() && !offered.is_described && versions.len() > 1;
    let mut first = None;
    for version in versions.iter().take(if is_choice { MOST_TRIED } else { 1 }) {
        match consider(request, place, offered, version) {
            Ok(chosen) => return Ok(Some(chosen)),
            Err(error) => {
                if is_choice {
                    world
                        .console
                        .note(format!("not {version}: {}", one_line(&error)));
                }
                first.get_or_insert(error);
            }
        }
    }
    first.map_or(Ok(None), Err)
}

fn consider(
    request: &InstallRequest,
    place: &SetPlace,
    offered: &mut OfferedSet,
    version: &Version,
) -> Result<(Metadata, install::RocmSelection)> {
    let is_it = |project: &str, other: &Version| project == "rocm" && other == version;
    let mut files = offered.files.iter();
    let file = files.find(|it| is_it(it.project.normalized(), &it.version));
    let file = file.with_context(|| format!("no file of `rocm` {version}"))?;
    let metadata = place.metadata_of(file)?;
    let selection = install::select(request, offered, &metadata)?;
    for project in &selection.projects {
        place.offer_project(offered, project.normalized())?;
    }
    install::complete(offered, version, &selection)?;
    Ok((metadata, selection))
}
