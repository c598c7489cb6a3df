//! Writes bundles as clang does: raw ones for `kpack recombine`, and all forms for samples and
//! tests.

use std::io::Write as _;

use crate::{
    error::{Context as _, Result},
    kpack::bundle::{
        RAW,
        compressed::{BundleCompression, BundleMethod},
    },
};

const ALIGN: u64 = 4096;
const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const DEVICE: &str = "hipv4-amdgcn-amd-amdhsa--";

/// A raw bundle without its code objects: the header, and the offset of each code object.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The first bytes of the bundle.
    pub header: Vec<u8>,
    /// The offset of each code object, relative to the start of the bundle.
    pub starts: Vec<u64>,
    /// The size of the bundle with all code objects.
    pub len: u64,
}

/// The frame for code objects with these names and sizes. Like clang, aligns each to a page.
///
/// A name is a target (`gfx942`) or a whole entry id (`hipv4-amdgcn-amd-amdhsa--gfx942`).
pub fn frame<T: AsRef<str>>(code: &[(T, u64)]) -> Frame {
    let ids = code.iter().map(|(target, _)| {
        let target = target.as_ref();
        if target.starts_with("hip") {
            target.to_owned()
        } else {
            format!("{DEVICE}{target}")
        }
    });
    let ids: Vec<String> = std::iter::once(HOST.to_owned()).chain(ids).collect();
    let len = ids.iter().fold(32, |len, id| len + 24 + id.len() as u64);
    let mut at = len.next_multiple_of(ALIGN);
    let mut header = RAW.to_vec();
    header.extend((ids.len() as u64).to_le_bytes());
    let mut starts = Vec::new();
    let mut end = len;
    let sizes = std::iter::once(0).chain(code.iter().map(|(_, size)| *size));
    for (id, size) in ids.iter().zip(sizes) {
        for number in [at, size, id.len() as u64] {
            header.extend(number.to_le_bytes());
        }
        header.extend(id.as_bytes());
        starts.push(at);
        if size > 0 {
            end = at.saturating_add(size);
        }
        at = at.saturating_add(size).next_multiple_of(ALIGN);
    }
    starts.remove(0);
    Frame {
        header,
        starts,
        len: end,
    }
}

/// A raw bundle of these code objects, each with its target or its whole entry id.
pub fn raw<T: AsRef<str>, C: AsRef<[u8]>>(code: &[(T, C)]) -> Vec<u8> {
    let sizes = code
        .iter()
        .map(|(target, code)| (target, code.as_ref().len() as u64));
    let frame = frame(&sizes.collect::<Vec<_>>());
    let mut bundle = frame.header;
    for (start, (_, code)) in frame.starts.iter().zip(code) {
        bundle.resize(usize::try_from(*start).unwrap_or(usize::MAX), 0);
        bundle.extend_from_slice(code.as_ref());
    }
    bundle
}

/// Compresses a raw bundle. `version` is that of the format, from 1 to 3.
pub fn compress(bundle: &[u8], version: u16, method: BundleMethod) -> Result<Vec<u8>> {
    let packed = match method {
        BundleMethod::Zlib => {
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
            encoder.write_all(bundle).and_then(|()| encoder.finish())
        }
        BundleMethod::Zstd => zstd::bulk::compress(bundle, 3),
    };
    let packed = packed.context("failed to compress a bundle")?;
    let header = BundleCompression::of(bundle, version, method).render(packed.len() as u64);
    Ok([header, packed].concat())
}
