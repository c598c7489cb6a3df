//! Every layout of the fixture writer: its dependency is found only through the new run path.

use std::fmt::Write as _;

use goblin::elf::{Elf, ProgramHeader, program_header::PT_LOAD};

use rocwheel_elf::Strategy;

use rocwheel_test_files::{
    linker::{Executable, HashStyle, SharedObject, TableAt},
    programs::{Place, linked, run},
};

use crate::with_rpath;

const GOAL: &str = "$ORIGIN/../somewhere/else:$ORIGIN/../dep";

/// Where the kpack split puts the program headers, with and without spare slots.
const END: TableAt = TableAt::End { spare: 3 };
const FULL: TableAt = TableAt::End { spare: 0 };
const PINNED: TableAt = TableAt::EndPinned { spare: 3 };

type Library = fn(SharedObject) -> SharedObject;
type Program = fn(Executable) -> Executable;

#[rustfmt::skip]
const LIBRARIES: [(&str, Library); 25] = [
    ("plain", |it| it),
    ("RUNPATH", |it| it.runpath("$ORIGIN")),
    ("RPATH", |it| it.rpath("$ORIGIN")),
    ("both", |it| it.rpath("/a").runpath("/b")),
    ("RUNPATH with the goal", |it| it.runpath(GOAL)),
    ("both, RPATH with the goal", |it| it.rpath(GOAL).runpath("/b")),
    ("no spare entry", |it| it.spare_dynamic_entries(0)),
    ("no spare entry, RUNPATH", |it| it.spare_dynamic_entries(0).runpath("/a")),
    ("build id", |it| it.build_id(&[7; 20])),
    ("build id and versions", |it| it.build_id(&[7; 20]).needs_version("libc.so.6", "GLIBC_2.2.5")),
    ("SysV hash", |it| it.hash_style(HashStyle::SysV)),
    ("both hashes, no PHDR", |it| it.hash_style(HashStyle::Both).without_phdr()),
    ("no section headers", SharedObject::without_section_headers),
    ("no section headers, no spare entry", |it| it.without_section_headers().spare_dynamic_entries(0)),
    ("code first", SharedObject::code_first),
    ("code first, bss", |it| it.code_first().bss(1 << 28)),
    ("bss", |it| it.bss(1 << 30)),
    ("huge pages", |it| it.page_size(0x20_0000).bss(4096)),
    ("payload", |it| it.payload(100_000)),
    ("kpack, table at start", kpack),
    ("kpack", |it| kpack(it).program_headers(END)),
    ("kpack, no spare slot", |it| kpack(it).program_headers(FULL)),
    ("kpack, no spare entry", |it| kpack(it).program_headers(END).spare_dynamic_entries(0)),
    ("kpack, no PHDR", |it| kpack(it).program_headers(END).without_phdr()),
    ("kpack, pinned", |it| kpack(it).program_headers(PINNED)),
];

fn kpack(object: SharedObject) -> SharedObject {
    let object = object.section(".rocm_kpack_ref", b"\x82\xb2");
    let object = object.hollow_section(".hip_fatbin", 0x5123);
    object.unloaded_section(".comment", b"odd")
}

#[rustfmt::skip]
const PROGRAMS: [(&str, Program); 12] = [
    ("plain", |it| it),
    ("RUNPATH", |it| it.runpath("$ORIGIN")),
    ("no spare entry", |it| it.spare_dynamic_entries(0)),
    ("fixed address", |it| it.at_fixed_address().bss(64 << 20)),
    ("fixed address, code first", |it| it.at_fixed_address().code_first()),
    ("code first, bss", |it| it.code_first().bss(1 << 20)),
    ("code first, huge bss", |it| it.code_first().bss(1 << 30)),
    ("no section headers", Executable::without_section_headers),
    ("kpack", |it| hollow(it).program_headers(END)),
    ("kpack, pinned", |it| hollow(it).program_headers(PINNED)),
    ("kpack, bss that no padding bridges", |it| hollow(it).bss(1 << 30).program_headers(END)),
    ("kpack, fixed", |it| hollow(it.at_fixed_address()).program_headers(TableAt::EndPinned { spare: 0 })),
];

fn hollow(program: Executable) -> Executable {
    program.hollow_section(".hip_fatbin", 0x5123)
}

/// A place with the dependency of all of these, whose function returns a number.
fn with_dependency(directory: &str, answer: i32) -> Place {
    let place = Place::make();
    let dependency = SharedObject::new("liby.so.2").function("y_answer", answer);
    place.put(&format!("{directory}/liby.so.2"), &dependency.build());
    place
}

#[test]
fn every_library_finds_its_dependency_after_the_change_and_only_then() {
    let place = with_dependency("dep", 42);
    let mut seen = String::new();
    let base = SharedObject::new("libx.so.1").needs("liby.so.2").function("x_one", 1);
    let base = base.calls("x", "y_answer").spare_dynamic_entries(2);
    for (name, change) in LIBRARIES {
        let before = change(base.clone()).build();
        let path = place.put("lib/before.so", &before);
        if !name.contains("goal") {
            assert!(linked(&path, "x").is_err(), "{name}");
        }
        let (plan, after) = with_rpath(&before, GOAL).unwrap_or_else(|e| panic!("{name}: {e}"));
        let path = place.put("lib/after.so", &after);
        assert_eq!(linked(&path, "x"), Ok(42), "{name}");
        assert_eq!(linked(&path, "x_one").unwrap_or(1), 1, "{name}");
        assert_end_state(&after, GOAL, name);
        let growth = after.len() - before.len();
        writeln!(seen, "{name}: {} +{growth}", plan.strategy).unwrap();
    }
    insta::assert_snapshot!(seen, @r"
    plain: Evict +224
    RUNPATH: Evict +232
    RPATH: Evict +232
    both: Evict +232
    RUNPATH with the goal: Retag +0
    both, RPATH with the goal: Retag +0
    no spare entry: Evict +440
    no spare entry, RUNPATH: Evict +232
    build id: Evict +168
    build id and versions: Evict +192
    SysV hash: Evict +208
    both hashes, no PHDR: Evict +152
    no section headers: Extend +79
    no section headers, no spare entry: Extend +288
    code first: Relocate +11272
    code first, bss: Relocate +480
    bss: Evict +224
    huge pages: Evict +224
    payload: Evict +216
    kpack, table at start: Evict +216
    kpack: Extend +79
    kpack, no spare slot: Extend +79
    kpack, no spare entry: Extend +296
    kpack, no PHDR: Extend +79
    kpack, pinned: Extend +79
    ");
}

#[test]
fn every_program_finds_its_dependency_after_the_change_and_only_then() {
    let place = with_dependency("dep", 42);
    let mut seen = String::new();
    let base = Executable::new().needs("liby.so.2").calls("y_answer");
    let base = base.spare_dynamic_entries(2);
    for (name, change) in PROGRAMS {
        let before = change(base.clone()).build();
        assert!(run(&place.put("bin/before", &before)).is_err(), "{name}");
        match with_rpath(&before, GOAL) {
            Ok((plan, after)) => {
                let path = place.put("bin/after", &after);
                assert_eq!(run(&path), Ok((String::new(), 42)), "{name}");
                assert_end_state(&after, GOAL, name);
                let growth = after.len() - before.len();
                writeln!(seen, "{name}: {} +{growth}", plan.strategy).unwrap();
                if !is_pinned(&after) {
                    seen.push_str("  kernels before 5.18 do not find its program headers\n");
                }
            }
            Err(error) => writeln!(seen, "{name}: {error}").unwrap(),
        }
    }
    insta::assert_snapshot!(seen, @r"
    plain: Evict +132
    RUNPATH: Evict +140
    no spare entry: Evict +344
    fixed address: Evict +124
    fixed address, code first: Relocate +11240
    code first, bss: Relocate +1059728
    code first, huge bss: no room for a program header, and too much memory in use to move them
    no section headers: Extend +61
    kpack: Relocate +28624
    kpack, pinned: Extend +61
    kpack, bss that no padding bridges: Extend +61
      kernels before 5.18 do not find its program headers
    kpack, fixed: Extend +61
    ");
}

/// Whether kernels before 5.18 tell the loader where the program headers are.
fn is_pinned(file: &[u8]) -> bool {
    let elf = Elf::parse(file).unwrap();
    let mut loads = elf.program_headers.iter().filter(|h| h.p_type == PT_LOAD);
    let first = loads.clone().next().unwrap();
    let own = loads.find(|h| (h.p_offset..h.p_offset + h.p_filesz).contains(&elf.header.e_phoff));
    let bias = |header: &ProgramHeader| header.p_vaddr - header.p_offset;
    own.is_some_and(|own| bias(own) == bias(first))
}

#[test]
fn a_spare_slot_of_the_program_headers_is_used() {
    let place = with_dependency("dep", 42);
    let object = SharedObject::new("libx.so.1").needs("liby.so.2");
    let object = object.calls("x", "y_answer");
    // What the kpack split leaves, and more bytes behind it.
    let mut kpack = object.clone().program_headers(END).build();
    kpack.push(0);
    // An entry that means nothing, in place of a note.
    let mut empty = object.build_id(&[7; 20]).build();
    let headers = (64..64 + 7 * 56).step_by(56);
    let note = headers.rev().find(|at| empty[*at] == 4).unwrap();
    empty[note] = 0;
    for (name, before) in [("kpack", kpack), ("empty", empty)] {
        let (plan, after) = with_rpath(&before, GOAL).unwrap();
        assert_eq!(plan.strategy, Strategy::Slot, "{name}");
        let path = place.put("lib/libx.so", &after);
        assert_eq!(linked(&path, "x"), Ok(42), "{name}");
        assert_end_state(&after, GOAL, name);
    }
}

/// One `DT_RPATH`, a second pass that changes nothing, and five other goals one after the other.
fn assert_end_state(file: &[u8], goal: &str, name: &str) {
    let facts = rocwheel_elf::read(&file).unwrap().unwrap();
    let paths = (facts.rpath.as_deref(), facts.runpath);
    assert_eq!(paths, (Some(goal), None), "{name}");
    let (again, same) = with_rpath(file, goal).unwrap();
    assert!(again.patch.is_nothing() && same == file, "{name}");
    let place = with_dependency("other", 43);
    let mut file = file.to_vec();
    for count in 1..=5 {
        let goal = format!("$ORIGIN/{}:$ORIGIN/../other", "x".repeat(count * 7));
        let changed = with_rpath(&file, &goal);
        file = changed.unwrap_or_else(|e| panic!("{name}, {count}: {e}")).1;
    }
    let path = place.put("lib/file", &file);
    match facts.interpreter {
        None => assert_eq!(linked(&path, "x"), Ok(43), "{name}"),
        Some(_) => assert_eq!(run(&path), Ok((String::new(), 43)), "{name}"),
    }
    let (plan, removed) = with_rpath(&file, "").unwrap();
    assert_eq!(plan.strategy, Strategy::Retag, "{name}");
    let facts = rocwheel_elf::read(&removed).unwrap().unwrap();
    assert_eq!(facts.run_path(), None, "{name}");
}

#[test]
fn files_without_a_run_path_are_left_alone_and_say_why() {
    let library = SharedObject::new("libx.so.1").needs("liby.so.2").build();
    let with = |offset: usize, byte: u8| {
        let mut changed = library.clone();
        changed[offset] = byte;
        changed
    };
    let loader = SharedObject::new("ld-linux-x86-64.so.2").needs("x");
    let cases = [
        ("static", Executable::new().exits(1).build()),
        ("static-PIE", Executable::new().at_any_address().build()),
        ("AMDGPU", with(18, 224)),
        ("relocatable", with(16, 1)),
        ("loader", loader.build()),
        ("alone", SharedObject::new("libx.so").build()),
        ("text", b"#!/bin/sh\n".to_vec()),
        ("empty", Vec::new()),
    ];
    let mut seen = String::new();
    for (name, file) in cases {
        let (plan, after) = with_rpath(&file, GOAL).unwrap();
        assert!(plan.patch.is_nothing() && after == file, "{name}");
        writeln!(seen, "{name}: {}", plan.strategy).unwrap();
    }
    insta::assert_snapshot!(seen, @r"
    static: static
    static-PIE: static-PIE
    AMDGPU: for another machine
    relocatable: not linked
    loader: the dynamic loader
    alone: needs no library
    text: not ELF
    empty: not ELF
    ");
}
