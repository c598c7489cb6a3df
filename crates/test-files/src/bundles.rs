//! Writes offload bundles as clang does, raw and compressed.

use std::io::{self, Write as _};

use md5::{Digest as _, Md5};

const ALIGN: u64 = 4096;
const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const DEVICE: &str = "hipv4-amdgcn-amd-amdhsa--";

/// A raw bundle of these code objects, each with its target (`gfx942`) or its whole entry id
/// (`hipv4-amdgcn-amd-amdhsa--gfx942`). Like clang, aligns each to a page.
pub fn raw<T: AsRef<str>, C: AsRef<[u8]>>(code: &[(T, C)]) -> Vec<u8> {
    let ids = code.iter().map(|(target, code)| {
        let target = target.as_ref();
        let prefix = if target.starts_with("hip") { "" } else { DEVICE };
        (format!("{prefix}{target}"), code.as_ref())
    });
    let entries: Vec<(String, &[u8])> =
        [(HOST.to_owned(), &[][..])].into_iter().chain(ids).collect();
    let header = entries.iter().fold(32, |len, (id, _)| len + 24 + id.len() as u64);
    let mut bundle = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bundle.extend((entries.len() as u64).to_le_bytes());
    let mut at = header.next_multiple_of(ALIGN);
    let mut places = Vec::new();
    for (id, code) in &entries {
        for number in [at, code.len() as u64, id.len() as u64] {
            bundle.extend(number.to_le_bytes());
        }
        bundle.extend(id.as_bytes());
        places.push(at);
        at = (at + code.len() as u64).next_multiple_of(ALIGN);
    }
    for (place, (_, code)) in places.into_iter().zip(&entries).skip(1) {
        bundle.resize(usize::try_from(place).unwrap(), 0);
        bundle.extend_from_slice(code);
    }
    bundle
}

/// Compresses a raw bundle with `zlib` or `zstd`. `version` is that of the format, from 1 to 3.
pub fn compress(bundle: &[u8], version: u16, method: &str) -> io::Result<Vec<u8>> {
    let packed = match method {
        "zlib" => {
            let level = flate2::Compression::new(6);
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(bundle)?;
            encoder.finish()?
        }
        _ => zstd::bulk::compress(bundle, 3)?,
    };
    let [method, len] = [u16::from(method != "zlib"), [20, 24, 32][usize::from(version) - 1]];
    let (total, unpacked) = (packed.len() as u64 + u64::from(len), bundle.len() as u64);
    let narrow = |number: u64| u32::try_from(number).unwrap().to_le_bytes();
    let sizes = match version {
        1 => narrow(unpacked).to_vec(),
        2 => [narrow(total), narrow(unpacked)].concat(),
        _ => [total.to_le_bytes(), unpacked.to_le_bytes()].concat(),
    };
    let numbers = [version.to_le_bytes(), method.to_le_bytes()].concat();
    let hash = &Md5::digest(bundle)[..8];
    Ok([b"CCOB", &numbers[..], &sizes, hash, &packed].concat())
}
