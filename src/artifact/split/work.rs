//! Carries out a split: copies files, rewrites binaries without their device code, and compresses
//! the code into archives. The work runs on all cores, with bounded memory.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;

use super::{
    ArchiveId, ArchivePlace, CodeRemoval, SplitPlan,
    memory::{LentMemory, MemoryPool},
};
use crate::{
    artifact::{FileAt, TreeFile},
    elf::{Patch, PatchedReader},
    error::{Context as _, Result, Stop, ensure},
    kpack::{
        CodeTarget,
        archive::{ArchiveWriter, CodeOrigin, KpackScheme, Packed, key},
        bundle::{self, Bundle, BundleEntry, BundleForm},
    },
    parallel::{Divide, in_parts},
};

/// Memory for decoded bundles and for compressed code that is not written yet. A bundle that is
/// larger is decoded while no other is.
const ROOM: u64 = 512 << 20;

/// Size of the buffer for rewriting a binary.
const AT_ONCE: usize = 1 << 20;

/// One task. A `Code` task has one part for each code object of its bundle.
pub(super) enum SplitTask<'a> {
    Copy {
        from: &'a Path,
        to: PathBuf,
    },
    Host {
        from: &'a Path,
        plan: Arc<Patch>,
        to: PathBuf,
    },
    /// The device code of one bundle of a binary.
    Code {
        file: &'a TreeFile,
        loss: &'a CodeRemoval,
        ordinal: usize,
        bundle: &'a Bundle,
    },
}

/// The archives of one artifact while they are being written.
pub struct ArchiveSet<'a> {
    splitting: &'a SplitPlan<'a>,
    open: BTreeMap<ArchiveId, ArchiveWriter<io::BufWriter<fs::File>>>,
}

/// The code objects of a bundle, and the bundle itself if it was compressed.
struct OpenBundle<'a> {
    entries: Vec<(CodeTarget, BundleEntry)>,
    decoded: Option<LentMemory<'a>>,
}

struct PackedCode {
    target: CodeTarget,
    id: String,
    packed: Packed,
}

struct SplitWork<'a> {
    progress: &'a (dyn Fn(u64) + Sync),
    memory: &'a MemoryPool,
}

impl<'a> SplitTask<'a> {
    /// The code of all bundles of a binary.
    pub(super) fn code(
        file: &'a TreeFile,
        loss: &'a CodeRemoval,
    ) -> impl Iterator<Item = SplitTask<'a>> {
        let bundles = loss.fat.bundles.iter().enumerate();
        bundles.map(move |(ordinal, bundle)| Self::Code {
            file,
            loss,
            ordinal,
            bundle,
        })
    }
}

impl<'a> ArchiveSet<'a> {
    /// Creates an empty file for each archive, at the path that `place` returns.
    pub fn new(
        splitting: &'a SplitPlan<'a>,
        mut place: impl FnMut(&ArchivePlace) -> Result<PathBuf>,
    ) -> Result<Self> {
        let group = splitting.prefix();
        let open = splitting.places.iter().map(|(id, at)| {
            let out = io::BufWriter::new(fs::File::create(place(at)?)?);
            let writer = ArchiveWriter::new(out, &group, id.1.as_str(), KpackScheme::Zstd)?;
            Ok((id.clone(), writer))
        });
        Ok(Self {
            splitting,
            open: open.collect::<Result<_>>()?,
        })
    }

    /// Compresses the code into the archives, without copying files or rewriting binaries.
    pub fn fill(
        &mut self,
        jobs: NonZeroUsize,
        stop: &Stop,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let losses = self.splitting.losses();
        let code = losses.flat_map(|(file, loss)| SplitTask::code(file, loss));
        self.carry_out(&code.collect::<Vec<_>>(), jobs, stop, progress)
    }

    /// Runs the tasks, in any order. Only the code is added to the archives in the order of the
    /// tasks, so that archives are the same with any number of threads. `progress` is called with
    /// the number of bytes done since the last call.
    pub(super) fn carry_out(
        &mut self,
        tasks: &[SplitTask<'_>],
        jobs: NonZeroUsize,
        stop: &Stop,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let memory = &MemoryPool::default();
        let work = SplitWork { progress, memory };
        in_parts(&work, tasks, jobs, ROOM, stop, |index, _, code| {
            match (tasks.get(index), code) {
                (Some(SplitTask::Code { loss, ordinal, .. }), Some(code)) => {
                    self.add(loss, *ordinal, code)
                }
                _ => Ok(()),
            }
        })
    }

    fn add(&mut self, loss: &CodeRemoval, ordinal: usize, code: PackedCode) -> Result<()> {
        let PackedCode { target, id, packed } = code;
        let binary = &loss.binary;
        let origin = CodeOrigin {
            target: id,
            source_prefix: binary.prefix.to_string(),
        };
        let base = target.base();
        let name = self.splitting.archives.name(binary, ordinal, &base);
        let archive = self.open.get_mut(&(name, base)).context("no archive")?;
        let key = key(&binary.kernel_name(), ordinal);
        archive.add(&key, &target, &packed, Some(origin))
    }

    /// Writes the table of contents of every archive. Returns their lengths.
    pub fn finish(self) -> Result<BTreeMap<ArchiveId, u64>> {
        let lens = self.open.into_iter().map(|(id, writer)| {
            let (out, len) = writer.finish()?;
            out.into_inner().context("failed to write an archive")?;
            Ok((id, len))
        });
        lens.collect()
    }
}

impl<'a> Divide for SplitWork<'a> {
    type Item = SplitTask<'a>;
    type Opened = OpenBundle<'a>;
    type Done = Option<PackedCode>;

    fn cost(&self, item: &SplitTask<'a>) -> u64 {
        let SplitTask::Code { bundle, .. } = item else {
            return 0;
        };
        match &bundle.form {
            BundleForm::Raw => bundle.len,
            BundleForm::Compressed(compression) => compression.unpacked,
        }
    }

    fn open(&self, item: &SplitTask<'a>) -> Result<(OpenBundle<'a>, usize)> {
        let mut opened = OpenBundle {
            entries: Vec::new(),
            decoded: None,
        };
        let done = match item {
            SplitTask::Copy { from, to } => fs::copy(from, to)?,
            SplitTask::Host { from, plan, to } => {
                host(from, plan, to).with_context(|| splitting(from))?;
                plan.total_len()
            }
            SplitTask::Code {
                file,
                loss,
                ordinal,
                bundle,
            } => {
                opened = self
                    .open_bundle(&file.source, loss, bundle)
                    .with_context(|| format!("failed to open bundle {ordinal}"))
                    .with_context(|| splitting(&file.source))?;
                bundle.len
            }
        };
        (self.progress)(done);
        let parts = opened.entries.len();
        Ok((opened, parts))
    }

    fn work(
        &self,
        item: &SplitTask<'a>,
        opened: &OpenBundle<'a>,
        part: usize,
    ) -> Result<Option<PackedCode>> {
        let SplitTask::Code {
            file, loss, bundle, ..
        } = item
        else {
            return Ok(None);
        };
        let Some((target, entry)) = opened.entries.get(part) else {
            return Ok(None);
        };
        let packed = match &opened.decoded {
            Some(bytes) => slice(bytes, entry)
                .context("a code object outside of its bundle")
                .and_then(|code| Packed::new(code, KpackScheme::Zstd)),
            None => pack_raw(&file.source, loss, bundle, entry),
        };
        Ok(Some(PackedCode {
            target: target.clone(),
            id: entry.id.clone(),
            packed: packed.with_context(|| splitting(&file.source))?,
        }))
    }
}

impl<'a> SplitWork<'a> {
    fn open_bundle(
        &self,
        file: &Path,
        loss: &CodeRemoval,
        bundle: &Bundle,
    ) -> Result<OpenBundle<'a>> {
        let source = FileAt::open(file)?;
        let memory = match &bundle.form {
            BundleForm::Raw => Vec::new(),
            BundleForm::Compressed(compression) => self.memory.memory(compression.unpacked)?,
        };
        let opened = bundle::open_into(&loss.fat.section(&source)?, bundle, memory)?;
        let entries = opened.code();
        let entries = entries.map(|(target, entry)| (target.clone(), entry.clone()));
        Ok(OpenBundle {
            entries: entries.collect(),
            decoded: opened.into_decoded().map(|bytes| self.memory.lend(bytes)),
        })
    }
}

/// Compresses a code object of a bundle that is not compressed, from the file.
fn pack_raw(
    file: &Path,
    loss: &CodeRemoval,
    bundle: &Bundle,
    entry: &BundleEntry,
) -> Result<Packed> {
    let source = FileAt::open(file)?;
    let start = bundle.offset.saturating_add(entry.offset);
    let section = loss.fat.section(&source)?;
    let code = section.bytes("code object", start, entry.size)?;
    Packed::new(&code, KpackScheme::Zstd)
}

fn slice<'a>(bytes: &'a [u8], entry: &BundleEntry) -> Option<&'a [u8]> {
    let start = usize::try_from(entry.offset).ok()?;
    let end = start.checked_add(usize::try_from(entry.size).ok()?)?;
    bytes.get(start..end)
}

fn host(from: &Path, plan: &Patch, to: &Path) -> Result<()> {
    let source = FileAt::open(from)?;
    let mut out = io::BufWriter::with_capacity(AT_ONCE, fs::File::create(to)?);
    let len = plan.total_len();
    let copied = io::copy(&mut PatchedReader::new(&source, plan.clone()), &mut out)?;
    ensure!(copied == len, "{copied} bytes instead of {len}");
    out.flush()?;
    Ok(fs::set_permissions(to, fs::metadata(from)?.permissions())?)
}

fn splitting(file: &Path) -> String {
    format!("failed to split `{}`", file.display())
}
