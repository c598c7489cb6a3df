//! Fills archives with the device code of binaries.

use std::{
    collections::BTreeMap,
    io::{Seek, Write},
    num::NonZeroUsize,
};

use super::{ArchiveWriter, CodeOrigin, Packed, key};
use crate::{
    CodeTarget, SplittableBinary,
    bundle::{self, Bundle},
    split::FatBinary,
};
use rocwheel_base::{
    error::{Context as _, Result, Stop},
    parallel::{self, Limits},
};
use rocwheel_elf::ReadAt;

/// Memory for decoded bundles and for compressed code that is not written yet. A bundle that is
/// larger is decoded while no other is.
const ROOM: u64 = 512 << 20;

/// A binary whose device code goes into archives.
pub struct CodeSource<'a> {
    /// The name of the binary in errors.
    pub name: String,
    /// Where its bundles and wrappers are in the file.
    pub bundles: &'a SplittableBinary,
    /// Its name in archives, and the targets of its bundles.
    pub binary: &'a FatBinary,
    /// Opens the file. Each task opens it again, because a file is not shared between threads.
    pub open: Box<dyn Fn() -> Result<Box<dyn ReadAt + 'a>> + Sync + 'a>,
    /// Whether the bytes have a digest that was verified already. The hashes in compressed bundles are
    /// then not verified: an MD5 takes longer than the decompression.
    pub is_verified: bool,
}

/// Chooses the archive for a code object by the index of the binary, the number of the bundle and the
/// target. Code that gets no archive is left out.
pub(crate) type PlaceCode<'a, K> =
    dyn Fn(usize, usize, &CodeTarget) -> Result<Option<K>> + Sync + 'a;

/// Adds the code of all binaries to archives.
///
/// Code objects are compressed by many threads and added in the order of the binaries, so that archives
/// have the same bytes with any number of threads. `progress` gets the number of bytes that were read
/// since the last call.
pub fn write_archives<K: Ord + Send, W: Write + Seek>(
    archives: &mut BTreeMap<K, ArchiveWriter<W>>,
    sources: &[CodeSource<'_>],
    place: &PlaceCode<'_, K>,
    jobs: NonZeroUsize,
    stop: &Stop,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    let bundles = sources.iter().enumerate().flat_map(|(index, source)| {
        let bundles = source.bundles.bundles.iter().enumerate();
        bundles.map(move |(ordinal, bundle)| BundleTask { index, source, ordinal, bundle })
    });
    let limits = Limits { jobs, room: ROOM, stop };
    // `ordered` hands the results over in the order of the tasks: so the ordinals of code objects, and
    // which of two equal code objects is stored, do not depend on the threads.
    parallel::ordered(
        bundles.map(|task| (task.bundle.unpacked(), task)),
        limits,
        || (),
        |(), task| {
            let packed = task.pack(place);
            progress(task.bundle.len);
            packed
                .with_context(|| format!("failed to open bundle {}", task.ordinal))
                .with_context(|| format!("failed to split `{}`", task.source.name))
        },
        |codes| {
            for code in codes {
                let archive = archives.get_mut(&code.place).context("no such archive")?;
                archive.add(&code.key, &code.target, &code.packed, Some(code.origin))?;
            }
            Ok(())
        },
    )
}

/// The work for one bundle of a binary.
struct BundleTask<'a, 's> {
    /// The index of the binary.
    index: usize,
    source: &'a CodeSource<'s>,
    /// The number of the bundle.
    ordinal: usize,
    bundle: &'a Bundle,
}

/// A code object that waits for its turn.
struct PackedCode<K> {
    place: K,
    key: String,
    target: CodeTarget,
    origin: CodeOrigin,
    packed: Packed,
}

impl BundleTask<'_, '_> {
    /// Compresses the wanted code objects.
    fn pack<K>(&self, place: &PlaceCode<'_, K>) -> Result<Vec<PackedCode<K>>> {
        let CodeSource { bundles, binary, .. } = self.source;
        let source = (self.source.open)()?;
        let section = bundles.section(&*source)?;
        let opened = if self.source.is_verified {
            bundle::open_unhashed(&section, self.bundle)?
        } else {
            bundle::open(&section, self.bundle)?
        };
        let mut codes = Vec::new();
        for (target, entry) in opened.code() {
            let Some(place) = place(self.index, self.ordinal, target)? else {
                continue;
            };
            let code = opened.read(entry)?;
            codes.push(PackedCode {
                place,
                key: key(&binary.kernel_name, self.ordinal),
                target: target.clone(),
                origin: CodeOrigin {
                    target: entry.id.clone(),
                    source_prefix: binary.prefix.to_string(),
                },
                packed: Packed::new(&code)?,
            });
        }
        Ok(codes)
    }
}
