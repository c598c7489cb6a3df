//! A virtual environment on disk, and what an install that fails does to it.
//!
//! A virtual environment cannot be moved, because its scripts have its path. So packages are installed
//! in place. An install removes only what the same process has made and not finished: a new
//! environment, and that only if everything in it is known to come from this install. It never clears up
//! after another process, because it cannot know what has happened in that directory since. An update that
//! fails has changed some packages or none; running it again repairs that.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use walkdir::WalkDir;

use crate::index::is_ours;
use rocwheel_base::{
    atomic::{
        self,
        lock::{Lock, LockPurpose},
    },
    error::{Context as _, Error, Hint as _, Result, anyhow, hints, with_hints},
    io::{read_text, resolved_path},
    quantity::shell_word,
};
use rocwheel_wheel::DistName;

/// The names of what `python -m venv` and `uv venv` make in the environment itself. What they make in the directory of the
/// programs and in `site-packages` is known by the beginning of its name. Every other file came from somebody else.
const MADE_BY_VENV: [&str; 4] = [".gitignore", ".lock", "CACHEDIR.TAG", "pyvenv.cfg"];
const PROGRAMS_OF_VENV: [&str; 7] =
    ["Activate", "activate", "deactivate", "pip", "pydoc", "python", "wheel"];
const PACKAGES_OF_VENV: [&str; 6] = [
    "_distutils_hack",
    "_virtualenv",
    "distutils-precedence",
    "pip",
    "pkg_resources",
    "setuptools",
];

/// What an install does with an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Its path does not exist, or is an empty directory.
    #[strum(to_string = "create")]
    Create,
    #[strum(to_string = "install into the existing")]
    Update,
}

/// The path of a virtual environment.
#[derive(Clone, Debug)]
pub struct Environment {
    root: PathBuf,
}

impl Environment {
    /// Takes a path of a user. Symlinks in the path are resolved (see [`resolved_path`]), and the directory must have a name.
    pub fn at(path: &Path) -> Result<Self> {
        let text = path.to_str().context("a path that is not Unicode")?;
        if text.contains(['\n', '\r']) {
            return Err(anyhow!("a path with a line break: {text:?}"));
        }
        if let Ok(target) = fs::read_link(path)
            && !path.exists()
        {
            return Err(anyhow!(
                "`{text}` is a link to `{}`, which is not there",
                target.display()
            ))
            .hint("remove the link, or name another directory");
        }
        let root = resolved_path(path).or_else(|_| std::path::absolute(path))?;
        root.file_name().with_context(|| format!("not the name of a directory: `{text}`"))?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Locks the environment, and creates its directory if the directory does not exist: so two installs into
    /// one environment exclude each other, and installs beside each other do not. If nothing is installed, the
    /// lock removes a directory that it created.
    pub fn lock(&self) -> Result<Lock> {
        Lock::to_write(&self.root, LockPurpose::Install)
    }

    /// The directory of its programs.
    fn programs(&self) -> PathBuf {
        let name = if cfg!(windows) { "Scripts" } else { "bin" };
        self.root.join(name)
    }

    pub fn python(&self) -> PathBuf {
        match cfg!(windows) {
            true if self.is_conda() => self.root.join("python.exe"),
            true => self.programs().join("python.exe"),
            false => self.programs().join("python"),
        }
    }

    /// Whether it is an environment of conda, which has a Python of its own and no `pyvenv.cfg`.
    fn is_conda(&self) -> bool {
        self.root.join("conda-meta").is_dir()
    }

    /// Whether the packages beside its Python are those of the system, so that no installer changes them (PEP 668).
    fn is_managed_by_system(&self) -> bool {
        let library = self.root.join(if cfg!(windows) { "Lib" } else { "lib" });
        let pythons = fs::read_dir(&library).into_iter().flatten().flatten();
        let mut directories = pythons.map(|entry| entry.path()).chain([library]);
        directories.any(|directory| directory.join("EXTERNALLY-MANAGED").is_file())
    }

    /// The command that runs one of its programs.
    pub fn program(&self, name: &str, arguments: &str) -> String {
        format!("{} {arguments}", shell_word(&self.programs().join(name).to_string_lossy()))
    }

    /// The command of a shell that lets the user work in it. `None` for an environment of pixi, which only the directory of
    /// its project activates.
    pub fn activation(&self) -> Option<String> {
        if self.root.join("conda-meta").join("pixi").exists() {
            return None;
        }
        Some(self.activation_command())
    }

    fn activation_command(&self) -> String {
        if self.is_conda() {
            return format!("conda activate {}", shell_word(&self.root.display().to_string()));
        }
        let script = self.programs().join("activate").display().to_string();
        if cfg!(windows) { script } else { format!("source {}", shell_word(&script)) }
    }

    /// What an install does here. Fails for a directory that is neither empty nor an environment of `venv` or conda.
    pub fn action(&self) -> Result<Action> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Action::Create),
            entries => entries?,
        };
        let names: Vec<_> =
            entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        // The lock of this install is in the directory already.
        let is_empty = names.iter().all(|name| *name == *LockPurpose::Install.file_name());
        let shown = self.root.display();
        let python = self.python();
        let settings = self.root.join("pyvenv.cfg");
        let has_settings = settings.is_file();
        if has_settings {
            read_text(&settings)
                .with_context(|| format!("the Python of `{shown}` does not run"))
                .hint("make the environment again, or name another directory")?;
        }
        let has_python = fs::symlink_metadata(&python).is_ok();
        if !has_settings && self.is_managed_by_system() {
            Err(anyhow!("`{shown}` is not to be changed: the system manages its packages (`EXTERNALLY-MANAGED`)"))
                .hint("name another directory, where a virtual environment is made")
        } else if has_python && (has_settings || self.is_conda()) {
            Ok(Action::Update)
        } else if is_empty {
            Ok(Action::Create)
        } else if has_settings {
            Err(anyhow!(
                "`{shown}` is not a complete virtual environment: it has no `{}`",
                python.strip_prefix(&self.root)?.display()
            ))
            .hint("remove it, or name another directory")
        } else if self.is_conda() {
            Err(anyhow!("the conda environment `{shown}` has no Python")).hint(format!(
                "run `conda install --prefix {} python`, or name another directory",
                shell_word(&shown.to_string())
            ))
        } else {
            Err(anyhow!("`{shown}` is no virtual environment, and is not empty"))
                .hint("name another directory")
        }
    }

    /// Begins to change the environment. Fails if the directory has changed since `action` was decided.
    ///
    /// **Contract:** the caller holds the lock of the environment, and calls [`Change::undo`] if the install fails.
    pub fn change(&self, action: Action, lock: &Lock) -> Result<Change> {
        let shown = self.root.display();
        let changed = || format!("`{shown}` was changed while the packages were chosen");
        let now = self.action().with_context(changed)?;
        if now != action {
            return Err(anyhow!("another program has made it")).with_context(changed);
        }
        Ok(Change {
            environment: self.clone(),
            is_new: action == Action::Create,
            removes_root: lock.has_created_directory(),
            files: BTreeSet::new(),
            projects: Vec::new(),
        })
    }

    /// The files below the environment.
    fn files(&self) -> BTreeSet<PathBuf> {
        WalkDir::new(&self.root)
            .into_iter()
            .flatten()
            .filter(|entry| !entry.file_type().is_dir())
            .map(walkdir::DirEntry::into_path)
            .collect()
    }
}

/// An environment that is being changed.
#[derive(Debug)]
pub struct Change {
    environment: Environment,
    is_new: bool,
    /// Whether the directory was created for this install.
    removes_root: bool,
    /// The files that the new environment had before the first package.
    files: BTreeSet<PathBuf>,
    /// The packages that are installed.
    projects: Vec<DistName>,
}

impl Change {
    /// Remembers what a new environment has before the first package. A file that another program has put there
    /// meanwhile is not among these files.
    pub fn created(&mut self) {
        let root = &self.environment.root;
        let programs = self.environment.programs();
        let begins =
            |name: &str, beginnings: &[&str]| beginnings.iter().any(|it| name.starts_with(it));
        let mut files = self.environment.files();
        files.retain(|file| {
            let path = file.strip_prefix(root).unwrap_or(file);
            let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
            let name = parts.last().copied().unwrap_or_default();
            match parts.iter().position(|part| *part == "site-packages") {
                Some(at) => {
                    parts.get(at + 1).is_some_and(|package| begins(package, &PACKAGES_OF_VENV))
                }
                None if file.parent() == Some(&programs) => begins(name, &PROGRAMS_OF_VENV),
                None => parts == ["lib64"] || parts.len() == 1 && MADE_BY_VENV.contains(&name),
            }
        });
        self.files = files;
    }

    /// Remembers which packages are about to be installed.
    pub fn installs<'a>(&mut self, projects: impl IntoIterator<Item = &'a DistName>) {
        self.projects.extend(projects.into_iter().cloned());
    }

    /// Removes what a failed install has made of a new environment, unless somebody else has put a file there.
    /// Returns the error of the install, which then says so.
    pub fn undo(self, error: Error) -> Error {
        if !self.is_new {
            return error;
        }
        let root = &self.environment.root;
        if let Some(file) = self.find_file_of_others() {
            let hint = format!(
                "`{}` is not complete, and stays because of `{}`, which this install has not made: keep what \
                 you need, and remove the rest",
                root.display(),
                file.strip_prefix(root).unwrap_or(&file).display()
            );
            // What mends the cause comes first: then the next install works as well.
            let mut all = hints(&error);
            all.push(hint);
            return with_hints(error, all);
        }
        // If files cannot be removed, the user still has to read the first error, and not this one.
        if self.removes_root {
            let _ = fs::remove_dir_all(root);
            return error;
        }
        // The user made the directory, maybe with a mode that matters. So it stays, and only becomes empty.
        let lock = LockPurpose::Install.file_name();
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            if entry.file_name() != *lock {
                let _ = atomic::clear(&entry.path());
            }
        }
        error
    }

    /// Finds a file of a new environment that did not come from this install.
    ///
    /// An installer that was stopped has written files that no RECORD names yet. So a file counts as installed if
    /// it lies in a directory of a package of ROCm, or in a directory that the RECORD of an installed package
    /// names, or if it is a program that runs the Python of this environment.
    fn find_file_of_others(&self) -> Option<PathBuf> {
        let root = &self.environment.root;
        let lock = root.join(LockPurpose::Install.file_name());
        let programs = self.environment.programs();
        // uv locks an environment by a file in it.
        let lock_of_uv = root.join(".lock");
        let recorded = self.find_recorded();
        let is_known = |file: &PathBuf| {
            // Python compiles what it imports, also the packages that the environment began with.
            let is_compiled = file.extension().is_some_and(|extension| extension == "pyc");
            if is_compiled || self.files.contains(file) || [&lock, &lock_of_uv].contains(&file) {
                return true;
            }
            if file.parent() == Some(&programs) {
                return runs_python_of(file, root) || file.file_name().is_some_and(is_unfinished);
            }
            let parts: Vec<_> = file.strip_prefix(root).unwrap_or(file).iter().collect();
            if parts.iter().any(|part| is_unfinished(part)) {
                return true;
            }
            let Some(at) = parts.iter().position(|part| *part == "site-packages") else {
                return false;
            };
            let top = parts.get(at + 1).and_then(|part| part.to_str()).unwrap_or_default();
            self.is_of_installed(top) || recorded.contains(top)
        };
        self.environment.files().into_iter().find(|file| !is_known(file))
    }

    /// Whether a name in `site-packages` belongs to a package of ROCm or to a package that is installed, as its
    /// import name (`_rocm_sdk_core`) or as the name of its metadata (`rocm_sdk_core-7.13.0.dist-info`).
    fn is_of_installed(&self, name: &str) -> bool {
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let project_name = if extension == "dist-info" {
            stem.split('-').next().unwrap_or_default()
        } else {
            stem.trim_start_matches('_')
        };
        project_name
            .parse()
            .is_ok_and(|project: DistName| is_ours(&project) || self.projects.contains(&project))
    }

    /// Finds the names in `site-packages` that the RECORD of an installed package has.
    fn find_recorded(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for file in self.environment.files() {
            let directory = file.parent().and_then(|directory| directory.file_name()?.to_str());
            let is_record = file.ends_with("RECORD")
                && directory.is_some_and(|directory| self.is_of_installed(directory));
            if !is_record {
                continue;
            }
            // A record that is half written names fewer files. Then the environment stays.
            let Ok(record) = read_text(&file) else {
                continue;
            };
            let tops = record.lines().map(|row| row.split(['/', ',']).next().unwrap_or_default());
            // `../../../bin/rocm-sdk` is a program, which `runs_python_of` judges.
            names.extend(tops.filter(|top| *top != "..").map(str::to_owned));
        }
        names
    }
}

/// Whether uv names a file or a directory so until it is complete: `.tmppzXGY5`.
fn is_unfinished(name: &OsStr) -> bool {
    let random = name.as_encoded_bytes().strip_prefix(b".tmp");
    random.is_some_and(|it| it.len() == 6 && it.iter().all(u8::is_ascii_alphanumeric))
}

/// Whether a file is a script for the Python of an environment.
fn runs_python_of(file: &Path, root: &Path) -> bool {
    let mut bytes = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(4096).read_to_end(&mut bytes));
    let beginning = String::from_utf8_lossy(&bytes);
    // uv and pip write `#!/bin/sh` and the path in the second line if the path is long.
    read.is_ok() && beginning.starts_with("#!") && beginning.contains(&*root.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::error::hinted;

    /// The hint of the error of a failed install.
    const CAUSE: &str = "connect this machine";

    /// What a failed install does with an environment in which `make` has made something.
    fn failed(place: &Path, begin: &str, make: impl Fn(&Path)) -> (Vec<String>, Vec<String>) {
        let environment = Environment::at(&place.join(begin)).unwrap();
        let lock = environment.lock().unwrap();
        let action = environment.action().unwrap();
        let mut change = environment.change(action, &lock).unwrap();
        let site = environment.root().join("lib/python3.12/site-packages");
        fs::create_dir_all(&site).unwrap();
        fs::create_dir(environment.programs()).unwrap();
        fs::write(environment.root().join("pyvenv.cfg"), "").unwrap();
        change.created();
        let installed = site.join("_rocm_sdk_core/lib");
        fs::create_dir_all(&installed).unwrap();
        fs::write(installed.join("half.so"), "").unwrap();
        let script = format!("#!{}\n", environment.python().display());
        fs::write(environment.programs().join("rocm-sdk"), script).unwrap();
        // What uv had not finished.
        fs::write(environment.programs().join(".tmp7TzJJc"), "").unwrap();
        fs::create_dir(environment.root().join(".tmppzXGY5")).unwrap();
        fs::write(environment.root().join(".tmppzXGY5/rocm-sdk"), "").unwrap();
        make(environment.root());
        let error = change.undo(hinted(anyhow!("no network"), CAUSE));
        drop(lock);
        let left = environment.files().into_iter().map(|it| {
            let below = it.strip_prefix(environment.root()).unwrap();
            below.to_string_lossy().into_owned()
        });
        (left.collect(), hints(&error))
    }

    #[test]
    fn a_new_environment_that_failed_is_removed_unless_others_have_files_in_it() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        let entries = || fs::read_dir(place).unwrap().count();
        let removed = (vec![], vec![CAUSE.to_owned()]);
        assert_eq!(failed(place, "a/new", |_| {}), removed);
        assert_eq!(entries(), 0);
        fs::create_dir(place.join("empty")).unwrap();
        assert_eq!(failed(place, "empty", |_| {}), removed);
        assert_eq!(entries(), 1);
        for theirs in [
            "thesis.txt",
            "lib/project/thesis.txt",
            "bin/mine",
            "lib/python3.12/site-packages/mine.py",
            "lib/python3.12/site-packages/theirs-1.0.dist-info/RECORD",
        ] {
            let make = |root: &Path| {
                let file = root.join(theirs);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, "mine").unwrap();
            };
            let (left, hints) = failed(place, "kept", make);
            assert!(left.iter().any(|it| it == theirs), "{left:?}");
            // What mends comes first, then what cleans up.
            assert_eq!(hints.len(), 2, "{hints:?}");
            assert_eq!(hints[0], CAUSE);
            assert!(hints[1].contains(&format!("stays because of `{theirs}`")), "{hints:?}");
            fs::remove_dir_all(place.join("kept")).unwrap();
        }
    }

    #[test]
    fn what_was_made_while_packages_were_chosen_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let environment = Environment::at(&place.path().join("new")).unwrap();
        let lock = environment.lock().unwrap();
        let action = environment.action().unwrap();
        assert_eq!(action, Action::Create);
        fs::write(environment.root().join("thesis.txt"), "mine").unwrap();
        environment.change(action, &lock).unwrap_err();
        fs::remove_file(environment.root().join("thesis.txt")).unwrap();
        fs::create_dir(environment.programs()).unwrap();
        fs::write(environment.root().join("pyvenv.cfg"), "").unwrap();
        let refused = environment.action().unwrap_err().to_string();
        assert!(refused.contains("it has no `bin/python`"), "{refused}");
        fs::write(environment.python(), "").unwrap();
        assert_eq!(environment.action().unwrap(), Action::Update);
        environment.change(action, &lock).unwrap_err();
        environment.change(Action::Update, &lock).unwrap();
        drop(lock);
        assert!(environment.root().is_dir());
    }
}
