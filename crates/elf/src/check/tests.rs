//! Each invariant, seen to be broken.

use std::fmt::Write as _;

use goblin::elf::program_header::{PT_DYNAMIC, PT_GNU_STACK, PT_LOAD, PT_NOTE, PT_PHDR};

use super::*;
use crate::{
    patch::{PatchPiece, Replacement},
    plan_rpath,
};
use rocwheel_test_files::linker::{Executable, SharedObject, TableAt};

const GOAL: &str = "$ORIGIN/../lib";
const PHDR: usize = 56;
const FLAGS: usize = 4;
const OFFSET: usize = 8;
const ADDRESS: usize = 16;
const FILE_SIZE: usize = 32;
const MEMORY_SIZE: usize = 40;
const ALIGN: usize = 48;

/// A file before and after a change that is right.
struct Case {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Case {
    fn of(before: Vec<u8>) -> Self {
        let plan = plan_rpath(&before, &GOAL.parse().unwrap()).unwrap();
        let reader = PatchedReader::new(before.clone(), plan);
        let mut after = vec![0; usize::try_from(reader.len()).unwrap()];
        crate::source::read_exact_at(&reader, 0, &mut after).unwrap();
        Self { before, after }
    }

    fn library() -> Self {
        let object = SharedObject::new("libx.so.1")
            .needs("liby.so.2")
            .function("x", 1)
            .build_id(&[7; 20])
            .bss(64)
            .spare_dynamic_entries(2);
        Self::of(object.build())
    }

    fn program() -> Self {
        Self::of(Executable::new().needs("liby.so.2").calls("y").build())
    }

    /// What is said of the file after it is spoilt.
    fn spoilt(mut self, spoil: impl FnOnce(&mut Vec<u8>)) -> String {
        spoil(&mut self.after);
        let plan = difference(&self.before, &self.after);
        match ensure_only_run_path_changed(&self.before.as_slice(), &plan, GOAL) {
            Ok(()) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

/// The plan that makes one file of another.
fn difference(before: &[u8], after: &[u8]) -> Patch {
    let mut changed: Vec<(usize, Vec<u8>)> = Vec::new();
    for (at, (one, other)) in before.iter().zip(after).enumerate() {
        if one == other {
            continue;
        }
        match changed.last_mut() {
            Some((start, bytes)) if *start + bytes.len() == at => bytes.push(*other),
            _ => changed.push((at, vec![*other])),
        }
    }
    let replaced = changed.into_iter();
    let replaced = replaced.map(|(at, bytes)| Replacement::bytes(at as u64, bytes));
    let tail = vec![PatchPiece::Bytes(after[before.len()..].to_vec())];
    let len = before.len() as u64;
    Patch::new(len, len, replaced.collect(), tail).unwrap()
}

fn number(file: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(*file[at..].first_chunk().unwrap())).unwrap()
}

fn put(file: &mut [u8], at: impl Fn(&[u8]) -> usize, value: usize) {
    let at = at(file);
    file[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
}

fn add(file: &mut [u8], at: impl Fn(&[u8]) -> usize, value: usize) {
    let sum = number(file, at(file)) + value;
    put(file, at, sum);
}

/// Where the entries of a kind stand in the program headers.
fn segments(file: &[u8], kind: u32) -> Vec<usize> {
    let start = number(file, 32);
    let count = usize::from(u16::from_le_bytes(*file[56..].first_chunk().unwrap()));
    let places = (0..count).map(|index| start + index * PHDR);
    places.filter(|at| file[*at..].starts_with(&kind.to_le_bytes())).collect()
}

fn segment(file: &[u8], kind: u32) -> usize {
    segments(file, kind)[0]
}

fn last_load(file: &[u8]) -> usize {
    *segments(file, PT_LOAD).last().unwrap()
}

/// Where an entry of the dynamic table stands.
fn entry(file: &[u8], tag: usize) -> usize {
    let start = number(file, segment(file, PT_DYNAMIC) + OFFSET);
    let mut places = (0..).map(|index| start + index * 16);
    places.find(|at| number(file, *at) == tag).unwrap()
}

fn section(file: &[u8], index: usize) -> usize {
    number(file, 40) + index * 64
}

#[test]
fn a_right_change_is_accepted() {
    assert_eq!(Case::library().spoilt(|_| {}), "accepted");
    assert_eq!(Case::program().spoilt(|_| {}), "accepted");
}

#[test]
fn a_segment_that_no_loader_takes_is_refused() {
    let mut seen = String::new();
    let mut spoilt = |name: &str, spoil: fn(&mut Vec<u8>)| {
        writeln!(seen, "{name}: {}", Case::library().spoilt(spoil)).unwrap();
    };
    spoilt("misaligned", |f| add(f, |f| last_load(f) + ADDRESS, 8));
    spoilt("no power of two", |f| {
        put(f, |f| last_load(f) + ALIGN, 0x1001);
    });
    spoilt("over another", |f| {
        let offset = number(f, last_load(f) + OFFSET);
        put(f, |f| last_load(f) + ADDRESS, offset);
    });
    spoilt("past the end", |f| {
        add(f, |f| last_load(f) + FILE_SIZE, 1);
        add(f, |f| last_load(f) + MEMORY_SIZE, 1);
    });
    spoilt("larger than its memory", |f| {
        add(f, |f| last_load(f) + FILE_SIZE, 1);
    });
    spoilt("on the page of the one before", |f| {
        let at = segments(f, PT_LOAD);
        let end = number(f, at[2] + ADDRESS) + number(f, at[2] + MEMORY_SIZE);
        let offset = number(f, at[3] + OFFSET);
        put(f, |_| at[3] + ADDRESS, (end & !0xfff) + (offset & 0xfff));
    });
    spoilt("the first one is larger", |f| {
        let first = segment(f, PT_LOAD);
        add(f, |_| first + MEMORY_SIZE, 8);
    });
    spoilt("the first one is writable", |f| {
        let first = segment(f, PT_LOAD);
        f[first + FLAGS] |= 2;
    });
    spoilt("the stack is executable", |f| {
        let stack = segment(f, PT_GNU_STACK);
        f[stack + FLAGS] |= 1;
    });
    spoilt("one is gone", |f| {
        let load = last_load(f);
        f[load] = 0;
    });
    insta::assert_snapshot!(seen, @r"
    misaligned: the changed ELF file would be broken: the address and the offset of a segment disagree by its alignment: 0x35b8 and 0x5b0 by 0x1000
    no power of two: the changed ELF file would be broken: the address and the offset of a segment disagree by its alignment: 0x35b0 and 0x5b0 by 0x1001
    over another: the changed ELF file would be broken: segments overlap or descend: 0x5b0 after 0x2266
    past the end: the changed ELF file would be broken: a segment is larger than the file or than its memory: 0x35b0
    larger than its memory: the changed ELF file would be broken: a segment is larger than the file or than its memory: 0x35b0
    on the page of the one before: the changed ELF file would be broken: segments share a page: 0x25b0
    the first one is larger: the changed ELF file would be broken: a loaded segment changed: 0x0
    the first one is writable: the changed ELF file would be broken: a loaded segment changed: 0x0
    the stack is executable: the changed ELF file would be broken: a segment changed that must not
    one is gone: the changed ELF file would be broken: the dynamic strings are in no segment
    ");
}

#[test]
fn program_headers_that_are_not_found_are_refused() {
    let mut seen = String::new();
    let mut spoilt = |name: &str, spoil: fn(&mut Vec<u8>)| {
        writeln!(seen, "{name}: {}", Case::program().spoilt(spoil)).unwrap();
    };
    spoilt("named too small", |f| {
        let named = segment(f, PT_PHDR);
        put(f, |_| named + FILE_SIZE, PHDR);
    });
    spoilt("named elsewhere", |f| {
        let named = segment(f, PT_PHDR);
        add(f, |_| named + ADDRESS, 8);
    });
    spoilt("named no more", |f| {
        let named = segment(f, PT_PHDR);
        f[named] = 0;
    });
    spoilt("named too late", |f| {
        let first = segment(f, PT_LOAD);
        let named = segment(f, PT_PHDR);
        let entry = f[named..named + PHDR].to_vec();
        f.copy_within(first..first + PHDR, named);
        f[first..first + PHDR].copy_from_slice(&entry);
    });
    spoilt("in a section", |f| {
        let count = u16::from_le_bytes(*f[56..].first_chunk().unwrap()) + 1;
        f[56..58].copy_from_slice(&count.to_le_bytes());
    });
    spoilt("in no segment", |f| {
        let table = number(f, 32);
        let entries = f[table..table + 9 * PHDR].to_vec();
        let end = f.len();
        f.extend(entries);
        put(f, |_| 32, end);
    });
    insta::assert_snapshot!(seen, @r"
    named too small: the changed ELF file would be broken: `PT_PHDR` is not where the program headers are
    named elsewhere: the changed ELF file would be broken: `PT_PHDR` is not where the program headers are
    named no more: the changed ELF file would be broken: an executable lost `PT_PHDR`
    named too late: the changed ELF file would be broken: `PT_PHDR` stands behind a segment that is loaded
    in a section: the changed ELF file would be broken: `PT_PHDR` is not where the program headers are
    in no segment: the changed ELF file would be broken: the program headers are in no segment
    ");
}

#[test]
fn an_executable_keeps_its_headers_where_old_kernels_look() {
    let pinned = TableAt::EndPinned { spare: 0 };
    let program = Executable::new().needs("liby.so.2").calls("y");
    let case = Case::of(program.hollow_section("hole", 0x5000).program_headers(pinned).build());
    let seen = case.spoilt(|f| {
        let own = last_load(f);
        let named = segment(f, PT_PHDR);
        add(f, |_| own + ADDRESS, 0x1000);
        add(f, |_| named + ADDRESS, 0x1000);
    });
    insta::assert_snapshot!(seen, @r"
    the changed ELF file would be broken: the program headers are where kernels before 5.18 do not look
    ");
}

#[test]
fn strings_and_tables_that_changed_are_refused() {
    let mut seen = String::new();
    let mut spoilt = |name: &str, spoil: fn(&mut Vec<u8>)| {
        writeln!(seen, "{name}: {}", Case::library().spoilt(spoil)).unwrap();
    };
    spoilt("strings elsewhere", |f| add(f, |f| entry(f, 5) + 8, 1));
    spoilt("strings too short", |f| put(f, |f| entry(f, 10) + 8, 5));
    spoilt("strings nowhere", |f| {
        put(f, |f| entry(f, 5) + 8, 0x1234_5678);
    });
    spoilt("an old string", |f| {
        let start = number(f, last_load(f) + OFFSET);
        f[start + 2] ^= 1;
    });
    spoilt("the run path", |f| {
        let start = f.windows(GOAL.len()).position(|w| w == GOAL.as_bytes()).unwrap();
        f[start] = b'/';
    });
    spoilt("a second run path", |f| {
        let needed = entry(f, 1);
        f[needed] = 29;
    });
    spoilt("a needed library", |f| add(f, |f| entry(f, 1) + 8, 1));
    spoilt("the symbols", |f| add(f, |f| entry(f, 6) + 8, 24));
    spoilt("no end of the table", |f| {
        let table = segment(f, PT_DYNAMIC);
        let used = entry(f, 0) - number(f, table + OFFSET);
        put(f, |_| table + FILE_SIZE, used);
    });
    spoilt("the table elsewhere", |f| {
        let table = segment(f, PT_DYNAMIC);
        add(f, |_| table + ADDRESS, 16);
    });
    insta::assert_snapshot!(seen, @r"
    strings elsewhere: the changed ELF file would be broken: no section agrees on the dynamic strings
    strings too short: the changed ELF file would be broken: the dynamic strings have no end
    strings nowhere: the changed ELF file would be broken: the dynamic strings are in no segment
    an old string: the changed ELF file would be broken: section 4 changed
    the run path: the changed ELF file would be broken: the run path is another
    a second run path: the changed ELF file would be broken: the dynamic table lost or gained an entry
    a needed library: the changed ELF file would be broken: a dynamic entry changed: 0x1
    the symbols: the changed ELF file would be broken: a dynamic entry changed: 0x6
    no end of the table: the changed ELF file would be broken: the dynamic table has no end
    the table elsewhere: the changed ELF file would be broken: the dynamic table is in no segment
    ");
}

#[test]
fn strings_are_compared_in_a_file_without_sections() {
    let object = SharedObject::new("libx.so.1").needs("liby.so.2");
    let case = Case::of(object.without_section_headers().build());
    let seen = case.spoilt(|f| {
        let start = f.windows(9).rposition(|w| w == b"liby.so.2").unwrap();
        f[start] = b'L';
    });
    insta::assert_snapshot!(seen, @"the changed ELF file would be broken: a dynamic string changed");
}

#[test]
fn what_is_not_part_of_the_change_stays() {
    let mut seen = String::new();
    let mut spoilt = |name: &str, spoil: fn(&mut Vec<u8>)| {
        writeln!(seen, "{name}: {}", Case::library().spoilt(spoil)).unwrap();
    };
    spoilt("the entry point", |f| f[24] ^= 1);
    spoilt("the place of the section headers", |f| f[40] ^= 1);
    spoilt("code", |f| {
        let code = f.windows(6).position(|w| w == [0xb8, 1, 0, 0, 0, 0xc3]).unwrap();
        f[code + 1] = 2;
    });
    spoilt("a section's size", |f| add(f, |f| section(f, 5) + 32, 8));
    spoilt("a section's type", |f| {
        let kind = section(f, 1) + 4;
        f[kind] ^= 8;
    });
    spoilt("a note that moved", |f| {
        let note = number(f, segment(f, PT_NOTE) + OFFSET);
        f[note + 20] ^= 1;
    });
    spoilt("a note elsewhere", |f| {
        let note = segment(f, PT_NOTE);
        add(f, |_| note + ADDRESS, 0x1000);
    });
    spoilt("a table that moved", |f| {
        let hash = number(f, section(f, 2) + 24);
        f[hash + 8] ^= 1;
    });
    insta::assert_snapshot!(seen, @r"
    the entry point: the changed ELF file would be broken: the file header changed
    the place of the section headers: the file ends early, at 1568
    code: the changed ELF file would be broken: bytes change that must not: at 0x261
    a section's size: the changed ELF file would be broken: section 5 is in no segment
    a section's type: the changed ELF file would be broken: section 1 changed
    a note that moved: the changed ELF file would be broken: a note or the interpreter changed
    a note elsewhere: the changed ELF file would be broken: a segment is not loaded: kind 0x4
    a table that moved: the changed ELF file would be broken: section 2 changed
    ");
}
