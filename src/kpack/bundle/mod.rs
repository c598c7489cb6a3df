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
#[cfg(test)]
#[path = "../../../tests/it/support/bundles.rs"]
pub(crate) mod write;

use std::collections::BTreeSet;

pub use compressed::{BundleCompression, BundleMethod};
pub use entry::{BundleEntry, Frame, frame};

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

#[derive(Clone, Debug, derive_more::Display, PartialEq, Eq)]
pub enum BundleForm {
    #[display("none")]
    Raw,
    Compressed(BundleCompression),
}

/// A bundle whose entries can be read. A compressed one has been decompressed.
pub struct OpenedBundle<'a> {
    region: ByteRegion<'a>,
    decoded: Option<Vec<u8>>,
    entries: Vec<BundleEntry>,
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
    let (len, form) = if rest.has(0, RAW)? {
        (entry::header(&rest, rest.len())?.end(), BundleForm::Raw)
    } else if rest.has(0, COMPRESSED)? {
        let (len, compression) = compressed::header(&rest)?;
        (len, BundleForm::Compressed(compression))
    } else {
        bail!("neither a bundle nor zeros");
    };
    Ok(Bundle { offset, len, form })
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
    let region = section.part("bundle", bundle.offset, bundle.len)?;
    let decoded = match &bundle.form {
        BundleForm::Raw => None,
        BundleForm::Compressed(compression) => {
            Some(compressed::decode(&region, compression, memory)?)
        }
    };
    let mut opened = OpenedBundle {
        region,
        decoded,
        entries: Vec::new(),
    };
    let content = opened.content();
    ensure!(content.has(0, RAW)?, "no bundle in a compressed bundle");
    opened.entries = entry::header(&content, content.len())?.entries;
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

#[cfg(test)]
mod tests;
