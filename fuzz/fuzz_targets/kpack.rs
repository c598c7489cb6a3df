//! Damaged bundles, archives and fat binaries: an answer or an error, never a panic, never a binary
//! without its code that leads elsewhere than to its markers.
//! The first byte picks a sound file, and the rest says what to change in it, three bytes at a
//! time; from 0xf0 on the rest is the file itself.
#![no_main]

use std::{
    io::{Cursor, Read as _},
    sync::LazyLock,
};

use libfuzzer_sys::fuzz_target;
use rocwheel_elf::PatchedReader;
use rocwheel_kpack::{
    Marker,
    archive::{ArchiveWriter, Packed},
    contents,
    host::{self, FatFileKind},
};
use rocwheel_test_files::{
    bundles,
    linker::{DeviceRelocations, Executable, SharedObject},
    stored,
};

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let raw = bundles::raw(&[("gfx942", vec![1; 9000]), ("gfx90a:xnack+", vec![2; 100])]);
    let library = |how| SharedObject::new("x").device_code(&raw, &[0], how);
    let packed = |version, method| bundles::compress(&raw, version, method).expect("a bundle");
    vec![
        library(DeviceRelocations::Rela).build(),
        library(DeviceRelocations::Relr).build(),
        Executable::new().device_code(&raw, &[0], DeviceRelocations::Rela).build(),
        stored::stored(&KEYS.map(|key| (key, TARGET, key.as_bytes()))),
        archive(),
        packed(1, "zlib"),
        packed(2, "zstd"),
        packed(3, "zstd"),
        raw.clone(),
    ]
});

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let file = if *first >= 0xf0 { rest.to_vec() } else { damaged(*first, rest) };
    let _ = contents::each(&file, u64::MAX, |_, read| read().map(drop));
    let _ = (host::windows(&file), host::imports(&file));
    let Ok(FatFileKind::Fat(fat)) = host::look(&file) else {
        return;
    };
    let markers = vec![Marker::new(1, &["x"], "lib/x"); fat.bundles.len()];
    let Ok(plan) = host::plan(&file, &fat, &markers) else {
        return;
    };
    let total = plan.total_len();
    let mut after = Vec::new();
    PatchedReader::new(file, plan).read_to_end(&mut after).expect("a stream of bytes in memory");
    assert_eq!(after.len() as u64, total);
    let references = host::references(&after).expect("markers");
    assert!(references.iter().all(|found| *found.marker == markers[0]));
});

const KEYS: [&str; 2] = ["lib/x#0", "lib/x#1"];
const TARGET: &str = "gfx942:xnack+";

fn archive() -> Vec<u8> {
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, "x", "gfx942").expect("an archive");
    for key in KEYS {
        let code = Packed::new(key.as_bytes()).expect("a code object");
        writer.add(key, &TARGET.parse().expect("a target"), &code, None).expect("an entry");
    }
    writer.finish().expect("an archive").0.into_inner()
}

fn damaged(seed: u8, changes: &[u8]) -> Vec<u8> {
    let mut file = SEEDS[usize::from(seed) % SEEDS.len()].clone();
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if at & 0x8000 != 0 {
            file.truncate(file.len().saturating_sub(at & 0x7fff));
        } else if let Some(place) = file.get_mut(at) {
            *place = change[2];
        }
    }
    file
}
