//! Offload bundles: the device code of one translation unit for all targets, as clang writes it.
//! See
//! [Clang Offload Bundler](https://clang.llvm.org/docs/ClangOffloadBundler.html), and
//! [Target ID](https://llvm.org/docs/AMDGPUUsage.html#target-id) for the names of targets.
//!
//! A section contains many bundles, raw or compressed, with zeros between them. The end of a bundle
//! is computed from its header. Searching the magic number of the next bundle is wrong, because
//! machine code may contain these bytes by chance.

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

/// The place of a bundle in its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub offset: u64,
    /// Its size in the section; for a compressed bundle, the compressed size.
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

/// A bundle whose entries can be read. A compressed one has been decompressed.
pub struct OpenedBundle<'a, R: ?Sized> {
    content: BundleContent<'a, R>,
    entries: Vec<BundleEntry>,
}

enum BundleContent<'a, R: ?Sized> {
    There(ByteRegion<'a, R>),
    Decoded(Vec<u8>),
}

/// All bundles of a section in order. The index in this list is the number of the bundle, which
/// wrappers and the keys of archives use.
///
/// Bytes other than zeros between bundles are an error: they could be code that would get lost.
pub fn find(section: &ByteRegion<'_, impl ReadAt + ?Sized>) -> Result<Vec<Bundle>> {
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

/// The targets for which a bundle has code.
pub fn targets<R: ReadAt + ?Sized>(
    section: &ByteRegion<'_, R>,
    bundle: &Bundle,
) -> Result<BTreeSet<CodeTarget>> {
    let parts = parts(section, bundle)?.into_iter();
    Ok(parts.map(|(target, _)| target).collect())
}

/// The targets for which a bundle has code, with the decompressed size of each code object. Only
/// the start of a compressed bundle is decompressed.
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

/// Opens a bundle of a section. Decompresses a compressed one, and verifies its hash.
pub fn open<'a, R: ReadAt + ?Sized>(
    section: &ByteRegion<'a, R>,
    bundle: &Bundle,
) -> Result<OpenedBundle<'a, R>> {
    open_into(section, bundle, Vec::new())
}

/// Like [`open`], but decompresses into `memory`, so that a buffer can be reused.
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
    /// All entries in the order of the header, with that of the host.
    pub fn entries(&self) -> &[BundleEntry] {
        &self.entries
    }

    /// The entries with device code, with their targets.
    pub fn code(&self) -> impl Iterator<Item = (&CodeTarget, &BundleEntry)> {
        self.entries.iter().filter_map(|entry| match &entry.owner {
            Owner::Device(target) => Some((target, entry)),
            Owner::Host => None,
        })
    }

    /// The decompressed bundle, if it was compressed. The offsets of the entries refer to it.
    pub fn into_decoded(self) -> Option<Vec<u8>> {
        match self.content {
            BundleContent::There(_) => None,
            BundleContent::Decoded(bytes) => Some(bytes),
        }
    }

    /// Reads the code object of an entry.
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
