//! Carries out a split: copies files, rewrites binaries without their device code, and compresses
//! the code into archives. The work runs on all cores, with bounded memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::Serialize;

use super::{ArchivePlace, SplitAction, SplitPlan, prefix};
use crate::{
    artifact::{ArtifactOutput, FileFacts, TreeContent},
    elf::{Patch, PatchedReader},
    error::{Context as _, Result, Stop},
    io::FileAt,
    kpack::{
        CodeTarget,
        archive::{self, ArchiveWriter, CodeSource},
    },
    parallel,
    quantity::{many, size as format_size},
    relpath::RelPath,
    target::Scope,
};

/// Size of the buffer for rewriting a binary.
const AT_ONCE: usize = 1 << 20;

/// An artifact that was written, with its statistics.
#[derive(Clone, Debug, derive_more::Display, Serialize)]
#[display("{name}: {}, {}", many(*files, "file"), format_size(*size))]
pub struct WrittenArtifact {
    pub name: String,
    pub files: usize,
    pub size: u64,
}

/// The statistics of each artifact: the number of files, their size, and the base directories.
type SplitParts<'a> = BTreeMap<Scope, (usize, u64, BTreeSet<&'a RelPath>)>;

/// Writes the parts of an artifact into a staged directory. `progress` gets the number of bytes done
/// since the last call.
pub fn write(
    splitting: &SplitPlan<'_>,
    output: &ArtifactOutput,
    jobs: NonZeroUsize,
    stop: &Stop,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<WrittenArtifact>> {
    let name = |scope: &Scope| splitting.name(scope).to_string();
    let mut parts = SplitParts::from([(Scope::Generic, Default::default())]);
    let mut add = |scope: &Scope, basedir, files, len| {
        let part = parts.entry(scope.clone()).or_default();
        part.0 += files;
        part.1 += len;
        part.2.insert(basedir);
    };
    let mut files = Vec::new();
    for (file, action) in &splitting.files {
        stop.check()?;
        let scope = action.scope();
        let mut len = 0;
        if let Some((to, facts)) = output.add(&name(&scope), file)? {
            let patch = match action {
                SplitAction::Loses(loss) => Some(&*loss.plan),
                _ => None,
            };
            files.push((&*file.source, patch, to));
            len = patch.map_or(facts.len, Patch::total_len);
        }
        let count = usize::from(file.content != TreeContent::Directory);
        add(&scope, &*file.basedir, count, len);
    }
    parallel::try_map(&files, jobs, stop, |(from, patch, to)| {
        let len = match patch {
            None => fs::copy(from, to)?,
            Some(patch) => changed(from, patch, to).with_context(|| splitting_of(from))?,
        };
        progress(len);
        Ok(())
    })?;
    let to = |at: &ArchivePlace| output.path(&name(&at.scope), &at.basedir, &at.path);
    for (at, len) in write_archives(splitting, to, jobs, stop, progress)? {
        add(&at.scope, &at.basedir, 1, len);
    }
    let written = parts.into_iter().map(|(scope, (files, size, has))| {
        let name = name(&scope);
        let basedirs = splitting.artifact.basedirs.iter().map(|basedir| &**basedir);
        output.describe(&name, basedirs.filter(|basedir| has.contains(basedir)))?;
        Ok(WrittenArtifact { name, files, size })
    });
    written.collect()
}

/// Writes the archives of an artifact, to the paths that `place` returns. Returns the length of each
/// archive. `progress` is called with the number of bytes done since the last call.
pub fn write_archives<'a>(
    splitting: &'a SplitPlan<'_>,
    mut place: impl FnMut(&ArchivePlace) -> Result<PathBuf>,
    jobs: NonZeroUsize,
    stop: &Stop,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<(&'a ArchivePlace, u64)>> {
    let group = prefix(&splitting.artifact.name);
    let mut archives = BTreeMap::new();
    for (id, at) in &splitting.places {
        let out = io::BufWriter::new(fs::File::create(place(at)?)?);
        let writer = ArchiveWriter::new(out, &group, id.1.as_str())?;
        archives.insert(id.clone(), writer);
    }
    let losses: Vec<_> = splitting.losses().collect();
    let sources = losses.iter().map(|(file, loss)| CodeSource {
        name: file.source.display().to_string(),
        fat: &loss.fat,
        binary: &loss.binary,
        open: Box::new(|| Ok(Box::new(FileAt::open(&file.source)?))),
        is_verified: false,
    });
    let sources: Vec<CodeSource<'_>> = sources.collect();
    let archive_of = |index: usize, ordinal: usize, target: &CodeTarget| -> Result<_> {
        let (_, loss) = losses.get(index).context("no such binary")?;
        let base = target.base();
        let name = splitting.archives.name(&loss.binary, ordinal, &base);
        Ok(Some((name, base)))
    };
    archive::write_archives(&mut archives, &sources, &archive_of, jobs, stop, progress)?;
    // A linker that ran meanwhile may have left a file of the same length, and the archives would
    // have code of both.
    for (file, _) in losses {
        if let TreeContent::File(FileFacts { identity: Some(identity), .. }) = &file.content {
            identity.ensure_at(&file.source, "while its device code was read")?;
        }
    }
    let archives = splitting.places.values().zip(archives.into_values());
    let lens = archives.map(|(at, writer)| {
        let (out, len) = writer.finish()?;
        out.into_inner().context("failed to write an archive")?;
        Ok((at, len))
    });
    lens.collect()
}

/// Writes a file with changes. Returns its new length.
fn changed(from: &Path, patch: &Patch, to: &Path) -> Result<u64> {
    let source = FileAt::open(from)?;
    let mut out = io::BufWriter::with_capacity(AT_ONCE, fs::File::create(to)?);
    let len = io::copy(&mut PatchedReader::new(&source, patch.clone()), &mut out)?;
    out.flush()?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    Ok(len)
}

fn splitting_of(file: &Path) -> String {
    format!("failed to split `{}`", file.display())
}
