//! The tables that a loader uses, each damaged once in a library of GNU ld, and what `check` says of it.

use std::fmt::Write as _;

use goblin::elf::{
    dynamic::{
        DT_FINI_ARRAY, DT_FINI_ARRAYSZ, DT_GNU_HASH, DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ,
        DT_JMPREL, DT_RELA, DT_RELASZ, DT_STRTAB, DT_SYMTAB, DT_VERSYM,
    },
    program_header::{PT_DYNAMIC, PT_GNU_EH_FRAME, PT_GNU_RELRO, PT_LOAD, PT_TLS},
};

use rocwheel_test_files::{compiled::Linker, linker::SharedObject};

const LIBRARY: &str = r#"
#include <stdio.h>
extern int y_answer(void);
__thread int local = 2;
static int started;
__attribute__((constructor)) static void start(void) { started = 1; }
__attribute__((destructor)) static void stop(void) { puts("stop"); }
static int one = 1, two = 2;
int *volatile pointers[] = { &one, &two };
int x(void) { return y_answer() + local + started + *pointers[0]; }
"#;

/// A library, in which tables are found by their tags.
struct Library(Vec<u8>);

/// The fields of a program header.
const FLAGS: usize = 4;
const OFFSET: usize = 8;
const ADDRESS: usize = 16;
const FILE_SIZE: usize = 32;
const MEMORY_SIZE: usize = 40;
const ALIGN: usize = 48;
/// The sizes of a symbol and of a relocation.
const SYMBOL: usize = 24;
const RELOCATION: usize = 24;

impl Library {
    fn number(&self, at: usize) -> u64 {
        u64::from_le_bytes(*self.0[at..].first_chunk().unwrap())
    }

    fn place(&self, at: usize) -> usize {
        usize::try_from(self.number(at)).unwrap()
    }

    fn put(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn add(&mut self, at: usize, value: i64) {
        let sum = self.number(at).wrapping_add_signed(value);
        self.put(at, sum);
    }

    fn segments(&self, kind: u32) -> impl Iterator<Item = usize> {
        let count = usize::from(u16::from_le_bytes(*self.0[56..].first_chunk().unwrap()));
        let places = (0..count).map(|index| self.place(32) + index * 56);
        places.filter(move |at| self.0[*at..].starts_with(&kind.to_le_bytes()))
    }

    /// The program header of the first segment of a kind.
    fn segment(&self, kind: u32) -> usize {
        self.segments(kind).next().unwrap()
    }

    /// The value of an entry of the dynamic table.
    fn entry(&self, tag: u64) -> usize {
        let start = self.place(self.segment(PT_DYNAMIC) + OFFSET);
        let mut places = (0..).map(|index| start + index * 16);
        places.find(|at| self.number(*at) == tag).unwrap() + 8
    }

    /// The table to which an entry leads.
    fn table(&self, tag: u64) -> usize {
        let address = self.place(self.entry(tag));
        let mut loads = self.segments(PT_LOAD).map(|load| {
            let start = self.place(load + ADDRESS);
            (start..start + self.place(load + FILE_SIZE), self.place(load + OFFSET))
        });
        let (memory, offset) = loads.find(|(memory, _)| memory.contains(&address)).unwrap();
        address - memory.start + offset
    }

    /// The first relocation of a type.
    fn relocation(&self, table: u64, kind: u8) -> usize {
        let mut places = (0..).map(|index| self.table(table) + index * RELOCATION);
        places.find(|at| self.0[at + 8] == kind).unwrap()
    }

    /// The last symbol, which is exported.
    fn last_symbol(&self) -> usize {
        let strings = self.table(DT_STRTAB);
        let table = self.table(DT_SYMTAB);
        table + ((strings - table) / SYMBOL - 1) * SYMBOL
    }
}

/// What is damaged, and how.
type Damage = (&'static str, fn(&mut Library));

#[rustfmt::skip]
const DAMAGES: &[Damage] = &[
    ("DT_INIT is in data", |it| { let data = it.number(it.entry(DT_INIT_ARRAY)); it.put(it.entry(DT_INIT), data); }),
    ("DT_INIT is nowhere", |it| it.put(it.entry(DT_INIT), 0x7_ffff_fff0)),
    ("DT_INIT_ARRAY is elsewhere", |it| it.add(it.entry(DT_INIT_ARRAY), 8)),
    ("DT_INIT_ARRAY is shorter", |it| it.add(it.entry(DT_INIT_ARRAYSZ), -8)),
    ("DT_INIT_ARRAY is no array", |it| it.add(it.entry(DT_INIT_ARRAYSZ), 4)),
    ("DT_FINI_ARRAY is elsewhere", |it| it.add(it.entry(DT_FINI_ARRAY), -8)),
    ("DT_FINI_ARRAY is longer", |it| it.add(it.entry(DT_FINI_ARRAYSZ), 8)),
    ("DT_SYMTAB begins later", |it| it.add(it.entry(DT_SYMTAB), 24)),
    ("DT_STRTAB begins later", |it| it.add(it.entry(DT_STRTAB), 1)),
    ("DT_RELA is shorter", |it| it.add(it.entry(DT_RELASZ), -24)),
    ("DT_JMPREL is elsewhere", |it| it.add(it.entry(DT_JMPREL), -24)),
    ("DT_GNU_HASH is elsewhere", |it| it.add(it.entry(DT_GNU_HASH), 8)),
    ("DT_VERSYM is elsewhere", |it| it.add(it.entry(DT_VERSYM), 2)),
    ("buckets are zero", |it| {
        let table = it.table(DT_GNU_HASH);
        let words = usize::from(it.0[table + 8]);
        let buckets = usize::from(it.0[table]);
        it.0[table + 16 + words * 8..][..buckets * 4].fill(0);
    }),
    ("the Bloom filter is zero", |it| {
        let table = it.table(DT_GNU_HASH);
        it.0[table + 16..][..8].fill(0);
    }),
    ("a symbol has another name", |it| { let at = it.last_symbol(); it.0[at] += 1; }),
    ("a symbol has its name outside", |it| { let at = it.last_symbol(); it.0[at + 2] = 0x7f; }),
    ("a symbol is nowhere", |it| { let at = it.last_symbol(); it.put(at + 8, 0x7_ffff_fff0); }),
    ("a symbol is too large", |it| { let at = it.last_symbol(); it.put(at + 16, 1 << 40); }),
    ("a version is not defined", |it| { let at = it.table(DT_VERSYM); it.0[at + 2] = 77; }),
    ("a relocation is in code", |it| { let at = it.relocation(DT_RELA, 8); let code = it.number(it.entry(DT_INIT)); it.put(at, code); }),
    ("a relocation has an unknown type", |it| { let at = it.relocation(DT_JMPREL, 7); it.0[at + 8] = 250; }),
    ("a relocation has no symbol", |it| { let at = it.relocation(DT_JMPREL, 7); it.0[at + 13] = 0x70; }),
    ("a relocation leads out of the file", |it| { let at = it.relocation(DT_RELA, 8); it.put(at + 16, 0x7_ffff_fff0); }),
    ("a relative relocation is another one", |it| { let at = it.relocation(DT_RELA, 8); it.0[at + 8] = 1; }),
    ("PT_GNU_RELRO is too long", |it| it.add(it.segment(PT_GNU_RELRO) + MEMORY_SIZE, 0x10_0000)),
    ("PT_TLS has an odd alignment", |it| it.put(it.segment(PT_TLS) + ALIGN, 3)),
    ("PT_TLS is smaller", |it| it.put(it.segment(PT_TLS) + MEMORY_SIZE, 3)),
    ("PT_GNU_EH_FRAME is elsewhere", |it| it.add(it.segment(PT_GNU_EH_FRAME) + ADDRESS, 0x100)),
    ("PT_GNU_EH_FRAME has another version", |it| { let at = it.place(it.segment(PT_GNU_EH_FRAME) + OFFSET); it.0[at] = 2; }),
    ("PT_LOAD is shorter", |it| {
        let last = it.segments(PT_LOAD).last().unwrap();
        it.add(last + FILE_SIZE, -8);
    }),
    ("PT_LOAD cannot be read", |it| { let at = it.segment(PT_LOAD) + FLAGS; it.0[at] = 0; }),
];

#[test]
fn a_damaged_table_is_found() {
    let place = tempfile::tempdir().unwrap();
    let dependency = place.path().join("liby.so.2");
    fs_err::write(&dependency, SharedObject::new("liby.so.2").function("y_answer", 33).build())
        .unwrap();
    let flags = ["-shared", "-fPIC", "-Wl,--hash-style=gnu", "-Wl,-z,relro"];
    let file = Linker::Bfd.build(place.path(), LIBRARY, &flags, &dependency);
    let library = fs_err::read(file).unwrap();
    assert_eq!(rocwheel_elf::faults(&library).unwrap(), [""; 0]);
    let mut shown = String::new();
    for (name, damage) in DAMAGES {
        let mut damaged = Library(library.clone());
        damage(&mut damaged);
        let faults = rocwheel_elf::faults(&damaged.0).unwrap();
        // Addresses and numbers differ between versions of the compiler.
        let fault = faults.first().map_or("nothing", |it| it.split(": 0x").next().unwrap());
        let words = fault.split(' ').map(|word| match word {
            _ if !word.starts_with(|first: char| first.is_ascii_digit()) => word,
            _ if word.ends_with(':') => "N:",
            _ => "N",
        });
        writeln!(shown, "{name}: {}", words.collect::<Vec<_>>().join(" ")).unwrap();
    }
    insta::assert_snapshot!(shown, @"
    DT_INIT is in data: `DT_INIT` is where no code can run
    DT_INIT is nowhere: `DT_INIT` is where no code can run
    DT_INIT_ARRAY is elsewhere: no section agrees on `DT_INIT_ARRAY`
    DT_INIT_ARRAY is shorter: no section agrees on `DT_INIT_ARRAY`
    DT_INIT_ARRAY is no array: the size of `DT_INIT_ARRAY` is no multiple of N
    DT_FINI_ARRAY is elsewhere: no section agrees on `DT_FINI_ARRAY`
    DT_FINI_ARRAY is longer: no section agrees on `DT_FINI_ARRAY`
    DT_SYMTAB begins later: no section agrees on `DT_SYMTAB`
    DT_STRTAB begins later: no section agrees on `DT_STRTAB`
    DT_RELA is shorter: no section agrees on `DT_RELA`
    DT_JMPREL is elsewhere: no section agrees on `DT_JMPREL`
    DT_GNU_HASH is elsewhere: no section agrees on `DT_GNU_HASH`
    DT_VERSYM is elsewhere: no section agrees on `DT_VERSYM`
    buckets are zero: symbol N: `DT_GNU_HASH` does not lead to it
    the Bloom filter is zero: symbol N: `DT_GNU_HASH` does not lead to it
    a symbol has another name: symbol N: `DT_GNU_HASH` does not lead to it
    a symbol has its name outside: symbol N: its name is outside of the dynamic strings
    a symbol is nowhere: symbol N: it is in no segment
    a symbol is too large: symbol N: it is in no segment
    a version is not defined: symbol N: its version is not defined
    a relocation is in code: relocation N at N: it is in no segment that can be written
    a relocation has an unknown type: relocation N at N: no loader knows its type
    a relocation has no symbol: relocation N at N: its symbol does not exist
    a relocation leads out of the file: relocation N at N: it leads out of the file
    a relative relocation is another one: relocation N at N: `DT_RELACOUNT` counts it, and it is not relative
    PT_GNU_RELRO is too long: `PT_GNU_RELRO` is in no segment
    PT_TLS has an odd alignment: the alignment of `PT_TLS` is no power of two
    PT_TLS is smaller: `PT_TLS` is larger than its memory
    PT_GNU_EH_FRAME is elsewhere: `PT_GNU_EH_FRAME` leads to no table for exceptions
    PT_GNU_EH_FRAME has another version: `PT_GNU_EH_FRAME` leads to no table for exceptions
    PT_LOAD is shorter: section N is in no segment
    PT_LOAD cannot be read: `DT_SYMTAB` is in no segment that can be read
    ");
}
