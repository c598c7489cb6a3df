//! Writes the archives of a split: code objects are compressed by many threads, and added in the order
//! of the binaries, so that archives have the same bytes for any number of threads.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use fs_err::File;

use super::{SplitInput, observe::FatMember, placement::PlacedBinary, plan::SplitWheelPlan};
use crate::{
    error::{Context as _, Result, Stop},
    kpack::{
        ByteRegion, CodeTarget,
        archive::{ArchiveWriter, CodeOrigin, Packed, key},
        bundle::{self, Bundle, BundleEntry},
    },
    parallel::{Divide, in_parts},
    relpath::RelPath,
};

/// Memory for decoded bundles and for compressed code that is not written yet.
const ROOM: u64 = 512 << 20;

/// An archive in a temporary file.
#[derive(Clone, Debug)]
pub(super) struct WrittenArchive {
    pub file: PathBuf,
    pub len: u64,
}

/// Writes the archives of a plan into a directory. Returns them by their installed paths.
pub(super) fn write(
    (input, plan): (&SplitInput, &SplitWheelPlan),
    group: &str,
    directory: &Path,
    (jobs, stop): (NonZeroUsize, &Stop),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<BTreeMap<RelPath, WrittenArchive>> {
    let mut writers = BTreeMap::new();
    for (number, (path, archive)) in plan.archives.iter().enumerate() {
        let file = directory.join(format!("{number}.kpack"));
        let out = io::BufWriter::new(File::create(&file)?);
        let writer = ArchiveWriter::new(out, group, archive.base.as_str())?;
        writers.insert(path.clone(), (file, writer));
    }
    let binaries = input.fat.iter().zip(&plan.placed);
    let tasks = binaries.flat_map(|(member, placed)| {
        let bundles = member.fat.bundles.iter().enumerate();
        bundles.map(move |(ordinal, bundle)| BundleTask {
            member,
            placed,
            ordinal,
            bundle,
        })
    });
    let tasks: Vec<BundleTask<'_>> = tasks.collect();
    let work = CodeWork { plan, progress };
    in_parts(&work, &tasks, jobs, ROOM, stop, |index, _, code| {
        let task = tasks.get(index).context("no such task")?;
        let (target, origin, packed) = code;
        let path = task.placed.archive(task.ordinal, &target)?;
        let (_, writer) = writers.get_mut(&path).context("no archive")?;
        let key = key(&task.placed.binary.kernel_name, task.ordinal);
        writer.add(&key, &target, &packed, Some(origin))
    })?;
    let written = writers.into_iter().map(|(path, (file, writer))| {
        let (mut out, len) = writer.finish()?;
        out.flush()?;
        Ok((path, WrittenArchive { file, len }))
    });
    written.collect()
}

/// One bundle of a binary.
struct BundleTask<'a> {
    member: &'a FatMember,
    placed: &'a PlacedBinary,
    ordinal: usize,
    bundle: &'a Bundle,
}

struct CodeWork<'a> {
    plan: &'a SplitWheelPlan,
    progress: &'a (dyn Fn(u64) + Sync),
}

/// The wanted code objects of a bundle, and the bundle itself if it was compressed.
struct DecodedBundle {
    entries: Vec<(CodeTarget, BundleEntry)>,
    decoded: Option<Vec<u8>>,
}

impl<'a> Divide for CodeWork<'a> {
    type Item = BundleTask<'a>;
    type Opened = DecodedBundle;
    type Done = (CodeTarget, CodeOrigin, Packed);

    fn cost(&self, task: &BundleTask<'a>) -> u64 {
        task.bundle.unpacked()
    }

    fn open(&self, task: &BundleTask<'a>) -> Result<(DecodedBundle, usize)> {
        let section = task.member.fat.section(&task.member.bytes)?;
        // The rows of RECORD were verified when the wheel was read.
        let opened = bundle::open_unhashed(&section, task.bundle, Vec::new())
            .with_context(|| format!("failed to open bundle {}", task.ordinal))
            .with_context(|| task.failed())?;
        let mut entries = Vec::new();
        for (target, entry) in opened.code() {
            let archive = task.placed.archive(task.ordinal, target)?;
            if self.plan.archives.contains_key(&archive) {
                entries.push((target.clone(), entry.clone()));
            }
        }
        (self.progress)(task.bundle.len);
        let count = entries.len();
        let decoded = opened.into_decoded();
        Ok((DecodedBundle { entries, decoded }, count))
    }

    fn work(
        &self,
        task: &BundleTask<'a>,
        opened: &DecodedBundle,
        part: usize,
    ) -> Result<(CodeTarget, CodeOrigin, Packed)> {
        let (target, entry) = opened.entries.get(part).context("no such code object")?;
        let what = "code object";
        let code = if let Some(decoded) = &opened.decoded {
            ByteRegion::whole(decoded).bytes(what, entry.offset, entry.size)
        } else {
            let section = task.member.fat.section(&task.member.bytes)?;
            let start = task.bundle.offset.saturating_add(entry.offset);
            section.bytes(what, start, entry.size)
        };
        let packed = code.and_then(|code| Packed::new(&code));
        let origin = CodeOrigin {
            target: entry.id.clone(),
            source_prefix: task.placed.binary.prefix.to_string(),
        };
        Ok((
            target.clone(),
            origin,
            packed.with_context(|| task.failed())?,
        ))
    }
}

impl BundleTask<'_> {
    fn failed(&self) -> String {
        format!("failed to take the code out of `{}`", self.member.installed)
    }
}
