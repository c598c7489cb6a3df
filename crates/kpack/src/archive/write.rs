//! Writes an archive, one code object at a time. The same calls give the same bytes.

use std::{
    collections::BTreeMap,
    io::{Seek, SeekFrom, Write},
};

use itertools::Itertools as _;

use super::{BLOBS, CodeOrigin, KIND, KpackScheme, MAGIC, Toc, TocEntry, VERSION};
use crate::CodeTarget;
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, ensure},
};

/// The zstd level of TheRock's tools.
const LEVEL: i32 = 3;

/// A code object, compressed and hashed. This is the expensive part, and independent of the
/// archive, so that any thread can do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    bytes: Vec<u8>,
    size: u64,
    /// The hash of `bytes`, not of the code: equal code gives equal compressed bytes, and hashing
    /// fewer bytes is faster.
    sha256: Sha256,
}

/// An archive while it is written. Equal code objects are stored once.
pub struct ArchiveWriter<W> {
    out: W,
    /// The offset of the next byte.
    at: u64,
    toc: Toc,
    /// The ordinals of the stored code objects, by the digests of their compressed bytes.
    known: BTreeMap<Sha256, u32>,
}

impl Packed {
    /// Compresses a code object. The result depends only on the code.
    pub fn new(code: &[u8]) -> Result<Self> {
        let mut bytes =
            zstd::bulk::compress(code, LEVEL).context("failed to compress a code object")?;
        // The buffer has room for code that cannot be compressed, and many wait for the archive.
        bytes.shrink_to_fit();
        Ok(Self { size: code.len() as u64, sha256: Sha256::of(&bytes), bytes })
    }
}

impl<W: Write + Seek> ArchiveWriter<W> {
    /// Begins an archive. `out` must be empty. `family` is free text; TheRock's tools write the
    /// target.
    ///
    /// The header and the number of code objects are written as zeros, and filled in by `finish`,
    /// when the offset of the table of contents is known.
    pub fn new(out: W, group: &str, family: &str) -> Result<Self> {
        let mut writer = Self {
            out,
            at: 0,
            toc: Toc {
                format_version: VERSION,
                group_name: group.to_owned(),
                gfx_arch_family: family.to_owned(),
                compression_scheme: KpackScheme::Zstd,
                ..Toc::default()
            },
            known: BTreeMap::new(),
        };
        writer.write(&[0; 68])?;
        Ok(writer)
    }

    /// Adds the code object for a key and a target.
    pub fn add(
        &mut self,
        key: &str,
        target: &CodeTarget,
        code: &Packed,
        origin: Option<CodeOrigin>,
    ) -> Result<()> {
        let ordinal = match self.known.get(&code.sha256) {
            Some(ordinal) => *ordinal,
            None => self.put(code)?,
        };
        let entry = TocEntry {
            kind: KIND.to_owned(),
            ordinal,
            original_size: Some(code.size),
            metadata: origin,
        };
        let targets = &mut self.toc.index.0.entry(key.to_owned()).or_default().0;
        let earlier = targets.insert(target.to_string(), entry);
        ensure!(earlier.is_none(), "two code objects for the same: `{key}` for `{target}`");
        Ok(())
    }

    /// Writes the table of contents and the header. Returns the length of the archive as well.
    pub fn finish(mut self) -> Result<(W, u64)> {
        let toc_at = self.at;
        let targets = self.toc.index.0.values().flat_map(|entries| entries.0.keys());
        self.toc.gfx_arches = targets.cloned().sorted().dedup().collect();
        self.toc.zstd_offset = Some(BLOBS);
        self.toc.zstd_size = Some(toc_at.saturating_sub(BLOBS));
        let mut header = [&MAGIC[..], &VERSION.to_le_bytes(), &toc_at.to_le_bytes()].concat();
        header.resize(64, 0);
        // Behind the header is the number of code objects, which is the next ordinal.
        header.extend(self.next_ordinal()?.to_le_bytes());
        let toc =
            rmp_serde::to_vec_named(&self.toc).context("failed to write the table of contents")?;
        self.write(&toc)?;
        self.out
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.out.write_all(&header))
            .and_then(|()| self.out.seek(SeekFrom::Start(self.at)))
            .context("failed to write an archive")?;
        Ok((self.out, self.at))
    }

    /// Stores a new code object, and returns its ordinal.
    fn put(&mut self, code: &Packed) -> Result<u32> {
        let ordinal = self.next_ordinal()?;
        let len = u32::try_from(code.bytes.len()).context("a code object of 4 GiB")?;
        self.write(&len.to_le_bytes())?;
        self.write(&code.bytes)?;
        self.known.insert(code.sha256, ordinal);
        Ok(ordinal)
    }

    fn next_ordinal(&self) -> Result<u32> {
        u32::try_from(self.known.len()).context("too many code objects")
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).context("failed to write an archive")?;
        self.at = self.at.saturating_add(bytes.len() as u64);
        Ok(())
    }
}
