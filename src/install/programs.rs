//! The programs of an install, which say what they are while the source is read.

use std::{
    mem,
    path::{Path, PathBuf},
};

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
    uv: AskedUv,
    /// The programs that may be the Python.
    names: Vec<PathBuf>,
    /// The answer of the first of them, if it was asked.
    python: Option<Result<Question>>,
    /// The file of a Python that uv takes without a question.
    located: Option<PathBuf>,
}

enum AskedUv {
    Unwanted,
    /// A program that needs no question: the first command that it gets shows whether it runs.
    Located,
    Asked(Result<Question>),
}

/// A Python for a new environment.
pub enum ChosenPython {
    Known(Python),
    /// uv finds it, by its path or its version if there is one, and writes into the environment what
    /// it is.
    OfUv(Option<String>),
}

impl AskedPrograms {
    /// Asks uv, and the Python that the user named, as a path or a version, or else the usual one.
    /// If `locate` finds the file of a program, uv is not asked, and with `trusts_python` neither is
    /// the Python, as uv will say what it is: to start a program takes long beside an install from
    /// uv's cache.
    pub fn ask(
        wish: InstallerWish,
        python: Option<&str>,
        trusts_python: bool,
        locate: impl Fn(&Path) -> Option<PathBuf>,
    ) -> Self {
        let program = Path::new("uv");
        let uv = match wish {
            InstallerWish::Pip => AskedUv::Unwanted,
            _ if locate(program).is_some() => AskedUv::Located,
            _ => AskedUv::Asked(Question::ask(process::command(program).arg("--version"))),
        };
        let is_unwanted = matches!(uv, AskedUv::Unwanted);
        let names = match python {
            Some(name) if name.starts_with(|c: char| c.is_ascii_digit()) => {
                vec![format!("python{name}")]
            }
            Some(name) => vec![name.to_owned()],
            None if cfg!(windows) => vec!["python".into(), "python3".into()],
            None => vec!["python3".into(), "python".into()],
        };
        let names: Vec<PathBuf> = names.into_iter().map(PathBuf::from).collect();
        let located = names.first().filter(|_| trusts_python && !is_unwanted);
        let located = located.and_then(|name| locate(name));
        let asked = names.first().filter(|_| located.is_none());
        Self {
            wish,
            is_path: python.is_some_and(|it| it.contains(['/', '\\'])),
            uv,
            python: asked.map(|it| Python::question(it)),
            names,
            located,
        }
    }

    /// The installer that the user wants, if it is here.
    pub fn installer(&mut self, world: &World) -> Result<Installer> {
        let has_uv = match mem::replace(&mut self.uv, AskedUv::Located) {
            AskedUv::Unwanted => return Ok(Installer::Pip),
            AskedUv::Located => return Ok(Installer::Uv),
            AskedUv::Asked(asked) => asked.and_then(|it| it.answer(world)),
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

    /// The Python of a new environment. `wanted` is the one that the user named.
    pub fn python(
        &mut self,
        installer: Installer,
        wanted: Option<&str>,
        world: &World,
    ) -> Result<ChosenPython> {
        let is_uv = installer == Installer::Uv;
        if let Some(path) = self.located.take().filter(|_| is_uv) {
            let path = path.into_os_string().into_string().ok();
            return Ok(ChosenPython::OfUv(path));
        }
        match self.found(world) {
            Err(_) if is_uv && !self.is_path => Ok(ChosenPython::OfUv(wanted.map(str::to_owned))),
            found => found.map(ChosenPython::Known),
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
}
