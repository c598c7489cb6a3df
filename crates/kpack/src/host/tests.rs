//! Fat binaries of every form, without their code.

use std::io::Read as _;

use super::*;
use crate::Marker;
use rocwheel_elf::{self, PatchedReader};
use rocwheel_test_files::{
    bundles,
    linker::{DeviceRelocations, Executable, SharedObject},
};

/// Two bundles, and where they begin.
fn code() -> (Vec<u8>, Vec<u64>) {
    let one = bundles::raw(&[("gfx1100", vec![1; 30_000]), ("gfx942", vec![2; 9000])]);
    let mut bytes = one.clone();
    bytes.resize(one.len().next_multiple_of(4096), 0);
    let second = bytes.len() as u64;
    bytes.extend(bundles::raw(&[("gfx942", vec![3; 50_000])]));
    (bytes, vec![0, second])
}

fn library() -> SharedObject {
    let (bytes, wrappers) = code();
    SharedObject::new("libfat.so.1")
        .needs("libc.so.6")
        .function("answer", 42)
        .device_code(&bytes, &wrappers, DeviceRelocations::Rela)
        .bss(100_000)
        .unloaded_section(".comment", b"a compiler")
}

fn fat(file: &[u8]) -> SplittableBinary {
    match look(&file).unwrap() {
        FatFileKind::Fat(fat) => fat,
        other => panic!("{other:?}"),
    }
}

fn stuck(file: &[u8]) -> String {
    match look(&file) {
        Ok(FatFileKind::Unsplittable { why, .. }) => why.to_owned(),
        Ok(other) => panic!("{other:?}"),
        Err(error) => format!("error: {error:#}"),
    }
}

fn markers(fat: &SplittableBinary) -> Vec<Marker> {
    let names = ["demo_lib", "demo_lib_1"].iter().cycle();
    let markers = names.map(|name| Marker::new(1, &[name], "stage/lib/libfat.so.1"));
    markers.take(fat.bundles.len()).collect()
}

/// The file without its code.
fn split(file: &Vec<u8>) -> Vec<u8> {
    let fat = fat(file);
    let plan = plan(file, &fat, &markers(&fat)).unwrap();
    let mut bytes = Vec::new();
    let mut reader = PatchedReader::new(file, plan.clone());
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, plan.total_len());
    bytes
}

/// Checks what every split file must be, and returns how many bytes it lost.
fn lost(file: &Vec<u8>) -> usize {
    let split = split(file);
    assert!(matches!(look(&split).unwrap(), FatFileKind::Split));
    let fat = fat(file);
    let references = references(&split).unwrap();
    let indices: Vec<usize> = references.iter().map(|reference| reference.index).collect();
    let bundles: Vec<usize> = fat.wrappers.iter().map(|w| w.bundle).collect();
    assert_eq!(indices, bundles);
    let before = rocwheel_elf::read(file).unwrap().unwrap();
    let after = rocwheel_elf::read(&split).unwrap().unwrap();
    assert!(after.kpack_ref);
    assert_eq!(
        (after.kind, after.needed, after.soname),
        (before.kind, before.needed, before.soname)
    );
    for (index, window) in split.windows(64).enumerate() {
        assert!(!window.iter().all(|byte| (1..4).contains(byte)), "code at {index:#x}");
    }
    file.len() - split.len()
}

#[test]
fn the_code_leaves_the_file_and_its_addresses_stay() {
    let file = library().build();
    let (bytes, _) = code();
    let lost = lost(&file);
    assert!(lost > bytes.len() - 3 * 4096, "{lost} of {}", bytes.len());
}

#[test]
fn a_binary_of_every_form_loses_its_code() {
    let (bytes, wrappers) = code();
    let device =
        |object: Executable| object.device_code(&bytes, &wrappers, DeviceRelocations::Rela);
    let files = [
        library().without_phdr().build(),
        library().bss(0).code_first().build(),
        library().runpath("$ORIGIN").build_id(&[1; 20]).build(),
        library().device_code(&bytes, &wrappers, DeviceRelocations::Relr).build(),
        device(Executable::new().prints("static")).build(),
        device(Executable::new().needs("libc.so.6")).build(),
        device(Executable::new().needs("libc.so.6").at_fixed_address()).build(),
        device(Executable::new().at_any_address()).build(),
    ];
    for (index, file) in files.iter().enumerate() {
        assert!(lost(file) > 80_000, "file {index}");
    }
}

#[test]
fn what_leaves_the_file_suits_every_alignment() {
    for (page, least) in [(0x4000, 0xf000), (0x8000, 0xf000), (0x10000, 0xf000)] {
        let file = library().page_size(page).build();
        let lost = lost(&file);
        assert!(lost >= least, "{page:#x}: {lost:#x}");
    }
}

#[test]
fn where_nothing_can_leave_the_code_is_zeroed() {
    // Sections and their headers are added, nothing is taken away.
    let file = library().page_size(0x20_0000).build();
    assert_eq!(split(&file).len().saturating_sub(file.len()) / 1024, 0);
    let small = bundles::compress(&bundles::raw(&[("gfx942", [1; 2000])]), 2, "zlib");
    let small = [small.unwrap(), vec![0; 1000]].concat();
    let file = library().device_code(&small, &[0], DeviceRelocations::Rela).build();
    let split = split(&file);
    assert!(matches!(look(&split).unwrap(), FatFileKind::Split));
}

#[test]
fn symbols_of_the_code_lie_in_what_is_left_of_its_section() {
    let section = |file: &Vec<u8>| {
        let image = image::HostImage::read_host(file).unwrap();
        let code = image.tables.sections.iter().position(|it| it.name == CODE);
        let symbols = image.tables.sections.iter().position(|it| it.name == ".dynsym");
        let [code, symbols] = [code, symbols].map(Option::unwrap);
        let [own, table] = [code, symbols].map(|at| image.tables.sections[at].clone());
        (code, own, usize::try_from(table.offset).unwrap() + 24)
    };
    for page in [0x1000, 0x20_0000] {
        let mut file = library().page_size(page).build();
        let (number, before, symbol) = section(&file);
        let number = u16::try_from(number).unwrap().to_le_bytes();
        file[symbol + 6..symbol + 8].copy_from_slice(&number);
        file[symbol + 8..symbol + 16].copy_from_slice(&before.address.to_le_bytes());
        file[symbol + 16..symbol + 24].copy_from_slice(&before.size.to_le_bytes());
        let split = split(&file);
        let (_, after, symbol) = section(&split);
        assert_eq!(after.kind, goblin::elf::section_header::SHT_NOBITS, "{page:#x}");
        assert!(after.address > before.address, "{page:#x}");
        let value = after.address.to_le_bytes();
        assert_eq!(split[symbol + 8..symbol + 16], value, "{page:#x}");
        let size = after.size.to_le_bytes();
        assert_eq!(split[symbol + 16..symbol + 24], size, "{page:#x}");
        assert!(rocwheel_elf::broken_rules(&split).unwrap().is_empty(), "{page:#x}");
    }
}

#[test]
fn wrappers_may_share_a_bundle() {
    let (bytes, wrappers) = code();
    let twice = [wrappers[1], wrappers[0], wrappers[1]];
    let file = library().device_code(&bytes, &twice, DeviceRelocations::Relr).build();
    let split = split(&file);
    let references = references(&split).unwrap();
    let found: Vec<(usize, &str)> =
        references.iter().map(|r| (r.index, r.marker.kpack_search_paths[0].as_str())).collect();
    assert_eq!(
        found,
        [
            (1, "../.kpack/demo_lib_1_@GFXARCH@.kpack"),
            (0, "../.kpack/demo_lib_@GFXARCH@.kpack"),
            (1, "../.kpack/demo_lib_1_@GFXARCH@.kpack"),
        ]
    );
}

#[test]
fn the_run_path_can_be_changed_afterwards() {
    let file = library().build();
    let split = split(&file);
    let goal = "$ORIGIN/../deps".parse().unwrap();
    let plan = rocwheel_elf::plan_rpath(&split, &goal).unwrap();
    assert_eq!(plan.strategy, rocwheel_elf::Strategy::Slot);
    let mut bytes = Vec::new();
    PatchedReader::new(&split, plan).read_to_end(&mut bytes).unwrap();
    assert_eq!(references(&bytes).unwrap(), references(&split).unwrap());
    assert_eq!(
        rocwheel_elf::read(&bytes).unwrap().unwrap().rpath.as_deref(),
        Some("$ORIGIN/../deps")
    );
}

#[test]
fn what_cannot_be_split_says_why() {
    let (bytes, wrappers) = code();
    let plain = SharedObject::new("libplain.so.1").build();
    assert!(matches!(look(&plain).unwrap(), FatFileKind::Plain));
    assert!(matches!(look(&b"text".to_vec()).unwrap(), FatFileKind::Plain));
    let without = SharedObject::new("x").section(".hip_fatbin", &bytes).build();
    let mut object = library().build();
    object[16] = 1;
    let mut foreign = library().build();
    foreign[18] = 183;
    let again = split(&library().build());
    assert!(matches!(look(&again).unwrap(), FatFileKind::Split));
    let astray = |offset: u64| {
        library().device_code(&bytes, &[wrappers[0], offset], DeviceRelocations::Rela).build()
    };
    let junk = [bytes.clone(), b"junk".to_vec()].concat();
    let mut unloadable = library().build();
    let table = usize::from(unloadable[32]);
    let segments = (0..usize::from(unloadable[56])).map(|index| table + index * 56);
    let mut loads = segments.filter(|at| unloadable[*at] == 1);
    let last = loads.next_back().unwrap();
    unloadable[last + 39] = 1;
    insta::assert_snapshot!(
        [
            stuck(&without),
            stuck(&object),
            stuck(&foreign),
            stuck(&astray(4096)),
            stuck(&astray(1 << 30)),
            stuck(&library().device_code(&junk, &wrappers, DeviceRelocations::Rela).build()),
            stuck(&library().device_code(&bytes, &[], DeviceRelocations::Rela).build()),
            stuck(&unloadable),
            stuck(&windows(&bytes)),
        ]
        .join("\n"),
        @"
    no wrapper leads to the code
    neither an executable nor a shared object for x86-64
    neither an executable nor a shared object for x86-64
    error: a wrapper that leads to no bundle: at 0x1c420
    error: a wrapper that leads to no bundle: at 0x1c420
    error: failed to read bundle 2 at 0x19350: neither a bundle nor zeros
    error: `.hipFatBinSegment` is empty
    error: a segment that no loader takes: at 0x1c356
    Windows binaries are not split
    "
    );
}

/// As much of a Windows binary as is looked at.
fn windows(code: &[u8]) -> Vec<u8> {
    let mut file = b"MZ".to_vec();
    file.resize(0x3c, 0);
    file.extend(64_u32.to_le_bytes());
    file.extend(b"PE\0\0\x64\x86\x01\0");
    file.resize(64 + 20, 0);
    file.extend([0; 4]);
    file.extend(b".hip_fat");
    for number in [code.len(), 0x1000, code.len(), 0x1000] {
        file.extend(u32::try_from(number).unwrap().to_le_bytes());
    }
    file.resize(0x1000, 0);
    file.extend(code);
    file
}

#[test]
fn damaged_binaries_are_answered_and_a_plan_always_holds() {
    let (bytes, wrappers) = code();
    let small = bundles::raw(&[("gfx942", vec![3; 9000])]);
    let files = [
        SharedObject::new("x").device_code(&small, &[0], DeviceRelocations::Rela).build(),
        Executable::new().device_code(&bytes, &wrappers, DeviceRelocations::Rela).build(),
        SharedObject::new("x").device_code(&small, &[0], DeviceRelocations::Relr).build(),
    ];
    let mut seed = 3_u64;
    let mut planned = 0;
    for file in files {
        let headers: Vec<usize> = (0..0x400).chain(file.len() - 0x600..file.len()).collect();
        for _ in 0..800 {
            let mut damaged = file.clone();
            for _ in 0..2 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = headers[usize::try_from(seed >> 33).unwrap() % headers.len()];
                let byte = u8::try_from(seed >> 24 & 0xff).unwrap();
                damaged[place] = if seed >> 60 > 7 { byte } else { 0xff };
            }
            let Ok(FatFileKind::Fat(fat)) = look(&damaged) else {
                continue;
            };
            if let Ok(plan) = plan(&damaged, &fat, &markers(&fat)) {
                let mut bytes = Vec::new();
                PatchedReader::new(&damaged, plan).read_to_end(&mut bytes).unwrap();
                assert!(references(&bytes).is_ok());
                planned += 1;
            }
        }
    }
    assert!(planned > 50, "{planned}");
}
