//! Reads compressed bundles (`CCOB`) in the three versions that clang has written. See
//! [Compressed Offload Bundle](https://clang.llvm.org/docs/ClangOffloadBundler.html).
//!
//! | version | fields after the magic number |
//! |---|---|
//! | 1 | version, method (2 bytes each), uncompressed size (4), hash (8) |
//! | 2 | version, method (2 each), total size, uncompressed size (4 each), hash (8) |
//! | 3 | version, method (2 each), total size, uncompressed size (8 each), hash (8) |

use std::io::BufRead;

use md5::{Digest as _, Md5};

use crate::{
    elf::ReadAt,
    error::{Context as _, Result, bail, ensure},
    kpack::{
        ByteRegion,
        bundle::MAX_UNPACKED,
        region::{position, take, unzstd},
    },
};

/// Limit for decompressing into one allocation of the size that the header claims. The largest
/// known bundle has a tenth of it. Larger ones are decompressed as a stream, so that memory grows
/// only with the real contents.
const AT_ONCE: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, derive_more::Display, PartialEq, Eq)]
#[display("CCOB v{version} {method}")]
pub struct BundleCompression {
    pub version: u16,
    pub method: BundleMethod,
    /// The size of the raw bundle inside.
    pub unpacked: u64,
    /// The first half of the MD5 hash of the raw bundle, as a little-endian number.
    hash: u64,
}

#[derive(Clone, Copy, Debug, derive_more::Display, PartialEq, Eq)]
pub enum BundleMethod {
    #[display("zlib")]
    Zlib,
    #[display("zstd")]
    Zstd,
}

/// Reads the header of the compressed bundle at the start of a region. Also returns the size of the
/// compressed bundle.
pub(super) fn header(region: &ByteRegion<'_>) -> Result<(u64, BundleCompression)> {
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
        // Version 1 has no total size: decompress the bundle to find the end of its stream.
        None => unpack(region, &compression)?.1,
    };
    ensure!(
        len > header_len(version),
        "a compressed bundle shorter than its header: {len} bytes"
    );
    region.part("compressed bundle", 0, len)?;
    Ok((len, compression))
}

/// Decompresses the raw bundle, reusing `memory` if possible. It is an error if its size or its hash
/// is not the one in the header.
pub(super) fn decode(
    region: &ByteRegion<'_>,
    compression: &BundleCompression,
    memory: Vec<u8>,
) -> Result<Vec<u8>> {
    let bytes = match at_once(region, compression, memory)? {
        Some(bytes) => bytes,
        None => unpack(region, compression)?.0,
    };
    let digest = Md5::digest(&bytes);
    let found = u64::from_le_bytes(digest.first_chunk().copied().unwrap_or_default());
    ensure!(
        found == compression.hash,
        "the content of a compressed bundle does not have its hash: {found:016x} instead of {:016x}",
        compression.hash
    );
    Ok(bytes)
}

/// Decompresses into one buffer; `None` if the bundle is not zstd, is too large, or fails.
///
/// A stream decoder keeps a window as large as the bundle beside the result. Decompression in one
/// call uses the result itself as the window. After a failure, the caller tries the stream decoder,
/// whose error is more precise.
fn at_once(
    region: &ByteRegion<'_>,
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

/// Decompresses the first bytes of the raw bundle, at most `limit`. Verifies neither size nor hash.
pub(super) fn begin(
    region: &ByteRegion<'_>,
    compression: &BundleCompression,
    limit: u64,
) -> Result<Vec<u8>> {
    let packed = region.from(header_len(compression.version));
    stream(packed, compression.method, limit.min(compression.unpacked))
}

/// Decompresses the whole stream. Also returns its end, as an offset in the region.
fn unpack(region: &ByteRegion<'_>, compression: &BundleCompression) -> Result<(Vec<u8>, u64)> {
    let mut packed = region.from(header_len(compression.version));
    let bytes = stream(&mut packed, compression.method, compression.unpacked)?;
    ensure!(
        bytes.len() as u64 == compression.unpacked,
        "a compressed bundle of another length than it says: not {} bytes",
        compression.unpacked
    );
    Ok((bytes, position(&packed)))
}

fn stream(packed: impl BufRead, method: BundleMethod, len: u64) -> Result<Vec<u8>> {
    let bytes = match method {
        BundleMethod::Zlib => take(flate2::bufread::ZlibDecoder::new(packed), len),
        BundleMethod::Zstd => unzstd(packed, len),
    };
    bytes.context("failed to decode a compressed bundle")
}
