//! Carries out a split: copies files, rewrites binaries without their device code, and compresses
//! the code into archives. The work runs on all cores, with bounded memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use fs_err as fs;
use serde::Serialize;

use super::{ArchivePlace, CodeRemoval, SplitAction, SplitPlan, prefix};
use crate::{
    artifact::{ArtifactOutput, FileAt, FileStamp, TreeContent},
    console::{many, size as format_size},
    elf::{Patch, PatchedReader},
    error::{Context as _, Result, Stop, bail, ensure},
    kpack::{
        ByteRegion, CodeTarget,
        archive::{ArchiveWriter, CodeOrigin, Packed, key},
        bundle::{self, Bundle, BundleEntry},
    },
    parallel::{Divide, in_parts},
    relpath::RelPath,
    target::Scope,
};

/// Memory for decoded bundles and for compressed code that is not written yet. A bundle that is
/// larger is decoded while no other is.
const ROOM: u64 = 512 << 20;

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
            let from = &*file.source;
            files.push(SplitTask::File { from, patch, to });
            len = patch.map_or(facts.len, Patch::total_len);
        }
        let count = usize::from(file.content != TreeContent::Directory);
        add(&scope, &*file.basedir, count, len);
    }
    let to = |at: &ArchivePlace| output.path(&name(&at.scope), &at.basedir, &at.path);
    for (at, len) in write_archives(splitting, files, to, jobs, stop, progress)? {
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

/// One task. A `Code` task has one part for each code object of its bundle.
pub enum SplitTask<'a> {
    /// Copies a file, with changes if there is a patch.
    File {
        from: &'a Path,
        patch: Option<&'a Patch>,
        to: PathBuf,
    },
    /// The device code of one bundle of a binary.
    Code {
        from: &'a Path,
        loss: &'a CodeRemoval,
        ordinal: usize,
        bundle: &'a Bundle,
    },
}

/// Writes the archives of an artifact, to the paths that `place` returns, and carries out the tasks
/// for other files. Returns the length of each archive.
///
/// The tasks run in any order. Only the code is added to the archives in the order of the binaries,
/// so that archives are the same with any number of threads. `progress` is called with the number of
/// bytes done since the last call.
pub fn write_archives<'a>(
    splitting: &'a SplitPlan<'_>,
    mut tasks: Vec<SplitTask<'a>>,
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
        archives.insert(id, writer);
    }
    for (file, loss) in splitting.losses() {
        let bundles = loss.fat.bundles.iter().enumerate();
        tasks.extend(bundles.map(|(ordinal, bundle)| SplitTask::Code {
            from: &file.source,
            loss,
            ordinal,
            bundle,
        }));
    }
    let pool = &MemoryPool::default();
    let work = SplitWork { progress, pool };
    in_parts(&work, &tasks, jobs, ROOM, stop, |index, _, code| {
        let Some(SplitTask::Code { loss, ordinal, .. }) = tasks.get(index) else {
            return Ok(());
        };
        let (target, origin, packed) = code;
        let (binary, base) = (&loss.binary, target.base());
        let name = splitting.archives.name(binary, *ordinal, &base);
        let archive = archives.get_mut(&(name, base)).context("no archive")?;
        let key = key(&binary.kernel_name, *ordinal);
        archive.add(&key, &target, &packed, Some(origin))
    })?;
    // A linker that ran meanwhile may have left a file of the same length, and the archives would
    // have code of both.
    for (file, loss) in splitting.losses() {
        ensure!(
            FileStamp::of(&file.source)? == loss.stamp,
            "`{}` changed while its device code was read",
            file.source.display()
        );
    }
    let archives = splitting.places.values().zip(archives.into_values());
    let lens = archives.map(|(at, writer)| {
        let (out, len) = writer.finish()?;
        out.into_inner().context("failed to write an archive")?;
        Ok((at, len))
    });
    lens.collect()
}

struct SplitWork<'a> {
    progress: &'a (dyn Fn(u64) + Sync),
    pool: &'a MemoryPool,
}

/// The code objects of a bundle, and the bundle itself if it was compressed.
struct OpenBundle<'a> {
    entries: Vec<(CodeTarget, BundleEntry)>,
    decoded: Vec<u8>,
    pool: &'a MemoryPool,
}

impl<'a> Divide for SplitWork<'a> {
    type Item = SplitTask<'a>;
    type Opened = OpenBundle<'a>;
    type Done = (CodeTarget, CodeOrigin, Packed);

    fn cost(&self, task: &SplitTask<'a>) -> u64 {
        match task {
            SplitTask::File { .. } => 0,
            SplitTask::Code { bundle, .. } => bundle.unpacked(),
        }
    }

    fn open(&self, task: &SplitTask<'a>) -> Result<(OpenBundle<'a>, usize)> {
        let mut opened = OpenBundle {
            entries: Vec::new(),
            decoded: Vec::new(),
            pool: self.pool,
        };
        let done = match task {
            SplitTask::File { from, patch, to } => match patch {
                None => fs::copy(from, to)?,
                Some(patch) => changed(from, patch, to).with_context(|| splitting(from))?,
            },
            SplitTask::Code {
                from,
                loss,
                ordinal,
                bundle,
            } => {
                opened
                    .read(from, loss, bundle)
                    .with_context(|| format!("failed to open bundle {ordinal}"))
                    .with_context(|| splitting(from))?;
                bundle.len
            }
        };
        (self.progress)(done);
        let parts = opened.entries.len();
        Ok((opened, parts))
    }

    fn work(
        &self,
        task: &SplitTask<'a>,
        opened: &OpenBundle<'a>,
        part: usize,
    ) -> Result<(CodeTarget, CodeOrigin, Packed)> {
        let (
            SplitTask::Code {
                from, loss, bundle, ..
            },
            Some((target, entry)),
        ) = (task, opened.entries.get(part))
        else {
            bail!("a task without code");
        };
        let origin = CodeOrigin {
            target: entry.id.clone(),
            source_prefix: loss.binary.prefix.to_string(),
        };
        let code = if bundle.compression.is_some() {
            let decoded = ByteRegion::whole(&opened.decoded);
            decoded.bytes("code object", entry.offset, entry.size)
        } else {
            let start = bundle.offset.saturating_add(entry.offset);
            let source = FileAt::open(from)?;
            let section = loss.fat.section(&source)?;
            section.bytes("code object", start, entry.size)
        };
        let packed = code.and_then(|code| Packed::new(&code));
        Ok((
            target.clone(),
            origin,
            packed.with_context(|| splitting(from))?,
        ))
    }
}

impl OpenBundle<'_> {
    fn read(&mut self, file: &Path, loss: &CodeRemoval, bundle: &Bundle) -> Result<()> {
        let source = FileAt::open(file)?;
        let section = loss.fat.section(&source)?;
        let memory = match bundle.compression {
            None => Vec::new(),
            Some(_) => self.pool.take(usize::try_from(bundle.unpacked())?),
        };
        let opened = bundle::open_into(&section, bundle, memory)?;
        let entries = opened.code();
        let entries = entries.map(|(target, entry)| (target.clone(), entry.clone()));
        self.entries = entries.collect();
        self.decoded = opened.into_decoded().unwrap_or_default();
        Ok(())
    }
}

impl Drop for OpenBundle<'_> {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.decoded));
    }
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

fn splitting(file: &Path) -> String {
    format!("failed to split `{}`", file.display())
}

/// Buffers that the threads reuse. Decoded bundles have hundreds of megabytes, and getting fresh
/// pages from the system takes as long as decoding into them.
#[derive(Default)]
struct MemoryPool(Mutex<Vec<Vec<u8>>>);

/// At most so many bytes are kept while they are unused. They come on top of what is in use.
const IDLE: usize = 128 << 20;
/// A buffer of this size is never too large for its use.
const SMALL: usize = 4 << 20;

impl MemoryPool {
    /// A buffer of at least `len` bytes, but not of much more; an empty one if there is none.
    fn take(&self, len: usize) -> Vec<u8> {
        let mut idle = self.lock();
        let sizes = idle.iter().map(Vec::capacity).enumerate();
        let best = sizes
            .filter(|(_, size)| *size >= len && size / 2 <= len.max(SMALL))
            .min_by_key(|(_, size)| *size);
        best.map(|(index, _)| idle.swap_remove(index))
            .unwrap_or_default()
    }

    fn give(&self, bytes: Vec<u8>) {
        let mut idle = self.lock();
        let used: usize = idle.iter().map(Vec::capacity).sum();
        if bytes.capacity() > 0 && used.saturating_add(bytes.capacity()) <= IDLE {
            idle.push(bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_by_what_is_nearly_as_large() {
        let pool = MemoryPool::default();
        pool.give(Vec::with_capacity(32 << 20));
        pool.give(Vec::with_capacity(31 << 20));
        assert_eq!(pool.take(30 << 20).capacity(), 31 << 20);
        assert_eq!(pool.take(15 << 20).capacity(), 0);
        assert_eq!(pool.take(31 << 20).capacity(), 32 << 20);
        assert_eq!(pool.take(31 << 20).capacity(), 0);
    }

    #[test]
    fn idle_memory_is_bounded() {
        let pool = MemoryPool::default();
        pool.give(Vec::with_capacity(100 << 20));
        pool.give(Vec::with_capacity(40 << 20));
        let idle: usize = pool.lock().iter().map(Vec::capacity).sum();
        assert_eq!(idle, 100 << 20);
    }
}
