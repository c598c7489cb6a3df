//! Fills archives with the device code of binaries.

use std::{
    collections::BTreeMap,
    io::{Seek, Write},
    marker::PhantomData,
    num::NonZeroUsize,
};

use super::{ArchiveWriter, CodeOrigin, Packed, key};
use crate::{
    elf::ReadAt,
    error::{Context as _, Result, Stop},
    kpack::{
        ByteRegion, CodeTarget, SplittableBinary,
        bundle::{self, Bundle, BundleEntry},
        split::FatBinary,
    },
    parallel::{Divide, in_parts},
};

/// Memory for decoded bundles and for compressed code that is not written yet. A bundle that is
/// larger is decoded while no other is.
const ROOM: u64 = 512 << 20;

/// A binary whose device code goes into archives.
pub struct CodeSource<'a> {
    /// What stands for it in errors.
    pub name: String,
    pub fat: &'a SplittableBinary,
    pub binary: &'a FatBinary,
    /// Opens the file. Each thread does so for itself.
    pub open: Box<dyn Fn() -> Result<Box<dyn ReadAt + 'a>> + Sync + 'a>,
    /// Whether the bytes have a digest that was verified already. The hashes in compressed bundles are
    /// then not verified: an MD5 takes longer than the decompression.
    pub is_verified: bool,
}

/// Chooses the archive for a code object by the index of the binary, the number of the bundle and the
/// target. Code without one is left out.
pub(crate) type PlaceCode<'a, K> =
    dyn Fn(usize, usize, &CodeTarget) -> Result<Option<K>> + Sync + 'a;

/// Adds the code of all binaries to archives.
///
/// Code objects are compressed by many threads and added in the order of the binaries, so that archives
/// have the same bytes with any number of threads. `progress` gets the number of bytes that were read
/// since the last call.
pub fn write_archives<K: Ord + Clone + Send + Sync, W: Write + Seek>(
    archives: &mut BTreeMap<K, ArchiveWriter<W>>,
    sources: &[CodeSource<'_>],
    place: &PlaceCode<'_, K>,
    jobs: NonZeroUsize,
    stop: &Stop,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    let bundles = sources.iter().enumerate().flat_map(|(index, source)| {
        let bundles = source.fat.bundles.iter().enumerate();
        bundles.map(move |(ordinal, bundle)| BundleTask {
            index,
            source,
            ordinal,
            bundle,
        })
    });
    let tasks: Vec<BundleTask<'_, '_>> = bundles.collect();
    let work = CodeWork {
        place,
        progress,
        _tasks: PhantomData,
    };
    in_parts(&work, &tasks, jobs, ROOM, stop, |index, _, code| {
        let task = tasks.get(index).context("no such bundle")?;
        let archive = archives.get_mut(&code.place).context("no such archive")?;
        let key = key(&task.source.binary.kernel_name, task.ordinal);
        archive.add(&key, &code.target, &code.packed, Some(code.origin))
    })
}

/// One bundle of a binary.
struct BundleTask<'a, 's> {
    index: usize,
    source: &'a CodeSource<'s>,
    ordinal: usize,
    bundle: &'a Bundle,
}

struct CodeWork<'w, 'a, 's, K> {
    place: &'w PlaceCode<'w, K>,
    progress: &'w (dyn Fn(u64) + Sync),
    _tasks: PhantomData<fn(&BundleTask<'a, 's>)>,
}

/// The wanted code objects of a bundle, and the bundle itself if it was compressed.
struct OpenBundle<K> {
    entries: Vec<(K, CodeTarget, BundleEntry)>,
    decoded: Option<Vec<u8>>,
}

/// A code object that waits for its turn.
struct PackedCode<K> {
    place: K,
    target: CodeTarget,
    origin: CodeOrigin,
    packed: Packed,
}

impl<'a, 's, K: Clone + Send + Sync> Divide for CodeWork<'_, 'a, 's, K> {
    type Item = BundleTask<'a, 's>;
    type Opened = OpenBundle<K>;
    type Done = PackedCode<K>;

    fn cost(&self, task: &BundleTask<'a, 's>) -> u64 {
        task.bundle.unpacked()
    }

    fn open(&self, task: &BundleTask<'a, 's>) -> Result<(OpenBundle<K>, usize)> {
        let opened = task.open(self.place);
        let opened = opened
            .with_context(|| format!("failed to open bundle {}", task.ordinal))
            .with_context(|| task.failed())?;
        (self.progress)(task.bundle.len);
        let count = opened.entries.len();
        Ok((opened, count))
    }

    fn work(
        &self,
        task: &BundleTask<'a, 's>,
        opened: &OpenBundle<K>,
        part: usize,
    ) -> Result<PackedCode<K>> {
        let (place, target, entry) = opened.entries.get(part).context("no such code object")?;
        let packed = || -> Result<Packed> {
            let what = "code object";
            let code = if let Some(decoded) = &opened.decoded {
                ByteRegion::whole(decoded).bytes(what, entry.offset, entry.size)?
            } else {
                let source = (task.source.open)()?;
                let start = task.bundle.offset.saturating_add(entry.offset);
                let section = task.source.fat.section(&*source)?;
                section.bytes(what, start, entry.size)?
            };
            Packed::new(&code)
        };
        Ok(PackedCode {
            place: place.clone(),
            target: target.clone(),
            origin: CodeOrigin {
                target: entry.id.clone(),
                source_prefix: task.source.binary.prefix.to_string(),
            },
            packed: packed().with_context(|| task.failed())?,
        })
    }
}

impl BundleTask<'_, '_> {
    fn open<K>(&self, place: &PlaceCode<'_, K>) -> Result<OpenBundle<K>> {
        let source = (self.source.open)()?;
        let section = self.source.fat.section(&*source)?;
        let opened = if self.source.is_verified {
            bundle::open_unhashed(&section, self.bundle)?
        } else {
            bundle::open(&section, self.bundle)?
        };
        let mut entries = Vec::new();
        for (target, entry) in opened.code() {
            if let Some(place) = place(self.index, self.ordinal, target)? {
                entries.push((place, target.clone(), entry.clone()));
            }
        }
        let decoded = opened.into_decoded();
        Ok(OpenBundle { entries, decoded })
    }

    fn failed(&self) -> String {
        format!("failed to split `{}`", self.source.name)
    }
}
