//! Windows binaries that are fat, split, or import libraries, and damaged ones.

use proptest::prelude::*;
use rocwheel_test_files::windows::{BASE, Part, binary};

use super::*;
use crate::{Marker, PLACEHOLDER};
use rocwheel_base::error::render;

/// With a table of these places that are relocated.
fn with_relocations(parts: &[Part<'_>], relocated: &[u32]) -> Vec<u8> {
    let table: Vec<u8> = relocated
        .iter()
        .flat_map(|at| {
            let entry = u16::try_from(at & 0xfff).unwrap() | 10 << 12;
            let block = [(at & !0xfff).to_le_bytes(), 12_u32.to_le_bytes()].concat();
            [block, entry.to_le_bytes().to_vec(), vec![0, 0]].concat()
        })
        .collect();
    let parts = [parts, &[(b".reloc\0\0", 0x9000, &table)]].concat();
    let len = u32::try_from(table.len()).unwrap();
    binary(&parts, &[(5, 0x9000, len)])
}

fn wrapper(magic: u64, address: u64, index: u32) -> Vec<u8> {
    let magic = u32::try_from(magic).unwrap().to_le_bytes();
    let [one, zero] = [1_u32, 0].map(u32::to_le_bytes);
    let pointer = (BASE + address).to_le_bytes();
    [&magic, &one, &pointer[..], &index.to_le_bytes(), &zero].concat()
}

fn split(wrappers: &[u8], relocated: &[u32]) -> Vec<u8> {
    let marker = Marker::new(1, &["blas_lib"], "bin/rocblas.dll").render().unwrap();
    let parts: [Part<'_>; 3] = [
        (b".hip_fat", 0x1000, b""),
        (b".hipFatB", 0x2000, wrappers),
        (b".kpackrf", 0x3000, &marker),
    ];
    with_relocations(&parts, relocated)
}

#[test]
fn wrappers_of_a_split_binary_lead_to_markers() {
    let wrappers = [wrapper(SPLIT, 0x3000, 0), wrapper(SPLIT, 0x3000, 7)].concat();
    let bytes = split(&wrappers, &[0x2008, 0x2020]);
    let Windows::Split(found) = windows(&bytes).unwrap() else {
        panic!("not split");
    };
    let paths = [format!("../.kpack/blas_lib_{PLACEHOLDER}.kpack")];
    assert_eq!(found[0].marker.kpack_search_paths, paths);
    assert_eq!(found[1].marker.kernel_name, "bin/rocblas.dll");
    assert_eq!([found[0].index, found[1].index], [0, 7]);
}

#[test]
fn wrappers_of_a_fat_binary_lead_into_its_code() {
    let wrappers = [wrapper(FAT, 0x1000, 0), wrapper(FAT, 0x1800, 0)].concat();
    let code = [7; 0x1801];
    let parts: [Part<'_>; 2] = [(&CODE, 0x1000, &code), (b".hipFatB", 0x4000, &wrappers)];
    let bytes = with_relocations(&parts, &[0x4008, 0x4020]);
    let place = 0x400..0x400 + 0x1801;
    assert_eq!(code_of(&bytes), Some(place.clone()));
    let found = windows(&bytes).unwrap();
    let expected = Windows::Fat { code: place, wrapped: vec![0, 0x800] };
    assert_eq!(found, expected);
}

fn code_of(bytes: &[u8]) -> Option<Range<u64>> {
    code(ByteRegion::whole(&bytes)).unwrap()
}

#[test]
fn other_files_have_none() {
    let plain = with_relocations(&[(b".text\0\0\0", 0x1000, b"code")], &[]);
    for bytes in [&plain[..], b"", b"MZ", b"\x7fELF", &[b'M', b'Z'].repeat(40)] {
        assert_eq!(windows(&bytes).unwrap(), Windows::Plain);
        assert_eq!(code_of(bytes), None);
    }
}

#[test]
fn what_leads_nowhere_is_refused_in_words() {
    let one = |magic, address| wrapper(magic, address, 0);
    let mixed = [one(SPLIT, 0x3000), one(FAT, 0x1000)].concat();
    let refused = [
        split(&one(SPLIT, 0x3000), &[0x2000]),
        split(&one(SPLIT, 0x8000), &[0x2008]),
        split(&one(SPLIT, 0x2000), &[0x2008]),
        split(&one(FAT, 0x3000), &[0x2008]),
        split(&mixed, &[0x2008, 0x2020]),
        split(&mixed[..30], &[]),
        split(&one(7, 0x3000), &[0x2008]),
        with_relocations(&[(b".kpackrf", 0x3000, b"x")], &[]),
    ];
    let refused = refused.map(|bytes| render(&windows(&bytes).unwrap_err()));
    insta::assert_snapshot!(refused.concat(), @"
    error: a wrapper that is not relocated: at 0x2000
    error: a wrapper that leads to no bytes: at 0x2000
    error: failed to read a marker
      caused by: invalid type: integer `72`, expected struct Marker
    error: a wrapper that leads to no bundle: at 0x2000
    error: wrappers of different or unknown kinds
    error: `.hipFatB` holds no whole number of wrappers: 30 bytes
    error: wrappers of different or unknown kinds
    error: a marker that no wrapper leads to
    ");
}

#[test]
fn damage_is_answered() {
    let bytes = split(&wrapper(SPLIT, 0x3000, 0), &[0x2008]);
    for at in 0..bytes.len().min(0x400) {
        for value in [0, 0xff, bytes[at] ^ 1] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            let _ = (windows(&damaged), code(ByteRegion::whole(&damaged)));
        }
        let _ = windows(&&bytes[..at]);
    }
}

const START: u32 = 0x2000;

/// The bytes of two tables, with the names behind them; where the second one begins.
fn tables(at_start: &[&str], at_first_use: &[&str]) -> (Vec<u8>, usize) {
    let lens = [(at_start, AT_START), (at_first_use, AT_FIRST_USE)]
        .map(|(names, table)| (names.len() + 1) * usize::try_from(table.entry_len).unwrap());
    let mut bytes = vec![0; lens[0] + lens[1]];
    let mut add = |at: usize, name: &str| {
        let address = START + u32::try_from(bytes.len()).unwrap();
        bytes[at..at + 4].copy_from_slice(&address.to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.push(0);
    };
    for (index, name) in at_start.iter().enumerate() {
        add(index * 20 + 12, name);
    }
    for (index, name) in at_first_use.iter().enumerate() {
        add(lens[0] + index * 32 + 4, name);
    }
    (bytes, lens[0])
}

fn linked(at_start: &[&str], at_first_use: &[&str]) -> Vec<u8> {
    let (bytes, second) = tables(at_start, at_first_use);
    let second = START + u32::try_from(second).unwrap();
    binary(
        &[(b".text\0\0\0", 0x1000, b"code"), (b".rdata\0\0", START, &bytes)],
        &[(1, START, 20), (13, second, 32)],
    )
}

fn refused_imports(bytes: &[u8]) -> String {
    render(&imports(&bytes).unwrap_err())
}

#[test]
fn every_library_is_named_whenever_it_is_loaded() {
    let bytes = linked(&["amdhip64_7.dll", "KERNEL32.dll"], &["rocblas.dll"]);
    let names: Vec<String> = imports(&bytes).unwrap().into_iter().collect();
    assert_eq!(names, ["KERNEL32.dll", "amdhip64_7.dll", "rocblas.dll"]);
}

#[test]
fn a_binary_may_need_nothing() {
    assert_eq!(imports(&linked(&[], &[])).unwrap(), BTreeSet::new());
    let bare = binary(&[(b".text\0\0\0", 0x1000, b"code")], &[]);
    assert_eq!(imports(&bare).unwrap(), BTreeSet::new());
    assert_eq!(imports(&&b"\x7fELF"[..]).unwrap(), BTreeSet::new());
}

#[test]
fn a_library_that_cannot_be_named_is_refused_in_words() {
    let (table, _) = tables(&["a.dll"], &[]);
    let with = |bytes: &[u8], at| binary(&[(b".rdata\0\0", START, bytes)], &[(1, at, 40)]);
    let mut nowhere = table.clone();
    nowhere[12] = 0xff;
    let mut endless = vec![b'a'; 500];
    endless[12..16].copy_from_slice(&(START + 20).to_le_bytes());
    // A name without letters, over and over.
    let mut one = [0; 20];
    one[12..16].copy_from_slice(&START.to_le_bytes());
    let many = one.repeat(5000);
    insta::assert_snapshot!([
        refused_imports(&with(&table, 0x9000)),
        refused_imports(&with(&table[..20], START)),
        refused_imports(&with(&nowhere, START)),
        refused_imports(&with(&endless, START)),
        refused_imports(&with(&many, START)),
    ].concat(), @"
    error: a table of libraries that runs out of its section
    error: a library whose name is nowhere: at 0x2048
    error: a library whose name is nowhere: at 0x20ff
    error: a library whose name has no end: at 0x2014
    error: more than 4096 libraries
    ");
}

proptest! {
    #[test]
    fn damaged_imports_are_answered(at in 0..0x600_usize, byte: u8, end in 0..0x600_usize) {
        let mut bytes = linked(&["amdhip64_7.dll", "KERNEL32.dll"], &["rocblas.dll"]);
        bytes[at] = byte;
        let _ = imports(&bytes);
        let _ = imports(&&bytes[..end]);
    }
}
