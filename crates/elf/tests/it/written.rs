//! The fixture writer: the kernel takes what it writes, and we read it. `layouts` has the layouts that glibc loads.

use rocwheel_elf::{ElfKind, Machine};

use rocwheel_test_files::{
    linker::{Executable, SharedObject},
    programs::{Place, run},
};

#[test]
fn static_programs_print_and_exit() {
    let place = Place::make();
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
fn what_is_written_is_what_is_read() {
    let library = SharedObject::new("libx.so.1").needs("liby.so.2").rpath("$ORIGIN");
    let library = library.needs_version("libc.so.6", "GLIBC_2.2.5");
    let library = library.needs_version("libc.so.6", "GLIBC_2.34");
    let library = library.section(".rocm_kpack_ref", b"\x80").build();
    let facts = rocwheel_elf::read(&library).unwrap().unwrap();
    insta::assert_snapshot!(format!("{facts:?}"), @r#"ElfFacts { kind: SharedObject, machine: X86_64, soname: Some("libx.so.1"), needed: ["liby.so.2", "libc.so.6"], rpath: Some("$ORIGIN"), runpath: None, interpreter: None, versions: [NeededVersions { library: "libc.so.6", versions: ["GLIBC_2.2.5", "GLIBC_2.34"] }], kpack_ref: true }"#);
    let program = Executable::new().calls("y").needs("liby.so").build();
    let facts = rocwheel_elf::read(&program).unwrap().unwrap();
    assert_eq!(facts.kind, ElfKind::Executable);
    assert_eq!(facts.machine, Machine::X86_64);
    let loader = "/lib64/ld-linux-x86-64.so.2";
    assert_eq!(facts.interpreter.as_deref(), Some(loader));
}
