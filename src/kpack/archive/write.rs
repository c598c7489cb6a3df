//! Writes an archive, one code object at a time. The same calls give the same bytes.

use std::{
    cell::RefCell,
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

/// The zstd level of TheRock's tools.
const LEVEL: i32 = 3;

/// A code object, compressed and hashed. This is the expensive part, and independent of the
/// archive, so that any thread can do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    scheme: KpackScheme,
    bytes: Vec<u8>,
    size: u64,
    /// The hash of `bytes`, not of the code: equal code gives equal compressed bytes, and hashing
    /// fewer bytes is faster.
    sha256: Sha256,
}

/// A compressor, and its buffer for the next code object.
struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
}

thread_local! {
    static PACKER: RefCell<Option<Packer>> = const { RefCell::new(None) };
}

/// An archive while it is written. Equal code objects are stored once.
pub struct ArchiveWriter<W> {
    out: W,
    at: u64,
    toc: Toc,
    known: BTreeMap<Sha256, u32>,
    places: Vec<BlobPlace>,
}

impl Packed {
    /// Compresses a code object. The result depends only on the code, not on previous calls.
    pub fn new(code: &[u8], scheme: KpackScheme) -> Result<Self> {
        let bytes = match scheme {
            KpackScheme::Stored => code.to_vec(),
            KpackScheme::Zstd => PACKER
                .with_borrow_mut(|packer| compress(code, packer))
                .context("failed to compress a code object")?,
        };
        Ok(Self {
            scheme,
            size: code.len() as u64,
            sha256: Sha256::of(&bytes),
            bytes,
        })
    }
}

fn compress(code: &[u8], packer: &mut Option<Packer>) -> Result<Vec<u8>> {
    let Packer { compressor, packed } = match packer {
        Some(packer) => packer,
        None => packer.insert(Packer {
            compressor: zstd::bulk::Compressor::new(LEVEL)?,
            packed: Vec::new(),
        }),
    };
    packed.clear();
    packed.try_reserve_exact(zstd::zstd_safe::compress_bound(code.len()))?;
    compressor.compress_to_buffer(code, packed)?;
    Ok(packed.as_slice().to_vec())
}

impl<W: Write + Seek> ArchiveWriter<W> {
    /// Begins an archive. `out` must be empty. `family` is free text; TheRock's tools write the
    /// target.
    ///
    /// The header and the number of code objects are written as zeros, and filled in by `finish`,
    /// when the offset of the table of contents is known.
    pub fn new(mut out: W, group: &str, family: &str, scheme: KpackScheme) -> Result<Self> {
        out.write_all(&[0; 64])
            .context("failed to write an archive")?;
        let mut at = BLOBS;
        if scheme == KpackScheme::Zstd {
            out.write_all(&[0; 4])
                .context("failed to write an archive")?;
            at += 4;
        }
        Ok(Self {
            out,
            at,
            toc: Toc::new(group, family, scheme),
            known: BTreeMap::new(),
            places: Vec::new(),
        })
    }

    /// Adds the code object for a key and a target.
    pub fn add(
        &mut self,
        key: &str,
        target: &CodeTarget,
        code: &Packed,
        origin: Option<CodeOrigin>,
    ) -> Result<()> {
        ensure!(
            code.scheme == self.toc.compression_scheme,
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
        let named = &mut self.toc.gfx_arches;
        if !named.iter().any(|known| known == target.as_str()) {
            named.push(target.to_string());
        }
        Ok(())
    }

    /// Writes the table of contents and the header. Returns the length of the archive as well.
    pub fn finish(mut self) -> Result<(W, u64)> {
        self.toc.gfx_arches.sort();
        let start = self.at;
        match self.toc.compression_scheme {
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
        if self.toc.compression_scheme == KpackScheme::Zstd {
            self.patch(BLOBS, &count.to_le_bytes())?;
        }
        Ok((self.out, self.at))
    }

    /// Stores a new code object, and returns its ordinal.
    fn put(&mut self, code: &Packed) -> Result<u32> {
        let ordinal = u32::try_from(self.places.len()).context("too many code objects")?;
        if self.toc.compression_scheme == KpackScheme::Zstd {
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
        self.out
            .write_all(bytes)
            .context("failed to write an archive")?;
        self.at = self.at.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Overwrites bytes at an offset, and returns to the end.
    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let end = SeekFrom::Start(self.at);
        let out = &mut self.out;
        out.seek(SeekFrom::Start(at))
            .and_then(|_| out.write_all(bytes))
            .and_then(|()| out.seek(end))
            .context("failed to write an archive")?;
        Ok(())
    }
}
