//! Writes the artifacts that a split creates, into a staged directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;
use serde::Serialize;

use super::{
    SplitAction, SplitPlan,
    work::{ArchiveSet, SplitTask},
};
use crate::{
    artifact::{ArtifactManifest, ArtifactOutput, TreeContent, TreeFile},
    error::{Result, Stop},
    relpath::RelPath,
    target::Scope,
};

/// An artifact that was written, with its statistics.
#[derive(Clone, Debug, Serialize)]
pub struct WrittenArtifact {
    pub name: String,
    pub files: usize,
    pub size: u64,
}

/// The artifacts that are being written, with the statistics and the base directories of each.
struct SplitParts<'a> {
    splitting: &'a SplitPlan<'a>,
    output: &'a ArtifactOutput,
    /// For each scope: the number of files, their size, and the base directories.
    parts: BTreeMap<Scope, (usize, u64, BTreeSet<RelPath>)>,
}

/// Writes the parts of an artifact. `progress` gets the number of bytes done since the last call.
pub fn write(
    splitting: &SplitPlan<'_>,
    output: &ArtifactOutput,
    jobs: NonZeroUsize,
    stop: &Stop,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<WrittenArtifact>> {
    let mut parts = SplitParts {
        splitting,
        output,
        parts: BTreeMap::from([(Scope::Generic, (0, 0, BTreeSet::new()))]),
    };
    let mut pieces = Vec::new();
    for (file, action) in &splitting.files {
        stop.check()?;
        let SplitAction::Loses(loss) = action else {
            pieces.extend(parts.copy(&action.scope(), file)?);
            continue;
        };
        let to = parts.place(&Scope::Generic, &file.basedir, &file.path)?;
        parts.count(&Scope::Generic, loss.plan.total_len());
        pieces.push(SplitTask::Host {
            from: &file.source,
            plan: Arc::clone(&loss.plan),
            to,
        });
        pieces.extend(SplitTask::code(file, loss));
    }
    let mut archives = ArchiveSet::new(splitting, |at| {
        parts.place(&at.scope, &at.basedir, &at.path)
    })?;
    archives.carry_out(&pieces, jobs, stop, progress)?;
    for (id, len) in archives.finish()? {
        if let Some(place) = splitting.places.get(&id) {
            parts.count(&place.scope, len);
        }
    }
    parts.finish()
}

impl SplitParts<'_> {
    /// The path of a file in the artifact for `scope`. Creates the directories above it.
    fn place(&mut self, scope: &Scope, basedir: &RelPath, path: &RelPath) -> Result<PathBuf> {
        let part = self.parts.entry(scope.clone()).or_default();
        part.2.insert(basedir.clone());
        let directory = self.output.place(&self.splitting.name(scope).to_string());
        let place = directory.join(basedir.join(path).as_str());
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(place)
    }

    fn count(&mut self, scope: &Scope, len: u64) {
        let part = self.parts.entry(scope.clone()).or_default();
        part.0 += 1;
        part.1 += len;
    }

    /// Creates directories and symlinks at once; returns a task for a file with contents.
    fn copy<'f>(&mut self, scope: &Scope, file: &'f TreeFile) -> Result<Option<SplitTask<'f>>> {
        let to = self.place(scope, &file.basedir, &file.path)?;
        match &file.content {
            TreeContent::Directory => fs::create_dir_all(&to)?,
            TreeContent::File(facts) => {
                self.count(scope, facts.len);
                let from = &file.source;
                return Ok(Some(SplitTask::Copy { from, to }));
            }
            TreeContent::Link { text, .. } => {
                link(text, &to)?;
                self.count(scope, 0);
            }
        }
        Ok(None)
    }

    /// Writes the manifest of every part.
    fn finish(self) -> Result<Vec<WrittenArtifact>> {
        let written = self.parts.into_iter().map(|(scope, (files, size, has))| {
            let name = self.splitting.name(&scope).to_string();
            let place = self.output.place(&name);
            fs::create_dir_all(&place)?;
            let basedirs = self.splitting.artifact.basedirs.iter();
            let basedirs = basedirs.filter(|basedir| has.contains(&***basedir));
            let lines = basedirs.flat_map(|basedir| [basedir.as_str(), "\n"]);
            let manifest = lines.collect::<String>();
            fs::write(place.join(ArtifactManifest::FILE_NAME), manifest)?;
            Ok(WrittenArtifact { name, files, size })
        });
        written.collect()
    }
}

/// Creates a symlink with this text. The target is not checked.
#[cfg(unix)]
pub(in crate::artifact) fn link(text: &str, place: &Path) -> Result<()> {
    Ok(fs::os::unix::fs::symlink(text, place)?)
}

#[cfg(not(unix))]
pub(in crate::artifact) fn link(text: &str, place: &Path) -> Result<()> {
    crate::error::bail!(
        "symlinks cannot be written here: `{}` to `{text}`",
        place.display()
    )
}
