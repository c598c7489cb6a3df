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
    observe::{SplitAction, SplitPlan},
    work::{ArchiveSet, BundleCode, SplitTask, carry_out},
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
    counts: BTreeMap<Scope, (usize, u64)>,
    prefixes: BTreeMap<Scope, BTreeSet<RelPath>>,
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
        counts: BTreeMap::from([(Scope::Generic, (0, 0))]),
        prefixes: BTreeMap::new(),
    };
    let mut pieces = Vec::new();
    for (file, fate) in &splitting.files {
        stop.check()?;
        match fate {
            SplitAction::Stays => pieces.extend(parts.copy(&Scope::Generic, file)?),
            SplitAction::Moves(target) => {
                pieces.extend(parts.copy(&Scope::Target(target.clone()), file)?);
            }
            SplitAction::Loses(loss) => {
                let to = parts.place(&Scope::Generic, &file.basedir, &file.path)?;
                parts.count(&Scope::Generic, loss.plan.total_len());
                pieces.push(SplitTask::Host {
                    from: &file.source,
                    plan: Arc::clone(&loss.plan),
                    to,
                });
                pieces.extend(BundleCode::of(file, loss).map(SplitTask::Code));
            }
        }
    }
    let places = splitting.places()?;
    let mut archives = ArchiveSet::new(splitting, |_, at| {
        parts.place(&at.scope, &at.basedir, &at.path)
    })?;
    carry_out(&pieces, &mut archives, jobs, stop, progress)?;
    for (id, written) in archives.finish()? {
        if let Some(place) = places.get(&id) {
            parts.count(&place.scope, written.len);
        }
    }
    parts.finish()
}

impl SplitParts<'_> {
    /// The path of a file in the artifact for `scope`. Creates the directories above it.
    fn place(&mut self, scope: &Scope, basedir: &RelPath, path: &RelPath) -> Result<PathBuf> {
        let prefixes = self.prefixes.entry(scope.clone()).or_default();
        prefixes.insert(basedir.clone());
        let directory = self.output.place(&self.splitting.name(scope).to_string());
        let place = directory.join(basedir.join(path).as_str());
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(place)
    }

    fn count(&mut self, scope: &Scope, len: u64) {
        let count = self.counts.entry(scope.clone()).or_default();
        *count = (count.0 + 1, count.1 + len);
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
        let mut written = Vec::new();
        for (scope, (files, size)) in &self.counts {
            let name = self.splitting.name(scope).to_string();
            let place = self.output.place(&name);
            fs::create_dir_all(&place)?;
            let has = self.prefixes.get(scope);
            let basedirs = self.splitting.artifact.basedirs.iter();
            let lines = basedirs
                .filter(|basedir| has.is_some_and(|has| has.contains(&***basedir)))
                .map(|basedir| format!("{basedir}\n"));
            let manifest = lines.collect::<String>();
            fs::write(place.join(ArtifactManifest::FILE_NAME), manifest)?;
            written.push(WrittenArtifact {
                name,
                files: *files,
                size: *size,
            });
        }
        Ok(written)
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
