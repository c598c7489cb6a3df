//! The programs of an install, which say what they are while the source is read.

use std::path::{Path, PathBuf};

use super::{
    installer::{Installer, InstallerWish},
    process::{self, Question},
    python::Python,
};
use crate::{
    console::World,
    error::{Context as _, Hint as _, Result},
};

/// uv and a Python that were asked what they are.
pub struct AskedPrograms {
    wish: InstallerWish,
    /// Whether the Python was named by its path.
    is_path: bool,
    /// `None` if uv is not wanted.
    uv: Option<Result<Question>>,
    /// The programs that may be the Python, the first of which was asked.
    names: Vec<PathBuf>,
    python: Option<Result<Question>>,
}

impl AskedPrograms {
    /// Asks uv, and the Python that the user named, as a path or a version, or else the usual one.
    pub fn ask(wish: InstallerWish, python: Option<&str>) -> Self {
        let uv = (wish != InstallerWish::Pip).then(|| {
            let mut uv = process::command(Path::new("uv"));
            Question::ask(uv.arg("--version"))
        });
        let names = match python {
            Some(name) if name.starts_with(|c: char| c.is_ascii_digit()) => {
                vec![format!("python{name}")]
            }
            Some(name) => vec![name.to_owned()],
            None if cfg!(windows) => vec!["python".into(), "python3".into()],
            None => vec!["python3".into(), "python".into()],
        };
        let names: Vec<PathBuf> = names.into_iter().map(PathBuf::from).collect();
        Self {
            wish,
            is_path: python.is_some_and(|it| it.contains(['/', '\\'])),
            uv,
            python: names.first().map(|it| Python::question(it)),
            names,
        }
    }

    /// The installer that the user wants, if it is here.
    pub fn installer(&mut self, world: &World) -> Result<Installer> {
        let has_uv = match self.uv.take() {
            None => return Ok(Installer::Pip),
            Some(asked) => asked.and_then(|it| it.answer(world)),
        };
        world.stop.check()?;
        match has_uv.context("uv was not found") {
            Err(_) if self.wish == InstallerWish::Auto => Ok(Installer::Pip),
            found => {
                found.hint("install uv, or pass `--installer pip`")?;
                Ok(Installer::Uv)
            }
        }
    }

    /// The Python of a new environment. `None` if uv has to find it.
    pub fn python(&mut self, installer: Installer, world: &World) -> Result<Option<Python>> {
        match self.found(world) {
            Err(_) if installer == Installer::Uv && !self.is_path => Ok(None),
            found => found.map(Some),
        }
    }

    fn found(&mut self, world: &World) -> Result<Python> {
        let mut failure = None;
        for name in &self.names {
            let asked = self.python.take();
            let asked = asked.unwrap_or_else(|| Python::question(name));
            match asked.and_then(|it| Python::of_answer(&it.answer(world)?)) {
                Ok(python) => return Ok(python),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        world.stop.check()?;
        Err(failure.context("no program to ask")?)
            .context("no Python was found")
            .hint("name one with `--python`, by its path or its version: `--python 3.12`")
    }

    /// The Python of an existing environment.
    pub fn python_of(program: &Path, world: &World) -> Result<Python> {
        Python::of_answer(&Python::question(program)?.answer(world)?)
    }
}
