//! What files say while they pass, whole and in parts.

use std::cell::Cell;

use super::*;

fn seen(bytes: &[u8], keep: Keep) -> Content {
    let again = || -> io::Result<Box<dyn Read + '_>> { panic!("read again") };
    read(bytes, bytes.len() as u64, keep, &again).unwrap()
}

#[test]
fn a_launcher_says_what_it_runs() {
    let bytes = elf::launcher(b"../lib/llvm/bin/clang").unwrap();
    let Some(Elf::Read(elf)) = seen(&bytes, Keep::Facts).elf else {
        panic!("not read");
    };
    assert_eq!(elf.launches.as_deref(), Some("../lib/llvm/bin/clang"));
    assert_eq!(elf.faults, Vec::<String>::new());
}

#[test]
fn a_damaged_elf_file_is_a_fact() {
    let whole = elf::write::SharedObject::new("liba.so.1").build();
    for end in [4, 5, 64, whole.len() - 1] {
        let content = seen(&whole[..end], Keep::Facts);
        assert_eq!(content.len, end as u64);
        assert!(content.elf.is_some());
    }
}

#[test]
fn bytes_are_kept_only_when_asked_for() {
    assert_eq!(seen(b"abc", Keep::Facts).kept, None);
    assert_eq!(seen(b"abc", Keep::Bytes).kept.as_deref(), Some(&b"abc"[..]));
    assert_eq!(seen(b"", Keep::Bytes).kept.as_deref(), Some(&b""[..]));
}

#[test]
fn a_file_of_another_length_than_it_says_is_an_error() {
    let again = || -> io::Result<Box<dyn Read + '_>> { panic!("read again") };
    let error = read(&b"abc"[..], 4, Keep::Facts, &again).unwrap_err();
    insta::assert_snapshot!(error, @"it has 3 bytes, and 4 in the directory of the archive");
}

/// A library with zeros between its segments and its section headers, which move to the end.
fn stretched(len: usize) -> Vec<u8> {
    let mut bytes = elf::write::SharedObject::new("liba.so.1")
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

/// The facts of a file, and how often it was read again.
fn examined(bytes: &[u8]) -> (Elf, usize) {
    let readings = Cell::new(0);
    let again = || -> io::Result<Box<dyn Read + '_>> {
        readings.set(readings.get() + 1);
        Ok(Box::new(bytes))
    };
    let content = read(bytes, bytes.len() as u64, Keep::Facts, &again).unwrap();
    let twice = elf(bytes, bytes.len() as u64, &again).unwrap();
    assert_eq!(content.elf, twice);
    (content.elf.unwrap(), readings.get() / 2)
}

#[test]
fn a_large_file_says_the_same_as_a_small_one() {
    let (small, _) = examined(&stretched(100_000));
    let large = stretched(40 << 20);
    let (elf, readings) = examined(&large);
    assert_eq!((&elf, readings), (&small, 0));
    // The section headers where nobody looks for them: a debug file's symbols come after them.
    let mut trailing = large;
    trailing.resize(80 << 20, 0);
    let (elf, readings) = examined(&trailing);
    assert_eq!((&elf, readings), (&small, 0));
}

#[test]
fn a_part_that_nobody_foresaw_is_read_again() {
    let (small, _) = examined(&stretched(100_000));
    let mut bytes = stretched(40 << 20);
    // The program headers, far from where they always are.
    let at = 20_usize << 20;
    let table = bytes[64..64 + 56 * 12].to_vec();
    bytes[at..at + table.len()].copy_from_slice(&table);
    bytes[32..40].copy_from_slice(&(at as u64).to_le_bytes());
    let (elf, readings) = examined(&bytes);
    let (Elf::Read(elf), Elf::Read(small)) = (elf, small) else {
        panic!("not read");
    };
    assert_eq!(elf.facts, small.facts);
    assert!((1..4).contains(&readings), "{readings}");
}

#[test]
fn a_file_whose_parts_are_too_large_to_hold_is_not_examined() {
    let mut bytes = stretched(100 << 20);
    // A dynamic table is read as a whole, and so are section names.
    let sections =
        usize::try_from(u64::from_le_bytes(*bytes[40..].first_chunk().unwrap())).unwrap();
    let names = usize::from(u16::from_le_bytes(*bytes[62..].first_chunk().unwrap()));
    let header = sections + names * 64;
    bytes[header + 24..header + 32].copy_from_slice(&(16_u64 << 20).to_le_bytes());
    bytes[header + 32..header + 40].copy_from_slice(&(70_u64 << 20).to_le_bytes());
    assert_eq!(examined(&bytes), (Elf::TooLarge, 0));
}
