//! Reads compressed bundles (`CCOB`) in the three versions that clang has written. See
//! [Compressed Offload Bundle](https://clang.llvm.org/docs/ClangOffloadBundler.html).
//!
//! | version | fields after the magic number |
//! |---|---|
//! | 1 | version, method (2 bytes each), uncompressed size (4), hash (8) |
//! | 2 | version, method (2 each), total size, uncompressed size (4 each), hash (8) |
//! | 3 | version, method (2 each), total size, uncompressed size (8 each), hash (8) |

use std::{
    fmt,
    io::{self, Read},
};

use md5::{Digest as _, Md5};

use crate::{
    elf::ReadAt,
    error::{Context as _, Result, bail, ensure},
    kpack::{ByteRegion, bundle::MAX_UNPACKED},
};

/// Limit for decompressing into one allocation of the size that the header claims. The largest
/// known bundle has a tenth of it. Larger ones are decompressed as a stream, so that memory grows
/// only with the real contents.
const AT_ONCE: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleCompression {
    pub version: u16,
    pub method: BundleMethod,
    /// The size of the raw bundle inside.
    pub unpacked: u64,
    /// The first half of the MD5 hash of the raw bundle, as a little-endian number.
    hash: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleMethod {
    Zlib,
    Zstd,
}

impl BundleCompression {
    pub(super) fn of(bytes: &[u8], version: u16, method: BundleMethod) -> Self {
        Self {
            version,
            method,
            unpacked: bytes.len() as u64,
            hash: hash(bytes),
        }
    }

    /// The header for `packed` bytes of compressed data.
    pub(super) fn render(&self, packed: u64) -> Vec<u8> {
        let mut header = super::COMPRESSED.to_vec();
        header.extend(self.version.to_le_bytes());
        header.extend((self.method as u16).to_le_bytes());
        let total = packed.saturating_add(header_len(self.version));
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        match self.version {
            1 => header.extend(narrow(self.unpacked)),
            2 => header.extend([narrow(total), narrow(self.unpacked)].concat()),
            _ => header.extend([total.to_le_bytes(), self.unpacked.to_le_bytes()].concat()),
        }
        header.extend(self.hash.to_le_bytes());
        header
    }
}

impl fmt::Display for BundleMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        })
    }
}

/// Reads the header of the compressed bundle at the start of a region. Also returns the size of the
/// compressed bundle.
pub(super) fn header(
    region: &ByteRegion<'_, impl ReadAt + ?Sized>,
) -> Result<(u64, BundleCompression)> {
    let number = |at, size| region.number("header of a compressed bundle", at, size);
    let version = u16::try_from(number(4, 2)?).unwrap_or(0);
    let method = match number(6, 2)? {
        0 => BundleMethod::Zlib,
        1 => BundleMethod::Zstd,
        other => bail!("a compressed bundle of an unknown method: {other}"),
    };
    let (total, unpacked, hash) = match version {
        1 => (None, number(8, 4)?, number(12, 8)?),
        2 => (Some(number(8, 4)?), number(12, 4)?, number(16, 8)?),
        3 => (Some(number(8, 8)?), number(16, 8)?, number(24, 8)?),
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
    };
    let len = match total {
        Some(total) => total,
        None => measure(region, &compression)?,
    };
    ensure!(
        len > header_len(version),
        "a compressed bundle shorter than its header: {len} bytes"
    );
    region.part("compressed bundle", 0, len)?;
    Ok((len, compression))
}

/// Decompresses the raw bundle, reusing `memory` if possible. It is an error if its size is not the
/// one in the header.
pub(super) fn decode(
    region: &ByteRegion<'_, impl ReadAt + ?Sized>,
    compression: &BundleCompression,
    memory: Vec<u8>,
) -> Result<Vec<u8>> {
    match at_once(region, compression, memory)? {
        Some(bytes) => Ok(bytes),
        None => Ok(unpack(region, compression)?.0),
    }
}

/// An error unless the raw bundle has the hash in the header.
pub(super) fn verify(bytes: &[u8], compression: &BundleCompression) -> Result<()> {
    let found = hash(bytes);
    ensure!(
        found == compression.hash,
        "the content of a compressed bundle does not have its hash: {found:016x} instead of {:016x}",
        compression.hash
    );
    Ok(())
}

/// Decompresses into one buffer; `None` if the bundle is not zstd, is too large, or fails.
///
/// A stream decoder keeps a window as large as the bundle beside the result. Decompression in one
/// call uses the result itself as the window. After a failure, the caller tries the stream decoder,
/// whose error is more precise.
fn at_once(
    region: &ByteRegion<'_, impl ReadAt + ?Sized>,
    compression: &BundleCompression,
    mut memory: Vec<u8>,
) -> Result<Option<Vec<u8>>> {
    if compression.method != BundleMethod::Zstd || compression.unpacked > AT_ONCE {
        return Ok(None);
    }
    let start = header_len(compression.version);
    let packed = region.bytes(
        "compressed bundle",
        start,
        region.len().saturating_sub(start),
    )?;
    let len = usize::try_from(compression.unpacked)?;
    memory.clear();
    memory
        .try_reserve_exact(len)
        .context("failed to allocate memory for a bundle")?;
    let mut decompressor =
        zstd::bulk::Decompressor::new().context("failed to start the decoder")?;
    let decoded = decompressor.decompress_to_buffer(&packed, &mut memory);
    Ok(decoded.is_ok_and(|done| done == len).then_some(memory))
}

fn header_len(version: u16) -> u64 {
    match version {
        1 => 20,
        2 => 24,
        _ => 32,
    }
}

/// The size of a bundle of version 1, whose header has no total size: decompresses it to find the
/// end of its stream.
fn measure(
    region: &ByteRegion<'_, impl ReadAt + ?Sized>,
    compression: &BundleCompression,
) -> Result<u64> {
    unpack(region, compression).map(|(_, len)| len)
}

/// Decompresses the first bytes of the raw bundle, at most `limit`. Verifies neither size nor hash.
pub(super) fn begin(
    region: &ByteRegion<'_, impl ReadAt + ?Sized>,
    compression: &BundleCompression,
    limit: u64,
) -> Result<Vec<u8>> {
    let mut packed = region.from(header_len(compression.version));
    let part = BundleCompression {
        unpacked: limit.min(compression.unpacked),
        ..*compression
    };
    stream(&mut packed, &part)
}

/// Decompresses the whole stream. Also returns its end, as an offset in the region.
fn unpack(
    region: &ByteRegion<'_, impl ReadAt + ?Sized>,
    compression: &BundleCompression,
) -> Result<(Vec<u8>, u64)> {
    let mut packed = region.from(header_len(compression.version));
    let bytes = stream(&mut packed, compression)?;
    ensure!(
        bytes.len() as u64 == compression.unpacked,
        "a compressed bundle of another length than it says: not {} bytes",
        compression.unpacked
    );
    Ok((bytes, packed.position()))
}

fn stream(mut packed: impl io::BufRead, compression: &BundleCompression) -> Result<Vec<u8>> {
    let bytes = match compression.method {
        BundleMethod::Zlib => take(flate2::bufread::ZlibDecoder::new(&mut packed), compression),
        BundleMethod::Zstd => {
            zstd_decoder(&mut packed).and_then(|decoder| take(decoder, compression))
        }
    };
    bytes.context("failed to decode a compressed bundle")
}

/// A zstd decoder for large windows. clang compresses with a window as large as the bundle, and by
/// default the decoder refuses windows of more than 128 MiB.
fn zstd_decoder<R: io::BufRead>(packed: R) -> io::Result<zstd::Decoder<'static, R>> {
    let mut decoder = zstd::Decoder::with_buffer(packed)?.single_frame();
    decoder.window_log_max(31)?;
    Ok(decoder)
}

/// Reads at most one byte more than the header says. That byte shows that there is too much data,
/// without decompressing all of it.
fn take(decoder: impl Read, compression: &BundleCompression) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = compression.unpacked.saturating_add(1);
    decoder.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn hash(bytes: &[u8]) -> u64 {
    let digest = Md5::digest(bytes);
    let half = digest.first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(half)
}
