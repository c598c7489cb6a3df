//! Makes the artifacts of the built-in sample: a small run as CI would leave it, with every kind of
//! package, link and name that a real one has. Nothing in it was compiled, and everything in it
//! runs.
//!
//! The crate embeds the result, `src/artifact/sample.tar.zst`; the test below makes it again and
//! compares the bytes. After a change here, or in what the kpack split writes, run
//! `ROCWHEEL_BLESS=1 cargo test -p rocwheel-test-sets`, and commit the new file.

mod core;
mod device;
mod libraries;
mod rest;
pub mod sketch;

use std::io::Read as _;

pub use self::{core::base, device::object, libraries::blas_code};
use sketch::Sketch;

/// The version of the sample, which no real release has.
const VERSION: &str = "0.99.1.dev0";
/// The commit that the sample says it was built from.
const COMMIT: &str = "5a6d91e000000000000000000000000000000000";
/// The targets that the sample has device code for; `gfx942` also has a variant with xnack.
const TARGETS: [&str; 2] = ["gfx1100", "gfx942"];

const EMBEDDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/artifact/sample.tar.zst");

/// Every archive of the sample, in both compressions.
pub fn sketches() -> Vec<Sketch> {
    let rooms = [core::sketches(), libraries::sketches(), rest::sketches()];
    rooms.into_iter().flatten().collect()
}

/// The archives of the sample, as the program has them: their names and their bytes.
pub fn archives() -> Vec<(String, Vec<u8>)> {
    let embedded = fs_err::read(EMBEDDED).unwrap();
    let tar = zstd::stream::read::Decoder::new(embedded.as_slice()).unwrap();
    let mut tar = tar::Archive::new(tar);
    let archives = tar.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    });
    archives.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The archives as members of one tar file, compressed as far as possible.
    fn embedded() -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for sketch in sketches() {
            let bytes = sketch.pack().unwrap();
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, sketch.file_name(), bytes.as_slice()).unwrap();
        }
        let tar = tar.into_inner().unwrap();
        zstd::bulk::compress(&tar, 22).unwrap()
    }

    #[test]
    fn the_embedded_sample_is_what_these_sources_make() {
        let made = embedded();
        if std::env::var_os("ROCWHEEL_BLESS").is_some() {
            fs_err::write(EMBEDDED, &made).unwrap();
            return;
        }
        let kept = fs_err::read(EMBEDDED).unwrap();
        assert!(
            made == kept,
            "run `ROCWHEEL_BLESS=1 cargo test -p rocwheel-test-sets`, and build again"
        );
    }

    #[test]
    fn both_compressions_are_in_the_sample() {
        let archives = archives();
        for ending in [".tar.zst", ".tar.xz"] {
            assert!(archives.iter().any(|(name, _)| name.ends_with(ending)), "{ending}");
        }
        assert_eq!(archives.len(), sketches().len());
    }
}
