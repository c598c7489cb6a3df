//! [`Python`]: an interpreter, and whether the packages support it.

use std::path::{Path, PathBuf};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    installer::{self, Installer},
    select::no,
};
use crate::{
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
    /// The Python for a new environment: the one that the user names by its path or its version, or
    /// the usual one. `None` if uv knows none like that, and may download it.
    pub fn find(installer: Installer, wanted: Option<&str>) -> Result<Option<Self>> {
        let is_version = |it: &str| it.starts_with(|c: char| c.is_ascii_digit());
        let names: Vec<String> = match wanted {
            Some(path) if path.contains(['/', '\\']) => vec![path.to_owned()],
            _ if installer == Installer::Uv => {
                let mut uv = installer::command("uv".as_ref());
                uv.args(["python", "find", "--no-config", "--no-project", "--system"]);
                match installer::ask(uv.args(wanted)) {
                    Ok(path) => vec![path.trim_end().to_owned()],
                    Err(_) => return Ok(None),
                }
            }
            Some(version) if is_version(version) => vec![format!("python{version}")],
            Some(name) => vec![name.to_owned()],
            None if cfg!(windows) => vec!["python".into(), "python3".into()],
            None => vec!["python3".into(), "python".into()],
        };
        let mut asked = names.iter().map(|name| Self::ask(name.as_ref()));
        let mut first = asked.next().context("no program to ask")?;
        if first.is_err() {
            first = asked.find(Result::is_ok).unwrap_or(first);
        }
        first
            .map(Some)
            .context("no Python was found")
            .hint("name one with `--python`, by its path or its version: `--python 3.12`")
    }

    /// Asks an interpreter what it is.
    pub fn ask(program: &Path) -> Result<Self> {
        let mut command = installer::command(program);
        // Neither the user's directory nor the current one may change what it says, and it needs no
        // packages for that.
        let answer = installer::ask(command.args(["-I", "-S", "-c", ASK]))?;
        let mut lines = answer.lines();
        let mut line = || lines.next().context("it did not say what it is");
        Ok(Self {
            path: line()?.into(),
            version: line()?.parse()?,
            is_cpython: line()? == "cpython",
        })
    }

    /// Fails if this is another Python than the user asks for.
    pub fn ensure_is(&self, wanted: &str) -> Result<()> {
        let own = self.version.to_string();
        let is_number = wanted.starts_with(|c: char| c.is_ascii_digit());
        // No other Python has to be installed, to compare with the number of a version.
        let is_same = if is_number {
            own == wanted || own.starts_with(&format!("{wanted}."))
        } else {
            Self::ask(wanted.as_ref())?.tag() == self.tag()
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
