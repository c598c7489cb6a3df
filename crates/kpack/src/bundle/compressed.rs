//! Compressed bundles (`CCOB`), of which there are three versions:
//!
//! | version | fields after the magic number |
//! |---|---|
//! | 1 | version, method (2 bytes each), uncompressed size (4), hash (8) |
//! | 2 | version, method (2 each), total size, uncompressed size (4 each), hash (8) |
//! | 3 | version, method (2 each), total size, uncompressed size (8 each), hash (8) |

use std::io::BufRead;

use md5::{Digest as _, Md5};

use crate::{
    ByteRegion,
    region::{position, take, unzstd},
};
use rocwheel_base::error::{Context as _, Result, bail, ensure};
use rocwheel_elf::ReadAt;

/// Limit for the decompressed size of a bundle. A damaged header cannot make us decompress more.
const MAX_UNPACKED: u64 = 1 << 32;

/// Limit for decompressing into one allocation of the size that the header claims. The largest
/// known bundle has a tenth of it. A larger bundle is decompressed as a stream, so that memory grows
/// only with the real contents.
const AT_ONCE: u64 = 1 << 30;

/// How a bundle is compressed, from its header.
#[derive(Clone, Copy, Debug, derive_more::Display, PartialEq, Eq)]
#[display("CCOB v{version} {method}")]
pub struct BundleCompression {
    version: u64,
    method: BundleMethod,
    /// The size of the raw bundle inside.
    pub(super) unpacked: u64,
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

/// Reads the header of the compressed bundle at the start of a region. Also returns the size of the
/// compressed bundle.
pub(super) fn compression(region: &ByteRegion<'_>) -> Result<(u64, BundleCompression)> {
    let (total, compression) = fields(region)?;
    let len = match total {
        Some(total) => total,
        // Version 1 has no total size: decompress the bundle to find the end of its stream.
        None => compression.stream(region)?.1,
    };
    ensure!(len > compression.start, "a compressed bundle shorter than its header: {len} bytes");
    region.part("compressed bundle", 0, len)?;
    Ok((len, compression))
}

/// The fields of the header of a compressed bundle, and its size if it has a field for it.
pub(super) fn fields(region: &ByteRegion<'_>) -> Result<(Option<u64>, BundleCompression)> {
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
    let compression = BundleCompression { version, method, unpacked, hash, start };
    Ok((total, compression))
}

impl BundleCompression {
    /// Decompresses the raw bundle. It is an error if the header has another size.
    pub(super) fn unpack(&self, region: &ByteRegion<'_>) -> Result<Vec<u8>> {
        match self.at_once(region)? {
            Some(bytes) => Ok(bytes),
            None => Ok(self.stream(region)?.0),
        }
    }

    /// It is an error if the decompressed bytes do not have the hash in the header.
    pub(super) fn verify_hash(&self, bytes: &[u8]) -> Result<()> {
        let digest = Md5::digest(bytes);
        let hash = u64::from_le_bytes(digest.first_chunk().copied().unwrap_or_default());
        ensure!(
            hash == self.hash,
            "the content of a compressed bundle does not have its hash: {hash:016x} instead of {:016x}",
            self.hash
        );
        Ok(())
    }

    /// The first bytes of the raw bundle.
    pub(super) fn begin(&self, region: &ByteRegion<'_>, len: u64) -> Result<Vec<u8>> {
        decode(region.from(self.start), self.method, len)
    }

    /// Decompresses into one buffer; `None` if the bundle is not zstd, is too large, or fails.
    ///
    /// A stream decoder keeps a window as large as the bundle beside the result. Decompression in
    /// one call uses the result itself as the window. After a failure, the caller tries the stream
    /// decoder, whose error is more precise.
    fn at_once(&self, region: &ByteRegion<'_>) -> Result<Option<Vec<u8>>> {
        if self.method != BundleMethod::Zstd || self.unpacked > AT_ONCE {
            return Ok(None);
        }
        let packed_len = region.len().saturating_sub(self.start);
        let packed = region.bytes("compressed bundle", self.start, packed_len)?;
        let len = usize::try_from(self.unpacked)?;
        let mut memory = Vec::new();
        memory
            .try_reserve_exact(len)
            .with_context(|| format!("failed to allocate {len} bytes for a bundle"))?;
        let decoded = zstd::bulk::Decompressor::new()
            .and_then(|mut zstd| zstd.decompress_to_buffer(&packed, &mut memory));
        Ok(decoded.is_ok_and(|done| done == len).then_some(memory))
    }

    /// Decompresses the whole stream. Also returns its end, as an offset in the region.
    fn stream(&self, region: &ByteRegion<'_>) -> Result<(Vec<u8>, u64)> {
        let mut packed = region.from(self.start);
        let bytes = decode(&mut packed, self.method, self.unpacked)?;
        ensure!(
            bytes.len() as u64 == self.unpacked,
            "a compressed bundle of another length than it says: not {} bytes",
            self.unpacked
        );
        Ok((bytes, position(&packed)))
    }
}

fn decode(packed: impl BufRead, method: BundleMethod, len: u64) -> Result<Vec<u8>> {
    let bytes = match method {
        BundleMethod::Zlib => take(flate2::bufread::ZlibDecoder::new(packed), len),
        BundleMethod::Zstd => unzstd(packed, len),
    };
    bytes.context("failed to decode a compressed bundle")
}
