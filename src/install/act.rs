//! Carries out a [`Plan`].

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Stdio,
};

use fs_err as fs;
use itertools::Itertools as _;
use serde::Serialize;

use super::{
    emit::Emit,
    environment::{Action, Environment},
    installer::{self, CommandLine, Installer},
    plan::{Plan, PlannedFile},
    python::Python,
    requirements::Requirements,
};
use crate::{
    atomic::lock::{Lock, LockPurpose},
    console::{World, many, shell_word},
    error::{Context as _, Exit, Hint as _, No, Result, anyhow, hinted, message},
    target::Target,
    version::Version,
    wheel::DistName,
};

/// What was installed. Its text is the path of the interpreter.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.python.display().fmt(f)
    }
}

/// Locks the directory of an environment.
pub fn begin(environment: &Environment) -> Result<Lock> {
    Lock::to_write(environment.parent(), LockPurpose::Install)
}

/// Runs the installers of one install.
struct Installing<'a> {
    plan: &'a Plan,
    /// What a program holds while it runs. `None` if it changes nothing.
    lock: Option<&'a Lock>,
    world: &'a World,
}

impl Plan {
    /// Installs. If that fails, a new environment is removed again, and one that was to be replaced
    /// is as it was before.
    pub fn carry_out(
        &self,
        environment: &Environment,
        lock: &Lock,
        world: &World,
    ) -> Result<Report> {
        let work = tempfile::tempdir()?;
        let installing = Installing {
            plan: self,
            lock: Some(lock),
            world,
        };
        let change = environment.change(self.action)?;
        if let Some(line) = self.create() {
            let created = installing.run(line, "failed to create the environment");
            // It is no answer about the packages.
            created.map_err(|error| match Exit::of(&error) {
                Exit::No => anyhow!(message(&error)),
                _ => error,
            })?;
        }
        let python = environment.python();
        let base = match &self.python {
            Some(known) => known.clone(),
            None => Python::ask(&python)?,
        };
        base.ensure_suits(&self.needs)?;
        // uv adds none of its own to a new environment, and pip adds itself.
        let versions = || -> Result<Vec<(DistName, Version)>> {
            let packages = environment.packages()?.into_iter();
            Ok(packages.map(|it| (it.name, it.version)).collect())
        };
        let before = versions()?;
        let requirements = if let Some(exact) = &self.exact {
            exact.clone()
        } else {
            let text = installing.resolve(work.path(), &self.own_python, false)?;
            installing.read(&text)?
        };
        let file = work.path().join("requirements.txt");
        fs::write(&file, requirements.to_string())?;
        let line = self.install(&file.to_string_lossy(), &requirements);
        let check = format!("`rocwheel check {}`", shell_word(&self.source));
        let installed = installing.run(line, "nothing was installed");
        installed.map_err(|error| match Exit::of(&error) {
            Exit::No => hinted(error, format!("{check} says whether the set is complete")),
            _ => error,
        })?;
        let packages = versions()?;
        self.ensure_expected(&packages)?;
        change.finish();
        if self.action == Action::Update {
            installing.check();
        }
        let new = packages
            .iter()
            .filter(|it| !before.contains(it))
            .collect_vec();
        let root = environment.root().display();
        if new.is_empty() {
            world.console.status("Unchanged", format!("`{root}`"));
        } else {
            let text = format!("{} in `{root}`", many(new.len(), "package"));
            world.console.status("Installed", text);
            for (project, version) in new {
                world.console.item("", format!("{project} {version}"));
            }
        }
        let packages = packages.into_iter();
        Ok(Report {
            schema: "rocwheel-install-v1",
            environment: environment.root().to_owned(),
            python,
            base,
            version: self.version.clone(),
            targets: self.targets.clone(),
            packages: packages
                .map(|(project, version)| InstalledPackage { project, version })
                .collect(),
            files: self.files.clone(),
        })
    }

    /// The pins in another form, without an environment.
    pub fn emit(&self, form: Emit, world: &World) -> Result<String> {
        let work = tempfile::tempdir()?;
        let installing = Installing {
            plan: self,
            lock: None,
            world,
        };
        let resolved = |is_pylock| {
            let python = self.python.as_ref().context("no Python was found");
            let python = python
                .hint("name one with `--python`")?
                .path
                .to_string_lossy();
            installing.resolve(work.path(), &python, is_pylock)
        };
        if form == Emit::Pylock {
            return match &self.exact {
                Some(_) => self.pylock(),
                None => resolved(true),
            };
        }
        let requirements = match &self.exact {
            Some(exact) => exact.clone(),
            None => installing.read(&resolved(false)?)?,
        };
        match form {
            Emit::Uv => self.project(&requirements),
            _ => Ok(requirements.to_string()),
        }
    }

    /// Fails if a package that was asked for ended in another version than was decided.
    fn ensure_expected(&self, packages: &[(DistName, Version)]) -> Result<()> {
        let asked = self.exact.iter().flat_map(|it| &it.packages);
        let others =
            asked.filter(|it| !packages.contains(&(it.project.clone(), it.version.clone())));
        let others = others.map(ToString::to_string).join(", ");
        if others.is_empty() {
            return Ok(());
        }
        Err(anyhow!(No(format!(
            "the installer has not installed what was decided: {others}"
        ))))
    }
}

impl Installing<'_> {
    fn run(&self, mut line: CommandLine, what: &str) -> Result<()> {
        let is_venv = line.iter().any(|it| it == "venv") && self.plan.installer == Installer::Pip;
        if self.world.console.is_quiet() && !is_venv {
            line.push("--quiet".to_owned());
        }
        let (program, arguments) = line.split_first().context("an empty command")?;
        self.world.console.debug(line.join(" "));
        let mut command = installer::command(program.as_ref());
        command.args(arguments);
        if let Some(lock) = self.lock {
            command.stdin(lock.as_stdin());
        }
        installer::run(&mut command, what, self.world)
    }

    /// Asks the installer what it would install, with the digest of each file.
    fn resolve(&self, work: &Path, python: &str, is_pylock: bool) -> Result<String> {
        let plan = self.plan;
        let file = |name: &str| work.join(name).to_string_lossy().into_owned();
        let pins = file("pins.txt");
        fs::write(&pins, plan.pins.join("\n") + "\n")?;
        let (mut line, answer): (CommandLine, String);
        match plan.installer {
            Installer::Uv => {
                let wanted = file("wanted.in");
                fs::write(&wanted, plan.requirements.join("\n") + "\n")?;
                answer = file(if is_pylock {
                    "pylock.toml"
                } else {
                    "resolved.txt"
                });
                line = plan.installer.verb("compile", python);
                line.extend(plan.question(&pins));
                let format = if is_pylock {
                    "pylock.toml"
                } else {
                    "requirements.txt"
                };
                let flags = [
                    "--generate-hashes",
                    "--no-header",
                    "--no-annotate",
                    "--quiet",
                    "--format",
                ];
                line.extend(flags.map(str::to_owned));
                line.extend([
                    format.into(),
                    "--output-file".into(),
                    answer.clone(),
                    wanted,
                ]);
            }
            Installer::Pip if is_pylock => {
                let text = "only uv writes a `pylock.toml` with packages of others";
                return Err(anyhow!(text)).hint("install uv, or pass `--emit requirements`");
            }
            Installer::Pip => {
                answer = file("report.json");
                line = plan.installer.verb("install", python);
                let flags = ["--dry-run", "--ignore-installed", "--quiet", "--report"];
                line.extend(flags.map(str::to_owned));
                line.push(answer.clone());
                line.extend(plan.question(&pins));
                line.extend(plan.requirements.iter().cloned());
            }
        }
        self.run(line, "nothing was installed")
            .hint("with pip, other packages need version 22.2 or later")?;
        Ok(fs::read_to_string(&answer)?)
    }

    /// Reads what an installer resolved, and compares it with what the source promises.
    fn read(&self, text: &str) -> Result<Requirements> {
        let found = match self.plan.installer {
            Installer::Uv => Requirements::parse(text),
            Installer::Pip => Requirements::of_report(text),
        };
        let sources = self.plan.sources.clone();
        let found = found.map(|it| Requirements { sources, ..it });
        let found = found.context("failed to read what the installer resolved")?;
        found.ensure_agrees(&self.plan.promised)?;
        Ok(found)
    }

    /// Warns if the packages of an environment do not fit together: it may have had others before.
    fn check(&self) {
        let line = self.plan.installer.verb("check", &self.plan.own_python);
        if let Err(error) = self.run(line, "the packages of the environment do not fit together") {
            self.world.console.warn(message(&error));
        }
    }
}

/// Runs the tests of the set in an environment.
pub fn test(environment: &Environment, with_gpu: bool, world: &World) -> Result<()> {
    let name = if cfg!(windows) {
        "rocm-sdk.exe"
    } else {
        "rocm-sdk"
    };
    let program = environment.programs().join(name);
    let mut command = installer::command(&program);
    command.arg("test").stdin(Stdio::null());
    if with_gpu {
        command.arg("--gpu");
    }
    installer::run(
        &mut command,
        "the packages are installed, and their tests fail",
        world,
    )?;
    world.console.status("Tested", program.display());
    Ok(())
}
