//! A virtual environment on disk, and what an install that fails does to it.
//!
//! A virtual environment cannot be moved, because its scripts have its path. So packages are installed
//! in place. An install removes only what the same process has made and not finished: a new
//! environment. It never clears up after another process, because it cannot know what has happened in
//! that directory since. An update that fails has changed some packages or none; running it again
//! repairs that.

use std::{
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use tempfile::TempDir;

use crate::{
    error::{Context as _, Hint as _, Result, anyhow},
    version::Version,
    wheel::{DistName, Metadata},
};

/// The entries of an environment as `venv`, `virtualenv` and uv make it, and as packages add to it.
const OWN_ENTRIES: [&str; 13] = [
    ".gitignore",
    ".lock",
    "bin",
    "CACHEDIR.TAG",
    "etc",
    "include",
    "Include",
    "lib",
    "Lib",
    "lib64",
    "pyvenv.cfg",
    "Scripts",
    "share",
];

/// What is at the path of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing, or an empty directory.
    Absent,
    /// A virtual environment.
    Present,
}

/// What an install does with an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    #[strum(to_string = "create")]
    Create,
    #[strum(to_string = "install into the existing")]
    Update,
    #[strum(to_string = "replace the existing")]
    Recreate,
}

/// The path of a virtual environment.
#[derive(Clone, Debug)]
pub struct Environment {
    root: PathBuf,
}

impl Environment {
    /// Symlinks in the path are resolved, and the directory above must be known by name.
    pub fn at(path: &Path) -> Result<Self> {
        let text = path.to_str().context("a path that is not Unicode")?;
        if text.contains(['\n', '\r']) {
            return Err(anyhow!("a path with a line break: {text:?}"));
        }
        let root = fs::canonicalize(path).or_else(|_| std::path::absolute(path))?;
        root.file_name()
            .with_context(|| format!("not the name of a directory: `{text}`"))?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn parent(&self) -> &Path {
        self.root.parent().unwrap_or(Path::new("/"))
    }

    /// The directory of its programs.
    pub fn programs(&self) -> PathBuf {
        self.root
            .join(if cfg!(windows) { "Scripts" } else { "bin" })
    }

    pub fn python(&self) -> PathBuf {
        let name = if cfg!(windows) {
            "python.exe"
        } else {
            "python"
        };
        self.programs().join(name)
    }

    /// The command of a shell that lets the user work in it.
    pub fn activation(&self) -> String {
        let script = self.programs().join("activate");
        let script = script.display().to_string();
        if cfg!(windows) {
            return script;
        }
        format!("source {}", crate::console::shell_word(&script))
    }

    /// Fails for a directory that is neither empty nor a virtual environment.
    pub fn state(&self) -> Result<State> {
        let shown = self.root.display();
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::Absent),
            entries => entries?,
        };
        let has_settings = self.root.join("pyvenv.cfg").is_file();
        if has_settings && fs::symlink_metadata(self.python()).is_ok() {
            return Ok(State::Present);
        }
        if entries.count() == 0 {
            return Ok(State::Absent);
        }
        if has_settings {
            let python = self.python();
            return Err(anyhow!(
                "`{shown}` is not a complete virtual environment: it has no `{}`",
                python.strip_prefix(&self.root)?.display()
            ))
            .hint("remove it, or name another directory");
        }
        Err(anyhow!(
            "`{shown}` is no virtual environment, and is not empty"
        ))
        .hint("name another directory")
    }

    /// Fails if the directory of an environment also has what is not part of one, which would be lost
    /// with it.
    pub fn ensure_replaceable(&self) -> Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let name = entry?.file_name();
            if OWN_ENTRIES.iter().any(|it| *it == name) {
                continue;
            }
            let (shown, other) = (self.root.display(), name.display());
            return Err(anyhow!(
                "`{shown}` has `{other}`, which is not part of a virtual environment"
            ))
            .hint("move it elsewhere, or name another directory");
        }
        Ok(())
    }

    /// The packages that are installed, by their `.dist-info` directories, in order.
    pub fn packages(&self) -> Result<Vec<Metadata>> {
        let mut found = Vec::new();
        let mut places = vec![self.root.join("Lib/site-packages")];
        for entry in fs::read_dir(self.root.join("lib")).into_iter().flatten() {
            places.push(entry?.path().join("site-packages"));
        }
        for entry in places
            .iter()
            .flat_map(|it| fs::read_dir(it).into_iter().flatten())
        {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().and_then(|it| it.strip_suffix(".dist-info"));
            let parts = name.and_then(|it| it.split_once('-'));
            let parsed = parts.map(|it| (it.0.parse::<DistName>(), it.1.parse::<Version>()));
            let Some((Ok(name), Ok(version))) = parsed else {
                continue;
            };
            // Other tools install packages too, and not each writes what a strict reader accepts.
            let text = fs::read(entry.path().join("METADATA")).unwrap_or_default();
            found.push(Metadata::parse(&text).unwrap_or(Metadata {
                name,
                version,
                requires_python: None,
                requires_dist: Vec::new(),
                provides_extra: Vec::new(),
            }));
        }
        found.sort_by(|a: &Metadata, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Begins to change the environment. Dropping the result before [`Change::finish`] removes what
    /// was made since.
    pub fn change(&self, action: Action) -> Result<Change> {
        let mut change = Change {
            root: self.root.clone(),
            made: None,
        };
        change.made = match action {
            Action::Update => None,
            Action::Create if self.root.exists() => Some(Made::Entries),
            Action::Create => {
                fs::create_dir_all(&self.root)?;
                Some(Made::Directory)
            }
            Action::Recreate => {
                self.ensure_replaceable()?;
                let name = self.root.file_name().unwrap_or_default().display();
                let beside = tempfile::Builder::new()
                    .prefix(&format!(".{name}-replaced-"))
                    .tempdir_in(self.parent())?;
                fs::rename(&self.root, beside.path().join("venv"))?;
                Some(Made::InsteadOf(beside))
            }
        };
        Ok(change)
    }
}

/// An environment that is being changed.
#[derive(Debug)]
pub struct Change {
    root: PathBuf,
    /// What to undo, until the change is finished.
    made: Option<Made>,
}

#[derive(Debug)]
enum Made {
    Directory,
    /// What is in a directory that was empty.
    Entries,
    /// The environment, whose predecessor is in this directory.
    InsteadOf(TempDir),
}

impl Change {
    /// Keeps what was installed.
    pub fn finish(mut self) {
        self.made = None;
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let Some(made) = self.made.take() else {
            return;
        };
        // There is no better answer to a second failure than the first one, which is being reported.
        let _ = fs::remove_dir_all(&self.root);
        match made {
            Made::Directory => {}
            Made::Entries => drop(fs::create_dir(&self.root)),
            Made::InsteadOf(beside) => {
                // If it cannot be put back, it stays where it is.
                if fs::rename(beside.path().join("venv"), &self.root).is_err() {
                    drop(beside.keep());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn venv(root: &Path) -> Environment {
        let environment = Environment::at(root).unwrap();
        fs::create_dir_all(environment.programs()).unwrap();
        fs::write(root.join("pyvenv.cfg"), "").unwrap();
        fs::write(environment.python(), "").unwrap();
        environment
    }

    #[test]
    fn only_what_the_same_change_has_made_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let entries = || fs::read_dir(place.path()).unwrap().count();
        let new = Environment::at(&place.path().join("new")).unwrap();
        drop(new.change(Action::Create).unwrap());
        assert_eq!(entries(), 0);

        fs::create_dir(new.root()).unwrap();
        let change = new.change(Action::Create).unwrap();
        fs::write(new.root().join("made"), "").unwrap();
        drop(change);
        assert_eq!(fs::read_dir(new.root()).unwrap().count(), 0);

        let old = venv(new.root());
        fs::write(old.programs().join("mine"), "").unwrap();
        drop(old.change(Action::Update).unwrap());
        let change = old.change(Action::Recreate).unwrap();
        assert!(!old.root().exists());
        fs::create_dir(old.root()).unwrap();
        drop(change);
        assert!(old.programs().join("mine").exists());
        assert_eq!(entries(), 1);
        old.change(Action::Recreate).unwrap().finish();
        assert_eq!(entries(), 0);
    }

    #[test]
    fn what_is_not_part_of_an_environment_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let environment = venv(&place.path().join("venv"));
        environment.ensure_replaceable().unwrap();
        for name in [".git", "paper.txt"] {
            let file = environment.root().join(name);
            fs::write(&file, "").unwrap();
            let refused = environment.change(Action::Recreate).unwrap_err();
            assert!(refused.to_string().contains(name), "{refused}");
            fs::remove_file(file).unwrap();
        }
        fs::remove_file(environment.python()).unwrap();
        let refused = environment.state().unwrap_err().to_string();
        assert!(refused.contains("it has no `bin/python`"), "{refused}");
    }
}
