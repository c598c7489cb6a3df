//! Carries out a [`Plan`].

use std::{fmt, path::Path};

use fs_err as fs;
use itertools::Itertools as _;
use serde::Serialize;
use walkdir::WalkDir;

use super::{
    diagnosis,
    environment::{Action, Change, Environment},
    installed_package::ReadDepth,
    installer::{self, CommandLine, Installer, words},
    origin::InstallOrigin,
    plan::Plan,
    requirements::Requirements,
    runtime::RuntimeVariables,
    site_packages::SitePackages,
};
use crate::{console::World, place::OfferedFile};
use rocwheel_base::{
    atomic::{self, lock::Lock},
    error::{Context as _, Exit, Hint as _, No, Result, anyhow, hinted, message},
    io::read_text,
    quantity::{few, shell_word, size},
    target::Target,
    version::Version,
};
use rocwheel_wheel::DistName;

/// What was installed. Its text is the path of the interpreter.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report<'a> {
    schema: &'static str,
    #[serde(rename = "venv")]
    environment: &'a Path,
    pub python: &'a Path,
    pub version: Option<&'a Version>,
    pub targets: &'a [Target],
    /// The files of ROCm, as far as the source tells.
    files: &'a [OfferedFile],
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.python.display().fmt(f)
    }
}

/// With less than this, an installer has most likely failed because the disk of the environment is full: it writes
/// single files that are much larger.
const FULL: u64 = 16 << 20;

/// Adds up the sizes of all files of an environment. A file that uv has linked from its cache counts in full, although
/// the link takes no space on the disk.
fn measure(environment: &Path) -> u64 {
    WalkDir::new(environment)
        .into_iter()
        .flatten()
        .filter(|entry| entry.file_type().is_file())
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum()
}

/// In which form an installer says what it would install.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResolvedForm {
    /// A requirements file of uv, or a report of pip.
    Requirements,
    Pylock,
}

impl Plan {
    /// Installs. If that fails, a new environment is removed again.
    pub fn carry_out(
        &self,
        environment: &Environment,
        lock: &Lock,
        world: &World,
    ) -> Result<Report<'_>> {
        let mut change = environment.change(self.action, lock)?;
        let installed = self.install(&mut change, lock, world);
        if let Err(error) = installed.and_then(|()| self.ensure_whole(lock, world)) {
            return Err(change.undo(error));
        }
        // From here on the packages are installed, so the environment stays even if the rest fails.
        let earlier = InstallOrigin::read(&self.environment);
        self.origin.clone().with_earlier(earlier).write(&self.environment)?;
        if self.action == Action::Update {
            // The environment may have had other packages before. They may not fit the new packages, which the
            // user may want all the same, so this is only a warning.
            let line = self.verb("check");
            let failure = "the packages of the environment do not fit together";
            if let Err(error) = self.run(line, failure, Some(lock), world) {
                world.console.warn(message(&error));
            }
        }
        let root = environment.root();
        let installed = self.summary();
        let used = size(measure(root));
        world.console.status("Installed", format!("{installed} in `{}` ({used})", root.display()));
        Ok(Report {
            schema: "rocwheel-install-v1",
            environment: &self.environment,
            python: &self.own_python,
            version: self.version.as_ref(),
            targets: &self.targets,
            files: &self.files,
        })
    }

    /// Creates the environment if it is new, and installs the packages.
    fn install(&self, change: &mut Change, lock: &Lock, world: &World) -> Result<()> {
        let work = tempfile::tempdir()?;
        if self.action == Action::Create {
            if self.installer == Installer::Pip {
                installer::ensure_python_runs(self.python.as_deref())?;
            }
            let line = self.installer.create(&self.environment, self.python.as_deref());
            let answer = self.run(line, "failed to create the environment", Some(lock), world);
            // Also of one that is half made.
            change.created();
            answer.map_err(
                // A failure here says nothing about the packages, and `Exit::No` would say that they are bad.
                |error| match Exit::of(&error) {
                    Exit::No => hinted(anyhow!(message(&error)), self.installer.hint_for_create()),
                    _ => error,
                },
            )?;
        }
        let requirements = if let Some(exact) = &self.exact {
            exact.clone()
        } else {
            let python = self.own_python.to_string_lossy();
            let resolved = self.resolve(
                work.path(),
                Some(&python),
                ResolvedForm::Requirements,
                Some(lock),
                world,
            )?;
            self.read_resolved(&resolved)?
        };
        // `Change::undo` has to know the names of the packages before their first file is written.
        change.installs(requirements.packages.iter().map(|package| &package.project));
        let mut line = self.verb("install");
        line.extend(self.reinstall_flags(&requirements));
        line.extend(write_requirements(&requirements, work.path())?);
        self.run(line, "nothing was installed", Some(lock), world).map_err(|error| match Exit::of(&error) {
            Exit::No => {
                let check = format!("`rocwheel check {}`", shell_word(&self.source));
                let error = hinted(error, format!("{check} says whether the set is complete"));
                match self.origin.dependencies {
                    Some(_) => error,
                    // TheRock's scripts make an sdist that needs setuptools.
                    None => hinted(
                        error,
                        "if a package of others is missing, such as setuptools, name an index that has it with `--deps`",
                    ),
                }
            }
            _ => error,
        })
    }

    /// Looks at what was installed. uv links packages from its cache, where another environment may have changed
    /// them since they were verified: then they are downloaded and verified again.
    fn ensure_whole(&self, lock: &Lock, world: &World) -> Result<()> {
        let is_installed =
            |project: &DistName| self.files.iter().any(|file| file.project == *project);
        let find_broken = || -> Result<Vec<DistName>> {
            let site = SitePackages::read(
                &self.environment,
                ReadDepth::Sizes,
                &RuntimeVariables::default(),
                World::jobs(),
                &world.stop,
            );
            world.stop.check()?;
            // What cannot be read of an environment is the subject of `doctor`.
            Ok(site.iter().flat_map(diagnosis::broken).filter(is_installed).collect())
        };
        let damaged = find_broken()?;
        if damaged.is_empty() {
            return Ok(());
        }
        // pip copies the files of its cache, so for pip the files are damaged in the set itself. Without exact
        // requirements, the packages of others would be chosen once more, maybe in other versions.
        if let (Installer::Uv, Some(exact)) = (self.installer, &self.exact) {
            let names = few(damaged.iter().map(|project| format!("`{project}`")));
            world
                .console
                .warn(format!("the cache of uv has damaged files of {names}: they are read again"));
            let work = tempfile::tempdir()?;
            let mut line = self.verb("install");
            line.push("--no-cache".to_owned());
            for project in &damaged {
                line.extend(["--reinstall-package".to_owned(), project.to_string()]);
            }
            line.extend(write_requirements(exact, work.path())?);
            self.run(line, "damaged packages were not replaced", Some(lock), world)?;
        }
        let still_broken = few(find_broken()?.iter().map(|project| format!("`{project}`")));
        if still_broken.is_empty() {
            return Ok(());
        }
        let refusal = format!("packages are not as they were built: {still_broken}");
        let check = format!("`rocwheel check {}`", shell_word(&self.source));
        Err(anyhow!(No(refusal))).hint(format!("{check} says whether the set is whole"))
    }

    /// The flags that make an installer replace packages of a right version: all packages, or the packages that
    /// are stubs or damaged.
    fn reinstall_flags(&self, requirements: &Requirements) -> Vec<String> {
        if self.reinstalls_all {
            let flag = match self.installer {
                Installer::Uv => "--reinstall",
                Installer::Pip => "--force-reinstall",
            };
            return vec![flag.to_owned()];
        }
        let mut broken = requirements
            .packages
            .iter()
            .map(|package| &package.project)
            .filter(|project| self.reinstalled.contains(project));
        match self.installer {
            Installer::Uv => broken
                .flat_map(|project| ["--reinstall-package".to_owned(), project.to_string()])
                .collect(),
            // pip knows no flag for single packages, so one broken package makes it replace all.
            Installer::Pip if broken.next().is_some() => vec!["--force-reinstall".to_owned()],
            Installer::Pip => Vec::new(),
        }
    }

    /// Runs a command of the plan. While the command runs, it holds the lock of the environment, also if this
    /// program is killed. `failure` says what the user reads if the command fails.
    fn run(
        &self,
        mut line: CommandLine,
        failure: &str,
        lock: Option<&Lock>,
        world: &World,
    ) -> Result<()> {
        // `python -m venv` knows no `--quiet`, and prints nothing.
        let is_venv = line.iter().any(|word| word == "venv") && self.installer == Installer::Pip;
        if world.console.is_quiet() && !is_venv {
            line.push("--quiet".to_owned());
        }
        let (program, arguments) = line.split_first().context("an empty command")?;
        world.console.debug(line.join(" "));
        let mut command = installer::command(program.as_ref());
        command.args(arguments);
        if let Some(lock) = lock {
            command.stdin(lock.as_stdin());
        }
        installer::run(&mut command, failure, world).map_err(|error| {
            let free = atomic::free_space(&self.environment).unwrap_or(u64::MAX);
            if Exit::of(&error) != Exit::No || free >= FULL {
                return error;
            }
            // The set is right, so this is no `Exit::No`.
            let shown = self.environment.display();
            let full =
                anyhow!("{failure}: the disk of `{shown}` is full, with {} left", size(free));
            hinted(full, "free disk space, or choose another directory")
        })
    }

    /// Asks the installer what it would install into a new environment.
    pub(super) fn resolve_without_environment(
        &self,
        form: ResolvedForm,
        world: &World,
    ) -> Result<String> {
        let work = tempfile::tempdir()?;
        self.resolve(work.path(), self.python.as_deref(), form, None, world)
    }

    /// Asks the installer what it would install, with the digest of each file.
    fn resolve(
        &self,
        work: &Path,
        python: Option<&str>,
        form: ResolvedForm,
        lock: Option<&Lock>,
        world: &World,
    ) -> Result<String> {
        let file = |name: &str| work.join(name).to_string_lossy().into_owned();
        let pins = file("pins.txt");
        let wanted = file("wanted.in");
        fs::write(&pins, self.pins.iter().join("\n") + "\n")?;
        fs::write(&wanted, self.requirements.join("\n") + "\n")?;
        let answer;
        let mut line;
        match self.installer {
            Installer::Uv => {
                let format = match form {
                    ResolvedForm::Requirements => "requirements.txt",
                    ResolvedForm::Pylock => "pylock.toml",
                };
                answer = file(format);
                line = self.installer.verb("compile", python);
                line.extend(words("--generate-hashes --no-header --no-annotate --quiet"));
                line.extend(["--format", format, "--output-file"].map(str::to_owned));
            }
            Installer::Pip if form == ResolvedForm::Pylock => {
                return Err(anyhow!("only uv writes a `pylock.toml` with packages of others"))
                    .hint("install uv, or pass `--emit requirements`");
            }
            Installer::Pip => {
                answer = file("report.json");
                line = self.installer.verb("install", python);
                line.extend(words("--dry-run --ignore-installed --quiet --report"));
            }
        }
        line.push(answer.clone());
        line.extend(self.sources.iter().cloned());
        line.extend(["--constraint".to_owned(), pins]);
        line.extend((self.installer == Installer::Pip).then(|| "--requirement".to_owned()));
        line.push(wanted);
        let mut outcome = self.run(line, "nothing was installed", lock, world);
        if self.installer == Installer::Pip {
            outcome = outcome.hint("pip says what other packages need from version 22.2 on");
        }
        outcome.hint("what the set does not have comes from the index that `--deps` names")?;
        Ok(read_text(answer.as_ref())?)
    }

    /// Reads what an installer resolved, and compares it with what the source promises.
    pub(super) fn read_resolved(&self, resolved: &str) -> Result<Requirements> {
        let mut requirements = match self.installer {
            Installer::Uv => Requirements::parse(resolved),
            Installer::Pip => Requirements::of_report(resolved),
        }
        .context("failed to read what the installer resolved")?;
        requirements.sources.clone_from(&self.sources);
        requirements.compare_with_source(&self.pins)?;
        Ok(requirements)
    }
}

/// Writes a requirements file. Returns the arguments that make an installer read it.
fn write_requirements(requirements: &Requirements, directory: &Path) -> Result<CommandLine> {
    let file = directory.join("requirements.txt");
    fs::write(&file, requirements.to_string())?;
    let mut arguments = CommandLine::new();
    // With this flag, a package without a digest is an error. A source may not say all digests.
    arguments.extend(requirements.has_digests().then(|| "--require-hashes".to_owned()));
    arguments.extend(["--requirement".to_owned(), file.to_string_lossy().into_owned()]);
    Ok(arguments)
}
