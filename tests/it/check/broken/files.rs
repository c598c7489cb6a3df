//! Damages to the files of ROCm: programs and libraries, device code, and the development files.

use super::{Damage, edits::*, found};
use crate::check::{Members, Set, launches, library, member};
use rocwheel_test_files::linker::Executable;

#[rustfmt::skip]
const HOST: &[Damage] = &[
    ("libhipfft is gone", |set| drop_member(set, LIBRARIES, "lib/libhipfft.so.0")),
    ("libMIOpen is gone", |set| drop_member(set, LIBRARIES, "lib/libMIOpen.so.1")),
    ("libamdhip64 is gone", |set| drop_member(set, CORE, "lib/libamdhip64.so.7")),
    ("libroctx64 is gone", |set| drop_member(set, CORE, "lib/libroctx64.so.4")),
    ("rocgdb is gone", |set| drop_member(set, CORE, "bin/rocgdb")),
    ("amdllvm is gone", |set| drop_member(set, CORE, "bin/amdllvm")),
    ("a library has no name without a version", |set| {
        drop_member(set, PROFILER, "_rocm_profiler/lib/librocprof-sys.so");
    }),
    ("a program has no execute bits", |set| mode(set, CORE, "llvm/bin/clang-22", 0o100_644)),
    ("a script has no execute bits", |set| mode(set, CORE, "bin/hipconfig", 0o100_644)),
    ("scripts that no table names have no execute bits, and modules need none", |set| {
        for path in ["bin/hipcc.pl", "bin/hipvars.pm", "libexec/a/run", "libexec/a/b.py", "share/c"] {
            extra(set, CORE, &format!("_rocm_sdk_core/{path}"), b"#!/bin/sh\n");
        }
        extra(set, CORE, "_rocm_sdk_core/bin/notes", b"no script");
    }),
    ("a header is gone", |set| drop_member(set, CORE, "hip_runtime.h")),
    ("debug files come along", |set| extra(set, CORE, "_rocm_sdk_core/lib/a.debug", b"1")),
    ("a cache of Python comes along", |set| {
        extra(set, CORE, "_rocm_sdk_core/share/__pycache__/a.cpython-312.pyc", b"1");
    }),
    ("a library needs what no package has", |set| {
        let object = library("libnew.so.1")
            .needs("libnuma.so.1")
            .needs("libc.so.6");
        put(set, "libnew.so.1", &object.rpath("$ORIGIN"));
    }),
    ("a library loads only after another", |set| chain(set, &library("libinner.so.1").rpath("$ORIGIN"))),
    ("a runpath hides the path of the loader", |set| chain(set, &library("libinner.so.1").runpath("$ORIGIN"))),
    ("a library has another SONAME", |set| put(set, "libnew.so.1", &library("libold.so.1").rpath("$ORIGIN"))),
    ("a run path is absolute and open", |set| {
        put(set, "libnew.so.1", &library("libnew.so.1").rpath("$ORIGIN::/opt/rocm/lib"));
    }),
    ("a library needs a new glibc", |set| {
        let object = library("libnew.so.1")
            .needs_version("libc.so.6", "GLIBC_2.9")
            .needs_version("libc.so.6", "GLIBC_2.38")
            .needs_version("libstdc++.so.6", "GLIBCXX_3.4.30");
        put(set, "libnew.so.1", &object);
    }),
    ("a launcher runs nothing", |set| {
        let launcher = launches("../lib/llvm/bin/gone");
        extra(set, CORE, "_rocm_sdk_core/bin/gone", &launcher);
        mode(set, CORE, "_rocm_sdk_core/bin/gone", 0o100_755);
    }),
];

const HIPRTC: &str = "lib/libhiprtc.so.7";
const CLANG: &str = "llvm/bin/clang-22";

#[rustfmt::skip]
const ELF: &[Damage] = &[
    ("a library of zero bytes", |set| bytes(set, CORE, HIPRTC, Vec::clear)),
    ("a launcher of zero bytes", |set| bytes(set, CORE, "bin/rocminfo", Vec::clear)),
    ("a script of zero bytes", |set| bytes(set, CORE, "bin/hipcc", Vec::clear)),
    ("a library is cut off in its headers", |set| bytes(set, CORE, HIPRTC, |it| it.truncate(100))),
    ("a library is cut off", |set| bytes(set, CORE, HIPRTC, |it| it.truncate(1000))),
    ("a segment moves in memory", |set| bytes(set, CORE, HIPRTC, |it| segment(it, 1, |it| it[16] ^= 8))),
    ("PT_DYNAMIC is none", |set| bytes(set, CORE, HIPRTC, |it| segment(it, 2, |it| it[0] = 0))),
    ("PT_DYNAMIC is elsewhere", |set| bytes(set, CORE, HIPRTC, |it| segment(it, 2, |it| it[18] ^= 0x40))),
    ("PT_LOAD cannot be read", |set| bytes(set, CORE, HIPRTC, |it| segment(it, 1, |it| it[4] &= !4))),
    ("PT_LOAD cannot run", |set| bytes(set, CORE, CLANG, |it| segment(it, 1, |it| it[4] &= !1))),
    ("PT_INTERP is in no segment", |set| {
        bytes(set, CORE, CLANG, |it| {
            segment(it, 0x6474_e551, |it| it[..4].copy_from_slice(&[3, 0, 0, 0]));
        });
    }),
    ("a program starts with another loader", |set| {
        let mut program = Executable::new().calls("x").needs("libc.so.6").build();
        let start = at(&program, "/lib64/ld-linux-x86-64.so.2") - 27;
        program[start..start + 27].copy_from_slice(b"/lib/ld-linux-musl-x86.so.2");
        extra(set, CORE, "_rocm_sdk_core/libexec/x", &program);
    }),
    ("a library is of another machine", |set| {
        let mut bytes = library("liba.so.1").build();
        bytes[18] = 183;
        extra(set, CORE, "_rocm_sdk_core/lib/liba.so.1", &bytes);
    }),
    ("a table takes 70 MiB", |set| {
        let mut bytes = library("liba.so.1").build();
        let number = |bytes: &[u8], at: usize| {
            usize::try_from(u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())).unwrap()
        };
        let names = usize::from(u16::from_le_bytes(*bytes[62..].first_chunk().unwrap()));
        let header = number(&bytes, 40) + names * 64;
        bytes[header + 32..header + 40].copy_from_slice(&(70_u64 << 20).to_le_bytes());
        bytes.resize(number(&bytes, header + 24) + (70 << 20), 0);
        extra(set, CORE, "_rocm_sdk_core/lib/liba.so.1", &bytes);
    }),
];

/// A library that needs another one, which needs a third that only the first finds.
fn chain(set: &Set, inner: &rocwheel_test_files::linker::SharedObject) {
    let outer = library("libouter.so.1").needs("libinner.so.1");
    put(set, "libouter.so.1", &outer.rpath("$ORIGIN:$ORIGIN/far"));
    put(set, "libinner.so.1", &inner.clone().needs("libfar.so.1"));
    put(set, "far/libfar.so.1", &library("libfar.so.1"));
}

#[rustfmt::skip]
const DEVICES: &[Damage] = &[
    ("a file is for another target", |set| {
        set.edit(DEVICE, |it| {
            let (own, other) = ("Kernels.so-000-gfx942.hsaco", "Kernels.so-000-gfx90a.hsaco");
            let path = &mut member(it, own).0;
            *path = path.replace(own, other);
            relink(it, own, other);
        });
    }),
    ("a row of .devel_links is gone", |set| set.edit(DEVICE, |it| links(it, |it| drop(it.pop())))),
    ("a row of .devel_links leads elsewhere", |set| {
        set.edit(DEVICE, |it| {
            relink(
                it,
                "../../../../_rocm_sdk_libraries/lib/rocblas/library/K",
                "K",
            );
        });
    }),
    ("a row of .devel_links is there twice", |set| {
        set.edit(DEVICE, |it| links(it, |it| it.push(it[0].clone())));
    }),
    ("a library has no code for a target", |set| drop_device(set, &["rccl_lib_gfx942.kpack"])),
    ("a device wheel is empty", |set| {
        set.edit(DEVICE, |it| {
            it.retain(|it| it.0.contains("dist-info") || it.0.contains(".devel_links"));
            links(it, Vec::clear);
        });
    }),
    ("device code is in a host wheel", |set| {
        let path = "_rocm_sdk_libraries/lib/rocblas/library/K_gfx942.co";
        extra(set, LIBRARIES, path, b"1");
    }),
];

#[rustfmt::skip]
const TREES: &[Damage] = &[
    ("the tree is cut off", |set| bytes(set, DEVEL, "_devel.tar", |it| it.truncate(20_000))),
    ("the manifest counts wrong", |set| {
        swap(set, DEVEL, "_devel_manifest.json", "\"files\": ", "\"files\": 1");
    }),
    ("hip-config.cmake is gone", |set| {
        tree(set, |it| {
            it.retain(|it| !it.0.path.as_str().ends_with("hip-config.cmake"));
        });
    }),
    ("a CMake package that another one asks for is gone", |set| {
        tree(set, |entries| {
            let text = b"find_dependency(rocblas)\nfind_dependency(Threads)\n";
            rewrite(entries, "lib/cmake/hip/hip-config.cmake", text);
            entries.retain(|it| !it.0.path.as_str().contains("cmake/rocblas"));
        });
    }),
    ("symlinks dangle", |set| {
        tree(set, |entries| {
            entries.push(link("lib/a", "../../_rocm_sdk_core/lib/gone"));
            entries.push(link("lib/b", "gone"));
            entries.push(link("lib/c", "../llvm/bin/clang"));
        });
    }),
    ("a library does not load through a symlink in another directory", |set| {
        tree(set, |entries| {
            entries.push(link("lib/aaa/libamdhip64.so", "../libamdhip64.so.7"));
            // Of a program, `$ORIGIN` is where the file is, wherever a symlink to it is.
            entries.push(link("lib/aaa/rocminfo", "../../bin/rocminfo"));
        });
    }),
    ("a directory comes after what is in it", |set| {
        tree(set, |entries| {
            let is_parent = |it: &Entry| it.0.path.as_str() == "_rocm_sdk_devel/lib";
            let at = entries.iter().position(is_parent).unwrap();
            let parent = entries.remove(at);
            entries.retain(|it| !it.0.path.as_str().starts_with("_rocm_sdk_devel/lib/lib"));
            entries.push(parent);
        });
    }),
];

#[rustfmt::skip]
pub(super) const UNSEEN: &[Damage] = &[
    ("a header has execute bits", |set| mode(set, CORE, "hip_runtime.h", 0o100_755)),
    ("a header is another", |set| bytes(set, CORE, "hip_runtime.h", |it| it[0] ^= 1)),
    ("a byte of code is another", |set| {
        bytes(set, CORE, HIPRTC, |it| {
            // The function jumps to another one: `jmp *DISTANCE(%rip)`.
            let at = it.windows(2).position(|code| code == [0xff, 0x25]).unwrap();
            it[at + 2] ^= 0x40;
        });
    }),
    ("a byte of device code is another", |set| bytes(set, DEVICE, "_gfx942.dat", |it| it[0] ^= 1)),
    ("a byte of the tree is another", |set| {
        tree(set, |entries| {
            let is_it = |it: &&mut Entry| it.0.path.as_str().ends_with("rocprim-config.cmake");
            entries.iter_mut().find(is_it).unwrap().1[0] ^= 1;
        });
    }),
];

#[test]
#[ignore = "slow"]
fn programs_and_libraries() {
    insta::assert_snapshot!(found(HOST), @"
    libhipfft is gone
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libhipfft.so`: it leads to `libhipfft.so.0`, which does not exist
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libhipfft.so.0`: it leads to `../../_rocm_sdk_libraries/lib/libhipfft.so.0`, which does not exist
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libhipfft.so.0.0`: it leads to `libhipfft.so.0`, which does not exist
      error   RW213 unkept-promise: its Python needs `lib/libhipfft.so*` (library `hipfft`), which is missing; artifact `fft_lib` has it
    libMIOpen is gone
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libMIOpen.so`: it leads to `libMIOpen.so.1`, which does not exist
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libMIOpen.so.1`: it leads to `../../_rocm_sdk_libraries/lib/libMIOpen.so.1`, which does not exist
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libMIOpen.so.1.0`: it leads to `libMIOpen.so.1`, which does not exist
      error   RW213 unkept-promise: its Python needs `lib/libMIOpen.so*` (library `miopen`), which is missing; artifact `miopen_lib` has it
    libamdhip64 is gone
      error   RW401 missing-library: `_rocm_profiler/lib/librocprof-sys.so`: needs `libamdhip64.so.7`, which is not on its run path: $ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
      error   RW401 missing-library: `_rocm_profiler/lib/librocprof-sys.so.1`: needs `libamdhip64.so.7`, which is not on its run path: $ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
      error   RW213 unkept-promise: its Python needs `lib/libamdhip64.so*` (library `amdhip64`), which is missing; artifact `core-hip_lib` has it
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libamdhip64.so`: it leads to `libamdhip64.so.7`, which does not exist
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libamdhip64.so.7`: it leads to `../../_rocm_sdk_core/lib/libamdhip64.so.7`, which does not exist
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libamdhip64.so.7.1.0`: it leads to `libamdhip64.so.7`, which does not exist
      … and 8 more
    libroctx64 is gone
      error   RW213 unkept-promise: its Python needs `lib/libroctx64.so*` (library `roctx64`), which is missing; artifact `rocprofiler-sdk_lib` has it
      error   RW401 missing-library: `_rocm_sdk_core/lib/libroctracer64.so.4`: needs `libroctx64.so.4`, which is not on its run path: $ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libroctx64.so`: it leads to `libroctx64.so.4`, which does not exist
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libroctx64.so.4`: it leads to `../../_rocm_sdk_core/lib/libroctx64.so.4`, which does not exist
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/libroctx64.so.4.1`: it leads to `libroctx64.so.4`, which does not exist
    rocgdb is gone
      error   RW213 unkept-promise: its Python needs `bin/rocgdb` (command `rocgdb`), which is missing; artifact `rocgdb_run` has it
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/bin/rocgdb`: it leads to `../../_rocm_sdk_core/bin/rocgdb`, which does not exist
    amdllvm is gone
      error   RW407 dangling-launcher: `_rocm_sdk_core/bin/amdclang`: it runs `../lib/llvm/bin/amdllvm`, which no package of the set has
      error   RW407 dangling-launcher: `_rocm_sdk_core/bin/amdclang++`: it runs `../lib/llvm/bin/amdllvm`, which no package of the set has
      error   RW407 dangling-launcher: `_rocm_sdk_core/lib/llvm/bin/amdclang`: it runs `amdllvm`, which no package of the set has
      error   RW407 dangling-launcher: `_rocm_sdk_core/lib/llvm/bin/amdclang++`: it runs `amdllvm`, which no package of the set has
      error   RW407 dangling-launcher: `_rocm_sdk_core/lib/llvm/bin/amdclang-cl`: it runs `amdllvm`, which no package of the set has
      error   RW407 dangling-launcher: `_rocm_sdk_core/lib/llvm/bin/amdclang-cpp`: it runs `amdllvm`, which no package of the set has
      … and 1 more
    a library has no name without a version
      error   RW213 unkept-promise: tools load `lib/librocprof-sys.so.1` as `lib/librocprof-sys.so`, which is missing
    a program has no execute bits
      error   RW121 not-executable: `_rocm_sdk_core/lib/llvm/bin/clang-22`: a program, and its mode is 644
    a script has no execute bits
      error   RW121 not-executable: `_rocm_sdk_core/bin/hipconfig`: a script, and its mode is 644
    scripts that no table names have no execute bits, and modules need none
      error   RW121 not-executable: `_rocm_sdk_core/bin/hipcc.pl`: a script, and its mode is 644
      error   RW121 not-executable: `_rocm_sdk_core/libexec/a/run`: a script, and its mode is 644
    a header is gone
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/include/hip/hip_runtime.h`: it leads to `../../../_rocm_sdk_core/include/hip/hip_runtime.h`, which does not exist
    debug files come along
      warning RW605 debug-leftover: `_rocm_sdk_core/lib/a.debug`: a leftover of building or debugging
    a cache of Python comes along
      warning RW605 debug-leftover: `_rocm_sdk_core/share/__pycache__/a.cpython-312.pyc`: a leftover of building or debugging
    a library needs what no package has
      error   RW401 missing-library: `_rocm_sdk_core/lib/libnew.so.1`: needs `libnuma.so.1`, which is not on its run path: $ORIGIN
    a library loads only after another
      warning RW402 lucky-library: `_rocm_sdk_core/lib/libinner.so.1`: `libfar.so.1` is found only when another library loads this one
    a runpath hides the path of the loader
      error   RW401 missing-library: `_rocm_sdk_core/lib/libinner.so.1`: needs `libfar.so.1`, which is not on its run path: $ORIGIN
      warning RW403 runpath: `_rocm_sdk_core/lib/libinner.so.1`: DT_RUNPATH is `$ORIGIN`
    a library has another SONAME
      error   RW404 soname-without-file: `_rocm_sdk_core/lib/libnew.so.1`: its SONAME is `libold.so.1`, and there is no such file beside it
    a run path is absolute and open
      warning RW601 absolute-run-path: `_rocm_sdk_core/lib/libnew.so.1`: `/opt/rocm/lib` is on its run path
      error   RW602 open-run-path: `_rocm_sdk_core/lib/libnew.so.1`: an entry for the current directory: `$ORIGIN::/opt/rocm/lib`
    a library needs a new glibc
      error   RW405 too-new-a-host: `_rocm_sdk_core/lib/libnew.so.1`: it needs glibc 2.38, but hosts have 2.28
      error   RW405 too-new-a-host: `_rocm_sdk_core/lib/libnew.so.1`: it needs glibcxx 3.4.30, but hosts have 3.4.25
    a launcher runs nothing
      error   RW407 dangling-launcher: `_rocm_sdk_core/bin/gone`: it runs `../lib/llvm/bin/gone`, which no package of the set has
    ");
}

#[test]
#[ignore = "slow"]
fn elf_files() {
    insta::assert_snapshot!(found(ELF), @"
    a library of zero bytes
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libhiprtc.so.7`: it is empty
    a launcher of zero bytes
      error   RW406 broken-elf: `_rocm_sdk_core/bin/rocminfo`: it is empty
    a script of zero bytes
      error   RW406 broken-elf: `_rocm_sdk_core/bin/hipcc`: it is empty
    a library is cut off in its headers
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libhiprtc.so.7`: a damaged ELF file: the program header table lies outside the file: 392 bytes at 64 of 100
    a library is cut off
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libhiprtc.so.7`: a damaged ELF file: the section header table lies outside the file: 576 bytes at 888 of 1000
    a segment moves in memory
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libhiprtc.so.7`: `PT_PHDR` is not where the program headers are
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libhiprtc.so.7`: the address and the offset of a segment disagree by its alignment: 0x8 and 0x0 by 0x1000
    PT_DYNAMIC is none
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libhiprtc.so.7`: no dynamic table
    PT_DYNAMIC is elsewhere
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libhiprtc.so.7`: the dynamic table is in no segment
    PT_LOAD cannot be read
      error   RW406 broken-elf: `_rocm_sdk_core/lib/libhiprtc.so.7`: `DT_RELA` is in no segment that can be read: 0x248
    PT_LOAD cannot run
      error   RW406 broken-elf: `_rocm_sdk_core/lib/llvm/bin/clang-22`: it begins at 0x4000f0, where no code can run
    PT_INTERP is in no segment
      error   RW406 broken-elf: `_rocm_sdk_core/lib/llvm/bin/clang-22`: `PT_INTERP` is in no segment
    a program starts with another loader
      error   RW406 broken-elf: `_rocm_sdk_core/libexec/x`: `PT_INTERP` is not the loader of every host: `/lib/ld-linux-musl-x86.so.2`
    a library is of another machine
      warning RW408 foreign-machine: `_rocm_sdk_core/lib/liba.so.1`: a program or library for ELF machine 183
    a table takes 70 MiB
      warning RW409 unexamined-elf: `_rocm_sdk_core/lib/liba.so.1`: its headers or tables are too large to check
    ");
}

#[test]
#[ignore = "slow"]
fn device_code() {
    insta::assert_snapshot!(found(DEVICES), @"
    a file is for another target
      error   RW301 foreign-device-file: `_rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx90a.hsaco`: a file for `gfx90a` in the package of `gfx942`
    a row of .devel_links is gone
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx942.dat` is not listed
    a row of .devel_links leads elsewhere
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/rocblas/library/Kernels.so-000-gfx942-xnack+.hsaco` leads to `Kernels.so-000-gfx942-xnack+.hsaco`
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/rocblas/library/Kernels.so-000-gfx942.hsaco` leads to `Kernels.so-000-gfx942.hsaco`
    a row of .devel_links is there twice
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `.kpack/blas_lib_gfx942.kpack` is listed twice
    a library has no code for a target
      error   RW303 uncovered-library: `librccl.so.1.0` has code for gfx1100, but none for gfx942
    a device wheel is empty
      error   RW305 empty-device-wheel: it has no file for `gfx942`
    device code is in a host wheel
      warning RW307 device-file-in-host-wheel: `_rocm_sdk_libraries/lib/rocblas/library/K_gfx942.co`: device code of one target
    ");
}

#[test]
#[ignore = "slow"]
fn development_files() {
    insta::assert_snapshot!(found(TREES), @"
    the tree is cut off
      error   RW401 missing-library: `_rocm_sdk_devel/bin/rocminfo`: needs `libhsa-runtime64.so.1`, which is not on its run path: $ORIGIN/../lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
      error   RW501 broken-devel: `rocm_sdk_devel/_devel.tar`: the tar is cut off at byte 20000
    the manifest counts wrong
      error   RW501 broken-devel: `rocm_sdk_devel/_devel_manifest.json`: `files` is 19, and 9 in the archive
    hip-config.cmake is gone
      error   RW213 unkept-promise: its Python needs `lib/cmake/hip/hip-config.cmake`, which is missing; artifact `core-hip_dev` has it
      error   RW501 broken-devel: `rocm_sdk_devel/_devel_manifest.json`: `files` is 9, and 8 in the archive
    a CMake package that another one asks for is gone
      error   RW213 unkept-promise: its Python needs `lib/cmake/rocblas/rocblas-config.cmake`, which is missing; artifact `blas_dev` has it
      error   RW507 missing-cmake-package: `_rocm_sdk_devel/lib/cmake/hip/hip-config.cmake`: it asks for the CMake package `rocblas`, which is missing; `_rocm_sdk_libraries/lib/librocblas.so.5` is in the set
      error   RW501 broken-devel: `rocm_sdk_devel/_devel_manifest.json`: `files` is 9, and 8 in the archive
    symlinks dangle
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/a`: it leads to `../../_rocm_sdk_core/lib/gone`, which does not exist
      warning RW505 dangling-tree-link: `_rocm_sdk_devel/lib/b`: it leads to `gone`, which does not exist
      error   RW501 broken-devel: `rocm_sdk_devel/_devel_manifest.json`: `links` is 137, and 140 in the archive
    a library does not load through a symlink in another directory
      error   RW401 missing-library: `_rocm_sdk_devel/lib/aaa/libamdhip64.so`: needs `libamd_comgr.so.3`, which is not on its run path: $ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
      error   RW401 missing-library: `_rocm_sdk_devel/lib/aaa/libamdhip64.so`: needs `libhsa-runtime64.so.1`, which is not on its run path: $ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
      error   RW501 broken-devel: `rocm_sdk_devel/_devel_manifest.json`: `links` is 137, and 139 in the archive
    a directory comes after what is in it
      error   RW401 missing-library: `_rocm_sdk_devel/bin/rocminfo`: needs `libhsa-runtime64.so.1`, which is not on its run path: $ORIGIN/../lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
      error   RW501 broken-devel: `_rocm_sdk_devel/lib`: it comes after `_rocm_sdk_devel/lib/cmake`, which `rocm-sdk` then deletes
      error   RW501 broken-devel: `rocm_sdk_devel/_devel_manifest.json`: `links` is 137, and 56 in the archive
    ");
}

#[test]
fn a_device_library_has_several_names_and_python_files_are_files() {
    let kernels = "lib/hipdnn_plugins/libkernels_gfx942.so.1";
    let set = Set::new();
    set.edit(DEVICE, |members: &mut Members| {
        let bytes = library("libkernels_gfx942.so.1").build();
        for (path, bytes) in [(kernels, bytes), ("lib/rocblas/library/tune_gfx942.py", Vec::new())]
        {
            crate::check::add(members, &format!("_rocm_sdk_libraries/{path}"), bytes);
            link_row(members, path, path);
        }
        crate::check::add(members, "_rocm_sdk_libraries/__init__.py", "");
        link_row(members, "lib/hipdnn_plugins/libkernels_gfx942.so", kernels);
    });
    let found = set.found(&["--select", "RW302"]);
    assert_eq!(found, "exit 0\n");
}

#[test]
fn a_cmake_package_that_is_there_is_not_missed() {
    let set = Set::new();
    tree(&set, |entries| {
        rewrite(entries, "lib/cmake/hip/hip-config.cmake", b"find_dependency(rocblas)\n");
    });
    assert_eq!(set.found(&["--select", "RW507"]), "exit 0\n");
}
