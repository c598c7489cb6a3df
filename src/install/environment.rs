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

use crate::{
    console::shell_word,
    error::{Context as _, Hint as _, Result, anyhow},
};

/// What an install does with an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// There is nothing at its path, or an empty directory.
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
    fn programs(&self) -> PathBuf {
        let name = if cfg!(windows) { "Scripts" } else { "bin" };
        self.root.join(name)
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
        let script = self.programs().join("activate").display().to_string();
        if cfg!(windows) {
            script
        } else {
            format!("source {}", shell_word(&script))
        }
    }

    /// What an install does here. Fails for a directory that is neither empty nor a virtual environment.
    pub fn action(&self) -> Result<Action> {
        let mut entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Action::Create),
            entries => entries?,
        };
        let shown = self.root.display();
        let (python, has_settings) = (self.python(), self.root.join("pyvenv.cfg").is_file());
        if has_settings && fs::symlink_metadata(&python).is_ok() {
            Ok(Action::Update)
        } else if entries.next().is_none() {
            Ok(Action::Create)
        } else if has_settings {
            Err(anyhow!(
                "`{shown}` is not a complete virtual environment: it has no `{}`",
                python.strip_prefix(&self.root)?.display()
            ))
            .hint("remove it, or name another directory")
        } else {
            Err(anyhow!(
                "`{shown}` is no virtual environment, and is not empty"
            ))
            .hint("name another directory")
        }
    }

    /// Begins to change the environment. Dropping the result before [`Change::finish`] removes a new
    /// environment again.
    pub fn change(&self, action: Action) -> Result<Change> {
        let is_new = action == Action::Create;
        let was_empty = is_new && self.root.exists();
        if is_new {
            fs::create_dir_all(&self.root)?;
        }
        Ok(Change {
            root: self.root.clone(),
            is_new,
            was_empty,
        })
    }
}

/// An environment that is being changed.
#[derive(Debug)]
pub struct Change {
    root: PathBuf,
    is_new: bool,
    /// Whether a new environment is in a directory that was there.
    was_empty: bool,
}

impl Change {
    /// Keeps what was installed.
    pub fn finish(mut self) {
        self.is_new = false;
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if !self.is_new {
            return;
        }
        // There is no better answer to a second failure than the first one, which is being reported.
        let _ = fs::remove_dir_all(&self.root);
        if self.was_empty {
            let _ = fs::create_dir(&self.root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_same_change_has_made_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let entries = |path: &Path| fs::read_dir(path).unwrap().count();
        let new = Environment::at(&place.path().join("new")).unwrap();
        drop(new.change(new.action().unwrap()).unwrap());
        assert_eq!(entries(place.path()), 0);

        fs::create_dir(new.root()).unwrap();
        let change = new.change(new.action().unwrap()).unwrap();
        fs::write(new.root().join("made"), "").unwrap();
        drop(change);
        assert_eq!(entries(new.root()), 0);

        let change = new.change(Action::Create).unwrap();
        fs::create_dir(new.programs()).unwrap();
        fs::write(new.root().join("pyvenv.cfg"), "").unwrap();
        let refused = new.action().unwrap_err().to_string();
        assert!(refused.contains("it has no `bin/python`"), "{refused}");
        fs::write(new.python(), "").unwrap();
        change.finish();
        assert_eq!(new.action().unwrap(), Action::Update);
        drop(new.change(Action::Update).unwrap());
        assert_eq!(entries(new.root()), 2);
    }
}
