//! Writes an archive, one code object at a time: the same calls give the same bytes.

use std::{
    collections::BTreeMap,
    io::{Seek, SeekFrom, Write},
};

use crate::{
    digest::Sha256,
    error::{Context as _, Result, ensure},
    kpack::{
        CodeTarget,
        archive::{
            BLOBS, CodeOrigin, KpackScheme, MAGIC, VERSION,
            toc::{BlobPlace, Toc, TocEntry},
        },
    },
};

/// What upstream compresses with.
const LEVEL: i32 = 3;

/// A code object as it will stand in an archive: the costly part, which any thread may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    scheme: KpackScheme,
    bytes: Vec<u8>,
    size: u64,
    /// Of the bytes as they will stand there: equal code is packed to equal bytes, and these are
    /// fewer.
    sha256: Sha256,
}

/// Makes code objects ready, one after the other, in memory that is used again.
pub struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
}

/// An archive that is being written; code objects that are equal are written once.
pub struct ArchiveWriter<W> {
    out: W,
    at: u64,
    toc: Toc,
    scheme: KpackScheme,
    known: BTreeMap<Sha256, u32>,
    places: Vec<BlobPlace>,
}

/// What became of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenArchive {
    pub len: u64,
    /// How many code objects the contents name.
    pub codes: usize,
    /// How many of them differ.
    pub distinct: usize,
}

impl Packed {
    pub fn new(code: &[u8], scheme: KpackScheme) -> Result<Self> {
        Packer::new()?.pack(code, scheme)
    }
}

impl Packer {
    pub fn new() -> Result<Self> {
        let compressor = zstd::bulk::Compressor::new(LEVEL).context("begin to compress")?;
        Ok(Self {
            compressor,
            packed: Vec::new(),
        })
    }

    /// The same for the same code, whatever was packed before.
    pub fn pack(&mut self, code: &[u8], scheme: KpackScheme) -> Result<Packed> {
        let bytes = match scheme {
            KpackScheme::Stored => code.to_vec(),
            KpackScheme::Zstd => self.compress(code).context("compress a code object")?,
        };
        Ok(Packed {
            scheme,
            size: code.len() as u64,
            sha256: Sha256::of(&bytes),
            bytes,
        })
    }

    fn compress(&mut self, code: &[u8]) -> Result<Vec<u8>> {
        self.packed.clear();
        let most = zstd::zstd_safe::compress_bound(code.len());
        self.packed.try_reserve_exact(most)?;
        self.compressor.compress_to_buffer(code, &mut self.packed)?;
        Ok(self.packed.as_slice().to_vec())
    }
}

impl<W: Write + Seek> ArchiveWriter<W> {
    /// `out` must be empty; `family` is free text, by custom the target.
    pub fn new(mut out: W, group: &str, family: &str, scheme: KpackScheme) -> Result<Self> {
        out.write_all(&[0; 64]).context("write an archive")?;
        let mut at = BLOBS;
        if scheme == KpackScheme::Zstd {
            out.write_all(&[0; 4]).context("write an archive")?;
            at += 4;
        }
        Ok(Self {
            out,
            at,
            toc: Toc::new(group, family, scheme),
            scheme,
            known: BTreeMap::new(),
            places: Vec::new(),
        })
    }

    /// Adds what the runtime gets for a key and a target.
    pub fn add(
        &mut self,
        key: &str,
        target: &CodeTarget,
        code: &Packed,
        origin: Option<CodeOrigin>,
    ) -> Result<()> {
        ensure!(
            code.scheme == self.scheme,
            "a code object that is compressed otherwise: `{key}` for `{target}`"
        );
        let ordinal = match self.known.get(&code.sha256) {
            Some(ordinal) => *ordinal,
            None => self.put(code)?,
        };
        let entry = TocEntry::new(ordinal, code.size, origin);
        let targets = self.toc.index.entry(key.to_owned()).or_default();
        let before = targets.insert(target.to_string(), entry);
        ensure!(
            before.is_none(),
            "two code objects for the same: `{key}` for `{target}`"
        );
        if !self
            .toc
            .gfx_arches
            .iter()
            .any(|known| known == target.as_str())
        {
            self.toc.gfx_arches.push(target.to_string());
        }
        Ok(())
    }

    /// Writes the contents and the header.
    pub fn finish(mut self) -> Result<(W, WrittenArchive)> {
        self.toc.gfx_arches.sort();
        let start = self.at;
        match self.scheme {
            KpackScheme::Stored => self.toc.blobs = Some(self.places.clone()),
            KpackScheme::Zstd => {
                self.toc.zstd_offset = Some(BLOBS);
                self.toc.zstd_size = Some(start.saturating_sub(BLOBS));
            }
        }
        let contents = self.toc.render()?;
        self.write(&contents)?;
        let count = u32::try_from(self.places.len()).context("too many code objects")?;
        let version = u32::try_from(VERSION).unwrap_or(1).to_le_bytes();
        let header = [&MAGIC[..], &version, &start.to_le_bytes()].concat();
        self.patch(0, &header)?;
        if self.scheme == KpackScheme::Zstd {
            self.patch(BLOBS, &count.to_le_bytes())?;
        }
        let written = WrittenArchive {
            len: self.at,
            codes: self.toc.index.values().map(BTreeMap::len).sum(),
            distinct: self.places.len(),
        };
        Ok((self.out, written))
    }

    fn put(&mut self, code: &Packed) -> Result<u32> {
        let ordinal = u32::try_from(self.places.len()).context("too many code objects")?;
        if self.scheme == KpackScheme::Zstd {
            let len = u32::try_from(code.bytes.len()).context("a code object of 4 GiB")?;
            self.write(&len.to_le_bytes())?;
        }
        self.places.push(BlobPlace {
            offset: self.at,
            size: code.bytes.len() as u64,
        });
        self.write(&code.bytes)?;
        self.known.insert(code.sha256, ordinal);
        Ok(ordinal)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).context("write an archive")?;
        self.at = self.at.saturating_add(bytes.len() as u64);
        Ok(())
    }

    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let end = SeekFrom::Start(self.at);
        let out = &mut self.out;
        out.seek(SeekFrom::Start(at))
            .and_then(|_| out.write_all(bytes))
            .and_then(|()| out.seek(end))
            .context("write an archive")?;
        Ok(())
    }
}
