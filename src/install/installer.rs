//! [`Installer`]: uv or pip, the exact arguments that they get, and how they are run.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use serde::Serialize;

use super::environment::Environment;
use crate::{
    console::World,
    error::{Context as _, Hint as _, No, Result, anyhow},
    set::PackageSource,
};

/// How often a running program is asked whether it has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// The variables that would let pip or uv choose other packages than those that were decided.
/// Those about the network, such as proxies and certificates, stay.
const CHOICES: [&str; 30] = [
    "PIP_CONSTRAINT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_NO_BINARY",
    "PIP_NO_DEPS",
    "PIP_NO_INDEX",
    "PIP_ONLY_BINARY",
    "PIP_PRE",
    "PIP_PREFIX",
    "PIP_REQUIRE_HASHES",
    "PIP_REQUIREMENT",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "UV_CONSTRAINT",
    "UV_DEFAULT_INDEX",
    "UV_EXCLUDE_NEWER",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX",
    "UV_INDEX_STRATEGY",
    "UV_INDEX_URL",
    "UV_NO_INDEX",
    "UV_OVERRIDE",
    "UV_PRERELEASE",
    "UV_REQUIRE_HASHES",
    "VIRTUAL_ENV",
];

/// Which installer the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum InstallerWish {
    /// uv if it is installed, else pip
    #[default]
    Auto,
    Uv,
    Pip,
}

/// A program that installs packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Installer {
    Uv,
    /// The pip of the environment itself.
    Pip,
}

/// The arguments of one program, the program first.
pub(super) type CommandLine = Vec<String>;

impl Installer {
    /// The installer that the user wants, if it is here.
    pub fn find(wish: InstallerWish) -> Result<Self> {
        if wish == InstallerWish::Pip {
            return Ok(Self::Pip);
        }
        match ask(command("uv".as_ref()).arg("--version")) {
            Err(_) if wish == InstallerWish::Auto => Ok(Self::Pip),
            found => {
                found.hint("install uv, or pass `--installer pip`")?;
                Ok(Self::Uv)
            }
        }
    }

    /// Fails if an existing environment has no pip to install with.
    pub fn ensure_in(self, environment: &Environment) -> Result<()> {
        if self == Self::Uv {
            return Ok(());
        }
        // `-m pip --version` takes a third of a second.
        ask(command(&environment.python()).args(["-I", "-c", "import pip"]))
            .with_context(|| format!("no pip in `{}`", environment.root().display()))
            .hint("install uv, which needs none, or run `python -m ensurepip` in it")?;
        Ok(())
    }

    /// Creates an environment. Without a Python, uv looks for one of the wanted version, and may
    /// download it.
    pub(super) fn create(self, environment: &str, python: Option<&str>) -> CommandLine {
        let mut line: CommandLine = match self {
            Self::Uv => {
                let uv = ["uv", "venv", "--no-config", "--no-project"];
                let mut line: CommandLine = uv.map(str::to_owned).to_vec();
                line.push("--allow-existing".into());
                line.extend(python.map(|it| format!("--python={it}")));
                line
            }
            Self::Pip => {
                let python = python.unwrap_or("python3").to_owned();
                vec![python, "-m".into(), "venv".into()]
            }
        };
        line.push(environment.to_owned());
        line
    }

    /// The beginning of each command that resolves, installs or checks.
    pub(super) fn verb(self, verb: &str, python: &str) -> CommandLine {
        let line = match self {
            Self::Uv => vec!["uv", "pip", verb, "--no-config", "--python", python],
            Self::Pip => vec![python, "-m", "pip", verb, "--no-input"],
        };
        line.into_iter().map(str::to_owned).collect()
    }
}

/// Where an installer looks for packages, and nowhere else.
///
/// uv takes a package from the first index that has it, and `--extra-index-url` is before
/// `--index-url`. pip takes the highest version from all of them, so that it depends on the pins.
pub(super) fn source_arguments(sources: &[PackageSource], base: Option<&str>) -> CommandLine {
    let mut line = Vec::new();
    let mut add = |flag: &str, value: &str| line.extend([flag.to_owned(), value.to_owned()]);
    let mut has_index = false;
    if let Some(base) = base {
        add("--index-url", base);
        has_index = true;
    }
    for source in sources {
        match source {
            PackageSource::Index(url) if has_index => add("--extra-index-url", url),
            PackageSource::Index(url) => {
                add("--index-url", url);
                has_index = true;
            }
            PackageSource::Links(place) => add("--find-links", place),
        }
    }
    if !has_index {
        line.insert(0, "--no-index".to_owned());
    }
    line
}

/// A program that sees none of the variables that would change what is installed.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in CHOICES {
        command.env_remove(name);
    }
    command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    command.stdin(Stdio::null());
    command
}

/// What a program prints. Fails if it fails.
pub(super) fn ask(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let running = || format!("failed to run `{name}`");
    let output = command.stderr(Stdio::null()).output();
    let output = output.with_context(running)?;
    if !output.status.success() {
        return Err(anyhow!("it ended with {}", output.status)).with_context(running);
    }
    String::from_utf8(output.stdout).with_context(running)
}

/// Runs a program to its end. The user sees what it says while it works, bars included. If the user
/// interrupts, the program ends first: it must not write into an environment that is being removed.
pub fn run(command: &mut Command, what: &str, world: &World) -> Result<()> {
    let name = command.get_program().display().to_string();
    world.console.lend(command);
    let mut child = command
        .spawn()
        .with_context(|| format!("failed to run `{name}`"))
        .hint("`--installer` and `--python` name another program")?;
    loop {
        // First, because Ctrl-C in a terminal ends the program too.
        if let Err(stopped) = world.stop.check() {
            let _ = child.kill();
            child.wait()?;
            return Err(stopped.into());
        }
        match child.try_wait()? {
            None => sleep(PAUSE),
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                return Err(anyhow!(No(format!("{what}: `{name}` ended with {status}"))));
            }
        }
    }
}
