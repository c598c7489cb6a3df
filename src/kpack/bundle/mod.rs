//! Offload bundles: the device code of one translation unit for all targets, as clang writes it.
//! See
//! [Clang Offload Bundler](https://clang.llvm.org/docs/ClangOffloadBundler.html), and
//! [Target ID](https://llvm.org/docs/AMDGPUUsage.html#target-id) for the names of targets.
//!
//! A section contains many bundles, raw or compressed, with zeros between them. The end of a bundle
//! is computed from its header. Searching the magic number of the next bundle is wrong, because
//! machine code may contain these bytes by chance.

mod compressed;
#[cfg(test)]
#[path = "../../../tests/it/support/bundles.rs"]
pub(crate) mod write;

use std::{collections::BTreeSet, ops::Range};

use itertools::Itertools as _;

use crate::{
    elf::ReadAt,
    error::{Context as _, Result, anyhow, bail, ensure},
    kpack::{ByteRegion, CodeTarget},
};
use compressed::compression;

pub use compressed::BundleCompression;

/// The magic number of a raw bundle.
pub const RAW: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";
/// The magic number of a compressed bundle.
pub const COMPRESSED: &[u8; 4] = b"CCOB";

/// Limit for bundles in a section. A binary has at most one for each translation unit.
pub const MOST: usize = 1 << 16;

/// Limit for the header of a bundle: how much of a compressed bundle is decompressed to list its
/// entries.
const MAX_HEADER: u64 = 1 << 20;
/// Limits for damaged bundles. Real bundles have some dozens of entries.
const MAX_ENTRIES: u64 = 4096;
const MAX_ID: u64 = 4096;
/// The offload kinds of HIP: <https://clang.llvm.org/docs/ClangOffloadBundler.html>.
const KINDS: [&str; 2] = ["hip", "hipv4"];
/// What stands between the kind and the target. The triple has a fourth part, the environment, which
/// is always empty. Old compilers omitted it with its hyphen.
const TRIPLES: [&str; 3] = ["amdgcn-amd-amdhsa--", "spirv64-amd-amdhsa--", "amdgcn-amd-amdhsa-"];

/// The place of a bundle in its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub offset: u64,
    /// Its size in the section; for a compressed bundle, the compressed size.
    pub len: u64,
    /// `None` for a raw bundle.
    pub compression: Option<BundleCompression>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleEntry {
    /// `hipv4-amdgcn-amd-amdhsa--gfx942`, as the compiler spells it.
    pub id: String,
    /// `None` for the entry of the host, which is always empty.
    pub target: Option<CodeTarget>,
    /// Relative to the start of the bundle; 0 if the entry is empty.
    pub offset: u64,
    pub size: u64,
}

/// A bundle whose entries can be read. A compressed one has been decompressed.
pub struct OpenedBundle<'a> {
    region: ByteRegion<'a>,
    decoded: Option<Vec<u8>>,
    entries: Vec<BundleEntry>,
}

impl Bundle {
    /// The size of the raw bundle.
    pub fn unpacked(&self) -> u64 {
        let compression = self.compression.as_ref();
        compression.map_or(self.len, |it| it.unpacked)
    }
}

/// All bundles of a section in order. The index in this list is the number of the bundle, which
/// wrappers and the keys of archives use.
///
/// Bytes other than zeros between bundles are an error: they could be code that would get lost.
pub fn find(section: &ByteRegion<'_>) -> Result<Vec<Bundle>> {
    let mut found = Vec::new();
    let mut at = section.skip_zeros(0)?;
    while at < section.len() {
        let bundle = bundle_at(section, at)
            .with_context(|| format!("failed to read bundle {} at {at:#x}", found.len()))?;
        at = section.skip_zeros(at.saturating_add(bundle.len))?;
        ensure!(found.len() < MOST, "more than {MOST} bundles");
        found.push(bundle);
    }
    Ok(found)
}

/// Whether something begins like a bundle.
pub fn is_begin(bytes: &[u8]) -> bool {
    bytes.starts_with(COMPRESSED) || bytes.starts_with(&RAW[..4])
}

/// The part of a bundle that is not needed to list its entries, relative to the end of these first bytes
/// of it. It may be longer than the file: nothing but the first bytes is looked at.
pub fn code(begin: &[u8]) -> Result<Range<u64>> {
    let region = ByteRegion::whole(&begin);
    let (start, end) = if region.has(0, RAW)? {
        (0, header(&region, u64::MAX)?.1)
    } else {
        // What is decompressed to list the entries takes less than twice its size.
        (2 * MAX_HEADER, compressed::fields(&region)?.0.unwrap_or(0))
    };
    Ok(start..end.saturating_sub(begin.len() as u64))
}

/// The bundle at an offset in the section.
pub fn bundle_at(section: &ByteRegion<'_>, offset: u64) -> Result<Bundle> {
    let rest = section.part("bundle", offset, section.len().saturating_sub(offset))?;
    let (len, compression) = if rest.has(0, RAW)? {
        (header(&rest, rest.len())?.1, None)
    } else if rest.has(0, COMPRESSED)? {
        let (len, compression) = compression(&rest)?;
        (len, Some(compression))
    } else {
        bail!("neither a bundle nor zeros");
    };
    Ok(Bundle { offset, len, compression })
}

/// The targets for which a bundle has code.
pub fn targets(section: &ByteRegion<'_>, bundle: &Bundle) -> Result<BTreeSet<CodeTarget>> {
    let parts = parts(section, bundle)?.into_iter();
    Ok(parts.map(|(target, _)| target).collect())
}

/// The targets for which a bundle has code, with the decompressed size of each code object. Only
/// the start of a compressed bundle is decompressed.
pub fn parts(section: &ByteRegion<'_>, bundle: &Bundle) -> Result<Vec<(CodeTarget, u64)>> {
    let there = section.part("bundle", bundle.offset, bundle.len)?;
    let (entries, _) = match &bundle.compression {
        None => header(&there, there.len())?,
        Some(compression) => {
            let len = MAX_HEADER.min(compression.unpacked);
            let begin = compression.begin(&there, len)?;
            header(&ByteRegion::whole(&begin), compression.unpacked)?
        }
    };
    let entries = entries.into_iter();
    Ok(entries.filter_map(|entry| Some((entry.target?, entry.size))).collect())
}

/// Opens a bundle of a section. Decompresses a compressed one, and verifies its hash.
pub fn open<'a>(section: &ByteRegion<'a>, bundle: &Bundle) -> Result<OpenedBundle<'a>> {
    let opened = open_unhashed(section, bundle)?;
    if let (Some(compression), Some(decoded)) = (&bundle.compression, &opened.decoded) {
        compression.verify_hash(decoded)?;
    }
    Ok(opened)
}

/// Like [`open`], but does not verify the hash, an MD5 that takes longer than the decompression. For
/// files whose SHA-256 is verified already.
pub fn open_unhashed<'a>(section: &ByteRegion<'a>, bundle: &Bundle) -> Result<OpenedBundle<'a>> {
    let region = section.part("bundle", bundle.offset, bundle.len)?;
    let unpacked = bundle.compression.as_ref();
    let mut opened = OpenedBundle {
        region,
        decoded: unpacked.map(|it| it.unpack(&region)).transpose()?,
        entries: Vec::new(),
    };
    let content = opened.content();
    opened.entries = header(&content, content.len())?.0;
    Ok(opened)
}

impl OpenedBundle<'_> {
    /// The entries with device code, with their targets.
    pub fn code(&self) -> impl Iterator<Item = (&CodeTarget, &BundleEntry)> {
        let entries = self.entries.iter();
        entries.filter_map(|entry| Some((entry.target.as_ref()?, entry)))
    }

    /// Reads the code object of an entry.
    pub fn read(&self, entry: &BundleEntry) -> Result<Vec<u8>> {
        self.content().bytes("code object", entry.offset, entry.size)
    }

    fn content(&self) -> ByteRegion<'_> {
        match &self.decoded {
            Some(bytes) => ByteRegion::whole(bytes),
            None => self.region,
        }
    }
}

/// Reads the header of the raw bundle at the start of a region, and refuses entries that are
/// inconsistent. Returns the entries, and the size of the bundle, which has no field of its own: the
/// end of the last entry, or of the header if all entries are empty.
///
/// All entries must lie within the first `len` bytes. The region may be shorter, as for a compressed
/// bundle of which only the start was decompressed.
fn header(region: &ByteRegion<'_>, len: u64) -> Result<(Vec<BundleEntry>, u64)> {
    ensure!(region.has(0, RAW)?, "no bundle in a compressed bundle");
    let count = region.number("number of entries", 24, 8)?;
    ensure!(count <= MAX_ENTRIES, "a bundle with more than {MAX_ENTRIES} entries: {count}");
    let mut entries = Vec::new();
    let mut at = 32_u64;
    for _ in 0..count {
        entries.push(entry(region, &mut at)?);
    }
    let mut seen = BTreeSet::new();
    let mut placed = Vec::new();
    for it in &entries {
        let (id, offset, size) = (&it.id, it.offset, it.size);
        let name = it.target.as_ref().map_or(id.as_str(), CodeTarget::as_str);
        ensure!(seen.insert(name), "two entries for the same: `{id}`");
        if size == 0 {
            continue;
        }
        let end = offset.checked_add(size).filter(|end| *end <= len);
        let end = end.with_context(|| {
            format!(
                "the entry `{id}` lies outside of its bundle: {size} bytes at {offset} of {len}"
            )
        })?;
        ensure!(offset >= at, "an entry lies in the header: `{id}`");
        ensure!(it.target.is_some(), "a bundle with code for the host");
        placed.push((offset, end, id));
    }
    placed.sort_unstable();
    for (one, other) in placed.iter().tuple_windows() {
        // Two entries may have the same range: one code object then serves two targets.
        ensure!(
            (one.0, one.1) == (other.0, other.1) || one.1 <= other.0,
            "two entries overlap: `{}` and `{}`",
            one.2,
            other.2
        );
    }
    let end = placed.last().map_or(at, |last| last.1);
    Ok((entries, end))
}

fn entry(region: &ByteRegion<'_>, at: &mut u64) -> Result<BundleEntry> {
    let offset = region.number("entry", *at, 8)?;
    let size = region.number("entry", at.saturating_add(8), 8)?;
    let len = region.number("entry", at.saturating_add(16), 8)?;
    ensure!(len <= MAX_ID, "an entry with a name of {len} bytes");
    let name = at.saturating_add(24);
    let id = region.bytes("name of an entry", name, len)?;
    let id = String::from_utf8(id).map_err(|_| anyhow!("an entry with a name that is no text"))?;
    *at = name.saturating_add(len);
    Ok(BundleEntry {
        target: target(&id)?,
        id,
        // The offset of an empty entry has no meaning: clang writes 4096 for the host.
        offset: if size == 0 { 0 } else { offset },
        size,
    })
}

/// Parses the id of an entry, such as `hipv4-amdgcn-amd-amdhsa--gfx942`.
///
/// An id of an unknown kind is an error. If it was ignored, its code would be lost when the section
/// is removed.
fn target(id: &str) -> Result<Option<CodeTarget>> {
    if id.starts_with("host") {
        return Ok(None);
    }
    let parts = id.split_once('-');
    let triple = parts.and_then(|(kind, triple)| KINDS.contains(&kind).then_some(triple));
    let target = triple.and_then(|it| TRIPLES.iter().find_map(|triple| it.strip_prefix(triple)));
    let target =
        target.with_context(|| format!("an entry for an unknown kind of device: `{id}`"))?;
    let target = target.parse();
    target.map(Some).with_context(|| format!("failed to read the target of the entry `{id}`"))
}

#[cfg(test)]
mod tests;
