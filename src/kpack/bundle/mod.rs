//! Offload bundles: the device code of one translation unit for all targets, as clang writes it.
//! See
//! [Clang Offload Bundler](https://clang.llvm.org/docs/ClangOffloadBundler.html), and
//! [Target ID](https://llvm.org/docs/AMDGPUUsage.html#target-id) for the names of targets.
//!
//! Compressed bundles (`CCOB`) have three versions:
//!
//! | version | fields after the magic number |
//! |---|---|
//! | 1 | version, method (2 bytes each), uncompressed size (4), hash (8) |
//! | 2 | version, method (2 each), total size, uncompressed size (4 each), hash (8) |
//! | 3 | version, method (2 each), total size, uncompressed size (8 each), hash (8) |
//!
//! A section contains many bundles, raw or compressed, with zeros between them. The end of a bundle
//! is computed from its header. Searching the magic number of the next bundle is wrong, because
//! machine code may contain these bytes by chance.

#[cfg(test)]
#[path = "../../../tests/it/support/bundles.rs"]
pub(crate) mod write;

use std::{collections::BTreeSet, io::BufRead, ops::Range};

use itertools::Itertools as _;
use md5::{Digest as _, Md5};

use crate::{
    elf::ReadAt,
    error::{Context as _, Result, anyhow, bail, ensure},
    kpack::{
        ByteRegion, CodeTarget,
        region::{position, take, unzstd},
    },
};

/// The magic number of a raw bundle.
pub const RAW: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";
/// The magic number of a compressed bundle.
pub const COMPRESSED: &[u8; 4] = b"CCOB";

/// Limit for bundles in a section. A binary has at most one for each translation unit.
pub const MOST: usize = 1 << 16;

/// Limit for the decompressed size of a bundle. A damaged header cannot make us decompress more.
pub const MAX_UNPACKED: u64 = 1 << 32;

/// Limit for the header of a bundle: how much of a compressed bundle is decompressed to list its
/// entries.
const MAX_HEADER: u64 = 1 << 20;
/// More than is read of a compressed bundle for its header, with all buffers.
const PACKED_HEADER: u64 = 2 << 20;
/// Limit for decompressing into one allocation of the size that the header claims. The largest
/// known bundle has a tenth of it. Larger ones are decompressed as a stream, so that memory grows
/// only with the real contents.
const AT_ONCE: u64 = 1 << 30;

/// Buffers are a multiple of this, so that they can be reused for bundles of similar size.
const GRAIN: usize = 4 << 20;

/// Limits for damaged bundles. Real bundles have some dozens of entries.
const MAX_ENTRIES: u64 = 4096;
const MAX_ID: u64 = 4096;
/// Code objects are aligned to pages.
const ALIGN: u64 = 4096;
/// The id of the entry for the host, as clang writes it.
const HOST: &str = "host-x86_64-unknown-linux-gnu-";
/// The offload kinds of HIP: <https://clang.llvm.org/docs/ClangOffloadBundler.html>.
const KINDS: [&str; 2] = ["hip", "hipv4"];
/// What stands between the kind and the target. The triple has a fourth part, the environment, which
/// is always empty. Old compilers omitted it with its hyphen.
const TRIPLES: [&str; 3] = [
    "amdgcn-amd-amdhsa--",
    "spirv64-amd-amdhsa--",
    "amdgcn-amd-amdhsa-",
];

/// The place of a bundle in its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub offset: u64,
    /// Its size in the section; for a compressed bundle, the compressed size.
    pub len: u64,
    /// `None` for a raw bundle.
    pub compression: Option<BundleCompression>,
}

#[derive(Clone, Copy, Debug, derive_more::Display, PartialEq, Eq)]
#[display("CCOB v{version} {method}")]
pub struct BundleCompression {
    version: u64,
    method: BundleMethod,
    /// The size of the raw bundle inside.
    unpacked: u64,
    /// The first half of the MD5 hash of the raw bundle, as a little-endian number.
    hash: u64,
    /// The size of the header, behind which the compressed stream begins.
    start: u64,
}

#[derive(Clone, Copy, Debug, strum::Display, PartialEq, Eq)]
#[strum(serialize_all = "lowercase")]
enum BundleMethod {
    Zlib,
    Zstd,
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
    Ok(Bundle {
        offset,
        len,
        compression,
    })
}

/// Whether bytes begin like a bundle.
pub(crate) fn is_bundle(begin: &[u8]) -> bool {
    begin.starts_with(RAW) || begin.starts_with(COMPRESSED)
}

/// Where the bundle with these first bytes has what neither [`find`] nor [`parts`] reads, relative
/// to its start: its code. Empty if they do not tell. The bundle is not verified.
pub(crate) fn code_places(begin: &[u8]) -> Vec<Range<u64>> {
    let region = ByteRegion::whole(&begin);
    if begin.starts_with(COMPRESSED) {
        // To find the end of version 1, all of it is decompressed.
        let total = fields(&region).ok().and_then(|it| it.0).unwrap_or(0);
        return Vec::from_iter((total > PACKED_HEADER).then_some(PACKED_HEADER..total));
    }
    let entries = header(&region, u64::MAX).into_iter().flat_map(|it| it.0);
    let places = entries.map(|it| it.offset..it.offset.saturating_add(it.size));
    places.filter(|place| !place.is_empty()).collect()
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
            let begin = decoded(there.from(compression.start), compression.method, len)?;
            header(&ByteRegion::whole(&begin), compression.unpacked)?
        }
    };
    let entries = entries.into_iter();
    Ok(entries
        .filter_map(|entry| Some((entry.target?, entry.size)))
        .collect())
}

/// Opens a bundle of a section. Decompresses a compressed one, and verifies its hash.
pub fn open<'a>(section: &ByteRegion<'a>, bundle: &Bundle) -> Result<OpenedBundle<'a>> {
    open_into(section, bundle, Vec::new())
}

/// Like [`open`], but decompresses into `memory`, so that a buffer can be reused.
pub fn open_into<'a>(
    section: &ByteRegion<'a>,
    bundle: &Bundle,
    memory: Vec<u8>,
) -> Result<OpenedBundle<'a>> {
    let opened = open_unhashed(section, bundle, memory)?;
    if let (Some(compression), Some(decoded)) = (&bundle.compression, &opened.decoded) {
        compression.verify_hash(decoded)?;
    }
    Ok(opened)
}

/// Like [`open_into`], but does not verify the hash, an MD5 that takes longer than the decompression. For
/// files whose SHA-256 is verified already.
pub fn open_unhashed<'a>(
    section: &ByteRegion<'a>,
    bundle: &Bundle,
    memory: Vec<u8>,
) -> Result<OpenedBundle<'a>> {
    let region = section.part("bundle", bundle.offset, bundle.len)?;
    let unpacked = bundle.compression.as_ref();
    let mut opened = OpenedBundle {
        region,
        decoded: unpacked.map(|it| it.unpack(&region, memory)).transpose()?,
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

    /// The decompressed bundle, if it was compressed. The offsets of the entries refer to it.
    pub fn into_decoded(self) -> Option<Vec<u8>> {
        self.decoded
    }

    /// Reads the code object of an entry.
    pub fn read(&self, entry: &BundleEntry) -> Result<Vec<u8>> {
        self.content()
            .bytes("code object", entry.offset, entry.size)
    }

    fn content(&self) -> ByteRegion<'_> {
        match &self.decoded {
            Some(bytes) => ByteRegion::whole(bytes),
            None => self.region,
        }
    }
}

/// Reads the header of the compressed bundle at the start of a region. Also returns the size of the
/// compressed bundle.
fn compression(region: &ByteRegion<'_>) -> Result<(u64, BundleCompression)> {
    let (total, compression) = fields(region)?;
    let len = match total {
        Some(total) => total,
        // Version 1 has no total size: decompress the bundle to find the end of its stream.
        None => compression.stream(region)?.1,
    };
    ensure!(
        len > compression.start,
        "a compressed bundle shorter than its header: {len} bytes"
    );
    region.part("compressed bundle", 0, len)?;
    Ok((len, compression))
}

/// The fields of the header of a compressed bundle, and its size if it has a field for it.
fn fields(region: &ByteRegion<'_>) -> Result<(Option<u64>, BundleCompression)> {
    let number = |at, size| region.number("header of a compressed bundle", at, size);
    let version = number(4, 2)?;
    let method = match number(6, 2)? {
        0 => BundleMethod::Zlib,
        1 => BundleMethod::Zstd,
        other => bail!("a compressed bundle of an unknown method: {other}"),
    };
    let (total, unpacked, hash, start) = match version {
        1 => (None, number(8, 4)?, number(12, 8)?, 20),
        2 => (Some(number(8, 4)?), number(12, 4)?, number(16, 8)?, 24),
        3 => (Some(number(8, 8)?), number(16, 8)?, number(24, 8)?, 32),
        other => bail!("a compressed bundle of an unknown version: {other}"),
    };
    ensure!(
        unpacked <= MAX_UNPACKED,
        "a compressed bundle of more than {MAX_UNPACKED} bytes: {unpacked}"
    );
    let compression = BundleCompression {
        version,
        method,
        unpacked,
        hash,
        start,
    };
    Ok((total, compression))
}

impl BundleCompression {
    /// Decompresses the raw bundle, reusing `memory` if possible. It is an error if its size is not
    /// the one in the header.
    fn unpack(&self, region: &ByteRegion<'_>, memory: Vec<u8>) -> Result<Vec<u8>> {
        match self.at_once(region, memory)? {
            Some(bytes) => Ok(bytes),
            None => Ok(self.stream(region)?.0),
        }
    }

    /// It is an error if the decompressed bytes do not have the hash in the header.
    fn verify_hash(&self, bytes: &[u8]) -> Result<()> {
        let digest = Md5::digest(bytes);
        let found = u64::from_le_bytes(digest.first_chunk().copied().unwrap_or_default());
        ensure!(
            found == self.hash,
            "the content of a compressed bundle does not have its hash: {found:016x} instead of {:016x}",
            self.hash
        );
        Ok(())
    }

    /// Decompresses into one buffer; `None` if the bundle is not zstd, is too large, or fails.
    ///
    /// A stream decoder keeps a window as large as the bundle beside the result. Decompression in
    /// one call uses the result itself as the window. After a failure, the caller tries the stream
    /// decoder, whose error is more precise.
    fn at_once(&self, region: &ByteRegion<'_>, mut memory: Vec<u8>) -> Result<Option<Vec<u8>>> {
        if self.method != BundleMethod::Zstd || self.unpacked > AT_ONCE {
            return Ok(None);
        }
        let packed_len = region.len().saturating_sub(self.start);
        let packed = region.bytes("compressed bundle", self.start, packed_len)?;
        let len = usize::try_from(self.unpacked)?;
        memory.clear();
        if memory.capacity() < len {
            memory
                .try_reserve_exact(len.next_multiple_of(GRAIN))
                .with_context(|| format!("failed to allocate {len} bytes for a bundle"))?;
        }
        let decoded = zstd::bulk::Decompressor::new()
            .and_then(|mut zstd| zstd.decompress_to_buffer(&packed, &mut memory));
        Ok(decoded.is_ok_and(|done| done == len).then_some(memory))
    }

    /// Decompresses the whole stream. Also returns its end, as an offset in the region.
    fn stream(&self, region: &ByteRegion<'_>) -> Result<(Vec<u8>, u64)> {
        let mut packed = region.from(self.start);
        let bytes = decoded(&mut packed, self.method, self.unpacked)?;
        ensure!(
            bytes.len() as u64 == self.unpacked,
            "a compressed bundle of another length than it says: not {} bytes",
            self.unpacked
        );
        Ok((bytes, position(&packed)))
    }
}

fn decoded(packed: impl BufRead, method: BundleMethod, len: u64) -> Result<Vec<u8>> {
    let bytes = match method {
        BundleMethod::Zlib => take(flate2::bufread::ZlibDecoder::new(packed), len),
        BundleMethod::Zstd => unzstd(packed, len),
    };
    bytes.context("failed to decode a compressed bundle")
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
    ensure!(
        count <= MAX_ENTRIES,
        "a bundle with more than {MAX_ENTRIES} entries: {count}"
    );
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
    target
        .map(Some)
        .with_context(|| format!("failed to read the target of the entry `{id}`"))
}

/// A raw bundle without its code objects: the header, and the offset of each code object.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The first bytes of the bundle.
    pub header: Vec<u8>,
    /// The offset of each code object, relative to the start of the bundle.
    pub starts: Vec<u64>,
    /// The size of the bundle with all code objects.
    pub len: u64,
}

/// The frame for code objects with these entry ids (`hipv4-amdgcn-amd-amdhsa--gfx942`) and sizes.
/// Like clang, aligns each to a page.
pub fn frame(code: &[(&String, u64)]) -> Frame {
    let code = code.iter().map(|(id, size)| (id.as_str(), *size));
    let entries: Vec<(&str, u64)> = std::iter::once((HOST, 0)).chain(code).collect();
    let mut len = entries
        .iter()
        .fold(32, |len, (id, _)| len + 24 + id.len() as u64);
    let mut at = len.next_multiple_of(ALIGN);
    let mut header = RAW.to_vec();
    header.extend((entries.len() as u64).to_le_bytes());
    let mut starts = Vec::new();
    for (id, size) in entries {
        for number in [at, size, id.len() as u64] {
            header.extend(number.to_le_bytes());
        }
        header.extend(id.as_bytes());
        starts.push(at);
        if size > 0 {
            len = at.saturating_add(size);
        }
        at = at.saturating_add(size).next_multiple_of(ALIGN);
    }
    starts.remove(0);
    Frame {
        header,
        starts,
        len,
    }
}

#[cfg(test)]
mod tests;
