//! Writes bundles as clang does: for samples and tests.

use std::io::Write as _;

use crate::{
    error::{Context as _, Result},
    kpack::bundle::{
        RAW,
        compressed::{Compression, Method},
    },
};

const ALIGN: usize = 4096;
const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const DEVICE: &str = "hipv4-amdgcn-amd-amdhsa--";

/// A raw bundle of code objects and their targets; a name with more than a target stays as it is.
pub fn raw<T: AsRef<str>, C: AsRef<[u8]>>(code: &[(T, C)]) -> Vec<u8> {
    let ids = code.iter().map(|(target, _)| {
        let target = target.as_ref();
        if target.starts_with("hip") {
            target.to_owned()
        } else {
            format!("{DEVICE}{target}")
        }
    });
    let ids: Vec<String> = std::iter::once(HOST.to_owned()).chain(ids).collect();
    let header = ids.iter().fold(32, |len, id| len + 24 + id.len());
    let mut at = header.next_multiple_of(ALIGN);
    let mut bundle = RAW.to_vec();
    bundle.extend((ids.len() as u64).to_le_bytes());
    let host: &[u8] = &[];
    let bodies = std::iter::once(host).chain(code.iter().map(|(_, bytes)| bytes.as_ref()));
    let mut content = Vec::new();
    for (id, bytes) in ids.iter().zip(bodies) {
        for number in [at, bytes.len(), id.len()] {
            bundle.extend((number as u64).to_le_bytes());
        }
        bundle.extend(id.as_bytes());
        content.resize(at - header.next_multiple_of(ALIGN), 0);
        content.extend_from_slice(bytes);
        at = (at + bytes.len()).next_multiple_of(ALIGN);
    }
    if !code.is_empty() {
        bundle.resize(header.next_multiple_of(ALIGN), 0);
        bundle.extend(content);
    }
    bundle
}

/// A bundle compressed, in a version of the format from 1 to 3.
pub fn compress(bundle: &[u8], version: u16, method: Method) -> Result<Vec<u8>> {
    let packed = match method {
        Method::Zlib => {
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
            encoder.write_all(bundle).and_then(|()| encoder.finish())
        }
        Method::Zstd => zstd::bulk::compress(bundle, 3),
    };
    let packed = packed.context("compress a bundle")?;
    let header = Compression::of(bundle, version, method).render(packed.len() as u64);
    Ok([header, packed].concat())
}
