//! What is read of files that were written for it.

use super::*;
use rocwheel_test_files::linker::{Executable, SharedObject};

const E_TYPE: usize = 16;
const E_MACHINE: usize = 18;
const E_SHOFF: usize = 40;

fn library() -> Vec<u8> {
    SharedObject::new("libx.so.1")
        .needs("liby.so.2")
        .needs_version("libc.so.6", "GLIBC_2.34")
        .runpath("$ORIGIN")
        .build()
}

fn facts(file: &[u8]) -> ElfFacts {
    read(&file).unwrap().unwrap()
}

fn refusal(file: &[u8]) -> String {
    read(&file).unwrap_err().to_string()
}

/// Where bytes first stand in a file.
fn find(file: &[u8], bytes: &[u8]) -> usize {
    let mut windows = file.windows(bytes.len());
    windows.position(|window| window == bytes).unwrap()
}

#[test]
fn the_kind_is_what_libmagic_says() {
    let program = Executable::new().needs("liby.so.2");
    assert_eq!(facts(&library()).kind, ElfKind::SharedObject);
    assert_eq!(facts(&program.build()).kind, ElfKind::Executable);
    assert_eq!(facts(&program.at_fixed_address().build()).kind, ElfKind::Executable);
    assert_eq!(facts(&Executable::new().build()).kind, ElfKind::Executable);
    let static_pie = Executable::new().at_any_address().build();
    assert_eq!(facts(&static_pie).kind, ElfKind::Executable);
    for other in [1, 4, 0xfe00] {
        let mut file = library();
        file[E_TYPE..E_TYPE + 2].copy_from_slice(&u16::to_le_bytes(other));
        assert_eq!(facts(&file), ElfFacts { machine: Machine::X86_64, ..ElfFacts::default() });
    }
}

#[test]
fn the_machine_is_ours_only_as_64_bit_little_endian() {
    let mut code_object = library();
    code_object[E_MACHINE] = 224;
    let seen = facts(&code_object);
    assert_eq!((seen.kind, seen.machine), (ElfKind::SharedObject, Machine::AmdGpu));
    let mut arm = library();
    arm[E_MACHINE] = 183;
    assert_eq!(facts(&arm).machine, Machine::Other(183));
}

/// A header and a dynamic table of one entry, of another class or byte order.
fn foreign(class: u8, big: bool, flags_1: u32) -> Vec<u8> {
    let wide = class == 2;
    let number = |value: u64, len: usize| {
        let bytes = value.to_be_bytes();
        let mut bytes = bytes[8 - len..].to_vec();
        if !big {
            bytes.reverse();
        }
        bytes
    };
    let word = if wide { 8 } else { 4 };
    let (header, entry) = if wide { (64, 56) } else { (52, 32) };
    let mut file = vec![0x7f, b'E', b'L', b'F', class, if big { 2 } else { 1 }, 1];
    file.resize(16, 0);
    for (value, len) in [(3, 2), (62, 2), (1, 4), (0, word), (header, word), (0, word), (0, 4)] {
        file.extend(number(value, len));
    }
    for value in [header, entry, 1, 0, 0, 0] {
        file.extend(number(value, 2));
    }
    let dynamic = header + entry;
    let size = 4 * word as u64;
    let fields = if wide {
        vec![(2, 4), (6, 4), (dynamic, 8), (0, 8), (0, 8), (size, 8), (size, 8), (8, 8)]
    } else {
        vec![(2, 4), (dynamic, 4), (0, 4), (0, 4), (size, 4), (size, 4), (6, 4), (4, 4)]
    };
    for (value, len) in fields {
        file.extend(number(value, len));
    }
    for value in [DT_FLAGS_1, u64::from(flags_1), 0, 0] {
        file.extend(number(value, word));
    }
    file
}

#[test]
fn other_classes_and_byte_orders_are_read_and_not_taken_for_ours() {
    for (class, big) in [(1, false), (1, true), (2, true)] {
        let library = facts(&foreign(class, big, 0));
        assert_eq!(
            library,
            ElfFacts {
                kind: ElfKind::SharedObject,
                machine: Machine::Other(62),
                ..ElfFacts::default()
            }
        );
        let program = facts(&foreign(class, big, 0x0800_0000));
        assert_eq!(program.kind, ElfKind::Executable, "{class} {big}");
    }
    let ours = facts(&foreign(2, false, 0));
    assert_eq!(ours.machine, Machine::X86_64);
}

#[test]
fn what_is_no_elf_file_has_no_facts() {
    for file in [&b""[..], b"\x7fEL", b"#!/bin/sh\n", b"!<arch>\n"] {
        assert_eq!(read(&file).unwrap(), None);
    }
}

#[test]
fn a_file_without_section_headers_tells_the_same() {
    let object = SharedObject::new("libx.so.1").needs("liby.so.2").rpath("/a");
    let bare = facts(&object.clone().without_section_headers().build());
    assert_eq!(bare, facts(&object.build()));
    assert_eq!(bare.run_path(), Some("/a"));
}

#[test]
fn the_path_that_the_loader_takes_is_the_newer_one() {
    let both = SharedObject::new("x").rpath("/old").runpath("/new").build();
    assert_eq!(facts(&both).run_path(), Some("/new"));
}

#[test]
fn only_a_section_of_that_very_name_marks_a_split_file() {
    let marked = |name: &str| facts(&SharedObject::new("x").section(name, b"\x80").build());
    assert!(marked(".rocm_kpack_ref").kpack_ref);
    assert!(!marked(".rocm_kpack_ref2").kpack_ref);
    assert!(!marked(".rocm_kpack").kpack_ref);
}

#[test]
fn debug_information_alone_has_the_facts_of_nothing() {
    let mut file = library();
    let headers = 64..64 + 56 * 7;
    for at in headers.step_by(56) {
        if file[at] == 2 {
            file[at + 32..at + 40].fill(0);
        }
    }
    assert_eq!(facts(&file).soname, None);
    assert_eq!(facts(&file).kind, ElfKind::SharedObject);
}

#[test]
fn damage_is_named() {
    let whole = library();
    let cut = |len: usize| refusal(&whole[..len]);
    let with = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        refusal(&file)
    };
    let soname = find(&whole, b"libx.so.1");
    let version = find(&whole, b"GLIBC_2.34");
    let seen = [
        cut(5),
        cut(40),
        cut(100),
        cut(whole.len() - 1),
        with(4, &[9]),
        with(5, &[0]),
        with(54, &[1]),
        with(56, &[0xff, 0xff]),
        with(58, &[1]),
        with(60, &[0, 0]),
        with(E_SHOFF, &[0xff; 8]),
        with(soname, &[0xff]),
        with(version, &[0xc0]),
    ];
    insta::assert_snapshot!(seen.join("\n"), @r#"
    neither little-endian nor big-endian
    the file ends in its header, after 40 bytes
    the program header table lies outside the file: 336 bytes at 64 of 100
    the section header table lies outside the file: 576 bytes at 848 of 1423
    neither a 32-bit nor a 64-bit file
    neither little-endian nor big-endian
    program headers of 1 bytes instead of 56
    more than 65,534 program headers, which is not supported
    section headers of 1 bytes instead of 64
    more than 65,279 sections, which is not supported
    the section header table lies outside the file: 576 bytes at 18446744073709551615 of 1424
    a string that is not UTF-8: "�ibx.so.1"
    a string that is not UTF-8: "�LIBC_2.34"
    "#);
}

#[test]
fn versions_without_an_end_are_refused() {
    let mut file = SharedObject::new("x").needs_version("y", "V").payload(1 << 19).build();
    let record = file
        .windows(12)
        .position(|window| window.starts_with(&[1, 0, 1, 0]) && window.ends_with(&[16, 0, 0, 0]));
    let version = record.unwrap() + 16;
    file[record.unwrap() + 2..][..2].fill(0xff);
    // The next version stands one byte on, has the empty name, and so has the one after it.
    file[version + 12] = 16;
    let payload = version + 16;
    for at in (payload..payload + (1 << 18)).step_by(16) {
        file[at..at + 16].fill(0);
        file[at + 12] = 16;
    }
    assert_eq!(refusal(&file), "the symbol versions have no end");
}

#[test]
fn a_long_string_is_not_read_for_every_reference_to_it() {
    let long = "x".repeat(60_000);
    let object = SharedObject::new("libx.so.1");
    let often = |count| (0..count).fold(object.clone(), |object, _| object.needs(&long));
    assert_eq!(facts(&often(17).build()).needed.len(), 17);
    insta::assert_snapshot!(refusal(&often(18).build()), @"dynamic strings of more than 1048576 bytes");
}

#[test]
fn the_run_path_of_a_library_that_needs_nothing_is_not_searched() {
    let is_searched = |library: SharedObject| facts(&library.build()).uses_run_path();
    let library = || SharedObject::new("liba.so.1");
    assert!(!is_searched(library()));
    assert!(is_searched(library().needs("libb.so")));
    assert!(is_searched(library().runpath("$ORIGIN")));
}
