//! [`Python`]: an interpreter, and whether the packages support it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    environment::VirtualEnvironment,
    process::{self, Question},
    select::no,
};
use crate::{
    console::World,
    error::{Context as _, Hint as _, Result, anyhow},
    set::OfferedSet,
    version::Version,
    wheel::{DistName, Metadata, PackageFilename},
};

/// What an interpreter says of itself.
const ASK: &str = "import sys; print(sys.executable); print('%d.%d.%d' % sys.version_info[:3]); \
                   print(sys.implementation.name)";

/// An interpreter of Python.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Python {
    pub path: PathBuf,
    pub version: Version,
    #[serde(skip)]
    pub is_cpython: bool,
}

/// What the packages of an install need of a Python.
#[derive(Debug, Default)]
pub(super) struct PythonNeeds {
    pub(super) rocm: Option<Metadata>,
    pub(super) wheels: Vec<OfferedWheels>,
}

/// The tags of the wheels of one version of a project. None if it has an sdist, which fits any Python.
#[derive(Debug)]
pub(super) struct OfferedWheels {
    project: DistName,
    version: Version,
    tags: Vec<String>,
}

impl OfferedWheels {
    pub(super) fn of(offered: &OfferedSet, (project, version): &(DistName, Version)) -> Self {
        let files = offered.files.iter();
        let files = files.filter(|it| it.project == *project && it.version == *version);
        let names = files.filter_map(|it| it.name.parse::<PackageFilename>().ok());
        let tags: Option<Vec<_>> = names.map(|it| it.tag).collect();
        let tags = tags.unwrap_or_default().into_iter();
        Self {
            project: project.clone(),
            version: version.clone(),
            tags: tags
                .flat_map(|it| it.expand())
                .map(|it| it.to_string())
                .collect(),
        }
    }
}

impl Python {
    /// Asks an interpreter, by its path or by a name that the system looks up.
    pub(super) fn question(program: &Path) -> Result<Question> {
        let mut command = process::command(program);
        // Neither the user's directory nor the current one may change what it says, and it needs no
        // packages for that.
        Question::ask(command.args(["-I", "-S", "-c", ASK]))
    }

    /// Asks an interpreter, and waits for its answer.
    pub fn ask(program: &Path, world: &World) -> Result<Self> {
        Self::of_answer(&Self::question(program)?.answer(world)?)
    }

    /// Reads the answer of an interpreter.
    pub(super) fn of_answer(answer: &str) -> Result<Self> {
        let mut lines = answer.lines();
        let mut line = || lines.next().context("it did not say what it is");
        let (path, version, kind) = (line()?.into(), line()?.parse()?, line()?);
        let is_cpython = kind == "cpython";
        Ok(Self {
            path,
            version,
            is_cpython,
        })
    }

    /// Fails if this is another Python than the user asks for.
    pub fn ensure_is(&self, wanted: &str, world: &World) -> Result<()> {
        let own = self.version.to_string();
        let is_number = wanted.starts_with(|c: char| c.is_ascii_digit());
        // No other Python has to be installed, to compare with the number of a version.
        let is_same = if is_number {
            own == wanted || own.starts_with(&format!("{wanted}."))
        } else {
            Self::ask(wanted.as_ref(), world)?.tag() == self.tag()
        };
        if is_same {
            return Ok(());
        }
        Err(anyhow!(
            "the environment has Python {own}, and not `{wanted}`"
        ))
        .hint("name another directory, or replace it with `--recreate`")
    }

    /// `cp312`
    pub fn tag(&self) -> String {
        let minor = self.version.minor().replace('.', "");
        format!("{}{minor}", if self.is_cpython { "cp" } else { "py" })
    }

    /// Reads what uv has written about a new environment. `named` is the Python that it was made with.
    pub(super) fn of_environment(environment: &VirtualEnvironment, named: &Path) -> Result<Self> {
        let text = environment.settings()?;
        let lines = text.lines().filter_map(|it| it.split_once(" = "));
        let values: BTreeMap<&str, &str> = lines.collect();
        let value = |key: &str| {
            let value = values.get(key).copied();
            value.with_context(|| format!("no `{key}` in `pyvenv.cfg`"))
        };
        Ok(Self {
            path: named.to_owned(),
            version: value("version_info")?.parse()?,
            is_cpython: value("implementation")? == "CPython",
        })
    }

    /// Fails if a package does not support this Python.
    pub(super) fn ensure_suits(&self, needs: &PythonNeeds) -> Result<()> {
        needs.rocm.iter().try_for_each(|it| self.ensure_fits(it))?;
        needs
            .wheels
            .iter()
            .try_for_each(|it| self.ensure_has_wheel(it))
    }

    /// Fails if a package says that it does not support this version.
    fn ensure_fits(&self, metadata: &Metadata) -> Result<()> {
        let wanted = metadata.requires_python.as_deref();
        let fits = |it| self.version.fulfils(it).unwrap_or(true);
        let Some(wanted) = wanted.filter(|it| !fits(it)) else {
            return Ok(());
        };
        let (path, version) = (self.path.display(), &self.version);
        let (name, of) = (&metadata.name, &metadata.version);
        Err(no(
            format!("`{name}` {of} needs Python {wanted}, and `{path}` is {version}"),
            "name another one with `--python`".to_owned(),
        ))
    }

    /// Fails if a version of a project has wheels, and none for this Python.
    fn ensure_has_wheel(&self, wheels: &OfferedWheels) -> Result<()> {
        let OfferedWheels {
            project,
            version,
            tags,
        } = wheels;
        if tags.is_empty() || tags.iter().any(|it| self.fits(it)) {
            return Ok(());
        }
        let pythons = tags.iter().filter_map(|it| it.split('-').next());
        let pythons = pythons.sorted().dedup().join(", ");
        let (path, own) = (self.path.display(), self.tag());
        Err(no(
            format!("`{project}` {version} has no wheel for `{path}`, which is {own}"),
            format!("it has wheels for {pythons}: name another Python with `--python`"),
        ))
    }

    fn fits(&self, tag: &str) -> bool {
        let mut parts = tag.split('-');
        let (python, abi) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let minor = |tag: &str| tag.strip_prefix("cp3")?.parse::<u32>().ok();
        let own = self.tag();
        let is_stable = abi == "abi3" && self.is_cpython && minor(python) <= minor(&own);
        python == own || python == "py3" || python == own.replace("cp", "py") || is_stable
    }
}
