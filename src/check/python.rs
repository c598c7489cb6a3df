//! [`PythonModule`]: the names that a Python source file defines and imports.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use ruff_python_ast::{Expr, Stmt, StmtImportFrom};

use crate::package::python_source;

#[derive(Debug, Default)]
pub(super) struct PythonModule {
    /// The names that it defines or imports at its top level.
    names: BTreeSet<String>,
    /// Strings assigned to names at its top level; for each name the last one.
    texts: BTreeMap<String, String>,
    /// Its imports from its own package.
    relative: Vec<RelativeImport>,
    /// Whether it has `from … import *`, so that its names are not all known.
    has_star: bool,
}

/// `from ..a import b`: two levels, `a`, and `b`. Modules are written as paths: `a/b`.
type RelativeImport = (usize, String, Vec<String>);

/// The modules of a package or an sdist, by their paths.
pub(super) type PythonModules<'a> = BTreeMap<&'a str, PythonModule>;

impl PythonModule {
    /// Parses a source file. The error says why it is not valid Python.
    pub(super) fn parse(source: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(source).map_err(|error| format!("not UTF-8: {error}"))?;
        python_source::parse(text, |parsed| {
            if let Some(error) = parsed.errors().first() {
                let before = text.get(..usize::from(error.location.start()));
                let line = before.unwrap_or_default().lines().count().max(1);
                return Err(format!("line {line}: {}", error.error));
            }
            let mut module = Self::default();
            module.read(&parsed.syntax().body);
            Ok(module)
        })
        .unwrap_or_else(|error| Err(format!("{error:#}")))
    }

    pub(super) fn defines(&self, name: &str) -> bool {
        self.has_star || self.names.contains(name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    fn read(&mut self, body: &[Stmt]) {
        for statement in body {
            match statement {
                Stmt::FunctionDef(it) => self.define(&it.name),
                Stmt::ClassDef(it) => self.define(&it.name),
                Stmt::Assign(it) => {
                    for target in &it.targets {
                        self.assign(target, Some(&it.value));
                    }
                }
                Stmt::AnnAssign(it) => self.assign(&it.target, it.value.as_deref()),
                Stmt::Import(it) => {
                    for alias in &it.names {
                        let top = alias.name.split('.').next().unwrap_or_default();
                        self.define(alias.asname.as_deref().unwrap_or(top));
                    }
                }
                Stmt::ImportFrom(it) => self.import(it),
                Stmt::If(it) => {
                    self.read(&it.body);
                    for clause in &it.elif_else_clauses {
                        self.read(&clause.body);
                    }
                }
                Stmt::Try(it) => {
                    self.read(&it.body);
                    self.read(&it.orelse);
                }
                _ => {}
            }
        }
    }

    fn define(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    fn assign(&mut self, target: &Expr, value: Option<&Expr>) {
        let Expr::Name(name) = target else { return };
        self.define(&name.id);
        if let Some(Expr::StringLiteral(text)) = value {
            let text = text.value.to_str().to_owned();
            self.texts.insert(name.id.to_string(), text);
        }
    }

    fn import(&mut self, import: &StmtImportFrom) {
        let mut names = Vec::new();
        for alias in &import.names {
            if alias.name.as_str() == "*" {
                self.has_star = true;
            } else {
                self.define(alias.asname.as_deref().unwrap_or(&alias.name));
                names.push(alias.name.to_string());
            }
        }
        if import.level > 0 {
            let level = usize::try_from(import.level).unwrap_or(usize::MAX);
            let module = import.module.as_deref().unwrap_or_default();
            self.relative.push((level, module.replace('.', "/"), names));
        }
    }
}

/// The file of a module: `a/b.py` or `a/b/__init__.py` for `a/b`.
fn file_of<'a>(modules: &'a PythonModules<'_>, place: &str) -> Option<&'a PythonModule> {
    let file = modules.get(format!("{place}.py").as_str());
    file.or_else(|| modules.get(format!("{place}/__init__.py").as_str()))
}

/// Why the entry point `a.b:c` cannot be resolved below the directory `top`. `None` if it can.
pub(super) fn unresolved(modules: &PythonModules<'_>, top: &str, call: &str) -> Option<String> {
    let (module, function) = call.split_once(':').unwrap_or((call, ""));
    let place = format!("{top}{}", module.trim().replace('.', "/"));
    // The object may be followed by extras: `main [extra]`.
    let function = function.split('[').next().unwrap_or_default().trim();
    let function = function.split('.').next().unwrap_or_default();
    match file_of(modules, &place) {
        None => Some(format!("there is no module `{}`", module.trim())),
        Some(found) if !function.is_empty() && !found.defines(function) => {
            Some(format!("`{}` has no `{function}`", module.trim()))
        }
        Some(_) => None,
    }
}

/// The relative imports that fail, each with the path of its module.
pub(super) fn broken_imports<'a>(modules: &PythonModules<'a>) -> Vec<(&'a str, String)> {
    let mut found = Vec::new();
    for (path, module) in modules {
        for (level, module, names) in &module.relative {
            let parts: Vec<&str> = path.split('/').collect();
            let parts = &parts[..parts.len().saturating_sub(*level)];
            let named = Some(module.as_str()).filter(|it| !it.is_empty());
            let place = parts.iter().copied().chain(named).join("/");
            let Some(from) = file_of(modules, &place) else {
                let fact = format!("it imports from `{place}.py`, which is not there");
                found.push((*path, fact));
                continue;
            };
            for name in names {
                let is_module = || file_of(modules, &format!("{place}/{name}")).is_some();
                if !from.defines(name) && !is_module() {
                    let fact =
                        format!("it imports `{name}` from `{place}`, which has no such name");
                    found.push((*path, fact));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_is_not_python_is_reported_with_its_line() {
        let refused = [&b"import os\n\ndef (:\n"[..], b"\xff"];
        let why = refused.map(|source| PythonModule::parse(source).unwrap_err());
        insta::assert_snapshot!(why.join("\n"), @"
        line 3: Expected an identifier
        not UTF-8: invalid utf-8 sequence of 1 bytes from index 0
        ");
    }

    #[test]
    fn calls_and_imports_are_followed() {
        let sources = [
            ("a/__init__.py", "__version__ = '1'\n__version__ = '2'\n"),
            (
                "a/b.py",
                "from . import __version__, c, gone\nfrom .lost import x\nfrom .c import f, g\n",
            ),
            ("a/c.py", "try:\n    import os.path\nexcept ImportError:\n    pass\ndef f(): ...\n"),
        ];
        let modules: PythonModules<'_> = sources
            .iter()
            .map(|(path, text)| (*path, PythonModule::parse(text.as_bytes()).unwrap()))
            .collect();
        assert_eq!(modules["a/__init__.py"].text("__version__"), Some("2"));
        let calls = ["a.c:f", "a.c:os", "a.c:g", "a.d:f", "a:__version__"];
        let why: Vec<String> =
            calls.iter().filter_map(|call| unresolved(&modules, "", call)).collect();
        insta::assert_snapshot!(why.join("\n"), @"
        `a.c` has no `g`
        there is no module `a.d`
        ");
        let broken = broken_imports(&modules);
        let broken: Vec<String> =
            broken.iter().map(|(path, why)| format!("{path}: {why}")).collect();
        insta::assert_snapshot!(broken.join("\n"), @"
        a/b.py: it imports `gone` from `a`, which has no such name
        a/b.py: it imports from `a/lost.py`, which is not there
        a/b.py: it imports `g` from `a/c`, which has no such name
        ");
    }
}
