//! Offload bundles: what clang makes of the device code of one translation unit. The format is described
//! in [clang's documentation](https://clang.llvm.org/docs/ClangOffloadBundler.html), and the names of
//! targets in [AMDGPU's](https://llvm.org/docs/AMDGPUUsage.html#target-id).
//!
//! A section holds many, raw and compressed, one behind the other. A bundle ends where its own
//! header says, never where something looks like the next one: code may hold any bytes.

mod compressed;
mod entry;
mod write;

use std::{collections::BTreeSet, fmt};

pub use compressed::{BundleCompression, BundleMethod};
pub use entry::{BundleEntry, Owner};
pub use write::{Frame, compress, frame, raw};

use crate::{
    elf::ReadAt,
    error::{Context as _, Result, bail, ensure},
    kpack::{ByteRegion, CodeTarget},
};

/// What a raw bundle begins with.
pub const RAW: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";
/// What a compressed bundle begins with.
pub const COMPRESSED: &[u8; 4] = b"CCOB";

/// More bundles than any binary has: there is one for each translation unit.
pub const MOST: usize = 1 << 16;

/// More than any compiler makes of one file, and what is decoded at once at most.
pub const MAX_UNPACKED: u64 = 1 << 32;

/// More than the headers of all targets that there are.
const MAX_HEADER: u64 = 1 << 20;

/// Where a bundle lies in its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub offset: u64,
    /// The bytes it takes there.
    pub len: u64,
    pub form: BundleForm,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundleForm {
    Raw,
    Compressed(BundleCompression),
}

impl fmt::Display for BundleForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw => f.write_str("none"),
            Self::Compressed(compression) => {
                write!(f, "CCOB v{} {}", compression.version, compression.method)
            }
        }
    }
}

/// A bundle that can be looked into; a compressed one has been decoded.
pub struct OpenedBundle<'a, R: ?Sized> {
    content: BundleContent<'a, R>,
    entries: Vec<BundleEntry>,
}

enum BundleContent<'a, R: ?Sized> {
    There(ByteRegion<'a, R>),
    Decoded(Vec<u8>),
}

/// Every bundle of a section, in order: their positions are their ordinals.
///
/// An error when anything but zeros lies between them.
pub fn find(section: &ByteRegion<'_, impl ReadAt + ?Sized>) -> Result<Vec<Bundle>> {
    let mut found = Vec::new();
    let mut at = section.skip_zeros(0)?;
    while at < section.len() {
        let bundle = bundle_at(section, at)
            .with_context(|| format!("read bundle {} at {at:#x}", found.len()))?;
        at = section.skip_zeros(at.saturating_add(bundle.len))?;
        ensure!(found.len() < MOST, "more than {MOST} bundles");
        found.push(bundle);
    }
    Ok(found)
}

/// The bundle that begins at a place.
pub fn bundle_at(section: &ByteRegion<'_, impl ReadAt + ?Sized>, offset: u64) -> Result<Bundle> {
    let rest = section.part("bundle", offset, section.len().saturating_sub(offset))?;
    if rest.has(0, RAW)? {
        let len = entry::header(&rest, rest.len())?.end();
        return Ok(Bundle {
            offset,
            len,
            form: BundleForm::Raw,
        });
    }
    if rest.has(0, COMPRESSED)? {
        let (len, compression) = compressed::header(&rest)?;
        return Ok(Bundle {
            offset,
            len,
            form: BundleForm::Compressed(compression),
        });
    }
    bail!("neither a bundle nor zeros");
}

/// What a bundle has code for.
pub fn targets<R: ReadAt + ?Sized>(
    section: &ByteRegion<'_, R>,
    bundle: &Bundle,
) -> Result<BTreeSet<CodeTarget>> {
    let parts = parts(section, bundle)?.into_iter();
    Ok(parts.map(|(target, _)| target).collect())
}

/// What a bundle has code for, and how long each code object is once it is unpacked. Of a compressed
/// bundle only the begin is decoded.
pub fn parts<R: ReadAt + ?Sized>(
    section: &ByteRegion<'_, R>,
    bundle: &Bundle,
) -> Result<Vec<(CodeTarget, u64)>> {
    let there = section.part("bundle", bundle.offset, bundle.len)?;
    let header = match &bundle.form {
        BundleForm::Raw => entry::header(&there, there.len())?,
        BundleForm::Compressed(compression) => {
            let begin = compressed::begin(&there, compression, MAX_HEADER)?;
            let region = ByteRegion::whole(&begin);
            ensure!(region.has(0, RAW)?, "no bundle in a compressed bundle");
            entry::header(&region, compression.unpacked)?
        }
    };
    let entries = header.entries.into_iter();
    Ok(entries
        .filter_map(|entry| match entry.owner {
            Owner::Device(target) => Some((target, entry.size)),
            Owner::Host => None,
        })
        .collect())
}

/// Opens a bundle of a section; the hash of a compressed one is verified.
pub fn open<'a, R: ReadAt + ?Sized>(
    section: &ByteRegion<'a, R>,
    bundle: &Bundle,
) -> Result<OpenedBundle<'a, R>> {
    open_into(section, bundle, Vec::new())
}

/// The same, into memory that was in use before if the bundle is compressed.
pub fn open_into<'a, R: ReadAt + ?Sized>(
    section: &ByteRegion<'a, R>,
    bundle: &Bundle,
    memory: Vec<u8>,
) -> Result<OpenedBundle<'a, R>> {
    let there = section.part("bundle", bundle.offset, bundle.len)?;
    let content = match &bundle.form {
        BundleForm::Raw => BundleContent::There(there),
        BundleForm::Compressed(compression) => {
            let bytes = compressed::decode(&there, compression, memory)?;
            compressed::verify(&bytes, compression)?;
            BundleContent::Decoded(bytes)
        }
    };
    let entries = match &content {
        BundleContent::There(region) => entry::header(region, region.len())?.entries,
        BundleContent::Decoded(bytes) => {
            let region = ByteRegion::whole(bytes);
            ensure!(region.has(0, RAW)?, "no bundle in a compressed bundle");
            entry::header(&region, region.len())?.entries
        }
    };
    Ok(OpenedBundle { content, entries })
}

impl<R: ReadAt + ?Sized> OpenedBundle<'_, R> {
    /// Its entries as they stand in it, the host's among them.
    pub fn entries(&self) -> &[BundleEntry] {
        &self.entries
    }

    /// The entries that hold device code, with what they are for.
    pub fn code(&self) -> impl Iterator<Item = (&CodeTarget, &BundleEntry)> {
        self.entries.iter().filter_map(|entry| match &entry.owner {
            Owner::Device(target) => Some((target, entry)),
            Owner::Host => None,
        })
    }

    /// The bundle itself, if it was compressed: its entries say where in it they lie.
    pub fn into_decoded(self) -> Option<Vec<u8>> {
        match self.content {
            BundleContent::There(_) => None,
            BundleContent::Decoded(bytes) => Some(bytes),
        }
    }

    /// The bytes of an entry.
    pub fn read(&self, entry: &BundleEntry) -> Result<Vec<u8>> {
        let what = "code object";
        match &self.content {
            BundleContent::There(region) => region.bytes(what, entry.offset, entry.size),
            BundleContent::Decoded(bytes) => {
                ByteRegion::whole(bytes).bytes(what, entry.offset, entry.size)
            }
        }
    }
}

#[cfg(test)]
mod tests;
