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
use crate::artifact::{ArtifactOutput, FileFacts, TreeContent};
use rocwheel_base::{
    error::{Context as _, Result, Stop},
    io::FileAt,
    parallel,
    quantity::{many, size as format_size},
    relpath::RelPath,
    target::Scope,
};
use rocwheel_elf::{Patch, PatchedReader};
use rocwheel_kpack::{
    CodeTarget,
    archive::{self, ArchiveWriter, CodeSource},
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

/// What an artifact of the split has got so far.
#[derive(Default)]
struct SplitPart<'a> {
    files: usize,
    size: u64,
    basedirs: BTreeSet<&'a RelPath>,
}

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
    // The generic artifact is written even if it has no files.
    let mut parts = BTreeMap::from([(Scope::Generic, SplitPart::default())]);
    let mut count = |scope: &Scope, basedir, files, size| {
        let part = parts.entry(scope.clone()).or_default();
        part.files += files;
        part.size += size;
        part.basedirs.insert(basedir);
    };
    let mut copies = Vec::new();
    for (file, action) in &splitting.files {
        stop.check()?;
        let scope = action.scope();
        let mut len = 0;
        if let Some((to, facts)) = output.add(&name(&scope), file)? {
            let patch = match action {
                SplitAction::RemoveCode(loss) => Some(&*loss.patch),
                _ => None,
            };
            copies.push((&*file.source, patch, to));
            len = patch.map_or(facts.len, Patch::total_len);
        }
        let files = usize::from(file.content != TreeContent::Directory);
        count(&scope, &*file.basedir, files, len);
    }
    parallel::try_map(&copies, jobs, stop, |(from, patch, to)| {
        let len = match patch {
            None => fs::copy(from, to)?,
            Some(patch) => write_patched(from, patch, to)
                .with_context(|| format!("failed to split `{}`", from.display()))?,
        };
        progress(len);
        Ok(())
    })?;
    let path_of =
        |place: &ArchivePlace| output.path(&name(&place.scope), &place.basedir, &place.path);
    for (place, len) in write_archives(splitting, path_of, jobs, stop, progress)? {
        count(&place.scope, &place.basedir, 1, len);
    }
    let mut written = Vec::new();
    for (scope, part) in parts {
        let name = name(&scope);
        let basedirs = splitting.artifact.basedirs.iter().map(|basedir| &**basedir);
        output.describe(&name, basedirs.filter(|basedir| part.basedirs.contains(basedir)))?;
        written.push(WrittenArtifact { name, files: part.files, size: part.size });
    }
    Ok(written)
}

/// Writes the archives of an artifact, to the paths that `path_of` returns. Returns the length of each
/// archive. `progress` is called with the number of bytes done since the last call.
pub fn write_archives<'a>(
    splitting: &'a SplitPlan<'_>,
    mut path_of: impl FnMut(&ArchivePlace) -> Result<PathBuf>,
    jobs: NonZeroUsize,
    stop: &Stop,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<(&'a ArchivePlace, u64)>> {
    let group = prefix(&splitting.artifact.name);
    let mut archives = BTreeMap::new();
    for (id, place) in &splitting.places {
        let out = io::BufWriter::new(fs::File::create(path_of(place)?)?);
        let writer = ArchiveWriter::new(out, &group, id.1.as_str())?;
        archives.insert(id.clone(), writer);
    }
    let losses: Vec<_> = splitting.losses().collect();
    let sources: Vec<CodeSource<'_>> = losses
        .iter()
        .map(|(file, loss)| CodeSource {
            name: file.source.display().to_string(),
            bundles: &loss.fat,
            binary: &loss.binary,
            open: Box::new(|| Ok(Box::new(FileAt::open(&file.source)?))),
            is_verified: false,
        })
        .collect();
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
    // Both maps have the same keys, so their values are in the same order.
    let mut written = Vec::new();
    for (place, writer) in splitting.places.values().zip(archives.into_values()) {
        let (out, len) = writer.finish()?;
        out.into_inner().context("failed to write an archive")?;
        written.push((place, len));
    }
    Ok(written)
}

/// Writes a file with the changes of a patch. Returns its new length.
fn write_patched(from: &Path, patch: &Patch, to: &Path) -> Result<u64> {
    let source = FileAt::open(from)?;
    let mut out = io::BufWriter::with_capacity(AT_ONCE, fs::File::create(to)?);
    let len = io::copy(&mut PatchedReader::new(&source, patch.clone()), &mut out)?;
    out.flush()?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    Ok(len)
}
