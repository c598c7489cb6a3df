//! The fixture writer: glibc and the kernel take what it writes.

use rocwheel::elf::{ElfKind, Machine};

use crate::elf::load::{Place, call, run};
use crate::support::linker::{Executable, HashStyle, SharedObject, TableAt};

fn answer() -> Vec<u8> {
    SharedObject::new("liby.so.2")
        .function("y_answer", 42)
        .build()
}

#[test]
fn a_library_loads_and_finds_what_it_needs_through_its_run_path() {
    for style in [HashStyle::Gnu, HashStyle::SysV, HashStyle::Both] {
        let place = Place::new();
        place.put("dep/liby.so.2", &answer());
        let object = SharedObject::new("libx.so.1")
            .needs("liby.so.2")
            .function("x_first", -7)
            .function("x_second", 2)
            .function("x_third", 3)
            .calls("x_sum", "y_answer")
            .hash_style(style);
        let lost = place.put("lost/libx.so.1", &object.build());
        assert!(
            call(&lost, "x_first").unwrap_err().contains("liby.so.2"),
            "{style:?}"
        );
        for object in [
            object.clone().runpath("$ORIGIN/../dep"),
            object.clone().rpath("$ORIGIN/../dep"),
        ] {
            let found = place.put("found/libx.so.1", &object.build());
            assert_eq!(call(&found, "x_first"), Ok(-7), "{style:?}");
            assert_eq!(call(&found, "x_second"), Ok(2), "{style:?}");
            assert_eq!(call(&found, "x_third"), Ok(3), "{style:?}");
            assert_eq!(call(&found, "x_sum"), Ok(42), "{style:?}");
        }
    }
}

#[test]
fn every_layout_of_a_library_loads() {
    let place = Place::new();
    place.put("liby.so.2", &answer());
    let plain = SharedObject::new("libx.so.1")
        .needs("liby.so.2")
        .calls("x", "y_answer")
        .runpath("$ORIGIN");
    let layouts = [
        plain.clone().without_phdr(),
        plain.clone().without_section_headers(),
        plain.clone().build_id(&[7; 20]),
        plain.clone().spare_dynamic_entries(4),
        plain.clone().bss(1 << 30),
        plain.clone().code_first(),
        plain.clone().page_size(0x20_0000),
        plain
            .clone()
            .payload(100_000)
            .unloaded_section(".comment", b"x\0"),
        plain
            .clone()
            .section(".rocm_kpack_ref", b"\x80")
            .hollow_section(".hip_fatbin", 0x5123),
        plain.clone().program_headers(TableAt::End { spare: 4 }),
        plain
            .clone()
            .hollow_section(".hip_fatbin", 0x9000)
            .program_headers(TableAt::EndPinned { spare: 4 }),
        plain.clone().needs_version("libc.so.6", "GLIBC_2.2.5"),
    ];
    for (index, layout) in layouts.iter().enumerate() {
        let path = place.put(&format!("libx{index}.so"), &layout.build());
        assert_eq!(call(&path, "x"), Ok(42), "{index}: {layout:?}");
    }
    let newer = plain.needs_version("libc.so.6", "GLIBC_2.999");
    let refused = call(&place.put("newer.so", &newer.build()), "x").unwrap_err();
    assert!(refused.contains("GLIBC_2.999"), "{refused}");
}

#[test]
fn static_programs_print_and_exit() {
    let place = Place::new();
    let plain = Executable::new().prints("gfx942\n").exits(3);
    for program in [
        plain.clone(),
        plain.clone().at_any_address(),
        plain.clone().payload(10_000).build_id(b"id"),
        plain.clone().without_section_headers(),
    ] {
        let path = place.put("program", &program.build());
        assert_eq!(run(&path), Ok(("gfx942\n".to_owned(), 3)), "{program:?}");
    }
    let silent = place.put("silent", &Executable::new().build());
    assert_eq!(run(&silent), Ok((String::new(), 0)));
}

#[test]
fn dynamic_programs_call_a_library() {
    let place = Place::new();
    place.put("lib/liby.so.2", &answer());
    let plain = Executable::new()
        .needs("liby.so.2")
        .prints("before\n")
        .calls("y_answer")
        .runpath("$ORIGIN/../lib");
    for program in [
        plain.clone(),
        plain.clone().at_fixed_address(),
        plain.clone().code_first(),
        plain.clone().bss(64 << 20).spare_dynamic_entries(3),
        plain
            .clone()
            .program_headers(TableAt::EndPinned { spare: 2 }),
        plain
            .clone()
            .at_fixed_address()
            .program_headers(TableAt::EndPinned { spare: 2 }),
    ] {
        let path = place.put("bin/program", &program.build());
        assert_eq!(run(&path), Ok(("before\n".to_owned(), 42)), "{program:?}");
    }
    let lost = place.put("lost/a/program", &plain.build());
    assert!(run(&lost).unwrap_err().contains("liby.so.2"));
}

#[test]
fn what_is_written_is_what_is_read() {
    let library = SharedObject::new("libx.so.1")
        .needs("liby.so.2")
        .needs_version("libc.so.6", "GLIBC_2.2.5")
        .needs_version("libc.so.6", "GLIBC_2.34")
        .rpath("$ORIGIN")
        .section(".rocm_kpack_ref", b"\x80")
        .build();
    let facts = rocwheel::elf::read(&library).unwrap().unwrap();
    insta::assert_debug_snapshot!(facts, @r#"
    ElfFacts {
        kind: SharedObject,
        machine: X86_64,
        soname: Some(
            "libx.so.1",
        ),
        needed: [
            "liby.so.2",
            "libc.so.6",
        ],
        rpath: Some(
            "$ORIGIN",
        ),
        runpath: None,
        interpreter: None,
        versions: [
            NeededVersions {
                library: "libc.so.6",
                versions: [
                    "GLIBC_2.2.5",
                    "GLIBC_2.34",
                ],
            },
        ],
        kpack_ref: true,
    }
    "#);
    let program = Executable::new().calls("y").needs("liby.so").build();
    let facts = rocwheel::elf::read(&program).unwrap().unwrap();
    assert_eq!(
        (facts.kind, facts.machine),
        (ElfKind::Executable, Machine::X86_64)
    );
    assert_eq!(
        facts.interpreter.as_deref(),
        Some("/lib64/ld-linux-x86-64.so.2")
    );
}
