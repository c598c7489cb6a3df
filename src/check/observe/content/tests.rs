//! What files say while they pass, whole and in parts.

use super::*;
use crate::check::{facts::DeviceCodeFacts, sparse::NotKept};
use rocwheel_test_files::{
    bundles,
    linker::{DeviceRelocations, SharedObject},
    windows,
};

fn read_all(bytes: &[u8], keep: Keep, hold: Hold) -> io::Result<ReadContent> {
    read(bytes, bytes.len() as u64, keep, hold)
}

fn seen(bytes: &[u8], keep: Keep) -> ContentFacts {
    read_all(bytes, keep, Hold::WithoutCode).unwrap().facts
}

#[test]
fn a_launcher_says_what_it_runs() {
    let bytes = rocwheel_elf::launcher(b"../lib/llvm/bin/clang").unwrap();
    let Some(Elf::Read(elf)) = seen(&bytes, Keep::Facts).elf else {
        panic!("not read");
    };
    assert_eq!(elf.launches.as_deref(), Some("../lib/llvm/bin/clang"));
    assert_eq!(elf.faults, Vec::<String>::new());
}

#[test]
fn a_damaged_elf_file_is_a_fact() {
    let whole = SharedObject::new("liba.so.1").build();
    for end in [4, 5, 64, whole.len() - 1] {
        let content = seen(&whole[..end], Keep::Facts);
        assert_eq!(content.len, end as u64);
        assert!(content.elf.is_some());
    }
}

#[test]
fn bytes_are_kept_only_when_asked_for() {
    assert_eq!(seen(b"abc", Keep::Facts).kept, None);
    assert_eq!(seen(b"abc", Keep::Text).kept.as_deref(), Some(&b"abc"[..]));
    assert_eq!(seen(b"", Keep::Text).kept.as_deref(), Some(&b""[..]));
}

#[test]
fn a_file_of_another_length_than_it_says_is_an_error() {
    let error = read(&b"abc"[..], 4, Keep::Facts, Hold::Whole).unwrap_err();
    insta::assert_snapshot!(error, @"it has 3 bytes, and 4 in the directory of the archive");
}

/// A library with zeros between its segments and its section headers, which move to the end.
fn stretched(len: usize) -> Vec<u8> {
    let mut bytes = SharedObject::new("liba.so.1")
        .needs("libb.so.1")
        .rpath("$ORIGIN")
        .needs_version("libc.so.6", "GLIBC_2.9")
        .build();
    let sections = u64::from_le_bytes(*bytes[40..].first_chunk().unwrap());
    let table = bytes.split_off(usize::try_from(sections).unwrap());
    bytes.resize(len, 0);
    bytes[40..48].copy_from_slice(&(len as u64).to_le_bytes());
    bytes.extend(table);
    bytes
}

fn examined(bytes: &[u8]) -> Elf {
    let content = seen(bytes, Keep::Facts);
    content.elf.unwrap()
}

#[test]
fn a_large_file_says_the_same_as_a_small_one() {
    let small = examined(&stretched(100_000));
    let large = stretched(40 << 20);
    assert_eq!(examined(&large), small);
    // Something after the section headers, such as the symbols of a debug file.
    let mut trailing = large;
    trailing.resize(80 << 20, 0);
    assert_eq!(examined(&trailing), small);
}

#[test]
fn tables_may_lie_anywhere() {
    let small = examined(&stretched(100_000));
    let mut bytes = stretched(40 << 20);
    // The program headers, far from where they always are.
    let at = 20_usize << 20;
    let table = bytes[64..64 + 56 * 12].to_vec();
    bytes[at..at + table.len()].copy_from_slice(&table);
    bytes[32..40].copy_from_slice(&(at as u64).to_le_bytes());
    let (Elf::Read(elf), Elf::Read(small)) = (examined(&bytes), small) else {
        panic!("not read");
    };
    assert_eq!(elf.facts, small.facts);
}

#[test]
fn a_file_whose_tables_are_too_large_to_hold_is_not_examined() {
    let mut bytes = stretched(100 << 20);
    // A dynamic table is read as a whole, and so are section names.
    let sections =
        usize::try_from(u64::from_le_bytes(*bytes[40..].first_chunk().unwrap())).unwrap();
    let names = usize::from(u16::from_le_bytes(*bytes[62..].first_chunk().unwrap()));
    let header = sections + names * 64;
    bytes[header + 24..header + 32].copy_from_slice(&(16_u64 << 20).to_le_bytes());
    bytes[header + 32..header + 40].copy_from_slice(&(70_u64 << 20).to_le_bytes());
    assert_eq!(examined(&bytes), Elf::TooLarge);
}

/// A library with bundles before a gap, and how many bytes they have for each target.
fn fat(gap: usize, is_page: bool) -> Vec<u8> {
    let code =
        |target, len| bundles::raw(&[(target, vec![1; len]), ("gfx90a:xnack+", vec![2; 100])]);
    let mut bundles = code("gfx942", 5000);
    bundles.resize(bundles.len().next_multiple_of(4096), 0);
    let second = if is_page { bundles.len() } else { bundles.len() + 64 };
    bundles.resize(second, 0);
    bundles.extend(code("gfx1100", 70_000));
    SharedObject::new("libfat.so.1")
        .function("fat", 1)
        .device_code(&bundles, &[0, second as u64], DeviceRelocations::Rela)
        .payload(gap)
        .build()
}

/// A library in which something begins like a bundle whose code reaches over the section headers.
pub(in crate::check::observe) fn deceptive() -> Vec<u8> {
    let bundle = bundles::raw(&[("gfx942", vec![1; 1 << 20])]);
    let mut bytes = stretched(40_000);
    bytes[32_768..][..4096].copy_from_slice(&bundle[..4096]);
    bytes
}

fn carried(bytes: &[u8]) -> String {
    let code = seen(bytes, Keep::Facts).code;
    let DeviceCodeFacts::Fat(carried) = &code else { panic!("{code:?}") };
    let amounts = carried.iter();
    let amounts =
        amounts.map(|(target, it)| format!("{target}: {}, {}", it.code_objects, it.bytes));
    amounts.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_library_of_any_size_says_what_code_is_in_it() {
    let small = carried(&fat(1000, true));
    insta::assert_snapshot!(small, @"
    gfx1100: 1, 70000
    gfx90a:xnack+: 2, 200
    gfx942: 1, 5000
    ");
    assert_eq!(carried(&fat(33 << 20, true)), small);
    // Bundles where no compiler lays them.
    assert_eq!(carried(&fat(33 << 20, false)), small);
}

#[test]
fn only_code_objects_are_not_held() {
    let bundle = bundles::raw(&[("gfx942", vec![1; 70_000])]);
    for code in [bundle.clone(), bundles::compress(&bundle, 3, "zstd").unwrap()] {
        let bytes = SharedObject::new("libfat.so.1")
            .device_code(&code, &[0], DeviceRelocations::Rela)
            .build();
        let size = |hold| read_all(&bytes, Keep::Facts, hold).unwrap().binary.unwrap().size();
        assert_eq!(size(Hold::Whole), bytes.len() as u64);
        let skipped = code.len().saturating_sub(4096) as u64;
        assert_eq!(size(Hold::WithoutCode), bytes.len() as u64 - skipped);
    }
}

#[test]
fn what_lies_where_only_code_should_is_no_zeros() {
    let bytes = deceptive();
    let error = read_all(&bytes, Keep::Facts, Hold::WithoutCode).unwrap_err();
    assert!(NotKept::is_cause_of(&error.into()));
    let whole = read_all(&bytes, Keep::Facts, Hold::Whole).unwrap().facts;
    assert!(whole.elf().is_some());
}

#[test]
fn a_large_library_has_the_findings_of_a_small_one() {
    for gap in [1000, 33 << 20] {
        let mut bytes = fat(gap, true);
        let magic = bytes.windows(8).position(|it| it == b"__CLANG_").unwrap();
        bytes[magic + 3] = b'?';
        let code = seen(&bytes, Keep::Facts).code;
        let DeviceCodeFacts::Damaged(why) = &code else { panic!("{code:?}") };
        assert_eq!(why, "failed to read bundle 0 at 0x0: neither a bundle nor zeros");
    }
}

/// A library for Windows with code, linked with another, whose name stands so far behind the table.
fn for_windows(gap: usize, name_at: u32) -> Vec<u8> {
    let code = bundles::raw(&[("gfx942", vec![1; 5000])]);
    let pointer = (windows::BASE + 0x1000).to_le_bytes();
    let wrapper = [b"FPIH\x01\0\0\0", &pointer[..], &[0; 8]].concat();
    let mut imports = vec![0; 40];
    imports[12..16].copy_from_slice(&(0x0800_0000 + name_at).to_le_bytes());
    imports.resize(name_at as usize, 0);
    imports.extend(b"rocblas.dll\0");
    windows::binary(
        &[
            (b".hip_fat", 0x1000, &code),
            (b".hipFatB", 0x10_0000, &wrapper),
            (b".data\0\0\0", 0x0100_0000, &vec![0; gap]),
            (b".rdata\0\0", 0x0800_0000, &imports),
            (b".rsrc\0\0\0", 0x3000_0000, &vec![0; gap / 4]),
        ],
        &[(1, 0x0800_0000, 40)],
    )
}

#[test]
fn a_library_for_windows_of_any_size_says_what_it_is_linked_with() {
    for gap in [1000, 33 << 20] {
        let bytes = for_windows(gap, 40);
        let imports = seen(&bytes, Keep::Facts).imports.unwrap().unwrap();
        assert_eq!(imports.into_iter().collect::<Vec<_>>(), ["rocblas.dll"]);
        assert_eq!(carried(&bytes), "gfx942: 1, 5000");
    }
}
