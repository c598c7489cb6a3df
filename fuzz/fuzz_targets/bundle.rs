//! Bundles: what is found lies within the section, and all of it can be read.
//! The first byte says what the section begins with; a compressed bundle is made around the rest, so
//! that its hash is right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocwheel_kpack::{ByteRegion, bundle};
use rocwheel_test_files::bundles;

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let raw = [&bundle::RAW[..], rest].concat();
    let packed = |version, method| bundles::compress(&raw, version, method).expect("a bundle");
    let file = match first % 8 {
        0 => rest.to_vec(),
        1 | 2 => raw,
        3 => [&bundle::COMPRESSED[..], rest].concat(),
        4 => packed(1, "zlib"),
        5 => packed(2, "zstd"),
        6 => packed(3, "zlib"),
        _ => [packed(1, "zstd"), vec![0; 9], packed(3, "zstd")].concat(),
    };
    let section = ByteRegion::whole(&file);
    let mut end = 0;
    for one in bundle::find(&section).unwrap_or_default() {
        assert!(one.offset >= end && one.len > 0, "bundles overlap");
        end = one.offset + one.len;
        assert!(end <= file.len() as u64, "a bundle ends outside");
        let targets = bundle::targets(&section, &one);
        let Ok(opened) = bundle::open(&section, &one) else {
            continue;
        };
        for (target, entry) in opened.code() {
            let code = opened.read(entry).expect("an entry within its bundle");
            assert_eq!(code.len() as u64, entry.size);
            let known = targets.as_ref().expect("the header was read");
            assert!(known.contains(target));
        }
    }
});
