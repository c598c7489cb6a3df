//! Carries out a [`Plan`], or prints its pins in the forms of other tools.

use std::{
    fmt::{self, Write as _},
    path::Path,
};

use fs_err as fs;
use itertools::Itertools as _;
use serde::Serialize;
use walkdir::WalkDir;

use super::{
    diagnosis,
    environment::{Action, Change, Environment},
    installer::{self, CommandLine, Installer, words},
    origin::InstallOrigin,
    plan::Plan,
    requirements::Requirements,
    runtime::RuntimeVariables,
    site_packages::SitePackages,
};
use crate::{
    atomic::lock::Lock,
    console::World,
    error::{Context as _, Exit, Hint as _, No, Result, anyhow, hinted, message},
    place::OfferedFile,
    quantity::{few, shell_word, size},
    target::Target,
    version::Version,
    wheel::DistName,
};

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

/// The size of all files of an environment. A file with several names, which uv links from its cache, counts.
fn size_of(environment: &Path) -> u64 {
    let entries = WalkDir::new(environment).into_iter().flatten();
    let files = entries.filter(|entry| entry.file_type().is_file());
    files.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// A form of pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Emit {
    /// requirements.txt, for `pip install -r` and `uv pip install -r`
    Requirements,
    /// pylock.toml (PEP 751)
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
        if let Err(error) = self.install(&mut change, lock, world) {
            return Err(change.undo(error));
        }
        self.ensure_whole(lock, world)?;
        let earlier = InstallOrigin::read(&self.environment);
        self.origin.clone().with_earlier(earlier).write(&self.environment)?;
        if self.action == Action::Update {
            // It may have had other packages before.
            let line = self.verb("check");
            let what = "the packages of the environment do not fit together";
            if let Err(error) = self.run(line, what, Some(lock), world) {
                world.console.warn(message(&error));
            }
        }
        let what = self.summary();
        let root = environment.root();
        let used = size(size_of(root));
        let installed = format!("{what} in `{}` ({used})", root.display());
        world.console.status("Installed", installed);
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
            let python = self.python.as_deref();
            let line = self.installer.create(&self.environment, python);
            let created = self.run(line, "failed to create the environment", Some(lock), world);
            // It is no answer about the packages.
            created.map_err(|error| match Exit::of(&error) {
                Exit::No => anyhow!(message(&error)),
                _ => error,
            })?;
            change.created();
        }
        let requirements = if let Some(exact) = &self.exact {
            exact.clone()
        } else {
            let (form, python) = (Emit::Requirements, self.own_python.to_string_lossy());
            let text = self.resolve(work.path(), Some(&python), form, Some(lock), world)?;
            self.read(&text)?
        };
        change.installs(requirements.packages.iter().map(|it| &it.project));
        let file = work.path().join("requirements.txt");
        fs::write(&file, requirements.to_string())?;
        let mut line = self.verb("install");
        line.extend(self.reinstall(&requirements));
        let has_digests = requirements.has_digests();
        line.extend(has_digests.then(|| "--require-hashes".to_owned()));
        line.extend(["--requirement".into(), file.to_string_lossy().into_owned()]);
        let installed = self.run(line, "nothing was installed", Some(lock), world);
        installed.map_err(|error| match Exit::of(&error) {
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
        let wanted = |it: &DistName| self.files.iter().any(|file| file.project == *it);
        let broken = || -> Result<Vec<DistName>> {
            let site = SitePackages::read(
                &self.environment,
                &RuntimeVariables::default(),
                World::jobs(),
                &world.stop,
            );
            world.stop.check()?;
            // What cannot be read of an environment is the subject of `doctor`.
            Ok(site.iter().flat_map(diagnosis::broken).filter(wanted).collect())
        };
        let damaged = broken()?;
        if damaged.is_empty() {
            return Ok(());
        }
        if let (Installer::Uv, Some(exact)) = (self.installer, &self.exact) {
            let names = few(damaged.iter().map(|it| format!("`{it}`")));
            world
                .console
                .warn(format!("the cache of uv has damaged files of {names}: they are read again"));
            let work = tempfile::tempdir()?;
            let file = work.path().join("requirements.txt");
            fs::write(&file, exact.to_string())?;
            let mut line = self.verb("install");
            line.push("--no-cache".to_owned());
            line.extend(exact.has_digests().then(|| "--require-hashes".to_owned()));
            line.extend(
                damaged.iter().flat_map(|it| ["--reinstall-package".to_owned(), it.to_string()]),
            );
            line.extend(["--requirement".into(), file.to_string_lossy().into_owned()]);
            self.run(line, "damaged packages were not replaced", Some(lock), world)?;
        }
        let left = few(broken()?.iter().map(|it| format!("`{it}`")));
        if left.is_empty() {
            return Ok(());
        }
        let text = format!("packages are not as they were built: {left}");
        let check = format!("`rocwheel check {}`", shell_word(&self.source));
        Err(anyhow!(No(text))).hint(format!("{check} says whether the set is whole"))
    }

    /// The flags that make an installer replace packages of a right version: all of them, or those that are stubs or
    /// damaged.
    fn reinstall(&self, requirements: &Requirements) -> Vec<String> {
        if self.reinstalls_all {
            let flag = match self.installer {
                Installer::Uv => "--reinstall",
                Installer::Pip => "--force-reinstall",
            };
            return vec![flag.to_owned()];
        }
        let packages = requirements.packages.iter().map(|it| &it.project);
        let broken = packages.filter(|it| self.reinstalled.contains(it));
        match self.installer {
            Installer::Uv => {
                let flags =
                    broken.flat_map(|it| ["--reinstall-package".to_owned(), it.to_string()]);
                flags.collect()
            }
            // It knows no flag for single packages.
            Installer::Pip => broken.take(1).map(|_| "--force-reinstall".to_owned()).collect(),
        }
    }

    /// The pins in another form, without an environment.
    pub fn emit(&self, form: Emit, world: &World) -> Result<String> {
        match (&self.exact, form) {
            (Some(exact), Emit::Requirements) => return Ok(exact.to_string()),
            (Some(exact), Emit::Pylock) => return self.pylock(exact),
            (None, _) => {}
        }
        let work = tempfile::tempdir()?;
        let text = self.resolve(work.path(), self.python.as_deref(), form, None, world)?;
        match form {
            Emit::Requirements => Ok(self.read(&text)?.to_string()),
            Emit::Pylock => Ok(text),
        }
    }

    /// The files of ROCm as a pylock.toml.
    fn pylock(&self, exact: &Requirements) -> Result<String> {
        let mut text = String::from("lock-version = \"1.0\"\ncreated-by = \"rocwheel\"\n");
        for package in &exact.packages {
            let (project, version) = (&package.project, &package.version);
            writeln!(text, "\n[[packages]]\nname = \"{project}\"\nversion = \"{version}\"")?;
            let (mut sdist, mut wheels) = (String::new(), String::new());
            for file in self.files.iter().filter(|it| it.project == *project) {
                let (name, url) = (&file.name, &file.url);
                let Some(sha256) = file.sha256 else {
                    let source = &self.source;
                    let text = format!("`{source}` does not say the SHA-256 of `{name}`");
                    return Err(anyhow!(No(text)))
                        .hint("pass `--emit requirements`, or a set with a `set.json`");
                };
                let row = format!(
                    "{{ name = \"{name}\", url = \"{url}\", hashes = {{ sha256 = \"{sha256}\" }} }}"
                );
                if Path::new(name).extension().is_some_and(|it| it == "whl") {
                    writeln!(wheels, "    {row},")?;
                } else {
                    sdist = format!("sdist = {row}\n");
                }
            }
            text.push_str(&sdist);
            if !wheels.is_empty() {
                write!(text, "wheels = [\n{wheels}]\n")?;
            }
        }
        Ok(text)
    }

    /// Runs a command of the plan. While it runs, it holds the lock of the environment.
    fn run(
        &self,
        mut line: CommandLine,
        what: &str,
        lock: Option<&Lock>,
        world: &World,
    ) -> Result<()> {
        let is_venv = line.iter().any(|it| it == "venv") && self.installer == Installer::Pip;
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
        installer::run(&mut command, what, world)
    }

    /// Asks the installer what it would install, with the digest of each file.
    fn resolve(
        &self,
        work: &Path,
        python: Option<&str>,
        form: Emit,
        lock: Option<&Lock>,
        world: &World,
    ) -> Result<String> {
        let file = |name: &str| work.join(name).to_string_lossy().into_owned();
        let (pins, wanted) = (file("pins.txt"), file("wanted.in"));
        fs::write(&pins, self.pins.iter().join("\n") + "\n")?;
        fs::write(&wanted, self.requirements.join("\n") + "\n")?;
        let (verb, flags, answer) = match self.installer {
            Installer::Uv => {
                let flags = "--generate-hashes --no-header --no-annotate --quiet --format";
                let name = match form {
                    Emit::Requirements => "requirements.txt",
                    Emit::Pylock => "pylock.toml",
                };
                let flags = format!("{flags} {name} --output-file");
                ("compile", flags, file(name))
            }
            Installer::Pip if form == Emit::Pylock => {
                let text = "only uv writes a `pylock.toml` with packages of others";
                return Err(anyhow!(text)).hint("install uv, or pass `--emit requirements`");
            }
            Installer::Pip => {
                let flags = "--dry-run --ignore-installed --quiet --report";
                ("install", flags.to_owned(), file("report.json"))
            }
        };
        let mut line = self.installer.verb(verb, python);
        line.extend(words(&flags));
        line.push(answer.clone());
        line.extend(self.sources.iter().cloned());
        line.extend(["--constraint".to_owned(), pins]);
        line.extend((self.installer == Installer::Pip).then(|| "--requirement".to_owned()));
        line.push(wanted);
        let mut run = self.run(line, "nothing was installed", lock, world);
        if self.installer == Installer::Pip {
            run = run.hint("pip says what other packages need from version 22.2 on");
        }
        run.hint("what the set does not have comes from the index that `--deps` names")?;
        Ok(fs::read_to_string(&answer)?)
    }

    /// Reads what an installer resolved, and compares it with what the source promises.
    fn read(&self, text: &str) -> Result<Requirements> {
        let found = match self.installer {
            Installer::Uv => Requirements::parse(text),
            Installer::Pip => Requirements::of_report(text),
        };
        let mut found = found.context("failed to read what the installer resolved")?;
        found.sources.clone_from(&self.sources);
        found.agree(&self.pins)?;
        Ok(found)
    }
}
