//! Programs and libraries that do not load.

use super::*;
use crate::support::linker::Executable;

#[test]
fn a_library_that_no_package_ships_is_found() {
    let object = library("liba.so.1")
        .needs("libnuma.so.1")
        .needs("libc.so.6")
        .rpath("$ORIGIN");
    insta::assert_snapshot!(with_library(&object, "liba.so.1"), @"
    exit 1
    rocm_sdk_core.whl
      error   RW401 missing-library: `_rocm_sdk_core/lib/liba.so.1`: needs `libnuma.so.1`, which is not on its run path: $ORIGIN
    ");
}

#[test]
fn a_library_that_loads_only_after_another_is_found() {
    let outer = library("libouter.so.1")
        .needs("libinner.so.1")
        .rpath("$ORIGIN:$ORIGIN/far");
    let inner = library("libinner.so.1")
        .needs("libfar.so.1")
        .rpath("$ORIGIN");
    insta::assert_snapshot!(edited(CORE, |members| {
        add(members, &format!("{LIB}/libouter.so.1"), outer.build());
        add(members, &format!("{LIB}/libinner.so.1"), inner.build());
        add(members, &format!("{LIB}/far/libfar.so.1"), library("libfar.so.1").build());
    }), @"
    exit 0
    rocm_sdk_core.whl
      warning RW402 lucky-library: `_rocm_sdk_core/lib/libinner.so.1`: `libfar.so.1` is found only when another library loads this one
    ");
}

#[test]
fn a_runpath_hides_the_path_of_the_loader() {
    let outer = library("libouter.so.1")
        .needs("libinner.so.1")
        .rpath("$ORIGIN:$ORIGIN/far");
    let inner = library("libinner.so.1")
        .needs("libfar.so.1")
        .runpath("$ORIGIN");
    insta::assert_snapshot!(edited(CORE, |members| {
        add(members, &format!("{LIB}/libouter.so.1"), outer.build());
        add(members, &format!("{LIB}/libinner.so.1"), inner.build());
        add(members, &format!("{LIB}/far/libfar.so.1"), library("libfar.so.1").build());
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW401 missing-library: `_rocm_sdk_core/lib/libinner.so.1`: needs `libfar.so.1`, which is not on its run path: $ORIGIN
      warning RW403 runpath: `_rocm_sdk_core/lib/libinner.so.1`: DT_RUNPATH is `$ORIGIN`
    ");
}

#[test]
fn a_library_without_its_soname_is_found() {
    insta::assert_snapshot!(with_library(&library("liba.so.1"), "liba.so.1.2"), @"
    exit 1
    rocm_sdk_core.whl
      error   RW404 soname-without-file: `_rocm_sdk_core/lib/liba.so.1.2`: its SONAME is `liba.so.1`, and there is no such file beside it
    ");
}

#[test]
fn symbols_that_hosts_do_not_have_are_found() {
    let object = library("liba.so.1")
        .needs_version("libc.so.6", "GLIBC_2.9")
        .needs_version("libc.so.6", "GLIBC_2.38")
        .needs_version("libstdc++.so.6", "GLIBCXX_3.4.30");
    insta::assert_snapshot!(with_library(&object, "liba.so.1"), @"
    exit 1
    rocm_sdk_core.whl
      error   RW405 too-new-a-host: `_rocm_sdk_core/lib/liba.so.1`: it needs GLIBCXX_3.4.30, but hosts with glibc 2.28 have 3.4.25
      error   RW405 too-new-a-host: `_rocm_sdk_core/lib/liba.so.1`: it needs glibc 2.38, but hosts have 2.28
    ");
}

#[test]
fn a_launcher_of_nothing_is_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        add(members, "_rocm_sdk_core/bin/gone", launches("../lib/llvm/bin/gone"));
        members[0].1 = 0o100_755;
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW407 dangling-launcher: `_rocm_sdk_core/bin/gone`: it runs `../lib/llvm/bin/gone`, which no package of the set has
    ");
}

#[test]
fn a_damaged_elf_file_is_found() {
    let object = library("liba.so.1").needs("libb.so.1").rpath("$ORIGIN");
    insta::assert_snapshot!(edited(CORE, |members| {
        add(members, &format!("{LIB}/liba.so.1"), object.build());
        let mut cut = library("libb.so.1").build();
        cut.truncate(100);
        add(members, &format!("{LIB}/libb.so.1"), cut);
        let mut moved = library("libc.so.1").build();
        let tables = (64..moved.len()).step_by(56);
        let load = tables.into_iter().find(|at| moved[*at] == 1).unwrap();
        moved[load + 16] ^= 8;
        add(members, &format!("{LIB}/libc.so.1"), moved);
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libb.so.1`: a damaged ELF file: the program header table lies outside the file: 336 bytes at 64 of 100
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libc.so.1`: `PT_PHDR` is not where the program headers are
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libc.so.1`: the address and the offset of a segment disagree by its alignment: 0x8 and 0x0 by 0x1000
    ");
}

#[test]
fn a_library_of_another_machine_is_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        let mut bytes = library("liba.so.1").build();
        bytes[18] = 183;
        add(members, &format!("{LIB}/liba.so.1"), bytes);
    }), @"
    exit 0
    rocm_sdk_core.whl
      warning RW408 foreign-machine: `_rocm_sdk_core/lib/liba.so.1`: a program or library for ELF machine 183
    ");
}

#[test]
fn an_elf_file_with_tables_of_no_use_is_not_examined() {
    insta::assert_snapshot!(edited(CORE, |members| {
        let mut bytes = library("liba.so.1").build();
        let number = |bytes: &[u8], at: usize| {
            usize::try_from(u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())).unwrap()
        };
        let names = usize::from(u16::from_le_bytes(*bytes[62..].first_chunk().unwrap()));
        let header = number(&bytes, 40) + names * 64;
        bytes[header + 32..header + 40].copy_from_slice(&(70_u64 << 20).to_le_bytes());
        bytes.resize(number(&bytes, header + 24) + (70 << 20), 0);
        add(members, &format!("{LIB}/liba.so.1"), bytes);
    }), @"
    exit 0
    rocm_sdk_core.whl
      warning RW409 unexamined-elf: `_rocm_sdk_core/lib/liba.so.1`: its headers or tables are too large to check
    ");
}

/// Changes the header of the first segment of a type.
fn segment(bytes: &mut [u8], kind: u32, edit: impl Fn(&mut [u8])) {
    let table = usize::try_from(u64::from_le_bytes(*bytes[32..].first_chunk().unwrap())).unwrap();
    let mut headers = bytes[table..].chunks_exact_mut(56);
    edit(headers.find(|it| it[..4] == kind.to_le_bytes()).unwrap());
}

#[test]
fn segments_that_no_loader_can_use_are_found() {
    let broken = |end: &str, edit: &dyn Fn(&mut Vec<u8>)| {
        let found = edited(CORE, |members| edit(&mut member(members, end).2));
        only("RW406", &found)
    };
    insta::assert_snapshot!(broken("lib/libamdhip64.so.7", &|bytes| segment(bytes, 2, |it| it[0] = 0)), @"error   RW406 broken-elf: `_rocm_sdk_core/lib/libamdhip64.so.7`: no dynamic table");
    insta::assert_snapshot!(broken("llvm/bin/clang-22", &|bytes| segment(bytes, 0x6474_e551, |it| it[..4].copy_from_slice(&[3, 0, 0, 0]))), @"error   RW406 broken-elf: `_rocm_sdk_core/lib/llvm/bin/clang-22`: `PT_INTERP` is in no segment");
    insta::assert_snapshot!(broken("llvm/bin/clang-22", &|bytes| {
        let table = usize::from(bytes[32]);
        for header in bytes[table..].chunks_exact_mut(56).take_while(|it| it[0] < 8) {
            if header[..4] == 1_u32.to_le_bytes() {
                header[4] &= !1;
            }
        }
    }), @"error   RW406 broken-elf: `_rocm_sdk_core/lib/llvm/bin/clang-22`: it begins at 0x4000f0, where no code can run");
    insta::assert_snapshot!(broken("lib/libamdhip64.so.7", &Vec::clear), @"error   RW406 broken-elf: `_rocm_sdk_core/lib/libamdhip64.so.7`: it is empty");
    for program in [
        "_rocm_sdk_core/bin/hipcc",
        "_rocm_sdk_core/bin/rocminfo",
        "llvm/bin/clang-22",
    ] {
        let found = broken(program, &Vec::clear);
        assert!(
            found.ends_with(&format!("{program}`: it is empty")),
            "{found}"
        );
    }
    let started_by = |loader: &[u8]| {
        let usual = b"/lib64/ld-linux-x86-64.so.2";
        let mut program = Executable::new().calls("x").needs("libc.so.6").build();
        let at = program
            .windows(usual.len())
            .position(|it| it == usual)
            .unwrap();
        program[at..at + loader.len()].copy_from_slice(loader);
        let found = edited(CORE, |members| {
            add(members, "_rocm_sdk_core/libexec/x", program);
        });
        only("RW406", &found)
    };
    assert_eq!(started_by(b"/lib64/ld-linux-x86-64"), "");
    insta::assert_snapshot!(started_by(b"/lib/ld-linux-musl-x86.so.2"), @"error   RW406 broken-elf: `_rocm_sdk_core/libexec/x`: `PT_INTERP` is not the loader of every host: `/lib/ld-linux-musl-x86.so.2`");
    // Nothing runs an empty module.
    let found = edited(CORE, |members| {
        add(members, "_rocm_sdk_core/bin/__init__.py", "");
        members[0].1 = 0o100_755;
    });
    assert_eq!(found, "exit 0\n");
}
