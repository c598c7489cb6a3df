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
    memory::{LentMemory, MemoryPool},
    observe::{ArchiveId, CodeRemoval, SplitPlan},
};
use crate::{
    artifact::{FileAt, TreeFile},
    elf::{Patch, PatchedReader},
    error::{Context as _, Result, Stop, ensure},
    kpack::{
        ByteRegion, CodeTarget,
        archive::{ArchiveWriter, CodeOrigin, KpackScheme, Packed, WrittenArchive, key},
        bundle::{self, BundleEntry, BundleForm},
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
    Code(BundleCode<'a>),
}

/// The device code of one bundle of a binary.
pub struct BundleCode<'a> {
    file: &'a TreeFile,
    loss: &'a CodeRemoval,
    ordinal: usize,
}

/// The archives of one artifact while they are being written.
pub struct ArchiveSet<'a> {
    splitting: &'a SplitPlan<'a>,
    open: BTreeMap<ArchiveId, ArchiveWriter<io::BufWriter<fs::File>>>,
}

/// Runs the tasks, in any order. Only the code is added to the archives in the order of the tasks,
/// so that archives are the same with any number of threads. `progress` is called with the number
/// of bytes done since the last call.
pub(super) fn carry_out(
    pieces: &[SplitTask<'_>],
    archives: &mut ArchiveSet<'_>,
    jobs: NonZeroUsize,
    stop: &Stop,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    let tools = MemoryPool::default();
    in_parts(
        &SplitWork {
            progress,
            tools: &tools,
        },
        pieces,
        jobs,
        ROOM,
        stop,
        |index, _, done| match pieces.get(index) {
            Some(SplitTask::Code(code)) => archives.add(code, done),
            _ => Ok(()),
        },
    )
}

impl<'a> SplitPlan<'a> {
    /// The code of all bundles that are taken out of binaries.
    pub fn code(&'a self) -> impl Iterator<Item = BundleCode<'a>> {
        self.losses()
            .flat_map(|(file, loss)| BundleCode::of(file, loss))
    }
}

impl<'a> BundleCode<'a> {
    /// The code of all bundles of one binary.
    pub(super) fn of(file: &'a TreeFile, loss: &'a CodeRemoval) -> impl Iterator<Item = Self> {
        (0..loss.fat.bundles.len()).map(move |ordinal| Self {
            file,
            loss,
            ordinal,
        })
    }

    fn bundle(&self) -> Result<&'a bundle::Bundle> {
        let bundle = self.loss.fat.bundles.get(self.ordinal);
        bundle.context("a bundle came up")
    }

    fn open<'t>(&self, tools: &'t MemoryPool) -> Result<OpenBundle<'t>> {
        let source = FileAt::open(&self.file.source)?;
        let section = self.loss.fat.section(&source)?;
        let bundle = self.bundle()?;
        let memory = match &bundle.form {
            BundleForm::Raw => Vec::new(),
            BundleForm::Compressed(compression) => tools.memory(compression.unpacked)?,
        };
        let opened = bundle::open_into(&section, bundle, memory)
            .with_context(|| format!("failed to open bundle {}", self.ordinal))?;
        let entries = opened.code();
        let entries = entries.map(|(target, entry)| (target.clone(), entry.clone()));
        Ok(OpenBundle {
            entries: entries.collect(),
            bytes: match opened.into_decoded() {
                Some(bytes) => BundleBytes::Decoded(tools.lend(bytes)),
                None => BundleBytes::There {
                    start: self.loss.fat.code.start.saturating_add(bundle.offset),
                    source,
                },
            },
        })
    }
}

impl<'a> ArchiveSet<'a> {
    /// Creates an empty file for each archive, at the path that `place` returns.
    pub fn new(
        splitting: &'a SplitPlan<'a>,
        mut place: impl FnMut(&ArchiveId, &super::observe::ArchivePlace) -> Result<PathBuf>,
    ) -> Result<Self> {
        let mut open = BTreeMap::new();
        for (id, at) in splitting.places()? {
            let out = io::BufWriter::new(fs::File::create(place(&id, &at)?)?);
            let group = splitting.prefix();
            let writer = ArchiveWriter::new(out, &group, id.1.as_str(), KpackScheme::Zstd)?;
            open.insert(id, writer);
        }
        Ok(Self { splitting, open })
    }

    /// Compresses the code into the archives, without copying files or rewriting binaries.
    pub fn fill(
        &mut self,
        jobs: NonZeroUsize,
        stop: &Stop,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let pieces: Vec<SplitTask<'_>> = self.splitting.code().map(SplitTask::Code).collect();
        carry_out(&pieces, self, jobs, stop, progress)
    }

    fn add(&mut self, code: &BundleCode<'_>, done: Option<PackedCode>) -> Result<()> {
        let PackedCode { target, id, packed } = done.context("a code object without bytes")?;
        let binary = &code.loss.binary;
        let origin = CodeOrigin {
            target: id,
            source_prefix: binary.prefix.to_string(),
        };
        let base = target.base();
        let name = self.splitting.archives.name(binary, code.ordinal, &base);
        let archive = (name, base);
        let archive = self.open.get_mut(&archive).context("no archive")?;
        let key = key(&binary.kernel_name(), code.ordinal);
        archive.add(&key, &target, &packed, Some(origin))
    }

    /// Writes the table of contents of every archive.
    pub fn finish(self) -> Result<BTreeMap<ArchiveId, WrittenArchive>> {
        let mut all = BTreeMap::new();
        for (id, writer) in self.open {
            let (out, written) = writer.finish()?;
            out.into_inner().context("failed to write an archive")?;
            all.insert(id, written);
        }
        Ok(all)
    }
}

struct SplitWork<'a> {
    progress: &'a (dyn Fn(u64) + Sync),
    tools: &'a MemoryPool,
}

/// A bundle, decoded if it was compressed, so that its code objects can be read.
struct OpenBundle<'a> {
    entries: Vec<(CodeTarget, BundleEntry)>,
    bytes: BundleBytes<'a>,
}

enum BundleBytes<'a> {
    There { source: FileAt, start: u64 },
    Decoded(LentMemory<'a>),
}

struct PackedCode {
    target: CodeTarget,
    id: String,
    packed: Packed,
}

impl<'a> Divide for SplitWork<'a> {
    type Item = SplitTask<'a>;
    type Opened = Option<OpenBundle<'a>>;
    type Done = Option<PackedCode>;

    fn cost(&self, item: &SplitTask<'a>) -> u64 {
        let SplitTask::Code(code) = item else {
            return 0;
        };
        code.bundle().map_or(0, |bundle| match &bundle.form {
            BundleForm::Raw => bundle.len,
            BundleForm::Compressed(compression) => compression.unpacked,
        })
    }

    fn open(&self, item: &SplitTask<'a>) -> Result<(Self::Opened, usize)> {
        match item {
            SplitTask::Copy { from, to } => {
                (self.progress)(fs::copy(from, to)?);
                Ok((None, 0))
            }
            SplitTask::Host { from, plan, to } => {
                host(from, plan, to).with_context(|| splitting(from))?;
                (self.progress)(plan.total_len());
                Ok((None, 0))
            }
            SplitTask::Code(code) => {
                let opened = code.open(self.tools);
                let opened = opened.with_context(|| splitting(&code.file.source))?;
                let count = opened.entries.len();
                (self.progress)(code.bundle()?.len);
                Ok((Some(opened), count))
            }
        }
    }

    fn work(
        &self,
        item: &SplitTask<'a>,
        opened: &Self::Opened,
        part: usize,
    ) -> Result<Option<PackedCode>> {
        let (SplitTask::Code(code), Some(opened)) = (item, opened) else {
            return Ok(None);
        };
        let done = opened.pack(part, self.tools);
        done.map(Some).with_context(|| splitting(&code.file.source))
    }
}

impl OpenBundle<'_> {
    fn pack(&self, part: usize, tools: &MemoryPool) -> Result<PackedCode> {
        let (target, entry) = self.entries.get(part).context("a code object came up")?;
        let pack = |code: &[u8]| tools.with_packer(|packer| packer.pack(code, KpackScheme::Zstd));
        let packed = match &self.bytes {
            BundleBytes::Decoded(bytes) => {
                pack(slice(bytes, entry).context("a code object outside of its bundle")?)?
            }
            BundleBytes::There { source, start } => {
                let start = start.saturating_add(entry.offset);
                let size = usize::try_from(entry.size)?;
                let mut memory = tools.memory(entry.size)?;
                // `memory` may be longer, with old contents, which `fill` overwrites. Only new
                // bytes have to be zeroed.
                memory.resize(memory.len().max(size), 0);
                let code = memory.get_mut(..size).unwrap_or_default();
                ByteRegion::whole(source).fill("code object", start, code)?;
                let memory = tools.lend(memory);
                pack(memory.get(..size).unwrap_or_default())?
            }
        };
        Ok(PackedCode {
            target: target.clone(),
            id: entry.id.clone(),
            packed,
        })
    }
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
