//! Reads an archive. The table of contents is read when it is opened, and each code object when it
//! is needed.

use crate::{
    elf::ReadAt,
    error::{Context as _, Result, ensure},
    kpack::{
        ByteRegion, CodeTarget,
        archive::{
            BLOBS, KpackScheme, MAGIC, StoredCode, VERSION,
            toc::{BlobPlace, Toc},
        },
        region::unzstd,
    },
};

/// Limit for the table of contents, which takes several times its size in memory. An entry has a
/// few hundred bytes.
const MAX_TOC: u64 = 1 << 26;
/// The runtime has the same limits for compressed archives.
const MAX_CODES: u64 = 1 << 20;
const MAX_FRAMES: u64 = 1 << 32;
/// Limit for a decompressed code object. Real ones have some megabytes.
const MAX_CODE: u64 = 1 << 32;

/// An opened archive. All its code objects were checked to lie within it.
#[derive(Debug)]
pub struct KpackArchive<R> {
    source: R,
    toc: Toc,
    codes: Vec<StoredCode>,
}

impl<R: ReadAt> KpackArchive<R> {
    pub fn open(source: R) -> Result<Self> {
        let (toc, places) = read(&ByteRegion::whole(&source))?;
        Ok(Self {
            codes: toc.codes(&places)?,
            source,
            toc,
        })
    }

    pub fn group(&self) -> &str {
        &self.toc.group_name
    }

    /// The targets that the archive lists (`gfx_arches`). The runtime uses only this list to decide
    /// whether an archive is for a target.
    pub fn targets(&self) -> &[String] {
        &self.toc.gfx_arches
    }

    pub fn scheme(&self) -> KpackScheme {
        self.toc.compression_scheme
    }

    /// All entries of the table of contents, sorted by key and target.
    pub fn codes(&self) -> &[StoredCode] {
        &self.codes
    }

    pub fn find(&self, key: &str, target: &CodeTarget) -> Option<&StoredCode> {
        let found = self
            .codes
            .binary_search_by(|code| (code.key.as_str(), &code.target).cmp(&(key, target)));
        found.ok().and_then(|at| self.codes.get(at))
    }

    /// Reads, and decompresses, a code object of this archive.
    pub fn read(&self, code: &StoredCode) -> Result<Vec<u8>> {
        let what = "code object";
        let region = ByteRegion::whole(&self.source).part(what, code.offset, code.packed)?;
        if self.scheme() == KpackScheme::Stored {
            return region.bytes(what, 0, code.packed);
        }
        ensure!(
            code.size <= MAX_CODE,
            "a code object of {} bytes",
            code.size
        );
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

fn read(file: &ByteRegion<'_>) -> Result<(Toc, Vec<BlobPlace>)> {
    ensure!(file.has(0, MAGIC)?, "not an archive of device code");
    let version = file.number("header", 4, 4)?;
    ensure!(
        version == VERSION,
        "an archive of an unknown version: {version}"
    );
    let start = file.number("header", 8, 8)?;
    let len = file.len().saturating_sub(start);
    ensure!(
        start >= BLOBS && len <= MAX_TOC,
        "contents of {len} bytes at {start}"
    );
    let toc = Toc::parse(&file.bytes("contents", start, len)?)?;
    let code = file.part("code", 0, start)?;
    let places = match toc.compression_scheme {
        KpackScheme::Stored => stored(&code, &toc)?,
        KpackScheme::Zstd => frames(&code, &toc)?,
    };
    Ok((toc, places))
}

fn stored(code: &ByteRegion<'_>, toc: &Toc) -> Result<Vec<BlobPlace>> {
    let places = toc.blobs.clone().context("no places of code objects")?;
    for place in &places {
        code.part("code object", place.offset, place.size)?;
        ensure!(place.offset >= BLOBS, "a code object in the header");
    }
    Ok(places)
}

/// The places of zstd frames. The archive has no index of them, so this reads the length of each
/// frame and skips its contents.
fn frames(code: &ByteRegion<'_>, toc: &Toc) -> Result<Vec<BlobPlace>> {
    let offset = toc.zstd_offset.context("no place of the frames")?;
    let size = toc.zstd_size.context("no length of the frames")?;
    ensure!(
        offset >= BLOBS && size <= MAX_FRAMES,
        "{size} bytes of frames at {offset}"
    );
    let area = code.part("frames", offset, size)?;
    let count = area.number("number of frames", 0, 4)?;
    ensure!(count <= MAX_CODES, "an archive of {count} code objects");
    let mut places = Vec::new();
    let mut at = 4_u64;
    for _ in 0..count {
        let size = area.number("length of a frame", at, 4)?;
        at = at.saturating_add(4);
        area.part("frame", at, size)?;
        places.push(BlobPlace {
            offset: offset.saturating_add(at),
            size,
        });
        at = at.saturating_add(size);
    }
    ensure!(at == area.len(), "frames that end at {at} of {size}");
    Ok(places)
}
