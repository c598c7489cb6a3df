//! A virtual environment on disk, and how an install that fails leaves it as it was.
//!
//! A virtual environment cannot be moved: its scripts have its path. So packages are installed in
//! place, and what was there before is kept beside it under a name of its own, until the install has
//! succeeded:
//!
//! - a new environment has a marker file, and is removed again;
//! - of an existing one, a copy is kept. Large files in it are hard links: installers replace files,
//!   and do not write into them;
//! - one that is made again is renamed.
//!
//! A killed install leaves the marker or the copy behind. The next one finds it, and puts the
//! environment back before it begins.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use walkdir::WalkDir;

use crate::{
    atomic::{self, StagedDir},
    error::{Context as _, Hint as _, Result, Stop, anyhow},
    version::Version,
    wheel::DistName,
};

/// In an environment that an install has begun to make.
const MARKER: &str = ".rocwheel-unfinished";
/// Files of at least this size are linked into the copy. Smaller ones, such as scripts and the
/// records of packages, may be written into.
const LARGE: u64 = 64 << 10;

/// What is at the path of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvironmentState {
    /// Nothing, or an empty directory.
    Absent,
    /// A virtual environment.
    Present,
    /// What a killed install has left: nothing was there before it.
    Unfinished,
    /// What a killed install has left. The environment before it is kept beside it.
    Kept,
}

/// What an install does with an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum EnvironmentAction {
    #[strum(to_string = "create")]
    Create,
    #[strum(to_string = "install into the existing")]
    Update,
    #[strum(to_string = "replace the existing")]
    Recreate,
}

/// The path of a virtual environment.
#[derive(Clone, Debug)]
pub struct VirtualEnvironment {
    root: PathBuf,
}

impl VirtualEnvironment {
    /// The packages that are installed, by their `.dist-info` directories.
    pub fn packages(&self) -> Result<Vec<(DistName, Version)>> {
        let mut found = Vec::new();
        let mut places = vec![self.root.join("Lib/site-packages")];
        for entry in fs::read_dir(self.root.join("lib")).into_iter().flatten() {
            places.push(entry?.path().join("site-packages"));
        }
        for entry in places
            .iter()
            .flat_map(|it| fs::read_dir(it).into_iter().flatten())
        {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|it| it.strip_suffix(".dist-info"));
            let parts = name.and_then(|it| it.split_once('-'));
            found.extend(parts.and_then(|it| Some((it.0.parse().ok()?, it.1.parse().ok()?))));
        }
        found.sort();
        Ok(found)
    }

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

    /// What its `pyvenv.cfg` says.
    pub(super) fn settings(&self) -> Result<String> {
        Ok(fs::read_to_string(self.root.join("pyvenv.cfg"))?)
    }

    /// The directory above it, which gets the copy.
    pub fn parent(&self) -> &Path {
        self.root.parent().unwrap_or(Path::new("/"))
    }

    /// The directory of its programs.
    pub fn programs(&self) -> PathBuf {
        programs_of(&self.root)
    }

    pub fn python(&self) -> PathBuf {
        python_of(&self.root)
    }

    pub fn state(&self) -> Result<EnvironmentState> {
        let root = &self.root;
        if fs::symlink_metadata(self.kept()).is_ok() {
            return Ok(EnvironmentState::Kept);
        }
        let entries = match fs::read_dir(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(EnvironmentState::Absent);
            }
            entries => entries?,
        };
        if root.join(MARKER).exists() {
            return Ok(EnvironmentState::Unfinished);
        }
        if root.join("pyvenv.cfg").is_file() {
            return Ok(EnvironmentState::Present);
        }
        if entries.count() == 0 {
            return Ok(EnvironmentState::Absent);
        }
        let shown = root.display();
        Err(anyhow!(
            "`{shown}` is no virtual environment, and is not empty"
        ))
        .hint("name another directory")
    }

    /// Puts back what a killed install has left behind, and returns whether there was anything.
    pub fn recover(&self) -> Result<bool> {
        match self.state()? {
            EnvironmentState::Absent | EnvironmentState::Present => return Ok(false),
            EnvironmentState::Unfinished => atomic::clear(&self.root)?,
            EnvironmentState::Kept => self.put_back()?,
        }
        Ok(true)
    }

    fn put_back(&self) -> Result<()> {
        atomic::clear(&self.root)?;
        Ok(fs::rename(self.kept(), &self.root)?)
    }

    /// Where the environment is kept while it is changed: `.rocwheel-kept-.venv`.
    fn kept(&self) -> PathBuf {
        let mut name = OsString::from(".rocwheel-kept-");
        name.push(self.root.file_name().unwrap_or_default());
        self.root.with_file_name(name)
    }

    /// Begins to change the environment. Until [`EnvironmentChange::finish`], dropping the result
    /// leaves it as it was.
    pub fn change(&self, action: EnvironmentAction, stop: &Stop) -> Result<EnvironmentChange> {
        let kept = match action {
            EnvironmentAction::Create => {
                fs::create_dir_all(&self.root)?;
                fs::write(self.root.join(MARKER), "")?;
                None
            }
            EnvironmentAction::Update => Some(self.keep_copy(stop)?),
            EnvironmentAction::Recreate => {
                fs::rename(&self.root, self.kept())?;
                Some(self.kept())
            }
        };
        Ok(EnvironmentChange {
            environment: self.clone(),
            kept,
            is_finished: false,
        })
    }

    fn keep_copy(&self, stop: &Stop) -> Result<PathBuf> {
        let keep = || -> Result<PathBuf> {
            let staging = StagedDir::beside(&self.kept())?;
            copy(&self.root, staging.path(), stop)?;
            staging.replace()?;
            Ok(self.kept())
        };
        keep().with_context(|| {
            let shown = self.root.display();
            format!("failed to keep a copy of `{shown}` beside it until the install has succeeded")
        })
    }
}

fn programs_of(root: &Path) -> PathBuf {
    root.join(if cfg!(windows) { "Scripts" } else { "bin" })
}

/// The interpreter of an environment.
pub(super) fn python_of(root: &Path) -> PathBuf {
    let name = if cfg!(windows) {
        "python.exe"
    } else {
        "python"
    };
    programs_of(root).join(name)
}

/// An environment that is being changed.
#[derive(Debug)]
pub struct EnvironmentChange {
    environment: VirtualEnvironment,
    kept: Option<PathBuf>,
    is_finished: bool,
}

impl EnvironmentChange {
    /// Keeps what was installed.
    pub fn finish(mut self) -> Result<()> {
        self.is_finished = true;
        let Some(kept) = &self.kept else {
            return Ok(fs::remove_file(self.environment.root.join(MARKER))?);
        };
        // Under this name it is no longer put back. Removing it takes a while, and may be killed;
        // the next install removes the rest.
        let old = StagedDir::beside(kept)?;
        fs::rename(kept, old.path().join("old"))?;
        drop(old);
        Ok(())
    }
}

impl Drop for EnvironmentChange {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // If this fails, the next install tries again.
        let _ = match &self.kept {
            Some(_) => self.environment.put_back(),
            None => atomic::clear(&self.environment.root).map_err(Into::into),
        };
    }
}

/// Copies a tree. Modification times are kept, because those of sources are in the compiled files
/// of Python.
fn copy(from: &Path, to: &Path, stop: &Stop) -> Result<()> {
    for entry in WalkDir::new(from).min_depth(1) {
        stop.check()?;
        let entry = entry?;
        let target = to.join(entry.path().strip_prefix(from)?);
        let kind = entry.file_type();
        if kind.is_dir() {
            fs::create_dir(&target)?;
            fs::set_permissions(&target, entry.metadata()?.permissions())?;
        } else if kind.is_symlink() {
            link(&fs::read_link(entry.path())?, &target)?;
        } else {
            let found = entry.metadata()?;
            if found.len() >= LARGE && fs::hard_link(entry.path(), &target).is_ok() {
                continue;
            }
            fs::copy(entry.path(), &target)?;
            if let Ok(time) = found.modified() {
                let file = fs::OpenOptions::new().append(true).open(&target);
                // A file that may not be written to keeps the time of the copy.
                let _ = file.map(|it| it.file().set_modified(time));
            }
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link(text: &Path, at: &Path) -> io::Result<()> {
    fs::os::unix::fs::symlink(text, at)
}

#[cfg(windows)]
fn link(text: &Path, at: &Path) -> io::Result<()> {
    fs::os::windows::fs::symlink_file(text, at)
}
