//! Directories of artifacts that are made together, and appear together.

use std::{
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;

use crate::{
    artifact::ArtifactName,
    atomic::{self, StagedDir},
    error::{Hint as _, Result, bail},
};

/// Lists the artifacts that are being given their names: what is there under these names is only
/// part of what was made, as long as the file exists.
const MARK: &str = ".rocwheel-unfinished";

/// Some artifacts that are written below one staged directory, and renamed once all are whole.
///
/// A rename is atomic, several are not. So a file lists the names beforehand, and goes after the last
/// rename: what a killed process has left is removed by the next one, which then makes all of it.
#[derive(Debug)]
pub struct ArtifactOutput {
    directory: PathBuf,
    staging: StagedDir,
    names: Vec<String>,
}

impl ArtifactOutput {
    /// Refuses names that are taken. The caller has locked the directory.
    pub fn new(directory: &Path, names: Vec<String>) -> Result<Self> {
        clear_unfinished(directory)?;
        for name in &names {
            let place = directory.join(name);
            if place.symlink_metadata().is_ok() {
                let refuse = || -> Result<Self> { bail!("exists already: `{}`", place.display()) };
                return refuse().hint("remove it, or pass another `--output-dir`");
            }
        }
        Ok(Self {
            directory: directory.to_owned(),
            staging: StagedDir::beside(&directory.join("artifacts"))?,
            names,
        })
    }

    /// Where the directory of an artifact is filled.
    pub fn place(&self, name: &str) -> PathBuf {
        self.staging.path().join(name)
    }

    /// Gives every artifact its name.
    pub fn finish(self) -> Result<()> {
        let mark = self.directory.join(MARK);
        atomic::write(&mark, self.names.join("\n"))?;
        for name in &self.names {
            fs::rename(self.place(name), self.directory.join(name))?;
        }
        Ok(fs::remove_file(mark)?)
    }
}

fn clear_unfinished(directory: &Path) -> Result<()> {
    let mark = directory.join(MARK);
    let names = match fs::read_to_string(&mark) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    // Nothing but an artifact is removed, whatever the file says.
    for name in names
        .lines()
        .filter(|it| it.parse::<ArtifactName>().is_ok())
    {
        atomic::clear(&directory.join(name))?;
    }
    Ok(fs::remove_file(mark)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_gave_a_name_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        let names = || vec!["a_lib_generic".to_owned(), "a_lib_gfx942".to_owned()];
        let there = |name: &str| fs::symlink_metadata(directory.join(name)).is_ok();
        let output = ArtifactOutput::new(directory, names()).unwrap();
        for name in names() {
            fs::create_dir(output.place(&name)).unwrap();
        }
        output.finish().unwrap();
        assert!(there("a_lib_generic") && there("a_lib_gfx942") && !there(MARK));
        let taken = ArtifactOutput::new(directory, names()).unwrap_err();
        assert!(taken.to_string().starts_with("exists already: "), "{taken}");
        // As if it had been killed after the first rename.
        fs::remove_dir(directory.join("a_lib_gfx942")).unwrap();
        fs::create_dir(directory.join("kept")).unwrap();
        fs::write(
            directory.join(MARK),
            "a_lib_generic\na_lib_gfx942\n../kept\nkept",
        )
        .unwrap();
        drop(ArtifactOutput::new(directory, names()).unwrap());
        assert!(!there("a_lib_generic") && !there(MARK) && there("kept"));
    }
}
