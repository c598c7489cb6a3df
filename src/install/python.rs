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
    version::Version,
    wheel::{DistName, Tag},
};

/// What an interpreter says of itself.
const ASK: &str = "import sys; print(sys.executable); print('%d.%d.%d' % sys.version_info[:3])";

/// An interpreter of Python.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Python {
    pub path: PathBuf,
    pub version: Version,
}

/// What a package of an install needs of a Python.
#[derive(Debug)]
pub(super) struct PythonNeed {
    pub(super) project: DistName,
    pub(super) version: Version,
    pub(super) requires_python: Option<String>,
    /// The tags of its wheels. None if it has an sdist, which fits any Python.
    pub(super) tags: Vec<Tag>,
}

impl Python {
    /// The Python for a new environment: the one that the user names by its path or its version, or
    /// the usual one. `None` if uv knows none like that, and may download it.
    pub fn find(installer: Installer, wanted: Option<&str>) -> Result<Option<Self>> {
        let name = match wanted {
            Some(path) if path.contains(['/', '\\']) => path.to_owned(),
            _ if installer == Installer::Uv => {
                let mut uv = installer::command("uv".as_ref());
                uv.args(["python", "find", "--no-config", "--no-project", "--system"]);
                match installer::ask(uv.args(wanted)) {
                    Ok(path) => path.trim_end().to_owned(),
                    Err(_) => return Ok(None),
                }
            }
            Some(version) if is_version(version) => format!("python{version}"),
            Some(name) => name.to_owned(),
            None if cfg!(windows) => "python".to_owned(),
            None => "python3".to_owned(),
        };
        Self::ask(name.as_ref())
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
        })
    }

    /// Fails if this is another Python than the user asks for.
    pub fn ensure_is(&self, wanted: &str) -> Result<()> {
        let own = self.version.to_string();
        // No other Python has to be installed, to compare with the number of a version.
        let is_same = if is_version(wanted) {
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
        .hint("name another directory, or remove this one first")
    }

    /// `cp312`
    pub fn tag(&self) -> String {
        format!("cp{}", self.version.minor().replace('.', ""))
    }

    /// Fails if a package does not support this Python.
    pub(super) fn ensure_suits(&self, needs: &[PythonNeed]) -> Result<()> {
        let (path, own) = (self.path.display(), &self.version);
        let minor = own.minor();
        let minor = minor.strip_prefix("3.").and_then(|it| it.parse().ok());
        for need in needs {
            let (project, version) = (&need.project, &need.version);
            let wanted = need.requires_python.as_deref();
            if let Some(wanted) = wanted.filter(|it| own.fulfils(it) == Some(false)) {
                return Err(no(
                    format!("`{project}` {version} needs Python {wanted}, and `{path}` is {own}"),
                    "name another one with `--python`",
                ));
            }
            let is_for = |tag: &Tag| minor.is_some_and(|it| tag.is_for_python(it));
            if !need.tags.is_empty() && !need.tags.iter().any(is_for) {
                let pythons = need.tags.iter().map(Tag::python);
                let pythons = pythons.sorted().dedup().join(", ");
                return Err(no(
                    format!(
                        "`{project}` {version} has no wheel for `{path}`, which is Python {own}"
                    ),
                    format!("it has wheels for {pythons}: name another Python with `--python`"),
                ));
            }
        }
        Ok(())
    }
}

fn is_version(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}
