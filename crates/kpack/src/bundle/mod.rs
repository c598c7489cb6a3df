//! Offload bundles: the device code of one translation unit for all targets, as clang writes it.
//! See
//! [Clang Offload Bundler](https://clang.llvm.org/docs/ClangOffloadBundler.html), and
//! [Target ID](https://llvm.org/docs/AMDGPUUsage.html#target-id) for the names of targets.
//!
//! A section contains many bundles, raw or compressed, with zeros between them. The end of a bundle
//! is computed from its header. Searching the magic number of the next bundle is wrong, because
//! machine code may contain these bytes by chance.

mod compressed;

use std::{collections::BTreeSet, ops::Range};

use itertools::Itertools as _;

use crate::{ByteRegion, CodeTarget};
use compressed::compression;
use rocwheel_base::error::{Context as _, Result, anyhow, bail, ensure};
use rocwheel_elf::ReadAt;

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

/// A bundle, by its place in its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Its offset in the section.
    pub offset: u64,
    /// Its size in the section; for a compressed bundle, the compressed size.
    pub len: u64,
    /// `None` for a raw bundle.
    pub compression: Option<BundleCompression>,
}

/// A code object of a bundle, or the empty entry of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleEntry {
    /// `hipv4-amdgcn-amd-amdhsa--gfx942`, as the compiler spells it.
    pub id: String,
    /// `None` for the entry of the host, which is always empty.
    pub target: Option<CodeTarget>,
    /// Relative to the start of the bundle; 0 if the entry is empty.
    pub offset: u64,
    /// Its size in the bundle; 0 for the empty entry of the host.
    pub size: u64,
}

/// A bundle whose entries can be read. A compressed bundle has been decompressed.
pub struct OpenedBundle<'a> {
    region: ByteRegion<'a>,
    /// The raw bundle inside of a compressed bundle.
    decoded: Option<Vec<u8>>,
    entries: Vec<BundleEntry>,
}

/// What the header of a raw bundle says.
struct BundleHeader {
    entries: Vec<BundleEntry>,
    /// The size of the bundle.
    len: u64,
}

/// An entry with code, by its place in the bundle. Sorted by the place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PlacedEntry<'a> {
    start: u64,
    end: u64,
    id: &'a str,
}

impl Bundle {
    /// The size of the raw bundle.
    pub fn unpacked(&self) -> u64 {
        self.compression.as_ref().map_or(self.len, |compression| compression.unpacked)
    }
}

/// All bundles of a section in order. The index in this list is the number of the bundle, which
/// wrappers and the keys of archives use.
///
/// Bytes other than zeros between bundles are an error: they could be code that would get lost.
pub fn find(section: &ByteRegion<'_>) -> Result<Vec<Bundle>> {
    let mut bundles = Vec::new();
    let mut offset = section.skip_zeros(0)?;
    while offset < section.len() {
        let bundle = bundle_at(section, offset)
            .with_context(|| format!("failed to read bundle {} at {offset:#x}", bundles.len()))?;
        offset = section.skip_zeros(offset.saturating_add(bundle.len))?;
        ensure!(bundles.len() < MOST, "more than {MOST} bundles");
        bundles.push(bundle);
    }
    Ok(bundles)
}

/// Whether bytes begin like a bundle.
pub fn is_begin(bytes: &[u8]) -> bool {
    bytes.starts_with(COMPRESSED) || bytes.starts_with(&RAW[..4])
}

/// The part of a bundle that is not needed to list its entries, relative to the end of `begin`, the first
/// bytes of the bundle. The part may be longer than the file: only `begin` is looked at.
pub fn skippable(begin: &[u8]) -> Result<Range<u64>> {
    let region = ByteRegion::whole(&begin);
    let (start, len) = if region.has(0, RAW)? {
        (0, read_header(&region, u64::MAX)?.len)
    } else {
        // To list the entries, at most `MAX_HEADER` bytes are decompressed, and these take less than `2 * MAX_HEADER`
        // compressed bytes. A bundle of version 1 does not say how long it is, so the range is empty and nothing of it
        // is skipped.
        (2 * MAX_HEADER, compressed::fields(&region)?.0.unwrap_or(0))
    };
    Ok(start..len.saturating_sub(begin.len() as u64))
}

/// The bundle at an offset in the section.
pub fn bundle_at(section: &ByteRegion<'_>, offset: u64) -> Result<Bundle> {
    let rest = section.part("bundle", offset, section.len().saturating_sub(offset))?;
    let (len, compression) = if rest.has(0, RAW)? {
        (read_header(&rest, rest.len())?.len, None)
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
    Ok(parts(section, bundle)?.into_iter().map(|(target, _)| target).collect())
}

/// The targets for which a bundle has code, with the decompressed size of each code object. Only
/// the start of a compressed bundle is decompressed.
pub fn parts(section: &ByteRegion<'_>, bundle: &Bundle) -> Result<Vec<(CodeTarget, u64)>> {
    let region = section.part("bundle", bundle.offset, bundle.len)?;
    let header = match &bundle.compression {
        None => read_header(&region, region.len())?,
        Some(compression) => {
            let len = MAX_HEADER.min(compression.unpacked);
            let begin = compression.begin(&region, len)?;
            read_header(&ByteRegion::whole(&begin), compression.unpacked)?
        }
    };
    let parts = header.entries.into_iter().filter_map(|entry| Some((entry.target?, entry.size)));
    Ok(parts.collect())
}

/// Opens a bundle of a section. Decompresses a compressed bundle, and verifies its hash.
pub fn open<'a>(section: &ByteRegion<'a>, bundle: &Bundle) -> Result<OpenedBundle<'a>> {
    let opened = open_unhashed(section, bundle)?;
    if let (Some(compression), Some(decoded)) = (&bundle.compression, &opened.decoded) {
        compression.verify_hash(decoded)?;
    }
    Ok(opened)
}

/// Like [`open`], but does not verify the hash, an MD5 that takes longer than the decompression. For
/// files whose SHA-256 is verified already.
pub(crate) fn open_unhashed<'a>(
    section: &ByteRegion<'a>,
    bundle: &Bundle,
) -> Result<OpenedBundle<'a>> {
    let region = section.part("bundle", bundle.offset, bundle.len)?;
    let compression = bundle.compression.as_ref();
    let decoded = compression.map(|compression| compression.unpack(&region)).transpose()?;
    let mut opened = OpenedBundle { region, decoded, entries: Vec::new() };
    let content = opened.content();
    opened.entries = read_header(&content, content.len())?.entries;
    Ok(opened)
}

impl OpenedBundle<'_> {
    /// The entries with device code, with their targets.
    pub fn code(&self) -> impl Iterator<Item = (&CodeTarget, &BundleEntry)> {
        self.entries.iter().filter_map(|entry| Some((entry.target.as_ref()?, entry)))
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
/// inconsistent. The header has no field for the size of the bundle, which is the end of the last entry,
/// or of the header if all entries are empty.
///
/// All entries must lie within the first `limit` bytes. The region may be shorter, as for a compressed
/// bundle of which only the start was decompressed.
fn read_header(region: &ByteRegion<'_>, limit: u64) -> Result<BundleHeader> {
    ensure!(region.has(0, RAW)?, "no bundle in a compressed bundle");
    let count = region.number("number of entries", 24, 8)?;
    ensure!(count <= MAX_ENTRIES, "a bundle with more than {MAX_ENTRIES} entries: {count}");
    let mut entries = Vec::new();
    let mut header_end = 32_u64;
    for _ in 0..count {
        entries.push(read_entry(region, &mut header_end)?);
    }
    let mut names = BTreeSet::new();
    let mut placed = Vec::new();
    for BundleEntry { id, target, offset, size } in &entries {
        // Targets are compared in the order of features that the runtime asks for: two spellings of one
        // target would be two code objects under one key.
        let name = target.as_ref().map_or(id.as_str(), CodeTarget::as_str);
        ensure!(names.insert(name), "two entries for the same: `{id}`");
        if *size == 0 {
            continue;
        }
        let end = offset.checked_add(*size).filter(|end| *end <= limit).with_context(|| {
            format!(
                "the entry `{id}` lies outside of its bundle: {size} bytes at {offset} of {limit}"
            )
        })?;
        ensure!(*offset >= header_end, "an entry lies in the header: `{id}`");
        ensure!(target.is_some(), "a bundle with code for the host");
        placed.push(PlacedEntry { start: *offset, end, id });
    }
    placed.sort_unstable();
    for (entry, next) in placed.iter().tuple_windows() {
        // Two entries may have the same range: one code object then serves two targets.
        let is_shared = (entry.start, entry.end) == (next.start, next.end);
        ensure!(
            is_shared || entry.end <= next.start,
            "two entries overlap: `{}` and `{}`",
            entry.id,
            next.id
        );
    }
    let len = placed.last().map_or(header_end, |last| last.end);
    Ok(BundleHeader { entries, len })
}

/// Reads the entry at `at`, and moves `at` behind it.
fn read_entry(region: &ByteRegion<'_>, at: &mut u64) -> Result<BundleEntry> {
    let offset = region.number("entry", *at, 8)?;
    let size = region.number("entry", at.saturating_add(8), 8)?;
    let len = region.number("entry", at.saturating_add(16), 8)?;
    ensure!(len <= MAX_ID, "an entry with a name of {len} bytes");
    let id_at = at.saturating_add(24);
    let id = String::from_utf8(region.bytes("name of an entry", id_at, len)?)
        .map_err(|_| anyhow!("an entry with a name that is no text"))?;
    *at = id_at.saturating_add(len);
    Ok(BundleEntry {
        target: parse_entry_id(&id)?,
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
fn parse_entry_id(id: &str) -> Result<Option<CodeTarget>> {
    if id.starts_with("host") {
        return Ok(None);
    }
    let target = id
        .split_once('-')
        .filter(|(kind, _)| KINDS.contains(kind))
        .and_then(|(_, rest)| TRIPLES.iter().find_map(|triple| rest.strip_prefix(triple)))
        .with_context(|| format!("an entry for an unknown kind of device: `{id}`"))?;
    target
        .parse()
        .map(Some)
        .with_context(|| format!("failed to read the target of the entry `{id}`"))
}

#[cfg(test)]
mod tests;
