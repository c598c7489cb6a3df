//! Output directories for several artifacts that must appear together or not at all.

use std::{
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;

use crate::artifact::{
    ArtifactManifest, ArtifactName, FileFacts, TreeContent, TreeFile, input::digest_directory,
    local_path, name::encode_colons,
};
use rocwheel_base::{
    atomic::{self, StagedDir},
    error::{Hint as _, Result, anyhow},
    io::read_text,
    relpath::RelPath,
};

/// This file lists the artifacts that are being renamed into place, each as `NAME CONTENT`. While it exists,
/// some of them may be missing. The content is what [`digest_directory`] returned for the artifact before
/// it got its name, or `-` on systems without inodes.
const MARK: &str = ".rocwheel-unfinished";

/// Artifacts that are written to a staging directory and renamed when all of them are complete.
///
/// One rename is atomic, several are not. So a file with all the names is written before the first
/// rename, and removed after the last. If the process is killed in between, the next one finds the
/// file, removes the artifacts that it lists if they have not changed since, and creates all of them again.
#[derive(Debug)]
pub struct ArtifactOutput {
    directory: PathBuf,
    staging: StagedDir,
    names: Vec<String>,
}

impl ArtifactOutput {
    /// Fails if one of the names exists. The caller must hold the lock of the directory.
    pub fn new(directory: &Path, names: Vec<String>) -> Result<Self> {
        clear_unfinished(directory)?;
        let file_names: Vec<String> = names.iter().map(|name| encode_colons(name)).collect();
        for name in &file_names {
            let place = directory.join(name);
            if place.symlink_metadata().is_ok() {
                return Err(anyhow!("exists already: `{}`", place.display()))
                    .hint("remove it, or pass another `--output-dir`");
            }
        }
        Ok(Self {
            directory: directory.to_owned(),
            staging: StagedDir::beside(&directory.join("artifacts"))?,
            names,
        })
    }

    /// The directory to write an artifact to.
    fn place(&self, name: &str) -> PathBuf {
        self.staging.path().join(encode_colons(name))
    }

    /// The path of a file of an artifact. The directory for it exists.
    pub fn path(&self, name: &str, basedir: &RelPath, path: &RelPath) -> Result<PathBuf> {
        let place = local_path(&self.place(name), &basedir.join(path));
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(place)
    }

    /// Adds a directory or a symlink to an artifact. A file is left to the caller, who gets its path
    /// and its facts.
    pub fn add<'a>(
        &self,
        name: &str,
        file: &'a TreeFile,
    ) -> Result<Option<(PathBuf, &'a FileFacts)>> {
        let to = self.path(name, &file.basedir, &file.path)?;
        match &file.content {
            TreeContent::Directory => fs::create_dir_all(&to)?,
            TreeContent::Link { text, .. } => symlink(text, &to)?,
            TreeContent::File(facts) => return Ok(Some((to, facts))),
        }
        Ok(None)
    }

    /// Writes the manifest of an artifact.
    pub fn describe<'a>(
        &self,
        name: &str,
        basedirs: impl IntoIterator<Item = &'a RelPath>,
    ) -> Result<()> {
        let place = self.place(name);
        fs::create_dir_all(&place)?;
        let manifest: String =
            basedirs.into_iter().flat_map(|basedir| [basedir.as_str(), "\n"]).collect();
        Ok(fs::write(place.join(ArtifactManifest::FILE_NAME), manifest)?)
    }

    /// Renames all artifacts to their final names.
    pub fn finish(self) -> Result<()> {
        let mark = self.directory.join(MARK);
        let lines = self.names.iter().map(|name| {
            let content = digest_directory(&self.place(name)).map(|digest| digest.to_string());
            format!("{name} {}\n", content.as_deref().unwrap_or("-"))
        });
        atomic::write(&mark, lines.collect::<String>())?;
        for name in &self.names {
            fs::rename(self.place(name), self.directory.join(name))?;
        }
        Ok(fs::remove_file(mark)?)
    }
}

/// Creates a symlink with this text. The target is not checked.
#[cfg(unix)]
fn symlink(text: &str, place: &Path) -> Result<()> {
    Ok(fs::os::unix::fs::symlink(text, place)?)
}

#[cfg(not(unix))]
fn symlink(text: &str, place: &Path) -> Result<()> {
    rocwheel_base::error::bail!(
        "symlinks cannot be written here: `{}` to `{text}`",
        place.display()
    )
}

/// Fails if a split into this directory was killed before all of its artifacts had their names.
pub(super) fn ensure_finished(directory: &Path) -> Result<()> {
    if !directory.join(MARK).exists() {
        return Ok(());
    }
    Err(anyhow!("the split into `{}` is not whole", directory.display()))
        .hint("run the same `rocwheel split` again")
}

/// Removes the artifacts of a killed process. Fails if an artifact has changed since: then it has the work
/// of somebody else.
fn clear_unfinished(directory: &Path) -> Result<()> {
    let mark = directory.join(MARK);
    let list = match read_text(&mark) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        list => list?,
    };
    // Nothing is removed before all artifacts are looked at.
    let mut unfinished = Vec::new();
    for line in list.lines() {
        let (name, content) = line.split_once(' ').unwrap_or((line, "-"));
        let place = directory.join(name);
        // The file may be damaged or forged: only what has the name of an artifact is looked at.
        if ArtifactName::of_file(name).is_err() || place.symlink_metadata().is_err() {
            continue;
        }
        let is_unchanged =
            digest_directory(&place).is_some_and(|digest| digest.to_string() == content);
        if !is_unchanged {
            return Err(anyhow!("`{}` changed after a split was killed", place.display()))
                .hint("remove it, or pass another `--output-dir`");
        }
        unfinished.push(place);
    }
    for place in unfinished {
        atomic::clear(&place)?;
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
        // The state after a kill between the two renames.
        let content = digest_directory(&directory.join("a_lib_generic")).unwrap();
        let list = format!("a_lib_generic {content}\na_lib_gfx942 -\n../kept -\nkept -\n");
        fs::remove_dir(directory.join("a_lib_gfx942")).unwrap();
        fs::create_dir(directory.join("kept")).unwrap();
        fs::write(directory.join(MARK), &list).unwrap();
        assert!(ensure_finished(directory).is_err());
        // Somebody has made the artifact meanwhile that was not there, or has added a file.
        for theirs in ["a_lib_gfx942/thesis.txt", "a_lib_generic/thesis.txt"] {
            let theirs = directory.join(theirs);
            fs::create_dir_all(theirs.parent().unwrap()).unwrap();
            fs::write(&theirs, "theirs").unwrap();
            let refused = ArtifactOutput::new(directory, names()).unwrap_err();
            assert!(refused.to_string().contains("changed after a split was killed"));
            assert!(theirs.exists() && there(MARK));
            fs::remove_file(&theirs).unwrap();
        }
        fs::remove_dir(directory.join("a_lib_gfx942")).unwrap();
        drop(ArtifactOutput::new(directory, names()).unwrap());
        assert!(!there("a_lib_generic") && !there(MARK) && there("kept"));
        ensure_finished(directory).unwrap();
    }
}
