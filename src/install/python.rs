//! [`Python`]: an interpreter, and whether the packages support it.

use std::path::{Path, PathBuf};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
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

impl Python {
    /// Asks an interpreter, by its path or by a name that the system looks up.
    pub(super) fn question(program: &Path) -> Result<Question> {
        let mut command = process::command(program);
        // Neither the user's directory nor the current one may change what it says, and it needs no
        // packages for that.
        Question::ask(command.args(["-I", "-S", "-c", ASK]))
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
            let answer = Self::question(wanted.as_ref())?.answer(world)?;
            Self::of_answer(&answer)?.tag() == self.tag()
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

    /// Fails if a package says that it does not support this version.
    pub fn ensure_fits(&self, metadata: &Metadata) -> Result<()> {
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
    pub fn ensure_has_wheel(
        &self,
        offered: &OfferedSet,
        (project, version): &(DistName, Version),
    ) -> Result<()> {
        let files = offered.files.iter();
        let files = files.filter(|it| it.project == *project && it.version == *version);
        let names = files.filter_map(|it| it.name.parse::<PackageFilename>().ok());
        let tags: Option<Vec<_>> = names.map(|it| it.tag).collect();
        // An sdist fits any.
        let tags = tags
            .unwrap_or_default()
            .into_iter()
            .flat_map(|it| it.expand());
        let tags: Vec<String> = tags.map(|it| it.to_string()).collect();
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
