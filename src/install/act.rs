//! Carries out an [`InstallPlan`].

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Stdio,
};

use fs_err as fs;
use itertools::Itertools as _;
use serde::Serialize;

use super::{
    environment::{EnvironmentAction, VirtualEnvironment},
    installer::{CommandLine, Installer},
    lockfile::HashLock,
    plan::{InstallPlan, PlannedFile, locked_arguments},
    process,
    python::Python,
};
use crate::{
    atomic::{
        self,
        lock::{Lock, LockPurpose},
    },
    console::{World, many},
    error::{Context as _, Exit, Hint as _, No, Result, anyhow, message},
    target::Target,
    version::Version,
    wheel::DistName,
};

/// What was installed. Its text is the path of the interpreter.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InstallReport {
    schema: &'static str,
    #[serde(rename = "venv")]
    pub environment: PathBuf,
    pub python: PathBuf,
    /// The Python that the environment was made with.
    #[serde(skip)]
    pub base: Python,
    pub version: Option<Version>,
    pub targets: Vec<Target>,
    packages: Vec<InstalledPackage>,
    /// The files of ROCm, as far as the source tells.
    files: Vec<PlannedFile>,
}

#[derive(Debug, Serialize)]
struct InstalledPackage {
    project: DistName,
    version: Version,
}

impl fmt::Display for InstallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.python.display().fmt(f)
    }
}

/// Locks an environment, and puts back what a killed install has left behind.
pub fn begin(environment: &VirtualEnvironment, world: &World) -> Result<Lock> {
    let lock = Lock::to_write(environment.parent(), LockPurpose::Install)?;
    if environment.recover()? {
        let root = environment.root().display();
        let text = "an earlier install did not end; the environment is as it was before that";
        world.console.note(format!("`{root}`: {text}"));
    }
    Ok(lock)
}

/// Runs the installers of one install.
struct Installing<'a> {
    plan: &'a InstallPlan,
    environment: &'a VirtualEnvironment,
    lock: &'a Lock,
    world: &'a World,
}

impl InstallPlan {
    /// Installs. If that fails, the environment is as it was before. With `lock_to`, first writes
    /// what will be installed to that file, and installs exactly that.
    pub fn carry_out(
        &self,
        environment: &VirtualEnvironment,
        lock: &Lock,
        lock_to: Option<&Path>,
        world: &World,
    ) -> Result<InstallReport> {
        let work = tempfile::tempdir()?;
        let installing = Installing {
            plan: self,
            environment,
            lock,
            world,
        };
        let change = environment.change(self.action, &world.stop)?;
        if self.action != EnvironmentAction::Update {
            let wanted = self.wanted_python.as_deref();
            let root = environment.root().to_string_lossy();
            let create = self.installer.create(&root, self.python.as_ref(), wanted);
            let created = installing.run(&create, "failed to create the environment");
            // It is no answer about the packages.
            created.map_err(|error| match Exit::of(&error) {
                Exit::No => anyhow!(message(&error)),
                _ => error,
            })?;
        }
        let base = installing.base()?;
        base.ensure_suits(&self.needs)?;
        // uv adds none of its own to a new environment, and pip adds itself.
        let before = environment.packages()?;
        let pins = work.path().join("pins.txt");
        fs::write(&pins, self.pins.join("\n") + "\n")?;
        let pins = pins.to_string_lossy();
        let python = environment.python();
        let line = match lock_to {
            Some(file) => {
                let locked = installing.resolve(work.path(), &pins)?;
                locked.ensure_agrees(&self.digests)?;
                atomic::write(file, locked.to_string())?;
                world.console.status("Wrote", file.display());
                let mut line = self.installer.verb(&["install"], &python);
                line.extend(locked_arguments(&file.to_string_lossy()));
                line
            }
            None => self.install(&python, &pins),
        };
        installing.run(&line, "nothing was installed")?;
        let packages = installing.packages()?;
        change.finish()?;
        let new = packages.iter();
        let new = new.filter(|it| !before.contains(&(it.project.clone(), it.version.clone())));
        let (new, root) = (new.count(), environment.root().display());
        if new == 0 {
            world.console.status("Unchanged", format!("`{root}`"));
        } else {
            let text = format!("{} in `{root}`", many(new, "package"));
            world.console.status("Installed", text);
        }
        Ok(InstallReport {
            schema: "rocwheel-install-v1",
            environment: environment.root().to_owned(),
            python,
            base,
            version: self.version.clone(),
            targets: self.targets.clone(),
            packages,
            files: self.files.clone(),
        })
    }
}

impl Installing<'_> {
    /// The Python of the environment.
    fn base(&self) -> Result<Python> {
        if let Some(known) = &self.plan.python {
            return Ok(known.clone());
        }
        let program = self.environment.python();
        let wanted = self.plan.wanted_python.as_ref().map(Path::new);
        let named = wanted.filter(|it| it.is_absolute()).unwrap_or(&program);
        Python::of_environment(self.environment, named)
            .or_else(|_| Python::ask(&program, self.world))
    }

    fn run(&self, line: &CommandLine, what: &str) -> Result<()> {
        let (program, arguments) = line.split_first().context("an empty command")?;
        self.world.console.debug(line.join(" "));
        let _progress = self.world.console.progress("Running", program, None);
        let mut command = process::command(program.as_ref());
        command.args(arguments).stdin(self.lock.as_stdin());
        process::run_installer(&mut command, what, self.world)
    }

    /// Asks the installer what it would install, with the digest of each file.
    fn resolve(&self, work: &Path, pins: &str) -> Result<HashLock> {
        let (plan, python) = (self.plan, self.environment.python());
        let answer = work.join("resolved");
        let path = answer.to_string_lossy().into_owned();
        let mut line: CommandLine;
        match plan.installer {
            Installer::Uv => {
                let wanted = work.join("wanted.in");
                fs::write(&wanted, plan.requirements.join("\n") + "\n")?;
                line = plan.installer.verb(&["compile"], &python);
                line.extend(plan.sources.iter().cloned());
                let flags = [
                    "--generate-hashes",
                    "--no-header",
                    "--no-annotate",
                    "--constraint",
                ];
                line.extend(flags.map(str::to_owned));
                let wanted = wanted.to_string_lossy().into_owned();
                line.extend([pins.to_owned(), "--output-file".into(), path, wanted]);
            }
            Installer::Pip => {
                line = plan.installer.verb(&["install"], &python);
                let flags = ["--dry-run", "--ignore-installed", "--report"];
                line.extend(flags.map(str::to_owned));
                line.push(path);
                line.extend(plan.arguments(pins));
            }
        }
        self.run(&line, "nothing was installed")
            .hint("a lock needs uv, or pip 22.2 or later")?;
        let text = fs::read_to_string(&answer)?;
        let lock = match plan.installer {
            Installer::Uv => HashLock::parse(&text),
            Installer::Pip => HashLock::of_report(&text),
        };
        let lock = lock.context("failed to read what the installer resolved")?;
        Ok(lock.with_sources(plan.sources.clone()))
    }

    /// The packages of the environment. Fails if one of them has another version than was decided:
    /// the installer has then found it elsewhere.
    fn packages(&self) -> Result<Vec<InstalledPackage>> {
        let packages = self.environment.packages()?;
        let is_other = |(project, version): &&(DistName, Version)| {
            let mut pins = self.plan.expected.iter();
            pins.any(|pin| pin.0 == *project && pin.1 != *version)
        };
        // What was there before, and nothing has asked for, stays as it is.
        let others = packages.iter().filter(is_other);
        let others = others
            .map(|(project, version)| format!("{project} {version}"))
            .join(", ");
        let is_new = self.plan.action != EnvironmentAction::Update;
        if !others.is_empty() && is_new {
            return Err(anyhow!(No(format!(
                "the installer has chosen other versions than were decided: {others}"
            ))));
        }
        let packages = packages.into_iter();
        let packages = packages.map(|(project, version)| InstalledPackage { project, version });
        Ok(packages.collect())
    }
}

/// Runs the tests of the set in an environment.
pub fn test(environment: &VirtualEnvironment, with_gpu: bool, world: &World) -> Result<()> {
    let name = if cfg!(windows) {
        "rocm-sdk.exe"
    } else {
        "rocm-sdk"
    };
    let program = environment.programs().join(name);
    let mut command = process::command(&program);
    command.arg("test").stdin(Stdio::null());
    if with_gpu {
        command.arg("--gpu");
    }
    let _progress = world.console.progress("Testing", program.display(), None);
    process::run(
        &mut command,
        "the packages are installed, and their tests fail",
        world,
    )?;
    world.console.status("Tested", program.display());
    Ok(())
}
