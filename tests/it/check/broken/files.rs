//! Damages to the files of ROCm: programs and libraries, device code, and the development files.

use super::{Damage, edits::*, found};
use crate::check::{Members, Set, launches, library, member};
use crate::support::linker::Executable;

const HOST: &[Damage] = &[
    ("libhipfft is gone", |set| {
        drop_member(set, LIBRARIES, "lib/libhipfft.so.0")
    }),
    ("libMIOpen is gone", |set| {
        drop_member(set, LIBRARIES, "lib/libMIOpen.so.1")
    }),
    ("libamdhip64 is gone", |set| {
        drop_member(set, CORE, "lib/libamdhip64.so.7")
    }),
    ("libroctx64 is gone", |set| {
        drop_member(set, CORE, "lib/libroctx64.so.4")
    }),
    ("rocgdb is gone", |set| drop_member(set, CORE, "bin/rocgdb")),
    ("amdllvm is gone", |set| {
        drop_member(set, CORE, "bin/amdllvm")
    }),
    ("a library has no name without a version", |set| {
        drop_member(set, PROFILER, "_rocm_profiler/lib/librocprof-sys.so");
    }),
    ("a program has no execute bits", |set| {
        mode(set, CORE, "llvm/bin/clang-22", 0o100_644);
    }),
    ("a script has no execute bits", |set| {
        mode(set, CORE, "bin/hipconfig", 0o100_644)
    }),
    ("a header is gone", |set| {
        drop_member(set, CORE, "hip_runtime.h")
    }),
    ("debug files come along", |set| {
        extra(set, CORE, "_rocm_sdk_core/lib/a.debug", b"1")
    }),
    ("a cache of Python comes along", |set| {
        extra(
            set,
            CORE,
            "_rocm_sdk_core/share/__pycache__/a.cpython-312.pyc",
            b"1",
        );
    }),
    ("a library needs what no package has", |set| {
        let object = library("libnew.so.1")
            .needs("libnuma.so.1")
            .needs("libc.so.6");
        put(set, "libnew.so.1", &object.rpath("$ORIGIN"));
    }),
    ("a library loads only after another", |set| {
        chain(set, &library("libinner.so.1").rpath("$ORIGIN"));
    }),
    ("a runpath hides the path of the loader", |set| {
        chain(set, &library("libinner.so.1").runpath("$ORIGIN"));
    }),
    ("a library has another SONAME", |set| {
        put(set, "libnew.so.1", &library("libold.so.1").rpath("$ORIGIN"));
    }),
    ("a run path is absolute and open", |set| {
        put(
            set,
            "libnew.so.1",
            &library("libnew.so.1").rpath("$ORIGIN::/opt/rocm/lib"),
        );
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

const ELF: &[Damage] = &[
    ("a library of zero bytes", |set| {
        bytes(set, CORE, HIPRTC, Vec::clear)
    }),
    ("a launcher of zero bytes", |set| {
        bytes(set, CORE, "bin/rocminfo", Vec::clear)
    }),
    ("a script of zero bytes", |set| {
        bytes(set, CORE, "bin/hipcc", Vec::clear)
    }),
    ("a library is cut off in its headers", |set| {
        bytes(set, CORE, HIPRTC, |it| it.truncate(100));
    }),
    ("a library is cut off", |set| {
        bytes(set, CORE, HIPRTC, |it| it.truncate(1000))
    }),
    ("a segment moves in memory", |set| {
        bytes(set, CORE, HIPRTC, |it| segment(it, 1, |it| it[16] ^= 8));
    }),
    ("PT_DYNAMIC is none", |set| {
        bytes(set, CORE, HIPRTC, |it| segment(it, 2, |it| it[0] = 0));
    }),
    ("PT_DYNAMIC is elsewhere", |set| {
        bytes(set, CORE, HIPRTC, |it| segment(it, 2, |it| it[18] ^= 0x40));
    }),
    ("PT_LOAD cannot run", |set| {
        bytes(set, CORE, CLANG, |it| segment(it, 1, |it| it[4] &= !1));
    }),
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
fn chain(set: &Set, inner: &crate::support::linker::SharedObject) {
    let outer = library("libouter.so.1").needs("libinner.so.1");
    put(set, "libouter.so.1", &outer.rpath("$ORIGIN:$ORIGIN/far"));
    put(set, "libinner.so.1", &inner.clone().needs("libfar.so.1"));
    put(set, "far/libfar.so.1", &library("libfar.so.1"));
}

const DEVICES: &[Damage] = &[
    ("a file is for another target", |set| {
        set.edit(DEVICE, |it| {
            let (own, other) = ("Kernels.so-000-gfx942.hsaco", "Kernels.so-000-gfx90a.hsaco");
            let path = &mut member(it, own).0;
            *path = path.replace(own, other);
            relink(it, own, other);
        });
    }),
    ("a row of .devel_links is gone", |set| {
        set.edit(DEVICE, |it| links(it, |it| drop(it.pop())));
    }),
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
    ("only the code for xnack+ is left", |set| {
        let ends = [
            "blas_lib_gfx942.kpack",
            "_gfx942.co",
            "_gfx942.dat",
            "-gfx942.hsaco",
        ];
        drop_device(set, &ends);
    }),
    ("a library has no code for a target", |set| {
        drop_device(set, &["rccl_lib_gfx942.kpack"])
    }),
    ("a device wheel is empty", |set| {
        set.edit(DEVICE, |it| {
            it.retain(|it| it.0.contains("dist-info") || it.0.contains(".devel_links"));
            links(it, Vec::clear);
        });
    }),
    ("an archive is called otherwise", |set| {
        set.edit(DEVICE, |it| {
            let path = &mut member(it, "rccl_lib_gfx942.kpack").0;
            *path = path.replace("rccl_lib_", "rccl_");
            relink(it, "rccl_lib_gfx942", "rccl_gfx942");
        });
    }),
    ("an archive is cut off", |set| {
        bytes(set, DEVICE, "rccl_lib_gfx942.kpack", |it| it.truncate(9000));
    }),
    ("a marker leads elsewhere", |set| {
        bytes(set, LIBRARIES, "librccl.so.1", |it| {
            let at = at(it, "HIPK");
            it[at] = 2;
        });
    }),
    ("device code is in a host wheel", |set| {
        let path = "_rocm_sdk_libraries/lib/rocblas/library/K_gfx942.co";
        extra(set, LIBRARIES, path, b"1");
    }),
];

const TREES: &[Damage] = &[
    ("the tree is cut off", |set| {
        bytes(set, DEVEL, "_devel.tar", |it| it.truncate(20_000))
    }),
    ("the manifest counts wrong", |set| {
        swap(
            set,
            DEVEL,
            "_devel_manifest.json",
            "\"files\": ",
            "\"files\": 1",
        );
    }),
    ("hip-config.cmake is gone", |set| {
        tree(set, |it| {
            it.retain(|it| !it.0.path.as_str().ends_with("hip-config.cmake"))
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
    (
        "a library does not load through a symlink in another directory",
        |set| {
            tree(set, |entries| {
                entries.push(link("lib/aaa/libamdhip64.so", "../libamdhip64.so.7"));
                // Of a program, `$ORIGIN` is where the file is, wherever a symlink to it is.
                entries.push(link("lib/aaa/rocminfo", "../../bin/rocminfo"));
            });
        },
    ),
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

pub(super) const UNSEEN: &[Damage] = &[
    ("a header has execute bits", |set| {
        mode(set, CORE, "hip_runtime.h", 0o100_755)
    }),
    ("a header is another", |set| {
        bytes(set, CORE, "hip_runtime.h", |it| it[0] ^= 1)
    }),
    ("a byte of code is another", |set| {
        bytes(set, CORE, HIPRTC, |it| {
            let at = it.iter().rposition(|byte| *byte != 0).unwrap();
            it[at] ^= 0x40;
        });
    }),
    ("a byte of device code is another", |set| {
        bytes(set, DEVICE, "_gfx942.dat", |it| it[0] ^= 1);
    }),
    ("a byte of the tree is another", |set| {
        tree(set, |entries| {
            let is_it = |it: &&mut Entry| it.0.path.as_str().ends_with("rocprim-config.cmake");
            entries.iter_mut().find(is_it).unwrap().1[0] ^= 1;
        });
    }),
];

#[test]
fn programs_and_libraries() {
    insta::assert_snapshot!(found(HOST), @"");
}

#[test]
fn elf_files() {
    insta::assert_snapshot!(found(ELF), @"");
}

#[test]
fn device_code() {
    insta::assert_snapshot!(found(DEVICES), @"");
}

#[test]
fn development_files() {
    insta::assert_snapshot!(found(TREES), @"");
}

#[test]
fn a_device_library_has_several_names_and_python_files_are_files() {
    let kernels = "lib/hipdnn_plugins/libkernels_gfx942.so.1";
    let set = Set::new();
    set.edit(DEVICE, |members: &mut Members| {
        let bytes = library("libkernels_gfx942.so.1").build();
        for (path, bytes) in [
            (kernels, bytes),
            ("lib/rocblas/library/tune_gfx942.py", Vec::new()),
        ] {
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
        rewrite(
            entries,
            "lib/cmake/hip/hip-config.cmake",
            b"find_dependency(rocblas)\n",
        );
    });
    assert_eq!(set.found(&["--select", "RW507"]), "exit 0\n");
}
