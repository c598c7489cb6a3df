//! Device code: what libraries lead to, what archives hold, and for whom.

use rocwheel_kpack::{
    CodeTarget,
    archive::{ArchiveWriter, KpackArchive, Packed},
};

use super::{
    Members, Set, add,
    broken::{
        Damage,
        edits::{self, link_row, links, rewrite},
        found,
    },
    member,
};
use crate::support::prelude::*;
use rocwheel_test_files::stored::stored;

const LIBRARIES: &str = "rocm_sdk_libraries";
const GFX1100: &str = "rocm_sdk_device_gfx1100";
const GFX942: &str = "rocm_sdk_device_gfx942";

fn replace_bytes(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
}

/// An archive with what `keep` says of another one, each under the target it is then for.
fn rebuilt(bytes: &[u8], keep: impl Fn(&str) -> bool, target: &str) -> Vec<u8> {
    let source = KpackArchive::open(bytes).unwrap();
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, source.group(), target).unwrap();
    for code in source.codes().iter().filter(|code| keep(&code.key)) {
        let packed = Packed::new(&source.read(code).unwrap()).unwrap();
        let target: CodeTarget = target.parse().unwrap();
        writer.add(&code.key, &target, &packed, None).unwrap();
    }
    writer.finish().unwrap().0.into_inner()
}

/// Leaves of the code for BLAS only what `keep` says.
fn rebuild(set: &Set, target: &str, keep: fn(&str) -> bool) {
    let wheel = if target == "gfx1100" { GFX1100 } else { GFX942 };
    set.edit(wheel, |members| {
        let archive = &mut member(members, &format!("blas_lib_{target}.kpack")).2;
        *archive = rebuilt(archive, keep, target);
    });
}

fn drop_file(members: &mut Members, end: &str) {
    members.retain(|it| !it.0.ends_with(end));
    links(members, |links| {
        links.retain(|link| !link["relpath"].as_str().unwrap().ends_with(end));
    });
}

fn add_file(members: &mut Members, path: &str, bytes: Vec<u8>) {
    add(members, &format!("_rocm_sdk_libraries/{path}"), bytes);
    link_row(members, path, path);
}

#[test]
fn code_for_a_generic_target_is_code_for_its_targets() {
    let generic = |members: &mut Members| {
        let end = ".kpack/rccl_lib_gfx942.kpack";
        let bytes = rebuilt(&member(members, end).2, |_| true, "gfx9-4-generic");
        drop_file(members, end);
        add_file(members, ".kpack/rccl_lib_gfx9-4-generic.kpack", bytes);
    };
    let set = Set::new();
    set.edit(GFX942, generic);
    assert_eq!(set.found(&["--fail-on", "warning"]), "exit 0\n");
}

#[rustfmt::skip]
const DAMAGES: &[Damage] = &[
    ("wrappers that lead nowhere", |set| {
        set.edit(LIBRARIES, |members| {
            let library = &mut member(members, "librccl.so.1").2;
            replace_bytes(library, b"HIPK\x01\0\0\0", b"HIPK\x02\0\0\0");
        });
    }),
    ("archives that are nowhere", |set| {
        set.edit(LIBRARIES, |members| {
            let library = &mut member(members, "librccl.so.1").2;
            replace_bytes(library, b".kpack/rccl_lib_", b".kpack/nccl_lib_");
        });
    }),
    ("a library that was moved loses its archives", |set| {
        set.edit(LIBRARIES, |members| {
            let library = member(members, "librccl.so.1");
            library.0 = library.0.replace("/lib/", "/lib/rccl/");
        });
    }),
    ("code that an archive lacks", |set| rebuild(set, "gfx942", |key| !key.contains("hipblaslt"))),
    ("code that an archive lacks (2)", |set| rebuild(set, "gfx1100", |key| !key.ends_with("#1"))),
    ("a variant that hides the code that works", |set| {
        rebuild(set, "gfx942:xnack+", |key| key.contains("rocblas"));
    }),
    ("a variant that hides the code that works (2)", |set| rebuild(set, "gfx942:xnack+", |_| false)),
    ("what is no archive", |set| {
        set.edit(GFX1100, |members| {
            member(members, "rccl_lib_gfx1100.kpack").2.truncate(9000);
            member(members, "blas_lib_gfx1100.kpack").2 = b"<html>".to_vec();
            member(members, "TensileLibrary_gfx1100.co").2.truncate(40);
        });
    }),
    ("an archive that no library asks for", |set| {
        set.edit(GFX942, |members| {
            let end = ".kpack/blas_lib_gfx942:xnack+.kpack";
            let bytes = member(members, end).2.clone();
            drop_file(members, end);
            add_file(members, ".kpack/blas_lib_gfx942-xnack+.kpack", bytes);
        });
    }),
    ("code under a name that its library does not ask for is lost", |set| {
        set.edit(GFX1100, |members| {
            let end = ".kpack/blas_lib_gfx1100.kpack";
            let bytes = member(members, end).2.clone();
            drop_file(members, end);
            add_file(members, ".kpack/blas_lib_1_gfx1100.kpack", bytes);
        });
    }),
    ("code of a unit that its library does not have is lost", |set| {
        set.edit(GFX1100, |members| {
            let archive = &mut member(members, "blas_lib_gfx1100.kpack").2;
            let source = KpackArchive::open(archive.as_slice()).unwrap();
            let out = Cursor::new(Vec::new());
            let mut writer = ArchiveWriter::new(out, "blas_lib", "gfx1100").unwrap();
            for code in source.codes() {
                let packed = Packed::new(&source.read(code).unwrap()).unwrap();
                writer.add(&code.key, &code.target, &packed, None).unwrap();
                let one_more = code.key.replace("#1", "#7");
                if one_more != code.key {
                    writer.add(&one_more, &code.target, &packed, None).unwrap();
                }
            }
            *archive = writer.finish().unwrap().0.into_inner();
        });
    }),
    ("code that needs xnack is no code for the target itself", |set| {
        set.edit(GFX942, |members| {
            drop_file(members, ".kpack/blas_lib_gfx942.kpack");
            for end in ["_gfx942.co", "_gfx942.dat", "-gfx942.hsaco"] {
                drop_file(members, end);
            }
        });
    }),
    // Beside the code of another target a library has a gap, and that is reported once.
    ("code that needs xnack is no code for the target itself (2)", |set| {
        set.edit(GFX942, |members| {
            drop_file(members, ".kpack/blas_lib_gfx942.kpack");
            let archive = &mut member(members, "blas_lib_gfx942:xnack+.kpack").2;
            *archive = rebuilt(archive, |key| key.contains("rocblas"), "gfx942:xnack+");
        });
    }),
    ("code of another target is found under any file name", |set| {
        set.edit(GFX942, |members| {
            // `e_flags` of a code object: gfx90a.
            member(members, "Kernels.so-000-gfx942.hsaco").2[48] = 0x3f;
            let archive = &mut member(members, "rccl_lib_gfx942.kpack").2;
            *archive = rebuilt(archive, |_| true, "gfx90a");
            let raw = bundles::raw(&[("gfx942", [1; 100]), ("gfx950", [1; 100])]);
            let packed = bundles::compress(&raw, 3, "zstd").unwrap();
            member(members, "TensileLibrary_gfx942.co").2 = packed;
        });
    }),
    ("databases that a library can do without are no gap", |set| {
        set.edit(GFX942, |members| {
            add_file(members, "share/miopen/db/gfx942.kdb", vec![1; 100]);
            add_file(members, "lib/rocfft/gfx942.kdb", vec![1; 100]);
        });
    }),
];

#[test]
#[ignore = "slow"]
fn each_library_finds_its_code() {
    insta::assert_snapshot!(found(DAMAGES), @"
    wrappers that lead nowhere
      error   RW308 broken-kpack-reference: `_rocm_sdk_libraries/lib/librccl.so.1`: a wrapper of an unknown kind: at 0x130c8
    archives that are nowhere
      warning RW312 unasked-archive: `_rocm_sdk_libraries/.kpack/rccl_lib_gfx1100.kpack`: no library uses `comm-libs/rccl/stage/lib/librccl.so.1.0#0` or its other code
      warning RW312 unasked-archive: `_rocm_sdk_libraries/.kpack/rccl_lib_gfx942.kpack`: no library uses `comm-libs/rccl/stage/lib/librccl.so.1.0#0` or its other code
      error   RW309 unresolved-kpack: `_rocm_sdk_libraries/lib/librccl.so.1`: no package has `_rocm_sdk_libraries/.kpack/nccl_lib_*.kpack` for any target
    a library that was moved loses its archives
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/librccl.so`: it leads to `librccl.so.1`, which does not exist
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/librccl.so.1`: it leads to `../../_rocm_sdk_libraries/lib/librccl.so.1`, which does not exist
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/librccl.so.1.0`: it leads to `librccl.so.1`, which does not exist
      warning RW312 unasked-archive: `_rocm_sdk_libraries/.kpack/rccl_lib_gfx1100.kpack`: no library uses `comm-libs/rccl/stage/lib/librccl.so.1.0#0` or its other code
      warning RW312 unasked-archive: `_rocm_sdk_libraries/.kpack/rccl_lib_gfx942.kpack`: no library uses `comm-libs/rccl/stage/lib/librccl.so.1.0#0` or its other code
      error   RW213 unkept-promise: its Python needs `lib/librccl.so*` (library `rccl`), which is missing; artifact `rccl_lib` has it
      … and 2 more
    code that an archive lacks
      error   RW314 only-with-xnack: `libhipblaslt.so.1.0` has code for `gfx942:xnack+`, but none for `gfx942` itself
      error   RW310 missing-kernels: `_rocm_sdk_libraries/lib/libhipblaslt.so.1`: the archives for `gfx942` lack `math-libs/BLAS/rocBLAS/stage/lib/libhipblaslt.so.1.0#0`
    code that an archive lacks (2)
      error   RW310 missing-kernels: `_rocm_sdk_libraries/lib/librocblas.so.5`: the archives for `gfx1100` lack `math-libs/BLAS/rocBLAS/stage/lib/librocblas.so.5.1#1`
    a variant that hides the code that works
      warning RW306 empty-variant: `_rocm_sdk_libraries/lib/libhipblaslt.so.1`: a runtime that asks one archive only finds no `math-libs/BLAS/rocBLAS/stage/lib/libhipblaslt.so.1.0#0` for `gfx942:xnack+`
    a variant that hides the code that works (2)
      warning RW306 empty-variant: `_rocm_sdk_libraries/.kpack/blas_lib_gfx942:xnack+.kpack`: 211 bytes, where the plain variant has 98863
      warning RW312 unasked-archive: `_rocm_sdk_libraries/.kpack/blas_lib_gfx942:xnack+.kpack`: it holds nothing
    what is no archive
      error   RW303 uncovered-library: `libhipblaslt.so.1.0` has code for gfx942, but none for gfx1100
      error   RW303 uncovered-library: `librccl.so.1.0` has code for gfx942, but none for gfx1100
      error   RW303 uncovered-library: `librocblas.so.5.1` has code for gfx942, but none for gfx1100
      error   RW311 unreadable-device-code: `_rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack`: not an archive of device code
      error   RW311 unreadable-device-code: `_rocm_sdk_libraries/.kpack/rccl_lib_gfx1100.kpack`: the contents lies outside of what holds it: 0 bytes at 32850 of 9000
      error   RW311 unreadable-device-code: `_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx1100.co`: the compressed bundle lies outside of what holds it: 8309 bytes at 0 of 40
    an archive that no library asks for
      warning RW312 unasked-archive: `_rocm_sdk_libraries/.kpack/blas_lib_gfx942-xnack+.kpack`: no library uses `math-libs/BLAS/rocBLAS/stage/lib/libhipblaslt.so.1.0#0` or its other code
    code under a name that its library does not ask for is lost
      error   RW315 lost-device-code: `_rocm_sdk_libraries/.kpack/blas_lib_1_gfx1100.kpack`: no library looks for `math-libs/BLAS/rocBLAS/stage/lib/libhipblaslt.so.1.0#0`, `math-libs/BLAS/rocBLAS/stage/lib/librocblas.so.5.1#0` and 1 more in it, and no other archive has it
    code of a unit that its library does not have is lost
      error   RW315 lost-device-code: `_rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack`: no library looks for `math-libs/BLAS/rocBLAS/stage/lib/librocblas.so.5.1#7` in it, and no other archive has it
    code that needs xnack is no code for the target itself
      error   RW314 only-with-xnack: `libhipblaslt.so.1.0` has code for `gfx942:xnack+`, but none for `gfx942` itself
      error   RW314 only-with-xnack: `librocblas.so.5.1` has code for `gfx942:xnack+`, but none for `gfx942` itself
      error   RW314 only-with-xnack: `rocblas` has code for `gfx942:xnack+`, but none for `gfx942` itself
    code that needs xnack is no code for the target itself (2)
      error   RW303 uncovered-library: `libhipblaslt.so.1.0` has code for gfx1100, but none for gfx942
      error   RW314 only-with-xnack: `librocblas.so.5.1` has code for `gfx942:xnack+`, but none for `gfx942` itself
      error   RW310 missing-kernels: `_rocm_sdk_libraries/lib/libhipblaslt.so.1`: the archives for `gfx942:xnack+` lack `math-libs/BLAS/rocBLAS/stage/lib/libhipblaslt.so.1.0#0`
    code of another target is found under any file name
      error   RW303 uncovered-library: `librccl.so.1.0` has code for gfx1100, but none for gfx942
      error   RW301 foreign-device-file: `_rocm_sdk_libraries/.kpack/rccl_lib_gfx942.kpack`: it holds code for `gfx90a`, in the package of `gfx942`
      error   RW301 foreign-device-file: `_rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx942.hsaco`: it holds code for `gfx90a`, in the package of `gfx942`
      error   RW301 foreign-device-file: `_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx942.co`: it holds code for `gfx950`, in the package of `gfx942`
    databases that a library can do without are no gap
      error   RW303 uncovered-library: `rocfft` has code for gfx942, but none for gfx1100
    ");
}

/// The sample with the wheel of gfx1100 as one of gfx1250, in which each archive has the code of these targets.
fn shared_wheel<'a>(targets: impl Fn(&str) -> &'a [&'a str]) -> Set {
    let set = Set::new();
    set.remove(GFX942);
    set.edit(GFX1100, |members| {
        let mut all = Members::new();
        for (path, mode, bytes) in members.drain(..) {
            if path.contains("/.devel_links/") {
                let list = String::from_utf8(bytes).unwrap().replace("gfx1100", "gfx1250");
                all.push((path.replace("gfx1100", "gfx1250"), mode, list.into()));
            } else if path.ends_with(".kpack") {
                for target in targets(&path) {
                    let bytes = rebuilt(&bytes, |_| true, target);
                    all.push((path.replace("gfx1100", target), mode, bytes));
                }
            } else if path.contains(".dist-info/") {
                all.push((path, mode, bytes));
            }
        }
        *members = all;
        links(members, Vec::clear);
        let paths = members.iter().map(|it| it.0.clone());
        let archives: Vec<String> = paths.filter(|it| it.ends_with(".kpack")).collect();
        for path in archives {
            let name = path.strip_prefix("_rocm_sdk_libraries/").unwrap();
            links(members, |links| {
                let target = format!("../../{path}");
                links.push(json!({ "relpath": name, "target": target }));
            });
        }
    });
    set.rename(GFX1100, "gfx1100", "gfx1250");
    super::broken::edits::promise(&set, "gfx1100", "gfx1250");
    set
}

#[test]
fn targets_of_one_wheel_are_complete_each_for_itself() {
    let both = ["gfx1250", "gfx1250-strict"];
    let shared = |targets: &[&str], required: &str| {
        let set = shared_wheel(|_| targets);
        set.found(&["--select", "RW3", "--require-targets", required])
    };
    assert_eq!(shared(&both, "gfx1250,gfx1250-strict"), "exit 0\n");
    insta::assert_snapshot!(shared(&both[..1], "gfx1250-strict"), @"
    exit 1
    the set
      error   RW304 required-target: no code for `gfx1250-strict` in its device wheel
    ");
    insta::assert_snapshot!(shared(&both[1..], "gfx1250"), @"
    exit 1
    the set
      error   RW304 required-target: no code for `gfx1250` in its device wheel
    ");
}

/// Beside wheels for Windows, which have nothing of that target.
#[test]
fn a_target_that_is_asked_for_is_complete_in_the_part_that_has_it() {
    let both = ["gfx1250", "gfx1250-strict"];
    let set = shared_wheel(|path| &both[..if path.contains("rccl") { 1 } else { 2 }]);
    super::windows::for_windows(&set, "rocm_sdk_core", |_| ());
    let asked = "--select RW303,RW304 --require-targets gfx1250-strict";
    let asked: Vec<&str> = asked.split(' ').collect();
    insta::assert_snapshot!(set.found(&asked), @"
    exit 1
    rocm_sdk_device_gfx1250.whl
      error   RW303 uncovered-library: `librccl.so.1.0` has code for gfx1250, but none for gfx1250-strict
    ");
}

#[test]
fn a_library_with_its_code_still_in_it_is_found() {
    let code = bundles::raw(&[("gfx942", vec![1; 9000]), ("gfx90a", vec![1; 9000])]);
    let fat = SharedObject::new("libfat.so.1").function("fat", 1);
    let fat = fat.device_code(&code, &[0], DeviceRelocations::Rela).build();
    let set = Set::new();
    set.edit(LIBRARIES, |members| {
        add(members, "_rocm_sdk_libraries/lib/libfat.so.1", fat);
    });
    insta::assert_snapshot!(set.found(&[]), @"
    exit 1
    rocm_sdk_device_gfx1100.whl
      error   RW303 uncovered-library: `libfat.so.1` has code for gfx942, but none for gfx1100
    rocm_sdk_libraries.whl
      warning RW307 device-file-in-host-wheel: `_rocm_sdk_libraries/lib/libfat.so.1`: it still carries its device code, for gfx90a, gfx942
    ");
}

#[test]
fn a_key_may_say_anything() {
    let set = Set::new();
    set.edit(GFX942, |members| {
        let (long, odd) = ("../../x#18446744073709551616", "a\n::error::b\u{1b}[31m#0");
        let names = ["#", "", "/", odd, long];
        let bytes = stored(&names.map(|name| (name, "gfx942", &b"code"[..])));
        add_file(members, ".kpack/x_gfx942.kpack", bytes);
    });
    insta::assert_snapshot!(set.found(&[]), @"
    exit 1
    rocm_sdk_device_gfx1100.whl
      error   RW303 uncovered-library: `(unnamed)` has code for gfx942, but none for gfx1100
      error   RW303 uncovered-library: `a�::error::b�[31m` has code for gfx942, but none for gfx1100
      error   RW303 uncovered-library: `x` has code for gfx942, but none for gfx1100
    rocm_sdk_device_gfx942.whl
      warning RW312 unasked-archive: `_rocm_sdk_libraries/.kpack/x_gfx942.kpack`: no library uses `` or its other code
    ");
    let json = set.check(&["--format", "json", "-q"]).stdout;
    let answer: Value = serde_json::from_str(&json).unwrap();
    let rows = answer["coverage"]["libraries"].as_object().unwrap();
    let names: Vec<&str> = rows.keys().map(String::as_str).collect();
    insta::assert_snapshot!(names.join("\n"), @"
    (unnamed)
    a�::error::b�[31m
    libhipblaslt.so.1.0
    librccl.so.1.0
    librocblas.so.5.1
    rocblas
    x
    ");
}

#[test]
fn hrx_reads_less_than_hip() {
    let set = Set::new();
    set.edit(GFX942, |members| {
        let long = format!("{}#0", "k".repeat(1022));
        for (file, key, code) in
            [("empty", "k#0", &b""[..]), ("long", &long, b"code"), ("x", "k#0", b"code")]
        {
            add_file(
                members,
                &format!(".kpack/{file}_gfx942.kpack"),
                stored(&[(key, "gfx942", code)]),
            );
        }
    });
    insta::assert_snapshot!(set.found(&["--select", "RW319"]), @"
    exit 0
    rocm_sdk_device_gfx942.whl
      warning RW319 unread-by-hrx: `_rocm_sdk_libraries/.kpack/empty_gfx942.kpack`: `k#0` for `gfx942` has 0 B, not 1 B to 256.00 MiB
      warning RW319 unread-by-hrx: `_rocm_sdk_libraries/.kpack/long_gfx942.kpack`: a key of 1024 bytes, at most 1023: `kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…`
    ");
}

#[test]
fn a_damaged_library_among_the_development_files_is_found_and_no_archive_is_called_unused() {
    let set = Set::new();
    let mut library = Vec::new();
    set.edit(LIBRARIES, |members| {
        let index = members.iter().position(|it| it.0.ends_with("lib/librccl.so.1")).unwrap();
        library = members.remove(index).2;
    });
    replace_bytes(&mut library, b"HIPK\x01\0\0\0", b"HIPK\x02\0\0\0");
    edits::tree(&set, |entries| rewrite(entries, "rocprim-config.cmake", &library));
    insta::assert_snapshot!(set.found(&["--select", "RW308,RW311,RW312"]), @"
    exit 1
    rocm_sdk_devel.whl
      error   RW308 broken-kpack-reference: `_rocm_sdk_devel/lib/cmake/rocprim/rocprim-config.cmake`: a wrapper of an unknown kind: at 0x130c8
    ");
}
