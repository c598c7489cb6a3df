//! `.kpack` archives: code objects that the runtime finds by key and target.
//!
//! | offset | contents |
//! |---|---|
//! | 0 | `KPAK`, version 1 (4 bytes), offset of the table of contents (8 bytes), zeros |
//! | 64 | the code objects, back to back |
//! | to the end | the table of contents, one `MessagePack` map |
//!
//! With compression, the code objects begin with their number (4 bytes), and each is preceded by
//! its length (4 bytes).
//!
//! The table of contents is read when an archive is opened, and each code object when it is needed.

mod fill;
#[cfg(test)]
mod tests;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::Cursor,
};

use derive_more::Display;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};

pub use self::{
    fill::{CodeSource, write_archives},
    write::{ArchiveWriter, Packed},
};
use crate::{ByteRegion, CodeTarget, region::unzstd};
use rocwheel_base::error::{Context as _, Result, ensure};
use rocwheel_elf::ReadAt;

/// The magic number of an archive.
pub const MAGIC: &[u8; 4] = b"KPAK";

const VERSION: u32 = 1;
/// The only kind of code (`type`) in the table of contents.
const KIND: &str = "hsaco";
/// The offset of the code objects.
const BLOBS: u64 = 64;
/// Limit for the table of contents, which takes several times its size in memory. An entry has a
/// few hundred bytes.
const MAX_TOC: u64 = 1 << 26;
/// Limit for targets, which is more than all targets with all combinations of their features.
const MOST_TARGETS: usize = 4096;
/// The runtime has the same limits for compressed archives.
const MAX_CODES: u64 = 1 << 20;
const MAX_FRAMES: u64 = 1 << 32;
/// Limit for a decompressed code object. Real ones have some megabytes.
const MAX_CODE: u64 = 1 << 32;

/// How an archive stores its code objects.
#[derive(Clone, Copy, Debug, Default, Display, PartialEq, Eq, Deserialize, Serialize)]
pub enum KpackScheme {
    /// Uncompressed.
    #[default]
    #[display("none")]
    #[serde(rename = "none")]
    Stored,
    /// Each in a zstd frame of its own.
    #[display("zstd")]
    #[serde(rename = "zstd-per-kernel")]
    Zstd,
}

/// An opened archive. All its code objects were checked to lie within it.
#[derive(Debug)]
pub struct KpackArchive<R> {
    source: R,
    toc: Toc,
    codes: Vec<StoredCode>,
}

/// An entry of an archive: a key and a target, with the code object for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCode {
    /// The key, such as `lib/libfoo.so#0`.
    pub key: String,
    /// The target that the code is for, with its features.
    pub target: CodeTarget,
    /// Its size once it is decoded.
    pub size: u64,
    /// Its size in the archive.
    pub packed: u64,
    /// What the table of contents says about its bundle; `None` if it says nothing.
    pub origin: Option<CodeOrigin>,
    /// Its offset in the archive.
    offset: u64,
}

/// The table of contents as it is in the file. Readers find its fields by name, so their order is
/// free.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Toc {
    format_version: u32,
    group_name: String,
    #[serde(default)]
    gfx_arch_family: String,
    #[serde(deserialize_with = "read_targets")]
    gfx_arches: Vec<String>,
    /// The entries by key and target.
    #[serde(rename = "toc")]
    index: UniqueMap<UniqueMap<TocEntry>>,
    #[serde(default)]
    compression_scheme: KpackScheme,
    #[serde(skip_serializing_if = "Option::is_none")]
    blobs: Option<Vec<BlobPlace>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zstd_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zstd_size: Option<u64>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct TocEntry {
    #[serde(rename = "type")]
    kind: String,
    ordinal: u32,
    original_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<CodeOrigin>,
}

/// Where a code object comes from. This is optional, and the runtime does not read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct CodeOrigin {
    /// The id of its entry in the bundle: `hipv4-amdgcn-amd-amdhsa--gfx942`.
    #[serde(default)]
    pub target: String,
    /// The stage directory of its binary: `math-libs/BLAS/rocBLAS/stage`.
    #[serde(default)]
    pub source_prefix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct BlobPlace {
    offset: u64,
    size: u64,
}

/// The key of a code object, such as `lib/libfoo.so#0`: the name in the binary's marker, and the
/// number of the bundle.
pub fn key(kernel_name: &str, bundle: usize) -> String {
    format!("{kernel_name}#{bundle}")
}

impl<R: ReadAt> KpackArchive<R> {
    /// Reads the table of contents, and no code. Fails if the file is no archive, or if an entry lies
    /// outside of it.
    pub fn open(source: R) -> Result<Self> {
        let file = ByteRegion::whole(&source);
        ensure!(file.has(0, MAGIC)?, "not an archive of device code");
        let version = file.number("header", 4, 4)?;
        ensure!(version == u64::from(VERSION), "an archive of an unknown version: {version}");
        let start = file.number("header", 8, 8)?;
        let len = file.len().saturating_sub(start);
        ensure!(start >= BLOBS && len <= MAX_TOC, "contents of {len} bytes at {start}");
        let toc = Toc::parse(&file.bytes("contents", start, len)?)?;
        let codes = toc.codes(&file.part("code", 0, start)?)?;
        Ok(Self { source, toc, codes })
    }

    /// The name that its writer gave it (`group_name`). An archive is found by its path, not by this.
    pub fn group(&self) -> &str {
        &self.toc.group_name
    }

    /// The targets that the archive lists (`gfx_arches`). The runtime uses only this list to decide
    /// whether an archive is for a target.
    pub fn targets(&self) -> &[String] {
        &self.toc.gfx_arches
    }

    /// How the code is stored.
    pub fn scheme(&self) -> KpackScheme {
        self.toc.compression_scheme
    }

    /// All entries of the table of contents, sorted by key and target.
    pub fn codes(&self) -> &[StoredCode] {
        &self.codes
    }

    /// The entry for a key and exactly this target: an entry without features is not found for a target
    /// that has some.
    pub fn find(&self, key: &str, target: &CodeTarget) -> Option<&StoredCode> {
        let index = self
            .codes
            .binary_search_by(|code| (code.key.as_str(), &code.target).cmp(&(key, target)))
            .ok()?;
        self.codes.get(index)
    }

    /// Reads, and decompresses, a code object of this archive.
    pub fn read(&self, code: &StoredCode) -> Result<Vec<u8>> {
        let what = "code object";
        let region = ByteRegion::whole(&self.source).part(what, code.offset, code.packed)?;
        if self.scheme() == KpackScheme::Stored {
            return region.bytes(what, 0, code.packed);
        }
        ensure!(code.size <= MAX_CODE, "a code object of {} bytes", code.size);
        let bytes = unzstd(region.from(0), code.size)
            .with_context(|| format!("failed to decode `{}` for `{}`", code.key, code.target))?;
        ensure!(
            bytes.len() as u64 == code.size,
            "a code object of another size than {}: `{}` for `{}`",
            code.size,
            code.key,
            code.target
        );
        Ok(bytes)
    }
}

impl Toc {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes));
        let toc = Self::deserialize(&mut reader).context("failed to read the table of contents")?;
        let rest = (bytes.len() as u64).saturating_sub(reader.get_ref().position());
        ensure!(rest == 0, "{rest} bytes behind the contents");
        ensure!(
            toc.format_version == VERSION,
            "contents of an unknown version: {}",
            toc.format_version
        );
        Ok(toc)
    }

    /// All entries, sorted by key and target. It is an error if `gfx_arches` does not list the
    /// target of an entry, because the runtime would never find the code. `area` is the archive up to the
    /// table of contents.
    fn codes(&self, area: &ByteRegion<'_>) -> Result<Vec<StoredCode>> {
        let places = match self.compression_scheme {
            KpackScheme::Stored => self.blobs.clone().context("no places of code objects")?,
            KpackScheme::Zstd => self.frames(area)?,
        };
        for place in &places {
            area.part("code object", place.offset, place.size)?;
            ensure!(place.offset >= BLOBS, "a code object in the header");
        }
        let listed: BTreeSet<&String> = self.gfx_arches.iter().collect();
        let mut codes = Vec::new();
        for (key, entries) in &self.index.0 {
            for (target, entry) in &entries.0 {
                ensure!(
                    listed.contains(target),
                    "code for a target that the archive does not name: `{key}` for `{target}`"
                );
                codes.push(self.code(&places, key, target, entry)?);
            }
        }
        Ok(codes)
    }

    /// The code object of an entry. `places` has the places of all code objects.
    fn code(
        &self,
        places: &[BlobPlace],
        key: &str,
        target: &str,
        entry: &TocEntry,
    ) -> Result<StoredCode> {
        let ordinal = entry.ordinal;
        let place = places.get(usize::try_from(ordinal)?).with_context(|| {
            let count = places.len();
            format!("code object {ordinal} of {count}: `{key}` for `{target}`")
        })?;
        // Parsing sorts the features. The runtime compares texts, and asks for the sorted text only.
        let sorted: CodeTarget = target.parse()?;
        ensure!(
            sorted.as_str() == target,
            "a target in an order that the runtime does not ask for: `{target}`"
        );
        ensure!(entry.kind == KIND, "code of an unknown kind: `{}` in `{key}`", entry.kind);
        let stored_size = self.blobs.as_ref().map(|_| place.size);
        let size = entry
            .original_size
            .or(stored_size)
            .with_context(|| format!("code of an unknown size: `{key}` for `{target}`"))?;
        ensure!(
            self.compression_scheme == KpackScheme::Zstd || place.size == size,
            "code of two sizes, {} and {size}: `{key}` for `{target}`",
            place.size
        );
        Ok(StoredCode {
            key: key.to_owned(),
            target: sorted,
            size,
            packed: place.size,
            origin: entry.metadata.clone(),
            offset: place.offset,
        })
    }

    /// The places of zstd frames. The archive has no index of them, so this reads the length of
    /// each frame and skips its contents.
    fn frames(&self, area: &ByteRegion<'_>) -> Result<Vec<BlobPlace>> {
        let start = self.zstd_offset.context("no place of the frames")?;
        let total = self.zstd_size.context("no length of the frames")?;
        ensure!(start >= BLOBS && total <= MAX_FRAMES, "{total} bytes of frames at {start}");
        let frames = area.part("frames", start, total)?;
        let count = frames.number("number of frames", 0, 4)?;
        ensure!(count <= MAX_CODES, "an archive of {count} code objects");
        let mut places = Vec::new();
        let mut at = 4_u64;
        for _ in 0..count {
            let size = frames.number("length of a frame", at, 4)?;
            at = at.saturating_add(4);
            frames.part("frame", at, size)?;
            places.push(BlobPlace { offset: start.saturating_add(at), size });
            at = at.saturating_add(size);
        }
        // A wrong length of one frame shifts all frames behind it, and then this end is wrong too.
        ensure!(at == total, "frames that end at {at} of {total}");
        Ok(places)
    }
}

/// A map without duplicate keys. serde would keep the last of two values, while other readers may
/// use the first, so they would find different code.
#[derive(Debug, Default, Serialize)]
struct UniqueMap<V>(BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self(BTreeMap::new()))
    }
}

impl<'de, V: Deserialize<'de>> Visitor<'de> for UniqueMap<V> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some((key, value)) = map.next_entry::<String, V>()? {
            if self.0.contains_key(&key) {
                return Err(A::Error::custom(format!("`{key}` stands twice")));
            }
            self.0.insert(key, value);
        }
        Ok(self)
    }
}

/// Reads the list of targets, with a limit. An empty string has one byte in the file but many in
/// memory, so a list within `MAX_TOC` could still exhaust the memory.
fn read_targets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Targets;
    impl<'de> Visitor<'de> for Targets {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of targets")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut targets = Vec::new();
            while let Some(target) = list.next_element()? {
                if targets.len() == MOST_TARGETS {
                    return Err(A::Error::custom(format!("more than {MOST_TARGETS} targets")));
                }
                targets.push(target);
            }
            Ok(targets)
        }
    }
    deserializer.deserialize_seq(Targets)
}
