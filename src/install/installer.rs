//! [`Installer`]: uv or pip, and the exact arguments that they get.

use std::path::Path;

use serde::Serialize;

use super::{
    environment::VirtualEnvironment,
    process::{self, Question},
    python::Python,
};
use crate::{
    console::World,
    error::{Context as _, Hint as _, Result},
    set::PackageSource,
};

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
    /// Fails if an existing environment has no pip to install with.
    pub fn ensure_in(self, environment: &VirtualEnvironment, world: &World) -> Result<()> {
        if self == Self::Uv {
            return Ok(());
        }
        let mut python = process::command(&environment.python());
        // `-m pip --version` takes a third of a second.
        let question = Question::ask(python.args(["-I", "-c", "import pip"]));
        question
            .and_then(|it| it.answer(world))
            .with_context(|| format!("no pip in `{}`", environment.root().display()))
            .hint("install uv, which needs none, or run `python -m ensurepip` in it")?;
        Ok(())
    }

    /// Creates an environment. Without a Python, uv looks for one of the wanted version, and may
    /// download it.
    pub(super) fn create(
        self,
        environment: &str,
        python: Option<&Python>,
        wanted: Option<&str>,
    ) -> CommandLine {
        let path = python.map(|it| it.path.to_string_lossy().into_owned());
        let mut line: CommandLine = match self {
            Self::Uv => {
                let uv = [
                    "uv",
                    "venv",
                    "--no-config",
                    "--no-project",
                    "--allow-existing",
                ];
                let python = path.or(wanted.map(str::to_owned));
                let python = python.map(|it| ["--python".to_owned(), it]);
                let uv = uv.map(str::to_owned).into_iter();
                uv.chain(python.into_iter().flatten()).collect()
            }
            Self::Pip => {
                let python = path.unwrap_or_else(|| "python3".to_owned());
                vec![python, "-m".into(), "venv".into()]
            }
        };
        line.push(environment.to_owned());
        line
    }

    /// The beginning of each command that resolves or installs.
    pub(super) fn verb(self, verb: &[&str], python: &Path) -> CommandLine {
        let python = python.to_string_lossy().into_owned();
        let verb = verb.iter().map(|it| (*it).to_owned());
        match self {
            Self::Uv => {
                let mut line = vec!["uv".to_owned(), "pip".to_owned()];
                line.extend(verb);
                let common = ["--no-config", "--index-strategy", "first-index", "--python"];
                line.extend(common.map(str::to_owned));
                line.push(python);
                line
            }
            Self::Pip => {
                let mut line = vec![python, "-m".to_owned(), "pip".to_owned()];
                line.extend(verb);
                line.push("--no-input".to_owned());
                line
            }
        }
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
